"""What the network thread hands to the application: outputs, wake-ups, and the news that the thread has died.

The network thread puts, one application thread takes; `wakeup` may come from any thread. Nothing here knows what the
outputs mean, but for finding a `Deliver` that is to be taken back.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final

from kafka_share.core.events import Deliver, Output
from kafka_share.core.metrics.measurements import Measurements
from kafka_share.errors import ConsumerClosedError, IllegalStateError, InternalError

MAX_PENDING: Final = 100_000
"""Far more than a working core puts without being asked; beyond it the core is broken and the thread ends."""


class Mailbox:
    """A queue of outputs with a blocking end.

    `notify`, if given, is called after every change that could end a wait, on the thread that made it and without any
    lock held: an asyncio façade wakes its own loop there instead of blocking in `take`. How long the oldest output has
    waited is recorded in `measurements`, by the clock `now_ms`.
    """

    def __init__(
        self,
        notify: Callable[[], None] | None = None,
        measurements: Measurements | None = None,
        now_ms: Callable[[], int] = int,
    ) -> None:
        # Condition's own lock is reentrant: a finalizer that calls wakeup() inside one of our locked sections is safe.
        self._changed = threading.Condition()
        self._pending: list[Output] = []
        self._interrupted = False
        self._woken = False
        self._stopped = False
        self._failure: BaseException | None = None
        self._process_id = os.getpid()
        self._notify = notify
        self._measurements = Measurements() if measurements is None else measurements
        self._measurements.mail_waiting = lambda: len(self._pending)
        self._now_ms = now_ms
        self._waiting_since_ms = 0

    def put(self, output: Output) -> None:
        """Add one output and end a wait."""
        self.put_all((output,))

    def put_all(self, outputs: Iterable[Output]) -> None:
        """Add outputs that belong together: one wait takes them all."""
        with self._changed:
            if not self._pending:
                self._waiting_since_ms = self._now_ms()
            self._pending.extend(outputs)
            assert len(self._pending) <= MAX_PENDING, "the application is handed more than it can ever have asked for"
            self._changed.notify_all()
        self._tell()

    def take(
        self, timeout_ms: int, *, with_records: bool = True, waiting: AbstractContextManager[Any] | None = None
    ) -> list[Output]:
        """All pending outputs; waits up to `timeout_ms` for the first one, inside of `waiting`.

        Only a poll takes records. Without `with_records` each `Deliver` stays where it is, so that it can be taken
        back if no poll comes in time.

        A wait ends early, perhaps with nothing, once for `wakeup` or `interrupt`; `take(0)` does not use that up. So
        ask `consume_wakeup` before the first wait of a call and after each. Raises `InternalError` if the network
        thread has died, now and ever after; `ConsumerClosedError` if nothing is pending, nothing will come and
        `timeout_ms` asks to wait for it; `IllegalStateError` in a process forked from the one that made the mailbox.
        """
        if os.getpid() != self._process_id:
            raise IllegalStateError("This consumer belongs to the parent process; make a new one after fork().")
        with self._changed:
            if timeout_ms > 0:
                with waiting or nullcontext():
                    self._changed.wait_for(lambda: self._has_news(with_records), timeout_ms / 1000)
                self._interrupted = False
            if self._failure is not None:
                raise InternalError(f"the network thread died: {self._failure!r}") from self._failure
            if with_records:
                pending, self._pending = self._pending, []
            else:
                pending = [output for output in self._pending if not isinstance(output, Deliver)]
                self._pending = [output for output in self._pending if isinstance(output, Deliver)]
            if pending:
                now_ms = self._now_ms()
                self._measurements.mail_waits.record(now_ms - self._waiting_since_ms, now_ms)
            elif timeout_ms > 0 and self._stopped:
                raise ConsumerClosedError("The network thread has ended; nothing more will arrive.")
            return pending

    def _has_news(self, with_records: bool) -> bool:
        if self._interrupted or self._stopped or self._failure is not None:
            return True
        return any(with_records or not isinstance(output, Deliver) for output in self._pending)

    def interrupt(self) -> None:
        """End the present or the next wait, and nothing else: there is something to look at. Any thread may call it."""
        with self._changed:
            self._interrupted = True
            self._changed.notify_all()
        self._tell()

    def wakeup(self) -> None:
        """End the present or the next wait, and set the flag of `consume_wakeup`. Any thread may call it."""
        with self._changed:
            self._woken = self._interrupted = True
            self._changed.notify_all()
        self._tell()

    def consume_wakeup(self) -> bool:
        """Was `wakeup` called since this last returned True? Several calls count as one."""
        with self._changed:
            woken = self._woken
            self._woken = self._interrupted = False
            return woken

    def reclaim(self, batch_id: int) -> bool:
        """Take the `Deliver` of this batch back; False if the application has it already."""
        with self._changed:
            for i, output in enumerate(self._pending):
                if isinstance(output, Deliver) and output.batch.batch_id == batch_id:
                    del self._pending[i]
                    return True
        return False

    def fail(self, exception: BaseException) -> None:
        """The network thread died of this: every `take` raises from now on. The first cause is kept."""
        with self._changed:
            self._failure = self._failure or exception
            self._changed.notify_all()
        self._tell()

    def stop(self) -> None:
        """The network thread has ended as it should: what is pending can be taken, no wait will block again."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        self._tell()

    @property
    def is_stopped(self) -> bool:
        """Whether nothing more will be put in."""
        return self._stopped

    def _tell(self) -> None:
        if self._notify is not None:
            self._notify()
