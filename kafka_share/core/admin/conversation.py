"""What an operation and the machine that runs it give to each other.

An operation is a generator. It yields an `Ask` and gets one reply per question, in their order; or it yields a `Pause`
and gets nothing. Replies are response messages or exceptions; the operation decides what they mean and what to ask
next, and returns its result or raises what concerns the whole call. Time comes from `Call`, which the machine keeps up
to date. After the deadline every question is answered with `OperationTimeoutError` at once, so that an operation can
still return what it has.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Generator, Sequence
from typing import TypeAlias, TypeVar

import attrs

from kafka_share.core.backoff import Backoff
from kafka_share.core.events import Message
from kafka_share.errors import KafkaShareError, OperationTimeoutError
from kafka_share.records import Node

T = TypeVar("T")


@attrs.frozen
class Question:
    """One request: to `node`, or to whichever broker is at hand if that is None."""

    request: Message
    node: Node | None = None
    min_version: int = 0


@attrs.frozen
class Ask:
    """Send all of these at once; go on when each has its answer or its failure."""

    questions: tuple[Question, ...]


@attrs.frozen
class Pause:
    """Go on at this time, or at the deadline of the call if that is earlier."""

    until_ms: int


Reply: TypeAlias = "Message | KafkaShareError"
Step: TypeAlias = "Ask | Pause"
Conversation: TypeAlias = Generator[Step, Sequence[Reply], T]
Operation: TypeAlias = "Callable[[Call], Conversation[T]]"
"""An operation whose arguments have been checked, ready to be run."""


class Call:
    """What an operation knows about its run: the time, its deadline, and how long to wait before it tries again."""

    def __init__(self, started_at_ms: int, deadline_at_ms: int, backoff: Backoff) -> None:
        self.now_ms = started_at_ms
        self.deadline_at_ms = deadline_at_ms
        self._timeout_ms = deadline_at_ms - started_at_ms
        self._backoff = backoff

    @classmethod
    def begin(cls, now_ms: int, timeout_ms: int, backoff_ms: int, backoff_max_ms: int, source: random.Random) -> Call:
        return cls(now_ms, now_ms + timeout_ms, Backoff(backoff_ms, backoff_max_ms, source))

    def is_over(self) -> bool:
        return self.now_ms >= self.deadline_at_ms

    def pause(self) -> Pause:
        """Before trying again; each pause of a call is longer than the one before."""
        self._backoff.failed(self.now_ms)
        return Pause(self._backoff.ready_at_ms)

    def timed_out(self, last: KafkaShareError | None = None) -> OperationTimeoutError:
        """The error of what is not done at the deadline; `last` is what stood in the way."""
        reason = "" if last is None else f"; the last trouble was: {last}"
        error = OperationTimeoutError(f"not done within {self._timeout_ms} ms{reason}")
        error.__cause__ = last
        return error
