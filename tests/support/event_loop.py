"""Runs a coroutine as a test, on an event loop that it has for itself, and waits there."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec

from support.waiting import patience_s

P = ParamSpec("P")


def in_loop(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """The test as a plain function; it ends with TimeoutError when it hangs."""

    @functools.wraps(test)
    def run(*arguments: P.args, **fixtures: P.kwargs) -> None:
        async def within_the_limit() -> None:
            async with asyncio.timeout(patience_s()):
                await test(*arguments, **fixtures)

        asyncio.run(within_the_limit())

    return run


async def until(holds: Callable[[], object]) -> None:
    """Let other tasks and threads go on until this holds. Raises TimeoutError when it never does."""
    async with asyncio.timeout(patience_s()):
        while not holds():  # noqa: ASYNC110 - no event tells what a broker or another thread does
            await asyncio.sleep(0.005)
