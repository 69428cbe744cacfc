"""DescribeQuorum (55) and UpdateFeatures (57): what the controllers of a Kafka do.

- This broker has no controllers of its own: the running node with the lowest id stands for the one, and the others
  observe it. There is one quorum, that of `__cluster_metadata`-0; another partition is UNKNOWN_TOPIC_OR_PARTITION. Its
  log is as long as the number of changes of topics and features.
- UpdateFeatures changes all of its features or none. Up to version 1 the answer lists each feature, from version 2 on
  none; one that cannot be changed fails the request with INVALID_UPDATE_VERSION. Version 0 can say only whether a
  downgrade is allowed.

Versions: DescribeQuorum (55) 0 to 2, UpdateFeatures (57) 0 to 2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from uuid import UUID

from kafka_share.broker.features import UpgradeType
from kafka_share.broker.refusals import Refusal
from kafka_share.errors import UnknownTopicOrPartitionError
from kafka_share.protocol.controllers import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

if TYPE_CHECKING:
    from kafka_share.broker.cluster import Cluster
    from kafka_share.broker.events import RequestContext

_METADATA: Final = "__cluster_metadata"
_NODES_SINCE_VERSION: Final = 2
_TYPES_SINCE_VERSION: Final = 1
_QUORUM_EPOCH: Final = 1
_Topic = DescribeQuorumResponse.TopicData
_Partition = DescribeQuorumResponse.TopicData.PartitionData
_Node = DescribeQuorumResponse.Node


def handle_quorum(
    cluster: Cluster, context: RequestContext, request: DescribeQuorumRequest, now_ms: int
) -> DescribeQuorumResponse:
    topics = [
        _Topic(
            topic_name=topic.topic_name,
            partitions=[
                _quorum(cluster, context, topic.topic_name, one.partition_index, now_ms) for one in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    known = context.api_version >= _NODES_SINCE_VERSION and any(
        one.error_code == 0 for topic in topics for one in topic.partitions
    )
    controller = cluster.living_nodes()[0]
    listener = _Node.Listener(name="BROKER", host=controller.host, port=controller.port)
    nodes = [_Node(node_id=controller.id, listeners=[listener])] if known else []
    return DescribeQuorumResponse(error_code=0, error_message=None, topics=topics, nodes=nodes)


def _quorum(cluster: Cluster, context: RequestContext, topic: str, index: int, now_ms: int) -> _Partition:
    if (topic, index) != (_METADATA, 0):
        refusal = Refusal(UnknownTopicOrPartitionError, "this partition has no quorum")
        return _Partition(partition_index=index, error_code=refusal.code, error_message=refusal.message)
    offset = cluster.topics.version + cluster.features.epoch
    controller, *observers = [
        _Partition.ReplicaState(
            replica_id=node.id,
            replica_directory_id=UUID(int=node.id) if context.api_version >= _NODES_SINCE_VERSION else None,
            log_end_offset=offset,
            last_fetch_timestamp=now_ms,
            last_caught_up_timestamp=now_ms,
        )
        for node in cluster.living_nodes()
    ]
    return _Partition(
        partition_index=0,
        error_message=None,
        leader_id=controller.replica_id,
        leader_epoch=_QUORUM_EPOCH,
        high_watermark=offset,
        current_voters=[controller],
        observers=observers,
    )


def handle_features(
    cluster: Cluster, context: RequestContext, request: UpdateFeaturesRequest, now_ms: int
) -> UpdateFeaturesResponse:
    try:
        for update in request.feature_updates:
            cluster.features.require(update.feature, update.max_version_level, _upgrade_type(context, update))
    except Refusal as refusal:
        return UpdateFeaturesResponse(error_code=refusal.code, error_message=refusal.message, results=[])
    if not request.validate_only:
        for update in request.feature_updates:
            if cluster.features.level(update.feature) != update.max_version_level:
                cluster.set_feature(update.feature, update.max_version_level)
    result = UpdateFeaturesResponse.UpdatableFeatureResult
    return UpdateFeaturesResponse(
        error_code=0,
        error_message=None,
        results=[result(feature=update.feature, error_message=None) for update in request.feature_updates],
    )


def _upgrade_type(context: RequestContext, update: UpdateFeaturesRequest.FeatureUpdateKey) -> int:
    if context.api_version >= _TYPES_SINCE_VERSION:
        return int(update.upgrade_type)
    return UpgradeType.SAFE_DOWNGRADE if update.allow_downgrade else UpgradeType.UPGRADE
