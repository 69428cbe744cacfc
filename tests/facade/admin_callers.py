"""`KafkaShareAdmin` and `AsyncShareAdmin` behind the same blocking calls, so that one suite runs on both."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

from kafka_share import AsyncShareAdmin, KafkaShareAdmin


class AsyncCaller:
    """Runs each method of an `AsyncShareAdmin` to its end on a loop of its own."""

    def __init__(self, **settings: Any) -> None:
        self._loop = asyncio.new_event_loop()
        try:
            self._admin = AsyncShareAdmin(**settings)
        except BaseException:
            self._loop.close()
            raise

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._admin, name)
        assert inspect.iscoroutinefunction(method), f"{name} is not awaited"
        return lambda *arguments, **options: self._loop.run_until_complete(method(*arguments, **options))

    def finish(self) -> None:
        self._loop.run_until_complete(self._admin.close())
        self._loop.close()


class BlockingCaller(KafkaShareAdmin):
    """A `KafkaShareAdmin` with the same ending."""

    def finish(self) -> None:
        self.close()


CALLERS: dict[str, Callable[..., Any]] = {"blocking": BlockingCaller, "asyncio": AsyncCaller}
