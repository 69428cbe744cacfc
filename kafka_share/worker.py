"""ShareWorker: calls a handler for each record of a share group, and does everything else by itself.

This file has the public API: the settings, the signals, what a probe sees. The rules are in `handling.jobs`, a machine
without I/O; `handling.threads` and `handling.tasks` run handlers. All of it works on an open window of a consumer.
"""

from __future__ import annotations

import asyncio
import difflib
import inspect
import signal
import threading
from collections.abc import Awaitable, Callable, Generator, Hashable, Iterable
from contextlib import contextmanager
from types import FrameType, MappingProxyType
from typing import Any, Final, Generic, Literal, TypeAlias, Unpack

import attrs

from kafka_share.application.arguments import topic_set
from kafka_share.config import ShareConsumerConfig
from kafka_share.deserializers import Deserializer, PlainDeserializer
from kafka_share.errors import (
    BatchError,
    ConfigurationError,
    HandlerProcessError,
    IllegalStateError,
    KafkaShareError,
    LockLostError,
)
from kafka_share.handling.counts import Counts
from kafka_share.handling.driver import Driver
from kafka_share.handling.job import Job
from kafka_share.handling.lease import Lease
from kafka_share.handling.leasing import Leasing, leasing_settings
from kafka_share.handling.plan import Plan
from kafka_share.handling.policy import DeadLetter, OnError, Policy, Reject, Release, Retry, RetryTopic
from kafka_share.handling.processes import ProcessDriver
from kafka_share.handling.tasks import TaskDriver
from kafka_share.handling.threads import ThreadDriver
from kafka_share.health import Health
from kafka_share.network.clock import clock_ms
from kafka_share.producing.aiokafka import AiokafkaProducer
from kafka_share.producing.confluent import ConfluentProducer
from kafka_share.producing.kafka_python import KafkaPythonProducer
from kafka_share.producing.producer import OutgoingRecord, RecordProducer
from kafka_share.records import K, ShareRecord, V
from kafka_share.settings import ShareConsumerSettings

__all__ = [
    "AiokafkaProducer", "BatchError", "ConfluentProducer", "Counts", "DeadLetter", "HandlerProcessError",
    "KafkaPythonProducer", "Lease", "LockLostError", "OutgoingRecord", "RecordProducer", "Reject", "Release", "Retry",
    "RetryTopic",    "RunningRecord", "ShareWorker", "WorkerState",
]  # fmt: skip

Handler: TypeAlias = (
    Callable[[ShareRecord[K, V]], Awaitable[None] | None]
    | Callable[[ShareRecord[K, V], Lease], Awaitable[None] | None]
    | Callable[[list[ShareRecord[K, V]]], Awaitable[None] | None]
    | Callable[[list[ShareRecord[K, V]], Lease], Awaitable[None] | None]
)

RECORDS_PER_HANDLER: Final = 5
"""The window, unless it is set: so many records for each that may be in work."""
BATCHES_PER_HANDLER: Final = 2
"""The same with batches."""
TROUBLE_MS: Final = 120_000
"""How long an error may last until a worker counts as unhealthy."""

_WINDOW: Final = MappingProxyType(
    {"explicit_window_records": "window_records", "explicit_window_bytes": "window_bytes"}
)
"""Settings of the consumer that have another name here."""
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


@attrs.frozen
class RunningRecord:
    """A record whose handler runs."""

    topic: str
    partition: int
    offset: int
    running_for_ms: int
    is_lost: bool
    """Whether its lock was lost, so that its result counts for nothing."""
    is_slow: bool
    """Whether its handler runs longer than `expected_ms`."""


@attrs.frozen
class WorkerState:
    """A worker at one moment."""

    phase: str
    """"new", "running", "draining", "cancelling" or "stopped"."""
    ready: int
    """Records that wait for their turn."""
    running: tuple[RunningRecord, ...]
    """Records whose handlers run, the oldest first."""
    waiting: int
    """Records that wait to be tried again."""
    producing: int
    """Records whose copy is being written to a dead-letter topic."""
    counts: Counts
    """Since the start."""
    consumer: Health | None
    """None before the start."""


