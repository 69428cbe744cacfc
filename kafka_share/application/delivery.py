"""The records of one delivery that the application holds, and how it has acknowledged each.

Owned by `Deliveries`. Encodes nothing and sends nothing: `gathered` shows what has been acknowledged, as runs, and
`leave` takes it out. Every change is one operation, or can be made again from any point of it with the same result: an
interrupt may strike the application's thread between any two of its instructions.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import attrs

from kafka_share.application.awaited_outcomes import OnOutcome, Waiting
from kafka_share.core.events import FetchedPartition, GatheredAcknowledgements
from kafka_share.core.fetching.offsets import AcknowledgementRun, merged
from kafka_share.locks import AcquisitionLock
from kafka_share.native import Ledger
from kafka_share.records import AcknowledgeType, ShareRecord, TopicIdPartition, TopicPartition

if TYPE_CHECKING:
    from kafka_share.native import Run, Snapshot

RELEASE = int(AcknowledgeType.RELEASE)
RENEW = int(AcknowledgeType.RENEW)

Record = ShareRecord[Any, Any]
Settled: TypeAlias = tuple[Record, AcknowledgeType, OnOutcome | None]
"""A record, how it is acknowledged, and who is told the outcome."""


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


@attrs.frozen
class Leaving:
    """What `Delivery.gathered` found: acknowledgements with those who wait for them, and what they leave behind."""

    parts: tuple[tuple[GatheredAcknowledgements, Waiting], ...]
    acknowledged: Snapshot
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

    In the open window acknowledgements are final, except RENEW, which leaves the record where it is.
    """

    def __init__(self, fetched: FetchedPartition, lock: AcquisitionLock, ledger: Ledger | None = None) -> None:
        self.partition: TopicIdPartition = fetched.partition
        self.place: TopicPartition = fetched.partition.topic_partition
        self.lock = lock
        self.node_id: int = fetched.node_id
        self.session_id: int = fetched.session_id
        self.size_bytes: int = len(fetched.records)
        """As it was received."""
        self.delivered_at_ms = 0
        """When the application was given records of it, and held none before."""
        self.ledger: Ledger = Ledger() if ledger is None else ledger
        """The records, and how each has been acknowledged."""
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
        """Who wants to hear how the acknowledgement of a record that has not left ends."""

    def deliver(self, records: Run) -> None:
        """Take over records in offset order; these must not change any more."""
        self.ledger.add(records)

    def heal(self) -> None:
        """After an interrupt: what waits for its release is held, and nothing else."""
        self._held = {offset: until_ms for offset, until_ms in self._held.items() if self.ledger.is_held(offset)}

    def preset(self, runs: Iterable[AcknowledgementRun]) -> None:
        """Take over offsets that the application never sees."""
        self._preset.update({run.first: run for run in runs})

    def fail(self, runs: Iterable[AcknowledgementRun]) -> None:
        """Take over offsets that could not be delivered, with the types they have unless the application overrides."""
        self._failed.update({run.first: run for run in runs})

    def present(self, offsets: Iterable[int]) -> list[Record]:
        """Those of the records that are still here."""
        return self.ledger.records_at(offsets)

    def take_back(self, offsets: Iterable[int]) -> None:
        """Take out records that did not reach the application after all, to be delivered again; others stay."""
        offsets = list(offsets)
        if self._held or self._renewal_asked_at_ms:
            for offset in offsets:
                self._held.pop(offset, None)
                self._renewal_asked_at_ms.pop(offset, None)
        self.ledger.remove(offsets)

    @property
    def unacknowledged(self) -> int:
        return self.ledger.open

    @property
    def is_done(self) -> bool:
        return not (len(self.ledger) or self._preset or self._failed)

    @property
    def has_acknowledgements(self) -> bool:
        return bool(self.ledger.acknowledged or self._preset or self._failed)

    def acknowledge(self, offset: int, kind: AcknowledgeType) -> bool:
        """Acknowledge a delivered record; False if it is not in flight here."""
        if not self.ledger.acknowledge(offset, kind):
            return False
        self._held.pop(offset, None)
        return True

    def acknowledge_once(self, offset: int, kind: AcknowledgeType, on_outcome: OnOutcome | None) -> bool:
        """The same in the open window; False also if the record has had its final acknowledgement."""
        if on_outcome is None:
            return self.ledger.acknowledge_once(offset, kind)
        waiting = self._waiting.setdefault(offset, [])
        waiting.append(on_outcome)
        if self.ledger.acknowledge_once(offset, kind):
            return True
        waiting.remove(on_outcome)
        if not waiting:
            del self._waiting[offset]
        return False

    def acknowledge_each(self, offsets: array[int], kind: AcknowledgeType, *, once: bool) -> array[int]:
        """`acknowledge` for many, or `acknowledge_once`; returns those for which it is false."""
        left = self.ledger.acknowledge_each(offsets, kind, once=once)
        if self._held and not once:
            for offset in [offset for offset in self._held if not self.ledger.is_held(offset)]:
                del self._held[offset]
        return left

    def accept(self, records: Iterable[Record]) -> None:
        """Implicit acknowledgement of single records, which are here."""
        self.ledger.accept([record.offset for record in records])

    def lost_unacknowledged(self) -> list[Record]:
        """The delivered records without an acknowledgement whose lock is lost."""
        if not self.lock.may_be_lost:
            return []
        return self.ledger.records_at(self.lock.lost_among(self.ledger.unacknowledged(with_held=True)))

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
        self.ledger.accept_open()

    # ---- release after a while

    def hold(self, offset: int, until_ms: int) -> bool:
        """Keep a record locked until then, and release it; False if it is not in flight here."""
        if not self.present([offset]):
            return False
        self._held[offset] = until_ms
        self.ledger.hold(offset)
        return True

    @property
    def held(self) -> int:
        """How many records wait for their release."""
        return len(self._held)

    def release_held(self, now_ms: int) -> None:
        """RELEASE for what has waited long enough."""
        for offset in [offset for offset, until_ms in self._held.items() if until_ms <= now_ms]:
            if self.ledger.is_held(offset):  # else an interrupt struck where it was acknowledged otherwise
                self.ledger.acknowledge(offset, RELEASE)
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
        if not self.ledger.open or self.lock.all_last(span_ms):
            return False
        return self.lock.ends_within(self.ledger.unacknowledged(with_held=False), span_ms)

    def renewals_due(self, awaited: Sequence[int], lock_ms: int, now_ms: int) -> GatheredAcknowledgements | None:
        """New locks for what waits for a renewal or for its turn in a loop, and has half of its lock left or less.

        None if there are none. It has no number yet.
        """
        if not self.is_renewable or self.lock.all_last(lock_ms // 2):
            return None
        open_ones = set(self.ledger.unacknowledged(with_held=False)) if awaited else set()
        wanted = [*self.ledger.renewals(), *self._held, *(o for o in awaited if o in open_ones)]
        due = [offset for offset in wanted if self._is_renewal_due(offset, lock_ms, now_ms)]
        if not due:
            return None
        self._renewal_asked_at_ms.update(dict.fromkeys(due, now_ms))
        runs = runs_of((offset, RENEW) for offset in sorted(due))
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
        failed = {} if is_early else self._failed
        acknowledged = self.ledger.snapshot(with_renewals=has_window or not is_early)
        settled = [*self._preset.values(), *failed.values()]
        if not (acknowledged or settled):
            return None
        on_time, parts = acknowledged, []
        if self.lock.may_be_lost:
            late, on_time = self.ledger.split(acknowledged, self.lock.lost_among(self.ledger.offsets_in(acknowledged)))
            late_runs = [run for run in settled if self.lock.is_lost(run.first)]
            settled = [run for run in settled if run not in late_runs]
            parts += self._part(late, late_runs, numbers, is_late=True)
        parts += self._part(on_time, settled, numbers, is_late=False)
        renewing = {} if has_window else self.ledger.renewing_in(acknowledged)
        return Leaving(tuple(parts), acknowledged, failed, renewing)

    def _part(
        self, acknowledged: Snapshot, settled: list[AcknowledgementRun], numbers: Iterator[int], *, is_late: bool
    ) -> list[tuple[GatheredAcknowledgements, Waiting]]:
        """What goes together, with those who wait for it; an empty list if it is nothing."""
        runs = [AcknowledgementRun(*run) for run in self.ledger.runs(acknowledged)]
        if not (runs or settled):
            return []
        kind_in = self.ledger.kind_in
        waiting = {offset: told for offset, told in self._waiting.items() if kind_in(acknowledged, offset)}
        gathered = GatheredAcknowledgements(
            self.partition,
            self.node_id,
            self.session_id,
            tuple(merged([*runs, *settled]) if settled else runs),
            is_late=is_late,
            number=next(numbers),
        )
        return [(gathered, waiting)]

    def leave(self, leaving: Leaving, *, has_window: bool) -> None:
        """Take out what was gathered, and nothing else."""
        self._preset = {}
        if leaving.failed is self._failed:
            self._failed = {}
        if self._waiting:
            left = self._waiting.items()
            self._waiting = {o: told for o, told in left if not self.ledger.kind_in(leaving.acknowledged, o)}
        self.ledger.leave(leaving.acknowledged, keeps_renewals=has_window)

    def waiting(self) -> Waiting:
        """Who waits for acknowledgements that have not been gathered."""
        return self._waiting

    def count_open(self) -> int:
        """Open window: the delivered records without a final acknowledgement."""
        ledger = self.ledger
        return len(ledger) - ledger.acknowledged + ledger.renewing

    def first_open(self) -> int | None:
        """The lowest offset without a final acknowledgement. Any thread may ask while others change what is held."""
        return self.ledger.first_open()

    def check(self) -> None:
        """Invariants: what waits for its release is here, and nobody waits for what has left."""
        self.ledger.check()
        assert self.ledger.held == len(self._held), f"{self.partition}: what is gone waits for its release"
        present = {record.offset for record in self.ledger.records_at([*self._held, *self._waiting])}
        assert self._held.keys() <= present, f"{self.partition}: what is gone waits for its release"
        assert self._waiting.keys() <= present, f"{self.partition}: somebody waits for what has left"
