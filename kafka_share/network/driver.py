"""Runs one client core: its event loop, its thread, its clock, its connections, its mailbox.

Made by a façade. The application posts events and takes outputs from `mailbox`; everything else happens on the
driver's thread. The step, wherever it is called from: take inputs → `core.handle` → `core.poll` → perform outputs →
arm one timer for `core.wake_at_ms`. An answer goes through the core and to the mailbox, and the next request leaves,
inside the one callback that received it: no task, no second turn of the loop.

The thread is a daemon and its death is loud: whatever exception ends it comes out of `post` and of the mailbox as
`InternalError`. What the network does never ends it.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol
from uuid import UUID

from kafka_share.config import ClientConfig
from kafka_share.core.admin.events import AdminCommand, CompleteCall
from kafka_share.core.events import (
    AcknowledgementsGathered,
    BatchReclaimed,
    CompleteCommit,
    CompleteUnsubscribe,
    Deliver,
    Disconnect,
    Event,
    FinishClose,
    GatherAcknowledgements,
    Log,
    Output,
    RaiseError,
    Reclaim,
    ReportOutcomes,
    Send,
    TellClientInstanceId,
)
from kafka_share.core.metrics.measurements import Measurements
from kafka_share.errors import ConsumerClosedError, IllegalStateError, InternalError
from kafka_share.network.connection import Connection, Surroundings
from kafka_share.network.connections import Connections
from kafka_share.network.logs import log_event
from kafka_share.network.mailbox import Mailbox
from kafka_share.network.tls import make_ssl_context

log = logging.getLogger(__name__)

DEFAULT_STOP_TIMEOUT_MS: Final = 5_000
UNWOKEN_LIMIT: Final = 1_000
"""Events posted without waking the loop, after which it is woken all the same: the queue must not grow unseen."""
_TURNS_TO_CLOSE: Final = 20
"""Turns of the loop in which aborted transports, TLS ones within TLS ones too, have called back and closed."""
_AT_EXIT_TIMEOUT_MS: Final = 500
_FOR_THE_MAILBOX: Final = (Deliver, ReportOutcomes, RaiseError, CompleteCommit, CompleteUnsubscribe, CompleteCall)


def monotonic_ms() -> int:
    """The clock of every core: milliseconds of `time.monotonic`."""
    return time.monotonic_ns() // 1_000_000


class Core(Protocol):
    """What the driver needs of a core; `kafka_share.core` has the real ones: a consumer's and an admin client's."""

    def handle(self, event: Any, now_ms: int) -> None: ...
    def poll(self, now_ms: int) -> Sequence[Any]: ...
    def wake_at_ms(self) -> int | None: ...


class Observer(Protocol):
    """Somebody who is to see outputs on the network thread, before the mailbox has them, and is asked for words."""

    def observe(self, outputs: Sequence[Output]) -> None: ...
    def hand_over(self, post: Callable[[AcknowledgementsGathered], None]) -> None: ...
    def ended(self) -> None: ...


class ConsumerDriver:
    """Owns `core` from now on; nobody else may call it.

    `name` names the thread, `notify` is the mailbox's. Raises `ConfigurationError` for TLS settings that cannot work.
    """

    def __init__(
        self,
        core: Core,
        settings: ClientConfig,
        *,
        name: str,
        notify: Callable[[], None] | None = None,
        observer: Observer | None = None,
    ) -> None:
        self._posted_at_ms: deque[int] = deque()
        self._stepped_at_ms: int | None = None
        # A core that measures lends us its numbers; the admin client's does not.
        self.measurements: Measurements = getattr(core, "measurements", None) or Measurements()
        self.measurements.labels["client_id"] = settings.client_id
        self.measurements.unix_offset_ms = time.time_ns() // 1_000_000 - self.now_ms()
        self.measurements.events_waiting = self._posted_at_ms.__len__
        self.mailbox = Mailbox(notify, self.measurements, self.now_ms)
        self.wakeups = 0
        """How often the application woke the loop; in the steady state this stands still."""
        self.client_instance_id: UUID | None = None
        """The id of this client in telemetry (KIP-714), once `client_instance_id_told` is set; None: it has none."""
        self.client_instance_id_told = threading.Event()
        self._observer = observer
        self._core = core
        self._settings = settings
        self._ssl_context = make_ssl_context(settings)
        self._name = name
        self._process_id = os.getpid()
        self._inputs: deque[Event | AdminCommand] = deque()
        self._outbox: list[Output] = []
        self._is_scheduled = False
        self._is_stepping = False
        self._has_ended = False
        self._failure: BaseException | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.SelectorEventLoop | None = None
        self._connections: Connections | None = None
        self._thread: threading.Thread | None = None
        self._perform: dict[type, Callable[[Any], None]] = {
            Disconnect: self._disconnect,
            Reclaim: self._reclaim,
            GatherAcknowledgements: self._gather_acknowledgements,
            FinishClose: self._finish,
            Log: self._log,
            TellClientInstanceId: self._tell_client_instance_id,
            **dict.fromkeys(_FOR_THE_MAILBOX, self._keep),
        }

    # ---- called by the application

    def start(self) -> None:
        """Start the thread. Raises `IllegalStateError` if it was started before."""
        self._check_process()
        if self._thread is not None:
            raise IllegalStateError("The driver has been started already.")
        # Not the application's event loop policy: what this thread does must not depend on it.
        self._loop = loop = asyncio.SelectorEventLoop()
        loop.set_exception_handler(self._on_loop_error)
        surroundings = Surroundings(self._settings, self._ssl_context, loop, self.now_ms)
        self._connections = Connections(
            lambda node, channel, owner: Connection(node, channel, owner, surroundings),
            self._inputs.append,
            self._step,
            self.measurements,
        )
        self._perform[Send] = self._connections.send
        self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
        try:
            self._thread.start()
        except BaseException:
            loop.close()
            raise
        _DRIVERS.add(self)

    def post(self, event: Event | AdminCommand, *, wake: bool = True) -> None:
        """Hand an event to the core. Any thread may call it.

        With `wake` the core sees it at once; without, before anything else when the loop next runs. Raises
        `InternalError` if the thread has died, `ConsumerClosedError` after it ended, `IllegalStateError` before
        `start` and in a forked child.
        """
        self._check_process()
        if self._failure is not None:
            raise InternalError(f"the network thread died: {self._failure!r}") from self._failure
        if self._has_ended:
            raise ConsumerClosedError("The network thread has ended.")
        if self._loop is None:
            raise IllegalStateError("The driver has not been started.")
        self._posted_at_ms.append(self.now_ms())
        self._inputs.append(event)
        # Append first, look second: the loop lowers the flag before it takes the inputs, so none is overlooked.
        if (wake or len(self._inputs) > UNWOKEN_LIMIT) and not self._is_scheduled:
            self._is_scheduled = True
            self._call_soon(self._on_wake)

    def now_ms(self) -> int:
        """The core's clock, which deadlines of events are points of: monotonic, milliseconds."""
        return monotonic_ms()

    @property
    def is_current_thread(self) -> bool:
        """Whether this is called on the network thread, where nobody may wait for it."""
        return self._thread is threading.current_thread()

    def stop(self, timeout_ms: int = DEFAULT_STOP_TIMEOUT_MS) -> None:
        """Close all connections, end the thread and wait for it, up to `timeout_ms`. Calling it again does nothing.

        What the mailbox holds can still be taken. In a forked child it does nothing: all of it is the parent's.
        """
        thread = self._thread
        if thread is None or os.getpid() != self._process_id:
            return
        self._call_soon(self._end)
        if thread is threading.current_thread():
            return  # a finalizer that happened to run here; the loop ends after this callback
        thread.join(timeout_ms / 1000)
        if thread.is_alive():
            log.warning("thread %r did not end within %d ms", self._name, timeout_ms)

    def _check_process(self) -> None:
        if os.getpid() != self._process_id:
            raise IllegalStateError(
                f"This client was made in process {self._process_id} and cannot be used after fork(): its connections "
                "and its thread belong to the parent. Make a new one in this process."
            )

    def _call_soon(self, callback: Callable[[], None]) -> None:
        assert self._loop is not None
        try:
            self._loop.call_soon_threadsafe(callback)
        except RuntimeError:
            pass  # the loop was closed a moment ago; the mailbox tells why

    # ---- the thread

    def _run(self) -> None:
        loop = self._loop
        assert loop is not None
        log.debug("started thread=%s", self._name)
        try:
            if not self._has_ended:
                loop.call_soon(self._step)
                loop.run_forever()
        except BaseException as error:  # noqa: BLE001 - the thread has nobody above it who could see it
            self._record(error)
        finally:
            self._has_ended = True
            try:
                loop.run_until_complete(self._shut_down())
            except BaseException as error:  # noqa: BLE001 - as above
                self._record(error)
            finally:
                loop.close()
                self.mailbox.stop()
                if self._observer is not None:
                    self._observer.ended()
                _DRIVERS.discard(self)
                log.debug("ended thread=%s failure=%r", self._name, self._failure)

    async def _shut_down(self) -> None:
        assert self._connections is not None
        if self._timer is not None:
            self._timer.cancel()
        self._connections.close()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for _ in range(_TURNS_TO_CLOSE):
            await asyncio.sleep(0)

    def _end(self) -> None:
        assert self._loop is not None
        if not self._has_ended:
            self._has_ended = True
            self._loop.stop()

    def _die(self, error: BaseException) -> None:
        self._record(error)
        self._end()

    def _record(self, error: BaseException) -> None:
        if self._failure is None:
            log.error("the network thread %r died", self._name, exc_info=error)
            self._failure = error
            self.mailbox.fail(error)

    def _on_loop_error(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if error is None or isinstance(error, OSError):
            # asyncio's own remarks about sockets; the connection hears of them by itself.
            log.debug("event loop: %s: %r", context.get("message"), error)
        else:
            self._die(error)

    # ---- the step

    def _on_wake(self) -> None:
        self._is_scheduled = False
        self.wakeups += 1
        if self._inputs:
            self._step()

    def _on_timer(self) -> None:
        self._timer = None
        self._step()

    def _step(self) -> None:
        """Run the core until it has nothing to say. Calls from inside it only leave events for its next round."""
        if self._is_stepping or self._has_ended:
            return
        self._is_stepping = True
        try:
            self._run_core()
            self._arm()
        except BaseException as error:  # noqa: BLE001 - asyncio would log it and go on with a core in an unknown state
            self._die(error)
        finally:
            self._is_stepping = False

    def _run_core(self) -> None:
        core, inputs, perform = self._core, self._inputs, self._perform
        self._measure_turn(self.now_ms())
        while not self._has_ended:
            now_ms = self.now_ms()
            has_commands = self._measure_commands(now_ms)
            while inputs:
                core.handle(inputs.popleft(), now_ms)
            for output in core.poll(now_ms):
                perform[type(output)](output)
            # After the requests: the broker works on the next fetch while the application gets this one.
            self._hand_over()
            if has_commands:
                self.measurements.event_processing.record(self.now_ms() - now_ms, now_ms)
            if not inputs:
                return

    def _measure_turn(self, now_ms: int) -> None:
        if self._stepped_at_ms is not None:
            self.measurements.steps.record(now_ms - self._stepped_at_ms, now_ms)
        self._stepped_at_ms = now_ms

    def _measure_commands(self, now_ms: int) -> bool:
        """Record how long the application's commands have waited; False if there are none."""
        posted_at_ms = self._posted_at_ms
        if not posted_at_ms:
            return False
        while posted_at_ms:
            self.measurements.event_waits.record(max(0, now_ms - posted_at_ms.popleft()), now_ms)
        return True

    def _arm(self) -> None:
        """One timer, never later than the core wants. An earlier one stays: moving it costs more than a look."""
        assert self._loop is not None
        wake_at_ms = self._core.wake_at_ms()
        if wake_at_ms is None or self._has_ended:
            return
        wake_at = wake_at_ms / 1000
        if self._timer is not None:
            if self._timer.when() <= wake_at:
                return
            self._timer.cancel()
        self._timer = self._loop.call_at(wake_at, self._on_timer)

    # ---- outputs

    def _keep(self, output: Output) -> None:
        self._outbox.append(output)

    def _hand_over(self) -> None:
        if self._outbox:
            outputs, self._outbox = self._outbox, []
            if self._observer is not None:
                self._observer.observe(outputs)
            self.mailbox.put_all(outputs)

    def _disconnect(self, output: Disconnect) -> None:
        assert self._connections is not None
        self._connections.disconnect(output)

    def _gather_acknowledgements(self, _: GatherAcknowledgements) -> None:
        assert self._observer is not None, "nobody has announced acknowledgements"
        self._observer.hand_over(self._inputs.append)

    def _reclaim(self, output: Reclaim) -> None:
        self._hand_over()  # the batch may be among the outputs of this very step
        if self.mailbox.reclaim(output.batch_id):
            self._inputs.append(BatchReclaimed(output.batch_id))

    def _log(self, output: Log) -> None:
        log_event(output.event, output.fields, self.measurements.labels)

    def _tell_client_instance_id(self, output: TellClientInstanceId) -> None:
        self.client_instance_id = output.client_instance_id
        self.client_instance_id_told.set()

    def _finish(self, output: FinishClose) -> None:
        """The last output: nothing is left to be done, so the thread ends even if nobody calls `stop` any more."""
        self._outbox.append(output)
        self._hand_over()
        self._end()


_DRIVERS: weakref.WeakSet[ConsumerDriver] = weakref.WeakSet()
"""Drivers whose thread runs, for the end of the process."""


def _stop_all() -> None:
    """A daemon thread inside an event loop must not meet an interpreter that is being taken apart."""
    for driver in tuple(_DRIVERS):
        driver.stop(_AT_EXIT_TIMEOUT_MS)


atexit.register(_stop_all)