class ShareWorker(Generic[K, V]):
    """Calls `handler(record)` for each record of the topics, as a member of a share group.

    `topics`: one name, or several. `handler` is a function, which runs on threads, or `async def`, which runs as tasks
    of one event loop. When it returns, the record is accepted; when it raises, `on_error` decides. A handler with two
    parameters gets the `Lease` of the record as well. Up to `concurrency` handlers run at a time.

    The locks of records are renewed from their receipt on, for `max_lease_ms`. A record whose lock was lost is
    delivered again: its handler is cancelled (`async def`) or told (`Lease.ended`), and its result counts for nothing.

    - `on_error`: exception class → `Retry`, `RetryTopic`, `Release`, `Reject`, `DeadLetter`, or a function of the
      exception that returns one of them. The closest class counts. It adds to the default: `Retry()` for every
      exception, and `Release(5_000)` for a value that cannot be deserialized.
    - `max_deliveries`: on this delivery of a record, and on the group's last one, a release becomes what
      `on_last_delivery` says: `Reject()`, the default, or `DeadLetter()`.
    - `producer`: writes dead letters. Default: a `KafkaProducer` of kafka-python with the connection and security
      settings of the worker, which is made when it is needed. `KafkaPythonProducer`, `ConfluentProducer` and
      `AiokafkaProducer` adapt one that you have; anything with the methods of `RecordProducer` does it.
    - `window_records`: how many records may be here at a time, waiting and running. Default: five for each handler, two
      batches for each with batches.
    - `window_bytes`: nothing more is fetched while what came with these records has so many bytes, as received; and an
      answer has no more than that, unless a record batch has. Default: no limit.
    - `processes`: run a plain handler in so many processes, for work that needs the CPU; it takes the place of
      `concurrency`. The handler and its records are pickled, so it is a function of a module. A process that dies is a
      failure of its record: `HandlerProcessError`.
    - `batch_records`: the handler gets a list of up to so many records, which come together within `batch_wait_ms`.
      What it raises is the failure of all of them, unless it is a `BatchError`.
    - `ordered_by`: "key", or a function of a record that returns a key. Records of equal key are handled one after
      another here, others at the same time; those without a key (None) are not ordered.
    - `expected_ms`: a handler that takes longer is named in a WARNING, again each time that the span has doubled.
    - `on_not_accepted`: called with a record and an error when a handler has returned and the record was not accepted:
      with a `LockLostError` if its lock had been lost.
    - `drain_timeout_ms`: how long `stop` lets handlers run before it cancels them.

    The others are the settings of `KafkaShareConsumer`. Of these the worker sets `share_acknowledgement_mode`,
    `explicit_window_records`, `explicit_window_bytes`, `deserialization_errors`, `protect_locks` and `send_ahead`
    itself; `share_acquire_mode` is record_limit by default, which needs Kafka 4.2.

    Raises `ConfigurationError` for a setting that is unknown, inapplicable or out of range.
    """

    def __init__(
        self,
        topics: str | Iterable[str],
        handler: Handler[K, V],
        *,
        on_error: OnError | None = None,
        max_deliveries: int | None = None,
        on_last_delivery: Reject | DeadLetter | None = None,
        producer: RecordProducer | None = None,
        concurrency: int = 10,
        processes: int | None = None,
        batch_records: int | None = None,
        batch_wait_ms: int = 100,
        ordered_by: Literal["key"] | Callable[[ShareRecord[K, V]], Hashable] | None = None,
        window_records: int | None = None,
        window_bytes: int | None = None,
        max_lease_ms: int = 900_000,
        expected_ms: int | None = None,
        drain_timeout_ms: int = 25_000,
        on_not_accepted: Callable[[ShareRecord[K, V], KafkaShareError], object] | None = None,
        key_deserializer: Deserializer[K] | PlainDeserializer[K] | None = None,
        value_deserializer: Deserializer[V] | PlainDeserializer[V] | None = None,
        **settings: Unpack[ShareConsumerSettings],
    ) -> None:
        if not callable(handler):
            raise ConfigurationError(f"the handler is a function of a record, not {type(handler).__name__}")
        names = topic_set([topics] if isinstance(topics, str) else topics)
        if not names:
            raise ConfigurationError("a worker needs at least one topic")
        given: dict[str, Any] = {**settings, "key_deserializer": key_deserializer}
        given["value_deserializer"] = value_deserializer
        plan = Plan(
            topics=tuple(sorted(names)),
            handler=handler,
            takes_lease=_takes_lease(handler),
            policy=Policy(on_error, max_deliveries, on_last_delivery),
            producer=producer,
            concurrency=concurrency,
            processes=processes,
            batch_records=batch_records,
            batch_wait_ms=batch_wait_ms,
            ordered_by=ordered_by,
            max_lease_ms=max_lease_ms,
            expected_ms=expected_ms,
            drain_timeout_ms=drain_timeout_ms,
            on_not_accepted=on_not_accepted,
            settings=given,
        )
        plan = attrs.evolve(plan, settings=_consumer_settings(plan, window_records, window_bytes))
        self._driver: Driver = _driver(plan)
        self._has_begun = False
        self._has_ended = False

    # ---- life

    def run(self) -> None:
        """Work until `stop`, SIGTERM or SIGINT; then drain, and return. Call it once.

        The signals are handled if this is the main thread; a second one ends the worker at once. Draining: nothing more
        is fetched, records that have not begun are released, handlers may end within `drain_timeout_ms` and are then
        cancelled; all acknowledgements are sent, and the worker leaves the group. Counts are logged.

        Raises what lasts until a new worker is made, such as `GroupAuthorizationFailedError`, when it has drained;
        `IllegalStateError` if it ran before.
        """
        with self._life(), self._signals():
            if isinstance(self._driver, ThreadDriver):
                self._driver.run()
            else:
                assert isinstance(self._driver, TaskDriver)
                asyncio.run(self._driver.run())

    async def run_async(self) -> None:
        """The same on the running event loop, without handling signals; for a handler that is `async def`.

        Cancelling it cancels the handlers and releases their records. Raises `IllegalStateError` for a plain handler:
        await `asyncio.to_thread(worker.run)` there.
        """
        if not isinstance(self._driver, TaskDriver):
            raise IllegalStateError("this handler is a plain function: await asyncio.to_thread(worker.run)")
        with self._life():
            await self._driver.run()

    def stop(self) -> None:
        """Make `run` drain and return; called again, end at once. Any thread and any signal handler may call it."""
        self._driver.stop()

    @contextmanager
    def _life(self) -> Generator[None]:
        if self._has_begun:
            raise IllegalStateError("a worker runs once: make another one")
        self._has_begun = True
        try:
            yield
        finally:
            self._has_ended = True

    @contextmanager
    def _signals(self) -> Generator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = [(number, signal.signal(number, self._on_signal)) for number in _SIGNALS]
        try:
            yield
        finally:
            for number, handler in before:
                signal.signal(number, signal.SIG_DFL if handler is None else handler)

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self.stop()

    # ---- seeing

    def inspect(self) -> WorkerState:
        """What the worker does now, and what it has done. Any thread."""
        jobs, now_ms = self._driver.jobs, clock_ms()
        running = tuple(self._running_record(job, max(0, now_ms - job.since_ms)) for job in jobs.running())
        consumer = self._driver.consumer
        return WorkerState(
            phase=self._phase(),
            ready=jobs.ready,
            running=running,
            waiting=jobs.waiting,
            producing=jobs.producing,
            counts=self._driver.counts(),
            consumer=None if consumer is None else consumer.health(),
        )

    def _running_record(self, job: Job, running_for_ms: int) -> RunningRecord:
        record, expected_ms = job.record, self._driver.plan.expected_ms
        is_slow = expected_ms is not None and running_for_ms >= expected_ms
        return RunningRecord(record.topic, record.partition, record.offset, running_for_ms, job.is_lost, is_slow)

    def _phase(self) -> str:
        if self._has_ended:
            return "stopped"
        return self._driver.jobs.phase.value if self._has_begun else "new"

    def metrics(self) -> dict[str, dict[str, float]]:
        """The numbers of the worker and of its consumer: group → name → value. Empty before the start. Any thread.

        Those of the worker are in the group `consumer-share-worker-metrics`; docs/observability.md has them all. Also
        after the end; does not wait. Raises `IllegalStateError` in a forked child.
        """
        consumer = self._driver.consumer
        return {} if consumer is None else consumer.metrics()

    def is_healthy(self) -> bool:
        """For a liveness probe: whether the worker works, or could if there were records. Any thread.

        False before the start and after the end; if an error has lasted for two minutes, or lasts until a new worker is
        made; and if all handlers are occupied by records whose locks were lost, so that nothing can begin.
        """
        state = self.inspect()
        if state.phase in ("new", "stopped") or state.consumer is None:
            return False
        if state.consumer.is_fatal or (state.consumer.error_for_ms or 0) > TROUBLE_MS:
            return False
        return not self._driver.jobs.is_stuck

    def __repr__(self) -> str:
        return f"<ShareWorker {self._phase()} topics={list(self._driver.plan.topics)}>"


