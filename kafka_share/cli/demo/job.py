"""One run of the demo: publish the sources, let a pool of share consumers work through them, hold the ledger.

Called by `kafka_share.cli.demo.command`. It starts threads and ends them, and keeps the deadline; it writes nothing.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Final, Protocol

import attrs

from kafka_share.cli.demo.cluster import Cluster, ClusterError
from kafka_share.cli.demo.definitions import quiet_parsing
from kafka_share.cli.demo.ledger import Delivered, Ledger, LedgerEvent
from kafka_share.cli.demo.report import Report
from kafka_share.cli.demo.sources import Sources
from kafka_share.cli.demo.worker import ShareConsumer, StopInTheMiddle, TransientErrors, Worker
from kafka_share.consumer import KafkaShareConsumer

RECORDS_PER_POLL: Final = 16
"""Few enough that all workers have something to do, and that a stopped worker does not hold much back."""

_MAX_EVENTS: Final = 1_000
_TICK_S: Final = 0.1
_CLOSE_TIMEOUT_MS: Final = 10_000


@attrs.frozen(kw_only=True)
class JobSettings:
    """What a run is to do. `timeout_s` covers all of it but the closing of the consumers."""

    bootstrap_servers: str
    topic: str
    group: str
    workers: int
    partitions: int
    codec: str
    flaky: float
    seed: int
    stop_worker: bool
    timeout_s: float
    remove_topic: bool
    """Whether to remove topic and group at the end; pointless on a broker that ends with the run."""


class Observer(Protocol):
    """Learns how far the run is; called on the job's thread."""

    def publishing(self, published: int, total: int) -> None: ...
    def working(self, ledger: Ledger) -> None: ...


class Pool:
    """The workers, each on its thread, and the bounded queue through which they report what happens."""

    def __init__(
        self, settings: JobSettings, files: int, open_consumer: Callable[[], AbstractContextManager[ShareConsumer]]
    ) -> None:
        self._events: queue.Queue[LedgerEvent] = queue.Queue(_MAX_EVENTS)
        self._stopping = threading.Event()
        stop_in_the_middle = StopInTheMiddle(files // 3 if settings.stop_worker else None)
        transient_errors = TransientErrors(settings.flaky, settings.seed)
        self._workers = [
            Worker(number, open_consumer, self._events.put, self._stopping, stop_in_the_middle, transient_errors)
            for number in range(settings.workers)
        ]
        # Daemons, so that a worker that hangs cannot keep the process from ending after its deadline.
        self._threads = [
            threading.Thread(target=worker.run, name=f"demo worker {number + 1}", daemon=True)
            for number, worker in enumerate(self._workers)
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    @property
    def is_alive(self) -> bool:
        return any(thread.is_alive() for thread in self._threads)

    def events(self, wait_s: float) -> Iterator[LedgerEvent]:
        """What the workers have reported, a queue's length at most; waits up to `wait_s` for the first event."""
        with contextlib.suppress(queue.Empty):
            yield self._events.get(timeout=wait_s)
            for _ in range(_MAX_EVENTS):
                yield self._events.get_nowait()

    def stop(self, timeout_s: float) -> Iterator[LedgerEvent]:
        """Let the workers end; yields what they still report, until all have ended or the time has run out."""
        self._stopping.set()
        for worker in self._workers:
            worker.wake()
        end_at_s = time.monotonic() + timeout_s
        while self.is_alive and time.monotonic() < end_at_s:
            yield from self.events(_TICK_S)
        yield from self.events(_TICK_S)


def run_job(settings: JobSettings, sources: Sources, observer: Observer) -> Report:
    """Do all of it. Raises `KafkaShareError` if the cluster could not be prepared."""
    deadline_at_s = time.monotonic() + settings.timeout_s
    with Cluster(settings.bootstrap_servers, deadline_at_s) as cluster, quiet_parsing():
        cluster.create_topic(settings.topic, settings.partitions)
        try:
            limit = cluster.start_group_at_earliest(settings.group)
            ledger = Ledger(settings.workers, limit)
            bytes_published = _publish(cluster, settings, sources, ledger, observer)
            seconds = _work(settings, ledger, deadline_at_s, observer)
        finally:
            if settings.remove_topic:
                cluster.remove(settings.topic, settings.group)
    return Report.from_ledger(
        ledger, bytes_published=bytes_published, left_out=sources.left_out, seconds=seconds, seed=settings.seed
    )


def _publish(cluster: Cluster, settings: JobSettings, sources: Sources, ledger: Ledger, observer: Observer) -> int:
    bytes_published = 0
    observer.publishing(0, len(sources))
    for record in cluster.publish(settings.topic, sources.contents(), settings.codec):
        ledger.publish(record.name, record.partition, record.offset)
        bytes_published += record.size_bytes
        observer.publishing(ledger.published, len(sources))
    if not ledger.published:
        raise ClusterError(f"no file of {sources.root} could be published")
    return bytes_published


def _work(settings: JobSettings, ledger: Ledger, deadline_at_s: float, observer: Observer) -> float:
    """Run the pool until every file is settled or the deadline has passed; the seconds since the first delivery."""
    pool = Pool(settings, ledger.published, lambda: _open_consumer(settings))
    first_delivery_at_s = last_settlement_at_s = None
    pool.start()
    try:
        while not ledger.is_complete and time.monotonic() < deadline_at_s:
            running = pool.is_alive
            for event in pool.events(_TICK_S):
                if first_delivery_at_s is None and isinstance(event, Delivered):
                    first_delivery_at_s = time.monotonic()
                ledger.handle(event)
            last_settlement_at_s = time.monotonic()
            observer.working(ledger)
            if not running:
                break
        if not ledger.is_complete and time.monotonic() >= deadline_at_s:
            ledger.note(f"the time of {settings.timeout_s:g} s ran out before all files were settled")
    finally:
        for event in pool.stop(_CLOSE_TIMEOUT_MS / 1000 + 1):
            ledger.handle(event)
    if pool.is_alive:
        ledger.note("a worker could not be closed in time")
    observer.working(ledger)
    if first_delivery_at_s is None or last_settlement_at_s is None:
        return 0.0
    return last_settlement_at_s - first_delivery_at_s


@contextlib.contextmanager
def _open_consumer(settings: JobSettings) -> Iterator[ShareConsumer]:
    consumer = KafkaShareConsumer[bytes, bytes](
        settings.topic,
        bootstrap_servers=settings.bootstrap_servers,
        group_id=settings.group,
        client_id="kafka-share-demo",
        share_acknowledgement_mode="explicit",
        max_poll_records=RECORDS_PER_POLL,
        release_backoff_ms=0,  # the failures are made, and none of them passes with time
    )
    try:
        yield consumer
    finally:
        consumer.close(timeout_ms=_CLOSE_TIMEOUT_MS)
