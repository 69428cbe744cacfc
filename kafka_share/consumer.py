"""KafkaShareConsumer, the blocking façade: calls of one application thread, waits for the network thread's mailbox.

What the calls do is in `application.calls`; what travels is decided by `core.consumer` on the background thread. This
file has the public API, does the waiting, guards against misuse, and runs the acknowledgement commit callback.

With an open window other threads acknowledge while one polls: those methods go past the guard of the others. An
interrupt may end a call anywhere; what a poll has collected is the application's only when poll has returned.
"""

from __future__ import annotations

import contextlib
import inspect
import logging
import random
import threading
import warnings
import weakref
from collections.abc import Callable, Generator, Iterable, Iterator, Sized
from concurrent.futures import Future
from functools import partial
from typing import Any, Generic, NoReturn, Self, TypeVar, Unpack

from kafka_share.application.arguments import (
    acknowledge_type,
    checked_delay,
    demand_place,
    not_a_record,
    topic_set,
    topics_of_constructor,
)
from kafka_share.application.calls import LAST_OUTCOMES_MS, ConsumerCalls, Steps
from kafka_share.application.decoding import Decoder
from kafka_share.application.metrics import ConsumerMetrics
from kafka_share.application.one_caller import OneCaller
from kafka_share.application.side import ApplicationSide
from kafka_share.config import ShareConsumerConfig
from kafka_share.core.consumer import ShareConsumerCore
from kafka_share.core.events import AcknowledgementOutcome, CloseRequested
from kafka_share.core.member_id import new_member_id
from kafka_share.core.timeouts import checked_timeout
from kafka_share.deserializers import Deserializer, PlainDeserializer
from kafka_share.errors import (
    ConcurrentUseError,
    ConsumerClosedError,
    IllegalStateError,
    KafkaShareError,
)
from kafka_share.harmless import excerpt
from kafka_share.network import at_exit
from kafka_share.network.background import ConsumerBackground
from kafka_share.network.clock import clock_ms
from kafka_share.network.driver import DEFAULT_STOP_TIMEOUT_MS
from kafka_share.network.futures import OutcomeFuture
from kafka_share.network.process import Origin
from kafka_share.records import (
    AcknowledgementCommitCallback,
    AcknowledgeType,
    AcknowledgeTypeOrName,
    K,
    ShareRecord,
    ShareRecords,
    TopicIdPartition,
    V,
)
from kafka_share.settings import ShareConsumerSettings

T = TypeVar("T")
S = TypeVar("S", bound=Sized)

log: logging.Logger = logging.getLogger(__name__)

DEFAULT_CLOSE_TIMEOUT_MS = 30_000
_ITERATION_POLL_MS = 1_000