def consumer_of(worker: ShareWorker[Any, Any]) -> Leasing | None:
    """The consumer of a worker, for those who collect metrics; None before the start."""
    return worker._driver.consumer


def _driver(plan: Plan) -> Driver:
    if _is_async(plan.handler):
        if plan.processes is not None:
            raise ConfigurationError("processes run plain handlers, and this one is async def")
        return TaskDriver(plan)
    if isinstance(plan.producer, AiokafkaProducer):
        raise ConfigurationError("AiokafkaProducer belongs to an event loop: it goes with a handler that is async def")
    return ThreadDriver(plan) if plan.processes is None else ProcessDriver(plan)


def _refuse_misspelt(names: Iterable[str]) -> None:
    """The consumer, which gets what is not the worker's own, cannot know the names of the worker's settings."""
    parameters = inspect.signature(ShareWorker.__init__).parameters.values()
    own = [one.name for one in parameters if one.kind is one.KEYWORD_ONLY]
    known = {field.name for field in attrs.fields(ShareConsumerConfig)}.union(own)
    for name in names:
        close = difflib.get_close_matches(name, own, n=1, cutoff=0.8)
        if close and name not in known:
            raise ConfigurationError(f"{name} is not a setting of a worker; did you mean {close[0]}?")


def _consumer_settings(plan: Plan, window_records: int | None, window_bytes: int | None) -> dict[str, Any]:
    """The settings of the worker's consumer. Raises `ConfigurationError`."""
    _refuse_misspelt(name.replace(".", "_") for name in plan.settings)
    batch = plan.batch_records
    per_handler = RECORDS_PER_HANDLER if batch is None else BATCHES_PER_HANDLER * batch
    window = per_handler * plan.handlers if window_records is None else window_records
    own = {
        "deserialization_errors": "mark",
        "explicit_window_records": window,
        "explicit_window_bytes": 0 if window_bytes is None else window_bytes,
    }
    settings = leasing_settings(plan.settings, own, "a worker", _WINDOW)
    config = ShareConsumerConfig.from_mapping(settings)  # says now what would be wrong later
    if window_bytes == 0:
        raise ConfigurationError("window_bytes is 0: it is None, or a whole number from 1")
    if window_bytes is not None and window_bytes < config.fetch_max_bytes:
        settings = {name: settings[name] for name in settings if name.replace(".", "_") != "fetch_max_bytes"}
        settings["fetch_max_bytes"] = window_bytes
    if window < plan.handlers:
        name = "concurrency" if plan.processes is None else "processes"
        raise ConfigurationError(f"window_records is {window}: it is at least {name}, {plan.handlers}")
    if batch is not None and window < batch:
        raise ConfigurationError(f"window_records is {window}: it is at least batch_records, {batch}")
    return settings


def _is_async(handler: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(getattr(handler, "__call__", None))  # noqa: B004


def _takes_lease(handler: Callable[..., Any]) -> bool:
    """Whether it needs two arguments. Raises `ConfigurationError` if it can be called with neither one nor two."""
    try:
        signature = inspect.signature(handler)
    except ValueError:  # of some builtins
        return False
    for count in (1, 2):
        try:
            signature.bind(*range(count))
        except TypeError:
            continue
        return count == 2
    raise ConfigurationError(f"the handler is called with a record, or a record and its lease; it takes {signature}")
