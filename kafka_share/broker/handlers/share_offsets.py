"""DescribeShareGroupOffsets (90), AlterShareGroupOffsets (91), DeleteShareGroupOffsets (92).

- Describe shows what is *stored*, which lags one write behind the share partition in memory. Topics null means every
  initialised partition; a group that does not exist has none, and is no error. A topic or partition without state has
  start offset -1 and lag -1. Lag = end - start - delivery complete count.
- Alter needs an empty group and makes it if there is none; the state of the named partitions starts anew at the offset,
  whatever the log holds. A share partition in memory is not told. Kafka 4.1 only says that it has done it.
- Delete needs an empty group; a topic without state is UNKNOWN_TOPIC_OR_PARTITION. Entries in error have no topic id.
- Without the feature share.version: UNSUPPORTED_VERSION.

Versions: DescribeShareGroupOffsets (90) 0 to 1, AlterShareGroupOffsets (91) 0, DeleteShareGroupOffsets (92) 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka_share.broker.refusals import Refusal
from kafka_share.broker.share.share_coordinator import StateSummary
from kafka_share.broker.share.share_groups import require_empty
from kafka_share.broker.share.state_records import StateKey
from kafka_share.errors import InvalidGroupIdError, UnknownTopicOrPartitionError
from kafka_share.protocol.share_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafka_share.broker.cluster import Cluster
    from kafka_share.broker.events import RequestContext
    from kafka_share.broker.share.share_group import ShareGroup
    from kafka_share.broker.storage.topics import Topic

_DescribedGroup = DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponseGroup
_DescribedTopic = _DescribedGroup.DescribeShareGroupOffsetsResponseTopic
_DescribedPartition = _DescribedTopic.DescribeShareGroupOffsetsResponsePartition
_AlteredTopic = AlterShareGroupOffsetsResponse.AlterShareGroupOffsetsResponseTopic
_AlteredPartition = _AlteredTopic.AlterShareGroupOffsetsResponsePartition
_DeletedTopic = DeleteShareGroupOffsetsResponse.DeleteShareGroupOffsetsResponseTopic


def _coordinated(cluster: Cluster, context: RequestContext, group_id: str) -> None:
    """Raises `Refusal` unless this node may answer for the group."""
    cluster.require_share_groups()
    cluster.require_coordinator(context, group_id)


# ---- DescribeShareGroupOffsets


def handle_describe(
    cluster: Cluster, context: RequestContext, request: DescribeShareGroupOffsetsRequest, now_ms: int
) -> DescribeShareGroupOffsetsResponse:
    return DescribeShareGroupOffsetsResponse(groups=[_describe_group(cluster, context, one) for one in request.groups])


def _describe_group(
    cluster: Cluster,
    context: RequestContext,
    asked: DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestGroup,
) -> _DescribedGroup:
    try:
        _coordinated(cluster, context, asked.group_id)
    except Refusal as refusal:
        return _DescribedGroup(
            group_id=asked.group_id, topics=[], error_code=refusal.code, error_message=refusal.message
        )
    topics = _describe_all(cluster, asked.group_id) if asked.topics is None else _describe(cluster, asked)
    return _DescribedGroup(group_id=asked.group_id, topics=topics, error_code=0, error_message=None)


def _describe_all(cluster: Cluster, group_id: str) -> list[_DescribedTopic]:
    group = cluster.share_groups.group(group_id)
    if group is None:
        return []
    topics = []
    for topic_id, indexes in group.initialised.items():
        topic = cluster.topics.by_id(topic_id)
        if topic is not None:
            topics.append(_described_topic(cluster, group_id, topic, sorted(indexes)))
    return topics


def _describe(
    cluster: Cluster, asked: DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestGroup
) -> list[_DescribedTopic]:
    wanted: dict[str, list[int]] = {}
    for one in asked.topics or ():
        wanted.setdefault(one.topic_name, []).extend(one.partitions)
    topics = []
    for name, indexes in wanted.items():
        topic = cluster.topics.by_name(name)
        if topic is None:
            nothing = [_described_partition(index, -1, 0, -1) for index in indexes]
            topics.append(_DescribedTopic(topic_name=name, topic_id=None, partitions=nothing))
        else:
            topics.append(_described_topic(cluster, asked.group_id, topic, indexes))
    return topics


def _described_topic(cluster: Cluster, group_id: str, topic: Topic, indexes: Sequence[int]) -> _DescribedTopic:
    partitions = []
    for index in indexes:
        summary = _summary(cluster, StateKey(group_id, topic.id, index))
        lag = -1
        partition = topic.partition(index)
        if partition is not None and summary.start_offset != -1 and summary.delivery_complete_count != -1:
            lag = partition.log.high_watermark - summary.start_offset - summary.delivery_complete_count
        partitions.append(_described_partition(index, summary.start_offset, summary.leader_epoch, lag))
    return _DescribedTopic(topic_name=topic.name, topic_id=topic.id, partitions=partitions)


def _summary(cluster: Cluster, key: StateKey) -> StateSummary:
    try:
        return cluster.share_states.summary(key)
    except Refusal:
        # A partition that cannot exist is described like one without state, and without an error.
        return StateSummary()


def _described_partition(index: int, start_offset: int, leader_epoch: int, lag: int) -> _DescribedPartition:
    return _DescribedPartition(
        partition_index=index,
        start_offset=start_offset,
        leader_epoch=leader_epoch,
        lag=lag,
        error_code=0,
        error_message=None,
    )


# ---- AlterShareGroupOffsets


def handle_alter(
    cluster: Cluster, context: RequestContext, request: AlterShareGroupOffsetsRequest, now_ms: int
) -> AlterShareGroupOffsetsResponse:
    try:
        _coordinated(cluster, context, request.group_id)
        if not cluster.behaviour.alters_offsets:
            return _alter_nothing(cluster, request)
        if not request.group_id:
            raise Refusal(InvalidGroupIdError, "a group id cannot be empty")
        group = cluster.share_groups.get_or_create(request.group_id)
        require_empty(group)
    except Refusal as refusal:
        return AlterShareGroupOffsetsResponse(error_code=refusal.code, error_message=refusal.message, responses=[])
    # Kafka refuses the topics that it does not know before it asks the coordinator for the others.
    asked = sorted(request.topics, key=lambda topic: cluster.topics.by_name(topic.topic_name) is not None)
    responses = [_alter_topic(cluster, group, topic, now_ms) for topic in asked]
    return AlterShareGroupOffsetsResponse(error_code=0, error_message=None, responses=responses)


def _alter_nothing(cluster: Cluster, request: AlterShareGroupOffsetsRequest) -> AlterShareGroupOffsetsResponse:
    """Kafka 4.1: success without effect, and with entries only for topics that do not exist."""
    code = UnknownTopicOrPartitionError.code
    unknown = [
        _AlteredTopic(
            topic_name=topic.topic_name,
            topic_id=None,
            partitions=[
                _AlteredPartition(partition_index=p.partition_index, error_code=code, error_message="no such topic")
                for p in topic.partitions
            ],
        )
        for topic in request.topics
        if cluster.topics.by_name(topic.topic_name) is None
    ]
    return AlterShareGroupOffsetsResponse(error_code=0, error_message=None, responses=unknown)


def _alter_topic(
    cluster: Cluster,
    group: ShareGroup,
    asked: AlterShareGroupOffsetsRequest.AlterShareGroupOffsetsRequestTopic,
    now_ms: int,
) -> _AlteredTopic:
    topic = cluster.topics.by_name(asked.topic_name)
    partitions = []
    for one in asked.partitions:
        code, message = 0, None
        try:
            if topic is None or topic.partition(one.partition_index) is None:
                raise Refusal(UnknownTopicOrPartitionError, "there is no such partition")
            cluster.share_groups.initialise(group.id, topic.id, one.partition_index, one.start_offset, now_ms)
        except Refusal as refusal:
            code, message = refusal.code, refusal.message
        partitions.append(
            _AlteredPartition(partition_index=one.partition_index, error_code=code, error_message=message)
        )
    return _AlteredTopic(
        topic_name=asked.topic_name, topic_id=None if topic is None else topic.id, partitions=partitions
    )


# ---- DeleteShareGroupOffsets


def handle_delete(
    cluster: Cluster, context: RequestContext, request: DeleteShareGroupOffsetsRequest, now_ms: int
) -> DeleteShareGroupOffsetsResponse:
    try:
        cluster.require_share_groups()
        if not request.topics and not cluster.behaviour.checks_empty_deletions:
            return DeleteShareGroupOffsetsResponse(error_code=0, error_message=None, responses=[])
        _coordinated(cluster, context, request.group_id)
        if not request.group_id:
            raise Refusal(InvalidGroupIdError, "a group id cannot be empty")
        group = cluster.share_groups.existing(request.group_id)
        require_empty(group)
    except Refusal as refusal:
        return DeleteShareGroupOffsetsResponse(error_code=refusal.code, error_message=refusal.message, responses=[])
    responses = [_delete_topic(cluster, group.id, topic.topic_name, now_ms) for topic in request.topics]
    return DeleteShareGroupOffsetsResponse(error_code=0, error_message=None, responses=responses)


def _delete_topic(cluster: Cluster, group_id: str, name: str, now_ms: int) -> _DeletedTopic:
    topic = cluster.topics.by_name(name)
    try:
        if topic is None or not cluster.share_groups.forget_topic(group_id, topic.id, now_ms):
            raise Refusal(UnknownTopicOrPartitionError, "the group has no offsets of this topic")
    except Refusal as refusal:
        return _DeletedTopic(topic_name=name, topic_id=None, error_code=refusal.code, error_message=refusal.message)
    return _DeletedTopic(topic_name=name, topic_id=topic.id, error_code=0, error_message=None)
