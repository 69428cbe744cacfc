"""What differs between the Kafka versions that the reference broker can be: the one place where that is written down.

`behaviour_of("4.1")` is a `Behaviour`, one field per difference; machines and handlers get the value and ask for the
field, and nothing compares version numbers. The defaults are those of Kafka 4.3, the version that the broker is unless
it is told otherwise. Data only.

Source: Kafka's release branches and what brokers 4.1.2, 4.2.1, 4.3.1 and 4.4.0 answered to the same requests;
`tests/conformance/test_wire_probe.py` compares line by line.
"""

from __future__ import annotations

import enum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import attrs

from kafka_share.broker.api_keys import ApiKey
from kafka_share.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping


class NegativeEpochs(enum.Enum):
    """What the share coordinator makes of a leader or state epoch below 0 (API 83 to 87)."""

    FENCED_IN_READS = enum.auto()
    """A read compares -1 like any other leader epoch; a write takes -1 for "do not compare"."""
    NOT_COMPARED = enum.auto()
    """-1 switches the comparison off, in reads too (KAFKA-20694)."""
    REFUSED = enum.auto()
    """INVALID_REQUEST."""


_SINCE_4_4: Final = frozenset(
    (
        "errors.deadletterqueue.topic.name",
        "errors.deadletterqueue.copy.record.enable",
        "errors.deadletterqueue.group.enable",
        "errors.deadletterqueue.auto.create.topics.enable",
        "errors.deadletterqueue.topic.name.prefix",
    )
)


@attrs.frozen(kw_only=True)
class Behaviour:
    """How a Kafka of one minor version behaves. The defaults are Kafka 4.3."""

    version: str

    # ---- the protocol

    max_share_version: int = 1
    """The highest level of the feature share.version: 2 brings dead-letter queues (KIP-1191)."""
    api_versions: Mapping[ApiKey, tuple[int, int]] = MappingProxyType({})
    """API -> lowest and highest version, where they are not those of 4.3."""
    share_keys_may_hold_colons: bool = True
    """FindCoordinator of share state reads its key from the right, so a group id may hold colons (KAFKA-20183)."""
    names_piggybacked_refusals: bool = True
    """A ShareFetch's answer carries a text beside an acknowledge error code."""

    # ---- configuration

    absent_config_keys: frozenset[str] = _SINCE_4_4
    """Keys of brokers, groups and topics that came later."""
    describes_broker_layers: bool = True
    """DescribeConfigs of a group shows where a value that is not the group's own comes from. Without: it is the
    default, under the group key's own name."""

    # ---- members

    first_group_epoch: int = 1
    """Group and assignment epoch of a new group; its first member gets the next one (KAFKA-20268)."""
    max_member_id_chars: int | None = 36
    """None: a heartbeat may name a member of any length."""
    rejoins_at_any_epoch: bool = True
    """A member that is known may join again with epoch 0. Without: only if 0 is its epoch or the one before, else
    FENCED_MEMBER_EPOCH (KAFKA-19233)."""
    evens_out_copies: bool = True
    """Where partitions are shared, members own all copies together, in sizes that differ by one at most. Without:
    every member owns the whole part of that number, so that some partitions have fewer owners."""
    bumps_while_state_is_unassigned: bool = False
    """Each heartbeat moves the epoch of a share group while partitions with share state are assigned to nobody, also
    those of topics that nobody subscribes to any more."""
    assigns_empty_groups: bool = False
    """When the last member leaves, the assignment epoch follows the group epoch at once."""
    revokes_unsubscribed: bool = True
    """A member of a consumer group that no longer subscribes to a topic has to give its partitions back at once.
    Without: when the next target is computed."""
    bumps_for_unresolved_patterns: bool = False
    """A new regular expression moves the epoch of a consumer group before it is known which topics it stands for."""
    commits_at_assignment_epochs: bool = True
    """A member of a consumer group may commit with an older epoch for partitions that it has had since then.
    Without: only with its present epoch."""
    later_partitions_start_at_zero: bool = False
    """Partitions that are added to a topic with share state start at 0, not by the reset policy (KAFKA-20742)."""

    # ---- share sessions

    member_ids_are_uuids: bool = False
    """ShareFetch and ShareAcknowledge read the member id as base64 of 16 bytes; another one is UNKNOWN_SERVER_ERROR."""
    refuses_null_ids: bool = True
    """A null group or member id is INVALID_REQUEST. Without: UNKNOWN_SERVER_ERROR."""
    old_connections_end_sessions: bool = False
    """A connection's end also ends the session that its member has opened on another one since (KAFKA-19950)."""
    session_end_takes_deliveries_back: bool = False
    """What a session's end releases counts one delivery less again (KAFKA-19972)."""

    # ---- fetching

    unknown_topics_fail_fetches: bool = True
    """A topic id that no topic has fails the whole ShareFetch with UNKNOWN_SERVER_ERROR. Without: UNKNOWN_TOPIC_ID for
    its partitions, or UNKNOWN_TOPIC_OR_PARTITION if the topic was deleted while in the session."""
    zero_limits_end_fetches: bool = True
    """MaxRecords 0 or MaxBytes 0 is answered before anything is loaded. Without: the partitions are loaded and listed,
    with UNKNOWN_SERVER_ERROR for MaxBytes 0."""
    sees_pending_releases: bool = False
    """A record whose release waits for its write is taken for available: fetches look at it and acquire nothing, so a
    waiting ShareFetch is woken by a release and answered empty."""
    failed_writes_lose_locks: bool = False
    """A lock whose time passes while the new state of its record is being stored never ends if that fails: the record
    stays acquired until the session ends or it is acknowledged again."""
    throttles_deliveries: bool = True
    """Records that were delivered often are given out in ever smaller portions (KAFKA-17541)."""
    joins_acquired_offsets: bool = True
    """Neighbouring offsets with states of their own are acquired as one range if their counts agree."""

    # ---- stored state

    alters_offsets: bool = True
    """AlterShareGroupOffsets works. Without: it succeeds and does nothing, with entries for unknown topics only."""
    checks_empty_deletions: bool = True
    """DeleteShareGroupOffsets without topics asks for the group like any other. Without: it succeeds."""
    negative_epochs: NegativeEpochs = NegativeEpochs.NOT_COMPARED
    writes_raise_epochs: bool = False
    """A write with a higher leader or state epoch raises the stored one."""
    start_only_rises: bool = False
    """A write with a lower start offset leaves the stored start and delivery complete count."""
    refuses_reversed_batches: bool = False
    """A written batch that ends before it begins is UNKNOWN_SERVER_ERROR."""

    # ---- quotas

    quotas_are_finite: bool = False
    """NaN and infinity as the value of a client quota are INVALID_REQUEST."""


