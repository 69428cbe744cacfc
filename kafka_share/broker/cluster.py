"""The cluster: nodes, topics, groups and share partitions, and what can be changed about them. A machine without I/O.

`BrokerMachine` stands above it with the handlers, which ask it and change it; `ReferenceBroker` changes it directly for
tests. It carries news between the machines inside (a log grew, a topic went, a node stopped), and answers what the
share machines ask about the cluster (`ClusterView`).

What it must not do: know wire messages, or decide anything that a machine inside can decide. Several nodes live in one
cluster object; each has its own share machines, while logs, groups and share state are common, as if they had been
replicated.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from kafka_share.admin_values import AclOperation
from kafka_share.broker.classic.classic_groups import ClassicGroups
from kafka_share.broker.classic.committed_offsets import CommittedOffsets
from kafka_share.broker.classic.delayed_fetch import DelayedFetches
from kafka_share.broker.classic.transactions import Transactions
from kafka_share.broker.client_metrics import ClientMetrics
from kafka_share.broker.configs.configs import Configs, ResourceType
from kafka_share.broker.consumer.consumer_groups import ConsumerGroups
from kafka_share.broker.features import GROUP_VERSION, SHARE_VERSION, Features
from kafka_share.broker.group_ids import GroupIds
from kafka_share.broker.group_journal import GroupJournal
from kafka_share.broker.kafka_version import KAFKA_4_3, advertised_versions
from kafka_share.broker.quotas.client_quotas import ClientQuotas
from kafka_share.broker.quotas.host_lookups import HostLookups
from kafka_share.broker.refusals import Refusal
from kafka_share.broker.security.acls import AclResource, Acls
from kafka_share.broker.security.scram_users import ScramUsers
from kafka_share.broker.share.node import ShareNode
from kafka_share.broker.share.persister import Persister, no_fault
from kafka_share.broker.share.share_coordinator import ShareCoordinator, ShareStateSettings
from kafka_share.broker.share.share_groups import ShareGroups
from kafka_share.broker.storage import appending
from kafka_share.broker.storage.internal_topic import InternalTopic
from kafka_share.broker.storage.log import Log
from kafka_share.broker.storage.log_cleaner import LogCleaner
from kafka_share.broker.storage.produce_queue import ProduceQueue
from kafka_share.broker.storage.producer_expiry import ProducerExpiry
from kafka_share.broker.storage.producer_ids import ProducerIds
from kafka_share.broker.storage.record_table import RecordTable
from kafka_share.broker.storage.retention import Retention
from kafka_share.broker.storage.topics import CONSUMER_OFFSETS, SHARE_GROUP_STATE, Topics
from kafka_share.errors import (
    CoordinatorNotAvailableError,
    FencedLeaderEpochError,
    LeaderNotAvailableError,
    NotCoordinatorError,
    NotLeaderOrFollowerError,
    UnknownLeaderEpochError,
    UnknownTopicOrPartitionError,
    UnsupportedVersionError,
)
from kafka_share.records import Node

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from random import Random
    from uuid import UUID

    from kafka_share.broker.api_keys import ApiKey
    from kafka_share.broker.client_metrics import MetricsSubscription
    from kafka_share.broker.configs.configs import GroupSettings
    from kafka_share.broker.events import RequestContext
    from kafka_share.broker.kafka_version import Behaviour
    from kafka_share.broker.security.authorizer import Authorizer
    from kafka_share.broker.share.persister import PersisterFault
    from kafka_share.broker.storage.log import LogFiles
    from kafka_share.broker.storage.produced_batch import Checking
    from kafka_share.broker.storage.topics import Partition, Topic
    from kafka_share.errors import BrokerError
    from kafka_share.protocol.record_batches import RecordBatch

_HASH_MASK: Final = 2**32 - 1
_INTERNAL_REPLICATION_FACTOR: Final = 3
_INTERNAL_TOPIC_CONFIGS: Final = {
    CONSUMER_OFFSETS: {"cleanup.policy": "compact", "compression.type": "producer", "segment.bytes": "104857600"},
    SHARE_GROUP_STATE: {
        "cleanup.policy": "delete",
        "compression.type": "producer",
        "retention.ms": "-1",
        "segment.bytes": "104857600",
    },
}
"""As in Kafka. Their coordinators shorten both long before a segment is full."""


class Cluster:
    """A cluster of `node_ids`. `config` has static broker settings; raises `ConfigurationError` for a wrong one.

    `random` makes the topic ids. `share_version` is the finalized level of the feature: 0 switches share groups off.
    `behaviour` says which version of Kafka it is. `log_files` makes the files of a topic's partition; without it logs
    are in memory only.
    """

    def __init__(
        self,
        node_ids: Sequence[int],
        *,
        config: Mapping[str, str],
        cluster_id: str,
        random: Random,
        share_version: int = 1,
        behaviour: Behaviour = KAFKA_4_3,
        log_files: Callable[[Topic, int], LogFiles] | None = None,
    ) -> None:
        self.cluster_id = cluster_id
        self.behaviour = behaviour
        self.features: Features = Features.of(behaviour, share_version)
        self.configs: Configs = Configs(config, behaviour, only_node=str(node_ids[0]) if len(node_ids) == 1 else None)
        self.configs.allow_dead_letters(allowed=share_version > 1)
        self.api_versions: dict[int, tuple[int, int]] = advertised_versions(behaviour)
        self.scram_users: ScramUsers = ScramUsers()
        self.acls: Acls = Acls()
        self.authorizer: Authorizer | None = None
        """None: everybody may do everything."""
        self.client_quotas: ClientQuotas = ClientQuotas(finite=behaviour.quotas_are_finite)
        self.host_lookups: HostLookups = HostLookups()
        self.client_metrics: ClientMetrics = ClientMetrics(random)
        self.nodes: dict[int, Node] = {node_id: Node(node_id, "", 0) for node_id in node_ids}
        self.topics: Topics = Topics(node_ids, random, self._new_log)
        self.retention: Retention = Retention(self.topics, self.configs, self._log_start_moved)
        self.log_cleaner: LogCleaner = LogCleaner(self.topics, self.configs)
        self.producer_expiry: ProducerExpiry = ProducerExpiry(self.topics, self.configs)
        self.persister_fault: Callable[[ApiKey], PersisterFault | None] = no_fault
        """What the next request of a persister suffers; see `FaultPlan.delay_persister`."""
        self.share_states: ShareCoordinator = self._new_share_coordinator()
        self.group_ids: GroupIds = GroupIds()
        self.group_records: RecordTable = RecordTable(
            self._log_of_coordinators(CONSUMER_OFFSETS, "offsets.topic.num.partitions")
        )
        self.journal: GroupJournal = GroupJournal(self.group_records)
        self.share_groups: ShareGroups = ShareGroups(
            self.topics, self.configs, self.share_states, self.group_ids, self.journal, behaviour, self._new_persister()
        )
        self.offsets: CommittedOffsets = CommittedOffsets(self.topics, self.journal)
        self.classic_groups: ClassicGroups = ClassicGroups(
            self.group_ids, self.configs, random, self.offsets, self.journal
        )
        groups = (self.group_ids, self.classic_groups, self.offsets, self.journal)
        self.consumer_groups: ConsumerGroups = ConsumerGroups(self.topics, self.configs, *groups, behaviour, random)
        self.transactions: Transactions = Transactions(self, self.offsets)
        self.share_nodes: dict[int, ShareNode] = {node_id: self._new_share_node(node_id) for node_id in node_ids}
        self.fetches: DelayedFetches = DelayedFetches()
        self.produces: ProduceQueue = ProduceQueue()
        self.requests: Counter[tuple[int, int, int]] = Counter()
        """How many requests came, by node, key of the API and version."""
        self.append_fault: Callable[[str], type[BrokerError] | None] = lambda topic: None
        """What the next record of a coordinator in this topic is refused with; see `FaultPlan.fail_log`."""
        self._alive = list(node_ids)
        self._moved_coordinators: dict[str, int] = {}
        """By group; what is not here follows from the id."""
        self.producer_ids: ProducerIds = ProducerIds()
        self._log_files = log_files

    def _new_log(self, topic: Topic, index: int) -> Log:
        files = None if self._log_files is None else self._log_files(topic, index)
        return Log(lambda: self.configs.log_settings(topic.name), files)

    def _log_of_coordinators(self, name: str, partitions_setting: str) -> InternalTopic:
        return InternalTopic(name, self.configs.broker_int(partitions_setting), self)

    def _new_share_coordinator(self) -> ShareCoordinator:
        settings = ShareStateSettings(
            self.configs.broker_int("share.coordinator.snapshot.update.records.per.snapshot"),
            self.configs.broker_int("share.coordinator.state.topic.prune.interval.ms"),
            self.configs.broker_int("share.coordinator.cold.partition.snapshot.interval.ms"),
        )
        log = self._log_of_coordinators(SHARE_GROUP_STATE, "share.coordinator.state.topic.num.partitions")
        return ShareCoordinator(self, log, self.behaviour, settings)

    def _new_persister(self) -> Persister:
        return Persister(self.share_states, lambda api: self.persister_fault(api))

    def _new_share_node(self, node_id: int) -> ShareNode:
        return ShareNode(node_id, self, self._new_persister(), self.behaviour)

    def check(self) -> None:
        """Assert the invariants of everything."""
        self.topics.check()
        self.share_groups.check()
        self.classic_groups.check()
        self.consumer_groups.check()
        self.transactions.check()
        self.share_states.check()
        self.group_records.check()
        for node in self.share_nodes.values():
            node.check()

    # ---- what handlers ask

    def living_nodes(self) -> list[Node]:
        """The nodes that run, by id."""
        return [self.nodes[node_id] for node_id in sorted(self._alive)]

    def coordinator_of(self, key: str) -> Node:
        """The node that coordinates a group (or a share state key). Raises `Refusal` when no node runs."""
        if not self._alive:
            raise Refusal(CoordinatorNotAvailableError, "no node is running")
        moved = self._moved_coordinators.get(key)
        if moved in self._alive:
            return self.nodes[moved]
        ids = sorted(self.nodes)
        first = _text_hash(key) % len(ids)
        return next(self.nodes[node] for node in (*ids[first:], *ids[:first]) if node in self._alive)

    def require_coordinator(self, context: RequestContext, group_id: str) -> None:
        """Raises `Refusal` unless the request came to the node that coordinates the group."""
        coordinator = self.coordinator_of(group_id)
        if coordinator.id != context.node_id:
            raise Refusal(NotCoordinatorError, f"node {coordinator.id} coordinates {group_id!r}")

    def require_share_groups(self) -> None:
        """Raises `Refusal` while the feature share.version is off."""
        if not self.share_enabled():
            raise Refusal(UnsupportedVersionError, "share groups are switched off")

    def require_consumer_groups(self) -> None:
        """Raises `Refusal` while the feature group.version is off."""
        if self.features.level(GROUP_VERSION) == 0:
            raise Refusal(UnsupportedVersionError, "consumer groups of KIP-848 are switched off")

    def led_partition(self, context: RequestContext, topic: Topic | None, index: int, leader_epoch: int) -> Partition:
        """The partition, if the request came to its leader and names its epoch, -1 or none. Raises `Refusal`."""
        partition = None if topic is None else topic.partition(index)
        if partition is None:
            raise Refusal(UnknownTopicOrPartitionError, "there is no such partition")
        if partition.leader_id != context.node_id:
            raise Refusal(NotLeaderOrFollowerError, f"node {partition.leader_id} leads this partition")
        if 0 <= leader_epoch < partition.leader_epoch:
            raise Refusal(FencedLeaderEpochError, f"the leader epoch is {partition.leader_epoch}")
        if leader_epoch > partition.leader_epoch:
            raise Refusal(UnknownLeaderEpochError, f"the leader epoch is {partition.leader_epoch}")
        return partition

    def allows(self, context: RequestContext, operation: AclOperation, resource: AclResource, name: str) -> bool:
        """Whether the client of a request may do this with a resource."""
        authorizer = self.authorizer
        return authorizer is None or authorizer.allows(
            context.principal, context.client_host, operation, resource, name
        )

    def allows_any(self, context: RequestContext, operation: AclOperation, resource: AclResource) -> bool:
        """Whether there may be a resource of this type with which the client may do this."""
        authorizer = self.authorizer
        return authorizer is None or authorizer.allows_any(context.principal, context.client_host, operation, resource)

    def may_see(self, context: RequestContext, topic: str) -> bool:
        """Whether the client of a request may know of a topic."""
        return self.allows(context, AclOperation.DESCRIBE, AclResource.TOPIC, topic)

    def next_producer_id(self) -> int:
        """A producer id that nobody has."""
        return self.producer_ids.take()

    def transaction_setting_ms(self, name: str) -> int:
        """See `TransactionView`."""
        return self.configs.broker_int(name)

    # ---- ClusterView, for the share machines

    def topic_name(self, topic_id: UUID) -> str | None:
        topic = self.topics.by_id(topic_id)
        return None if topic is None else topic.name

    def partition(self, topic_id: UUID, partition: int) -> Partition | None:
        topic = self.topics.by_id(topic_id)
        return None if topic is None else topic.partition(partition)

    def node(self, node_id: int) -> Node | None:
        return self.nodes.get(node_id)

    def group_settings(self, group_id: str) -> GroupSettings:
        return self.configs.group_settings(group_id)

    def share_enabled(self) -> bool:
        return self.features.level(SHARE_VERSION) > 0

    def may_read(self, context: RequestContext, topic_id: UUID) -> bool:
        """Whether the client of a request may read a topic; one that does not exist is another matter."""
        name = None if self.authorizer is None else self.topic_name(topic_id)
        return name is None or self.allows(context, AclOperation.READ, AclResource.TOPIC, name)

    def max_share_sessions(self) -> int:
        return self.configs.broker_int("group.share.max.share.sessions")

    # ---- changes

    def set_feature(self, name: str, level: int) -> None:
        """Finalize another level of a feature; it has been checked."""
        self.features.put(name, level)
        self.configs.allow_dead_letters(allowed=self.features.level(SHARE_VERSION) > 1)

    def connection_closed(self, connection_id: int, now_ms: int) -> None:
        """Nobody waits for answers on this connection any more."""
        self.fetches.connection_closed(connection_id)
        self.host_lookups.connection_closed(connection_id)
        for node in self.share_nodes.values():
            node.connection_closed(connection_id, now_ms)

    def host_looked_up(self, host: str, address: str | None) -> None:
        """The driver has looked up the address of a host; None if there is none."""
        self.host_lookups.looked_up(host, address)
        self.client_quotas.located(host, address)

    def want_client_metrics(self, subscription: MetricsSubscription | None) -> None:
        """Have clients push metrics, or none; only with a subscription the APIs for it are offered."""
        self.client_metrics.subscription = subscription
        self.api_versions = advertised_versions(self.behaviour, with_client_metrics=subscription is not None)

    def create_topic(self, name: str, replicas: Sequence[Sequence[int]] | None = None) -> Topic:
        """Make a topic; without `replicas` with the broker's default numbers. Name and nodes have been validated."""
        if replicas is None:
            factor = min(self.configs.broker_int("default.replication.factor"), len(self.nodes))
            replicas = self.topics.place(self.configs.broker_int("num.partitions"), factor)
        return self.topics.create(name, replicas)

    def delete_topic(self, topic: Topic, now_ms: int) -> None:
        """Delete a topic with its share state and its settings."""
        partitions = list(topic.partitions)
        self.topics.delete(topic)
        topic.partitions.clear()
        for partition in partitions:
            self.fetches.partition_moved(partition)
        self.configs.forget(ResourceType.TOPIC, topic.name)
        self.share_groups.topic_deleted(topic, now_ms)
        self.offsets.topic_deleted(topic, now_ms)
        self.transactions.topic_deleted(topic.id)
        for node in self.share_nodes.values():
            node.topic_deleted(topic.id, now_ms)
        if topic.is_internal:
            self.load_coordinators(now_ms)

    def check_produced(self, partition: Partition, records: bytes, now_ms: int) -> Checking:
        """Check in turns what a producer has sent; ends with the batch. Raises `Refusal`."""
        return appending.check(self.configs, partition, records, now_ms)

    def append(self, partition: Partition, records: bytes, now_ms: int) -> tuple[int, int]:
        """Check at once and append what a test has written. Raises `Refusal`."""
        return self.append_batch(partition, appending.check_at_once(self.configs, partition, records, now_ms), now_ms)

    def append_batch(self, partition: Partition, batch: RecordBatch, now_ms: int) -> tuple[int, int]:
        """Append what was checked (see `appending.append`) and wake who waits for it. Raises `Refusal`."""
        if partition.leader_id not in self._alive:
            raise Refusal(LeaderNotAvailableError, "the partition has no leader")
        appended = appending.append(self.configs, partition, batch, now_ms)
        self._log_advanced(partition, now_ms)
        return appended

    def append_unchecked(self, partition: Partition, records: bytes, now_ms: int) -> int:
        """Append record batches that no producer could send; returns the offset of the first."""
        base_offset, _ = partition.log.append(records, partition.leader_epoch, now_ms)
        self._log_advanced(partition, now_ms)
        return base_offset

    # ---- coordinators and their logs

    def load_coordinators(self, now_ms: int) -> None:
        """Forget what coordinators hold in memory, and read it from the internal topics.

        To be called when their logs have come from elsewhere, before the first request: it leaves share partitions
        as they are. Members of groups come back as they were, with whole session timeouts. Raises
        `RemoteProtocolError`.
        """
        self.share_states.load()
        self.group_records.load()
        journal = self.journal.all()
        self.share_groups.load(journal, now_ms)
        self.consumer_groups.load(journal, now_ms)
        self.classic_groups.load(journal, now_ms)
        self.offsets.load(journal)

    def internal_topic(self, name: str) -> Topic | None:
        """See `TopicHost`."""
        return self.topics.by_name(name)

    def make_internal_topic(self, name: str, partitions: int) -> Topic:
        """See `TopicHost`. Its leaders are placed without regard to other topics, whose places must not change."""
        factor = min(_INTERNAL_REPLICATION_FACTOR, len(self.nodes))
        self.configs.set_values(ResourceType.TOPIC, name, _INTERNAL_TOPIC_CONFIGS[name])
        return self.topics.create(name, self.topics.place(partitions, factor, start=0))

    def append_batch_of_coordinator(self, partition: Partition, batch: bytes, now_ms: int) -> int:
        """See `TopicHost`."""
        if partition.leader_id not in self._alive:
            raise Refusal(CoordinatorNotAvailableError, "the partition of the coordinator's log has no leader")
        fault = self.append_fault(partition.topic)
        if fault is not None:
            raise Refusal(fault, "a test has ordered it")
        base_offset, _ = partition.log.append(batch, partition.leader_epoch, now_ms)
        self._note_growth(partition, now_ms)
        self.fetches.partition_moved(partition)
        return base_offset

    def write_marker(
        self,
        partition: Partition,
        producer: tuple[int, int],
        *,
        committed: bool,
        now_ms: int,
        coordinator_epoch: int = 0,
    ) -> None:
        """End the transaction of a producer (id, epoch) in this partition, and wake who waits for that."""
        marker = appending.marker(*producer, committed=committed, coordinator_epoch=coordinator_epoch, now_ms=now_ms)
        self.append_unchecked(partition, marker, now_ms)
        partition.producers.transaction_ended(*producer, coordinator_epoch, now_ms)

    def _note_growth(self, partition: Partition, now_ms: int) -> None:
        """A log has grown, and will have to be looked after."""
        self.retention.log_advanced(now_ms)
        self.log_cleaner.log_advanced(partition, now_ms)
        self.producer_expiry.log_advanced(now_ms)

    def _log_advanced(self, partition: Partition, now_ms: int) -> None:
        self._note_growth(partition, now_ms)
        self.fetches.partition_moved(partition)
        if partition.leader_id in self._alive:
            self.share_nodes[partition.leader_id].log_advanced(partition.topic_id, partition.partition, now_ms)

    def delete_records(self, partition: Partition, before_offset: int, now_ms: int) -> int:
        """Raise the log's start; returns the new one."""
        start_offset = partition.log.delete_records(before_offset)
        self._log_start_moved(partition, now_ms)
        return start_offset

    def _log_start_moved(self, partition: Partition, now_ms: int) -> None:
        self.fetches.partition_moved(partition)
        if partition.leader_id in self._alive:
            self.share_nodes[partition.leader_id].log_start_moved(partition.topic_id, partition.partition, now_ms)

    # ---- nodes

    def set_address(self, node_id: int, host: str, port: int) -> None:
        """Where clients reach the node."""
        self.nodes[node_id] = Node(node_id, host, port)

    def stop_node(self, node_id: int, now_ms: int) -> None:
        """The node is gone with everything it kept in memory. Its connections have been closed."""
        coordinated = self._groups_of(node_id)
        self._alive.remove(node_id)
        moved = self.topics.node_stopped(node_id)
        self.share_nodes[node_id] = self._new_share_node(node_id)
        for partition in moved:
            self.fetches.partition_moved(partition)
        self._rearm(coordinated, now_ms)

    def start_node(self, node_id: int, now_ms: int) -> None:
        """The node runs, again or still. It takes over its groups, and the partitions that nobody leads."""
        if node_id in self._alive:
            return
        self._alive.append(node_id)
        self.topics.node_started(node_id)
        self._rearm(self._groups_of(node_id), now_ms)

    def move_coordinator(self, group_id: str, node_id: int, now_ms: int) -> None:
        """Make a living node the coordinator of a group, as long as it runs. The members have to find it."""
        assert node_id in self._alive, f"node {node_id} does not run"
        self._moved_coordinators[group_id] = node_id
        self._rearm([group_id], now_ms)

    def _groups_of(self, node_id: int) -> list[str]:
        """The groups that the node coordinates now."""
        return [group_id for group_id in self.group_ids if self.coordinator_of(group_id).id == node_id]

    def _rearm(self, group_ids: Sequence[str], now_ms: int) -> None:
        """Other nodes coordinate these groups now, or may: they read their logs, and members get whole timeouts.

        A rebalance of a classic group goes on where it was.
        """
        self.share_states.load()
        self.group_records.load()
        self.share_groups.restore(group_ids, now_ms)
        self.consumer_groups.restore(group_ids, now_ms)
        self.classic_groups.rearm(group_ids, now_ms)

    def move_leader(self, partition: Partition, node_id: int, now_ms: int) -> None:
        """Make another living node the leader of a partition."""
        assert node_id in self._alive, f"node {node_id} does not run"
        old_leader = partition.leader_id
        self.topics.move_leader(partition, node_id)
        self._leader_moved(partition, old_leader, now_ms)

    def reassign(self, partition: Partition, replicas: Sequence[int], now_ms: int) -> None:
        """Put the partition's replicas on these nodes, which have been validated."""
        old_leader = partition.leader_id
        self.topics.reassign(partition, replicas)
        if partition.leader_id != old_leader:
            self._leader_moved(partition, old_leader, now_ms)

    def _leader_moved(self, partition: Partition, old_leader: int, now_ms: int) -> None:
        self.fetches.partition_moved(partition)
        if old_leader in self.share_nodes:
            self.share_nodes[old_leader].leadership_lost(partition.topic_id, partition.partition, now_ms)


def _text_hash(text: str) -> int:
    """The same number for the same text on every run (Java's hash of a string, without its sign)."""
    value = 0
    for char in text:
        value = (31 * value + ord(char)) & _HASH_MASK
    return value & (_HASH_MASK >> 1)
