"""Acknowledgements on their way: queued per node, in a request, and their outcomes.

The application hands over acknowledgements with a poll (they may wait for the next fetch to their node) or a commit
(they go at once). `NodeExchange` takes them for a request and ends them with the answer. Each acknowledged
offset gets exactly one outcome. Sends nothing itself, and does not know share sessions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import attrs

from kafka_share.core.backoff import Backoff
from kafka_share.core.context import CoreContext
from kafka_share.core.events import (
    AcknowledgementOutcome,
    CommitRequested,
    CompleteCommit,
    EndedAcknowledgements,
    GatheredAcknowledgements,
    ReportOutcomes,
)
from kafka_share.core.fetching.last_deliveries import LastDeliveries
from kafka_share.core.fetching.offsets import AcknowledgementRun, count_of, overlap
from kafka_share.core.fetching.reactions import ENDS_LOCK
from kafka_share.errors import (
    BrokerError,
    InvalidRecordStateError,
    KafkaShareError,
    OperationTimeoutError,
    UnsupportedVersionError,
)
from kafka_share.records import AcknowledgeType, TopicIdPartition


@attrs.define(eq=False)
class Commit:
    """A commit that the application waits for; `open_units` have no outcome yet."""

    request_id: int
    deadline_at_ms: int
    open_units: int = 0


PLAIN_TYPES: Final = frozenset((0, int(AcknowledgeType.ACCEPT), int(AcknowledgeType.REJECT)))
"""GAP, ACCEPT, REJECT: for the others there is more to do than to send them."""


@attrs.define(eq=False)
class Unit:
    """Acknowledgements of one partition that are sent together, and end as one."""

    number: int
    """Unique, and ascending in the order in which they were queued."""
    gathered: GatheredAcknowledgements
    is_urgent: bool
    """Must not wait for a fetch."""
    is_internal: bool
    """Made by the client itself, about records that the application never saw: their outcome is not reported."""
    retry_until_ms: int
    has_renewal: bool
    ready_at_ms: int = 0
    """It waits to be tried again until then."""
    backoff: Backoff | None = None
    """None: it has not been tried, or not in vain."""
    waiting: list[Commit] = attrs.field(factory=list)

    @property
    def partition(self) -> TopicIdPartition:
        return self.gathered.partition

    @property
    def is_plain(self) -> bool:
        """Whether there is nothing to it but to be sent with the next fetch."""
        gathered = self.gathered
        is_special = (
            self.is_urgent or self.is_internal or gathered.is_late or gathered.is_own or self.backoff is not None
        )
        return not is_special and all(run.type in PLAIN_TYPES for run in gathered.runs)

    @property
    def company(self) -> tuple[bool, bool]:
        """Units of one partition that differ in this are not sent together: the broker takes all or none."""
        return self.gathered.is_late, self.gathered.is_own


Units = dict[TopicIdPartition, list[Unit]]


class Acknowledgements:
    """The queues of all nodes. Bounded by what the application holds: each offset is in one unit at most."""

    def __init__(self, context: CoreContext, last_deliveries: LastDeliveries) -> None:
        self.has_renewed: bool = False
        """Set when a renewal succeeded: the application has records to return. Whoever uses it clears it."""
        self._config = context.config
        self._outputs = context.outputs
        self._measurements = context.measurements
        self._new_backoff = context.new_backoff
        self._last_deliveries = last_deliveries
        self._has_noted_refusal = False
        self.queues: dict[int, list[Unit]] = {}
        """What waits to be sent, by node; others only look."""
        self._last_number = 0
        self._last_gathered = 0
        """The highest number of the application's acknowledgements; they come in ascending order…"""
        self._adopted: set[int] = set()
        """…but for these of the last loan: of one that was to go to several nodes, any part may have been sent."""
        self._open: dict[int, Unit] = {}
        """Every unit without an outcome, queued or in a request, by number."""
        self._commits: dict[int, Commit] = {}
        self._outcomes: list[AcknowledgementOutcome] = []
        self._completed: list[CompleteCommit] = []

    # ---- commands of the application

    def add(self, made: Iterable[GatheredAcknowledgements], now_ms: int, *, is_urgent: bool) -> None:
        for gathered in made:
            self._queue(gathered, now_ms + self._config.default_api_timeout_ms, is_urgent=is_urgent)

    def release(self, release: GatheredAcknowledgements, now_ms: int) -> None:
        """Give back records that the application will never see."""
        retry_until_ms = now_ms + self._config.default_api_timeout_ms
        self._queue(release, retry_until_ms, is_urgent=True, is_internal=True)

    def commit(self, event: CommitRequested) -> None:
        for gathered in event.acknowledgements:
            self._queue(gathered, event.deadline_at_ms, is_urgent=True)
        if not event.wait:
            return
        commit = Commit(event.request_id, event.deadline_at_ms)
        for unit in self._open.values():
            if not (unit.is_internal or unit.gathered.is_own):
                unit.is_urgent = True
                unit.waiting.append(commit)
                commit.open_units += 1
        if commit.open_units:
            self._commits[event.request_id] = commit
        else:
            self._completed.append(CompleteCommit(event.request_id, timed_out=False))

    def _queue(
        self, gathered: GatheredAcknowledgements, retry_until_ms: int, *, is_urgent: bool, is_internal: bool = False
    ) -> None:
        assert gathered.runs, f"no acknowledgement of {gathered.partition}"
        number = gathered.number
        if number and (number <= self._last_gathered or number in self._adopted):
            self._posted_again(number, is_urgent=is_urgent)
            return
        self._last_gathered = max(self._last_gathered, gathered.number)
        has_renewal = _has_renewal(gathered.runs)
        # A renewal does not ride on a fetch: the poll that carries it would get no records (KIP-1222).
        is_urgent = is_urgent or has_renewal
        unit = Unit(self._new_number(), gathered, is_urgent, is_internal, retry_until_ms, has_renewal)
        self._open[unit.number] = unit
        self.queues.setdefault(gathered.node_id, []).append(unit)
        self._last_deliveries.queued(gathered)

    def _posted_again(self, number: int, *, is_urgent: bool) -> None:
        """A call was interrupted before it knew that these had been posted: they are taken once."""
        for unit in self._open.values():
            unit.is_urgent |= is_urgent and unit.gathered.number == number

    def _new_number(self) -> int:
        self._last_number += 1
        return self._last_number

    def adopt(self, made: Iterable[GatheredAcknowledgements], retry_until_ms: int) -> Units:
        """Take over what has been sent already; nobody has seen it here."""
        units: Units = {}
        for gathered in made:
            self._adopted.add(gathered.number)
            unit = Unit(self._new_number(), gathered, False, False, retry_until_ms, _has_renewal(gathered.runs))
            self._open[unit.number] = unit
            units.setdefault(gathered.partition, []).append(unit)
        return units

    # ---- what the application's thread sends (`fetching.lending`)

    def entrust(self, node_id: int) -> tuple[GatheredAcknowledgements, ...] | None:
        """Hand over what is queued, all of it for this node; None, and nothing changes, if there is more to it."""
        units = self.queues.get(node_id, [])
        partitions = {unit.partition for unit in units if unit.is_plain}
        if len(self.queues) > bool(units) or len(partitions) < len(units) or not self._last_deliveries.is_idle:
            return None
        for unit in self.queues.pop(node_id, ()):
            del self._open[unit.number]
        self._adopted.clear()  # a poll has got records, so whatever was to be posted again has been
        return tuple(unit.gathered for unit in units)

    def take_back(self, unsent: Iterable[GatheredAcknowledgements], now_ms: int) -> None:
        """Queue again what was handed over, and was not sent."""
        for gathered in unsent:
            retry_until_ms = now_ms + self._config.default_api_timeout_ms
            unit = Unit(self._new_number(), gathered, False, False, retry_until_ms, _has_renewal(gathered.runs))
            self._open[unit.number] = unit
            self.queues.setdefault(gathered.node_id, []).append(unit)

    # ---- what may be sent

    def due(self, node_id: int, now_ms: int) -> tuple[int | None, bool]:
        """When the first queued acknowledgement may be sent, None if none is queued; and whether something must go now,
        as a request of its own."""
        queue = self._first_in_line(node_id)
        if len(queue) == 1:  # the rule
            unit = queue[0]
            return unit.ready_at_ms, unit.is_urgent and unit.ready_at_ms <= now_ms
        is_urgent = any(unit.is_urgent and unit.ready_at_ms <= now_ms for unit in queue)
        return min((unit.ready_at_ms for unit in queue), default=None), is_urgent

    def _first_in_line(self, node_id: int) -> list[Unit]:
        """The queued units, without those that certainly stay behind one that waits to be tried again."""
        queue = self.queues.get(node_id, [])
        for unit in queue:
            if unit.backoff is not None:
                return _in_order(queue)[0]
        return queue

    def take(self, node_id: int, now_ms: int) -> Units:
        """Take everything that can go in one request; what waits to be tried again, or overlaps it, stays."""
        first, behind = _in_order(self.queues.pop(node_id, []))
        taken: Units = {}
        for unit in first:
            if unit.ready_at_ms <= now_ms:
                taken.setdefault(unit.gathered.partition, []).append(unit)
            else:
                behind.append(unit)
        if behind:
            self.queues[node_id] = sorted(behind, key=lambda unit: unit.number)
        return taken

    def needs_another_request(self, node_id: int) -> bool:
        """Whether one request cannot take all that is queued."""
        return bool(_in_order(self.queues.get(node_id, []))[1])

    def give_back(self, units: Iterable[Unit]) -> None:
        """Queue again what was taken and has not been applied, before anything that came later."""
        for unit in units:
            unit.is_urgent = True
            queue = self.queues.setdefault(unit.gathered.node_id, [])
            queue.append(unit)
            queue.sort(key=lambda queued: queued.number)

    def split_renewals(self, units: Iterable[Unit]) -> tuple[list[Unit], list[Unit]]:
        """Separate renewals from final types, for a broker that does not know renewals."""
        renewals: list[Unit] = []
        finals: list[Unit] = []
        for unit in units:
            gathered = unit.gathered
            renewing = tuple(run for run in gathered.runs if run.type == AcknowledgeType.RENEW)
            final = tuple(run for run in gathered.runs if run.type != AcknowledgeType.RENEW)
            if renewing and final:
                renewals.append(self._split_off(unit, renewing))
                unit.gathered = attrs.evolve(gathered, runs=final)
                unit.has_renewal, unit.backoff, unit.ready_at_ms = False, None, 0
            (finals if final else renewals).append(unit)
        return renewals, finals

    def _split_off(self, unit: Unit, runs: tuple[AcknowledgementRun, ...]) -> Unit:
        """A unit of its own for some of the runs."""
        part = attrs.evolve(
            unit,
            number=self._new_number(),
            gathered=attrs.evolve(unit.gathered, runs=runs),
            has_renewal=_has_renewal(runs),
            backoff=None,
            ready_at_ms=0,
            waiting=list(unit.waiting),
        )
        for commit in part.waiting:
            commit.open_units += 1
        self._open[part.number] = part
        return part

    # ---- outcomes

    def resolve(
        self, units: list[Unit], error: KafkaShareError | None, new_lock: tuple[int, int] | None = None
    ) -> None:
        """End these units, all of one partition; a new lock is (from when it counts, its length), milliseconds."""
        ended: list[EndedAcknowledgements] = []
        for unit in units:
            del self._open[unit.number]
            gathered = unit.gathered
            self._last_deliveries.ended(gathered, error, new_lock)
            if not unit.is_internal:
                ended.append(EndedAcknowledgements(gathered.number, gathered.runs))
                self.has_renewed |= error is None and unit.has_renewal and not gathered.is_own
            for commit in unit.waiting:
                self._count_down(commit)
        if ended:
            gathered = units[0].gathered
            sent_at_ms, lock_ms = (None, None) if new_lock is None else new_lock
            self._outcomes.append(
                AcknowledgementOutcome(gathered.partition, tuple(ended), error, lock_ms, sent_at_ms, gathered.is_own)
            )

    def resolve_or_retry(
        self, units: list[Unit], error: BrokerError | None, new_lock: tuple[int, int] | None, now_ms: int
    ) -> None:
        """The same for the answer to a ShareAcknowledge, which is repeated after a passing error until the deadline."""
        if error is None or not error.retriable or isinstance(error, ENDS_LOCK):
            self.resolve(units, error, new_lock)
            return
        ended: list[Unit] = []
        late: list[Unit] = []
        again: list[Unit] = []
        for unit in units:
            if now_ms < unit.retry_until_ms:
                if unit.backoff is None:
                    unit.backoff = self._new_backoff()
                unit.backoff.failed(now_ms)
                again.append(unit)
            else:
                (ended if unit.backoff is None else late).append(unit)
        ready_at_ms = max((unit.backoff.ready_at_ms for unit in again if unit.backoff is not None), default=0)
        for unit in again:  # they go together again
            unit.ready_at_ms = ready_at_ms
        self.give_back(again)
        if ended:
            self.resolve(ended, error)
        if late:
            self.resolve(late, OperationTimeoutError(f"acknowledging was repeated until time ran out; last: {error}"))

    def fail_queued(self, node_id: int, verdict: Callable[[Unit], KafkaShareError | None]) -> None:
        """End queued units without sending them, each with the error that `verdict` finds for it."""
        left: list[Unit] = []
        failed: dict[tuple[TopicIdPartition, int], list[Unit]] = {}
        errors: dict[tuple[TopicIdPartition, int], KafkaShareError] = {}
        for unit in self.queues.get(node_id, ()):
            error = verdict(unit)
            if error is None:
                left.append(unit)
            else:
                key = (unit.partition, unit.gathered.session_id)
                failed.setdefault(key, []).append(unit)
                errors[key] = error
        if not failed:
            return
        for key, units in failed.items():
            for unit in units:  # one by one: units of a dead session may speak about the same offset
                self.resolve([unit], errors[key])
        if left:
            self.queues[node_id] = left
        else:
            del self.queues[node_id]

    def _count_down(self, commit: Commit) -> None:
        commit.open_units -= 1
        if not commit.open_units and self._commits.pop(commit.request_id, None) is not None:
            self._completed.append(CompleteCommit(commit.request_id, timed_out=False))

    def flush(self, now_ms: int) -> None:
        """Put the outcomes so far into the outputs, and after them the commits that they complete."""
        if self._outcomes:
            for outcome in self._outcomes:
                if outcome.error is not None and outcome.is_own:
                    self._note_refusal(outcome.error)
                elif outcome.error is not None:
                    self._note_failure(outcome, outcome.error, now_ms)
            self._outputs.add(ReportOutcomes(tuple(self._outcomes)))
            self._outcomes.clear()
        if self._completed:
            self._outputs.add(*self._completed)
            self._completed.clear()

    def _note_refusal(self, error: KafkaShareError) -> None:
        """Of a renewal that the client made by itself."""
        if not self._has_noted_refusal and isinstance(error, (UnsupportedVersionError, InvalidRecordStateError)):
            self._has_noted_refusal = True
            self._outputs.note("renewals-refused", error=str(error))

    def _note_failure(self, outcome: AcknowledgementOutcome, error: KafkaShareError, now_ms: int) -> None:
        records = count_of(outcome.runs)
        self._measurements.acknowledging_failed(records, now_ms)
        topic, partition = outcome.partition.topic, outcome.partition.partition
        self._outputs.note(
            "acknowledgement-failed", topic=topic, partition=partition, records=records, error=str(error)
        )

    def poll(self, now_ms: int) -> int | None:
        """Complete the commits whose time has run out; their acknowledgements go on. Returns when to look again."""
        if self._commits:
            for commit in list(self._commits.values()):
                if now_ms >= commit.deadline_at_ms:
                    del self._commits[commit.request_id]
                    self._completed.append(CompleteCommit(commit.request_id, timed_out=True))
                    self._measurements.commit_expired()
        if self._completed or self._outcomes:
            self.flush(now_ms)
        return (
            min((commit.deadline_at_ms for commit in self._commits.values()), default=None) if self._commits else None
        )

    def check(self) -> None:
        queued = [unit for queue in self.queues.values() for unit in queue]
        assert all(unit.number in self._open for unit in queued), "a queued acknowledgement has had its outcome"
        assert len(queued) == len({unit.number for unit in queued}), "an acknowledgement is queued twice"
        assert all(queue for queue in self.queues.values()), "an empty queue is kept"
        assert all(commit.open_units > 0 for commit in self._commits.values()), "a commit waits for nothing"


def _has_renewal(runs: Iterable[AcknowledgementRun]) -> bool:
    for run in runs:  # noqa: SIM110 - a generator costs more than the loop over one
        if run.type == AcknowledgeType.RENEW:
            return True
    return False


def _in_order(queue: list[Unit]) -> tuple[list[Unit], list[Unit]]:
    """Split a queue into units that may go and those that overlap an earlier one.

    Two units about the same offset (a renewal, and later the final type) never go together, nor the later one first.
    Nor do late ones, the client's own renewals and others of one partition.
    """
    if len(queue) < 2:
        return queue, []
    first: list[Unit] = []
    behind: list[Unit] = []
    seen: dict[TopicIdPartition, list[AcknowledgementRun]] = {}
    company: dict[TopicIdPartition, tuple[bool, bool]] = {}
    for unit in queue:
        where, runs = unit.gathered.partition, unit.gathered.runs
        before = seen.get(where)
        if before is None:
            seen[where] = list(runs)
            company[where] = unit.company
            first.append(unit)
            continue
        (behind if unit.company != company[where] or overlap(before, runs) else first).append(unit)
        seen[where] = sorted([*before, *runs])
    return first, behind
