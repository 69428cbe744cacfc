"""One asyncio loop on one daemon thread: where a `ReferenceBroker` lives, and how other threads reach it.

`ReferenceBroker` starts and stops it, and has its work done on it. It knows nothing of Kafka. It is not the caller's
own loop, so that a coroutine may use a blocking client of the broker.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from typing import TYPE_CHECKING, Any, Final, TypeVar

from kafka_share.errors import IllegalStateError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

T = TypeVar("T")

_CALL_TIMEOUT_S: Final = 60.0


class LoopThread:
    """Calls are carried out one after the other, in the order in which they came, while it runs."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    @property
    def is_running(self) -> bool:
        """Whether calls can be made."""
        return self._loop is not None

    def start(self) -> None:
        """Start the thread. Raises `IllegalStateError` if it runs."""
        if self._loop is not None:
            raise IllegalStateError("this broker is running already")
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=_run, args=(self._loop,), name=self._name, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread, and wait for that."""
        assert self._loop is not None
        assert self._thread is not None
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop = self._thread = None

    def call(self, function: Callable[[], T]) -> T:
        """Run `function` on the loop; returns or raises what it did. Raises `IllegalStateError` unless it runs."""
        done: concurrent.futures.Future[T] = concurrent.futures.Future()

        def run() -> None:
            try:
                done.set_result(function())
            except BaseException as error:  # noqa: BLE001  handed to the calling thread
                done.set_exception(error)

        self._running().call_soon_threadsafe(run)
        return done.result(_CALL_TIMEOUT_S)

    def run(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run the coroutine that `work` makes on the loop to its end. Raises `IllegalStateError` unless it runs."""
        return asyncio.run_coroutine_threadsafe(work(), self._running()).result(_CALL_TIMEOUT_S)

    def _running(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            raise IllegalStateError("the broker is not running: use `with`, `async with` or start() first")
        return self._loop


def _run(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        loop.close()
