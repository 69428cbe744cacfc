"""The brokers of the simulation: one real `BrokerMachine`, its listeners, and its restarts.

It does what `kafka_share.broker.server` does, with the package's own conversations, over the simulated network instead
of sockets. After each step the auditor looks, and every few steps the cluster's invariants are checked. Requests can be
given a fate (`simulation.fates`): refused, applied and never answered, answered late.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Protocol

import attrs
from simulation.fates import Fate, FateKind, Fates
from simulation.network import Network, Wire
from simulation.trace import Trace
from simulation.virtual_time import CHECK_EVERY, VirtualTime

from kafka_share.broker.cluster import Cluster
from kafka_share.broker.conversation import Conversation
from kafka_share.broker.error_answers import error_answer
from kafka_share.broker.events import ConnectionClosed, Reply, RequestArrived, RequestContext
from kafka_share.broker.kafka_version import behaviour_of
from kafka_share.broker.machine import BrokerMachine
from kafka_share.errors import RemoteProtocolError
from kafka_share.protocol.messages import encode_response
from kafka_share.records import Node

MAX_FRAME_BYTES = 100 * 1024 * 1024
EPOCH_MS = 1_800_000_000_000
"""What the broker's clock shows when the virtual one shows 0."""


class Witness(Protocol):
    """What the auditor is shown of the broker."""

    def asked(self, context: RequestContext, request: Any) -> None: ...
    def answered(self, context: RequestContext, request: Any, response: Any) -> None: ...
    def stepped(self) -> None: ...


class MovableCluster(Cluster):
    """A cluster whose groups can be given to another coordinator while all nodes run."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        self.coordinator_shift = 0
        super().__init__(*arguments, **named)

    def coordinator_of(self, key: str) -> Node:
        found = super().coordinator_of(key)
        living = self.living_nodes()
        return living[(living.index(found) + self.coordinator_shift) % len(living)]


@attrs.define(eq=False)
class _Listening:
    """The broker's end of a wire."""

    wire: Wire
    conversation: Conversation
    fate: Fate | None = None
    """What is to become of the request in work."""


