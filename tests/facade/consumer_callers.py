"""`KafkaShareConsumer` and `AsyncShareConsumer` behind the same blocking calls, so that one suite runs on both."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

from kafka_share import AsyncShareConsumer, KafkaShareConsumer

_LOOK_S = 0.005
_ANY_THREAD = ("wakeup", "metrics", "health")


class AsyncCaller:
    """Runs each method of an `AsyncShareConsumer` to its end on a loop that runs in whichever thread calls."""

    def __init__(self, *topics: str, **settings: Any) -> None:
        self._loop = asyncio.new_event_loop()
        self._runs = threading.Lock()
        try:
            self._consumer: AsyncShareConsumer[Any, Any] = AsyncShareConsumer(*topics, **settings)
        except BaseException:
            self._loop.close()
            raise

    def _wait(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """Run the loop until this has ended, or let the thread do it that runs the loop already."""
        if self._runs.acquire(blocking=False):
            try:
                return self._loop.run_until_complete(coroutine)
            finally:
                self._runs.release()
        future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        while not future.done():
            if self._runs.acquire(timeout=_LOOK_S):
                try:
                    self._loop.run_until_complete(asyncio.wait([asyncio.wrap_future(future, loop=self._loop)]))
                finally:
                    self._runs.release()
        return future.result()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            if "_consumer" not in self.__dict__:
                raise AttributeError(name)
            return getattr(self._consumer, name)
        method = inspect.getattr_static(AsyncShareConsumer, name)
        if isinstance(method, property):
            return self._wait(self._get(name))
        if name in _ANY_THREAD:
            return getattr(self._consumer, name)
        return lambda *arguments, **options: self._wait(self._call(name, *arguments, **options))

    async def _get(self, name: str) -> Any:
        return getattr(self._consumer, name)

    async def _call(self, name: str, *arguments: Any, **options: Any) -> Any:
        result = getattr(self._consumer, name)(*arguments, **options)
        return await result if inspect.iscoroutine(result) else result

    def acknowledge_with_result(self, *arguments: Any) -> Any:
        """The future of the loop as one of a thread."""

        async def acknowledge() -> Any:
            return self._consumer.acknowledge_with_result(*arguments)

        future = self._wait(acknowledge())
        return _Result(self, future)

    def __iter__(self) -> Iterator[Any]:
        records = self._consumer.__aiter__()
        while True:
            try:
                record = self._wait(records.__anext__())
            except StopAsyncIteration:
                return
            yield record

    def __enter__(self) -> AsyncCaller:
        self._wait(self._consumer.__aenter__())
        return self

    def __exit__(self, *error: object) -> None:
        self._wait(self._consumer.__aexit__(*error))

    def __repr__(self) -> str:
        return repr(self._consumer)

    def end(self) -> None:
        self._loop.close()


class _Result:
    """A future whose result is waited for by running the loop."""

    def __init__(self, caller: AsyncCaller, future: Any) -> None:
        self._caller = caller
        self._future = future

    def result(self, timeout: float | None = None) -> Any:
        async def wait() -> Any:
            async with asyncio.timeout(timeout):
                return await asyncio.shield(self._future)

        return self._caller._wait(wait())

    def exception(self, timeout: float | None = None) -> Any:
        try:
            self.result(timeout)
        except TimeoutError:
            raise
        except Exception as error:  # noqa: BLE001 - it is the result
            return error
        return None

    def done(self) -> bool:
        async def look() -> bool:
            return bool(self._future.done())

        return bool(self._caller._wait(look()))


CALLERS: dict[str, Callable[..., Any]] = {"blocking": KafkaShareConsumer, "asyncio": AsyncCaller}
