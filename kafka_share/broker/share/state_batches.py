"""The rule by which a write to a share state is merged over what is stored, and what is stored under that rule.

Called by the share coordinator, once for each acknowledgement: the cost must not grow with what is stored elsewhere.
Knows offsets, states and counts only: neither states nor offsets are checked for
sense, because Kafka's coordinator does not check them either.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


class UnmergeableError(Exception):
    """A batch that ends before it begins cannot be laid over another one. Kafka 4.1 to 4.3 never end trying."""


class StateBatch(NamedTuple):
    """Neighbouring offsets in one delivery state with one delivery count. Inclusive at both ends."""

    first: int
    last: int
    state: int
    delivery_count: int

    @property
    def strength(self) -> tuple[int, int]:
        """What decides between two batches for the same offsets."""
        return self.delivery_count, self.state


def _first(batch: StateBatch) -> int:
    return batch.first


def _last(batch: StateBatch) -> int:
    return batch.last


class StoredBatches:
    """What a share state holds: `merge` does what `merge_state_batches` says, and looks only at what that concerns."""

    def __init__(self, batches: Iterable[StateBatch] = ()) -> None:
        self._batches: list[StateBatch] = list(batches)
        self._is_plain = _are_plain(self._batches)
        """Whether the batches ascend, and no neighbours agree that the next merge has to join, wherever it is."""

    def __iter__(self) -> Iterator[StateBatch]:
        return iter(self._batches)

    def merge(self, written: Sequence[StateBatch], start_offset: int) -> None:
        """Merge what was written, and cut everything at `start_offset` (-1: do not cut)."""
        low, high = self._concerned(written)
        if high - low < len(self._batches):
            self._cut_front(start_offset)
            low, high = self._concerned(written)
        merged = merge_state_batches(self._batches[low:high], written, start_offset)
        self._batches[low:high] = merged
        self._is_plain = _are_plain(merged)

    def check_mergeable(self, written: Sequence[StateBatch], start_offset: int) -> None:
        """Raises `UnmergeableError` if `merge` would."""
        if not self._is_plain or any(batch.first > batch.last for batch in written):
            merge_state_batches(self._batches, written, start_offset)

    def _concerned(self, written: Sequence[StateBatch]) -> tuple[int, int]:
        """The indexes from the first batch that overlaps or touches what was written to behind the last one."""
        if not self._is_plain or not written or any(batch.first > batch.last for batch in written):
            return 0, len(self._batches)
        low = bisect_left(self._batches, min(batch.first for batch in written) - 1, key=_last)
        return low, bisect_right(self._batches, max(batch.last for batch in written) + 1, lo=low, key=_first)

    def _cut_front(self, start_offset: int) -> None:
        del self._batches[: bisect_left(self._batches, start_offset, key=_last)]
        if self._batches:
            self._batches[0] = _cut(self._batches[0], start_offset)


def merge_state_batches(
    stored: Sequence[StateBatch], written: Sequence[StateBatch], start_offset: int
) -> tuple[StateBatch, ...]:
    """Both together, cut at `start_offset` (-1: not cut), ascending and without overlap.

    Where two overlap the higher delivery count wins, and at equal counts the higher state: not the later write.
    Neighbours that agree in state and count are joined, unless the second came to agree in this very merge: the next
    one joins them. (Kafka 4.3: `PersisterStateBatchCombiner`.) Raises `UnmergeableError`.
    """
    if not stored and len(written) == 1 and (start_offset < 0 or written[0].first >= start_offset):
        return tuple(written)
    heap = [
        (batch.first, batch.last, batch.strength)
        for batch in (_cut(batch, start_offset) for batch in (*stored, *written))
        if start_offset < 0 or batch.last >= start_offset
    ]
    heapq.heapify(heap)
    merged: list[StateBatch] = []
    while heap:
        first, last, strength = heapq.heappop(heap)
        if heap and (heap[0][0] <= last or (heap[0][0] == last + 1 and heap[0][2] == strength)):
            for piece in _resolved((first, last, strength), heapq.heappop(heap)):
                heapq.heappush(heap, piece)
        else:
            count, state = strength
            merged.append(StateBatch(first, last, state, count))
    return tuple(merged)


_Piece = tuple[int, int, tuple[int, int]]


def _are_plain(batches: Sequence[StateBatch]) -> bool:
    return all(batch.first <= batch.last for batch in batches) and not any(
        before.last + 1 == after.first and before.strength == after.strength for before, after in pairwise(batches)
    )


def _cut(batch: StateBatch, start_offset: int) -> StateBatch:
    return batch if start_offset < 0 or batch.first >= start_offset else batch._replace(first=start_offset)


def _resolved(one: _Piece, other: _Piece) -> list[_Piece]:
    """Two pieces that overlap, or touch and agree, as pieces that do not; `other` does not begin before `one`."""
    first, last, strength = one
    other_first, other_last, other_strength = other
    if strength == other_strength:
        return [(first, max(last, other_last), strength)]
    if other_strength < strength:
        return [one] if other_last <= last else [one, (last + 1, other_last, other_strength)]
    if other_last + 1 < other_first:
        raise UnmergeableError(f"{other_first} to {other_last} ends before it begins, and overlaps another batch")
    pieces = [other]
    if first < other_first:
        pieces.append((first, other_first - 1, strength))
    if last > other_last:
        pieces.append((other_last + 1, last, strength))
    return pieces
