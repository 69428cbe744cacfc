"""Produce requests whose records take longer to check than one turn: they wait here, and one of them works at a time.

Filled by the produce handler; `BrokerMachine` gives it a turn with every poll. So a request that decompresses for
seconds holds up only what comes behind it on its own connection, and others of its kind.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, TypeVar

import attrs

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from kafka_share.broker.events import Message, RequestContext

T = TypeVar("T")

_AT_ONCE_MS = 0
"""When there is work: the driver is to come back as soon as others have had their turn."""


@attrs.frozen(eq=False)
class _Waiting:
    context: RequestContext
    checking: Generator[None, None, Any]
    finish: Callable[[Any, int], Message]


class ProduceQueue:
    """Oldest first."""

    def __init__(self) -> None:
        self._waiting: deque[_Waiting] = deque()

    def begin(
        self,
        context: RequestContext,
        checking: Generator[None, None, T],
        finish: Callable[[T, int], Message],
        now_ms: int,
    ) -> Message | None:
        """Do the first turn of `checking`. If that was all, returns what `finish` makes of its result; else None."""
        waiting = _Waiting(context, checking, finish)
        answer = _one_turn(waiting, now_ms)
        if answer is None:
            self._waiting.append(waiting)
        return answer

    def poll(self, now_ms: int) -> tuple[RequestContext, Message] | None:
        """Do one turn of the oldest; returns its answer if it is done."""
        if not self._waiting:
            return None
        oldest = self._waiting[0]
        answer = _one_turn(oldest, now_ms)
        if answer is None:
            return None
        self._waiting.popleft()
        return oldest.context, answer

    def wake_at_ms(self) -> int | None:
        """When `poll` has to run; None if nothing waits."""
        return _AT_ONCE_MS if self._waiting else None


def _one_turn(waiting: _Waiting, now_ms: int) -> Message | None:
    try:
        next(waiting.checking)
    except StopIteration as done:
        return waiting.finish(done.value, now_ms)
    return None
