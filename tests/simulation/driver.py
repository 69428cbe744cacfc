"""The background half of a simulated client: the package's own turns of a core, under virtual time. `SimulatedProcess`
runs any core, `SimulatedDriver` a consumer's.

What it adds is what a process can do to them: it can be paused, as by a collection of garbage or by a hypervisor, so
that nothing is received and no timer runs until it goes on; and it can die.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

from simulation.connection import SimulatedConnection
from simulation.network import NEVER, Network
from simulation.trace import Trace
from simulation.virtual_time import CHECK_EVERY, Action, SpinError, VirtualTime

from kafka_share.config import ClientConfig, ShareConsumerConfig
from kafka_share.core.consumer import ShareConsumerCore
from kafka_share.core.events import BatchReclaimed, Event, Flight, Output, Send
from kafka_share.native import IS_COMPILED
from kafka_share.network.connections import Connections
from kafka_share.network.mailbox import Application, ConsumerPort, Mailbox
from kafka_share.network.turns import ApplicationPort, Core, Turns

ROUNDS_LIMIT: Final = 5_000
"""A core that has outputs again and again, without any time that passes, would never end its turn."""


class CheckedCore(Core, Protocol):
    """A core that can look at its own invariants."""

    def check(self) -> None: ...


class TracedCore:
    """A core whose events and outputs stand in the trace, and whose invariants are looked at now and then."""

    def __init__(self, name: str, core: CheckedCore, trace: Trace) -> None:
        self.measurements = core.measurements
        self._name = name
        self._core = core
        self._trace = trace
        self._rounds = 0
        self._at_ms = self._rounds_before = 0

    def handle(self, event: Event, now_ms: int) -> None:
        if isinstance(event, BatchReclaimed):
            self._trace.count("batch taken back from the mailbox")
        self._show("event", event)
        self._core.handle(event, now_ms)

    def poll(self, now_ms: int) -> Sequence[Output]:
        outputs = self._core.poll(now_ms)
        for output in outputs:
            if isinstance(output, Send):
                assert output.timeout_ms > 0, "a request without time"
            else:
                self._show("output", output)
        self._rounds += 1
        if now_ms != self._at_ms:
            self._at_ms, self._rounds_before = now_ms, self._rounds
        elif self._rounds - self._rounds_before > ROUNDS_LIMIT:
            raise SpinError(f"the core of {self._name} has been polled {ROUNDS_LIMIT} times at one moment")
        if self._rounds % CHECK_EVERY == 0:
            self._core.check()
        return outputs

    def wake_at_ms(self) -> int | None:
        return self._core.wake_at_ms()

    def _show(self, kind: str, value: Event | Output) -> None:
        if self._trace.is_on:
            text = repr(value)
            self._trace.add(self._name, kind, text if len(text) <= 500 else text[:500] + "…")


class SimulatedProcess:
    """Runs a core. `name` is the client id; its clock runs `ahead_ms` before the virtual one."""

    def __init__(
        self,
        name: str,
        config: ClientConfig,
        core: CheckedCore,
        time: VirtualTime,
        network: Network,
        trace: Trace,
        ahead_ms: int,
    ) -> None:
        self.name = name
        self.config = config
        self.is_dead = False
        self.paused_until_ms = 0
        self.measurements = core.measurements
        self._traced = TracedCore(name, core, trace)
        self._time = time
        self._network = network
        self._ahead_ms = ahead_ms
        self._is_scheduled = False
        self._armed_for_ms: int | None = None
        self.count: Callable[[str], None] = trace.count
        self.line_has_news: Callable[[], None] = _no_log
        """Called when something has come on a connection that is lent."""
        self.sends_directly: Callable[[Flight], None] = _no_log
        """Called before the application's thread sends on it."""
        self.logs: list[tuple[str, dict[str, Any]]] = []
        """Name and fields of what the core logged."""
        self._port: ApplicationPort
        self._turns: Turns

    def begin(self, port: ApplicationPort) -> None:
        """Before the first event."""
        self._port = port
        self._turns = Turns(self._traced, port, self.now_ms, self._log)
        self._turns.connections = Connections(
            lambda node, channel, owner: SimulatedConnection(node, channel, owner, self, self._network, self._time),
            self._turns.inputs.append,
            self.step,
            self._traced.measurements,
            log=_no_log,
        )

    def _log(self, event: str, fields: dict[str, Any], _: Any) -> None:
        self.logs.append((event, fields))

    def now_ms(self) -> int:
        """The client's own clock."""
        return self._time.now_ms + self._ahead_ms

    def virtual_ms(self, at_ms: int) -> int:
        """A time of the client's clock as virtual time; what has passed is now."""
        return max(at_ms, self.now_ms()) - self._ahead_ms

    # ---- the process

    def run(self, action: Action) -> None:
        """Do this now, or when the process goes on; never once it is dead."""
        if self.is_dead:
            return
        if self._time.now_ms < self.paused_until_ms:
            self._time.at(self.paused_until_ms, lambda: self.run(action))
        else:
            action()

    def pause(self, span_ms: int) -> None:
        self.paused_until_ms = max(self.paused_until_ms, self._time.now_ms + span_ms)

    def kill(self, *, is_noticed: bool) -> None:
        """The process dies. Brokers notice by the reset of its connections, or not at all."""
        self.is_dead = True
        for wire in self._network.wires_of(self.name):
            self._network.close(wire, notice_ms=0 if is_noticed else NEVER)

    # ---- called by the application

    def post(self, event: Any, *, wake: bool = True) -> None:
        self._turns.post(event)
        if wake and not self._is_scheduled:
            self._is_scheduled = True
            self._time.after(0, lambda: self.run(self._on_wake))

    def _on_wake(self) -> None:
        self._is_scheduled = False
        self.step()

    # ---- the step

    def step(self) -> None:
        """Run the core until it has no more outputs."""
        if self.is_dead or not self._turns.step():
            return
        if self._turns.is_finished:
            self._turns.connections.close()
            self._port.ended()
        else:
            self._arm()

    def _arm(self) -> None:
        wake_at_ms = self._turns.wake_at_ms()
        if wake_at_ms is None:
            return
        at_ms = self.virtual_ms(wake_at_ms)
        if self._armed_for_ms is None or at_ms < self._armed_for_ms or self._armed_for_ms < self._time.now_ms:
            self._armed_for_ms = at_ms
            self._time.at(at_ms, lambda: self.run(lambda: self._on_timer(at_ms)))

    def _on_timer(self, armed_for_ms: int) -> None:
        if self._armed_for_ms == armed_for_ms:
            self._armed_for_ms = None
            self.step()


class SimulatedDriver(SimulatedProcess):
    """Runs a consumer's core."""

    def __init__(
        self,
        name: str,
        config: ShareConsumerConfig,
        member_id: str,
        source: random.Random,
        time: VirtualTime,
        network: Network,
        trace: Trace,
        notify: Callable[[], None],
        ahead_ms: int,
        *,
        lends: bool = False,
    ) -> None:
        self.core = ShareConsumerCore(config, member_id, source, lends=lends and IS_COMPILED)
        self.mailbox = Mailbox(notify)
        super().__init__(name, config, self.core, time, network, trace, ahead_ms)
        self.line_has_news = notify

    def start(self, application: Application) -> None:
        """Before the first event."""
        self.begin(ConsumerPort(self.mailbox, application))


def _no_log(*_: Any, **__: Any) -> None:
    """What brokers and clients do stands in the trace."""