_SINCE_4_3: Final = _SINCE_4_4 | frozenset(
    (
        "share.delivery.count.limit",
        "share.partition.max.record.locks",
        "share.assignment.interval.ms",
        "share.renew.acknowledge.enable",
        "group.share.min.delivery.count.limit",
        "group.share.max.delivery.count.limit",
        "group.share.min.partition.max.record.locks",
        "group.share.max.partition.max.record.locks",
        "group.share.assignment.interval.ms",
        "group.share.min.assignment.interval.ms",
        "group.share.max.assignment.interval.ms",
        "consumer.assignment.interval.ms",
        "group.consumer.assignment.interval.ms",
        "group.consumer.min.assignment.interval.ms",
        "group.consumer.max.assignment.interval.ms",
    )
)

KAFKA_4_1: Final = Behaviour(
    version="4.1",
    api_versions=MappingProxyType(
        {
            ApiKey.LIST_OFFSETS: (1, 10),
            ApiKey.OFFSET_COMMIT: (2, 9),
            ApiKey.OFFSET_FETCH: (1, 9),
            ApiKey.WRITE_TXN_MARKERS: (1, 1),
            ApiKey.DESCRIBE_LOG_DIRS: (1, 4),
            ApiKey.SHARE_FETCH: (1, 1),
            ApiKey.SHARE_ACKNOWLEDGE: (1, 1),
            ApiKey.WRITE_SHARE_GROUP_STATE: (0, 0),
            ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: (0, 0),
            ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: (0, 0),
        }
    ),
    share_keys_may_hold_colons=False,
    names_piggybacked_refusals=False,
    absent_config_keys=_SINCE_4_3,
    describes_broker_layers=False,
    bumps_while_state_is_unassigned=True,
    first_group_epoch=0,
    max_member_id_chars=None,
    rejoins_at_any_epoch=False,
    evens_out_copies=False,
    revokes_unsubscribed=False,
    bumps_for_unresolved_patterns=True,
    commits_at_assignment_epochs=False,
    member_ids_are_uuids=True,
    refuses_null_ids=False,
    old_connections_end_sessions=True,
    session_end_takes_deliveries_back=True,
    zero_limits_end_fetches=False,
    sees_pending_releases=True,
    failed_writes_lose_locks=True,
    throttles_deliveries=False,
    joins_acquired_offsets=False,
    alters_offsets=False,
    checks_empty_deletions=False,
    negative_epochs=NegativeEpochs.FENCED_IN_READS,
    writes_raise_epochs=True,
)
KAFKA_4_2: Final = Behaviour(
    version="4.2",
    api_versions=MappingProxyType({ApiKey.DESCRIBE_LOG_DIRS: (1, 4)}),
    absent_config_keys=_SINCE_4_3,
    describes_broker_layers=False,
    first_group_epoch=0,
    commits_at_assignment_epochs=False,
    refuses_null_ids=False,
    negative_epochs=NegativeEpochs.FENCED_IN_READS,
)
KAFKA_4_3: Final = Behaviour(version="4.3")
KAFKA_4_4: Final = Behaviour(
    version="4.4",
    api_versions=MappingProxyType(
        {ApiKey.API_VERSIONS: (0, 5), ApiKey.DELETE_GROUPS: (0, 3), ApiKey.TXN_OFFSET_COMMIT: (0, 6)}
    ),
    max_share_version=2,
    absent_config_keys=frozenset(),
    assigns_empty_groups=True,
    later_partitions_start_at_zero=True,
    unknown_topics_fail_fetches=False,
    negative_epochs=NegativeEpochs.REFUSED,
    start_only_rises=True,
    refuses_reversed_batches=True,
    quotas_are_finite=True,
)