class SimulatedBroker:
    """See the module's docstring. `act` is how faults and producers change the cluster."""

    def __init__(
        self,
        time: VirtualTime,
        network: Network,
        trace: Trace,
        *,
        nodes: int,
        kafka_version: str,
        config: dict[str, str],
        source: random.Random,
    ) -> None:
        self.cluster = MovableCluster(
            range(1, nodes + 1),
            config={"log.retention.ms": "-1", **config},  # planned records have times of their own
            cluster_id="simulated",
            random=source,
            behaviour=behaviour_of(kafka_version),
        )
        self.machine = BrokerMachine(self.cluster)
        self.running = dict.fromkeys(range(1, nodes + 1), True)
        self.fates = Fates()
        self.witness: Witness
        self.time = time
        self._network = network
        self._trace = trace
        self._listening: dict[int, _Listening] = {}
        self._wake_at_ms: int | None = None
        self._is_running = False
        self._runs = 0
        network.listeners = self
        for node_id in self.cluster.nodes:
            self.cluster.set_address(node_id, f"node{node_id}", 9092)

    @property
    def now_ms(self) -> int:
        """The broker's clock."""
        return EPOCH_MS + self.time.now_ms

    # ---- called by the network

    def accepts(self, node_id: int) -> bool:
        return self.running.get(node_id, False)

    def opened(self, wire: Wire) -> None:
        self._listening[wire.id] = _Listening(wire, Conversation(wire.id, wire.node_id, "10.0.0.1"))

    def received(self, wire: Wire, frame: bytes) -> None:
        listening = self._listening.get(wire.id)
        if listening is not None:
            listening.conversation.received(frame, MAX_FRAME_BYTES)
            self._pump(listening)

    def closed(self, wire: Wire) -> None:
        if self._listening.pop(wire.id, None) is not None:
            self.machine.handle(ConnectionClosed(wire.id), self.now_ms)
            self._run()

    # ---- requests

    def _pump(self, listening: _Listening) -> None:
        while listening.wire.id in self._listening:
            try:
                arrived = listening.conversation.next_request(self.cluster.api_versions, self.now_ms)
            except RemoteProtocolError as error:  # a version that is not offered, as a client may believe it was
                self._network.cut(listening.wire, f"the broker closed the connection: {error}")
                return
            if arrived is None:
                return
            assert isinstance(arrived, RequestArrived), "clients ask for the versions in one that is offered"
            self._request(listening, arrived)

    def _request(self, listening: _Listening, arrived: RequestArrived) -> None:
        context, request, wire = arrived.context, arrived.request, listening.wire
        if self._trace.is_on:
            self._trace.add(wire.process.name, f"-> node {wire.node_id}", _shown(request), f"#{context.correlation_id}")
        listening.fate = fate = self.fates.take(context)
        if fate is not None:
            self._trace.fault(fate.name, type(request).__name__)
            if fate.kind is FateKind.LOSE_REQUEST:
                wire.lost_up = True
                wire.up.clear()
                listening.conversation.clear()
                return
            if fate.kind is FateKind.CUT_BEFORE:
                self._network.cut(wire)
                return
            if fate.kind is FateKind.ERROR:
                self._reply(Reply(context, error_answer(request, context.api_version, fate.number)))
                return
        self.witness.asked(context, request)
        self.machine.handle(arrived, self.now_ms)
        self._run()

    def _reply(self, reply: Reply) -> None:
        context = reply.context
        listening = self._listening.get(context.connection_id)
        if listening is None or not listening.conversation.awaits(context):
            return
        frame = encode_response(context.correlation_id, reply.response, context.api_version)
        if self._trace.is_on:
            words = (listening.wire.process.name, f"<- node {context.node_id}", _shown(reply.response))
            self._trace.add(*words, f"#{context.correlation_id}")
        fate, wire = listening.fate, listening.wire
        listening.conversation.ended()
        if fate is not None and fate.kind is FateKind.CUT_AFTER:
            self._network.cut(wire)
            return
        if fate is not None and fate.kind is FateKind.LOSE_REPLY:
            wire.lost_down = True
        self._network.send_down(wire, frame, fate.number if fate is not None and fate.kind is FateKind.DELAY else 0)
        self._pump(listening)

    # ---- the machine

    def act(self, change: Callable[[], object]) -> None:
        """Change the cluster from outside, and let it do what follows."""
        change()
        self._run()

    def _run(self) -> None:
        if self._is_running:
            return
        self._is_running = True
        try:
            while outputs := self.machine.poll(self.now_ms):
                for output in outputs:
                    listening = self._listening.get(output.context.connection_id)
                    if listening is not None and listening.conversation.awaits(output.context):
                        asked = listening.conversation.in_work
                        assert asked is not None
                        self.witness.answered(output.context, asked.request, output.response)
                for output in outputs:
                    self._reply(output)
        finally:
            self._is_running = False
        self.witness.stepped()
        self._runs += 1
        if self._runs % CHECK_EVERY == 0:
            self.machine.check()
        self._arm()

    def _arm(self) -> None:
        at_ms = self.machine.wake_at_ms()
        if at_ms is not None and (self._wake_at_ms is None or at_ms < self._wake_at_ms):
            self._wake_at_ms = at_ms
            self.time.at(at_ms - EPOCH_MS, lambda: self._wake(at_ms))

    def _wake(self, at_ms: int) -> None:
        if self._wake_at_ms == at_ms:
            self._wake_at_ms = None
            before = self.machine.wake_at_ms()
            self._run()
            after = self.machine.wake_at_ms()
            assert before is None or before > self.now_ms or after != before, "the machine asks to be woken for nothing"

    def drop_half_open(self) -> None:
        """The keep-alive of TCP finds the connections whose clients have gone without a word."""
        for listening in list(self._listening.values()):
            if not listening.wire.is_open:
                self.closed(listening.wire)

    # ---- nodes

    def living(self) -> list[int]:
        return [node_id for node_id, runs in self.running.items() if runs]

    def stop_node(self, node_id: int, *, is_crash: bool) -> None:
        """Stop a node. A crash ends its sessions without a word; otherwise its connections close first."""
        self.running[node_id] = False
        for wire in self._network.wires_of(node_id=node_id):
            if is_crash:
                self._listening.pop(wire.id, None)
                self._network.crash(wire)
            else:
                self._network.cut(wire, "the broker closed the connection")
        for listening in [found for found in self._listening.values() if found.wire.node_id == node_id]:
            del self._listening[listening.wire.id]  # half-open ones, whose clients are gone
        self.act(lambda: self.cluster.stop_node(node_id, self.now_ms))

    def start_node(self, node_id: int) -> None:
        self.running[node_id] = True
        self.act(lambda: self.cluster.start_node(node_id, self.now_ms))


def _shown(message: Any) -> str:
    """A message as one line of the trace."""
    text = repr(message)
    return text if len(text) <= 600 else text[:600] + "…"
