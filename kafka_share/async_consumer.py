"""AsyncShareConsumer, the asyncio façade: the calls of `KafkaShareConsumer`, awaited.

It runs the same calls (`application.calls`) over the same background thread, so a handler that blocks the event loop
holds up neither heartbeats nor the renewal of locks. This file does the waiting and guards against misuse: one task at
a time, on one event loop.

Cancelling a task may end a call at any `await`, as an interrupt does: what had arrived stays for the next call.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sized
from contextlib import suppress
from functools import partial
from threading import get_ident
from typing import Any, Generic, Self, TypeVar
from uuid import UUID

from kafka_share.application.arguments import acknowledge_type, not_a_record, topic_set
from kafka_share.application.calls import LAST_OUTCOMES_MS, Steps
from kafka_share.application.direct import Wait
from kafka_share.application.facade import DEFAULT_CLOSE_TIMEOUT_MS, ITERATION_POLL_MS, ConsumerFacade
from kafka_share.core.timeouts import checked_timeout
from kafka_share.errors import ConcurrentUseError, ConsumerClosedError, IllegalStateError, KafkaShareError
from kafka_share.native import OneTask
from kafka_share.network.bell import Bell
from kafka_share.network.blocking import call_in_thread
from kafka_share.network.clock import clock_ms
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


class AsyncShareConsumer(ConsumerFacade[K, V]):
    """`KafkaShareConsumer` for asyncio: the same settings, arguments, results and errors.

    What waits is awaited: `subscribe`, `unsubscribe`, `poll`, `poll_arrow`, `commit_sync`, `client_instance_id`,
    `close`, `async for` and `async with`. What never waits is called as it is: `acknowledge`, `release`, `commit_async`
    and the others.

    It belongs to the event loop of its first call. One task at a time may use it, another one gets
    `ConcurrentUseError`. Any task may call `close`, any thread `wakeup`, and with an open window
    (`explicit_window_records`) any task may acknowledge while one polls. Cancelling a call loses nothing: what had
    arrived comes with the next poll, and acknowledgements that were sent are reported to the callback.

    Deserializers and the acknowledgement commit callback run on the event loop and are plain functions.

    Raises `ConfigurationError` for a setting that is unknown, inapplicable or out of range.
    """

    _log = log

    def _make_guard(self) -> Callable[[], None]:
        self._guard = guard = _TaskGuard()
        self._acknowledge_shortly = self._application.deliveries.short_way.begin(guard.is_busy_here)
        self._acknowledge_in_one_call(_ACKNOWLEDGE)
        self._bell = Bell()
        return self._bell.ring

    def _can_fetch_directly(self) -> bool:
        # The event loop of Windows waits for no sockets but those that it has opened.
        return sys.platform != "win32" and super()._can_fetch_directly()

    # ---- subscription

    async def subscribe(self, topics: Iterable[str]) -> None:
        """As `KafkaShareConsumer.subscribe`."""
        names = topic_set(topics)
        if names:
            self._demand_loop()
            self._call("subscribe", partial(self._calls.subscribe, names))
        else:
            await self.unsubscribe()

    async def unsubscribe(self) -> None:
        """As `KafkaShareConsumer.unsubscribe`."""
        await self._run("unsubscribe", self._calls.unsubscribe())

    # ---- records

    async def poll(self, timeout_ms: int) -> ShareRecords[K, V]:
        """As `KafkaShareConsumer.poll`. Other tasks of the loop get their turn, even if records are at hand."""
        begun_calls = self._application.begun_calls
        try:
            records = await self._poll_plainly(timeout_ms, makes_objects=True)
            if records is not None:
                return records
        except BaseException:
            self._interrupted_plainly(begun_calls)
            raise
        return await self._poll("poll", self._calls.poll(max(0, checked_timeout(timeout_ms) - self._take_spent_ms())))

    async def _poll_plainly(self, timeout_ms: int, *, makes_objects: bool) -> ShareRecords[Any, Any] | None:
        """The short way; None: the long way has to be gone, and says what is wrong if something is."""
        plain, guard = self._calls.plain, self._guard
        if plain is None or timeout_ms.__class__ is not int or timeout_ms < 0:
            return None
        if guard.is_busy_here() or not self._bell.is_of(asyncio.get_running_loop()):
            return None
        guard.inside = "poll"
        try:
            held = plain.begin_whole_poll(timeout_ms)
            if held is None:
                return None
            await self._bell.hear([session.line for session in held], plain.has_news, timeout_ms)
            return plain.end_whole_poll(makes_objects)
        except BaseException:
            self._calls.recover()
            raise
        finally:
            guard.leave()

    async def poll_arrow(self, timeout_ms: int, *, copy: bool = True) -> ArrowRecords:
        """As `KafkaShareConsumer.poll_arrow`."""
        as_columns = self._as_columns(copy=copy)
        begun_calls = self._application.begun_calls
        try:
            records = await self._poll_plainly(timeout_ms, makes_objects=False)
            if records is not None:
                return as_columns(records)
        except BaseException:
            self._interrupted_plainly(begun_calls)
            raise
        left_ms = max(0, checked_timeout(timeout_ms) - self._take_spent_ms())
        return await self._poll("poll_arrow", self._calls.poll_arrow(left_ms, as_columns))

    async def _poll(self, method: str, call: Steps[S]) -> S:
        """Run a call that polls."""
        self._demand_loop()
        await asyncio.sleep(0)
        begun_calls, count = self._application.begun_calls, 0
        try:
            self._poll_begins()
            try:
                records = await self._run(method, call)
                count = len(records)
            finally:
                self._poll_ends(count)
            return records
        except BaseException:
            self._interrupted(call, begun_calls)
            raise

    def __aiter__(self) -> AsyncRecords[K, V]:
        """Endless: yields record by record, polling when the last of a poll has been taken; ends after `close`.

        Leaving the loop loses nothing: what a poll brought and the loop has not yielded comes with the next poll.
        """
        return AsyncRecords(self)

    # ---- acknowledgements

    def acknowledge(
        self,
        record: ShareRecord[Any, Any],
        type: AcknowledgeTypeOrName = AcknowledgeType.ACCEPT,  # noqa: A002
    ) -> None:
        """As `KafkaShareConsumer.acknowledge`. It never waits; with an open window any thread may call it."""
        if self._acknowledge_shortly(record, type):
            return
        if not isinstance(record, ShareRecord):
            raise not_a_record(record)
        kind = acknowledge_type(type)
        if self._has_window:
            self._origin.enter()
            self._calls.acknowledge_delivery(record, kind, None)
        else:
            place = record.topic, record.partition, record.offset, kind, record.lock
            self._call("acknowledge", partial(self._application.acknowledge, *place))

    def acknowledge_with_result(
        self,
        record: ShareRecord[Any, Any],
        type: AcknowledgeTypeOrName = AcknowledgeType.ACCEPT,  # noqa: A002
    ) -> Awaitable[None]:
        """The same as `acknowledge` with an open window, and a future of the broker's answer: None, or the error.

        It is called on the event loop, acknowledges at once, and need not be awaited. Cancelling the future changes
        nothing. Raises `IllegalStateError` without a window, and as `acknowledge` does.
        """
        if not isinstance(record, ShareRecord):
            raise not_a_record(record)
        kind = acknowledge_type(type)
        if not self._has_window:
            raise IllegalStateError("acknowledge_with_result needs an open window: set explicit_window_records")
        self._origin.enter()
        loop = self._demand_loop()
        future: asyncio.Future[None] = loop.create_future()

        def resolve(error: KafkaShareError | None) -> None:
            with suppress(RuntimeError):  # the loop was closed: nobody waits any more
                loop.call_soon_threadsafe(_resolve, future, error)

        self._calls.acknowledge_delivery(record, kind, resolve)
        return future

    async def commit_sync(self, timeout_ms: int | None = None) -> dict[TopicIdPartition, KafkaShareError | None]:
        """As `KafkaShareConsumer.commit_sync`: waits for the brokers' answers, while other tasks go on."""
        wait_ms = self._config.default_api_timeout_ms if timeout_ms is None else checked_timeout(timeout_ms)
        results = await self._commit_plainly(wait_ms)
        if results is not None:
            return results
        return await self._run("commit_sync", self._calls.commit_sync(wait_ms, spent_ms=self._take_spent_ms()))

    async def _commit_plainly(self, timeout_ms: int) -> dict[TopicIdPartition, KafkaShareError | None] | None:
        """As `_poll_plainly`."""
        plain, guard = self._calls.plain, self._guard
        if plain is None or guard.is_busy_here() or not self._bell.is_of(asyncio.get_running_loop()):
            return None
        guard.inside = "commit_sync"
        try:
            held = plain.begin_whole_commit(timeout_ms)
            if held is None:
                return None
            await self._bell.hear([session.line for session in held], plain.has_news, timeout_ms)
            return plain.end_whole_commit()
        except BaseException:
            self._calls.recover()
            raise
        finally:
            guard.leave()

    async def client_instance_id(self, timeout_ms: int) -> UUID | None:
        """As `KafkaShareConsumer.client_instance_id`."""
        return await call_in_thread("kafka-share instance id", partial(self._client_instance_id, timeout_ms))

    # ---- the end

    async def close(self, timeout_ms: int | None = None) -> None:
        """As `KafkaShareConsumer.close`. Any task may call it.

        A poll or commit_sync that another task waits for raises `ConsumerClosedError`, and a loop over the consumer
        ends. If it is cancelled, the background thread ends all the same, and the rest is left to the broker.
        """
        limit_ms = DEFAULT_CLOSE_TIMEOUT_MS if timeout_ms is None else checked_timeout(timeout_ms)
        ends_at_ms = clock_ms() + limit_ms
        self._origin.enter()
        self._bell.bind(self._demand_loop())
        assert self._driver is not None
        self._guard.demand_no_callback("close", self._callback_thread)
        await self._guard.displace(ends_at_ms, self._driver.mailbox.interrupt)
        try:
            await self._close(max(0, ends_at_ms - clock_ms()))
        finally:
            self._guard.leave()

    async def _close(self, limit_ms: int) -> None:
        if self._closed or self._driver is None:
            return
        self._warn_of_released()
        ends_at_ms = self._driver.now_ms() + limit_ms + LAST_OUTCOMES_MS
        try:
            if not self._calls.is_closing:
                await self._drive(self._calls.close(limit_ms))
        finally:
            if self._calls.is_closing:
                left_ms = max(0, ends_at_ms - self._driver.now_ms())
                await call_in_thread("kafka-share close", partial(self._stop, left_ms))
        self._bell.close()
        self._log_untold_errors()

    async def __aenter__(self) -> Self:
        if self._closed:
            raise ConsumerClosedError("This consumer has already been closed.")
        return self

    async def __aexit__(self, *_: object) -> None:
        if not self._origin.is_elsewhere:  # what there is to close is the parent's, and an error would hide another
            await self.close()

    # ---- one call at a time

    async def _run(self, method: str, call: Steps[T]) -> T:
        """Run a call that may wait."""
        self._bell.bind(self._demand_loop())
        self._enter(method)
        try:
            return await self._drive(call)
        finally:
            self._leave()

    async def _drive(self, call: Steps[T]) -> T:
        """Run a call to its end, awaiting news wherever it waits."""
        try:
            wait = next(call)
            while True:
                try:
                    await self._wait(wait)
                except BaseException as error:  # noqa: BLE001 - the call ends by it
                    wait = call.throw(error)
                else:
                    wait = next(call)
        except StopIteration as end:
            result: T = end.value
            return result

    async def _wait(self, wait: Wait) -> None:
        self._give_way()
        assert self._driver is not None
        mailbox = self._driver.mailbox
        left_ms = max(0, wait.deadline_at_ms - self._driver.now_ms())
        if wait.direct:
            lines = [direct.line for direct in wait.direct]
            has_news = partial(mailbox.has_direct_news, wait.direct, wait.with_records)
            await self._bell.wait_on(lines, has_news, left_ms)
        else:
            await self._bell.wait(partial(mailbox.has_news, with_records=wait.with_records), left_ms)
        mailbox.end_wait(with_records=wait.with_records)

    def _call(self, method: str, function: Callable[[], T]) -> T:
        self._enter(method)
        try:
            return function()
        finally:
            self._leave()

    def _enter(self, method: str) -> None:
        self._origin.enter()
        self._guard.demand_no_callback(method, self._callback_thread)
        if self._guard.is_wanted or (self._calls.is_closing and self._guard.inside is not None):
            raise ConsumerClosedError("This consumer is being closed by another task.")
        if self._closed or self._calls.is_closing:
            raise ConsumerClosedError("This consumer has already been closed.")
        self._guard.enter(method)

    def _leave(self) -> None:
        self._guard.leave()

    def _enter_at_exit(self, timeout_ms: int) -> bool:
        return self._guard.inside is None

    def _give_way(self) -> None:
        if self._guard.is_wanted and not self._calls.is_closing:
            raise ConsumerClosedError("This consumer is being closed by another task.")

    def _demand_loop(self) -> asyncio.AbstractEventLoop:
        """The running loop, which this consumer belongs to from now on."""
        loop = asyncio.get_running_loop()
        self._guard.demand_loop(loop)
        return loop

    def _stop_reading(self, is_over: Callable[[], bool]) -> None:
        """A loop has ended. If this cannot be done now, the next call does it."""
        reading = self._application.reading
        if reading is not None and reading.is_over == is_over and reading.rest and not self._guard.is_busy_here():
            with suppress(ConsumerClosedError):
                self._call("iteration", self._calls.stop_reading)


