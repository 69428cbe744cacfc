"""The background half of a simulated client: owns one real core, its connections, its timer and its mailbox.

A twin of `kafka_share.network.driver` on virtual time. It can be paused, as a process is by a collection of garbage or
by a hypervisor: nothing is received and no timer runs until it goes on. And it can die.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

from simulation.connection import SimulatedConnection
from simulation.network import NEVER, Network
from simulation.trace import Trace
from simulation.virtual_time import CHECK_EVERY, Action, VirtualTime

from kafka_share.config import ShareConsumerConfig
from kafka_share.core.consumer import ShareConsumerCore
from kafka_share.core.events import (
    BatchReclaimed,
    CompleteCommit,
    CompleteUnsubscribe,
    Deliver,
    Disconnect,
    Event,
    FinishClose,
    GatherAcknowledgements,
    Output,
    RaiseError,
    Reclaim,
    ReportOutcomes,
    Send,
)
from kafka_share.network.connections import Connections
from kafka_share.network.mailbox import Mailbox

FOR_THE_MAILBOX = (Deliver, ReportOutcomes, RaiseError, CompleteCommit, CompleteUnsubscribe)


class Observer(Protocol):
    """The application's side, as far as the background half calls it."""

    def observe(self, outputs: Sequence[Output]) -> None: ...
    def hand_over(self, post: Callable[[Event], None]) -> None: ...


class SimulatedDriver:
    """Runs `core` on virtual time. `name` is the client id; its clock runs `ahead_ms` before the virtual one."""

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
    ) -> None:
        self.name = name
        self.config = config
        self.core = ShareConsumerCore(config, member_id, source)
        self.mailbox = Mailbox(notify)
        self.observer: Observer
        self.is_dead = False
        self.has_finished = False
        self.paused_until_ms = 0
        self._time = time
        self._network = network
        self._trace = trace
        self._ahead_ms = ahead_ms
        self._inputs: deque[Event] = deque()
        self._outbox: list[Output] = []
        self._connections = Connections(
            lambda node, channel, owner: SimulatedConnection(node, channel, owner, self, network, time),
            self._inputs.append,
            self.step,
            self.core.measurements,
            log=lambda *_, **__: None,
        )
        self._is_stepping = False
        self._is_scheduled = False
        self._armed_for_ms: int | None = None
        self._rounds = 0

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

    def post(self, event: Event, *, wake: bool = True) -> None:
        self._inputs.append(event)
        if wake and not self._is_scheduled:
            self._is_scheduled = True
            self._time.after(0, lambda: self.run(self._on_wake))

    def _on_wake(self) -> None:
        self._is_scheduled = False
        self.step()

    # ---- the step

    def step(self) -> None:
        """Run the core until it has nothing to say."""
        if self._is_stepping or self.has_finished or self.is_dead:
            return
        self._is_stepping = True
        try:
            self._run_core()
        finally:
            self._is_stepping = False
        self._arm()

    def _run_core(self) -> None:
        now_ms = self.now_ms()
        while not self.has_finished:
            while self._inputs:
                event = self._inputs.popleft()
                if self._trace.is_on:
                    self._trace.add(self.name, "event", _shown(event))
                self.core.handle(event, now_ms)
            for output in self.core.poll(now_ms):
                self._perform(output)
            self._rounds += 1
            if self._rounds % CHECK_EVERY == 0:
                self.core.check()
            self._hand_over()
            if not self._inputs:
                return

    def _perform(self, output: Output) -> None:
        if isinstance(output, Send):
            assert output.timeout_ms > 0
            self._connections.send(output)
            return
        if self._trace.is_on:
            self._trace.add(self.name, "output", _shown(output))
        if isinstance(output, Disconnect):
            self._connections.disconnect(output)
        elif isinstance(output, Reclaim):
            self._hand_over()
            if self.mailbox.reclaim(output.batch_id):
                self._trace.count("batch taken back from the mailbox")
                self._inputs.append(BatchReclaimed(output.batch_id))
        elif isinstance(output, GatherAcknowledgements):
            self.observer.hand_over(self._inputs.append)
        elif isinstance(output, FOR_THE_MAILBOX):
            self._outbox.append(output)
        elif isinstance(output, FinishClose):
            self._outbox.append(output)
            self.has_finished = True
            self._hand_over()
            self._connections.close()

    def _hand_over(self) -> None:
        if self._outbox:
            outputs, self._outbox = self._outbox, []
            self.observer.observe(outputs)
            self.mailbox.put_all(outputs)

    def _arm(self) -> None:
        at_ms = self.core.wake_at_ms()
        if at_ms is None or self.has_finished:
            return
        at_ms = self.virtual_ms(at_ms)
        if self._armed_for_ms is None or at_ms < self._armed_for_ms or self._armed_for_ms < self._time.now_ms:
            self._armed_for_ms = at_ms
            self._time.at(at_ms, lambda: self.run(lambda: self._on_timer(at_ms)))

    def _on_timer(self, armed_for_ms: int) -> None:
        if self._armed_for_ms != armed_for_ms:
            return
        self._armed_for_ms = None
        self.step()


def _shown(value: Event | Output) -> str:
    text = repr(value)
    return text if len(text) <= 500 else text[:500] + "…"
