"""KafkaShareConsumer, the blocking façade: calls of one application thread, waits for the network thread's mailbox.

What the calls do is in `application.calls`; what travels is decided by `core.consumer` on the background thread. This
file has the public API, does the waiting, guards against misuse, and runs the acknowledgement commit callback.

With an open window other threads acknowledge while one polls: those two methods go past the guard of the others.
"""

from __future__ import annotations

import contextlib
import logging
import random
import threading
import warnings
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from functools import partial
from typing import Any, Generic, Self, TypeVar

from kafka_share.application.arguments import acknowledge_type, demand_place, not_a_record, topic_set
from kafka_share.application.calls import ConsumerCalls, Steps
from kafka_share.application.decoding import Decoder
from kafka_share.application.interrupts import Interrupts
from kafka_share.application.metrics import ConsumerMetrics
from kafka_share.application.side import ApplicationSide
from kafka_share.config import ShareConsumerConfig
from kafka_share.core.consumer import ShareConsumerCore
from kafka_share.core.events import AcknowledgementOutcome, CloseRequested
from kafka_share.core.member_id import new_member_id
from kafka_share.core.timeouts import checked_timeout
from kafka_share.errors import (
    ConcurrentUseError,
    ConsumerClosedError,
    IllegalStateError,
    KafkaShareError,
)
from kafka_share.network.background import ConsumerBackground
from kafka_share.network.driver import monotonic_ms
from kafka_share.records import (
    AcknowledgementCommitCallback,
    AcknowledgeType,
    K,
    ShareRecord,
    ShareRecords,
    TopicIdPartition,
    V,
)

T = TypeVar("T")

log = logging.getLogger(__name__)

DEFAULT_CLOSE_TIMEOUT_MS = 30_000
_ITERATION_POLL_MS = 1_000


