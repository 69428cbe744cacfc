"""Runs plain handlers on threads. The thread that calls `run` polls; one thread for each record in work calls handlers.

A thread that has finished a record takes the next one by itself: fast handlers do not wait for the thread that polls.
One lock guards the rules. Who takes the last call that has been started tells the rules of all that have ended since,
so that with fast handlers one thread does so for many records. No result waits for a handler: as long as a call is left
to take, a thread is free that takes it. Signal handlers only count and wake.

The threads are daemons: a handler that hangs does not keep the process from ending.
"""

from __future__ import annotations

import inspect
import queue
import threading
from collections.abc import Callable

from kafka_share.errors import KafkaShareError, WakeupError
from kafka_share.handling.driver import Driver, wall_ms
from kafka_share.handling.job import Call
from kafka_share.handling.lease import Lease
from kafka_share.handling.leasing import LeasingConsumer
from kafka_share.handling.plan import Plan
from kafka_share.network.clock import clock_ms


class ThreadDriver(Driver):
    """Runs one worker once, on threads."""

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self._lock = threading.Lock()
        self._work: queue.SimpleQueue[tuple[Call, Lease] | None] = queue.SimpleQueue()
        self._bell: queue.SimpleQueue[None] = queue.SimpleQueue()
        """Reentrant, so that signal handlers may ring it."""
        self._threads: list[threading.Thread] = []
        self._wakeup: Callable[[], None] = _nobody

    def run(self) -> None:
        """Until `stop`, or an error that lasts, which is raised when the worker has drained."""
        consumer = LeasingConsumer(*self.plan.topics, **self.plan.settings)
        self._wakeup = consumer.wakeup
        try:
            self._open(consumer)
            while not self._look_locked():
                if self._waits:
                    self._wait()
                else:
                    self._receive(consumer)
        finally:
            self._wakeup = _nobody
            try:
                self._end_handlers()
            finally:
                consumer.close(self._close_timeout_ms)
            self._close_producer()
            self._end_threads(waits=not self._leases)
        with self._lock:
            self._closed()

    def _look_locked(self) -> bool:
        with self._lock:
            has_ended = self._look()
        self._tell_ended()
        return has_ended

    def _receive(self, consumer: LeasingConsumer) -> None:
        try:
            records = consumer.poll(max(0, self._looks_at_ms - clock_ms()))
        except WakeupError:
            return
        except KafkaShareError as error:
            self._poll_raised(error)
            return
        finally:
            self._polled()
        if records:
            self._trouble = ""
            with self._lock:
                self.jobs.arrived(records, clock_ms(), wall_ms())
            self._tell_ended()

    def _wait(self) -> None:
        try:
            self._bell.get(timeout=max(0, self._looks_at_ms - clock_ms()) / 1_000)
        except queue.Empty:
            pass

    def _wake(self) -> None:
        self._ring()
        self._wakeup()

    def _ring(self) -> None:
        if self._bell.empty():  # it has not been heard for long while the loop polls
            self._bell.put(None)

    # ---- handlers

    def _start(self, call: Call, lease: Lease) -> None:
        if len(self._threads) < min(self.plan.handlers, len(self._leases)):
            name = f"kafka-share handler {len(self._threads) + 1}"
            self._threads.append(threading.Thread(target=self._run_handlers, name=name, daemon=True))
            self._threads[-1].start()
        self._work.put((call, lease))

    def _cancel(self, call: Call, reason: str) -> None:
        """A thread cannot be cancelled: the handler looks at its lease, or not."""

    def _run_handlers(self) -> None:
        for call, lease in iter(self._work.get, None):
            self._tell_unless_others_will()
            error = self._call(call, lease)
            self._results.append((call, error, clock_ms()))
            self._tell_unless_others_will()
        self._tell_ended()

    def _tell_unless_others_will(self) -> None:
        if self._work.empty():
            self._tell_ended()

    def _tell_ended(self) -> None:
        """Or leave it to who has the lock: nobody lets go of it without looking again, and nobody queues for it."""
        while self._results and self._lock.acquire(blocking=False):
            try:
                self._take_ended()
                is_due, waits = self._is_due, self._waits
            finally:
                self._lock.release()
            if is_due and waits:
                self._ring()
            elif is_due:
                self._wake()

    def _end_handlers(self) -> None:
        """What can be done before the consumer closes. Threads cannot be ended."""

    def _end_threads(self, *, waits: bool) -> None:
        """Those whose handlers have not ended may be left behind."""
        for _ in self._threads:
            self._work.put(None)
        if waits:
            for thread in self._threads:
                thread.join()
            self._threads.clear()

    def _call(self, call: Call, lease: Lease) -> BaseException | None:
        try:
            result = self.plan.handler(*self._arguments(call, lease))
        except BaseException as error:  # noqa: BLE001 - it decides about the record, whatever it is
            return error
        if inspect.iscoroutine(result):
            result.close()
            return self._not_awaited()
        return None

    def _not_awaited(self) -> BaseException:
        """Nothing that this handler returns would be awaited: the worker ends, and no record is accepted."""
        text = f"{self.plan.handler_name} returned a coroutine: declare the handler itself with async def"
        self._fatal = TypeError(text)
        self._wake()
        return SystemExit(text)


def _nobody() -> None:
    """Who is woken when no poll can wait."""