BEHAVIOURS: Final[Mapping[str, Behaviour]] = MappingProxyType(
    {behaviour.version: behaviour for behaviour in (KAFKA_4_1, KAFKA_4_2, KAFKA_4_3, KAFKA_4_4)}
)
"""Minor version -> behaviour."""
DEFAULT_VERSION: Final = KAFKA_4_3.version


def behaviour_of(version: str) -> Behaviour:
    """The behaviour of a minor version, such as "4.3". Raises `ConfigurationError` for one that is not there."""
    try:
        return BEHAVIOURS[version]
    except KeyError:
        raise ConfigurationError(f"the broker can be Kafka {', '.join(BEHAVIOURS)}, not {version!r}") from None


_VERSIONS_OF_4_3: Final[Mapping[ApiKey, tuple[int, int]]] = MappingProxyType(
    {
        ApiKey.PRODUCE: (0, 13),
        ApiKey.FETCH: (4, 18),
        ApiKey.LIST_OFFSETS: (1, 11),
        ApiKey.METADATA: (0, 13),
        ApiKey.OFFSET_COMMIT: (2, 10),
        ApiKey.OFFSET_FETCH: (1, 10),
        ApiKey.FIND_COORDINATOR: (0, 6),
        ApiKey.JOIN_GROUP: (0, 9),
        ApiKey.HEARTBEAT: (0, 4),
        ApiKey.LEAVE_GROUP: (0, 5),
        ApiKey.SYNC_GROUP: (0, 5),
        ApiKey.DESCRIBE_GROUPS: (0, 6),
        ApiKey.LIST_GROUPS: (0, 5),
        ApiKey.SASL_HANDSHAKE: (0, 1),
        ApiKey.API_VERSIONS: (0, 4),
        ApiKey.CREATE_TOPICS: (2, 7),
        ApiKey.DELETE_TOPICS: (1, 6),
        ApiKey.DELETE_RECORDS: (0, 2),
        ApiKey.INIT_PRODUCER_ID: (0, 5),
        ApiKey.OFFSET_FOR_LEADER_EPOCH: (2, 4),
        ApiKey.ADD_PARTITIONS_TO_TXN: (0, 5),
        ApiKey.ADD_OFFSETS_TO_TXN: (0, 4),
        ApiKey.END_TXN: (0, 5),
        ApiKey.WRITE_TXN_MARKERS: (1, 2),
        ApiKey.TXN_OFFSET_COMMIT: (0, 5),
        ApiKey.DESCRIBE_ACLS: (1, 3),
        ApiKey.CREATE_ACLS: (1, 3),
        ApiKey.DELETE_ACLS: (1, 3),
        ApiKey.DESCRIBE_CONFIGS: (1, 4),
        ApiKey.ALTER_CONFIGS: (0, 2),
        ApiKey.DESCRIBE_LOG_DIRS: (1, 5),
        ApiKey.SASL_AUTHENTICATE: (0, 2),
        ApiKey.CREATE_PARTITIONS: (0, 3),
        ApiKey.DELETE_GROUPS: (0, 2),
        ApiKey.ELECT_LEADERS: (0, 2),
        ApiKey.INCREMENTAL_ALTER_CONFIGS: (0, 1),
        ApiKey.ALTER_PARTITION_REASSIGNMENTS: (0, 1),
        ApiKey.LIST_PARTITION_REASSIGNMENTS: (0, 0),
        ApiKey.OFFSET_DELETE: (0, 0),
        ApiKey.DESCRIBE_CLIENT_QUOTAS: (0, 1),
        ApiKey.ALTER_CLIENT_QUOTAS: (0, 1),
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: (0, 0),
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS: (0, 0),
        ApiKey.DESCRIBE_QUORUM: (0, 2),
        ApiKey.UPDATE_FEATURES: (0, 2),
        ApiKey.DESCRIBE_CLUSTER: (0, 2),
        ApiKey.DESCRIBE_PRODUCERS: (0, 0),
        ApiKey.DESCRIBE_TRANSACTIONS: (0, 0),
        ApiKey.LIST_TRANSACTIONS: (0, 2),
        ApiKey.CONSUMER_GROUP_HEARTBEAT: (0, 1),
        ApiKey.CONSUMER_GROUP_DESCRIBE: (0, 1),
        ApiKey.LIST_CONFIG_RESOURCES: (0, 1),
        ApiKey.DESCRIBE_TOPIC_PARTITIONS: (0, 0),
        ApiKey.SHARE_GROUP_HEARTBEAT: (1, 1),
        ApiKey.SHARE_GROUP_DESCRIBE: (1, 1),
        ApiKey.SHARE_FETCH: (1, 2),
        ApiKey.SHARE_ACKNOWLEDGE: (1, 2),
        ApiKey.INITIALIZE_SHARE_GROUP_STATE: (0, 0),
        ApiKey.READ_SHARE_GROUP_STATE: (0, 0),
        ApiKey.WRITE_SHARE_GROUP_STATE: (0, 1),
        ApiKey.DELETE_SHARE_GROUP_STATE: (0, 0),
        ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: (0, 1),
        ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: (0, 1),
        ApiKey.ALTER_SHARE_GROUP_OFFSETS: (0, 0),
        ApiKey.DELETE_SHARE_GROUP_OFFSETS: (0, 0),
    }
)
"""The lowest and highest version that Kafka 4.3 offers of the APIs that this broker has."""

_CLIENT_METRICS_VERSIONS: Final[Mapping[ApiKey, tuple[int, int]]] = MappingProxyType(
    {ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: (0, 0), ApiKey.PUSH_TELEMETRY: (0, 0)}
)
"""Offered only while somebody wants the clients' metrics, as by a Kafka with a plug-in that receives them."""


def advertised_versions(
    behaviour: Behaviour = KAFKA_4_3, *, with_client_metrics: bool = False
) -> dict[int, tuple[int, int]]:
    """API key -> lowest and highest version: what ApiVersions answers and what the server accepts."""
    extra = _CLIENT_METRICS_VERSIONS if with_client_metrics else {}
    versions = {**_VERSIONS_OF_4_3, **behaviour.api_versions, **extra}
    return {int(key): versions[key] for key in sorted(versions)}
