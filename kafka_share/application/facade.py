"""What the façades of a consumer have in common: how it is made, what never waits, and its end.

`KafkaShareConsumer` runs the calls by blocking, `AsyncShareConsumer` by awaiting. Each adds the calls that wait, and
its own guard against misuse: one caller at a time, a thread there and a task here.
"""

from __future__ import annotations

import abc
import contextlib
import inspect
import logging
import random
import threading
import warnings
import weakref
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final, Generic, NoReturn, TypeVar, Unpack

from kafka_share.application.arguments import (
    acknowledge_type,
    checked_delay,
    demand_place,
    not_a_record,
    topics_of_constructor,
)
from kafka_share.application.calls import LAST_OUTCOMES_MS, ConsumerCalls, Steps
from kafka_share.application.decoding import Decoder
from kafka_share.application.metrics import ConsumerMetrics
from kafka_share.application.rows import Rows, chosen
from kafka_share.application.side import ApplicationSide
from kafka_share.application.speed import say_if_not_compiled
from kafka_share.config import ShareConsumerConfig
from kafka_share.core.consumer import ShareConsumerCore
from kafka_share.core.events import AcknowledgementOutcome, CloseRequested
from kafka_share.core.member_id import new_member_id
from kafka_share.deserializers import Deserializer, PlainDeserializer
from kafka_share.errors import ConsumerClosedError, IllegalStateError, KafkaShareError
from kafka_share.harmless import excerpt
from kafka_share.native import IS_COMPILED
from kafka_share.network import at_exit
from kafka_share.network.background import ConsumerBackground
from kafka_share.network.clock import clock_ms
from kafka_share.network.driver import DEFAULT_STOP_TIMEOUT_MS
from kafka_share.network.process import Origin
from kafka_share.records import (
    AcknowledgementCommitCallback,
    AcknowledgeType,
    AcknowledgeTypeOrName,
    ArrowRecords,
    K,
    ShareRecord,
    ShareRecords,
    V,
    columns_of,
)
from kafka_share.settings import ShareConsumerSettings

T = TypeVar("T")

DEFAULT_CLOSE_TIMEOUT_MS: Final = 30_000
ITERATION_POLL_MS: Final = 1_000
_VIEWS: Final = partial(ArrowRecords, copy=False)


