"""A share group on replayed partitions: what each member holds, and an account of all acknowledgements.

Used by the stub broker. It has no locks, no limits and no memory of what has been acknowledged: an offset is either
waiting, or held by one session, or done. Each acknowledgement of an offset that its session does not hold is counted
as wrong, so an account without wrong ones, in which nothing is held, says that each offset was acknowledged once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final, Protocol

import attrs
from performance.offset_ranges import OffsetRanges

RELEASE: Final = 2
RENEW: Final = 4
TYPES: Final = ("gap", "accepted", "released", "rejected", "renewed")
"""The name of each type of acknowledgement in an account, at its number on the wire."""

Acknowledgement = tuple[int, int, int, bytes]
"""(partition, first offset, last offset, types: one for all offsets or one for each)."""


class Batches(Protocol):
    """What is in each partition."""

    batch_records: int
    batch_bytes: int

    def run(self, first_offset: int, count: int) -> memoryview: ...


@attrs.define
class Acquired:
    """Batches of one partition, and the range of their offsets that was acquired."""

    partition: int
    records: memoryview
    first: int
    last: int
    delivery_count: int


@attrs.define
class Session:
    """What one member asks for and holds. `turns`: its partitions, the next one to look at first."""

    turns: deque[int] = attrs.field(factory=deque)
    held: dict[int, OffsetRanges] = attrs.field(factory=dict)


@attrs.define
class _Partition:
    next_offset: int
    end: int
    again: deque[tuple[int, int]]
    """Ranges that came back; they are handed out before anything new."""


class ReplayedGroup:
    """`records` of every partition together, rounded up to whole batches."""

    def __init__(self, batches: Batches, partitions: int, records: int) -> None:
        self.batches = batches
        whole = -(-records // batches.batch_records)
        self._partitions = [
            _Partition(0, (whole // partitions + (number < whole % partitions)) * batches.batch_records, deque())
            for number in range(partitions)
        ]
        self.sessions: dict[str, Session] = {}
        self._counts = [0] * len(TYPES)
        self._acquired = self._wrong = self._given_back = self._fetches = 0

    def let_out(self, records: int) -> None:
        """So many more records of partition 0 exist now."""
        self._partitions[0].end += records

    # ---- what members do

    def open(self, member_id: str) -> Session:
        """Begin a session; an earlier one of the member ends."""
        self.close(member_id)
        session = self.sessions[member_id] = Session()
        return session

    def close(self, member_id: str) -> None:
        """What the member holds waits for another one."""
        session = self.sessions.pop(member_id, None)
        for partition, held in session.held.items() if session is not None else ():
            for first, last in held:
                self._partitions[partition].again.append((first, last))
                self._given_back += last - first + 1

    def acquire(self, session: Session, max_records: int, max_bytes: int) -> list[Acquired]:
        """Whole batches, as many as it takes to reach one of the limits."""
        found: list[Acquired] = []
        for _ in range(len(session.turns)):
            if max_records <= 0 or max_bytes <= 0:
                break
            one = self._acquire_of(session.turns[0], max_records, max_bytes)
            session.turns.rotate(-1)
            if one is not None:
                count = one.last - one.first + 1
                max_records -= count
                max_bytes -= len(one.records)
                self._acquired += count
                held = session.held.get(one.partition)
                if held is None:
                    held = session.held[one.partition] = OffsetRanges()
                held.add(one.first, one.last)
                # The next run of the same batches would be written over this one.
                found.append(one if max_records <= 0 else attrs.evolve(one, records=memoryview(bytes(one.records))))
        self._fetches += bool(found)
        return found

    def acknowledge(self, session: Session, acknowledgements: Iterable[Acknowledgement]) -> None:
        for partition, first, last, types in acknowledgements:
            if len(types) == 1:
                self._settle(session, partition, first, last, types[0])
            else:
                for offset, kind in enumerate(types, first):
                    self._settle(session, partition, offset, offset, kind)

    def account(self) -> dict[str, int]:
        """Numbers of records, and of the fetches that brought some."""
        held = sum(len(ranges) for session in self.sessions.values() for ranges in session.held.values())
        return {
            "records": sum(partition.end for partition in self._partitions),
            "fetches": self._fetches,
            "acquired": self._acquired,
            **dict(zip(TYPES, self._counts, strict=True)),
            "given_back": self._given_back,
            "wrong": self._wrong,
            "held": held,
        }

    # ---- one partition

    def _acquire_of(self, number: int, max_records: int, max_bytes: int) -> Acquired | None:
        partition, size = self._partitions[number], self.batches.batch_records
        if partition.again:
            first, last = partition.again.popleft()
            begin = first - first % size
            stop = min(last, begin + size - 1)
            if stop < last:
                partition.again.appendleft((stop + 1, last))
            return Acquired(number, self.batches.run(begin, 1), first, stop, 2)
        left = (partition.end - partition.next_offset) // size
        if left == 0:
            return None
        count = min(left, -(-max_records // size), max(1, max_bytes // self.batches.batch_bytes))
        first = partition.next_offset
        partition.next_offset += count * size
        return Acquired(number, self.batches.run(first, count), first, partition.next_offset - 1, 1)

    def _settle(self, session: Session, partition: int, first: int, last: int, kind: int) -> None:
        held = session.held.get(partition)
        if held is None:
            held = session.held[partition] = OffsetRanges()
        self._counts[kind] += last - first + 1
        if kind == RENEW:
            self._wrong += 0 if held.covers(first, last) else last - first + 1
            return
        self._wrong += held.remove(first, last)
        if kind == RELEASE:
            self._partitions[partition].again.append((first, last))
