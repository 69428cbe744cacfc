"""What both drivers of a worker have in common: they perform the commands of `Jobs`, and tell it what has happened.

A driver has a consumer, a clock, and threads or tasks. Every decision is in `Jobs`: whose turn it is, what a failure
means, when to stop. `threads` and `tasks` add how a handler is run, and how one waits.
"""

from __future__ import annotations

import abc
import logging
import time
from collections import deque
from functools import partial
from typing import Final

import attrs

from kafka_share.config import ShareConsumerConfig
from kafka_share.core.metrics.measurements import WorkerMeasurements
from kafka_share.errors import ConsumerClosedError, DataError, IllegalStateError, KafkaShareError
from kafka_share.handling.counts import Counts
from kafka_share.handling.job import Call, Copy, Job, Record, places_of
from kafka_share.handling.jobs import ACCEPT, Command, Event, Jobs, Produce, Settle, Start, Tell
from kafka_share.handling.lease import Lease
from kafka_share.handling.leasing import Leasing
from kafka_share.handling.plan import Plan
from kafka_share.harmless import excerpt
from kafka_share.network.clock import clock_ms
from kafka_share.producing.dead_letters import dead_letter, lacks_copy
from kafka_share.producing.kafka_python import OwnKafkaPythonProducer
from kafka_share.producing.producer import OutgoingRecord, RecordProducer
from kafka_share.producing.retries import retry_copy

log: logging.Logger = logging.getLogger("kafka_share.worker")

LOOK_EVERY_MS: Final = 1_000
"""How long a poll lasts, after which locks are looked at; and how long there is none while there are enough records,
unless a member has to poll sooner."""
CLOSE_TIMEOUT_MS: Final = 30_000
CLOSE_AT_ONCE_MS: Final = 1_000

_LEVELS: Final = {
    Event.WILL_RETRY: logging.INFO,
    Event.DEFERRED: logging.INFO,
    Event.LAST_DELIVERY: logging.ERROR,
    Event.LEFT_WITHOUT_COPY: logging.ERROR,
}
"""Of what is logged; all else is a WARNING."""
KNOWN_FAILURES_MAX: Final = 100
"""Of so many classes of exceptions the first one is told in full."""


def wall_ms() -> int:
    """The time of day, in milliseconds since 1970: only records of retry topics are compared with it."""
    return time.time_ns() // 1_000_000


