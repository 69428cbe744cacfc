"""Holds interrupts back while a call of the blocking façade is between two steps that belong together.

Ctrl-C raises `KeyboardInterrupt` between any two steps of the main thread: between taking acknowledgements out of the
books and handing them to the network thread they would be lost. So the handlers of such signals wait while a call runs,
except where it waits itself or runs code of the application. Used by `kafka_share.consumer`; knows nothing of Kafka.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any, Final

from kafka_share.deserializers import Deserializer, Headers

_PACKAGE: Final = str(Path(__file__).parent.parent)
SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
"""Those that stop programs. The second only matters if the program has a handler for it, which may raise."""


class Interrupts:
    """A context manager for each call of one consumer: inside it the handlers of `SIGNALS` wait.

    Those of signals that arrived meanwhile run at the end of the block, and where it is `waiting`; they may raise. Does
    nothing outside of the main thread, where Python runs no handlers. A call inside a call changes nothing.
    """

    def __init__(self) -> None:
        self._handlers: dict[int, Callable[[int, FrameType | None], Any]] = {}
        self._arrived: list[tuple[int, FrameType | None]] = []
        self._depth = 0
        self._is_waiting = False
        self._is_outside = False

    def __enter__(self) -> None:
        if not _is_main_thread():
            return
        if self._depth == 0:
            self._is_waiting = self._is_outside = False  # where a handler raised at the end of a block, they were left
            try:
                self._handlers = {}
                for number in SIGNALS:
                    handler = signal.getsignal(number)
                    if callable(handler):
                        self._handlers[number] = handler
                        signal.signal(number, self._note)
            except BaseException:  # an interrupt that came before its handler was replaced
                self._restore(list(self._handlers))
                raise
        self._depth += 1

    def __exit__(self, *_: object) -> None:
        if not _is_main_thread():
            return
        self._depth -= 1
        if self._depth == 0:
            try:
                self._restore(list(self._handlers))
            finally:
                self.handle_arrived()

    def _restore(self, numbers: list[int]) -> None:
        """One after the other, each even if the handler of the one before has raised."""
        if not numbers:
            return
        number = numbers.pop()
        try:
            present = signal.signal(number, self._handlers[number])
            if present != self._note:
                signal.signal(number, present)  # the application has set another one meanwhile
        finally:
            self._restore(numbers)

    def _note(self, number: int, frame: FrameType | None) -> None:
        in_our_code = frame is not None and frame.f_code.co_filename.startswith(_PACKAGE)
        if self._is_waiting or (self._is_outside and not in_our_code):
            self._handlers[number](number, frame)
        else:
            self._arrived.append((number, frame))

    def handle_arrived(self) -> None:
        """Run the handlers of what has arrived; may raise, as they do."""
        while self._arrived:
            number, frame = self._arrived.pop(0)
            self._handlers[number](number, frame)

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """Handlers run at once in this block, those of what has arrived before, too: it waits, and takes nothing."""
        if not self._handlers:
            yield
            return
        try:
            self._is_waiting = True
            self.handle_arrived()
            yield
        finally:
            self._is_waiting = False

    def run_outside(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function of the application; handlers run at once while it runs, but not before and not after."""
        if not self._handlers:
            return function(*arguments)
        was_outside = self._is_outside
        try:
            self._is_outside = True
            return function(*arguments)
        finally:
            self._is_outside = was_outside

    def interruptible(self, deserializer: Deserializer | None) -> Deserializer | None:
        """The same deserializer, which can be interrupted while it runs."""
        return None if deserializer is None else _Interruptible(deserializer, self)


class _Interruptible:
    __slots__ = ("_deserialize", "_interrupts")

    def __init__(self, deserializer: Deserializer, interrupts: Interrupts) -> None:
        self._deserialize = deserializer.deserialize
        self._interrupts = interrupts

    def deserialize(self, topic: str, headers: Headers, data: bytes | None) -> Any:
        self._interrupts.handle_arrived()  # none is lost here, and it may be long until the next wait
        return self._interrupts.run_outside(self._deserialize, topic, headers, data)


def _is_main_thread() -> bool:
    return threading.get_ident() == threading.main_thread().ident
