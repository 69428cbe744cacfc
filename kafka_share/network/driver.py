"""Runs one client core: its event loop, its thread, its clock, its timer, its connections.

Made for each client by `background` or `admin_calls`. The application posts events; outputs for it go through its
`ApplicationPort`, on the driver's thread, where everything else happens too. What a turn of the core is stands in
`turns`: no task, no second turn of the loop lies between an answer and what follows from it.

The thread is a daemon and its death is loud: whatever exception ends it comes out of `post` and of the port as
`InternalError`. What the network does never ends it.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from typing import Any, Final

from kafka_share.config import ClientConfig
from kafka_share.core.metrics.measurements import Measurements
from kafka_share.errors import ConsumerClosedError, IllegalStateError, InternalError
from kafka_share.harmless import excerpt
from kafka_share.network import at_exit
from kafka_share.network.blocking import BlockingCalls
from kafka_share.network.clock import ClockLoop, clock_ms
from kafka_share.network.connection import Connection, Surroundings
from kafka_share.network.connections import Connections
from kafka_share.network.logs import log_event
from kafka_share.network.process import Origin
from kafka_share.network.sasl import load_mechanisms
from kafka_share.network.tls import make_ssl_context
from kafka_share.network.turns import ApplicationPort, Core, Turns
from kafka_share.network.wake_up import WakeUp

log: logging.Logger = logging.getLogger(__name__)

DEFAULT_STOP_TIMEOUT_MS: Final = 5_000
UNWOKEN_LIMIT: Final = 1_000
"""Events posted without waking the loop, after which it is woken all the same: the queue must not grow unseen."""
_TURNS_TO_CLOSE: Final = 20
"""Turns of the loop in which aborted transports, TLS ones within TLS ones too, have called back and closed."""


class CoreDriver:
    """Owns `core` from now on; nobody else may call it.

    `name` names the thread. Raises `ConfigurationError` for TLS or SASL that cannot work.
    """

    def __init__(self, core: Core, config: ClientConfig, *, name: str, application: ApplicationPort) -> None:
        self.now_ms: Callable[[], int] = clock_ms
        """The core's clock, which deadlines of events are points of, in milliseconds."""
        self.measurements: Measurements = core.measurements
        self.measurements.labels["client_id"] = config.client_id
        self.measurements.unix_offset_ms = time.time_ns() // 1_000_000 - self.now_ms()
        self.wakeups: int = 0
        """How often the application woke the loop; in the steady state this stands still."""
        self._turns = Turns(core, application, self.now_ms, log_event)
        self._application = application
        self._config = config
        self._ssl_context = make_ssl_context(config)
        load_mechanisms(config)
        self._name = excerpt(name)
        self._origin = Origin()
        self._is_scheduled = False
        self._has_ended = self._is_to_stop = False
        self._failure: BaseException | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at_ms = 0
        self._loop: ClockLoop | None = None
        self._wake_up: WakeUp | None = None
        self._thread: threading.Thread | None = None

    # ---- called by the application

    def start(self) -> None:
        """Start the thread. Raises `IllegalStateError` if it was started before."""
        self._origin.demand()
        if self._thread is not None:
            raise IllegalStateError("The driver has been started already.")
        # Not the application's event loop policy: what this thread does must not depend on it.
        self._loop = loop = ClockLoop()
        loop.set_exception_handler(self._on_loop_error)
        self._wake_up = WakeUp(loop, self._on_wake)
        surroundings = Surroundings(self._config, self._ssl_context, loop, self.now_ms, BlockingCalls())
        self._turns.connections = Connections(
            lambda node, channel, owner: Connection(node, channel, owner, surroundings),
            self._turns.inputs.append,
            self._step,
            self.measurements,
        )
        self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
        try:
            self._thread.start()
        except BaseException:
            self._wake_up.close()
            loop.close()
            raise
        at_exit.register(self)

    def post(self, event: Any, *, wake: bool = True) -> None:
        """Hand an event to the core. Any thread may call it.

        With `wake` the core sees it at once; without, before anything else when the loop next runs. Raises
        `InternalError` if the thread has died, `ConsumerClosedError` after it ended, `IllegalStateError` before
        `start` and in a forked child.
        """
        self._origin.demand()
        if self._failure is not None:
            raise InternalError(f"the network thread died: {self._failure!r}") from self._failure
        if self._has_ended:
            raise ConsumerClosedError("The network thread has ended.")
        if self._wake_up is None:
            raise IllegalStateError("The driver has not been started.")
        self._turns.post(event)
        # Append first, look second: the loop lowers the flag before it takes the inputs, so none is overlooked.
        if (wake or len(self._turns.inputs) > UNWOKEN_LIMIT) and not self._is_scheduled:
            try:
                self._is_scheduled = True
                self._wake_up.ring()
            except BaseException:  # an interrupt: the loop may not have heard of it
                self._is_scheduled = False
                raise

    @property
    def is_current_thread(self) -> bool:
        """Whether this is called on the network thread, where nobody may wait for it."""
        return self._thread is threading.current_thread()

    def stop(self, timeout_ms: int = DEFAULT_STOP_TIMEOUT_MS) -> None:
        """Close all connections, end the thread and wait for it, up to `timeout_ms`. Calling it again does nothing.

        What is in the application's hands stays there. In a forked child it does nothing: all of it is the parent's.
        """
        thread = self._thread
        if thread is None or self._origin.is_elsewhere:
            return
        self._is_to_stop = True
        assert self._wake_up is not None
        self._wake_up.ring()
        if thread is threading.current_thread():
            return  # a finalizer that happened to run here; the loop ends after this callback
        thread.join(timeout_ms / 1000)
        if thread.is_alive():
            log.warning("thread %r did not end within %d ms", self._name, timeout_ms)

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
                assert self._wake_up is not None
                self._wake_up.close()
                loop.close()
                self._application.ended()
                at_exit.forget(self)
                log.debug("ended thread=%s failure=%r", self._name, self._failure)

    async def _shut_down(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._turns.connections.close()
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
            self._application.failed(error)

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
        if self._turns.inputs:
            self._step()
        if self._is_to_stop:  # behind what was posted before
            self._end()

    def _on_timer(self) -> None:
        self._timer = None
        self._step()

    def _step(self) -> None:
        if self._has_ended:
            return
        try:
            if not self._turns.step():
                return
            if self._turns.is_finished:
                self._end()  # even if nobody calls `stop` any more
            else:
                self._arm()
        except BaseException as error:  # noqa: BLE001 - asyncio would log it and go on with a core in an unknown state
            self._die(error)

    def _arm(self) -> None:
        """One timer, never later than the core wants. An earlier one stays: moving it costs more than a look."""
        assert self._loop is not None
        wake_at_ms = self._turns.wake_at_ms()
        if wake_at_ms is None:
            return
        if self._timer is not None:
            if self._timer_at_ms <= wake_at_ms:
                return
            self._timer.cancel()
        self._timer_at_ms = wake_at_ms
        self._timer = self._loop.call_at(wake_at_ms / 1000, self._on_timer)
