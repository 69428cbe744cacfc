"""Turns of one core, without I/O: take inputs → `core.handle` → `core.poll` → perform outputs, until nothing is left.

Used by `driver.CoreDriver` on its thread and by the simulation of the tests under virtual time. Who owns it calls
`step` whenever there may be something to do, and arms one timer for `wake_at_ms` after it. An answer goes through the
core and to the application, and the next request leaves, inside the one call of `step` that the answer made.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from kafka_share.core.events import Disconnect, FinishClose, Lend, Log, Recall, Resume, Send, SessionReturned, Tally
from kafka_share.core.metrics.measurements import Measurements
from kafka_share.network.connections import Connections


class Core(Protocol):
    """What is needed of a core; `kafka_share.core` has the real ones: a consumer's and an admin client's."""

    measurements: Measurements
    """What the client counts and times; the network side records into it as well."""

    def handle(self, event: Any, now_ms: int) -> None: ...
    def poll(self, now_ms: int) -> Sequence[Any]: ...
    def wake_at_ms(self) -> int | None: ...


class ApplicationPort(Protocol):
    """Where outputs go that are not about the network. All is called on the network thread."""

    def take(self, output: Any, post: Callable[[Any], None]) -> None:
        """One output, in the core's order; `post` gives the core an event in return."""

    def flush(self) -> None:
        """The requests of this round have left: hand over what was taken."""

    def failed(self, error: BaseException) -> None:
        """The network thread dies of this; `ended` follows."""

    def ended(self) -> None:
        """Nothing more will come."""


class Turns:
    """Owns `core`, which nobody else may call. `log` is called with a name of `core.log_events` and its fields."""

    def __init__(
        self, core: Core, application: ApplicationPort, now_ms: Callable[[], int], log: Callable[..., None]
    ) -> None:
        self.connections: Connections
        """To be set before the first step."""
        self.inputs: deque[Any] = deque()
        self.is_finished: bool = False
        """`FinishClose` has been performed: nothing is left to be done."""
        self._core = core
        self._application = application
        self._now_ms = now_ms
        self._measurements = core.measurements
        self._measurements.events_waiting = lambda: len(self._posted_at_ms)
        self._posted_at_ms: deque[int] = deque()
        self._stepped_at_ms: int | None = None
        self._is_stepping = False
        self._perform: dict[type, Callable[[Any], None]] = {
            Send: lambda send: self.connections.to(send.node, send.channel).send(send),
            Disconnect: lambda disconnect: self.connections.disconnect(disconnect),
            Lend: self._lend,
            Recall: self._recall,
            Resume: lambda resume: self.connections.resume(resume),
            Log: lambda event: log(event.event, event.fields, self._measurements.labels),
            FinishClose: self._finish,
        }

    def post(self, event: Any) -> None:
        """A command of the application, for the next step. Any thread may call it."""
        self._posted_at_ms.append(self._now_ms())
        self.inputs.append(event)

    def wake_at_ms(self) -> int | None:
        return None if self.is_finished else self._core.wake_at_ms()

    def step(self) -> bool:
        """Run the core until it has no more outputs. Called from inside, it does nothing and returns False."""
        if self._is_stepping or self.is_finished:
            return False
        self._is_stepping = True
        try:
            now_ms = self._now_ms()
            if self._stepped_at_ms is not None:
                self._measurements.steps.record(now_ms - self._stepped_at_ms, now_ms)
            self._stepped_at_ms = now_ms
            self._round(now_ms)
            while self.inputs and not self.is_finished:
                self._round(self._now_ms())
        finally:
            self._is_stepping = False
        return True

    def _round(self, now_ms: int) -> None:
        core, inputs, perform, application = self._core, self.inputs, self._perform, self._application
        has_commands = bool(self._posted_at_ms)
        if has_commands:
            self._measure_commands(now_ms)
        while inputs:
            core.handle(inputs.popleft(), now_ms)
        for output in core.poll(now_ms):
            action = perform.get(type(output))
            if action is None:
                application.take(output, inputs.append)
            else:
                action(output)
        # After the requests: the broker works on the next fetch while the application gets this one.
        application.flush()
        if has_commands:
            self._measurements.event_processing.record(self._now_ms() - now_ms, now_ms)

    def _lend(self, output: Lend) -> None:
        direct = self.connections.lend(output)
        if direct is None:
            self.inputs.append(
                SessionReturned(output.lend_id, output.epoch, None, Tally(), None, output.acknowledgements)
            )
        else:
            self._application.take(direct, self.inputs.append)

    def _recall(self, output: Recall) -> None:
        if not self.connections.recall(output):
            self._application.take(output, self.inputs.append)

    def _finish(self, output: FinishClose) -> None:
        self._application.take(output, self.inputs.append)
        self.is_finished = True

    def _measure_commands(self, now_ms: int) -> None:
        """Record how long the application's commands have waited."""
        posted_at_ms = self._posted_at_ms
        while posted_at_ms:
            self._measurements.event_waits.record(max(0, now_ms - posted_at_ms.popleft()), now_ms)
