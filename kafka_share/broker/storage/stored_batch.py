"""Record batches as they lie in a log, and spans of neighbouring ones. Made by `log`; whoever reads a log gets them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import Final, overload

import attrs


@attrs.frozen
class StoredBatch:
    """One record batch as it lies in the log: `data` has the final offsets, leader epoch and CRC in it."""

    base_offset: int
    last_offset: int
    max_timestamp: int
    data: bytes
    is_control: bool
    is_transactional: bool
    producer_id: int
    appended_at_ms: int


class BatchSpan(Sequence[StoredBatch]):
    """Neighbouring batches of a log, as they lie there: none is copied, however many they are.

    To be used before the log changes. `size_bytes` is that of all of them together.
    """

    __slots__ = ("_batches", "_indexes", "size_bytes")

    def __init__(self, batches: Sequence[StoredBatch], first: int, stop: int, size_bytes: int) -> None:
        self.size_bytes: int = size_bytes
        self._batches = batches
        self._indexes = range(first, stop)

    def __len__(self) -> int:
        return len(self._indexes)

    @overload
    def __getitem__(self, index: int) -> StoredBatch: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[StoredBatch]: ...
    def __getitem__(self, index: int | slice) -> StoredBatch | Sequence[StoredBatch]:
        found = self._indexes[index]
        if isinstance(found, int):
            return self._batches[found]
        return [self._batches[at] for at in found]

    def __iter__(self) -> Iterator[StoredBatch]:
        batches = self._batches
        for index in self._indexes:
            yield batches[index]

    def at_or_before(self, offset: int) -> int:
        """The index of the last batch that begins at the offset or before it; -1 if all begin behind it."""
        first, stop = self._indexes.start, self._indexes.stop
        return bisect_right(self._batches, offset, first, stop, key=_base_offset) - 1 - first


_base_offset: Final = attrgetter("base_offset")
NO_BATCHES: Final = BatchSpan((), 0, 0, 0)
