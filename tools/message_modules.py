"""Which messages stand in which module of `kafka_share.protocol`, and where our reading differs from Kafka's schemas.

Read by `generate_messages`.
"""

from __future__ import annotations

from typing import Any, Final

MODULES: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    "handshake": (
        "The messages that a connection begins with: versions (API 18) and SASL (17 and 36).",
        ("ApiVersions", "SaslAuthenticate", "SaslHandshake"),
    ),
    "cluster": (
        "The messages by which clients find brokers, leaders and coordinators (APIs 3, 10, 60 and 75).",
        ("DescribeCluster", "DescribeTopicPartitions", "FindCoordinator", "Metadata"),
    ),
    "topics": (
        "The messages by which admins create and delete topics, partitions and records (APIs 19 to 21 and 37).",
        ("CreatePartitions", "CreateTopics", "DeleteRecords", "DeleteTopics"),
    ),
    "configs": (
        "The messages by which admins see and change settings (APIs 32, 33, 44 and 74).",
        ("AlterConfigs", "DescribeConfigs", "IncrementalAlterConfigs", "ListConfigResources"),
    ),
    "quotas": (
        "The messages by which admins see and change the quotas of clients (APIs 48 and 49).",
        ("AlterClientQuotas", "DescribeClientQuotas"),
    ),
    "controllers": (
        "The messages about what the controllers of a cluster keep: their quorum (API 55) and its features (57).",
        ("DescribeQuorum", "UpdateFeatures"),
    ),
    "replicas": (
        "The messages by which admins see and move the replicas of partitions (APIs 35, 43, 45 and 46).",
        ("AlterPartitionReassignments", "DescribeLogDirs", "ElectLeaders", "ListPartitionReassignments"),
    ),
    "groups": (
        "The messages by which admins list, describe and delete groups of any type (APIs 15, 16 and 42).",
        ("DeleteGroups", "DescribeGroups", "ListGroups"),
    ),
    "scram_users": (
        "The messages by which admins see and change the users of SCRAM (APIs 50 and 51).",
        ("AlterUserScramCredentials", "DescribeUserScramCredentials"),
    ),
    "acls": (
        "The messages by which admins see and change access control lists (APIs 29 to 31).",
        ("CreateAcls", "DeleteAcls", "DescribeAcls"),
    ),
    "classic_group": (
        "The messages between members of classic groups and their coordinator (APIs 11 to 14).",
        ("Heartbeat", "JoinGroup", "LeaveGroup", "SyncGroup"),
    ),
    "consumer_group": (
        "The messages between members, admins and the coordinator of consumer groups (KIP-848): APIs 68 and 69.",
        ("ConsumerGroupHeartbeat", "ConsumerGroupDescribe"),
    ),
    "committed_offsets": (
        "The messages about the offsets that consumer groups commit (APIs 8, 9 and 47).",
        ("OffsetCommit", "OffsetDelete", "OffsetFetch"),
    ),
    "logs": (
        "The messages that write to and read from the logs of partitions (APIs 0 to 2 and 23).",
        ("Fetch", "ListOffsets", "OffsetForLeaderEpoch", "Produce"),
    ),
    "transactions": (
        "The messages of producers with an id, and of their transactions (APIs 22, 24 to 28).",
        ("AddOffsetsToTxn", "AddPartitionsToTxn", "EndTxn", "InitProducerId", "TxnOffsetCommit", "WriteTxnMarkers"),
    ),
    "producers": (
        "The messages by which admins look at producers and transactions (APIs 61, 65 and 66).",
        ("DescribeProducers", "DescribeTransactions", "ListTransactions"),
    ),
    "share_group": (
        "The messages between members, admins and the group coordinator: heartbeat (API 76) and describe (77).",
        ("ShareGroupHeartbeat", "ShareGroupDescribe"),
    ),
    "share_fetch": ("The messages that acquire records from a partition leader (API 78).", ("ShareFetch",)),
    "share_acknowledge": (
        "The messages that acknowledge records to a partition leader (API 79).",
        ("ShareAcknowledge",),
    ),
    "share_state": (
        "The messages between brokers and the share coordinator (APIs 83 to 87).",
        (
            "InitializeShareGroupState", "ReadShareGroupState", "WriteShareGroupState", "DeleteShareGroupState",
            "ReadShareGroupStateSummary",
        ),
    ),
    "share_offsets": (
        "The messages by which admins see and change the start offsets of share groups (APIs 90 to 92).",
        ("DescribeShareGroupOffsets", "AlterShareGroupOffsets", "DeleteShareGroupOffsets"),
    ),
    "telemetry": (
        "The messages by which brokers ask clients for metrics, and get them (KIP-714): APIs 71 and 72.",
        ("GetTelemetrySubscriptions", "PushTelemetry"),
    ),
}  # fmt: skip
"""Module -> its docstring and its APIs; each has a request and a response."""

RECORD_MODULES: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    "group_records": (
        "The records by which the group coordinator keeps groups and their offsets, in `__consumer_offsets`.",
        (
            "OffsetCommit", "GroupMetadata", "ConsumerGroupMetadata", "ConsumerGroupMemberMetadata",
            "ConsumerGroupTargetAssignmentMetadata", "ConsumerGroupTargetAssignmentMember",
            "ConsumerGroupCurrentMemberAssignment", "ConsumerGroupRegularExpression", "ShareGroupMemberMetadata",
            "ShareGroupMetadata", "ShareGroupTargetAssignmentMetadata", "ShareGroupTargetAssignmentMember",
            "ShareGroupCurrentMemberAssignment", "ShareGroupStatePartitionMetadata",
        ),
    ),
    "share_state_records": (
        "The records by which the share coordinator keeps share state, in `__share_group_state`.",
        ("ShareSnapshot", "ShareUpdate"),
    ),
}  # fmt: skip
"""Module -> its docstring and its records; each has a key and a value."""

_OPERATIONS: Final = {"name": "AuthorizedOperations", "type": "bitfield", "default": "null"}

CHANGES: Final[dict[tuple[str, str], dict[str, Any]]] = {
    ("MetadataResponse", "ClusterAuthorizedOperations"): _OPERATIONS,
    ("MetadataResponse", "TopicAuthorizedOperations"): _OPERATIONS,
    ("DescribeClusterResponse", "ClusterAuthorizedOperations"): _OPERATIONS,
    ("DescribeGroupsResponse", "AuthorizedOperations"): _OPERATIONS,
    ("DescribeTopicPartitionsResponse", "TopicAuthorizedOperations"): _OPERATIONS,
    # Null is the usual value; the schemas name none.
    ("CreatePartitionsRequest", "Assignments"): {"default": "null"},
    ("ListOffsetsRequest", "ReplicaId"): {"default": "-1"},
}
"""(message, field) -> what is declared in place of what the schema says."""
