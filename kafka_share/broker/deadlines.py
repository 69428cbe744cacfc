"""When something is due, for many keys at once: the next time is found without a look at all of them.

Used by the machines of the broker for whatever waits, lasts or expires. It knows no clock and calls nobody.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Final, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator

K = TypeVar("K")

_FEWEST_STALE: Final = 64
"""Less are not worth a clean-up."""


class Deadlines(Generic[K]):
    """Each key has one time, in milliseconds since 1970, or none."""

    def __init__(self) -> None:
        self._times: dict[K, tuple[int, int]] = {}
        """The time, and the number of the note that holds it."""
        self._notes: list[tuple[int, int, K]] = []
        """Heap of (time, number, key); a note is stale unless `_times` says the same."""
        self._number = 0

    def __len__(self) -> int:
        return len(self._times)

    def __contains__(self, key: K) -> bool:
        return key in self._times

    def at_ms(self, key: K) -> int | None:
        """When the key is due, None if it never is."""
        found = self._times.get(key)
        return None if found is None else found[0]

    def set(self, key: K, at_ms: int) -> None:
        """The key is due then, and no more when it was."""
        known = self._times.get(key)
        if known is not None and known[0] == at_ms:
            return
        self._number += 1
        self._times[key] = (at_ms, self._number)
        heapq.heappush(self._notes, (at_ms, self._number, key))
        if len(self._notes) > _FEWEST_STALE + 2 * len(self._times):
            self._notes = [(*noted, key) for key, noted in self._times.items()]
            heapq.heapify(self._notes)

    def discard(self, key: K) -> None:
        """The key is never due; it may have been so before."""
        self._times.pop(key, None)

    def first(self) -> tuple[int, K] | None:
        """The earliest time and its key, the one that was set first if there are several; None if nothing is due."""
        while self._notes:
            at_ms, number, key = self._notes[0]
            if self._times.get(key) == (at_ms, number):
                return at_ms, key
            heapq.heappop(self._notes)
        return None

    def next_at_ms(self) -> int | None:
        """The earliest time, None if nothing is due."""
        first = self.first()
        return None if first is None else first[0]

    def nothing_due(self, now_ms: int) -> bool:
        """Whether certainly no key is due by now. Looks at one number, since it is asked all the time."""
        return not self._notes or self._notes[0][0] > now_ms

    def take_due(self, now_ms: int) -> Iterator[K]:
        """The keys that are due by now, one after the other in the order of their times; they have no time any more.

        Those count too that get a time while one goes through them.
        """
        while not self.nothing_due(now_ms) and (first := self.first()) is not None and first[0] <= now_ms:
            self.discard(first[1])
            yield first[1]