_ACKNOWLEDGE = AsyncShareConsumer.acknowledge


class AsyncRecords(Generic[K, V]):
    """What `async for` steps through: the records of one poll after the other. Made by `AsyncShareConsumer`."""

    def __init__(self, consumer: AsyncShareConsumer[K, V]) -> None:
        self._consumer = consumer
        self._loop = _Loop()
        self._records: Iterator[Any] = iter(())

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ShareRecord[K, V]:
        consumer = self._consumer
        try:
            while not consumer._closed:
                for record in self._records:
                    found: ShareRecord[K, V] = record
                    return found
                call = consumer._calls.read(ITERATION_POLL_MS, self._loop.has_ended)
                self._records = iter(await consumer._poll("iteration", call))
        except ConsumerClosedError:
            pass  # another task closes it
        raise StopAsyncIteration

    def __del__(self) -> None:
        self._loop.is_over = True
        self._consumer._stop_reading(self._loop.has_ended)


class _Loop:
    """One loop over a consumer, as the consumer sees it: it may outlive the object that steps."""

    is_over = False

    def has_ended(self) -> bool:
        return self.is_over


class _TaskGuard(OneTask):
    """One task at a time, on one event loop."""

    def __init__(self) -> None:
        super().__init__(get_ident)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_free = asyncio.Event()

    def demand_loop(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._loop is not loop:
            if self._loop is not None and not self._loop.is_closed():
                raise IllegalStateError("This consumer belongs to another event loop: make one for each loop.")
            self._loop, self._is_free, self.inside = loop, asyncio.Event(), None
        self.belong_to_this_thread()

    def demand_no_callback(self, method: str, callback_thread: int | None) -> None:
        if callback_thread is not None and callback_thread == get_ident():
            raise ConcurrentUseError(f"{method} must not be called from the acknowledgement commit callback")

    def enter(self, method: str) -> None:
        if self.is_elsewhere():
            raise ConcurrentUseError(f"{method} was called from another thread than that of the consumer's event loop")
        if self.inside is not None:
            raise ConcurrentUseError(f"{method} was called while another task is in {self.inside} of this consumer")
        self.inside = method

    def leave(self) -> None:
        self.inside = None
        self._is_free.set()

    async def displace(self, ends_at_ms: int, nudge: Callable[[], None]) -> None:
        """Come in to close: whoever is inside ends, and is waited for. Raises `ConcurrentUseError` if it does not."""
        self.is_wanted = True
        try:
            async with asyncio.timeout(max(0, ends_at_ms - clock_ms()) / 1000):
                while self.inside is not None:
                    nudge()
                    self._is_free.clear()
                    await self._is_free.wait()
        except TimeoutError:
            raise ConcurrentUseError("close has waited in vain for the call of another task to end") from None
        finally:
            self.is_wanted = False
        self.inside = "close"


def _resolve(future: asyncio.Future[None], error: KafkaShareError | None) -> None:
    if not future.done():
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)