class KafkaShareConsumer(ConsumerMetrics, Generic[K, V]):
    """A consumer of a share group (KIP-932): a member of a work queue on Kafka topics.

    `KafkaShareConsumer(*topics, **settings)` subscribes to the topics, if any are given. The settings are those of
    `kafka_share.ShareConsumerSettings`, in snake_case or, as `**{"max.poll.records": 10}`, Java's dotted names.
    `bootstrap_servers` and `group_id` are required. A deserializer is a callable of the bytes or a `Deserializer`; its
    result is the type of the records' keys or values, which are bytes or None without one. A null key or value is not
    handed to a callable, and stays None.

    Records come from `poll`. In implicit mode (the default) the next poll accepts them; in explicit mode each record
    needs `acknowledge` before the next poll. Heartbeats and acknowledgements are sent by a background thread and do
    not depend on how often poll is called, up to `max_poll_interval_ms`.

    With `explicit_window_records` poll may be called while earlier records are worked on, by other threads too: up to
    so many records may be without an acknowledgement. They are acknowledged in any order and from any thread, and
    `acknowledge_with_result` answers a future for each.

    One thread at a time may use a consumer. Any thread may call `wakeup` and `close`, and in an open window
    `acknowledge`, `acknowledge_with_result` and `release`. A second thread otherwise gets `ConcurrentUseError`. Use it
    as a context manager, or call `close`.

    Raises `ConfigurationError` for a setting that is unknown, inapplicable or out of range.
    """

    def __init__(
        self,
        *topics: str,
        key_deserializer: Deserializer[K] | PlainDeserializer[K] | None = None,
        value_deserializer: Deserializer[V] | PlainDeserializer[V] | None = None,
        **settings: Unpack[ShareConsumerSettings],
    ) -> None:
        self._driver: ConsumerBackground | None = None
        self._origin = Origin()
        self._closed = False
        names = topics_of_constructor(topics)
        given: dict[str, Any] = {**settings}
        if key_deserializer is not None:
            given["key_deserializer"] = key_deserializer
        if value_deserializer is not None:
            given["value_deserializer"] = value_deserializer
        self._config = config = ShareConsumerConfig.from_mapping(given)
        self._has_window = config.has_window
        self._application = ApplicationSide(
            explicit=config.share_acknowledgement_mode == "explicit",
            decoder=Decoder(
                config.key_deserializer,
                config.value_deserializer,
                config.check_crcs,
                config.max_record_batch_bytes,
                config.deserialization_errors == "mark",
            ),
            max_poll_records=config.max_poll_records,
            now_ms=clock_ms,
            window_records=config.explicit_window_records,
            protects_locks=config.protect_locks,
            longest_work_ms=config.max_poll_interval_ms,
            guard=threading.RLock(),
        )
        self._callback_thread: int | None = None
        self._one_caller = OneCaller(KafkaShareConsumer._call, KafkaShareConsumer.acknowledge)
        source = random.Random()
        core = ShareConsumerCore(config, new_member_id(source), source)
        self._driver = ConsumerBackground(core, config, application=self._application)
        self._calls = ConsumerCalls(self._application, self._driver, api_timeout_ms=config.default_api_timeout_ms)
        deliveries, measurements = self._application.deliveries, self._driver.measurements
        measurements.window_records = lambda: deliveries.window_records
        callbacks = self._driver.callbacks
        deliveries.behind, callbacks.on_taken = callbacks.waiting, self._application.outcome_told
        measurements.held_records = lambda: deliveries.held
        self._driver.start()
        self._exit = _Exit(self)
        at_exit.register_client(self._exit)
        if names:
            self._calls.subscribe(names)

    # ---- subscription

    def subscribe(self, topics: Iterable[str]) -> None:
        """Replace the subscription by these topic names; it takes effect with the next poll.

        Names only: no patterns. Duplicates collapse; no topics at all means `unsubscribe`. Raises
        `InvalidArgumentError` for a name that is no text or blank; the old subscription then stays.
        """
        names = topic_set(topics)
        if names:
            self._call("subscribe", partial(self._calls.subscribe, names))
        else:
            self._run("subscribe", self._calls.unsubscribe())

    def unsubscribe(self) -> None:
        """Leave the group and drop the assignment. Records delivered before can still be acknowledged."""
        self._run("unsubscribe", self._calls.unsubscribe())

    def subscription(self) -> frozenset[str]:
        """The topic names subscribed to; empty if none."""
        return self._call("subscription", lambda: self._application.topics)

    # ---- records

    def poll(self, timeout_ms: int) -> ShareRecords[K, V]:
        """Wait up to `timeout_ms` for records; an empty result means that the time ran out.

        At most `max_poll_records`, rounded up to the end of a record batch (not so with `share_acquire_mode`
        record_limit). In implicit mode this accepts what the previous poll returned. With a full window it waits for
        acknowledgements of other threads to make room.

        Raises `IllegalStateError` without a subscription, or in explicit mode without a window while a delivered record
        has not been acknowledged; `RecordDeserializationError`, `CorruptRecordError` or `UnsupportedRecordError` for
        what cannot be delivered, when all else at hand has been (go on polling); `WakeupError` after `wakeup`;
        `BrokerError`, `AuthenticationError`, `RemoteProtocolError` and others of `kafka_share.errors` for what the
        background side met, and again at the end of each later poll without records, until it has passed;
        `BrokerUnreachableError` once per outage, when no broker has answered for `default_api_timeout_ms`.
        Acknowledgements are never lost by an exception.
        """
        return self._poll("poll", self._calls.poll(checked_timeout(timeout_ms)))

    def _poll(self, method: str, call: Steps[S]) -> S:
        """Run a call that polls."""
        begun_calls = self._application.begun_calls
        try:
            with self._measured_poll() as measured:
                records = self._run(method, call)
                measured.records = len(records)
            return records
        except BaseException:
            has_run = inspect.getgeneratorstate(call) == inspect.GEN_CLOSED
            if has_run and self._application.begun_calls > begun_calls:  # perhaps an interrupt struck on the way out
                self._application.interrupt_call()
            raise

    def __iter__(self) -> Iterator[ShareRecord[K, V]]:
        """Endless: yields record by record, polling when the last of a poll has been taken; ends after `close`.

        Leaving the loop loses nothing: what a poll brought and the loop has not yielded comes with the next poll.
        """
        loop = _Loop()
        generator = self._iterate(loop)
        loop.generator = weakref.ref(generator)
        return generator

    def _iterate(self, loop: _Loop) -> Generator[ShareRecord[K, V], None, None]:
        while not self._closed:
            try:
                yield from self._poll("iteration", self._calls.read(_ITERATION_POLL_MS, loop.has_ended))
            except ConsumerClosedError:
                return  # another thread closes it
            finally:
                self._stop_reading(loop)

    def _stop_reading(self, loop: _Loop) -> None:
        """The loop may be over. If an interrupt strikes before this is done, the next call does it."""
        reading = self._application.reading
        if not self._closed and reading is not None and reading.is_over == loop.has_ended and reading.rest:
            with contextlib.suppress(ConsumerClosedError):  # another thread closes it, and releases them
                self._call("iteration", self._calls.stop_reading)

    @property
    def acquisition_lock_timeout_ms(self) -> int | None:
        """How long the broker locks records for this consumer, from the latest delivery; None before the first."""
        return self._call("acquisition_lock_timeout_ms", lambda: self._application.acquisition_lock_timeout_ms)

    # ---- acknowledgements

    def acknowledge(
        self,
        record: ShareRecord[Any, Any],
        type: AcknowledgeTypeOrName = AcknowledgeType.ACCEPT,  # noqa: A002
    ) -> None:
        """Tell what became of a record; changeable until it leaves, with a poll or commit or before its lock ends.

        The type may be given by its name: "accept", "release", "reject", "renew".

        A record is known by topic, partition and offset alone. Raises `IllegalStateError` in implicit mode and for a
        record that is not in flight; TypeError for an argument of another kind.

        With an open window any thread may call this, it is sent without waiting for a poll, all types but RENEW are
        final, and a record is known by its delivery. A renewed record stays with its holder.
        """
        if not isinstance(record, ShareRecord):
            raise not_a_record(record)
        kind = type if isinstance(type, AcknowledgeType) else acknowledge_type(type)
        if self._has_window:
            self._origin.enter()
            self._calls.acknowledge_delivery(record, kind, None)
            return
        # Not through `_call`, and `_enter` only where it has something to say: this is called for each record.
        self._origin.enter()
        lock = self._one_caller.lock
        is_inside = lock.acquire(False)
        if not is_inside or self._closed or self._calls.is_closing:
            if is_inside:
                self._one_caller.leave()
            self._enter("acknowledge")
        try:
            self._application.acknowledge(record.topic, record.partition, record.offset, kind, record.lock)
        finally:
            try:
                lock.release()
            except RuntimeError:
                pass  # an interrupt struck behind the first time

    def release(self, record: ShareRecord[Any, Any], delay_ms: int = 0) -> None:
        """Give a record back, to be delivered again; with `delay_ms` not before that time has passed.

        Until then the record stays ours and its lock is renewed, so that waiting costs no delivery. It can still be
        acknowledged otherwise (not with an open window, where it is final), and `close` releases it. At most 900,000
        ms; while 1,000 records wait, poll fetches no others. Where locks cannot be renewed (Kafka 4.1, or a group that
        forbids it), the record is released before its lock ends, and the WARNING `renewals-refused` says so once.

        Raises `IllegalStateError` in implicit mode and for a record that is not in flight, `InvalidArgumentError` or
        TypeError for a delay that cannot be. With an open window any thread may call this.
        """
        delay_ms = checked_delay(delay_ms)
        if not delay_ms:
            self.acknowledge(record, AcknowledgeType.RELEASE)
            return
        if not isinstance(record, ShareRecord):
            raise not_a_record(record)
        if self._has_window:
            self._origin.demand()
            self._application.deliveries.hold(record, delay_ms)
        else:
            self._call("release", partial(self._application.deliveries.hold, record, delay_ms))

    def acknowledge_with_result(
        self,
        record: ShareRecord[Any, Any],
        type: AcknowledgeTypeOrName = AcknowledgeType.ACCEPT,  # noqa: A002
    ) -> Future[None]:
        """The same as `acknowledge` with an open window, and a future of the broker's answer: None, or the error.

        It is resolved on the background thread, at the latest when the consumer closes, and cannot be cancelled. What
        is added to it with `add_done_callback` runs on another thread, one after the other: it may acknowledge, but
        call no other method of the consumer. What it raises is logged and swallowed. Raises `IllegalStateError` without
        a window, and as `acknowledge` does.
        """
        if not isinstance(record, ShareRecord):
            raise not_a_record(record)
        kind = acknowledge_type(type)
        if not self._has_window:
            raise IllegalStateError("acknowledge_with_result needs an open window: set explicit_window_records")
        self._origin.enter()
        assert self._driver is not None
        future = OutcomeFuture(self._driver.callbacks)
        self._calls.acknowledge_delivery(record, kind, future.resolve)
        return future

    def acknowledge_offset(
        self,
        topic: str,
        partition: int,
        offset: int,
        type: AcknowledgeTypeOrName,  # noqa: A002
    ) -> None:
        """Override the acknowledgement of a record that could not be delivered (a deserializer failed, damaged batch).

        Raises `IllegalStateError` in implicit mode and for any other offset; `InvalidArgumentError` for a negative
        partition or offset, and for RENEW.
        """
        kind = acknowledge_type(type)
        demand_place(partition, offset)
        self._call("acknowledge_offset", partial(self._application.override, topic, partition, offset, kind))

    def commit_sync(self, timeout_ms: int | None = None) -> dict[TopicIdPartition, KafkaShareError | None]:
        """Send the acknowledgements and wait for the brokers' answers: partition → None, or the error.

        In implicit mode this first accepts what was delivered. The result covers what this call sent and what earlier
        calls sent and has not been reported yet; nothing to wait for: empty, at once. Default timeout:
        `default_api_timeout_ms`. Raises `OperationTimeoutError` when time runs out (the acknowledgements stay under
        way and are reported to the callback) and `WakeupError`.
        """
        wait_ms = None if timeout_ms is None else checked_timeout(timeout_ms)
        return self._run("commit_sync", self._calls.commit_sync(wait_ms))

    def commit_async(self) -> None:
        """Send the acknowledgements without waiting; their outcome comes through the callback."""
        self._call("commit_async", self._calls.commit_async)

    def set_acknowledgement_commit_callback(self, callback: AcknowledgementCommitCallback | None) -> None:
        """Be told how acknowledgements ended: `callback(offsets by partition, error or None)`.

        It runs on the application's thread, inside poll, commit_sync, commit_async and close, and must not call the
        consumer. What it raises is logged and swallowed. None: results are not collected. If an interrupt (Ctrl-C)
        ends it, it is called again with the same outcome.
        """
        if callback is not None and not callable(callback):
            raise TypeError(f"the callback is a callable or None, not {callback.__class__.__name__}")
        self._call("set_acknowledgement_commit_callback", partial(self._set_callback, callback))

    def _set_callback(self, callback: AcknowledgementCommitCallback | None) -> None:
        if callback is None:
            self._application.reports.drop_outcomes()
        self._calls.report = None if callback is None else partial(self._report, callback)

    def _report(self, callback: AcknowledgementCommitCallback, outcome: AcknowledgementOutcome) -> None:
        offsets = frozenset(o for run in outcome.runs for o in range(run.first, run.last + 1))
        self._callback_thread = threading.get_ident()
        try:
            callback({outcome.partition: offsets}, outcome.error)
        except Exception:
            log.exception("the acknowledgement commit callback raised")
        finally:
            self._callback_thread = None

    # ---- the end

    def wakeup(self) -> None:
        """Make a blocking poll or commit_sync, or the next one, raise `WakeupError`. May be called from any thread."""
        self._origin.demand()
        if self._driver is not None and not self._closed:
            self._driver.mailbox.wakeup()

    def close(self, timeout_ms: int | None = None) -> None:
        """Send the pending acknowledgements, give back what is held, leave the group, stop the background thread.

        Records that were delivered and not acknowledged are released at once for other members, in implicit mode too.
        Returns without an error even if no broker can be reached, at the latest after `timeout_ms` (default: 30 s),
        give or take a moment for the last outcomes. Calling it again does nothing. An interrupt
        (Ctrl-C) while it waits ends the background thread at once, and leaves the rest to the broker.

        Any thread may call it. A poll or commit_sync that waits in another thread raises `ConsumerClosedError`, and a
        loop over the consumer ends; what runs there (a deserializer, the callback) is waited for. Raises
        `ConcurrentUseError` if that does not end in time.
        """
        limit_ms = DEFAULT_CLOSE_TIMEOUT_MS if timeout_ms is None else checked_timeout(timeout_ms)
        ends_at_ms = clock_ms() + limit_ms
        self._call("close", lambda: self._close(max(0, ends_at_ms - clock_ms())), closes_by_ms=ends_at_ms)

    def _close(self, limit_ms: int) -> None:
        if self._closed or self._driver is None:
            return
        self._warn_of_released()
        ends_at_ms = self._driver.now_ms() + limit_ms + LAST_OUTCOMES_MS
        try:
            if not self._calls.is_closing:
                self._block(self._calls.close(limit_ms))
        finally:
            if self._calls.is_closing:
                left_ms = max(0, ends_at_ms - self._driver.now_ms())
                self._driver.stop(min(left_ms, DEFAULT_STOP_TIMEOUT_MS), max(0, left_ms - LAST_OUTCOMES_MS))
                self._closed = True
                at_exit.forget_client(self._exit)
        for error in iter(self._application.reports.pop_error, None):
            log.warning("closed with an error that no poll has raised: %s", excerpt(str(error)))

    def _warn_of_released(self) -> None:
        count = 0 if self._calls.is_closing else self._application.unaccepted
        if count:
            log.warning(
                "kafka_share: %s of the last poll not accepted and released, to be delivered again: "
                "if that was processed, call commit_sync() before close",
                "1 record" if count == 1 else f"{count} records",
            )

    def _has_ended(self) -> bool:
        """Whether there is nothing to close here (any more)."""
        return self._closed or self._calls.is_closing or self._origin.is_elsewhere

    def __enter__(self) -> Self:
        if self._closed:
            raise ConsumerClosedError("This consumer has already been closed.")
        return self

    def __exit__(self, *_: object) -> None:
        if not self._origin.is_elsewhere:  # what there is to close is the parent's, and an error would hide another
            self.close()

    def __del__(self) -> None:
        driver = getattr(self, "_driver", None)
        if driver is None or self._has_ended():
            return
        warnings.warn(f"{self!r} was not closed", ResourceWarning, source=self, stacklevel=2)
        with contextlib.suppress(KafkaShareError):
            # No waiting in a finalizer: the thread leaves the group and ends by itself.
            driver.post(CloseRequested((), driver.now_ms() + self._config.request_timeout_ms))

    def __reduce__(self) -> NoReturn:
        raise TypeError("a KafkaShareConsumer cannot be pickled or copied: make one in each process")

    def __repr__(self) -> str:
        return (
            f"<KafkaShareConsumer {'closed' if self._closed else 'open'} group_id={self._config.group_id!r} "
            f"client_id={self._config.client_id!r} topics={sorted(self._application.topics)}>"
        )

    # ---- one call at a time

    def _run(self, method: str, call: Steps[T]) -> T:
        """Run a call that may wait."""
        return self._call(method, partial(self._block, call))

    def _block(self, call: Steps[T]) -> T:
        """Run a call to its end, blocking in the mailbox wherever it waits."""
        assert self._driver is not None
        try:
            wait = next(call)
            while True:
                try:
                    self._give_way()
                    left_ms = wait.deadline_at_ms - self._driver.now_ms()
                    self._driver.mailbox.wait(max(0, left_ms), with_records=wait.with_records)
                except BaseException as error:  # noqa: BLE001 - the call ends by it
                    wait = call.throw(error)
                else:
                    wait = next(call)
        except StopIteration as end:
            result: T = end.value
            return result

    def _call(self, method: str, function: Callable[[], T], *, closes_by_ms: int | None = None) -> T:
        """Call a function inside of the guard."""
        if self._has_window and self._driver is not None and self._driver.is_current_thread:
            raise ConcurrentUseError(f"{method} must not be called from a done callback of a future")
        self._enter(method, closes_by_ms=closes_by_ms)
        try:
            result = function()
            self._one_caller.leave()
            return result
        except BaseException:
            self._one_caller.leave()
            self._origin.hold_daemon()
            raise

    def _enter(self, method: str, *, closes_by_ms: int | None = None) -> None:
        """Take the guard: one caller at a time, none from inside the callback, none after close or in a child.

        A closing caller has until `closes_by_ms`: it ends the call of another thread, and waits for it.
        """
        self._origin.enter()
        if not (self._one_caller.lock.acquire(blocking=False) or self._one_caller.is_free(self)):
            self._displace(method, closes_by_ms)
        if (self._closed or self._calls.is_closing) and closes_by_ms is None:
            self._one_caller.leave()
            raise ConsumerClosedError("This consumer has already been closed.")

    def _displace(self, method: str, closes_by_ms: int | None) -> None:
        """Somebody is inside. Raises unless this is a close from another thread, which gets in."""
        if self._callback_thread == threading.get_ident():
            raise ConcurrentUseError(f"{method} must not be called from the acknowledgement commit callback")
        if self._one_caller.is_nested(self):
            raise ConcurrentUseError(f"{method} was called from inside another call of this consumer")
        if closes_by_ms is None:
            if self._one_caller.is_wanted or self._calls.is_closing:
                raise ConsumerClosedError("This consumer is being closed by another thread.")
            raise ConcurrentUseError(f"{method} was called while another thread uses this consumer")
        assert self._driver is not None
        left_s = max(0, closes_by_ms - clock_ms()) / 1000
        if not self._one_caller.wait(self, left_s, self._driver.mailbox.interrupt):
            raise ConcurrentUseError(f"{method} has waited in vain for the call of another thread to end")

    def _give_way(self) -> None:
        """Before each wait: another thread wants to close."""
        if self._one_caller.is_wanted and not self._calls.is_closing:
            raise ConsumerClosedError("This consumer is being closed by another thread.")


