"""One worker of the demo: a share consumer in explicit mode on its own thread.

Called by the job. It tells everything that happens as ledger events, in order; it decides nothing about the outcome
of the run.
"""

from __future__ import annotations

import hashlib
import random
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeAlias

from kafka_share.cli.demo.definitions import UnparsableError, count_definitions
from kafka_share.cli.demo.ledger import (
    Acknowledged,
    DamageFound,
    Delivered,
    Dropped,
    LedgerEvent,
    OutcomeKnown,
    WorkerFailed,
    WorkerStopped,
)
from kafka_share.errors import KafkaShareError, WakeupError
from kafka_share.records import AcknowledgementCommitCallback, AcknowledgeType, ShareRecord, TopicIdPartition

CHECKSUM_HEADER = "sha256"
POLL_TIMEOUT_MS = 500

Record: TypeAlias = ShareRecord[bytes, bytes]


class ShareConsumer(Protocol):
    """The part of `KafkaShareConsumer` that a worker uses."""

    def set_acknowledgement_commit_callback(self, callback: AcknowledgementCommitCallback | None) -> None: ...
    def poll(self, timeout_ms: int) -> Sequence[Record]: ...
    def acknowledge(self, record: Record, type: AcknowledgeType) -> None: ...  # noqa: A002
    def commit_sync(self) -> Any: ...
    def wakeup(self) -> None: ...


class StopInTheMiddle:
    """Chooses the one worker that is stopped while it holds records: the one that takes up the record of that number.

    `after_records` is how many records all workers together take up before that; None: nobody is stopped. Thread-safe.
    """

    def __init__(self, after_records: int | None) -> None:
        self._left = after_records
        self._lock = threading.Lock()

    def claims_next(self) -> bool:
        """Call it before each record; True once: the caller is the one, and must stop with this record in hand."""
        with self._lock:
            if self._left is None:
                return False
            self._left -= 1
            if self._left >= 0:
                return False
            self._left = None
            return True


class TransientErrors:
    """Decides which deliveries fail although nothing is wrong with the record.

    The decision depends on the seed, the record and its delivery count alone, not on which worker comes first.
    """

    def __init__(self, probability: float, seed: int) -> None:
        self._probability = probability
        self._seed = seed

    def strike(self, key: bytes, delivery_count: int) -> bool:
        source = random.Random(b"%d %d %s" % (self._seed, delivery_count, key))
        return source.random() < self._probability


class Worker:
    """Call `run` on a thread; it ends when `stopping` is set, when it is chosen to stop, or by an error."""

    def __init__(
        self,
        number: int,
        open_consumer: Callable[[], AbstractContextManager[ShareConsumer]],
        tell: Callable[[LedgerEvent], None],
        stopping: threading.Event,
        stop_in_the_middle: StopInTheMiddle,
        transient_errors: TransientErrors,
    ) -> None:
        self._number = number
        self._open_consumer = open_consumer
        self._tell = tell
        self._stopping = stopping
        self._stop_in_the_middle = stop_in_the_middle
        self._transient_errors = transient_errors
        self._consumer: ShareConsumer | None = None

    def wake(self) -> None:
        """Cut a poll short after `stopping` has been set. May be called from any thread."""
        consumer = self._consumer
        if consumer is not None:
            consumer.wakeup()

    def run(self) -> None:
        try:
            with self._open_consumer() as consumer:
                self._consumer = consumer
                consumer.set_acknowledgement_commit_callback(self._outcomes)
                self._consume(consumer)
        except WakeupError:
            pass  # only `wake` does that, when there is nothing left to do
        except Exception as error:  # noqa: BLE001 - whatever it was, the run must not wait for this worker, and must fail
            self._tell(WorkerFailed(self._number, _describe(error)))

    def _consume(self, consumer: ShareConsumer) -> None:
        while not self._stopping.is_set():
            records = consumer.poll(timeout_ms=POLL_TIMEOUT_MS)
            for record in records:
                self._tell(Delivered(self._number, record.partition, record.offset, record.delivery_count))
            for at, record in enumerate(records):
                chosen = self._stop_in_the_middle.claims_next()
                if chosen or self._stopping.is_set():
                    self._drop(records[at:], chosen=chosen)
                    return
                self._work_on(consumer, record)
            if records:
                consumer.commit_sync()

    def _drop(self, unfinished: Sequence[Record], *, chosen: bool) -> None:
        if chosen:
            self._tell(WorkerStopped(self._number))
        for record in unfinished:
            self._tell(Dropped(self._number, record.partition, record.offset))

    def _work_on(self, consumer: ShareConsumer, record: Record) -> None:
        where = self._number, record.partition, record.offset
        if (CHECKSUM_HEADER, hashlib.sha256(record.value).digest()) not in record.headers:
            self._tell(DamageFound(*where))
        if self._transient_errors.strike(record.key, record.delivery_count):
            acknowledged = Acknowledged(*where, AcknowledgeType.RELEASE)
        else:
            try:
                name = record.key.decode("utf-8", "replace")
                acknowledged = Acknowledged(*where, AcknowledgeType.ACCEPT, count_definitions(name, record.value))
            except UnparsableError as error:
                acknowledged = Acknowledged(*where, AcknowledgeType.REJECT, reason=error.reason)
        self._tell(acknowledged)
        consumer.acknowledge(record, acknowledged.type)

    def _outcomes(self, offsets: Mapping[TopicIdPartition, frozenset[int]], error: KafkaShareError | None) -> None:
        message = None if error is None else _describe(error)
        for partition, these in offsets.items():
            for offset in sorted(these):
                self._tell(OutcomeKnown(self._number, partition.partition, offset, message))


def _describe(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
