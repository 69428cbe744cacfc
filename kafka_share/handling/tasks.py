"""Runs coroutines as handlers: one task for each call, on the event loop that runs the worker.

Everything here is on that loop; only `_wake` may be called from elsewhere.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial

from kafka_share.errors import KafkaShareError, WakeupError
from kafka_share.handling.driver import Driver, wall_ms
from kafka_share.handling.job import Call
from kafka_share.handling.lease import Lease
from kafka_share.handling.leasing import AsyncLeasingConsumer
from kafka_share.handling.plan import Plan
from kafka_share.network.clock import clock_ms


class TaskDriver(Driver):
    """Runs one worker once, on the running event loop."""

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self._tasks: dict[Call, asyncio.Task[None]] = {}
        self._is_telling = False
        """The rules will be told in this turn of the event loop of what has ended."""
        self._bell = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    async def run(self) -> None:
        """Until `stop`, or an error that lasts, which is raised when the worker has drained.

        If it is cancelled, handlers are cancelled too, and nothing is waited for but the end of the consumer.
        """
        self._loop = asyncio.get_running_loop()
        consumer = AsyncLeasingConsumer(*self.plan.topics, **self.plan.settings)
        try:
            self._open(consumer)
            while not self._look():
                if self._waits:
                    await self._wait()
                else:
                    await self._receive(consumer)
        except asyncio.CancelledError:
            self._stops += 2
            self._look()
            raise
        finally:
            await consumer.close(self._close_timeout_ms)
            if self._has_produced:
                await asyncio.to_thread(self._close_producer)
            self._loop = None
        self._closed()

    async def _receive(self, consumer: AsyncLeasingConsumer) -> None:
        try:
            records = await consumer.poll(max(0, self._looks_at_ms - clock_ms()))
        except WakeupError:
            return
        except KafkaShareError as error:
            self._poll_raised(error)
            return
        finally:
            self._polled()
        if records:
            self._trouble = ""
            self.jobs.arrived(records, clock_ms(), wall_ms())

    async def _wait(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(max(0, self._looks_at_ms - clock_ms()) / 1_000):
                await self._bell.wait()
        self._bell.clear()

    def _wake(self) -> None:
        loop, consumer = self._loop, self.consumer
        if consumer is not None:
            consumer.wakeup()
        if loop is not None:
            with suppress(RuntimeError):  # the loop was closed
                loop.call_soon_threadsafe(self._bell.set)

    # ---- handlers

    def _start(self, call: Call, lease: Lease) -> None:
        assert self._loop is not None
        task = self._loop.create_task(self._call(call, lease), name=f"kafka-share handler of {call.place}")
        self._tasks[call] = task
        task.add_done_callback(partial(self._ended, call))

    def _cancel(self, call: Call, reason: str) -> None:
        self._tasks[call].cancel(reason)

    async def _call(self, call: Call, lease: Lease) -> None:
        await self.plan.handler(*self._arguments(call, lease))

    def _ended(self, call: Call, task: asyncio.Task[None]) -> None:
        """Also of a task that was cancelled before its first step."""
        del self._tasks[call]
        error = asyncio.CancelledError() if task.cancelled() else task.exception()
        self._results.append((call, error, clock_ms()))
        if not self._is_telling:
            self._is_telling = True
            task.get_loop().call_soon(self._tell_ended)

    def _tell_ended(self) -> None:
        """Once for all handlers that have ended in a turn of the event loop."""
        self._is_telling = False
        self._take_ended()
        is_due = self._is_due
        if is_due and self._waits:
            self._bell.set()
        elif is_due:
            self._wake()
