"""The values that `KafkaShareAdmin` takes and returns: groups, members, offsets, configs, topics, the cluster.

`kafka_share.core.admin` makes them from the answers of brokers; users and the command-line tools read them. Nothing
here does I/O or knows the wire. All of them are frozen and compare by value.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias

import attrs

if TYPE_CHECKING:
    from uuid import UUID

    from kafka_share.errors import KafkaShareError
    from kafka_share.records import Node, TopicPartition


class GroupState(enum.Enum):
    """The state of a group; the values are the names that brokers use. A share group is EMPTY, STABLE or DEAD."""

    UNKNOWN = "Unknown"
    """The broker named no state, or one that this version of kafka_share does not know."""
    EMPTY = "Empty"
    STABLE = "Stable"
    DEAD = "Dead"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    NOT_READY = "NotReady"


class GroupType(enum.Enum):
    """The protocol family of a group; the values are the names that brokers use."""

    UNKNOWN = "unknown"
    SHARE = "share"
    CONSUMER = "consumer"
    CLASSIC = "classic"
    STREAMS = "streams"


class AclOperation(enum.IntEnum):
    """What an authorizer can allow; the wire values (Apache Kafka's `AclOperation`)."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class ConfigSource(enum.IntEnum):
    """Where the value of a config comes from; the wire values (Apache Kafka's `DescribeConfigsResponse`)."""

    UNKNOWN = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    DYNAMIC_CLIENT_METRICS_CONFIG = 7
    DYNAMIC_GROUP_CONFIG = 8
    """Set on the group itself."""


class ConfigType(enum.IntEnum):
    """What kind of value a config has; the wire values."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class OffsetSpec(enum.IntEnum):
    """An end of a partition's log, to be looked up like a time; the wire values."""

    LATEST = -1
    """The offset of the next record to be written (the high watermark)."""
    EARLIEST = -2
    """The offset of the oldest record that is still there."""


@attrs.frozen
class GroupListing:
    """One group of a cluster, of any type."""

    group_id: str
    state: GroupState
    protocol: str
    """The protocol type: "share", "consumer", "connect", …; "" for a group that only commits offsets."""
    group_type: GroupType
    """UNKNOWN from brokers that do not send it (ListGroups below version 5)."""
    coordinator: Node
    """The broker that listed the group."""


@attrs.frozen
class GroupListings:
    """What the brokers of a cluster answered together, ordered by group id, each id once."""

    groups: tuple[GroupListing, ...]
    errors: Mapping[Node, KafkaShareError]
    """The brokers that did not answer; their groups are missing. Empty when the list is complete."""


@attrs.frozen
class ShareMemberDescription:
    """One member of a share group."""

    member_id: str
    member_epoch: int
    client_id: str
    client_host: str
    """As the broker writes it, for example "/127.0.0.1"."""
    rack_id: str | None
    subscribed_topic_names: tuple[str, ...]
    assignment: tuple[TopicPartition, ...]
    """The partitions that the member fetches from now, ordered. Several members may have the same partition."""


@attrs.frozen
class ShareGroupDescription:
    """One share group."""

    group_id: str
    state: GroupState
    group_epoch: int
    """Grows with each change of members, subscriptions and subscribed topics."""
    assignment_epoch: int
    """The group epoch of the newest assignment. Up to Kafka 4.3 it stays behind in a group without members."""
    assignor: str
    members: tuple[ShareMemberDescription, ...]
    """Ordered by member id."""
    coordinator: Node
    authorized_operations: frozenset[AclOperation] | None
    """What the caller may do with the group; None unless the call asked for it."""


@attrs.frozen
class SharePartitionOffset:
    """How far a share group is in one partition."""

    start_offset: int
    """The first offset that is not finished, as stored: one write behind what the partition's leader has in memory."""
    leader_epoch: int | None
    """The leader epoch that was stored with it; None if none was."""
    lag: int | None
    """The exact number of records that are not finished; negative when the start lies beyond the end of the log.
    None if the broker does not send it (Kafka 4.1) or does not know it."""


@attrs.frozen
class ConfigSynonym:
    """One of the places where the value of a config may come from."""

    name: str
    value: str | None
    source: ConfigSource


@attrs.frozen
class ConfigEntry:
    """One config with its current value."""

    name: str
    value: str | None
    """None if the broker does not show it (sensitive) or there is none."""
    source: ConfigSource
    type: ConfigType
    is_sensitive: bool
    is_read_only: bool
    synonyms: tuple[ConfigSynonym, ...]
    """The places of the value; the first that has one counts. The default level is listed from Kafka 4.3 on."""


@attrs.frozen
class ConfigChange:
    """What `ensure_group_config` did with one config."""

    before: str | None
    """The value that was set on the group; None if none was."""
    after: str | None
    """The value that is set on the group now; None if the broker's default applies."""


@attrs.frozen
class ListedOffset:
    """The offset that was found for a partition."""

    offset: int
    timestamp_ms: int | None
    """The timestamp of the record at the offset, if the look-up was by time; otherwise None."""
    leader_epoch: int | None


@attrs.frozen
class PartitionDescription:
    """One partition of a topic."""

    partition: int
    leader: Node | None
    """None while it has no leader."""
    leader_epoch: int | None
    replicas: tuple[int, ...]
    """Node ids."""
    in_sync_replicas: tuple[int, ...]
    """Node ids."""


@attrs.frozen
class TopicDescription:
    """One topic."""

    name: str
    topic_id: UUID
    is_internal: bool
    partitions: tuple[PartitionDescription, ...]
    """Ordered by number."""
    authorized_operations: frozenset[AclOperation] | None
    """What the caller may do with the topic; None unless the call asked for it."""


@attrs.frozen
class ClusterDescription:
    """The cluster, as one of its brokers sees it."""

    cluster_id: str | None
    nodes: tuple[Node, ...]
    """Ordered by id."""
    controller: Node | None
    """The controller that the answering broker named; with KRaft any broker passes requests on to the real one."""
    share_version: int
    """The finalized level of the feature share.version. 0: share groups are off; 2: with dead-letter queues."""
    finalized_features: Mapping[str, int]
    """Feature name -> finalized level."""
    api_versions: Mapping[int, tuple[int, int]]
    """API key -> lowest and highest version that the answering broker offers."""


ConfigValue: TypeAlias = "str | int | bool"
"""The value to set a config to: text as it is, numbers in decimal, True and False as "true" and "false"."""

ShareGroupOffsets: TypeAlias = "dict[TopicPartition, SharePartitionOffset | KafkaShareError | None]"
"""For each partition the offset, or None while nothing is stored (nothing was finished yet, or there is no such
partition), or an error. Partitions that were asked for by name are always present."""
