"""What the client knows about the cluster: brokers, the ids of subscribed topics, partition leaders.

Asked by the other machines; refreshes itself when one of them misses something (`request_update`), when the
subscription changes, and when it has grown old. Unknown topics are no error: they may be created later.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final
from uuid import UUID

from kafka_share.core.context import CoreContext
from kafka_share.core.events import Channel, Disconnect
from kafka_share.errors import (
    InvalidTopicError,
    KafkaShareError,
    RebootstrapRequiredError,
    UnknownTopicOrPartitionError,
    UnsupportedVersionError,
)
from kafka_share.protocol.cluster import MetadataRequest
from kafka_share.records import Node

if TYPE_CHECKING:
    from kafka_share.protocol.cluster import MetadataResponse

MAX_UNCONFIRMED_NODES = 8
"""Addresses that brokers have named with a new leader and that no Metadata answer has confirmed; more are not believed.

Each may cost a connection, and a broker that makes them up could name one with every answer.
"""
_MIN_VERSION = 10
"""The first with topic ids in the answer (KIP-516)."""
_WRONG_PORT: Final = "if this is the port of a controller, bootstrap_servers has to name the listener of a broker"
MISSING_MS: Final = 10_000
"""A topic that is missing for so long is logged; a shorter time passes while somebody creates it."""

PAUSE_PART: Final = 10
"""Between two refreshes passes a tenth of the time for which something has been missing, if that is longer than the
retry back-off: a leader is found soon after it is elected, and what stays missing costs less and less."""
MAX_PAUSE_MS: Final = 10_000
"""The longest such pause. (A topic id that no broker knows may stay in an assignment for ever.)"""


def usable_node(node_id: int, host: str | None, port: int, rack: str | None = None) -> Node | None:
    """A node as a broker described it, unless it cannot exist."""
    if node_id < 0 or not host or not host.isprintable() or not 0 < port < 65536:
        return None
    return Node(node_id, host, port, rack)


class _Topic:
    def __init__(self, topic_id: UUID, name: str) -> None:
        self.topic_id = topic_id
        self.name = name
        self.leaders: dict[int, tuple[int, int]] = {}
        """Partition → (node id or -1, leader epoch)."""


class Metadata:
    """At most one Metadata request at a time; `version` grows with every change of what is known."""

    def __init__(self, context: CoreContext) -> None:
        self.version: int = 0
        self.is_needed: bool = False
        """A refresh is to be sent as soon as it may."""
        self._config = context.config
        self._requests = context.requests
        self._outputs = context.outputs
        self._troubles = context.troubles
        self._backoff = context.new_backoff()
        self._missing_since_ms: int | None = None
        """When the first refresh was sent that something made necessary which is missing to this day."""
        self._ready_at_ms = 0
        self._refused_until_ms = 0
        """No refresh before that, missing or not: the latest one was refused, and would be refused again at once."""
        self._brokers: dict[int, Node] = {}
        self._unconfirmed: dict[int, None] = {}
        self._topics: dict[int, _Topic] = {}
        """By the number of the id: the hash of a UUID is a function in Python."""
        self._interest: frozenset[str] = frozenset()
        self._complained: dict[str, None] = {}
        """Invalid topic names that have been raised."""
        self._missing: dict[str, int] = {}
        """Topics that do not exist, and since when that is known."""
        self._missed: dict[str, None] = {}
        """Those of them that have been logged."""
        self._asked: frozenset[str] | None = None
        """The interest that the awaited answer is about; None: no answer is awaited."""
        self._expires_at_ms: int | None = None
        self._bootstrap_used = False
        self._wake_at_ms: int | None = None

    # ---- what is known

    def node(self, node_id: int) -> Node | None:
        return self._brokers.get(node_id)

    @property
    def knows_brokers(self) -> bool:
        return bool(self._brokers)

    def topic_name(self, topic_id: UUID) -> str | None:
        topic = self._topics.get(topic_id.int)
        return None if topic is None else topic.name

    def leader(self, topic_id: UUID, partition: int) -> int | None:
        """The id of the node that leads the partition; None if it is not known or has no leader."""
        topic = self._topics.get(topic_id.int)
        leader_id = -1 if topic is None else topic.leaders.get(partition, (-1, -1))[0]
        return None if leader_id < 0 else leader_id

    def some_node(self, now_ms: int) -> tuple[Node | None, int]:
        """A node for a question that any broker can answer, or None and the time when there may be one.

        Bootstrap servers are asked while no broker is known, or none may be asked now.
        """
        soonest_ms = -1
        for node in (*self._brokers.values(), *self._config.bootstrap_servers):
            ready_at_ms = self._requests.ready_at_ms(node.id, Channel.CONTROL)
            if ready_at_ms <= now_ms:
                self._bootstrap_used = self._bootstrap_used or node.id < 0
                return node, now_ms
            soonest_ms = ready_at_ms if soonest_ms < 0 else min(soonest_ms, ready_at_ms)
        return None, soonest_ms

    @property
    def missing_topics(self) -> tuple[str, ...]:
        """Names subscribed to for which there is no topic, by the latest answer."""
        return tuple(sorted((*self._missing, *self._complained)))

    # ---- what others find out

    def set_interest(self, topics: frozenset[str], now_ms: int) -> None:
        """The names subscribed to now. What is known of the names before stays for records still in flight."""
        if topics == self._interest:
            return
        known = [topic.name for topic in self._topics.values()]
        is_new = not topics.issubset(known)
        kept = self._interest | topics
        self._topics = {number: topic for number, topic in self._topics.items() if topic.name in kept}
        self._interest = topics
        self._complained = {name: None for name in self._complained if name in topics}
        self._missing = {name: at_ms for name, at_ms in self._missing.items() if name in topics}
        self._missed = {name: None for name in self._missed if name in topics}
        self.version += 1
        if is_new:
            self.is_needed = True
            self.confirmed()
        elif self._expires_at_ms is None:
            self._expires_at_ms = now_ms + self._config.metadata_max_age_ms

    def request_update(self) -> None:
        """Something is missing or was wrong: refresh, no faster than the retry back-off allows."""
        self.is_needed = True

    def confirmed(self) -> None:
        """Nothing is missing: the next need is served at once."""
        if self._backoff.attempts:  # said at every poll, and mostly nothing new
            self._backoff.succeeded()
        self._ready_at_ms = 0
        self._missing_since_ms = None

    def missing_anew(self) -> None:
        """What may be missing now is something else than before: it has been missing for no time."""
        self._ready_at_ms = min(self._ready_at_ms, self._backoff.ready_at_ms)
        self._missing_since_ms = None

    def leader_moved(self, topic_id: UUID, partition: int, leader_id: int, epoch: int, nodes: Iterable[Node]) -> bool:
        """A broker named the new leader (KIP-951). False if that is of no use: no newer, or an unknown node."""
        topic = self._topics.get(topic_id.int)
        if topic is None or leader_id < 0 or partition not in topic.leaders:
            return False
        if epoch <= topic.leaders[partition][1]:
            return False
        named = next((node for node in nodes if node.id == leader_id), None)
        if named is None and leader_id not in self._brokers:
            return False
        if named is not None and named != self._brokers.get(leader_id) and not self._believe(named):
            return False
        topic.leaders[partition] = (leader_id, epoch)
        self._outputs.note("leader-moved", topic=topic.name, partition=partition, node_id=leader_id)
        self.version += 1
        return True

    def _believe(self, node: Node) -> bool:
        """Take over an address that a broker has named, until the metadata show whether it is one."""
        if node.id not in self._unconfirmed and len(self._unconfirmed) >= MAX_UNCONFIRMED_NODES:
            return False
        self._unconfirmed[node.id] = None
        self._brokers[node.id] = node
        return True

    # ---- refreshing

    def poll(self, now_ms: int) -> None:
        self._wake_at_ms = None
        self._leave_bootstrap()
        if self._asked is not None or not self._interest:
            return
        if not self.is_needed:
            due_at_ms = self._due_at_ms()
            if due_at_ms is None or now_ms < due_at_ms:
                self._wake_at_ms = due_at_ms
                return
            self.is_needed = True
        ready_at_ms = max(self._ready_at_ms, self._refused_until_ms)
        if now_ms < ready_at_ms:
            self._wake_at_ms = ready_at_ms
            return
        node, at_ms = self.some_node(now_ms)
        if node is None:
            self._wake_at_ms = at_ms
            return
        self._ask(node, now_ms)

    def _due_at_ms(self) -> int | None:
        """When to ask again if nobody misses anything: what is missing is looked for once more before it is logged."""
        times = [since_ms + MISSING_MS for name, since_ms in self._missing.items() if name not in self._missed]
        if self._expires_at_ms is not None:
            times.append(self._expires_at_ms)
        return min(times, default=None)

    def _leave_bootstrap(self) -> None:
        """Once the brokers are known by their ids, the connections to the bootstrap addresses have had their use."""
        if not self._bootstrap_used or not self._brokers:
            return
        if all(self._requests.oldest_awaited_from(node.id) is None for node in self._config.bootstrap_servers):
            self._bootstrap_used = False
            self._outputs.add(*(Disconnect(node.id) for node in self._config.bootstrap_servers))

    def _ask(self, node: Node, now_ms: int) -> None:
        request = MetadataRequest(
            topics=[MetadataRequest.MetadataRequestTopic(name=name) for name in sorted(self._interest)],
            allow_auto_topic_creation=self._config.allow_auto_create_topics,
        )
        self._asked = self._interest
        self.is_needed = False
        self._pace(now_ms)
        timeout_ms = self._config.request_timeout_ms
        self._requests.send(node, Channel.CONTROL, request, timeout_ms, self._answered, self._failed, _MIN_VERSION)

    def _pace(self, now_ms: int) -> None:
        """When the next refresh may leave, unless somebody confirms before that nothing is missing."""
        self._backoff.failed(now_ms)
        if self._missing_since_ms is None:
            self._missing_since_ms = now_ms
        pause_ms = min((now_ms - self._missing_since_ms) // PAUSE_PART, MAX_PAUSE_MS)
        self._ready_at_ms = max(self._backoff.ready_at_ms, now_ms + pause_ms)

    def wake_at_ms(self) -> int | None:
        return self._wake_at_ms

    def _failed(self, error: KafkaShareError, now_ms: int) -> None:
        self._asked = None
        self.is_needed = True
        self.missing_anew()  # during an outage nobody knows what is missing
        if isinstance(error, UnsupportedVersionError):
            self._refused_until_ms = now_ms + self._config.retry_backoff_max_ms
            error = UnsupportedVersionError(f"{str(error).removeprefix(f'{error.name}: ')}; {_WRONG_PORT}")
            self._troubles.begin(self, error, now_ms, is_fatal=True)
            self._outputs.raise_error(error, fatal=True)

    def _answered(self, response: MetadataResponse, now_ms: int) -> None:
        asked, self._asked = self._asked, None
        assert asked is not None, "an answer without a question"
        if response.error_code:
            if response.error_code == RebootstrapRequiredError.code:
                self._brokers = {}
                self.version += 1
            else:
                self._refused_until_ms = now_ms + self._config.retry_backoff_ms
            self.is_needed = True
            return
        self._expires_at_ms = now_ms + self._config.metadata_max_age_ms
        self._take_brokers(response)
        self._take_topics(response, asked, now_ms)
        self.version += 1
        if asked != self._interest:
            self.is_needed = True
            self.confirmed()

    def _take_brokers(self, response: MetadataResponse) -> None:
        nodes = [usable_node(b.node_id, b.host, b.port, b.rack) for b in response.brokers]
        brokers = {node.id: node for node in nodes if node is not None}
        if not brokers:
            return
        for node_id, old in self._brokers.items():
            new = brokers.get(node_id)
            if new is None:
                self._requests.forget_node(node_id)
            elif (new.host, new.port) != (old.host, old.port):
                self._outputs.add(Disconnect(node_id))
        self._brokers = brokers
        self._unconfirmed = {node_id: None for node_id in self._unconfirmed if node_id not in brokers}

    def _take_topics(self, response: MetadataResponse, asked: frozenset[str], now_ms: int) -> None:
        invalid: list[str] = []
        for answer in response.topics:
            name = answer.name
            if name is None or name not in asked:
                continue
            if answer.error_code == InvalidTopicError.code:
                # A topic that has been left while the answer was awaited concerns nobody any more.
                if name in self._interest and name not in self._complained:
                    self._complained[name] = None
                    invalid.append(name)
                continue
            if answer.error_code == UnknownTopicOrPartitionError.code:
                self._misses(name, now_ms)
            elif answer.error_code == 0:
                self._found(name)
            self._take_topic(name, answer)
        if invalid:
            self._outputs.raise_error(InvalidTopicError(f"Invalid topics: [{', '.join(sorted(invalid))}]"))

    def _misses(self, name: str, now_ms: int) -> None:
        if name not in self._interest:
            return
        since_ms = self._missing.setdefault(name, now_ms)
        if name not in self._missed and now_ms - since_ms >= MISSING_MS:
            self._missed[name] = None
            self._outputs.note("topic-missing", topic=name)

    def _found(self, name: str) -> None:
        self._missing.pop(name, None)
        if name in self._missed:
            del self._missed[name]
            self._outputs.note("topic-found", topic=name)

    def _take_topic(self, name: str, answer: MetadataResponse.MetadataResponseTopic) -> None:
        topic_id = answer.topic_id
        others = [other for other in self._topics.values() if other.name == name and other.topic_id != topic_id]
        if answer.error_code == UnknownTopicOrPartitionError.code:
            for other in others:  # deleted; silent, as it may be made again
                del self._topics[other.topic_id.int]
            return
        if answer.error_code or topic_id is None:
            return  # in trouble: silent, as it may pass; missing rights are reported by the heartbeat
        for other in others:  # deleted and made again: the old id has ended
            del self._topics[other.topic_id.int]
        topic = self._topics.get(topic_id.int)
        known = {} if topic is None else topic.leaders
        topic = self._topics[topic_id.int] = _Topic(topic_id, name)
        for partition in answer.partitions:
            index = partition.partition_index
            if index < 0:
                continue
            old = known.get(index)
            if old is not None and 0 <= partition.leader_epoch < old[1] and old[0] in self._brokers:
                topic.leaders[index] = old  # a broker that lags behind
            else:
                topic.leaders[index] = (partition.leader_id, partition.leader_epoch)
                if old is not None and old[0] != partition.leader_id:
                    self._outputs.note("leader-moved", topic=name, partition=index, node_id=partition.leader_id)

    def check(self) -> None:
        names = [topic.name for topic in self._topics.values()]
        assert len(names) == len(dict.fromkeys(names)), "two ids for one topic name"
        about = (*self._complained, *self._missing, *self._missed)
        assert all(name in self._interest for name in about), "a complaint about a topic of no interest"
