"""The operation that describes the cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafka_share._version import VERSION
from kafka_share.admin_values import (
    ClusterDescription,
)
from kafka_share.core.admin.conversation import Call, Conversation, Operation
from kafka_share.core.admin.routing import ask_any, ask_metadata, nodes_of
from kafka_share.errors import (
    error_for_code,
)
from kafka_share.protocol.cluster import MetadataRequest
from kafka_share.protocol.handshake import ApiVersionsRequest
from kafka_share.protocol.versions import ranges_of

if TYPE_CHECKING:
    pass

SHARE_VERSION: Final = "share.version"
_WITH_FEATURES: Final = 3


def describe_cluster() -> Operation[ClusterDescription]:
    """What one broker says of the cluster, and which features and API versions a broker offers."""
    return _describe_cluster


def _describe_cluster(call: Call) -> Conversation[ClusterDescription]:
    metadata = yield from ask_metadata(call, MetadataRequest(topics=[], allow_auto_topic_creation=False))
    ask = ApiVersionsRequest(client_software_name="kafka-share", client_software_version=VERSION)
    offered = yield from ask_any(call, ask, _WITH_FEATURES)
    error = error_for_code(offered.error_code)
    if error is not None:
        raise error
    nodes = nodes_of(metadata)
    features = {feature.name: feature.max_version_level for feature in offered.finalized_features}
    return ClusterDescription(
        cluster_id=metadata.cluster_id,
        nodes=nodes,
        controller=next((node for node in nodes if node.id == metadata.controller_id), None),
        share_version=features.get(SHARE_VERSION, 0),
        finalized_features=dict(sorted(features.items())),
        api_versions=dict(sorted(ranges_of(offered).items())),
    )
