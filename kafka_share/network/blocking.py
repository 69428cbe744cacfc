"""Runs calls that may block (name look-up, a token provider, key derivation) away from the event loop.

Each has its own daemon thread instead of the loop's executor: a resolver that hangs must hold up neither `stop` nor the
end of the process, and the executor's threads are joined by both. A call that hangs costs one thread, however often it
is asked for again.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


class BlockingCalls:
    """The calls of one client that are under way. Used on its loop's thread."""

    def __init__(self) -> None:
        self._running: dict[str, tuple[asyncio.Future[Any], threading.Thread]] = {}

    async def shared(self, name: str, function: Callable[[], T]) -> T:
        """`function()` on a daemon thread; while a call of this name runs, its result is awaited instead.

        Raises what the function raised. Cancelling does not stop the call.
        """
        if name not in self._running:
            future, thread = _start(name, function)
            self._running[name] = future, thread
            future.add_done_callback(lambda done: self._forget(name, done))
        future, thread = self._running[name]
        return await _result(future, thread)

    def _forget(self, name: str, done: asyncio.Future[Any]) -> None:
        del self._running[name]
        if not done.cancelled():
            done.exception()  # seen, even if nobody waits for it any more


async def call_in_thread(name: str, function: Callable[[], T]) -> T:
    """`function()` on a daemon thread named `name`; its result or its exception. Cancelling does not stop the call."""
    return await _result(*_start(name, function))


async def _result(future: asyncio.Future[T], thread: threading.Thread) -> T:
    try:
        return await asyncio.shield(future)
    finally:
        if future.done():
            thread.join()  # it has nothing left to do but to end: who looks at the threads finds none of ours


def _start(name: str, function: Callable[[], T]) -> tuple[asyncio.Future[T], threading.Thread]:
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def finish(result: T | None, error: Exception | None) -> None:
        if future.done():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)  # type: ignore[arg-type]  # None only where T allows it

    def run() -> None:
        try:
            outcome: tuple[T | None, Exception | None] = (function(), None)
        except Exception as error:  # noqa: BLE001 - it is raised again where the call was made
            outcome = (None, error)
        try:
            loop.call_soon_threadsafe(finish, *outcome)
        except RuntimeError:
            pass  # the loop was closed meanwhile: nobody waits any more

    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    return future, thread
