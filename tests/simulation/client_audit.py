"""The auditor's eye on one application: what it gets, what it acknowledges, and the outcomes that are reported.

Every record that a poll returns must be one that this member has acquired, with what the producer wrote; every
acknowledgement must be of a record that the application holds, and be posted before the consumer has closed; every
offset that is posted must be reported exactly once; and an ACCEPT that is reported as done must have been stored.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from simulation.books import BookKey, Books
from simulation.fault_profile import POISON
from simulation.trace import ComplaintError, Trace

from kafka_share.application.delivery import RENEW
from kafka_share.core.events import AcknowledgementOutcome, GatheredAcknowledgements, LostRecords
from kafka_share.core.fetching.offsets import AcknowledgementRun
from kafka_share.records import AcknowledgeType, ShareRecord, TopicIdPartition

ACCEPT = AcknowledgeType.ACCEPT


def value_of(topic: str, partition: int, offset: int) -> bytes:
    """What the producer writes at an offset."""
    return f"{topic}/{partition}/{offset}".encode()


class ClientAudit:
    """One application's books. With `keeps_renewed` (an open window) a renewed record stays in its hands."""

    def __init__(
        self, name: str, member_id: str, group_id: str, books: Books, trace: Trace, *, keeps_renewed: bool
    ) -> None:
        self._keeps_renewed = keeps_renewed
        self._name = name
        self._member_id = member_id
        self._group_id = group_id
        self._books = books
        self._trace = trace
        self._in_hand: Counter[tuple[str, int, int]] = Counter()
        self._waiting: Counter[tuple[str, int, int]] = Counter()
        """What a loop has polled and not come to."""
        self._arrivals = 0
        self._in_hand_since: dict[tuple[str, int, int], int] = {}
        self._waiting_since: dict[tuple[str, int, int], int] = {}
        """Which came first, where a record is in hand and waits too: as a delivery that was lost, and as the next."""
        self._unreported: Counter[tuple[TopicIdPartition, int, int]] = Counter()
        """(partition, offset, type) that was acknowledged and has had no outcome."""
        self._unposted: set[tuple[str, int, int]] = set()
        """What the application has acknowledged by itself, and no event has carried yet."""
        self._open_runs: dict[int, int] = {}
        """How many runs of each number that was posted have had no outcome."""

    def delivered(self, records: list[ShareRecord[Any, Any]]) -> None:
        acquired = self._books.acquired.get(self._member_id, {})
        for record in records:
            where = (record.topic, record.partition, record.offset)
            if record.delivery_count not in acquired.get(where, ()):
                raise ComplaintError(f"{self._name} got {record!r}, which it was not handed out")
            if (record.value or b"").removeprefix(POISON) != value_of(*where):
                raise ComplaintError(f"{self._name} got {record!r} with a value that is not the producer's")
            self._in_hand[where] += 1
            self._arrivals += 1
            self._in_hand_since[where] = self._waiting_since[where] if self._waiting[where] else self._arrivals
            self._waiting[where] = max(0, self._waiting[where] - 1)
        self._trace.count("records delivered", len(records))
        if records and self._trace.is_on:
            self._trace.add(self._name, "polled", [(r.topic, r.partition, r.offset, r.delivery_count) for r in records])

    def polled(self, records: list[ShareRecord[Any, Any]]) -> None:
        """A loop gets these one by one."""
        for record in records:
            where = (record.topic, record.partition, record.offset)
            self._waiting[where] += 1
            self._arrivals += 1
            self._waiting_since[where] = self._arrivals

    def put_back(self, records: list[ShareRecord[Any, Any]]) -> None:
        """A loop has not come to these; they come again."""
        for record in records:
            self._waiting[record.topic, record.partition, record.offset] -= 1

    def acknowledged(self, record: ShareRecord[Any, Any]) -> None:
        self._unposted.add((record.topic, record.partition, record.offset))

    def gave_up(self, lost: tuple[LostRecords, ...]) -> None:
        """The client gives up what its application holds or has yet to release, because the lock is lost."""
        for one in lost:
            for offset, _ in _offsets(one.runs):
                where = (one.partition.topic, one.partition.partition, offset)
                if not (self._in_hand[where] or self._waiting[where]):
                    raise ComplaintError(f"{self._name} gives up {where}, which its application does not hold")
                (self._in_hand if self._was_in_hand_first(where) else self._waiting)[where] -= 1
                self._unposted.discard(where)
                self._trace.count("given up")

    def _was_in_hand_first(self, where: tuple[str, int, int]) -> bool:
        if self._in_hand[where] and self._waiting[where]:
            return self._in_hand_since[where] < self._waiting_since[where]
        return bool(self._in_hand[where])

    @property
    def open_numbers(self) -> frozenset[int]:
        """The numbers of what was posted and has no outcome that was reported."""
        return frozenset(self._open_runs)

    def committed(self, waited_for: frozenset[int]) -> None:
        """commit_sync has returned and not run out of time."""
        early = waited_for & self._open_runs.keys()
        if early:
            raise ComplaintError(f"commit_sync of {self._name} returned before the outcome of {sorted(early)}")

    def posted(self, gathered: tuple[GatheredAcknowledgements, ...]) -> None:
        acquired = self._books.acquired.get(self._member_id, {})
        for one in gathered:
            partition = one.partition
            if one.is_own:
                self._renewed(one)
                continue
            self._open_runs[one.number] = len(one.runs)
            for offset, kind in _offsets(one.runs):
                where = (partition.topic, partition.partition, offset)
                self._unposted.discard(where)
                if where not in acquired:
                    raise ComplaintError(f"{self._name} acknowledges {where}, which it was not handed out")
                if self._in_hand[where]:
                    self._in_hand[where] -= kind != RENEW or not self._keeps_renewed
                elif kind in (ACCEPT, RENEW):
                    raise ComplaintError(f"{self._name} acknowledges {where}, which its application does not hold")
                self._unreported[partition, offset, kind] += 1

    def _renewed(self, renewals: GatheredAcknowledgements) -> None:
        """The client keeps locks by itself: of what the application holds, and of nothing else."""
        for offset, kind in _offsets(renewals.runs):
            where = (renewals.partition.topic, renewals.partition.partition, offset)
            if kind != RENEW or not (self._in_hand[where] or self._waiting[where]):
                raise ComplaintError(f"{self._name} renews {where} by itself, which its application does not hold")
            self._trace.count("renewed by the client")

    def reported(self, outcome: AcknowledgementOutcome) -> None:
        partition = outcome.partition
        for ended in outcome.ended:
            self._open_runs[ended.number] = self._open_runs.get(ended.number, 0) - len(ended.runs)
            if not self._open_runs[ended.number]:
                del self._open_runs[ended.number]
        book = self._books.by_key.get(BookKey(self._group_id, partition.topic_id, partition.partition))
        for offset, kind in _offsets(outcome.runs):
            if not self._unreported[partition, offset, kind]:
                raise ComplaintError(f"{self._name} is told of {partition}@{offset}, type {kind}, once too often")
            self._unreported[partition, offset, kind] -= 1
            if outcome.error is None and kind == ACCEPT and (book is None or not book.is_past(offset)):
                raise ComplaintError(f"{self._name} is told that {partition}@{offset} was accepted; it was not stored")
        name = "accepted" if outcome.error is None else type(outcome.error).__name__
        self._trace.count(f"outcome {name}")

    def closed(self) -> None:
        if self._unposted:
            raise ComplaintError(f"{self._name} has closed and never posted the acknowledgements of {self._unposted}")
        for (partition, offset, kind), times in self._unreported.items():
            if times:
                raise ComplaintError(f"{self._name} is never told what became of {partition}@{offset}, type {kind}")


def _offsets(runs: Iterable[AcknowledgementRun]) -> Iterable[tuple[int, int]]:
    for first, last, kind in runs:
        for offset in range(first, last + 1):
            yield offset, kind
