"""Which handler answers which API. Read by `BrokerMachine`; `kafka_version` has the versions of these APIs."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from kafka_share.broker.api_keys import ApiKey
from kafka_share.broker.handlers import (
    acls,
    api_versions,
    classic_group,
    client_quotas,
    committed_offsets,
    configs,
    consumer_group,
    controllers,
    describe_cluster,
    fetch,
    find_coordinator,
    groups,
    leader_epochs,
    list_offsets,
    metadata,
    produce,
    producer_ids,
    producers,
    replicas,
    sasl,
    scram_users,
    share_fetch,
    share_group,
    share_offsets,
    share_state,
    telemetry,
    topic_partitions,
    topics,
    transaction_states,
    transactions,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kafka_share.broker.cluster import Cluster
    from kafka_share.broker.events import Message, RequestContext

    Handler: TypeAlias = Callable[[Cluster, RequestContext, Any, int], Message | None]

_OTHER_APIS: Final[Mapping[int, str]] = MappingProxyType(
    {
        34: "AlterReplicaLogDirs",
        38: "CreateDelegationToken",
        39: "RenewDelegationToken",
        40: "ExpireDelegationToken",
        41: "DescribeDelegationToken",
        64: "UnregisterBroker",
        80: "AddRaftVoter",
        81: "RemoveRaftVoter",
        88: "StreamsGroupHeartbeat",
        89: "StreamsGroupDescribe",
        93: "StreamsGroupTopologyDescriptionUpdate",
        94: "UnregisterController",
    }
)
"""What brokers of Kafka 4.4.0 offer to clients besides the APIs that `ApiKey` names."""

HANDLERS: Final[Mapping[ApiKey, Handler]] = MappingProxyType(
    {
        ApiKey.PRODUCE: produce.handle,
        ApiKey.FETCH: fetch.handle,
        ApiKey.LIST_OFFSETS: list_offsets.handle,
        ApiKey.METADATA: metadata.handle,
        ApiKey.OFFSET_COMMIT: committed_offsets.handle_commit,
        ApiKey.OFFSET_FETCH: committed_offsets.handle_fetch,
        ApiKey.FIND_COORDINATOR: find_coordinator.handle,
        ApiKey.JOIN_GROUP: classic_group.handle_join,
        ApiKey.HEARTBEAT: classic_group.handle_heartbeat,
        ApiKey.LEAVE_GROUP: classic_group.handle_leave,
        ApiKey.SYNC_GROUP: classic_group.handle_sync,
        ApiKey.DESCRIBE_GROUPS: classic_group.handle_describe,
        ApiKey.LIST_GROUPS: groups.handle_list,
        ApiKey.SASL_HANDSHAKE: sasl.handle_handshake,
        ApiKey.API_VERSIONS: api_versions.handle,
        ApiKey.CREATE_TOPICS: topics.handle_create,
        ApiKey.DELETE_TOPICS: topics.handle_delete,
        ApiKey.DELETE_RECORDS: topics.handle_delete_records,
        ApiKey.INIT_PRODUCER_ID: producer_ids.handle,
        ApiKey.OFFSET_FOR_LEADER_EPOCH: leader_epochs.handle,
        ApiKey.ADD_PARTITIONS_TO_TXN: transactions.handle_add_partitions,
        ApiKey.ADD_OFFSETS_TO_TXN: transactions.handle_add_offsets,
        ApiKey.END_TXN: transactions.handle_end,
        ApiKey.WRITE_TXN_MARKERS: producers.handle_markers,
        ApiKey.TXN_OFFSET_COMMIT: transactions.handle_commit_offsets,
        ApiKey.DESCRIBE_ACLS: acls.handle_describe,
        ApiKey.CREATE_ACLS: acls.handle_create,
        ApiKey.DELETE_ACLS: acls.handle_delete,
        ApiKey.DESCRIBE_CONFIGS: configs.handle_describe,
        ApiKey.ALTER_CONFIGS: configs.handle_replace,
        ApiKey.DESCRIBE_LOG_DIRS: replicas.handle_log_dirs,
        ApiKey.SASL_AUTHENTICATE: sasl.handle_authenticate,
        ApiKey.CREATE_PARTITIONS: topics.handle_create_partitions,
        ApiKey.DELETE_GROUPS: groups.handle_delete,
        ApiKey.ELECT_LEADERS: replicas.handle_elect,
        ApiKey.INCREMENTAL_ALTER_CONFIGS: configs.handle_alter,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS: replicas.handle_reassign,
        ApiKey.LIST_PARTITION_REASSIGNMENTS: replicas.handle_list_reassignments,
        ApiKey.OFFSET_DELETE: committed_offsets.handle_delete,
        ApiKey.DESCRIBE_CLIENT_QUOTAS: client_quotas.handle_describe,
        ApiKey.ALTER_CLIENT_QUOTAS: client_quotas.handle_alter,
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: scram_users.handle_describe,
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS: scram_users.handle_alter,
        ApiKey.DESCRIBE_QUORUM: controllers.handle_quorum,
        ApiKey.UPDATE_FEATURES: controllers.handle_features,
        ApiKey.DESCRIBE_CLUSTER: describe_cluster.handle,
        ApiKey.DESCRIBE_PRODUCERS: producers.handle_describe,
        ApiKey.DESCRIBE_TRANSACTIONS: transaction_states.handle_describe,
        ApiKey.LIST_TRANSACTIONS: transaction_states.handle_list,
        ApiKey.CONSUMER_GROUP_HEARTBEAT: consumer_group.handle_heartbeat,
        ApiKey.CONSUMER_GROUP_DESCRIBE: consumer_group.handle_describe,
        ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: telemetry.handle_subscriptions,
        ApiKey.PUSH_TELEMETRY: telemetry.handle_push,
        ApiKey.LIST_CONFIG_RESOURCES: configs.handle_list,
        ApiKey.DESCRIBE_TOPIC_PARTITIONS: topic_partitions.handle,
        ApiKey.SHARE_GROUP_HEARTBEAT: share_group.handle_heartbeat,
        ApiKey.SHARE_GROUP_DESCRIBE: share_group.handle_describe,
        ApiKey.SHARE_FETCH: share_fetch.handle_share_fetch,
        ApiKey.SHARE_ACKNOWLEDGE: share_fetch.handle_share_acknowledge,
        ApiKey.INITIALIZE_SHARE_GROUP_STATE: share_state.handle_initialize,
        ApiKey.READ_SHARE_GROUP_STATE: share_state.handle_read,
        ApiKey.WRITE_SHARE_GROUP_STATE: share_state.handle_write,
        ApiKey.DELETE_SHARE_GROUP_STATE: share_state.handle_delete,
        ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: share_state.handle_read_summary,
        ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: share_offsets.handle_describe,
        ApiKey.ALTER_SHARE_GROUP_OFFSETS: share_offsets.handle_alter,
        ApiKey.DELETE_SHARE_GROUP_OFFSETS: share_offsets.handle_delete,
    }
)


def not_served() -> dict[int, str]:
    """What a Kafka offers to clients and this broker does not: key -> name."""
    known = {int(key): key.label for key in ApiKey} | dict(_OTHER_APIS)
    return {key: known[key] for key in sorted(known) if key not in HANDLERS}