class Driver(abc.ABC):
    """Runs one worker once.

    `stop` may be called by any thread and by signal handlers, all other methods by one thread at a time.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        config = ShareConsumerConfig.from_mapping(plan.settings)
        self.jobs: Jobs = Jobs(
            plan.policy,
            plan.turns(),
            concurrency=plan.handlers,
            enough_records=plan.enough_records,
            max_lease_ms=plan.max_lease_ms,
            drain_timeout_ms=plan.drain_timeout_ms,
            expected_ms=plan.expected_ms,
            measured=WorkerMeasurements(config.metrics_num_samples, config.metrics_sample_window_ms),
        )
        self.consumer: Leasing | None = None
        self._stops = 0
        """How often a stop was asked for: the second one waits for nothing."""
        self._fatal: BaseException | None = None
        """Why the worker has ended by itself."""
        self._known_failures: set[str] = set()
        self._outcomes: deque[tuple[Job, KafkaShareError | None]] = deque()
        """What the background thread has told."""
        self._group_id = config.group_id
        self._producer: RecordProducer = plan.producer or OwnKafkaPythonProducer(config)
        self._produced: deque[tuple[Job, Exception | None]] = deque()
        """What the producer has told."""
        self._has_produced = False
        self._results: deque[tuple[Call, BaseException | None, int]] = deque()
        """Calls of the handler that the rules have not heard of yet: what was raised, and when it ended."""
        self._leases: dict[Call, Lease] = {}
        self._trouble = ""
        """What a poll has raised last, and no record has come since."""
        self._looks_at_ms = 0
        """When the loop goes on by itself."""
        self._waits = False
        """The loop does not poll now."""
        self._polls_at_ms = 0
        """When it does in any case, as a member of a group has to."""
        self._poll_every_ms = min(LOOK_EVERY_MS, config.max_poll_interval_ms // 2)

    # ---- for any thread

    def stop(self) -> None:
        """Drain; if called again, end at once."""
        self._stops += 1
        self._wake()

    def counts(self) -> Counts:
        """With the outcomes that the loop has not looked at yet."""
        counts: Counts = attrs.evolve(self.jobs.counts)
        for job, error in list(self._outcomes):
            counts.add_outcome(job, error)
        return counts

    def _measured(self) -> WorkerMeasurements:
        """What metrics are read from: any thread may call its functions."""
        jobs, measured = self.jobs, self.jobs.measured
        measured.counts = self.counts
        measured.ready = lambda: jobs.ready
        measured.waiting = lambda: jobs.waiting
        measured.producing = lambda: jobs.producing
        measured.running = lambda: len(jobs.running())
        measured.running_since_ms = lambda: min((job.since_ms for job in jobs.running()), default=None)
        return measured

    @abc.abstractmethod
    def _wake(self) -> None:
        """End the wait of the loop. Any thread, signal handlers too: it takes no lock."""

    # ---- steps

    def _open(self, consumer: Leasing) -> None:
        consumer.keep_locks(lambda: self.jobs.leased(clock_ms()))
        consumer.measure(self._measured())
        self.consumer = consumer

    def _look(self) -> bool:
        """Look at all that has happened, and do what is due. Returns whether the worker has come to its end."""
        now_ms, jobs = clock_ms(), self.jobs
        self._hear_results()  # a call that has ended cannot be cancelled
        if self._stops > 1:
            jobs.abort(now_ms)
        elif self._stops or self._fatal is not None:
            jobs.drain(now_ms)
        self._take_outcomes()
        while self._produced:
            jobs.produced(*self._produced.popleft(), now_ms)
        self._look_at_locks()
        self._perform(jobs.poll(now_ms))
        is_stocked = jobs.is_stocked and now_ms < self._polls_at_ms
        self._waits = is_stocked or not jobs.wants_records
        look_at_ms = self._polls_at_ms if is_stocked else now_ms + LOOK_EVERY_MS
        self._looks_at_ms = min(look_at_ms, jobs.wake_at_ms() or look_at_ms)
        return jobs.is_done(now_ms)

    def _look_at_locks(self) -> None:
        """Records that came together have one lock object, which mostly knows of all of them that they are safe."""
        jobs = self.jobs.unsettled()
        locks = {job.record.lock for job in jobs}
        if any(lock is not None and lock.may_be_lost for lock in locks):
            for job in jobs:
                if job.record.lock_lost:
                    self.jobs.lock_lost(job)

    def _take_outcomes(self) -> None:
        while self._outcomes:
            job, error = self._outcomes.popleft()
            self.jobs.settled(job, error)

    def _take_ended(self) -> None:
        """Tell the rules of all calls that have ended, and do what follows."""
        self._hear_results()
        self._perform(self.jobs.poll(clock_ms()))

    def _hear_results(self) -> None:
        while self._results:
            call, error, at_ms = self._results.popleft()
            del self._leases[call]
            self.jobs.finished(call, error, at_ms)

    @property
    def _is_due(self) -> bool:
        """Whether the loop is to be woken: it waits for longer than it should by now, or for what has come."""
        jobs = self.jobs
        if self._waits and not (jobs.wants_records and jobs.is_stocked):
            return True
        return (jobs.wake_at_ms() or self._looks_at_ms) < self._looks_at_ms

    def _polled(self) -> None:
        self._polls_at_ms = clock_ms() + self._poll_every_ms

    def _perform(self, commands: list[Command]) -> None:
        settles = [command for command in commands if isinstance(command, Settle)]
        if settles:
            self._settle(settles)
        for command in commands:
            if isinstance(command, Settle):
                continue
            if isinstance(command, Start):
                lease = self._leases[command.call] = Lease(command.call.records, command.call.tries)
                self._start(command.call, lease)
            elif isinstance(command, Produce):
                self._produce(command)
            elif isinstance(command, Tell):
                self._tell(command)
            else:
                self._leases[command.call].end(command.reason)
                self._cancel(command.call, command.reason)

    @abc.abstractmethod
    def _start(self, call: Call, lease: Lease) -> None:
        """Have the handler called; how it went gets into `_results`."""

    @abc.abstractmethod
    def _cancel(self, call: Call, reason: str) -> None:
        """End this call of the handler, if it can be ended. Its lease has ended already."""

    def _settle(self, commands: list[Settle]) -> None:
        assert self.consumer is not None
        at_once = [one for one in commands if not one.delay_ms]
        settled = [(one.job.record, one.kind, partial(self._on_outcome, one.job)) for one in at_once]
        try:
            self.consumer.settle_all(settled)
        except ConsumerClosedError as error:
            for _, _, told in settled:
                told(error)
        for one in commands:
            if one.delay_ms:
                self._release_later(one.job, one.delay_ms)

    def _release_later(self, job: Job, delay_ms: int) -> None:
        """It has no outcome to wait for."""
        assert self.consumer is not None
        try:
            self.consumer.release(job.record, delay_ms)
        except (ConsumerClosedError, IllegalStateError) as error:
            self._on_outcome(job, error)
        else:
            self._on_outcome(job, None)

    def _produce(self, command: Produce) -> None:
        told = partial(self._on_produced, command.job)
        self._has_produced = True
        try:
            self._producer.produce(self._written(command.job, command.copy), told)
        except Exception as error:  # noqa: BLE001 - an application's producer may raise anything: the record stays
            told(error)

    def _written(self, job: Job, copy: Copy) -> OutgoingRecord:
        record = job.record
        if copy.attempt:
            return retry_copy(record, copy.topic, copy.attempt, wall_ms() + copy.delay_ms)
        letter = dead_letter(record, copy.topic, self._group_id, copy.error, copy.max_bytes)
        if lacks_copy(letter.headers):
            log.error("%s is larger than max_bytes, and its dead letter has no copy of it", job.place)
        return letter

    def _on_produced(self, job: Job, error: Exception | None) -> None:
        """Called by any thread."""
        self._produced.append((job, error))
        self._wake()

    def _close_producer(self) -> None:
        """It may block."""
        if self._has_produced:
            self._producer.close(CLOSE_AT_ONCE_MS)

    def _on_outcome(self, job: Job, error: KafkaShareError | None) -> None:
        self._outcomes.append((job, error))

    def _arguments(self, call: Call, lease: Lease) -> tuple[object, ...]:
        return (self._argument(call), lease) if self.plan.takes_lease else (self._argument(call),)

    def _argument(self, call: Call) -> Record | list[Record]:
        return call.jobs[0].record if self.plan.batch_records is None else call.records

    # ---- what goes wrong

    def _poll_raised(self, error: KafkaShareError) -> None:
        """Go on if it may pass; else the worker drains, and its run raises the error."""
        assert self.consumer is not None
        text = excerpt(str(error))
        if self.consumer.is_final(error):
            self._fatal = error
        elif isinstance(error, DataError) or text != self._trouble:
            log.warning("%s", text)
        self._trouble = text

    def _tell(self, command: Tell) -> None:
        self._log(command)
        told = self.plan.on_not_accepted
        is_late = command.event is Event.RESULT_LOST
        is_result = command.job.kind is ACCEPT and command.job.copy is None
        is_refused = command.event is Event.NOT_ACKNOWLEDGED and is_result
        if told is None or not (is_late or is_refused):
            return
        assert isinstance(command.error, KafkaShareError)
        try:
            told(command.job.record, command.error)
        except Exception:
            log.exception("on_not_accepted raised for %s", command.job.place)

    def _log(self, command: Tell) -> None:
        level = self._level(command)
        if not log.isEnabledFor(level):
            return
        job, error = command.job, command.error
        place, which = job.place, f"delivery {job.record.delivery_count}"
        if command.others:
            records = [one.record for one in (job, *command.others)]
            place, which = places_of(records), f"{len(records)} records of a batch, each"
        is_readable = error is None or job.record.error is not error
        failure = "its handler failed" if is_readable else "it could not be deserialized"
        text = f"{self.plan.handler_name} {place} ({which}): {command.event.value.format(failure=failure)}"
        if command.event in (Event.DEAD_LETTER, Event.DEFERRED) and job.copy is not None:
            text += f" '{job.copy.topic}'"
        if command.running_for_ms:
            text += f", {command.running_for_ms} ms so far"
        if command.pause_ms:
            text += f", in {command.pause_ms} ms"
        if error is None or level < logging.WARNING or isinstance(error, KafkaShareError):
            log.log(level, "%s%s", text, "" if error is None else f": {excerpt(repr(error))}")
        else:
            log.log(level, "%s", text, exc_info=error)

    def _level(self, command: Tell) -> int:
        """The first failure of its kind is a WARNING, or nothing would be seen of a handler that fails always."""
        level, error = _LEVELS.get(command.event, logging.WARNING), command.error
        if error is None:
            return level
        kind, known = f"{type(error).__module__}.{type(error).__qualname__}", self._known_failures
        is_new = kind not in known and len(known) < KNOWN_FAILURES_MAX
        if is_new:
            known.add(kind)
        return max(level, logging.WARNING) if is_new else level

    # ---- the end

    @property
    def _close_timeout_ms(self) -> int:
        return CLOSE_AT_ONCE_MS if self._stops > 1 else CLOSE_TIMEOUT_MS

    def _closed(self) -> None:
        """The consumer is closed: say what became of the records, and raise what has ended the worker."""
        self._take_outcomes()
        self._perform(self.jobs.poll(clock_ms()))  # what the last outcomes have to tell
        counts, left = self.jobs.counts, len(self.jobs.running())
        log.info(
            "the worker has ended: %d received (%d of them again), %d accepted, %d released, %d rejected, "
            "%d dead-lettered, %d deferred, %d lost, %d of unknown outcome, %d handlers still running",
            counts.received, counts.redelivered, counts.accepted, counts.released, counts.rejected,
            counts.dead_lettered, counts.deferred, counts.lost, counts.unknown, left,
        )  # fmt: skip
        if self._fatal is not None:
            raise self._fatal
