"""What a soak run demands: nothing lost, nothing settled twice, nothing delivered after it was settled.

`Audit` is told what each member saw (`delivered`, `settled`) and what was produced; it keeps a few bytes for each
offset, so that an hour of records fits. It knows no broker and no process.
"""

from __future__ import annotations

from typing import Final

import attrs

SETTLING: Final = frozenset({"ACCEPT", "REJECT"})
"""Acknowledgements after which a record must never be seen again."""


@attrs.define
class _Partition:
    produced: int = 0
    """How many offsets the log has; markers are not among them."""
    highest_count: bytearray = attrs.field(factory=bytearray)
    """For each offset the highest delivery count that any member saw; 0: never delivered."""
    settled_at_count: bytearray = attrs.field(factory=bytearray)
    """For each offset the highest count seen when its final acknowledgement succeeded; 0: none reported."""

    def reach(self, offset: int) -> None:
        missing = offset + 1 - len(self.highest_count)
        if missing > 0:
            self.highest_count.extend(bytes(missing))
            self.settled_at_count.extend(bytes(missing))


@attrs.define
class Audit:
    """The account of one run; `complaints` is what must stay empty."""

    complaints: list[str] = attrs.field(factory=list)
    deliveries: int = 0
    settled: int = 0
    """Offsets whose ACCEPT or REJECT the broker confirmed to the member."""
    failed: dict[str, int] = attrs.field(factory=dict)
    """Acknowledged offsets by the error that was reported for them."""
    _partitions: dict[int, _Partition] = attrs.field(factory=dict)

    def _partition(self, index: int) -> _Partition:
        return self._partitions.setdefault(index, _Partition())

    def produced(self, partition: int, offset: int) -> None:
        log = self._partition(partition)
        log.produced = max(log.produced, offset + 1)

    def delivered(self, member: str, partition: int, offset: int, count: int) -> None:
        log = self._partition(partition)
        log.reach(offset)
        self.deliveries += 1
        if log.settled_at_count[offset] and count > log.settled_at_count[offset]:
            self.complaints.append(f"{partition}@{offset} came to {member} with count {count} after it was settled")
        log.highest_count[offset] = max(log.highest_count[offset], count)

    def acknowledged(self, member: str, partition: int, offset: int, kind: str, count: int, error: str | None) -> None:
        """The broker's answer to one acknowledgement; `count` is the delivery that was acknowledged."""
        if error is not None:
            self.failed[error] = self.failed.get(error, 0) + 1
            return
        if kind not in SETTLING:
            return
        log = self._partition(partition)
        log.reach(offset)
        if log.settled_at_count[offset]:
            self.complaints.append(f"{partition}@{offset} was settled twice, the second time by {member}")
        if log.highest_count[offset] > count:
            self.complaints.append(
                f"{partition}@{offset} was settled by {member} with count {count}, "
                f"but had been delivered with count {log.highest_count[offset]} by then"
            )
        log.settled_at_count[offset] = count
        self.settled += 1

    @property
    def produced_count(self) -> int:
        return sum(log.produced for log in self._partitions.values())

    def lost(self) -> list[tuple[int, int]]:
        """(partition, offset) of records that nobody ever got."""
        return [
            (index, offset)
            for index, log in sorted(self._partitions.items())
            for offset in range(log.produced)
            if offset >= len(log.highest_count) or not log.highest_count[offset]
        ]

    def unreported(self) -> int:
        """Records that ended without a confirmed acknowledgement: those of killed members, and unknown outcomes."""
        return self.produced_count - self.settled
