"""HeldRecords: the records of one lease, and how their locks stand.

Made by the lease desk, used by it and by the member. Thousands of records have a handful of locks (one for each fetched
partition), so locks are asked once for all their records. It changes nothing and sends nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter

from kafka_share.locks import AcquisitionLock
from kafka_share.records import ShareRecord

_offset_of = attrgetter("offset")


class HeldRecords:
    """`records` in the order in which they were acquired."""

    def __init__(self, records: Sequence[ShareRecord]) -> None:
        self.records: Sequence[ShareRecord] = records
        by_lock: dict[AcquisitionLock | None, list[ShareRecord]] = {}
        for record in records:
            by_lock.setdefault(record.lock, []).append(record)
        self._by_lock = [(lock, here, list(map(_offset_of, here))) for lock, here in by_lock.items()]

    def __len__(self) -> int:
        return len(self.records)

    def lost(self) -> list[ShareRecord]:
        """Those whose lock is known to be lost."""
        found: list[ShareRecord] = []
        for lock, here, offsets in self._by_lock:
            lost = set(lock.lost_among(offsets)) if lock is not None else ()
            if lost:
                found += [record for record in here if record.offset in lost]
        return found

    def held(self) -> Sequence[ShareRecord]:
        """The others."""
        lost = {(record.lock, record.offset) for record in self.lost()}
        return [record for record in self.records if (record.lock, record.offset) not in lost] if lost else self.records