class _Exit:
    """Closes a consumer at the end of the process, if nobody has: what it has acknowledged leaves, then it leaves."""

    def __init__(self, consumer: KafkaShareConsumer[Any, Any]) -> None:
        self._consumer = weakref.ref(consumer)
        self._steps: Steps[None] | None = None

    def begin_exit(self, timeout_ms: int) -> None:
        consumer = self._consumer()
        if consumer is None or consumer._driver is None or consumer._has_ended():
            return
        warnings.warn(f"{consumer!r} was not closed", ResourceWarning, source=consumer, stacklevel=2)
        now_ms = consumer._driver.now_ms()
        try:
            consumer._enter("close", closes_by_ms=now_ms + timeout_ms // 2)
        except ConcurrentUseError:  # a daemon thread does not come out of its call, and may be changing what there is
            consumer._calls.is_closing = True
            consumer._driver.post(CloseRequested((), now_ms + timeout_ms))
        else:
            self._steps = consumer._calls.close(timeout_ms)
            next(self._steps)
            consumer._one_caller.leave()

    def finish_exit(self, timeout_ms: int) -> None:
        consumer = self._consumer()
        if consumer is None or consumer._driver is None or consumer._closed or consumer._origin.is_elsewhere:
            return
        ends_at_ms = consumer._driver.now_ms() + timeout_ms
        if self._steps is not None:
            consumer._block(self._steps)
        left_ms = max(0, ends_at_ms - consumer._driver.now_ms())
        consumer._driver.stop(max(LAST_OUTCOMES_MS, left_ms), left_ms)
        consumer._closed = True


class _Loop:
    """One loop over a consumer: whether it still runs can be seen by its generator."""

    generator: weakref.ref[Generator[Any, None, None]]

    def has_ended(self) -> bool:
        generator = self.generator()
        return generator is None or inspect.getgeneratorstate(generator) == inspect.GEN_CLOSED
