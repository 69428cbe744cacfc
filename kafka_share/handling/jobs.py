"""The rules of a worker, as a machine: records go in, and what to start, cancel and acknowledge comes out.

A driver tells it what has happened (`arrived`, `finished`, `produced`, `lock_lost`, `settled`, `drain`, `abort`),
performs what `poll` returns, and looks again at `wake_at_ms` at the latest. One caller at a time; only `leased` and
`running` may be called by any thread, as they read. There is no clock here, no thread, no consumer, and nothing waits.

A record's way:

    arrived ─► READY ─► RUNNING ─► SETTLING ─► gone, when the acknowledgement has its outcome
                 ▲         │           ▲
                 └─ WAITING ◄──────────┘   WAITING: its handler failed, and is called again after a pause
    RUNNING ─► PRODUCING ─► SETTLING   PRODUCING: its copy is written to a dead-letter or retry topic. If that fails, it
                                       is WAITING, and the copy is produced again
    arrived ─► WAITING ─► READY        a copy from a retry topic, whose time has not come
    A lost lock ends READY, WAITING and PRODUCING at once; RUNNING is cancelled, and its result counts for nothing.

Whose turn it is, and how many records one call of the handler gets, `turns` decides.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import Final, TypeAlias

import attrs

from kafka_share.core.metrics.measurements import WorkerMeasurements
from kafka_share.errors import (
    ConsumerClosedError,
    FencedLeaderEpochError,
    IllegalStateError,
    InvalidRecordStateError,
    InvalidShareSessionEpochError,
    KafkaShareError,
    LockLostError,
    NotLeaderOrFollowerError,
    ShareSessionNotFoundError,
)
from kafka_share.handling.counts import Counts
from kafka_share.handling.job import Call, Copy, Job, Record, Stage
from kafka_share.handling.policy import (
    MAX_RETRY_DELAY_MS,
    DeadLetter,
    Ending,
    Policy,
    Release,
    Retry,
    RetryTopic,
)
from kafka_share.handling.slowness import Slowness
from kafka_share.handling.turns import InOrder, Turns
from kafka_share.producing.retries import not_before_ms, returned
from kafka_share.records import AcknowledgeType

ACCEPT: Final = AcknowledgeType.ACCEPT
RELEASE: Final = AcknowledgeType.RELEASE
REJECT: Final = AcknowledgeType.REJECT

CANCEL_GRACE_MS: Final = 1_000
"""How long handlers that were cancelled at the end of the drain may take to end."""


OUTAGE_RECORDS: Final = 3
"""This many new records in a row have failed, and nothing has succeeded since: that is no fault of theirs."""
PRODUCE_BACKOFF_MS: Final = 1_000
"""The pause after a copy that could not be written. It doubles with each further one…"""
PRODUCE_BACKOFF_MAX_MS: Final = 60_000
"""…up to this."""

_LOST: Final = (
    FencedLeaderEpochError,
    IllegalStateError,
    InvalidRecordStateError,
    InvalidShareSessionEpochError,
    NotLeaderOrFollowerError,
    ShareSessionNotFoundError,
)
"""What the acknowledgement of a record fails with whose lock was lost before."""


class Phase(enum.Enum):
    """Where a worker is in its life."""

    RUNNING = "running"
    DRAINING = "draining"
    CANCELLING = "cancelling"


@attrs.frozen
class Start:
    """Call the handler."""

    call: Call


@attrs.frozen
class Cancel:
    """End the handler, if it can be ended, and tell it why."""

    call: Call
    reason: str


@attrs.frozen
class Produce:
    """Write the copy of a record. The driver tells how it went with `produced`."""

    job: Job
    copy: Copy


@attrs.frozen
class Settle:
    """Acknowledge the record; `delay_ms`: a release after that time. The driver tells the outcome with `settled`."""

    job: Job
    kind: AcknowledgeType
    delay_ms: int = 0


class Event(enum.Enum):
    """What there is to log about a record; `{failure}` is the handler's, or the deserializer's."""

    WILL_RETRY = "{failure} and is called again"
    GIVEN_BACK = "{failure} and it is released"
    REJECTED = "{failure} and it is rejected"
    LAST_DELIVERY = "{failure} on its last delivery and it is rejected"
    DEFERRED = "{failure} and it goes to the retry topic"
    DEAD_LETTER = "{failure} and it goes to the dead-letter topic"
    NOT_PRODUCED = "its copy could not be written, which is tried again"
    PRODUCED_IN_VAIN = "its copy was written after it was given up here, so it may be delivered again"
    LEFT_WITHOUT_COPY = "the worker stops before its copy is written, and this was its last delivery"
    LOCK_LOST = "its lock was lost, so it is delivered again"
    RESULT_LOST = "its handler succeeded after the lock was lost, so it is delivered again"
    NOT_ACKNOWLEDGED = "its acknowledgement failed, so it may be delivered again"
    LEASE_ENDED = "its handler runs longer than max_lease_ms, so its lock is not renewed any more"
    SLOW = "its handler takes longer than expected"


@attrs.define
class Tell:
    """Log what has happened to a record, and by the same call to `others` of its batch."""

    event: Event
    job: Job
    error: BaseException | None = None
    pause_ms: int = 0
    running_for_ms: int = 0
    others: list[Job] = attrs.field(factory=list)


Command: TypeAlias = Start | Cancel | Produce | Settle | Tell


class Jobs:
    """The records that one worker has, and what is to be done with each."""

    def __init__(
        self,
        policy: Policy,
        turns: Turns | None = None,
        *,
        concurrency: int,
        enough_records: int = 0,
        max_lease_ms: int,
        drain_timeout_ms: int,
        expected_ms: int | None = None,
        measured: WorkerMeasurements | None = None,
    ) -> None:
        self.counts: Counts = Counts()
        self.measured: WorkerMeasurements = measured or WorkerMeasurements()
        self.phase: Phase = Phase.RUNNING
        self._policy = policy
        self._turns = InOrder() if turns is None else turns
        self._slowness = Slowness(expected_ms)
        self._concurrency = concurrency
        self._enough_records = enough_records
        self._max_lease_ms = max_lease_ms
        self._drain_timeout_ms = drain_timeout_ms
        self._ends_at_ms = 0
        """DRAINING: when handlers are cancelled. CANCELLING: when nobody waits for them any more."""
        self._jobs: dict[Job, None] = {}
        """All but those that are settling, in the order of their receipt."""
        self._calls: dict[Call, None] = {}
        """Those that run."""
        self._waiting: dict[Job, None] = {}
        self._settling = 0
        self._successes = 0
        self._new_failures = 0
        """How many records have failed at their very first try since the latest success."""
        self._commands: list[Command] = []
        self._told: Tell | None = None
        """The latest of the commands that tells something."""

    # ---- what has happened

    def arrived(self, records: Iterable[Record], now_ms: int, wall_ms: int | None = None) -> None:
        """Records were delivered. Their leases begin. `wall_ms`: the time of day, for copies from a retry topic."""
        for record in records:
            job = Job(record, now_ms + self._max_lease_ms, self._successes)
            self.counts.received += 1
            self.counts.redelivered += record.delivery_count > 1
            self._jobs[job] = None
            wait_ms = 0 if wall_ms is None else not_before_ms(record) - wall_ms
            if record.error is not None:
                self._failed(job, record.error, now_ms)
            elif wait_ms > 0:
                job.is_early = True
                self._put_off(job, now_ms + min(wait_ms, MAX_RETRY_DELAY_MS))
            else:
                self._make_ready(job, now_ms)
        if self.phase is not Phase.RUNNING:
            self._give_back()

    def finished(self, call: Call, error: BaseException | None, now_ms: int) -> None:
        """The handler has returned, or raised this. A `BatchError` names the records that have failed."""
        assert call in self._calls, f"{call.place} does not run"
        del self._calls[call]
        self._slowness.ended(call)
        received_at_ms = call.jobs[0].lease_ends_at_ms - self._max_lease_ms
        self.measured.handled(now_ms - call.since_ms, now_ms - received_at_ms, now_ms)
        if error is not None:
            self._ended_with(error, call, now_ms)
            return
        for job in call.jobs:
            self._succeeded(job)

    def _ended_with(self, error: BaseException, call: Call, now_ms: int) -> None:
        outcomes = list(zip(call.jobs, call.outcomes(error), strict=True))
        for job in [job for job, failure in outcomes if failure is None]:
            self._succeeded(job)
        new_failures = self._new_failures
        for job, failure in outcomes:
            if failure is not None:
                self._raised(job, failure, now_ms, is_cancelled=call.is_cancelled)
        self._new_failures = min(self._new_failures, new_failures + 1)  # a batch is one sign of an outage, not many

    def produced(self, job: Job, error: Exception | None, now_ms: int) -> None:
        """The copy of a record was written, or this is why not."""
        if job.stage is not Stage.PRODUCING or job.is_lost:
            if error is None:
                self._tell(Event.PRODUCED_IN_VAIN, job)
        elif error is None:
            self._settle(job, ACCEPT)
        else:
            self._produce_later(job, error, now_ms)

    def lock_lost(self, job: Job) -> None:
        """The record is not ours any more. It may be told more than once."""
        if job.is_lost or job.stage is Stage.SETTLING:
            return
        job.is_lost = True
        self.counts.lost += 1
        self._tell(Event.LOCK_LOST, job)
        if job.stage is not Stage.RUNNING:
            self._end(job)
            return
        call = next(call for call in self._calls if job in call.jobs)
        if call.is_lost:
            self._cancel(call, "its lock was lost")

    def settled(self, job: Job, error: KafkaShareError | None) -> None:
        """The acknowledgement has an outcome: it was applied, or this is why not."""
        assert job.stage is Stage.SETTLING, f"{job} was not acknowledged"
        self._settling -= 1
        self.counts.add_outcome(job, error)
        if error is None:
            return
        is_result = job.kind is ACCEPT and job.copy is None
        if is_result and isinstance(error, _LOST) and not isinstance(error, ConsumerClosedError):
            self._result_lost(job, error)
        else:
            self._tell(Event.NOT_ACKNOWLEDGED, job, error)

    # ---- the end

    def drain(self, now_ms: int) -> None:
        """Take no more records, give back those that have not begun, and let handlers end within the drain timeout.

        A record on its last delivery is tried all the same: a release would be its end.
        """
        if self.phase is Phase.RUNNING:
            self.phase = Phase.DRAINING
            self._ends_at_ms = now_ms + self._drain_timeout_ms
            self._give_back()
            for job in self._waiting:
                job.due_at_ms = now_ms if job.is_early else job.due_at_ms

    def abort(self, now_ms: int) -> None:
        """Cancel what runs, and wait for nothing."""
        self._cancel_all(now_ms, grace_ms=0)

    def _give_back(self) -> None:
        is_end = self.phase is Phase.CANCELLING
        for job in [*self._turns.waiting(), *self._waiting, *(self._producing() if is_end else ())]:
            if is_end and job.copy is not None and job.record.is_last_delivery:
                self._tell(Event.LEFT_WITHOUT_COPY, job, job.copy.error)
            if is_end or not job.record.is_last_delivery:
                self._settle(job, RELEASE)

    def _cancel_all(self, now_ms: int, grace_ms: int) -> None:
        self.phase = Phase.CANCELLING
        self._ends_at_ms = now_ms + grace_ms
        self._give_back()
        for call in self._calls:
            self._cancel(call, "the worker stops")

    @property
    def wants_records(self) -> bool:
        """Whether the driver polls for more."""
        return self.phase is Phase.RUNNING

    @property
    def is_stocked(self) -> bool:
        """Whether the driver does so later: all handlers are busy, and enough records are here for when they are not.

        Otherwise each record that is done would make room for a fetch of one record, for which a broker sends all of
        the batch that it is in.
        """
        return len(self._calls) >= self._concurrency and self._turns.startable > self._enough_records

    def is_done(self, now_ms: int) -> bool:
        """Whether the consumer may be closed: nothing is left to do, or nobody waits for it any more."""
        if self.phase is Phase.CANCELLING and now_ms >= self._ends_at_ms:
            return True
        return self.phase is not Phase.RUNNING and not self._jobs

    # ---- what to do

    def poll(self, now_ms: int) -> list[Command]:
        """What is to be done now."""
        if self.phase is Phase.DRAINING and now_ms >= self._ends_at_ms:
            self._cancel_all(now_ms, CANCEL_GRACE_MS)
        self._end_leases(now_ms)
        for job in [job for job in self._waiting if job.due_at_ms <= now_ms]:
            del self._waiting[job]
            if job.is_early:
                self._begin_lease(job, now_ms)
            if job.copy is None:
                self._make_ready(job, now_ms)
            else:
                self._produce(job, job.copy)
        at_once = self.phase is not Phase.RUNNING
        while len(self._calls) < self._concurrency and (jobs := self._turns.take(now_ms, at_once=at_once)):
            self._start(jobs, now_ms)
        for call in self._slowness.poll(now_ms):
            self._tell_slow(call, now_ms)
        commands, self._commands, self._told = self._commands, [], None
        return commands

    def wake_at_ms(self) -> int | None:
        """When `poll` has to be called even if nothing happens."""
        times = [job.due_at_ms for job in self._waiting]
        for job in self._jobs:
            if not job.is_overdue:
                times.append(job.lease_ends_at_ms)
                break
        if len(self._calls) < self._concurrency and (turn_at_ms := self._turns.wake_at_ms()) is not None:
            times.append(turn_at_ms)
        if (slow_at_ms := self._slowness.wake_at_ms()) is not None:
            times.append(slow_at_ms)
        if self.phase is not Phase.RUNNING:
            times.append(self._ends_at_ms)
        return min(times, default=None)

    def leased(self, now_ms: int) -> list[Record]:
        """The records whose locks are to be renewed when that is due. Any thread."""
        ours = [job for job in list(self._jobs) if not job.is_lost]
        return [job.record for job in ours if now_ms < job.lease_ends_at_ms or job.copy is not None or job.is_early]

    def unsettled(self) -> list[Job]:
        """The records that are ours, as far as is known: the driver looks whether their locks are lost."""
        return list(self._jobs)

    def running(self) -> list[Job]:
        """The records whose handlers run, oldest first. Any thread."""
        return [job for job in list(self._jobs) if job.stage is Stage.RUNNING]

    @property
    def is_stuck(self) -> bool:
        """Whether nothing can begin, since all handlers have records whose locks were lost. Any thread."""
        calls = list(self._calls)
        return len(calls) >= self._concurrency and all(call.is_lost for call in calls)

    @property
    def producing(self) -> int:
        """Of how many records a copy is being written. Any thread."""
        return len(self._producing())

    def _producing(self) -> list[Job]:
        return [job for job in list(self._jobs) if job.stage is Stage.PRODUCING]

    @property
    def ready(self) -> int:
        """How many records wait for their turn."""
        return len(self._turns)

    @property
    def waiting(self) -> int:
        """How many records wait to be tried again."""
        return len(self._waiting)

    # ---- rules

    def _make_ready(self, job: Job, now_ms: int) -> None:
        job.stage = Stage.READY
        try:
            self._turns.add(job, now_ms)
        except Exception as error:  # noqa: BLE001 - of the application's function for keys: the record has failed
            job.tries += 1
            self._failed(job, error, now_ms)

    def _start(self, jobs: tuple[Job, ...], now_ms: int) -> None:
        for job in jobs:
            job.stage = Stage.RUNNING
            job.since_ms = now_ms
            job.tries += 1
        call = Call(jobs, now_ms)
        self._calls[call] = None
        self._slowness.begun(call)
        self._commands.append(Start(call))

    def _succeeded(self, job: Job) -> None:
        if job.is_lost:
            self._end(job)
            self._result_lost(job)
            return
        self._successes += 1
        self._new_failures = 0
        self._settle(job, ACCEPT)

    def _raised(self, job: Job, error: BaseException, now_ms: int, *, is_cancelled: bool) -> None:
        if job.is_lost:
            self._end(job)
        elif is_cancelled:
            self._settle(job, RELEASE)
        elif isinstance(error, Exception):
            self._failed(job, error, now_ms)
        else:  # sys.exit() in a handler, or a task that others have cancelled
            self._tell(Event.GIVEN_BACK, job, error)
            self._settle(job, RELEASE)

    def _result_lost(self, job: Job, cause: KafkaShareError | None = None) -> None:
        self.counts.late += 1
        error = LockLostError(f"the lock of {job.place} was lost before the record was accepted")
        error.__cause__ = cause
        self._tell(Event.RESULT_LOST, job, error)

    def _failed(self, job: Job, error: Exception, now_ms: int) -> None:
        self.counts.failed += 1
        self._new_failures += job.tries == job.record.delivery_count == 1
        action = self._policy.action_for(error)
        if isinstance(action, Retry):
            pause_ms = action.pause_ms(max(1, job.tries))
            has_had_its_tries = self._has_had_its_tries(job, action)
            if not has_had_its_tries and self._may_wait(job, now_ms + pause_ms):
                self._wait(job, error, pause_ms, now_ms)
                return
            is_hurried = not has_had_its_tries and self.phase is not Phase.RUNNING
            action = Release() if is_hurried else action.then
        self._give_up(job, action, error)

    def _give_up(self, job: Job, action: Ending | RetryTopic, error: Exception) -> None:
        record, event, origin = job.record, Event.REJECTED, returned(job.record)
        if isinstance(action, RetryTopic):
            if origin.attempt < action.attempts:
                self._tell(Event.DEFERRED, job, error, action.delay_ms)
                self._produce(job, Copy(action.topic, error, origin.attempt + 1, action.delay_ms))
                return
            action = action.then
        if isinstance(action, Release):
            if not self._policy.is_last(record.delivery_count, record.is_last_delivery):
                self._tell(Event.GIVEN_BACK, job, error, action.delay_ms)
                self._settle(job, RELEASE, action.delay_ms if self.phase is Phase.RUNNING else 0)
                return
            action, event = self._policy.on_last_delivery, Event.LAST_DELIVERY
        if isinstance(action, DeadLetter):
            self._tell(Event.DEAD_LETTER, job, error)
            self._produce(job, Copy(action.topic_for(origin.topic), error, max_bytes=action.max_bytes))
        else:
            self._tell(event, job, error)
            self._settle(job, REJECT)

    def _produce(self, job: Job, copy: Copy) -> None:
        job.stage, job.copy = Stage.PRODUCING, copy
        self._commands.append(Produce(job, copy))

    def _produce_later(self, job: Job, error: Exception, now_ms: int) -> None:
        """The record stays, unless the worker stops and it has another delivery."""
        pause_ms = min(PRODUCE_BACKOFF_MAX_MS, PRODUCE_BACKOFF_MS << min(job.copies_failed, 10))
        job.copies_failed += 1
        self._put_off(job, now_ms + pause_ms)
        self._tell(Event.NOT_PRODUCED, job, error, pause_ms)
        if self.phase is not Phase.RUNNING:
            self._give_back()

    def _has_had_its_tries(self, job: Job, action: Retry) -> bool:
        """By what is known of other records; where nothing is known, when the pauses do not grow any more."""
        has_to_compare = self._successes > job.successes_seen
        job.faults += has_to_compare
        job.successes_seen = self._successes
        if has_to_compare:
            return job.faults >= action.attempts
        is_outage = self._new_failures >= OUTAGE_RECORDS
        return not is_outage and job.tries >= action.attempts and action.pause_ms(job.tries) >= action.backoff_max_ms

    def _may_wait(self, job: Job, until_ms: int) -> bool:
        """While the worker stops, only for what has no other delivery."""
        if self.phase is not Phase.RUNNING and not (job.record.is_last_delivery and until_ms < self._ends_at_ms):
            return False
        return until_ms < job.lease_ends_at_ms

    def _wait(self, job: Job, error: Exception, pause_ms: int, now_ms: int) -> None:
        self._put_off(job, now_ms + pause_ms)
        self.counts.retried += 1
        self._tell(Event.WILL_RETRY, job, error, pause_ms)

    def _put_off(self, job: Job, until_ms: int) -> None:
        job.stage, job.due_at_ms = Stage.WAITING, until_ms
        self._waiting[job] = None

    def _begin_lease(self, job: Job, now_ms: int) -> None:
        """The time before its time does not count. It stands behind all others: its lease ends last."""
        del self._jobs[job]
        job.is_early = job.is_overdue = False
        job.lease_ends_at_ms = now_ms + self._max_lease_ms
        self._jobs[job] = None

    def _settle(self, job: Job, kind: AcknowledgeType, delay_ms: int = 0) -> None:
        self._end(job)
        job.stage, job.kind = Stage.SETTLING, kind
        self._settling += 1
        self._commands.append(Settle(job, kind, delay_ms))

    def _end(self, job: Job) -> None:
        """It is nothing that could be started, tried again or kept any more."""
        self._turns.end(job)
        self._waiting.pop(job, None)
        del self._jobs[job]

    def _cancel(self, call: Call, reason: str) -> None:
        if not call.is_cancelled:
            call.is_cancelled = True
            self._commands.append(Cancel(call, reason))

    def _end_leases(self, now_ms: int) -> None:
        for job in self._jobs:
            if now_ms < job.lease_ends_at_ms:
                return  # they are in the order of their receipt
            if not job.is_overdue:
                job.is_overdue = True
                if job.stage is Stage.RUNNING:
                    self._tell(Event.LEASE_ENDED, job)

    def _tell(self, event: Event, job: Job, error: BaseException | None = None, pause_ms: int = 0) -> None:
        told = self._told
        if told is not None and error is not None and told.error is error and told.event is event:
            told.others.append(job)  # a batch has failed as a whole: one line says so
            return
        self._told = Tell(event, job, error, pause_ms)
        self._commands.append(self._told)

    def _tell_slow(self, call: Call, now_ms: int) -> None:
        first, *others = call.jobs
        self._commands.append(Tell(Event.SLOW, first, running_for_ms=now_ms - call.since_ms, others=others))

    def check(self) -> None:
        """Invariants; tests call it after every step."""
        stages = [job.stage for job in self._jobs]
        assert len(self._calls) <= self._concurrency
        assert stages.count(Stage.RUNNING) == sum(len(call.jobs) for call in self._calls)
        assert stages.count(Stage.READY) == len(self._turns) == len(self._turns.waiting())
        assert stages.count(Stage.WAITING) == len(self._waiting)
        assert all(job.copy is not None for job in self._producing())
        assert Stage.SETTLING not in stages
        counts = self.counts
        ended = (
            counts.accepted
            + counts.released
            + counts.rejected
            + counts.dead_lettered
            + counts.deferred
            + counts.unknown
        )
        lost_running = sum(job.is_lost for job in self._jobs)
        assert counts.received == ended + counts.lost - lost_running + self._settling + len(self._jobs)
