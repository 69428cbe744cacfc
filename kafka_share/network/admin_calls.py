"""The calls of one admin client: hands operations to the background thread and their results back as futures.

Made by the façades, blocking and asyncio alike; both wait for the same futures. Any number of threads may call it. A
future always ends: with the operation's result or error, at the latest when the call's time is up, or with the reason
why the background thread is gone.
"""

from __future__ import annotations

import itertools
import random
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Final, TypeVar

from kafka_share.config import ShareAdminConfig
from kafka_share.core.admin.conversation import Operation
from kafka_share.core.admin.events import AdminEvent, AdminOutput, CallCancelled, CallStarted, CompleteCall
from kafka_share.core.admin.machine import AdminCore
from kafka_share.core.events import CloseRequested, FinishClose
from kafka_share.core.timeouts import checked_timeout
from kafka_share.errors import IllegalStateError, InternalError, KafkaShareError
from kafka_share.network.driver import CoreDriver

T = TypeVar("T")

DEFAULT_CLOSE_TIMEOUT_MS: Final = 5_000


class AdminCalls:
    """Owns the background thread of one admin client; raises `ConfigurationError` for security that cannot work."""

    def __init__(self, config: ShareAdminConfig) -> None:
        self._config = config
        self._lock = threading.Lock()
        self._futures: dict[int, Future[Any]] = {}
        self._ids = itertools.count(1)
        self._is_closed = False
        core = AdminCore(config, random.Random())
        self._driver = CoreDriver(core, config, name=f"kafka-share {config.client_id}", application=self)
        self._driver.start()

    def submit(self, operation: Operation[T], timeout_ms: int | None) -> Future[T]:
        """Start an operation. Cancelling the future makes the background thread forget it.

        Raises `IllegalStateError` after `close` and in a forked child, `InternalError` if the thread has died.
        """
        timeout_ms = self._config.default_api_timeout_ms if timeout_ms is None else checked_timeout(timeout_ms)
        if self._is_closed:
            raise IllegalStateError("This admin client has already been closed.")
        call_id = next(self._ids)
        future: Future[T] = Future()
        with self._lock:
            self._futures[call_id] = future
        try:
            self._driver.post(CallStarted(call_id, operation, timeout_ms))
        except BaseException:
            with self._lock:
                self._futures.pop(call_id, None)
            raise
        future.add_done_callback(lambda done: self._forget(call_id) if done.cancelled() else None)
        return future

    def run(self, operation: Operation[T], timeout_ms: int | None) -> T:
        """The same, and wait for the result."""
        future = self.submit(operation, timeout_ms)
        try:
            return future.result()
        finally:
            future.cancel()  # no effect on one that has ended; this is for an interrupted wait

    def close(self, timeout_ms: int) -> None:
        """End the thread and its connections; calls that have not ended fail. Calling it again does nothing."""
        checked_timeout(timeout_ms)
        self.close_soon()
        self._driver.stop(timeout_ms)
        self._fail_all(IllegalStateError("The admin client was closed while this call was under way."))

    def close_soon(self) -> None:
        """The same without waiting."""
        if self._is_closed:
            return
        self._is_closed = True
        try:
            self._driver.post(CloseRequested((), self._driver.now_ms()))
        except KafkaShareError:
            pass  # the thread has ended already, or belongs to the parent process

    @property
    def is_closed(self) -> bool:
        return self._is_closed

    # ---- called on the background thread: an `ApplicationPort`

    def take(self, output: AdminOutput, _: Callable[[AdminEvent], None]) -> None:
        if isinstance(output, CompleteCall):
            self._complete(output)
        else:
            assert isinstance(output, FinishClose), f"{output!r} is not for the application"

    def flush(self) -> None:
        """Nothing waits here."""

    def failed(self, error: BaseException) -> None:
        died = InternalError(f"the network thread died: {error!r}")
        died.__cause__ = error
        self._fail_all(died)

    def ended(self) -> None:
        self._fail_all(IllegalStateError("The admin client has ended."))

    def _complete(self, output: CompleteCall) -> None:
        with self._lock:
            future = self._futures.pop(output.call_id, None)
        if future is None or not future.set_running_or_notify_cancel():
            return
        if output.error is not None:
            future.set_exception(output.error)
        else:
            future.set_result(output.value)

    def _fail_all(self, error: KafkaShareError) -> None:
        with self._lock:
            futures, self._futures = self._futures, {}
        for future in futures.values():
            if future.set_running_or_notify_cancel():
                future.set_exception(error)

    def _forget(self, call_id: int) -> None:
        with self._lock:
            self._futures.pop(call_id, None)
        try:
            self._driver.post(CallCancelled(call_id))
        except KafkaShareError:
            pass  # the thread has ended, and all calls with it
