"""The records that the application holds, and what it has said about each: one `Delivery` per delivery.

Owned by `core.in_flight_records`. Encodes nothing and sends nothing: `gather` hands over what has been said, as runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import attrgetter
from typing import Any

from kafka_share.application.awaited_outcomes import OnOutcome, Waiting
from kafka_share.core.events import FetchedPartition, GatheredAcknowledgements
from kafka_share.core.fetching.offsets import AcknowledgementRun, merged
from kafka_share.locks import AcquisitionLock
from kafka_share.records import AcknowledgeType, ShareRecord

ACCEPT = int(AcknowledgeType.ACCEPT)
RENEW = int(AcknowledgeType.RENEW)

_offset_of = attrgetter("offset")


def runs_of(types: Iterable[tuple[int, int]]) -> list[AcknowledgementRun]:
    """(offset, type) pairs with ascending offsets → runs of neighbouring offsets of one type."""
    runs: list[AcknowledgementRun] = []
    first = last = kind = -1
    for offset, this in types:
        if offset == last + 1 and this == kind and first >= 0:
            last = offset
            continue
        if first >= 0:
            runs.append(AcknowledgementRun(first, last, kind))
        first = last = offset
        kind = this
    if first >= 0:
        runs.append(AcknowledgementRun(first, last, kind))
    return runs


def _accepting(records: list[ShareRecord[Any, Any]]) -> list[AcknowledgementRun]:
    """ACCEPT for all of these records; offsets without a hole need no look at each."""
    first, last = records[0].offset, records[-1].offset
    if last - first + 1 == len(records):
        return [AcknowledgementRun(first, last, ACCEPT)]
    return runs_of((record.offset, ACCEPT) for record in records)


def _runs_of_types(types: dict[int, int]) -> list[AcknowledgementRun]:
    """What was said about single offsets, in whatever order."""
    offsets, kinds = sorted(types), set(types.values())
    if len(kinds) == 1 and offsets[-1] - offsets[0] + 1 == len(offsets):
        # One word about neighbours, which is most of what is ever said, needs no look at each.
        return [AcknowledgementRun(offsets[0], offsets[-1], kinds.pop())]
    return runs_of((offset, types[offset]) for offset in offsets)


class Delivery:
    """What was delivered from one fetched partition and is not acknowledged yet.

    An offset is in one of three states: delivered without a word (`unacknowledged` counts these), said (its type may
    still be changed), or gone after `gather`. `fail` adds offsets that could not be turned into records: their type is
    preset and may be overridden.

    Records stay in the lists they came in until the application speaks of a single one: implicit acknowledgement then
    costs nothing per record.

    In the open window words are final, except RENEW, which leaves the record where it is: `say` and `gather_said` take
    the place of `acknowledge` and `gather`.
    """

    def __init__(self, fetched: FetchedPartition, lock: AcquisitionLock | None = None) -> None:
        self.partition = fetched.partition
        self.lock = lock
        self.node_id = fetched.node_id
        self.session_id = fetched.session_id
        self._fresh: list[list[ShareRecord[Any, Any]]] = []
        """Delivered, without a word."""
        self._accepted: list[list[ShareRecord[Any, Any]]] = []
        """Delivered, and accepted all at once."""
        self._records: dict[int, ShareRecord[Any, Any]] = {}
        """Delivered, and looked up by offset since; their words are in `_types`."""
        self._types: dict[int, int] = {}
        self._settled: list[AcknowledgementRun] = []
        self._failed: set[int] = set()
        self._waiting: Waiting = {}
        """Who wants to hear how a word in `_types` ends."""

    def deliver(self, records: list[ShareRecord[Any, Any]]) -> None:
        """Take over records in offset order; the list must not change any more."""
        if records:
            self._fresh.append(records)

    def _look_up(self) -> dict[int, ShareRecord[Any, Any]]:
        """All delivered records by offset."""
        if self._fresh or self._accepted:
            for records in self._accepted:
                self._types.update(dict.fromkeys(map(_offset_of, records), ACCEPT))
            for records in (*self._accepted, *self._fresh):
                self._records.update(zip(map(_offset_of, records), records, strict=True))
            self._fresh, self._accepted = [], []
        return self._records

    def settle(self, runs: Iterable[AcknowledgementRun]) -> None:
        """Take over what the application has no word in: gaps, and what is given back unseen."""
        self._settled.extend(runs)

    def fail(self, runs: Iterable[AcknowledgementRun]) -> None:
        """Take over offsets that could not be delivered, with the types they have unless the application overrides."""
        for run in runs:
            for offset in range(run.first, run.last + 1):
                self._types[offset] = run.type
                self._failed.add(offset)

    def take_back(self, offsets: Iterable[int]) -> dict[int, ShareRecord[Any, Any]]:
        """Take out records that did not reach the application after all, to be delivered again; others stay."""
        records = self._look_up()
        taken = {offset: records.pop(offset) for offset in offsets if offset in records}
        for offset in taken:
            self._types.pop(offset, None)
        return taken

    @property
    def unacknowledged(self) -> int:
        return sum(map(len, self._fresh)) + len(self._records) + len(self._failed) - len(self._types)

    @property
    def is_done(self) -> bool:
        return not (self._fresh or self._accepted or self._records or self._types or self._settled)

    def acknowledge(self, offset: int, kind: AcknowledgeType) -> bool:
        """Say something about a delivered record; False if it is not in flight here."""
        if offset not in (self._look_up() if self._fresh or self._accepted else self._records):
            return False
        self._types[offset] = kind
        return True

    @property
    def has_words(self) -> bool:
        return bool(self._types or self._settled or self._accepted)

    def acknowledge_delivery(self, offset: int, kind: AcknowledgeType, on_outcome: OnOutcome | None) -> bool:
        """The same in the open window; False also if the record has had its final word."""
        records = self._look_up() if self._fresh or self._accepted else self._records
        if offset not in records or self._types.get(offset, RENEW) != RENEW:
            return False
        self._types[offset] = kind
        if on_outcome is not None:
            self._waiting.setdefault(offset, []).append(on_outcome)
        return True

    def override(self, offset: int, kind: AcknowledgeType) -> bool:
        """Change what was preset for an offset that could not be delivered; False if it is none."""
        if offset not in self._failed:
            return False
        self._types[offset] = kind
        return True

    def accept_rest(self) -> None:
        """Implicit acknowledgement: ACCEPT for every delivered record without a word."""
        self._accepted += self._fresh
        self._fresh = []
        for offset in self._records:
            self._types.setdefault(offset, ACCEPT)

    def gather(
        self, numbers: Iterator[int]
    ) -> tuple[GatheredAcknowledgements | None, dict[int, ShareRecord[Any, Any]]]:
        """Take out all that has been said; the second value holds the records under renewal, by offset."""
        if not self.has_words:
            return None, {}
        runs = self._said()
        types, records = self._types, self._records
        renewing = {}
        if RENEW in types.values():
            renewing = {o: records[o] for o, kind in types.items() if kind == RENEW and o in records}
        if len(types) - len(self._failed) == len(records):
            self._records = {}  # nothing but failed and delivered offsets has a type: all are gone
        else:
            for offset in types:
                records.pop(offset, None)
        self._types = {}
        self._accepted = []
        self._failed = set()
        self._settled = []
        return self._numbered(tuple(runs), numbers, is_late=False), renewing

    def gather_said(
        self, numbers: Iterator[int], *, spares_failed: bool
    ) -> list[tuple[GatheredAcknowledgements, Waiting]]:
        """Take out all that has been said in the open window, and who waits for it; renewed records stay.

        What could not be delivered is spared between polls: the application may be about to override it.

        Words that come after the end of their lock are apart from the others: a broker refuses all that one request
        says about a partition if it has to refuse one of it.
        """
        types, waiting, settled = self._types, self._waiting, self._settled
        self._types, self._waiting, self._settled = {}, {}, []
        if spares_failed:
            self._types = {offset: types.pop(offset) for offset in sorted(self._failed)}
        else:
            self._failed = set()
        for offset, kind in types.items():
            if kind != RENEW:
                self._records.pop(offset, None)
        late = [] if self.lock is None else self.lock.lost_among(types)
        if not late:
            return [self._part(types, settled, waiting, numbers, is_late=False)] if types or settled else []
        parts = [self._part({offset: types.pop(offset) for offset in late}, settled, waiting, numbers, is_late=True)]
        return [*parts, self._part(types, [], waiting, numbers, is_late=False)] if types else parts

    def _part(
        self,
        types: dict[int, int],
        settled: list[AcknowledgementRun],
        waiting: Waiting,
        numbers: Iterator[int],
        *,
        is_late: bool,
    ) -> tuple[GatheredAcknowledgements, Waiting]:
        runs = tuple(merged([*_runs_of_types(types), *settled]))
        told = {offset: waiting[offset] for offset in types if offset in waiting} if waiting else {}
        return self._numbered(runs, numbers, is_late=is_late), told

    def _numbered(
        self, runs: tuple[AcknowledgementRun, ...], numbers: Iterator[int], *, is_late: bool
    ) -> GatheredAcknowledgements:
        return GatheredAcknowledgements(self.partition, self.node_id, self.session_id, runs, is_late, next(numbers))

    @property
    def unsaid(self) -> Waiting:
        """Who waits for words that have not been gathered."""
        return self._waiting

    def _said(self) -> list[AcknowledgementRun]:
        runs = [run for records in self._accepted for run in _accepting(records)]
        return merged([*runs, *_runs_of_types(self._types), *self._settled])

    def count_open(self) -> int:
        """The delivered records without a final word."""
        finals = sum(kind != RENEW and offset in self._records for offset, kind in self._types.items())
        return sum(map(len, self._fresh)) + len(self._records) - finals

    def check(self) -> None:
        """Invariants: every type belongs to something delivered or failed."""
        for offset in self._types:
            assert offset in self._records or offset in self._failed, f"{self.partition}@{offset} was never delivered"
        for records in (*self._fresh, *self._accepted):
            assert records, "an empty list of records is kept"
            offsets = list(map(_offset_of, records))
            assert offsets == sorted(offsets), f"{self.partition}: records were delivered out of order"
            assert not any(offset in self._records for offset in offsets), f"{self.partition}: a record is held twice"
