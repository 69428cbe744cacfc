"""KafkaShareConsumer, the blocking façade: calls of one application thread, waits for the network thread's mailbox.

What the calls mean is decided by `core.application`; what travels is decided by `core.consumer` on the background
thread. This file does the waiting, guards against misuse, and runs the acknowledgement commit callback.

With an open window other threads acknowledge while one polls: those two methods go past the guard of the others.
"""

from __future__ import annotations

import contextlib
import logging
import random
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from functools import partial
from typing import Any, Generic, Self

from kafka_share.application.arguments import acknowledge_type, demand_place, not_a_record, timeout, topic_set
from kafka_share.application.awaited_outcomes import OnOutcome
from kafka_share.application.decoding import Decoder
from kafka_share.application.interrupts import Interrupts
from kafka_share.application.metrics import Observable
from kafka_share.application.side import ApplicationSide
from kafka_share.config import ShareConsumerConfig
from kafka_share.core.consumer import ShareConsumerCore
from kafka_share.core.events import (
    AcknowledgementsMade,
    CloseRequested,
    CommitRequested,
    Event,
    GatheredAcknowledgements,
    PollEnded,
    PollStarted,
    SubscriptionChanged,
    Unsubscribed,
)
from kafka_share.core.member_id import new_member_id
from kafka_share.errors import (
    ConcurrentUseError,
    ConsumerClosedError,
    IllegalStateError,
    KafkaShareError,
    OperationTimeoutError,
    WakeupError,
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

log = logging.getLogger(__name__)

DEFAULT_CLOSE_TIMEOUT_MS = 30_000
_ITERATION_POLL_MS = 1_000
_LAST_WORDS_MS = 1_000
"""What close adds to its timeout for a background thread that is late; usually it needs a millisecond of it."""


class KafkaShareConsumer(Observable, Generic[K, V]):
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
        self._callback: AcknowledgementCommitCallback | None = None
        self._callback_thread: int | None = None
        self._guard = threading.Lock()
        self._next_request_id = 0
        source = random.Random()
        core = ShareConsumerCore(settings, new_member_id(source), source)
        self._driver = ConsumerBackground(core, settings, window=self._application if self._has_window else None)
        self._driver.start()
        if names:
            self._subscribe(names)

    # ---- subscription

    def subscribe(self, topics: Iterable[str]) -> None:
        """Replace the subscription by these topic names; it takes effect with the next poll.

        Names only: no patterns. Duplicates collapse; no topics at all means `unsubscribe`. Raises
        `InvalidArgumentError` for a name that is no text or blank; the old subscription then stays.
        """
        with self._exclusive("subscribe"):
            names = topic_set(topics)
            if names:
                self._subscribe(names)
            else:
                self._unsubscribe()

    def _subscribe(self, topics: frozenset[str]) -> None:
        self._application.topics = topics
        self._post(SubscriptionChanged(topics), wake=False)

    def unsubscribe(self) -> None:
        """Leave the group and drop the assignment. Records delivered before can still be acknowledged."""
        with self._exclusive("unsubscribe"):
            self._unsubscribe()

    def _unsubscribe(self) -> None:
        if not self._application.topics:
            return
        self._application.topics = frozenset()
        request_id = self._new_request_id()
        deadline_at_ms = self._now_ms() + self._config.default_api_timeout_ms
        self._post(Unsubscribed(request_id, deadline_at_ms))
        self._wait(deadline_at_ms, lambda: self._application.pop_completion(request_id) is not None)

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
                deadline_at_ms = self._now_ms() + timeout("timeout_ms", timeout_ms)
                self._take_arrived(with_records=self._application.has_room)
                self._raise_pending()
                self._run_callback()
                if not self._application.topics:
                    raise IllegalStateError("The consumer is not subscribed to any topics.")
                self._application.demand_all_acknowledged()
                self._raise_wakeup()
                self._application.accept_delivered()
                self._start_poll(deadline_at_ms)
                try:
                    try:
                        records = self._wait_for_records(deadline_at_ms)
                        measured.records = len(records)
                    finally:
                        self._run_callback()
                except BaseException:
                    self._post(PollEnded(), wake=False)
                    raise
            return records
        except BaseException:
            if records is not None:
                # An interrupt struck on the way out: what the application never saw must not be accepted.
                self._application.put_back(records)
            raise

    def _start_poll(self, deadline_at_ms: int) -> None:
        application = self._application
        application.begin_poll()
        with application.guard:
            acknowledgements = application.gather()
            if not application.has_ready:
                self._ask(deadline_at_ms, acknowledgements)
                return
            # Records are at hand: nothing is fetched, and the acknowledgements do not wait for the next fetch.
            if acknowledgements:
                self._commit(acknowledgements, self._now_ms() + self._config.default_api_timeout_ms, wait=False)
        self._post(PollStarted(self._now_ms(), wants_records=False), wake=False)

    def _ask(self, deadline_at_ms: int, acknowledgements: tuple[GatheredAcknowledgements, ...] = ()) -> None:
        """Have records fetched if that is due; under the application side's guard."""
        asked = self._application.next_ask()
        if asked is not None:
            said = acknowledgements + self._application.gather()
            self._post(PollStarted(deadline_at_ms, said, wants_records=asked > 0, max_records=asked))

    def _wait_for_records(self, deadline_at_ms: int) -> ShareRecords[K, V]:
        application = self._application
        while True:
            records = application.collect()
            if records is not None:
                if self._has_window:  # perhaps without the core's knowing: they were at hand when room was made
                    self._post(PollEnded(), wake=False)
                return records  # type: ignore[return-value]
            self._raise_pending()
            with application.guard:
                self._ask(deadline_at_ms)
            left_ms = deadline_at_ms - self._now_ms()
            if left_ms <= 0:
                return ShareRecords({})
            had_room = application.has_room
            application.take(self._mailbox.take(left_ms, with_records=had_room, waiting=self._interrupts.waiting()))
            self._raise_wakeup()
            if not had_room:
                self._take_arrived(with_records=application.has_room)

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
            self._say(record, kind, None)
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
        self._say(record, kind, partial(_resolve, future))
        return future

    def _say(self, record: ShareRecord[Any, Any], kind: AcknowledgeType, on_outcome: OnOutcome | None) -> None:
        must_announce, makes_room = self._application.in_flight.say(record, kind, on_outcome)
        if must_announce:
            with contextlib.suppress(ConsumerClosedError):  # close on another thread has just taken it along
                self._post(AcknowledgementsMade())
        if makes_room:
            self._mailbox.interrupt()

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
            wait_ms = self._config.default_api_timeout_ms if timeout_ms is None else timeout("timeout_ms", timeout_ms)
            deadline_at_ms = self._now_ms() + wait_ms
            self._take_arrived()
            self._application.accept_delivered()
            request_id = 0
            with self._application.guard:
                acknowledgements = self._application.gather()
                if acknowledgements or self._application.has_unsettled:
                    request_id = self._commit(acknowledgements, deadline_at_ms, wait=True)
            timed_out = bool(request_id) and self._wait_for_commit(request_id, deadline_at_ms)
            results: dict[TopicIdPartition, KafkaShareError | None] = {}
            for outcome in self._application.peek_outcomes():
                results[outcome.partition] = results.get(outcome.partition) or outcome.error
            self._run_callback()
            if timed_out:
                raise OperationTimeoutError(
                    f"No answer to the acknowledgements within {wait_ms} ms; they stay under way, "
                    f"and their outcome is reported to the acknowledgement commit callback."
                )
            return results

    def _wait_for_commit(self, request_id: int, deadline_at_ms: int) -> bool:
        completion: list[bool] = []

        def ended() -> bool:
            self._raise_wakeup()
            timed_out = self._application.pop_completion(request_id)
            if timed_out is not None:
                completion.append(timed_out)
            return timed_out is not None

        self._wait(deadline_at_ms, ended)
        return not completion or completion[0]

    def commit_async(self) -> None:
        """Send the acknowledgements without waiting; their outcome comes through the callback."""
        with self._exclusive("commit_async"):
            self._take_arrived()
            self._run_callback()
            self._application.accept_delivered()
            with self._application.guard:
                acknowledgements = self._application.gather()
                if acknowledgements:
                    self._commit(acknowledgements, self._now_ms() + self._config.default_api_timeout_ms, wait=False)

    def _commit(
        self, acknowledgements: tuple[GatheredAcknowledgements, ...], deadline_at_ms: int, *, wait: bool
    ) -> int:
        request_id = self._new_request_id()
        self._post(CommitRequested(request_id, acknowledgements, deadline_at_ms, wait))
        return request_id

    def set_acknowledgement_commit_callback(self, callback: AcknowledgementCommitCallback | None) -> None:
        """Be told how acknowledgements ended: `callback(offsets by partition, error or None)`.

        It runs on the application's thread, inside poll, commit_sync, commit_async and close, and must not call the
        consumer. What it raises is logged and swallowed. None: results are not collected.
        """
        if callback is not None and not callable(callback):
            raise TypeError(f"the callback is a callable or None, not {callback.__class__.__name__}")
        with self._exclusive("set_acknowledgement_commit_callback"):
            if callback is None:
                self._application.drop_outcomes()
            self._callback = callback

    def _run_callback(self) -> None:
        self._take_arrived()
        if self._callback is None:
            self._application.drop_outcomes()
            return
        self._callback_thread = threading.get_ident()
        try:
            for outcome in iter(self._application.pop_outcome, None):
                offsets = frozenset(o for run in outcome.runs for o in range(run.first, run.last + 1))
                try:
                    self._interrupts.run_outside(self._callback, {outcome.partition: offsets}, outcome.error)
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
        limit_ms = DEFAULT_CLOSE_TIMEOUT_MS if timeout_ms is None else timeout("timeout_ms", timeout_ms)
        with self._exclusive("close", when_closed=True):
            if self._closed or self._driver is None:
                return
            deadline_at_ms = self._now_ms() + limit_ms
            try:
                with self._application.guard:
                    self._post(CloseRequested(self._application.gather_last(), deadline_at_ms))
                # At the deadline the background side gives up by itself, and tells the outcomes a moment later.
                self._wait(deadline_at_ms + _LAST_WORDS_MS, lambda: self._application.closed)
                self._run_callback()
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

    @property
    def _mailbox(self) -> Any:
        assert self._driver is not None
        return self._driver.mailbox

    def _post(self, event: Event, *, wake: bool = True) -> None:
        assert self._driver is not None
        self._driver.post(event, wake=wake)

    def _now_ms(self) -> int:
        assert self._driver is not None
        return self._driver.now_ms()

    def _new_request_id(self) -> int:
        self._next_request_id += 1
        return self._next_request_id

    def _take_arrived(self, *, with_records: bool = False) -> None:
        """Empty the mailbox; records only for a poll: what no poll takes in time has to be released."""
        self._application.take(self._mailbox.take(0, with_records=with_records))

    def _wait(self, deadline_at_ms: int, ended: Callable[[], bool]) -> None:
        """Take from the mailbox until `ended`, at the latest until the deadline."""
        while not ended():
            left_ms = deadline_at_ms - self._now_ms()
            if left_ms <= 0:
                return
            waiting = self._interrupts.waiting()
            self._application.take(self._mailbox.take(left_ms, with_records=False, waiting=waiting))

    def _raise_pending(self) -> None:
        error = self._application.pop_error()
        if error is not None:
            raise error

    def _raise_wakeup(self) -> None:
        if self._mailbox.consume_wakeup():
            raise WakeupError("wakeup() was called")

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
