"""Makes planned faults happen: one method per kind, on whatever the fault's `pick` chooses among what is there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from simulation.broker import SimulatedBroker
from simulation.client import SimulatedClient
from simulation.fates import Fate
from simulation.network import Network
from simulation.plan import FaultKind, PlannedFault
from simulation.trace import Trace
from simulation.virtual_time import VirtualTime

from kafka_share.broker.faults import FaultPlan
from kafka_share.broker.refusals import Refusal
from kafka_share.broker.storage.topics import Partition

T = TypeVar("T")


class Population(Protocol):
    """The clients, and how another one comes in."""

    clients: list[SimulatedClient]

    def join(self) -> None: ...


class Faults:
    """Faults of one history; `stop` mends everything that would not mend by itself."""

    def __init__(
        self, time: VirtualTime, network: Network, broker: SimulatedBroker, population: Population, trace: Trace
    ) -> None:
        self._time = time
        self._network = network
        self._broker = broker
        self._cluster = broker.cluster
        self._population = population
        self._trace = trace
        self._has_stopped = False
        self._persister = FaultPlan()
        self._cluster.persister_fault = self._persister.take_persister_fault
        self._lost_topics: dict[str, int] = {}
        """Deleted topics that are to come back, with their numbers of partitions."""
        self._perform: dict[FaultKind, Callable[[PlannedFault], str | None]] = {
            FaultKind.FATE: self._fate,
            FaultKind.CUT: self._cut,
            FaultKind.SLOW_NODE: self._slow_node,
            FaultKind.UNREACHABLE: self._unreachable,
            FaultKind.PAUSE: self._pause,
            FaultKind.KILL: self._kill,
            FaultKind.JOIN: self._join,
            FaultKind.LEAVE: self._leave,
            FaultKind.WAKEUP: self._wakeup,
            FaultKind.RESTART: self._stop_node,
            FaultKind.CRASH: self._stop_node,
            FaultKind.OUTAGE: self._outage,
            FaultKind.MOVE_LEADER: self._move_leader,
            FaultKind.MOVE_COORDINATOR: self._move_coordinator,
            FaultKind.EVICT_SESSION: self._evict_session,
            FaultKind.FENCE: self._fence,
            FaultKind.DELETE_TOPIC: self._delete_topic,
            FaultKind.GROW_TOPIC: self._grow_topic,
            FaultKind.DELETE_RECORDS: self._delete_records,
            FaultKind.SLOW_PERSISTER: self._slow_persister,
        }

    def happen(self, fault: PlannedFault) -> None:
        """Do it now, if there is something to do it to."""
        where = self._perform[fault.kind](fault)
        if where is not None and fault.kind is not FaultKind.FATE:
            self._trace.fault(fault.kind.value, where)

    def stop(self) -> None:
        """From now on nothing goes wrong any more."""
        self._has_stopped = True
        self._broker.fates.clear()
        self._persister.clear()
        self._network.slow.clear()
        self._network.unreachable.clear()
        for node_id, runs in self._broker.running.items():
            if not runs:
                self._broker.start_node(node_id)
        for name in list(self._lost_topics):
            self._restore_topic(name)
        self._broker.drop_half_open()
        self._network.cut_dead_wires()

    # ---- the network

    def _fate(self, fault: PlannedFault) -> str | None:
        client = _chosen(self._living(), fault.pick)
        if client is None or fault.fate is None:
            return None
        self._broker.fates.plan(Fate(fault.fate, fault.api_key, client.name, fault.number, fault.times))
        return client.name

    def _cut(self, fault: PlannedFault) -> str | None:
        wires = self._network.wires_of()
        if not wires:
            return None
        chosen = wires[fault.pick % len(wires)]
        both = fault.pick % 2 == 0
        for wire in self._network.wires_of(chosen.process.name, chosen.node_id) if both else [chosen]:
            self._network.cut(wire)
        return f"{chosen.process.name} and node {chosen.node_id}"

    def _slow_node(self, fault: PlannedFault) -> str | None:
        node_id = _chosen(self._broker.living(), fault.pick)
        if node_id is None:
            return None
        self._network.slow[node_id] = (self._time.now_ms + fault.span_ms * 2, 50 + fault.pick % 1_000)
        return f"node {node_id}"

    def _unreachable(self, fault: PlannedFault) -> str | None:
        client, node_id = _chosen(self._living(), fault.pick), _chosen(list(self._broker.running), fault.pick // 7)
        if client is None or node_id is None:
            return None
        self._network.unreachable[client.name, node_id] = self._time.now_ms + fault.span_ms
        return f"{client.name} and node {node_id}"

    # ---- clients

    def _living(self) -> list[SimulatedClient]:
        return [client for client in self._population.clients if client.is_alive]

    def _pause(self, fault: PlannedFault) -> str | None:
        client = _chosen(self._living(), fault.pick)
        if client is None:
            return None
        client.driver.pause(fault.span_ms)
        return client.name

    def _kill(self, fault: PlannedFault) -> str | None:
        client = _chosen(self._living(), fault.pick)
        if client is None:
            return None
        client.driver.kill(is_noticed=fault.pick % 3 > 0)
        self._time.after(fault.span_ms, self._population.join)
        return client.name

    def _join(self, _: PlannedFault) -> str | None:
        self._population.join()
        return self._population.clients[-1].name

    def _leave(self, fault: PlannedFault) -> str | None:
        client = _chosen(self._living(), fault.pick)
        if client is None:
            return None
        client.should_close = True
        self._time.after(fault.span_ms, self._population.join)
        return client.name

    def _wakeup(self, fault: PlannedFault) -> str | None:
        client = _chosen(self._living(), fault.pick)
        if client is None:
            return None
        client.wakeup()
        return client.name

    # ---- brokers

    def _stop_node(self, fault: PlannedFault) -> str | None:
        node_id = _chosen(self._broker.living(), fault.pick)
        if node_id is None:
            return None
        self._broker.stop_node(node_id, is_crash=fault.kind is FaultKind.CRASH)
        self._time.after(min(fault.span_ms, 2_000), lambda: self._start_node(node_id))
        return f"node {node_id}"

    def _start_node(self, node_id: int) -> None:
        if not self._broker.running[node_id]:
            self._broker.start_node(node_id)

    def _outage(self, fault: PlannedFault) -> str | None:
        for node_id in self._broker.living():
            self._broker.stop_node(node_id, is_crash=True)
            self._time.after(min(fault.span_ms, 2_000), lambda node_id=node_id: self._start_node(node_id))  # type: ignore[misc]
        return "all"

    def _move_leader(self, fault: PlannedFault) -> str | None:
        partition = self._partition(fault.pick)
        if partition is None:
            return None
        node_id = _chosen([n for n in self._broker.living() if n != partition.leader_id], fault.pick // 11)
        if node_id is None:
            return None
        now_ms = self._broker.now_ms
        self._broker.act(lambda: self._cluster.move_leader(partition, node_id, now_ms))
        return f"{partition.topic}-{partition.partition} to node {node_id}"

    def _move_coordinator(self, _: PlannedFault) -> str | None:
        if len(self._broker.living()) < 2:
            return None

        def move() -> None:
            self._cluster.coordinator_shift += 1
            groups = [group.id for group in self._cluster.share_groups.groups()]
            self._cluster.share_groups.rearm(groups, self._broker.now_ms)

        self._broker.act(move)
        return "by one node"

    def _evict_session(self, fault: PlannedFault) -> str | None:
        found = [(node, key) for node in self._cluster.share_nodes.values() for key in node.session_keys()]
        chosen = _chosen(found, fault.pick)
        if chosen is None:
            return None
        node, key = chosen
        self._broker.act(lambda: node.end_session(key, self._broker.now_ms))
        return f"{key.member_id} on node {node.node_id}"

    def _fence(self, fault: PlannedFault) -> str | None:
        found = [(group, member_id) for group in self._cluster.share_groups.groups() for member_id in group.members]
        chosen = _chosen(found, fault.pick)
        if chosen is None:
            return None
        group, member_id = chosen
        groups = self._cluster.share_groups
        try:
            self._broker.act(lambda: groups.remove_member(group.id, member_id, self._broker.now_ms))
        except Refusal:  # nobody leads the log that this would be written to: there is no coordinator either
            return None
        return member_id

    def _slow_persister(self, fault: PlannedFault) -> str | None:
        if self._cluster.behaviour.session_end_takes_deliveries_back:
            return None  # delivery counts do not say which of two writes the auditor sees
        self._persister.delay_persister(fault.api_key, fault.span_ms, fault.times)
        if fault.number:
            self._persister.fail_persister(fault.api_key, fault.number, fault.times)
        return f"API {fault.api_key}, {fault.times} times {fault.span_ms} ms"

    # ---- topics

    def _partition(self, pick: int) -> Partition | None:
        return _chosen(
            [p for topic in self._cluster.topics.public() for p in topic.partitions if p.leader_id >= 0], pick
        )

    def _delete_topic(self, fault: PlannedFault) -> str | None:
        topic = _chosen(self._cluster.topics.public(), fault.pick)
        if topic is None:
            return None
        self._lost_topics[topic.name] = len(topic.partitions)
        self._broker.act(lambda: self._cluster.delete_topic(topic, self._broker.now_ms))
        self._time.after(fault.span_ms, lambda: self._restore_topic(topic.name))
        return topic.name

    def _restore_topic(self, name: str) -> None:
        partitions = self._lost_topics.pop(name, None)
        if partitions is None or self._cluster.topics.by_name(name) is not None:
            return  # a consumer's Metadata request may have made it again
        topics = self._cluster.topics
        self._broker.act(lambda: self._cluster.create_topic(name, topics.place(partitions, len(self._cluster.nodes))))
        self._trace.fault("topic made again", name)

    def _grow_topic(self, fault: PlannedFault) -> str | None:
        topic = _chosen(self._cluster.topics.public(), fault.pick)
        if topic is None or len(topic.partitions) >= 4:
            return None
        topics = self._cluster.topics
        self._broker.act(lambda: topics.grow(topic, topics.place(1, len(self._cluster.nodes))))
        return topic.name

    def _delete_records(self, fault: PlannedFault) -> str | None:
        partition = self._partition(fault.pick)
        if partition is None:
            return None
        before = fault.pick % (partition.log.high_watermark + 1)
        self._broker.act(lambda: self._cluster.delete_records(partition, before, self._broker.now_ms))
        return f"{partition.topic}-{partition.partition} before {before}"


def _chosen(found: Sequence[T], pick: int) -> T | None:
    return found[pick % len(found)] if found else None