class KafkaShareConsumer(ConsumerMetrics, Generic[K, V]):
    """A consumer of a share group (KIP-932): a member of a work queue on Kafka topics.

    `KafkaShareConsumer(*topics, **config)` subscribes to the topics, if any are given; `config` are the settings of
    `kafka_share.config.ShareConsumerConfig`, in snake_case or Java's dotted names. `bootstrap_servers` and `group_id`
    are required.

    Records come from `poll`. In implicit mode (the default) the next poll accepts them; in explicit mode each record
    needs `acknowledge` before the next poll. Heartbeats and acknowledgements are sent by a background thread and do
    not depend on how often poll is called, up to `max_poll_interval_ms`.

    With `explicit_window_records` poll may be called while earlier records are worked on, by other threads too: up to
    so many records may be without an acknowledgement. They are acknowledged in any order and from any thread, and
    `acknowledge_with_result` answers a future for each.

    One thread at a time may use a consumer. Any thread may call `wakeup`, and in an open window `acknowledge` and
    `acknowledge_with_result`. A second thread otherwise gets `ConcurrentUseError`. Use it as a context manager, or
    call `close`.

    Raises `ConfigurationError` for a setting that is unknown, inapplicable or out of range.
    """

    def __init__(self, *topics: str, **config: Any) -> None:
        self._driver: ConsumerBackground | None = None
        self._closed = False
        self._config = settings = ShareConsumerConfig.from_mapping(config)
        names = topic_set(topics)
        self._has_window = settings.has_window
        self._interrupts = Interrupts()
        self._application = ApplicationSide(
            explicit=settings.share_acknowledgement_mode == "explicit",
            decoder=Decoder(
                self._interrupts.interruptible(settings.key_deserializer),
                self._interrupts.interruptible(settings.value_deserializer),
                settings.check_crcs,
                settings.deserialization_errors == "mark",
            ),
            max_poll_records=settings.max_poll_records,
            now_ms=monotonic_ms,
            window_records=settings.explicit_window_records,
            guard=threading.RLock() if self._has_window else None,
        )
        self._callback_thread: int | None = None
        self._guard = threading.Lock()
        source = random.Random()
        core = ShareConsumerCore(settings, new_member_id(source), source)
        self._driver = ConsumerBackground(core, settings, window=self._application if self._has_window else None)
        self._calls = ConsumerCalls(self._application, self._driver, api_timeout_ms=settings.default_api_timeout_ms)
        self._driver.start()
        if names:
            self._calls.subscribe(names)

    # ---- subscription

    def subscribe(self, topics: Iterable[str]) -> None:
        """Replace the subscription by these topic names; it takes effect with the next poll.

        Names only: no patterns. Duplicates collapse; no topics at all means `unsubscribe`. Raises
        `InvalidArgumentError` for a name that is no text or blank; the old subscription then stays.
        """
        with self._exclusive("subscribe"):
            names = topic_set(topics)
            if names:
                self._calls.subscribe(names)
            else:
                self._run(self._calls.unsubscribe())

    def unsubscribe(self) -> None:
        """Leave the group and drop the assignment. Records delivered before can still be acknowledged."""
        with self._exclusive("unsubscribe"):
            self._run(self._calls.unsubscribe())

    def subscription(self) -> frozenset[str]:
        """The topic names subscribed to; empty if none."""
        with self._exclusive("subscription"):
            return self._application.topics

    # ---- records

    def poll(self, timeout_ms: int) -> ShareRecords[K, V]:
        """Wait up to `timeout_ms` for records; an empty result means that the time ran out.

        At most `max_poll_records`, rounded up to the end of a record batch (not so with `share_acquire_mode`
        record_limit). In implicit mode this accepts what the previous poll returned. With a full window it waits for
        acknowledgements of other threads to make room.

        Raises `IllegalStateError` without a subscription, or in explicit mode without a window while a delivered record
        has not been acknowledged; `RecordDeserializationError` or `CorruptRecordError` for a record that cannot be
        delivered (go on polling); `WakeupError` after `wakeup`; `BrokerError`, `AuthenticationError`,
        `RemoteProtocolError` and others of `kafka_share.errors` for what the background side met;
        `BrokerUnreachableError` once per outage, when no broker has answered for `default_api_timeout_ms`.
        Acknowledgements are never lost by an exception.
        """
        records: ShareRecords[K, V] | None = None
        try:
            with self._exclusive("poll"), self._measured_poll() as measured:
                records = self._run(self._calls.poll(checked_timeout(timeout_ms)))
                measured.records = len(records)
            return records
        except BaseException:
            if records is not None:
                # An interrupt struck on the way out: what the application never saw must not be accepted.
                self._application.put_back(records)
            raise

    def __iter__(self) -> Iterator[ShareRecord[K, V]]:
        """Endless: yields record by record, polling when the last of a poll has been taken; ends after `close`.

        Leaving the loop loses nothing: what a poll brought and the loop has not yielded comes with the next poll.
        """
        while not self._closed:
            records = self.poll(_ITERATION_POLL_MS)
            yielded = 0
            try:
                for record in records:
                    yielded += 1
                    yield record
                    if self._is_closed():  # the loop's body may have closed the consumer
                        return
            finally:
                if yielded < len(records) and not self._closed:
                    with self._exclusive("iteration"):
                        self._application.put_back(records.without_first(yielded))

    @property
    def acquisition_lock_timeout_ms(self) -> int | None:
        """How long the broker locks records for this consumer, from the latest delivery; None before the first."""
        with self._exclusive("acquisition_lock_timeout_ms"):
            return self._application.acquisition_lock_timeout_ms

    # ---- acknowledgements

    def acknowledge(self, record: ShareRecord[Any, Any], type: AcknowledgeType = AcknowledgeType.ACCEPT) -> None:  # noqa: A002
        """Say what became of a record; sent with the next poll or commit, and changeable until then.

        A record is known by topic, partition and offset alone. Raises `IllegalStateError` in implicit mode and for a
        record that is not in flight; TypeError for an argument of another kind.

        With an open window any thread may call this, it is sent without waiting for a poll, all types but RENEW are
        final, and a record is known by its delivery. A renewed record stays with its holder.
        """
        if not isinstance(record, ShareRecord):
            raise not_a_record(record)
        kind = type if type.__class__ is AcknowledgeType else acknowledge_type(type)
        if self._has_window:
            self._calls.acknowledge_delivery(record, kind, None)
            return
        # Not `with self._exclusive(...)`: called for each record, this saves most of the call's time.
        self._enter("acknowledge")
        try:
            self._application.acknowledge(record.topic, record.partition, record.offset, kind)
        finally:
            self._guard.release()

    def acknowledge_with_result(
        self,
        record: ShareRecord[Any, Any],
        type: AcknowledgeType = AcknowledgeType.ACCEPT,  # noqa: A002
    ) -> Future[None]:
        """The same as `acknowledge` with an open window, and a future of the broker's answer: None, or the error.

        It is resolved on the background thread, at the latest when the consumer closes, and cannot be cancelled. What
        is added to it with `add_done_callback` runs there: keep it short; it may acknowledge, but call no other method
        of the consumer. Raises `IllegalStateError` without a window, and as `acknowledge` does.
        """
        if not isinstance(record, ShareRecord):
            raise not_a_record(record)
        kind = acknowledge_type(type)
        if not self._has_window:
            raise IllegalStateError("acknowledge_with_result needs an open window: set explicit_window_records")
        future: Future[None] = Future()
        future.set_running_or_notify_cancel()
        self._calls.acknowledge_delivery(record, kind, partial(_resolve, future))
        return future

    def acknowledge_offset(self, topic: str, partition: int, offset: int, type: AcknowledgeType) -> None:  # noqa: A002
        """Override what is said about a record that could not be delivered (a deserializer failed, damaged batch).

        Raises `IllegalStateError` in implicit mode and for any other offset; `InvalidArgumentError` for a negative
        partition or offset, and for RENEW.
        """
        kind = acknowledge_type(type)
        demand_place(partition, offset)
        with self._exclusive("acknowledge_offset"):
            self._application.override(topic, partition, offset, kind)

    def commit_sync(self, timeout_ms: int | None = None) -> dict[TopicIdPartition, KafkaShareError | None]:
        """Send the acknowledgements and wait for the brokers' answers: partition → None, or the error.

        In implicit mode this first accepts what was delivered. The result covers what this call sent and what earlier
        calls sent and has not been reported yet; nothing to wait for: empty, at once. Default timeout:
        `default_api_timeout_ms`. Raises `OperationTimeoutError` when time runs out (the acknowledgements stay under
        way and are reported to the callback) and `WakeupError`.
        """
        with self._exclusive("commit_sync"):
            wait_ms = None if timeout_ms is None else checked_timeout(timeout_ms)
            return self._run(self._calls.commit_sync(wait_ms))

    def commit_async(self) -> None:
        """Send the acknowledgements without waiting; their outcome comes through the callback."""
        with self._exclusive("commit_async"):
            self._calls.commit_async()

    def set_acknowledgement_commit_callback(self, callback: AcknowledgementCommitCallback | None) -> None:
        """Be told how acknowledgements ended: `callback(offsets by partition, error or None)`.

        It runs on the application's thread, inside poll, commit_sync, commit_async and close, and must not call the
        consumer. What it raises is logged and swallowed. None: results are not collected.
        """
        if callback is not None and not callable(callback):
            raise TypeError(f"the callback is a callable or None, not {callback.__class__.__name__}")
        with self._exclusive("set_acknowledgement_commit_callback"):
            self._calls.report = None if callback is None else partial(self._report, callback)

    def _report(self, callback: AcknowledgementCommitCallback, outcome: AcknowledgementOutcome) -> None:
        offsets = frozenset(o for run in outcome.runs for o in range(run.first, run.last + 1))
        self._callback_thread = threading.get_ident()
        try:
            self._interrupts.run_outside(callback, {outcome.partition: offsets}, outcome.error)
        except Exception:
            log.exception("the acknowledgement commit callback raised")
        finally:
            self._callback_thread = None

    # ---- the end

    def wakeup(self) -> None:
        """Make a blocking poll or commit_sync, or the next one, raise `WakeupError`. May be called from any thread."""
        if self._driver is not None and not self._closed:
            self._driver.mailbox.wakeup()

    def close(self, timeout_ms: int | None = None) -> None:
        """Send the pending acknowledgements, give back what is held, leave the group, stop the background thread.

        Records that were delivered and not acknowledged are released at once for other members, in implicit mode too.
        Returns without an error even if no broker can be reached, at the latest after `timeout_ms` (default: 30 s),
        give or take a moment for the last outcomes. Calling it again does nothing.
        """
        limit_ms = DEFAULT_CLOSE_TIMEOUT_MS if timeout_ms is None else checked_timeout(timeout_ms)
        with self._exclusive("close", when_closed=True):
            if self._closed or self._driver is None:
                return
            try:
                self._run(self._calls.close(limit_ms))
            finally:
                self._closed = True
                self._driver.stop()
            for error in iter(self._application.pop_error, None):
                log.warning("closed with an error that no poll has raised: %s", error)

    def _is_closed(self) -> bool:
        return self._closed

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        driver = getattr(self, "_driver", None)
        if driver is None or self._closed:
            return
        warnings.warn(f"{self!r} was not closed", ResourceWarning, source=self, stacklevel=2)
        with contextlib.suppress(KafkaShareError):
            # No waiting in a finalizer: the thread leaves the group and ends by itself.
            driver.post(CloseRequested((), driver.now_ms() + self._config.request_timeout_ms))

    def __repr__(self) -> str:
        return f"<KafkaShareConsumer group_id={self._config.group_id!r} client_id={self._config.client_id!r}>"

    # ---- waiting

    def _run(self, call: Steps[T]) -> T:
        """Run a call to its end, blocking in the mailbox wherever it waits."""
        assert self._driver is not None
        try:
            wait = next(call)
            while True:
                try:
                    left_ms = wait.deadline_at_ms - self._driver.now_ms()
                    with self._interrupts.waiting():
                        self._driver.mailbox.wait(max(0, left_ms), with_records=wait.with_records)
                except BaseException as error:  # noqa: BLE001 - the call ends by it
                    wait = call.throw(error)
                else:
                    wait = next(call)
        except StopIteration as end:
            result: T = end.value
            return result

    @contextlib.contextmanager
    def _exclusive(self, method: str, *, when_closed: bool = False) -> Iterator[None]:
        """The guard of `_enter`, released at the end of the block."""
        if self._has_window and self._driver is not None and self._driver.is_current_thread:
            raise ConcurrentUseError(f"{method} must not be called from a callback of a future")
        with self._interrupts:
            self._enter(method, when_closed=when_closed)
            try:
                yield
            finally:
                self._guard.release()

    def _enter(self, method: str, *, when_closed: bool = False) -> None:
        """Take the guard: one caller at a time, none from inside the callback, none after close."""
        if not self._guard.acquire(blocking=False):
            if self._callback_thread == threading.get_ident():
                raise ConcurrentUseError(f"{method} must not be called from the acknowledgement commit callback")
            raise ConcurrentUseError(f"{method} was called while another thread uses this consumer")
        if self._closed and not when_closed:
            self._guard.release()
            raise ConsumerClosedError("This consumer has already been closed.")


def _resolve(future: Future[None], error: KafkaShareError | None) -> None:
    if error is None:
        future.set_result(None)
    else:
        future.set_exception(error)
