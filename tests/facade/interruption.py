"""Interrupts a call of the package at one exact line or instruction, after a first run has listed those it comes to.

For tests/facade/test_interrupts.py. One run for each place is much, so a run is traced in the one function that holds
its place.
"""

from __future__ import annotations

import dis
import functools
import gc
import sys
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final, Self

import attrs

import kafka_share

PACKAGE: Final = str(Path(kafka_share.__file__).parent)
TIMES_AT_A_PLACE: Final = 2
"""A line of a loop is interrupted in its first rounds only: those that follow are like them."""
TraceFunction = Callable[[FrameType, str, Any], Any]
_RETURNS: Final = ("RETURN_VALUE", "RETURN_CONST")
_TESTS: Final = str(Path(__file__).parent)
_CALLS: Final = ("consumer.py", "facade.py")
"""The files of the façades."""


@attrs.frozen
class Moment:
    """The `visit`th time, from 1, that a run comes to one place of one function."""

    code: CodeType
    offset: int
    visit: int

    def __str__(self) -> str:
        line = next(
            found.positions.lineno
            for found in dis.get_instructions(self.code)
            if found.offset == self.offset and found.positions is not None
        )
        return f"{self.code.co_filename}:{line}, time {self.visit}"

    @property
    def place(self) -> tuple[int, int]:
        """For sets: the code itself takes long to hash."""
        return id(self.code), self.offset


class Tracing:
    """Traces the package's code in this block, and finalizers of other consumers stay out of it."""

    def __init__(self, *, by_instruction: bool) -> None:
        self._event = "opcode" if by_instruction else "line"

    def __enter__(self) -> Self:
        self._before = sys.gettrace()
        gc.disable()
        sys.settrace(self._call)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(self._before)
        gc.enable()

    def _call(self, frame: FrameType, event: str, arg: Any) -> TraceFunction | None:
        raise NotImplementedError


class Recording(Tracing):
    """Lists the moments of the package's code in this block that can be interrupted, in their order."""

    def __init__(self, *, by_instruction: bool = False) -> None:
        super().__init__(by_instruction=by_instruction)
        self.moments: list[Moment] = []
        self._visits: dict[tuple[int, int], int] = {}

    def _call(self, frame: FrameType, event: str, arg: Any) -> TraceFunction | None:
        if not (frame.f_code.co_filename.startswith(PACKAGE) and _is_of_a_call(frame)):
            return None
        frame.f_trace_opcodes = self._event == "opcode"
        return self._look

    def _look(self, frame: FrameType, event: str, arg: Any) -> TraceFunction:
        code, offset = frame.f_code, frame.f_lasti
        if event == self._event and not (event == "opcode" and offset in _returns(code)):
            visit = self._visits.get((id(code), offset), 0) + 1
            self._visits[id(code), offset] = visit
            if visit <= TIMES_AT_A_PLACE:
                self.moments.append(Moment(code, offset, visit))
        return self._look


class Interruption(Tracing):
    """Raises KeyboardInterrupt at one moment of this block."""

    def __init__(self, moment: Moment, *, by_instruction: bool = False) -> None:
        super().__init__(by_instruction=by_instruction)
        self.has_struck = False
        self._code = moment.code
        self._offset = moment.offset
        self._left = moment.visit

    def _call(self, frame: FrameType, event: str, arg: Any) -> TraceFunction | None:
        if frame.f_code is not self._code or not _is_of_a_call(frame):
            return None
        frame.f_trace_opcodes = self._event == "opcode"
        return self._look

    def _look(self, frame: FrameType, event: str, arg: Any) -> TraceFunction:
        if event == self._event and frame.f_lasti == self._offset:
            self._left -= 1
            if self._left == 0:
                self.has_struck = True
                raise KeyboardInterrupt
        return self._look


def _is_of_a_call(frame: FrameType) -> bool:
    """Not what a test calls that is no call of a façade, such as a method of a record."""
    caller = frame.f_back
    of_a_test = caller is not None and caller.f_code.co_filename.startswith(_TESTS)
    return not of_a_test or frame.f_code.co_filename.endswith(_CALLS)


@functools.cache
def _returns(code: CodeType) -> frozenset[int]:
    """The places where a result is handed to the caller, which no interrupt reaches.

    Python looks for signals where a function begins, behind a call and at a jump back, never between a result and its
    return; no `except` of the function covers that place either.
    """
    return frozenset(found.offset for found in dis.get_instructions(code) if found.opname in _RETURNS)
