"""A hand-driven `ShareNode` behind its handlers for tests: virtual time, logs in memory, and answers as short texts.

`Probe` asks in the way of a raw client, so a test reads like a conversation: topic, fetch, acknowledge, wait. The text
of an answer is the one that `kafka_4_3_answers.txt` has for a real broker.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

import attrs
from broker.share.coordinator_log import state_topic

from kafka_share.broker.api_keys import ApiKey
from kafka_share.broker.configs.configs import GroupSettings
from kafka_share.broker.events import RequestContext
from kafka_share.broker.faults import FaultPlan
from kafka_share.broker.handlers.share_fetch import (
    acknowledge_answer,
    fetch_answer,
    handle_share_acknowledge,
    handle_share_fetch,
)
from kafka_share.broker.kafka_version import DEFAULT_VERSION, Behaviour, behaviour_of
from kafka_share.broker.share.exchange import FetchResult
from kafka_share.broker.share.node import ShareNode
from kafka_share.broker.share.persister import Persister
from kafka_share.broker.share.share_coordinator import ShareCoordinator
from kafka_share.broker.share.state_records import StateKey
from kafka_share.broker.storage.log import Log
from kafka_share.errors import ERRORS
from kafka_share.protocol.record_batches import iter_batches
from kafka_share.protocol.record_encoder import control_batch, encode_batch
from kafka_share.protocol.share_acknowledge import ShareAcknowledgeRequest
from kafka_share.protocol.share_fetch import ShareFetchRequest
from kafka_share.records import Node

NODE = 1
START_MS = 1_800_000_000_000


@attrs.define(eq=False)
class FakePartition:
    topic_id: UUID
    topic: str
    partition: int
    leader_id: int = NODE
    leader_epoch: int = 0
    log: Log = attrs.Factory(Log)


class FakeCluster:
    """A `ClusterView` that tests change at will."""

    def __init__(self, behaviour: Behaviour) -> None:
        self.topics: dict[UUID, str] = {}
        self.partitions: dict[tuple[UUID, int], FakePartition] = {}
        self.settings: dict[str, GroupSettings] = {}
        self.enabled = True
        self.forbidden: set[UUID] = set()
        self.session_limit = 2_000
        self.behaviour = behaviour
        self.share_nodes: dict[int, ShareNode] = {}

    def topic_name(self, topic_id: UUID) -> str | None:
        return self.topics.get(topic_id)

    def partition(self, topic_id: UUID, partition: int) -> FakePartition | None:
        return self.partitions.get((topic_id, partition))

    def node(self, node_id: int) -> Node | None:
        return Node(node_id, f"host{node_id}", 9092) if node_id in (1, 2) else None

    def group_settings(self, group_id: str) -> GroupSettings:
        return self.settings.get(group_id, GroupSettings())

    def share_enabled(self) -> bool:
        return self.enabled

    def may_read(self, context: RequestContext, topic_id: UUID) -> bool:
        return topic_id not in self.forbidden

    def max_share_sessions(self) -> int:
        return self.session_limit


def error_text(code: int) -> str:
    if code == 0:
        return "0"
    return f"{code}:{ERRORS[code].name}"


def ranges(text: str) -> list[tuple[int, int, list[int]]]:
    """`0~4:1;5~6:2,3` -> [(0, 4, [1]), (5, 6, [2, 3])]"""
    found = []
    for piece in filter(None, text.split(";")):
        offsets, types = piece.split(":")
        first, last = (int(x) for x in offsets.split("~"))
        found.append((first, last, [int(kind) for kind in types.split(",") if kind]))
    return found


def topics_of(named: list[tuple[UUID, int, str]] | None, topic: Any, partition: Any) -> list[Any]:
    """The topics of a ShareFetch or ShareAcknowledge, whose classes these are: (topic, partition, acknowledgements)."""
    topics: dict[UUID, Any] = {}
    for topic_id, index, acks in named or []:
        batches = [
            partition.AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=types)
            for first, last, types in ranges(acks)
        ]
        entries = topics.setdefault(topic_id, topic(topic_id=topic_id, partitions=[])).partitions
        entries.append(partition(partition_index=index, acknowledgement_batches=batches))
    return list(topics.values())


class Connection:
    """A connection of a client to the node."""

    def __init__(self, probe: Probe, connection_id: int) -> None:
        self.probe = probe
        self.id = connection_id
        self.replies: list[tuple[int, Any]] = []

    def close(self) -> None:
        self.probe.node.connection_closed(self.id, self.probe.now_ms)
        self.probe.step()


class Probe:
    """One node with everything around it."""

    def __init__(self, kafka_version: str = DEFAULT_VERSION) -> None:
        self.now_ms = START_MS
        behaviour = behaviour_of(kafka_version)
        self.view = FakeCluster(behaviour)
        self.coordinator = ShareCoordinator(self.view, state_topic(), behaviour)
        self.faults = FaultPlan()
        self.restart()
        self.connections: dict[int, Connection] = {}
        self._next_topic = 0
        self._next_correlation = 0

    @property
    def node(self) -> ShareNode:
        return self.view.share_nodes[NODE]

    def restart(self) -> None:
        """The node is gone with everything in its memory; what was written is all that the next one knows."""
        persister = Persister(self.coordinator, self.faults.take_persister_fault)
        self.view.share_nodes[NODE] = ShareNode(NODE, self.view, persister, self.view.behaviour)

    # ---- set-up

    def connect(self) -> Connection:
        connection = Connection(self, len(self.connections) + 1)
        self.connections[connection.id] = connection
        return connection

    def topic(self, name: str, partitions: int = 1, leader: int = NODE) -> UUID:
        self._next_topic += 1
        topic_id = UUID(int=self._next_topic)
        self.view.topics[topic_id] = name
        for index in range(partitions):
            self.view.partitions[topic_id, index] = FakePartition(topic_id, name, index, leader)
        return topic_id

    def delete_topic(self, topic_id: UUID) -> None:
        del self.view.topics[topic_id]
        for key in [key for key in self.view.partitions if key[0] == topic_id]:
            del self.view.partitions[key]
        self.coordinator.topic_deleted(topic_id, self.now_ms)
        self.node.topic_deleted(topic_id, self.now_ms)
        self.step()

    def log(self, topic_id: UUID, partition: int = 0) -> Log:
        return self.view.partitions[topic_id, partition].log

    def initialize(self, group: str, topic_id: UUID, partition: int = 0, start: int = 0, epoch: int = 1) -> None:
        self.coordinator.initialize(StateKey(group, topic_id, partition), epoch, start, self.now_ms)

    def produce(
        self,
        topic_id: UUID,
        count: int,
        partition: int = 0,
        *,
        size: int = 10,
        age_ms: int = 0,
        producer_id: int = -1,
        transactional: bool = False,
    ) -> None:
        at_ms = self.now_ms - age_ms
        records = encode_batch(
            [(i, at_ms, None, bytes(size), []) for i in range(count)],
            producer_id=producer_id,
            producer_epoch=0 if producer_id >= 0 else -1,
            is_transactional=transactional,
        )
        self.append(topic_id, partition, records)

    def end_transaction(self, topic_id: UUID, producer_id: int, *, commit: bool, partition: int = 0) -> None:
        marker = control_batch(
            "commit" if commit else "abort", producer_id=producer_id, producer_epoch=0, timestamp=self.now_ms
        )
        self.append(topic_id, partition, marker)

    def append(self, topic_id: UUID, partition: int, records: bytes) -> None:
        self.log(topic_id, partition).append(records, 0, self.now_ms)
        self.node.log_advanced(topic_id, partition, self.now_ms)
        self.step()

    def delete_records(self, topic_id: UUID, before: int, partition: int = 0) -> None:
        self.log(topic_id, partition).delete_records(before)
        self.node.log_start_moved(topic_id, partition, self.now_ms)
        self.step()

    def configure(self, group: str, **changes: Any) -> None:
        self.view.settings[group] = attrs.evolve(self.view.group_settings(group), **changes)

    # ---- time

    def step(self) -> None:
        """Take the outputs and check everything."""
        for result in self.node.poll(self.now_ms):
            if isinstance(result, FetchResult):
                self._reply(result.context, fetch_answer(self.view, result))
            else:
                self._reply(result.context, acknowledge_answer(self.view, result))
        self.node.check()
        self.coordinator.check()

    def _reply(self, context: RequestContext, response: Any) -> None:
        self.connections[context.connection_id].replies.append((self.now_ms, response))

    def sleep(self, span_ms: int) -> None:
        """Let time pass, waking the node exactly when it asks for it."""
        end_ms = self.now_ms + span_ms
        while (at_ms := self.node.wake_at_ms()) is not None and at_ms <= end_ms:
            self.now_ms = max(self.now_ms, at_ms)
            self.step()
            assert self.node.wake_at_ms() != at_ms, "the node does not go on"
        self.now_ms = end_ms
        self.step()

    # ---- requests

    def _context(self, connection: Connection, api_key: int, version: int) -> RequestContext:
        self._next_correlation += 1
        return RequestContext(connection.id, NODE, "127.0.0.1", api_key, version, self._next_correlation, "probe")

    def send_fetch(
        self,
        connection: Connection,
        group: str | None,
        member: str | None,
        epoch: int,
        partitions: list[tuple[UUID, int, str]] | None = None,
        *,
        forget: list[tuple[UUID, list[int]]] | None = None,
        wait: int = 500,
        min_bytes: int = 1,
        max_bytes: int = 50 << 20,
        records: int = 500,
        batch: int = 500,
        mode: int = 0,
        renew: bool = False,
        version: int = 2,
    ) -> None:
        fetched = ShareFetchRequest.FetchTopic
        request = ShareFetchRequest(
            group_id=group,
            member_id=member,
            share_session_epoch=epoch,
            max_wait_ms=wait,
            min_bytes=min_bytes,
            max_bytes=max_bytes,
            max_records=records,
            batch_size=batch,
            share_acquire_mode=mode,
            is_renew_ack=renew,
            topics=topics_of(partitions, fetched, fetched.FetchPartition),
            forgotten_topics_data=[
                ShareFetchRequest.ForgottenTopic(topic_id=topic_id, partitions=indexes)
                for topic_id, indexes in forget or []
            ],
        )
        context = self._context(connection, ApiKey.SHARE_FETCH, version)
        refused = handle_share_fetch(self.view, context, request, self.now_ms)
        if refused is not None:
            self._reply(context, refused)
        self.step()

    def receive(self, connection: Connection, *, since_ms: int | None = None) -> str:
        """The connection's next answer; time passes up to it. With `since_ms` the text says how long it took."""
        while not connection.replies:
            at_ms = self.node.wake_at_ms()
            assert at_ms is not None, "no answer will ever come"
            self.sleep(max(0, at_ms - self.now_ms))
        at_ms, response = connection.replies.pop(0)
        text = self.text(response)
        return text if since_ms is None else f"{text} took{bucket(at_ms - since_ms)}"

    def fetch(self, connection: Connection, *args: object, timed: bool = False, **kwargs: Any) -> str:
        since_ms = self.now_ms
        self.send_fetch(connection, *args, **kwargs)  # type: ignore[arg-type]
        return self.receive(connection, since_ms=since_ms if timed else None)

    def ack(self, connection: Connection, *args: object, version: int = 2, timed: bool = False, **kwargs: Any) -> str:
        since_ms = self.now_ms
        self.send_ack(connection, *args, version=version, **kwargs)  # type: ignore[arg-type]
        text = self.receive(connection, since_ms=since_ms if timed else None)
        return text if version >= 2 else text.replace(" lock=30000", "")

    def send_ack(
        self,
        connection: Connection,
        group: str | None,
        member: str | None,
        epoch: int,
        partitions: list[tuple[UUID, int, str]] | None = None,
        *,
        renew: bool = False,
        version: int = 2,
    ) -> None:
        acknowledged = ShareAcknowledgeRequest.AcknowledgeTopic
        request = ShareAcknowledgeRequest(
            group_id=group,
            member_id=member,
            share_session_epoch=epoch,
            is_renew_ack=renew,
            topics=topics_of(partitions, acknowledged, acknowledged.AcknowledgePartition),
        )
        context = self._context(connection, ApiKey.SHARE_ACKNOWLEDGE, version)
        refused = handle_share_acknowledge(self.view, context, request, self.now_ms)
        if refused is not None:
            self._reply(context, refused)
        self.step()

    # ---- texts

    def name(self, topic_id: UUID) -> str:
        return self.view.topics.get(topic_id) or "id?"

    def text(self, response: Any) -> str:
        head = f"e={error_text(response.error_code)} lock={response.acquisition_lock_timeout_ms}"
        entries = sorted(
            self._entry(topic.topic_id, entry) for topic in response.responses for entry in topic.partitions
        )
        nodes = f" nodes={len(response.node_endpoints)}" if response.node_endpoints else ""
        return head + ("".join(entries) or " []") + nodes

    def _entry(self, topic_id: UUID, entry: Any) -> str:
        text = f" [{self.name(topic_id)}-{entry.partition_index} e={error_text(entry.error_code)}"
        if hasattr(entry, "records"):
            text += f" ae={error_text(entry.acknowledge_error_code)}"
        leader = entry.current_leader
        if leader.leader_id or leader.leader_epoch:
            text += f" ldr={leader.leader_id}/{leader.leader_epoch}"
        if hasattr(entry, "records"):
            acquired = ",".join(f"{a.first_offset}~{a.last_offset}x{a.delivery_count}" for a in entry.acquired_records)
            batches = ",".join(
                f"{b.base_offset}~{b.last_offset}{'c' if b.is_control else ''}" for b in iter_batches(entry.records)
            )
            text += f" acq={acquired} rec={batches or 'empty'}"
        return text + "]"

    def offsets(self, group: str, topic_id: UUID, partition: int = 0) -> str:
        """What describing the group's offsets would say."""
        summary = self.coordinator.summary(StateKey(group, topic_id, partition))
        start, complete = summary.start_offset, summary.delivery_complete_count
        lag = -1
        if start != -1 and complete != -1:
            lag = self.log(topic_id, partition).high_watermark - start - complete
        name = self.name(topic_id)
        return f"0 {name}/{name}[{partition} so={start} le={summary.leader_epoch} lag={lag} e=0]"

    def stored(self, group: str, topic_id: UUID, partition: int = 0, leader_epoch: int = 0) -> str:
        """What reading the state would say."""
        state = self.coordinator.read(StateKey(group, topic_id, partition), leader_epoch, self.now_ms)
        batches = " ".join(f"{b.first}~{b.last}:{b.state}x{b.delivery_count}" for b in state.batches)
        return f"epoch={state.state_epoch} start={state.start_offset} [{batches}]"


def bucket(span_ms: int) -> str:
    """Kafka's timings are compared in halves of a second."""
    return "<250ms" if span_ms < 250 else f"~{round(span_ms / 500) * 500}ms"
