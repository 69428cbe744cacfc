"""What clients were answered while brokers were killed, and what has to be true ever after.

`KillAccount` is told what was sent, answered and delivered, by several threads; it knows no broker. `complaints` is
what has to stay empty. A request that was sent and not answered may have had its effect, or not: nothing is demanded of
it.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeAlias

import attrs

Place: TypeAlias = tuple[int, int]
"""Partition and offset."""
_NOT_DELIVERED: Final = 0
NO_OFFSET: Final = -1
"""Nobody has committed one."""


@attrs.define
class _Record:
    """What is known of a record."""

    count: int = _NOT_DELIVERED
    """Of its last delivery."""
    stored_counts: set[int] = attrs.Factory(lambda: {0})
    """The counts that may be stored. An acquisition is not stored, so after a kill the next one has one more."""
    is_released: bool = False
    """The broker that is alive has answered a release, so its next delivery has one more than `count`."""
    accepted: bool = False
    maybe_accepted: bool = False


@attrs.define
class KillAccount:
    """The account of one run."""

    complaints: list[str] = attrs.Factory(list)
    values: dict[Place, bytes] = attrs.Factory(dict)
    """What producers were told is there."""
    topics: dict[str, bool] = attrs.Factory(dict)
    """Topics that an admin was told of: whether they are there or were deleted."""
    transactions: dict[int, bool | None] = attrs.Factory(dict)
    """Number -> committed or aborted, None if that was not answered. One that is not here was not to be ended."""
    sent_offset: int = NO_OFFSET
    """The last one of a row of commits."""
    committed_offset: int = NO_OFFSET
    """The last one that was answered."""
    numbers: Counter[str] = attrs.Factory(Counter)
    _records: dict[Place, _Record] = attrs.Factory(dict)
    _lock: threading.Lock = attrs.Factory(threading.Lock)

    def _record(self, place: Place) -> _Record:
        return self._records.setdefault(place, _Record())

    def produced(self, partition: int, base_offset: int, values: Iterable[bytes]) -> None:
        """A producer was answered."""
        with self._lock:
            for offset, value in enumerate(values, base_offset):
                if self.values.setdefault((partition, offset), value) != value:
                    self.complaints.append(f"{partition}@{offset} was given to two records")
                self.numbers["produced"] += 1

    def delivered(self, place: Place, value: bytes | None, count: int) -> None:
        """A consumer got a record."""
        with self._lock:
            record = self._record(place)
            self.numbers["delivered"] += 1
            self.numbers["delivered again"] += record.count > 0
            if record.accepted:
                self.complaints.append(f"{place} came again, after its acknowledgement was answered")
            if self.values.get(place, value) != value:
                self.complaints.append(f"{place} came with another value: {value!r}")
            allowed = {record.count + 1} if record.is_released else {one + 1 for one in record.stored_counts}
            if count not in allowed:
                self.complaints.append(f"{place} came with the count {count}, not {sorted(allowed)}")
            record.count, record.is_released = count, False

    def sent(self, place: Place, kind: str, count: int) -> None:
        """An acknowledgement of the delivery with this count is on its way."""
        with self._lock:
            record = self._record(place)
            if kind == "ACCEPT":
                record.maybe_accepted = True
            else:
                record.stored_counts.add(count)

    def answered(self, place: Place, kind: str, count: int) -> None:
        """It was answered without an error. Another consumer may have got the record before we heard of that."""
        with self._lock:
            record = self._record(place)
            self.numbers["accepted" if kind == "ACCEPT" else "released"] += 1
            if kind == "ACCEPT":
                record.accepted = True
            else:
                record.stored_counts = {one for one in record.stored_counts if one >= count}
                record.is_released = record.count == count

    def killed(self) -> None:
        """The broker is dead, and whoever waited for an answer gets none."""
        with self._lock:
            self.numbers["kills"] += 1
            for record in self._records.values():
                record.is_released = False

    # ---- at the end

    def outstanding(self) -> set[Place]:
        """Records that somebody has to get: their producer was answered, and nobody may have accepted them."""
        with self._lock:
            return {place for place in self.values if not self._record(place).maybe_accepted}

    def accepted(self) -> list[Place]:
        return [place for place, record in self._records.items() if record.accepted]

    def compare_log(self, found: Mapping[Place, bytes | None]) -> None:
        """What lies in the log at the end."""
        for place, value in self.values.items():
            if found.get(place) != value:
                self.complaints.append(f"{place} is lost: {value!r} was answered, {found.get(place)!r} is there")

    def compare_transactions(self, found: Sequence[Sequence[int]]) -> None:
        """`found` has the numbers of the transactions that are committed in each partition."""
        for number, committed in self.transactions.items():
            there = {partition.count(number) for partition in found}
            expected = {None: ({0}, {1}), True: ({1},), False: ({0},)}[committed]
            if there not in expected:
                self.complaints.append(f"transaction {number} ({committed=}) is there {sorted(there)} times")
        if strangers := {number for partition in found for number in partition} - self.transactions.keys():
            self.complaints.append(f"transactions {sorted(strangers)} were not ended")

    def compare_offset(self, found: int) -> None:
        """The committed offset at the end."""
        if not self.committed_offset <= found <= self.sent_offset:
            self.complaints.append(f"offset {self.committed_offset} was committed, and {found} is there")

    def compare_topics(self, found: Iterable[str]) -> None:
        there = set(found)
        for name, exists in self.topics.items():
            if exists != (name in there):
                self.complaints.append(f"topic {name} {'is lost' if exists else 'was deleted, and is there'}")
