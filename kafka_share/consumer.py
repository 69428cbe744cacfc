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
import threading
import weakref
from collections.abc import Callable, Generator, Iterable, Iterator, Sized
from concurrent.futures import Future
from functools import partial
from typing import Any, Self, TypeVar
from uuid import UUID

from kafka_share.application.arguments import acknowledge_type, not_a_record, topic_set
from kafka_share.application.calls import LAST_OUTCOMES_MS, Steps
from kafka_share.application.facade import DEFAULT_CLOSE_TIMEOUT_MS, ITERATION_POLL_MS, ConsumerFacade
from kafka_share.application.one_caller import OneCaller
from kafka_share.core.timeouts import checked_timeout
from kafka_share.errors import ConcurrentUseError, ConsumerClosedError, IllegalStateError, KafkaShareError
from kafka_share.network.clock import clock_ms
from kafka_share.network.futures import OutcomeFuture
from kafka_share.records import (
    AcknowledgeType,
    AcknowledgeTypeOrName,
    ArrowRecords,
    K,
    ShareRecord,
    ShareRecords,
    TopicIdPartition,
    V,
)

T = TypeVar("T")
S = TypeVar("S", bound=Sized)

log: logging.Logger = logging.getLogger(__name__)


class KafkaShareConsumer(ConsumerFacade[K, V]):
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

    _log = log

    def _make_guard(self) -> None:
        self._one_caller = OneCaller(
            KafkaShareConsumer._call,
            KafkaShareConsumer._poll_plainly,
            KafkaShareConsumer._commit_plainly,
            KafkaShareConsumer.acknowledge,
        )
        self._acknowledge_shortly = self._application.deliveries.short_way.begin(self._one_caller.lock.locked)
        self._acknowledge_in_one_call(_ACKNOWLEDGE)

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
        begun_calls = self._application.begun_calls
        try:
            records = self._poll_plainly(timeout_ms, makes_objects=True)
            if records is not None:
                return records
        except BaseException:
            self._interrupted_plainly(begun_calls)
            raise
        return self._poll("poll", self._calls.poll(max(0, checked_timeout(timeout_ms) - self._take_spent_ms())))

    def _poll_plainly(self, timeout_ms: int, *, makes_objects: bool) -> ShareRecords[Any, Any] | None:
        """Inside of the guard, the short way; None: the long way has to be gone."""
        plain = self._calls.plain
        return None if plain is None else plain.poll(self._one_caller.lock, timeout_ms, makes_objects)

    def poll_arrow(self, timeout_ms: int, *, copy: bool = True) -> ArrowRecords:
        """The same as `poll`, with the records as columns, and no Python object for each of them.

        `copy=False`: keys and values stay where they were received (Arrow's binary_view), see
        `ShareRecords.to_arrow`. The result is acknowledged with `acknowledge_all`, as a whole or by rows; in implicit
        mode the next poll accepts it.

        Raises what `poll` raises; before it polls, `IllegalStateError` if the consumer has deserializers, and
        ImportError without pyarrow.
        """
        as_columns = self._as_columns(copy=copy)
        begun_calls = self._application.begun_calls
        try:
            records = self._poll_plainly(timeout_ms, makes_objects=False)
            if records is not None:
                return as_columns(records)
        except BaseException:
            self._interrupted_plainly(begun_calls)
            raise
        left_ms = max(0, checked_timeout(timeout_ms) - self._take_spent_ms())
        return self._poll("poll_arrow", self._calls.poll_arrow(left_ms, as_columns))

    def _poll(self, method: str, call: Steps[S]) -> S:
        """Run a call that polls."""
        begun_calls, count = self._application.begun_calls, 0
        try:
            self._poll_begins()
            try:
                records = self._run(method, call)
                count = len(records)
            finally:
                self._poll_ends(count)
            return records
        except BaseException:
            self._interrupted(call, begun_calls)
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
                yield from self._poll("iteration", self._calls.read(ITERATION_POLL_MS, loop.has_ended))
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
        if self._acknowledge_shortly(record, type):
            return
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

    def commit_sync(self, timeout_ms: int | None = None) -> dict[TopicIdPartition, KafkaShareError | None]:
        """Send the acknowledgements and wait for the brokers' answers: partition → None, or the error.

        In implicit mode this first accepts what was delivered. The result covers what this call sent and what earlier
        calls sent and has not been reported yet; nothing to wait for: empty, at once. Default timeout:
        `default_api_timeout_ms`. Raises `OperationTimeoutError` when time runs out (the acknowledgements stay under
        way and are reported to the callback) and `WakeupError`.
        """
        wait_ms = self._config.default_api_timeout_ms if timeout_ms is None else checked_timeout(timeout_ms)
        results = self._commit_plainly(wait_ms)
        if results is not None:
            return results
        return self._run("commit_sync", self._calls.commit_sync(wait_ms, spent_ms=self._take_spent_ms()))

    def _commit_plainly(self, timeout_ms: int) -> dict[TopicIdPartition, KafkaShareError | None] | None:
        """As `_poll_plainly`."""
        plain = self._calls.plain
        return None if plain is None else plain.commit(self._one_caller.lock, timeout_ms)

    def client_instance_id(self, timeout_ms: int) -> UUID | None:
        """The id by which the brokers know this consumer in the metrics that it pushes (KIP-714).

        Asks a broker if it is not known yet and waits up to `timeout_ms` milliseconds; None if no answer comes, or the
        brokers take no metrics. Any thread may call it, also after close. Raises `IllegalStateError` if
        `enable_metrics_push` is off, `InvalidArgumentError` for a negative timeout, TypeError for one that is no whole
        number.
        """
        return self._client_instance_id(timeout_ms)

    # ---- the end

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
                self._stop(max(0, ends_at_ms - self._driver.now_ms()))
        self._log_untold_errors()

    def __enter__(self) -> Self:
        if self._closed:
            raise ConsumerClosedError("This consumer has already been closed.")
        return self

    def __exit__(self, *_: object) -> None:
        if not self._origin.is_elsewhere:  # what there is to close is the parent's, and an error would hide another
            self.close()

    # ---- one call at a time

    def _run(self, method: str, call: Steps[T]) -> T:
        """Run a call that may wait."""
        return self._call(method, partial(self._block, call))

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

    def _leave(self) -> None:
        self._one_caller.leave()

    def _enter_at_exit(self, timeout_ms: int) -> bool:
        try:
            self._enter("close", closes_by_ms=clock_ms() + timeout_ms)
        except ConcurrentUseError:  # a daemon thread does not come out of its call
            return False
        return True

    def _give_way(self) -> None:
        if self._one_caller.is_wanted and not self._calls.is_closing:
            raise ConsumerClosedError("This consumer is being closed by another thread.")


_ACKNOWLEDGE = KafkaShareConsumer.acknowledge


class _Loop:
    """One loop over a consumer: whether it still runs can be seen by its generator."""

    generator: weakref.ref[Generator[Any, None, None]]

    def has_ended(self) -> bool:
        generator = self.generator()
        return generator is None or inspect.getgeneratorstate(generator) == inspect.GEN_CLOSED
