"""Which messages stand in which module of `kafka_share.protocol`, and where our reading differs from Kafka's schemas.

Read by `generate_messages`.
"""

from __future__ import annotations

from typing import Any, Final

MODULES: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    "classic": (
        "The messages that share groups have in common with the rest of Kafka.\n\n"
        "The all-zero UUID is None, and authorized operations are a set of operation codes, or None if they were not\n"
        "asked for.",
        (
            "AddOffsetsToTxn", "AddPartitionsToTxn", "ApiVersions", "CreatePartitions", "CreateTopics", "DeleteGroups",
            "DeleteRecords", "DeleteTopics", "DescribeCluster", "DescribeConfigs", "DescribeGroups", "EndTxn", "Fetch",
            "FindCoordinator", "Heartbeat", "IncrementalAlterConfigs", "InitProducerId", "JoinGroup", "LeaveGroup",
            "ListConfigResources", "ListGroups", "ListOffsets", "Metadata", "OffsetCommit", "OffsetDelete",
            "OffsetFetch", "OffsetForLeaderEpoch", "Produce", "SaslAuthenticate", "SaslHandshake", "SyncGroup",
            "TxnOffsetCommit",
        ),
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

_OPERATIONS: Final = {"name": "AuthorizedOperations", "type": "bitfield", "default": "null"}

CHANGES: Final[dict[tuple[str, str], dict[str, Any]]] = {
    ("MetadataResponse", "ClusterAuthorizedOperations"): _OPERATIONS,
    ("MetadataResponse", "TopicAuthorizedOperations"): _OPERATIONS,
    ("DescribeClusterResponse", "ClusterAuthorizedOperations"): _OPERATIONS,
    ("DescribeGroupsResponse", "AuthorizedOperations"): _OPERATIONS,
    # Null is the usual value; the schemas name none.
    ("CreatePartitionsRequest", "Assignments"): {"default": "null"},
    ("ListOffsetsRequest", "ReplicaId"): {"default": "-1"},
}
"""(message, field) -> what is declared in place of what the schema says."""
