"""The acquisition locks of delivered records, as far as the client knows them.

Made when records are delivered, ended by the background side or by time, asked by `ShareRecord` on any thread. A flag
that only ever rises and single entries of dictionaries are all that threads share here, so nothing is locked.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Final, TypeAlias

from kafka_share.native import LockFacts

_NS_PER_MS: Final = 1_000_000

LockState: TypeAlias = "tuple[int, bool]"
"""When a lock ends, in milliseconds since 1970, and whether it is lost already."""

LONG_SPAN: Final = 10_000
"""So many offsets and more are kept by their ends: a broker may name millions in a few bytes."""


_BOOTTIME: int | None = getattr(time, "CLOCK_BOOTTIME", None)
_NO_SLEEP_S = 0.05
"""The two clocks are not read at the same moment."""


def slept_s() -> float:
    """How long the machine has slept since it was started, where locks are counted by a clock that includes it.

    By so much that clock is ahead of `time.monotonic`; never too little.
    """
    if _BOOTTIME is None:
        return 0.0
    before_s = time.monotonic()
    ahead_s = time.clock_gettime(_BOOTTIME) - before_s
    return ahead_s if ahead_s > _NO_SLEEP_S else 0.0


class DeliveryLimit:
    """How often the group's records are delivered at most, as far as the client knows. Set by its background side."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value: int | None = None


class LockGeneration:
    """All locks of one partition in one share session, up to what ends them together.

    The client's background side ends them: the session was reset or closed, or the partition has another leader.
    Whoever has a lock of this generation sees it at once, on any thread.
    """

    __slots__ = ("delivery_limit", "has_ended")

    def __init__(self, delivery_limit: DeliveryLimit | None = None) -> None:
        self.has_ended: bool = False
        self.delivery_limit: DeliveryLimit = DeliveryLimit() if delivery_limit is None else delivery_limit

    def __repr__(self) -> str:
        return f"<LockGeneration {'ended' if self.has_ended else 'open'}>"


class AcquisitionLock(LockFacts):
    """The acquisition lock that the records of one delivery of one partition share; a record asks it by its offset.

    Renewed and lost records part from the others. Made and changed by the consumer alone; read by any thread.
    Deadlines are milliseconds of the clock `now_ms`.
    """

    __slots__ = ()

    @property
    def delivery_limit(self) -> int | None:
        """How often the group's records are delivered at most; None: not known."""
        return self.generation.delivery_limit.value

    def deadline_of(self, offset: int) -> int:
        return self.renewed.get(offset, self.deadline_at_ms) if self.renewed else self.deadline_at_ms

    def remaining_ms(self, offset: int) -> int:
        """0 if the lock is lost."""
        return 0 if self._is_gone(offset) else max(0, self.deadline_of(offset) - self.now_ms())

    def least_remaining_ms(self, offsets: Iterable[int]) -> int:
        """Of the one that is lost first; 0 if one is."""
        if not self.is_whole:
            return min(map(self.remaining_ms, offsets))
        return 0 if self.generation.has_ended else max(0, self.deadline_at_ms - self.now_ms())

    def is_lost(self, offset: int) -> bool:
        if self.is_whole:  # as most locks are for ever
            return self.generation.has_ended or self.now_ms() >= self.deadline_at_ms
        return self._is_gone(offset) or self.now_ms() >= self.deadline_of(offset)

    def lost_among(self, offsets: Iterable[int]) -> list[int]:
        """Those whose lock is lost."""
        if self.is_whole:
            return list(offsets) if self.may_be_lost else []
        return [offset for offset in offsets if self.is_lost(offset)]

    def all_last(self, span_ms: int) -> bool:
        """Whether all records' locks are known to last longer than this, without a look at each."""
        return not self.renewed and self.deadline_at_ms - self.now_ms() > span_ms

    def ends_within(self, offsets: Iterable[int], span_ms: int) -> bool:
        """Whether one of these locks is about to end, and is not lost yet."""
        now_ms = self.now_ms()
        return any(not self._is_gone(offset) and 0 < self.deadline_of(offset) - now_ms <= span_ms for offset in offsets)

    def _is_gone(self, offset: int) -> bool:
        if self.generation.has_ended or (self.lost and offset in self.lost):
            return True
        return any(offset in span for span in self.lost_spans)

    def renew(self, first: int, last: int, deadline_at_ms: int) -> None:
        self.renewals().update(dict.fromkeys(range(first, last + 1), deadline_at_ms))

    def lose(self, first: int, last: int) -> None:
        if last - first < LONG_SPAN:
            self.losses().update(range(first, last + 1))
        else:
            self.lose_span(range(first, last + 1))

    def for_elsewhere(self, offset: int) -> LockState:
        """What is known now of the lock of one record, for another process."""
        return time.time_ns() // _NS_PER_MS + self.remaining_ms(offset), self.is_lost(offset)


def lock_from_elsewhere(state: LockState) -> AcquisitionLock:
    """The lock of a record that came from another process: it ends when that one does, or is lost already.

    What ends it earlier after the copy was made is not seen here. The clocks of two machines may differ.
    """
    ends_at_ms, is_lost = state
    remaining_ms = ends_at_ms - time.time_ns() // _NS_PER_MS
    generation = LockGeneration()
    generation.has_ended = is_lost
    return AcquisitionLock(_monotonic_ms() + remaining_ms, generation, _monotonic_ms)


def _monotonic_ms() -> int:
    return time.monotonic_ns() // _NS_PER_MS
