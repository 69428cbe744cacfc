"""The records of one delivery that the application holds, and how it has acknowledged each.

Owned by `Deliveries`. Encodes nothing and sends nothing: `gathered` shows what has been acknowledged, as runs, and
`leave` takes it out. Every change is one operation, or can be made again from any point of it with the same result: an
interrupt may strike the application's thread between any two of its instructions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import attrgetter
from typing import Any

import attrs

from kafka_share.application.awaited_outcomes import OnOutcome, Waiting
from kafka_share.core.events import FetchedPartition, GatheredAcknowledgements
from kafka_share.core.fetching.offsets import AcknowledgementRun, merged
from kafka_share.locks import AcquisitionLock
from kafka_share.records import AcknowledgeType, ShareRecord, TopicIdPartition

ACCEPT = int(AcknowledgeType.ACCEPT)
RELEASE = int(AcknowledgeType.RELEASE)
RENEW = int(AcknowledgeType.RENEW)

Record = ShareRecord[Any, Any]
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


def _accepting(records: list[Record]) -> list[AcknowledgementRun]:
    """ACCEPT for all of these records; offsets without a hole need no look at each."""
    first, last = records[0].offset, records[-1].offset
    if last - first + 1 == len(records):
        return [AcknowledgementRun(first, last, ACCEPT)]
    return runs_of((record.offset, ACCEPT) for record in records)


def _runs_of_types(types: dict[int, int]) -> list[AcknowledgementRun]:
    """The types of single offsets, in whatever order."""
    offsets, kinds = sorted(types), set(types.values())
    if len(kinds) == 1 and offsets[-1] - offsets[0] + 1 == len(offsets):
        # One type for neighbours, which is the rule, needs no look at each.
        return [AcknowledgementRun(offsets[0], offsets[-1], kinds.pop())]
    return runs_of((offset, types[offset]) for offset in offsets)


@attrs.frozen
class Leaving:
    """What `Delivery.gathered` found: acknowledgements with those who wait for them, and what they leave behind."""

    parts: tuple[tuple[GatheredAcknowledgements, Waiting], ...]
    types: dict[int, int]
    failed: dict[int, AcknowledgementRun]
    renewing: dict[int, Record]
    """Not in the open window, where renewed records stay."""

    def renewed_in(self, part: GatheredAcknowledgements) -> list[Record]:
        """The records under renewal whose outcome will be that of this part."""
        offsets = (o for run in part.runs if run.type == RENEW for o in range(run.first, run.last + 1))
        return [self.renewing[offset] for offset in offsets if offset in self.renewing]


class Delivery:
    """What was delivered from one fetched partition and is not acknowledged yet.

    An offset is in one of three states: delivered and not acknowledged (`unacknowledged` counts these), acknowledged
    (its type may still be changed), or gone (gathered). Offsets that could not be turned into records have a preset
    type, which may be overridden; they stay runs, for a broker may name millions of them in a few bytes.

    Records stay in the lists they came in until the application acknowledges a single one: implicit acknowledgement
    then costs nothing per record.

    In the open window acknowledgements are final, except RENEW, which leaves the record where it is.
    """

    def __init__(self, fetched: FetchedPartition, lock: AcquisitionLock) -> None:
        self.partition: TopicIdPartition = fetched.partition
        self.lock = lock
        self.node_id: int = fetched.node_id
        self.session_id: int = fetched.session_id
        self.delivered_at_ms = 0
        """When the application was given records of it, and held none before."""
        self._fresh: list[list[Record]] = []
        """Delivered, not acknowledged."""
        self._accepted: list[list[Record]] = []
        """Delivered, and accepted all at once."""
        self._records: dict[int, Record] = {}
        """Delivered, and looked up by offset since; their types are in `_types`."""
        self._types: dict[int, int] = {}
        self._preset: dict[int, AcknowledgementRun] = {}
        """What the application never sees: gaps, and what is given back. By first offset."""
        self._failed: dict[int, AcknowledgementRun] = {}
        """What could not be turned into records. By first offset."""
        self._held: dict[int, int] = {}
        """Records that wait for their release, and until when."""
        self._renewal_asked_at_ms: dict[int, int] = {}
        """When the client asked by itself for a new lock."""
        self.is_renewable: bool = True
        """Whether no renewal that the client asked for by itself has been refused."""
        self._waiting: Waiting = {}
        """Who wants to hear how an acknowledgement in `_types` ends."""

    def deliver(self, records: list[Record]) -> None:
        """Take over records in offset order; the list must not change any more."""
        if records and not any(known is records for known in self._fresh):
            self._fresh.append(records)

    def _look_up(self) -> dict[int, Record]:
        """All delivered records by offset."""
        if self._fresh or self._accepted:
            for records in self._accepted:
                self._types.update(dict.fromkeys(map(_offset_of, records), ACCEPT))
            for records in (*self._accepted, *self._fresh):
                self._records.update(zip(map(_offset_of, records), records, strict=True))
            self._accepted = []
            self._fresh = []
        return self._records

    def heal(self) -> None:
        """After an interrupt: no record is in two places."""
        self._look_up()

    def preset(self, runs: Iterable[AcknowledgementRun]) -> None:
        """Take over offsets that the application never sees."""
        self._preset.update({run.first: run for run in runs})

    def fail(self, runs: Iterable[AcknowledgementRun]) -> None:
        """Take over offsets that could not be delivered, with the types they have unless the application overrides."""
        self._failed.update({run.first: run for run in runs})

    def present(self, offsets: Iterable[int]) -> list[Record]:
        """Those of the records that are still here."""
        records = self._look_up()
        return [records[offset] for offset in offsets if offset in records]

    def take_back(self, offsets: Iterable[int]) -> None:
        """Take out records that did not reach the application after all, to be delivered again; others stay."""
        records = self._look_up()
        for offset in offsets:
            if offset in records:
                self._types.pop(offset, None)
                self._held.pop(offset, None)
                self._renewal_asked_at_ms.pop(offset, None)
                del records[offset]

    @property
    def unacknowledged(self) -> int:
        return sum(map(len, self._fresh)) + len(self._records) - len(self._types) - len(self._held)

    @property
    def is_done(self) -> bool:
        return not (self._fresh or self._accepted or self._records or self._types or self._preset or self._failed)

    @property
    def has_acknowledgements(self) -> bool:
        return bool(self._types or self._preset or self._failed or self._accepted)

    def acknowledge(self, offset: int, kind: AcknowledgeType) -> bool:
        """Acknowledge a delivered record; False if it is not in flight here."""
        if offset not in (self._look_up() if self._fresh or self._accepted else self._records):
            return False
        self._held.pop(offset, None)
        self._types[offset] = kind
        return True

    def acknowledge_once(self, offset: int, kind: AcknowledgeType, on_outcome: OnOutcome | None) -> bool:
        """The same in the open window; False also if the record has had its final acknowledgement."""
        records = self._look_up() if self._fresh or self._accepted else self._records
        if offset not in records or self._types.get(offset, RENEW) != RENEW or offset in self._held:
            return False
        if on_outcome is not None:
            self._waiting.setdefault(offset, []).append(on_outcome)
        self._types[offset] = kind
        return True

    def acknowledge_each_once(self, offsets: list[int], kind: AcknowledgeType) -> set[int]:
        """The same for many; returns those for which it is false."""
        records, types, held = self._look_up(), self._types, self._held
        open_ones = [o for o in offsets if o in records and types.get(o, RENEW) == RENEW and o not in held]
        self._types.update(dict.fromkeys(open_ones, kind))
        return set() if len(open_ones) == len(offsets) else {*offsets}.difference(open_ones)

    def accept(self, records: Iterable[Record]) -> None:
        """Implicit acknowledgement of single records, which are here."""
        self._types.update(dict.fromkeys(map(_offset_of, records), ACCEPT))

    def lost_unacknowledged(self) -> list[Record]:
        """The delivered records without an acknowledgement whose lock is lost."""
        records = self._look_up()
        return [records[offset] for offset in self.lock.lost_among([o for o in records if o not in self._types])]

    def override(self, offset: int, kind: AcknowledgeType) -> bool:
        """Change what was preset for an offset that could not be delivered; False if it is none."""
        found = next((run for run in self._failed.values() if run.first <= offset <= run.last), None)
        if found is None:
            return False
        changed = {first: run for first, run in self._failed.items() if run is not found}
        for first, last, type_ in (
            (found.first, offset - 1, found.type), (offset, offset, kind), (offset + 1, found.last, found.type),
        ):  # fmt: skip
            if first <= last:
                changed[first] = AcknowledgementRun(first, last, type_)
        self._failed = changed
        return True

    def accept_rest(self) -> None:
        """Implicit acknowledgement: ACCEPT for every delivered record that is not acknowledged."""
        self._accepted = self._accepted + self._fresh
        self._fresh = []
        for offset in self._records:
            self._types.setdefault(offset, ACCEPT)

    # ---- release after a while

    def hold(self, offset: int, until_ms: int) -> bool:
        """Keep a record locked until then, and release it; False if it is not in flight here."""
        if offset not in self._look_up():
            return False
        self._types.pop(offset, None)
        self._held[offset] = until_ms
        return True

    @property
    def held(self) -> int:
        """How many records wait for their release."""
        return len(self._held)

    def release_held(self, now_ms: int) -> None:
        """RELEASE for what has waited long enough."""
        for offset in [offset for offset, until_ms in self._held.items() if until_ms <= now_ms]:
            self._types[offset] = RELEASE
            del self._held[offset]

    def hold_no_longer_than(self, span_ms: int, now_ms: int) -> None:
        """Where locks cannot be renewed: what is held is released this long before its lock ends."""
        for offset, until_ms in list(self._held.items()):
            self._held[offset] = min(until_ms, now_ms + max(0, self.lock.remaining_ms(offset) - span_ms))

    def next_release_at_ms(self) -> int | None:
        return min(self._held.values(), default=None)

    # ---- renewals by the client itself

    def refuse_renewals(self) -> None:
        """The broker refused one: the client asks for no more."""
        self.is_renewable = False

    def has_pressing(self, span_ms: int) -> bool:
        """Whether a record without an acknowledgement has a lock that ends within this time."""
        records = self._look_up()
        return self.lock.ends_within((o for o in records if o not in self._types and o not in self._held), span_ms)

    def _renewing_offsets(self) -> list[int]:
        return [offset for offset, kind in self._types.items() if kind == RENEW]

    def renewals_due(self, awaited: Iterable[int], lock_ms: int, now_ms: int) -> GatheredAcknowledgements | None:
        """New locks for what waits for a renewal or for its turn in a loop, and has half of its lock left or less.

        None if there are none. It has no number yet.
        """
        if not self.is_renewable:
            return None
        records = self._look_up()
        wanted = [
            *self._renewing_offsets(),
            *self._held,
            *(o for o in awaited if o in records and o not in self._types and o not in self._held),
        ]
        due = [offset for offset in wanted if self._is_renewal_due(offset, lock_ms, now_ms)]
        if not due:
            return None
        self._renewal_asked_at_ms.update(dict.fromkeys(due, now_ms))
        runs = _runs_of_types(dict.fromkeys(due, RENEW))
        return GatheredAcknowledgements(self.partition, self.node_id, self.session_id, tuple(runs), is_own=True)

    def _is_renewal_due(self, offset: int, lock_ms: int, now_ms: int) -> bool:
        asked_at_ms = self._renewal_asked_at_ms.get(offset)
        is_asked = asked_at_ms is not None and now_ms < asked_at_ms + lock_ms // 3
        return not is_asked and 0 < self.lock.remaining_ms(offset) <= lock_ms // 2

    # ---- gathering

    def gathered(self, numbers: Iterator[int], *, has_window: bool, is_early: bool = False) -> Leaving | None:
        """All that has been acknowledged; None if nothing has. Changes the books in no way.

        `is_early`: between two polls. What could not be delivered is left out, since the application may be about to
        override it, and so are renewals, which are for the next poll (not in the open window).

        Acknowledgements that come after the end of their lock are apart from the others: a broker refuses all
        acknowledgements of a partition in one request if it has to refuse one of them.
        """
        types, failed = self._types, {} if is_early else self._failed
        if is_early and types:
            self._look_up()  # an interrupt may have left it half done
            if not has_window and RENEW in types.values():
                types = {offset: kind for offset, kind in types.items() if kind != RENEW}
        on_time, settled = types, [*self._preset.values(), *failed.values()]
        if not (types or settled or self._accepted):
            return None
        parts: list[tuple[GatheredAcknowledgements, Waiting]] = []
        late = {offset: types[offset] for offset in self.lock.lost_among(types)}
        late_runs = {run: None for run in settled if self.lock.is_lost(run.first)}
        if late or late_runs:
            parts.append(self._part(late, list(late_runs), numbers, is_late=True))
            on_time = {offset: kind for offset, kind in types.items() if offset not in late}
            settled = [run for run in settled if run not in late_runs]
        if on_time or settled or self._accepted:
            parts.append(self._part(on_time, settled, numbers, is_late=False))
        renewing: dict[int, Record] = {}
        if not has_window and RENEW in types.values():
            renewing = {o: self._records[o] for o, kind in types.items() if kind == RENEW and o in self._records}
        return Leaving(tuple(parts), types, failed, renewing)

    def _part(
        self, types: dict[int, int], settled: list[AcknowledgementRun], numbers: Iterator[int], *, is_late: bool
    ) -> tuple[GatheredAcknowledgements, Waiting]:
        accepted = [] if is_late else [run for records in self._accepted for run in _accepting(records)]
        runs = tuple(merged([*accepted, *(_runs_of_types(types) if types else ()), *settled]))
        waiting = {offset: self._waiting[offset] for offset in types if offset in self._waiting}
        number = next(numbers)
        return (
            GatheredAcknowledgements(
                self.partition, self.node_id, self.session_id, runs, is_late=is_late, number=number
            ),
            waiting,
        )

    def leave(self, leaving: Leaving, *, has_window: bool) -> None:
        """Take out what was gathered, and nothing else."""
        types = leaving.types
        self._preset = {}
        self._accepted = []
        if not has_window and self._records.keys() <= types.keys():
            self._records = {}
        else:
            for offset, kind in types.items():
                if kind != RENEW or not has_window:
                    self._records.pop(offset, None)
                self._waiting.pop(offset, None)
        if leaving.failed is self._failed:
            self._failed = {}
        if types is self._types:
            self._types = {}
        else:
            for offset in types:
                self._types.pop(offset, None)

    def waiting(self) -> Waiting:
        """Who waits for acknowledgements that have not been gathered."""
        return self._waiting

    def count_open(self) -> int:
        """Open window: the delivered records without a final acknowledgement."""
        renewals = list(self._types.values()).count(RENEW)
        return sum(map(len, self._fresh)) + len(self._records) - (len(self._types) - renewals)

    def first_open(self) -> int | None:
        """The lowest offset without a final acknowledgement. Any thread may ask while others change what is held."""
        types = self._types.copy()
        open_ones = [records[0].offset for records in self._fresh.copy()]
        held = self._held.copy()
        open_ones += [o for o in self._records.copy() if types.get(o, RENEW) == RENEW and o not in held]
        return min(open_ones, default=None)

    def check(self) -> None:
        """Invariants: every type belongs to something delivered."""
        for offset in self._types:
            assert offset in self._records, f"{self.partition}@{offset} was never delivered"
            assert offset not in self._held, f"{self.partition}@{offset} is acknowledged and waits for its release"
        assert self._held.keys() <= self._records.keys(), f"{self.partition}: what is gone waits for its release"
        for records in (*self._fresh, *self._accepted):
            assert records, "an empty list of records is kept"
            offsets = list(map(_offset_of, records))
            assert offsets == sorted(offsets), f"{self.partition}: records were delivered out of order"
            assert not any(offset in self._records for offset in offsets), f"{self.partition}: a record is held twice"
