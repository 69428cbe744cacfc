"""The contestants of the rows about handlers: a function is called for each record, up to ten at a time.

Used by `contestant`. The loops are what one writes without a worker: ours handles one record after the other, the one
of confluent-kafka gives what a poll brought to a pool of threads and waits for all of it, since its explicit mode wants
each record acknowledged before the next poll, by the thread that polls.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from performance.foreign import confluent_consumer
from performance.meter import Meter, Task

from kafka_share import KafkaShareConsumer
from kafka_share.worker import ShareWorker

AT_A_TIME: Final = 10
_POLL_MS: Final = 500
_COUNT_EVERY: Final = 50
"""A look at the clocks for each record would be part of what is measured."""


class Counted:
    """Counts what handlers on several threads have handled, and ends the worker after the last record."""

    def __init__(self, task: Task) -> None:
        self.meter = Meter(task, has_one_thread=False)
        self.stop: Callable[[], None] = _nothing
        self._task = task
        self._every = 1 if task.stamped else _COUNT_EVERY
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()

    def arrived(self, record: Any) -> None:
        if self._task.stamped:
            with self._lock:
                self.meter.arrived([record.value])

    def handled(self) -> None:
        number = next(self._numbers)
        if number % self._every == 0:
            with self._lock:
                self.meter.handled(self._every)
        if number == self._task.records:
            self.stop()


def _nothing() -> None:
    """Before there is a worker."""


def _worker(task: Task, handler: Callable[[Any], Any]) -> ShareWorker[Any, Any]:
    return ShareWorker(
        task.topic,
        handler,
        bootstrap_servers=task.bootstrap,
        group_id=task.group,
        concurrency=AT_A_TIME,
        window_records=task.window,
        max_poll_records=task.max_poll_records,
    )


def worker(task: Task) -> Meter:
    counted, wait_s = Counted(task), task.wait_us / 1e6

    def handle(record: Any) -> None:
        counted.arrived(record)
        record.value  # noqa: B018
        if wait_s:
            time.sleep(wait_s)
        counted.handled()

    running = _worker(task, handle)
    counted.stop = running.stop
    running.run()
    return counted.meter


def worker_with_tasks(task: Task) -> Meter:
    counted, wait_s = Counted(task), task.wait_us / 1e6

    async def handle(record: Any) -> None:
        counted.arrived(record)
        record.value  # noqa: B018
        if wait_s:
            await asyncio.sleep(wait_s)
        counted.handled()

    running = _worker(task, handle)
    counted.stop = running.stop
    running.run()
    return counted.meter


def loop(task: Task) -> Meter:
    wait_s = task.wait_us / 1e6
    with KafkaShareConsumer[Any, Any](
        task.topic,
        bootstrap_servers=task.bootstrap,
        group_id=task.group,
        max_poll_records=task.max_poll_records,
        share_acknowledgement_mode="explicit",
    ) as consumer:
        meter = Meter(task)
        while meter.wants_more():
            records = consumer.poll(timeout_ms=_POLL_MS)
            if task.stamped:
                meter.arrived([record.value for record in records])
            for record in records:
                record.value  # noqa: B018
                if wait_s:
                    time.sleep(wait_s)
                consumer.acknowledge(record)
            meter.handled(len(records))
        return meter


def confluent_with_threads(task: Task) -> Meter:
    wait_s = task.wait_us / 1e6
    consumer = confluent_consumer(task)
    meter, lock = Meter(task, has_one_thread=False), threading.Lock()

    def handle(record: Any) -> None:
        value = record.value()
        if task.stamped:
            with lock:
                meter.arrived([value])
        if wait_s:
            time.sleep(wait_s)

    with ThreadPoolExecutor(AT_A_TIME) as pool:
        while meter.wants_more():
            records = consumer.poll(_POLL_MS / 1_000)
            for record, _ in zip(records, pool.map(handle, records), strict=True):
                consumer.acknowledge(record)
            meter.handled(len(records))
    consumer.close()
    return meter


CLIENTS: Final[dict[str, Callable[[Task], Meter]]] = {
    "ours": loop,
    "worker": worker,
    "worker-tasks": worker_with_tasks,
    "confluent": confluent_with_threads,
}
