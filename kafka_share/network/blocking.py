"""Runs a call that may block (name look-up, a token provider, key derivation) away from the event loop.

Each call has its own daemon thread instead of the loop's executor: a resolver that hangs must hold up neither
`stop` nor the end of the process, and the executor's threads are joined by both.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


async def call_in_thread(name: str, function: Callable[[], T]) -> T:
    """`function()` on a daemon thread named `name`; its result or its exception. Cancelling does not stop the call."""
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
    try:
        return await future
    finally:
        if future.done() and not future.cancelled():
            thread.join()  # it has nothing left to do but to end: who looks at the threads finds none of ours