class ConsumerFacade(ConsumerMetrics, abc.ABC, Generic[K, V]):
    """A consumer without the calls that wait. `_log` is the façade's own, whose name is public."""

    _log: logging.Logger

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
        say_if_not_compiled()
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
            window_bytes=config.explicit_window_bytes,
            protects_locks=config.protect_locks,
            longest_work_ms=config.max_poll_interval_ms,
            guard=threading.RLock(),
        )
        self._callback_thread: int | None = None
        notify = self._make_guard()
        source = random.Random()
        core = ShareConsumerCore(config, new_member_id(source), source, lends=self._can_fetch_directly())
        self._driver = ConsumerBackground(core, config, application=self._application, notify=notify)
        self._calls = ConsumerCalls(
            self._application,
            self._driver,
            api_timeout_ms=config.default_api_timeout_ms,
            sends_ahead=config.send_ahead,
        )
        application, deliveries = self._application, self._application.deliveries
        measurements = self._driver.measurements
        measurements.window_records = lambda: application.window_records
        callbacks = self._driver.callbacks
        deliveries.behind, callbacks.on_taken = callbacks.waiting, self._application.wake_for_room
        measurements.held_records = lambda: deliveries.held
        self._driver.start()
        self._exit = _Exit(self)
        at_exit.register_client(self._exit)
        if names:
            self._calls.subscribe(names)

    def _acknowledge_in_one_call(self, method: Callable[[Any, Any, Any], None]) -> None:
        """Let `acknowledge`, which is this method, be compiled code as a whole, unless a subclass has another one.

        It is called for each record: the way to a method in Python costs as much as what it does.
        """
        if type(self).acknowledge is not method:
            return
        known = weakref.ref(self)  # it is known by the consumer, which goes when nobody else knows it

        def long_way(record: Any, kind: Any) -> None:
            consumer = known()
            if consumer is None:
                raise ConsumerClosedError("This consumer is gone.")
            method(consumer, record, kind)

        in_one_call = self._application.deliveries.short_way.in_place_of(long_way)
        if in_one_call is not None:
            self.acknowledge = in_one_call  # type: ignore[method-assign]

    # ---- the guard

    @abc.abstractmethod
    def _make_guard(self) -> Callable[[], None] | None:
        """Called once, before there is a background side. Returns what the mailbox calls for news; it keeps that."""

    @abc.abstractmethod
    def _call(self, method: str, function: Callable[[], T]) -> T:
        """Call a function that does not wait inside of the guard."""

    @abc.abstractmethod
    def _enter_at_exit(self, timeout_ms: int) -> bool:
        """The process ends: take the guard, waiting for at most this long. Returns whether it was free."""

    @abc.abstractmethod
    def _leave(self) -> None:
        """Give the guard back."""

    def _as_columns(self, *, copy: bool) -> Callable[[ShareRecords[Any, Any]], ArrowRecords]:
        """What makes columns of polled records; raises before there are any if it cannot."""
        if self._config.key_deserializer is not None or self._config.value_deserializer is not None:
            raise IllegalStateError(
                "poll_arrow gives keys and values as bytes: make a consumer without deserializers, and let Arrow do "
                "what they did"
            )
        columns_of(copy)
        return ArrowRecords if copy else _VIEWS

    def _can_fetch_directly(self) -> bool:
        """Whether the thread that polls may fetch by itself: where it can wait for a socket that is not encrypted."""
        return IS_COMPILED and not self._config.uses_tls

    # ---- what never waits

    def subscription(self) -> frozenset[str]:
        """The topic names subscribed to; empty if none."""
        return self._call("subscription", lambda: self._application.topics)

    @property
    def acquisition_lock_timeout_ms(self) -> int | None:
        """How long the broker locks records for this consumer, from the latest delivery; None before the first."""
        return self._call("acquisition_lock_timeout_ms", lambda: self._application.acquisition_lock_timeout_ms)

    @abc.abstractmethod
    def acknowledge(
        self,
        record: ShareRecord[Any, Any],
        type: AcknowledgeTypeOrName = AcknowledgeType.ACCEPT,  # noqa: A002
    ) -> None:
        """Tell what became of a record."""

    def acknowledge_all(
        self,
        records: Iterable[ShareRecord[Any, Any]] | ArrowRecords,
        type: AcknowledgeTypeOrName = AcknowledgeType.ACCEPT,  # noqa: A002
        rows: Rows | None = None,
    ) -> None:
        """The same as `acknowledge` for each of these records, and costs much less.

        `rows` names some of them: a slice, or a mask with one bool for each record, such as a `pyarrow.BooleanArray`
        that a comparison of columns made, a numpy array or a list.

        All that are in flight are acknowledged. Then raises `IllegalStateError` for the first that is not in flight,
        and for any in implicit mode. Acknowledges none and raises `TypeError` if one is no `ShareRecord` or `rows` is
        something else, `InvalidArgumentError` if there is no such type or the mask has nulls or another length,
        `ConsumerClosedError` after close.
        """
        kind, places = acknowledge_type(type), chosen(records, rows)
        if self._has_window:
            self._origin.enter()
            self._calls.acknowledge_all(places, kind)
        else:
            self._call("acknowledge_all", partial(self._calls.acknowledge_all, places, kind))

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
            self._application.hold(record, delay_ms)
        else:
            self._call("release", partial(self._application.hold, record, delay_ms))

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

    def commit_async(self) -> None:
        """Send the acknowledgements without waiting; their outcome comes through the callback."""
        self._call("commit_async", self._calls.commit_async)

    def set_acknowledgement_commit_callback(self, callback: AcknowledgementCommitCallback | None) -> None:
        """Be told how acknowledgements ended: `callback(offsets by partition, error or None)`.

        It runs inside poll, commit_sync, commit_async and close, on the thread that called them, and must not call the
        consumer. What it raises is logged and swallowed. None: results are not collected. If an interrupt (Ctrl-C)
        ends it, it is called again with the same outcome.
        """
        if callback is not None and not callable(callback):
            raise TypeError(f"the callback is a callable or None, not {callback.__class__.__name__}")
        if inspect.iscoroutinefunction(callback):
            raise TypeError("the callback is a plain function: it is called, and nobody awaits what it returns")
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
        except Exception:  # noqa: BLE001 - it is logged
            self._log.exception("the acknowledgement commit callback raised")
        finally:
            self._callback_thread = None

    def wakeup(self) -> None:
        """Make a waiting poll or commit_sync, or the next one, raise `WakeupError`. May be called from any thread."""
        self._origin.demand()
        if self._driver is not None and not self._closed:
            self._driver.mailbox.wakeup()

    def _interrupted(self, call: Steps[Any], begun_calls: int) -> None:
        """A call that polls has raised; it began after so many others. Its records do not reach the application."""
        has_run = inspect.getgeneratorstate(call) == inspect.GEN_CLOSED
        if has_run and self._application.begun_calls > begun_calls:  # perhaps an interrupt struck on the way out
            self._application.interrupt_call()

    def _interrupted_plainly(self, begun_calls: int) -> None:
        """The same for one that went the short way."""
        if self._application.begun_calls > begun_calls:
            self._application.interrupt_call()

    def _take_spent_ms(self) -> int:
        """What a call has spent on the short way before it goes the long one."""
        return 0 if self._calls.plain is None else self._calls.plain.take_spent_ms()

    # ---- the end

    def _warn_of_released(self) -> None:
        count = 0 if self._calls.is_closing else self._application.unaccepted
        if count:
            self._log.warning(
                "kafka_share: %s of the last poll not accepted and released, to be delivered again: "
                "if that was processed, call commit_sync() before close",
                "1 record" if count == 1 else f"{count} records",
            )

    def _stop(self, left_ms: int) -> None:
        """The last step of close: end the background thread, whose last outcomes are waited for up to `left_ms`."""
        assert self._driver is not None
        self._driver.stop(min(left_ms, DEFAULT_STOP_TIMEOUT_MS), max(0, left_ms - LAST_OUTCOMES_MS))
        self._closed = True
        at_exit.forget_client(self._exit)

    def _log_untold_errors(self) -> None:
        for error in iter(self._application.reports.pop_error, None):
            self._log.warning("closed with an error that no poll has raised: %s", excerpt(str(error)))

    def _has_ended(self) -> bool:
        """Whether there is nothing to close here (any more)."""
        return self._closed or self._calls.is_closing or self._origin.is_elsewhere

    def _block(self, call: Steps[T]) -> T:
        """Run a call to its end, blocking in the mailbox wherever it waits."""
        assert self._driver is not None
        try:
            wait = next(call)
            while True:
                try:
                    self._give_way()
                    left_ms = wait.deadline_at_ms - self._driver.now_ms()
                    if wait.direct:
                        self._driver.mailbox.wait_on(wait.direct, max(0, left_ms), with_records=wait.with_records)
                    else:
                        self._driver.mailbox.wait(max(0, left_ms), with_records=wait.with_records)
                except BaseException as error:  # noqa: BLE001 - the call ends by it
                    wait = call.throw(error)
                else:
                    wait = next(call)
        except StopIteration as end:
            result: T = end.value
            return result

    @abc.abstractmethod
    def _give_way(self) -> None:
        """Before each wait: raises `ConsumerClosedError` if another caller wants to close."""

    def __del__(self) -> None:
        driver = getattr(self, "_driver", None)
        if driver is None or self._has_ended():
            return
        warnings.warn(f"{self!r} was not closed", ResourceWarning, source=self, stacklevel=2)
        with contextlib.suppress(KafkaShareError):
            # No waiting in a finalizer: the thread leaves the group and ends by itself.
            driver.post(CloseRequested((), driver.now_ms() + self._config.request_timeout_ms))

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"a {type(self).__name__} cannot be pickled or copied: make one in each process")

    def __repr__(self) -> str:
        return (
            f"<{type(self).__name__} {'closed' if self._closed else 'open'} group_id={self._config.group_id!r} "
            f"client_id={self._config.client_id!r} topics={sorted(self._application.topics)}>"
        )


class _Exit:
    """Closes a consumer at the end of the process, if nobody has: what it has acknowledged leaves, then it leaves."""

    def __init__(self, consumer: ConsumerFacade[Any, Any]) -> None:
        self._consumer = weakref.ref(consumer)
        self._steps: Steps[None] | None = None

    def begin_exit(self, timeout_ms: int) -> None:
        consumer = self._consumer()
        if consumer is None or consumer._driver is None or consumer._has_ended():
            return
        warnings.warn(f"{consumer!r} was not closed", ResourceWarning, source=consumer, stacklevel=2)
        if not consumer._enter_at_exit(timeout_ms // 2):  # its caller does not come out, and may be changing things
            consumer._calls.is_closing = True
            consumer._driver.post(CloseRequested((), consumer._driver.now_ms() + timeout_ms))
        else:
            self._steps = consumer._calls.close(timeout_ms)
            next(self._steps)
            consumer._leave()

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
