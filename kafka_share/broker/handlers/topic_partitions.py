"""DescribeTopicPartitions (75): topics with their partitions, page by page.

- Topics are answered by name, each once; without any name all of them. One that does not exist is
  UNKNOWN_TOPIC_OR_PARTITION, a bad name INVALID_TOPIC_EXCEPTION.
- A page ends after ResponsePartitionLimit partitions (1 to 2000) and names where the next one begins. A cursor has to
  name a topic that is asked for, and no negative partition, else every topic is INVALID_REQUEST.
- Eligible leaders outside the in-sync replicas do not exist: all replicas share one log.

Versions: DescribeTopicPartitions (75) 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafka_share.broker.handlers.operations import TOPIC_OPERATIONS
from kafka_share.broker.refusals import Refusal
from kafka_share.broker.storage.topics import NO_LEADER, topic_name_problem
from kafka_share.errors import (
    InvalidRequestError,
    InvalidTopicError,
    LeaderNotAvailableError,
    UnknownTopicOrPartitionError,
)
from kafka_share.protocol.cluster import DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafka_share.broker.cluster import Cluster
    from kafka_share.broker.events import RequestContext
    from kafka_share.broker.storage.topics import Partition

MAX_PARTITIONS_PER_PAGE: Final = 2_000

_Topic = DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic
_Partition = _Topic.DescribeTopicPartitionsResponsePartition


def handle(
    cluster: Cluster, context: RequestContext, request: DescribeTopicPartitionsRequest, now_ms: int
) -> DescribeTopicPartitionsResponse:
    asked = [topic.name for topic in request.topics]
    names = sorted(set(asked)) or sorted(topic.name for topic in cluster.topics)
    try:
        first_topic, first_partition = _start(request, names)
    except Refusal as refusal:
        return DescribeTopicPartitionsResponse(topics=[_Topic(error_code=refusal.code, name=name) for name in asked])
    left = min(max(request.response_partition_limit, 1), MAX_PARTITIONS_PER_PAGE)
    topics: list[_Topic] = []
    for name in names:
        if name < first_topic:
            continue
        topic = cluster.topics.by_name(name)
        if topic is None:
            topics.append(_unknown(name))
            continue
        first = first_partition if name == first_topic else 0
        if left == 0:
            return _page(topics, name, first)
        page = topic.partitions[first : first + left]
        topics.append(
            _Topic(
                error_code=0,
                name=name,
                topic_id=topic.id,
                partitions=[_describe(cluster, partition) for partition in page],
                authorized_operations=set(TOPIC_OPERATIONS),
            )
        )
        left -= len(page)
        if first + len(page) < len(topic.partitions):
            return _page(topics, name, first + len(page))
    return DescribeTopicPartitionsResponse(topics=topics)


def _start(request: DescribeTopicPartitionsRequest, names: Sequence[str]) -> tuple[str, int]:
    """The topic and the partition that the page begins with. Raises `Refusal`."""
    cursor = request.cursor
    if cursor is None:
        return "", 0
    if cursor.partition_index < 0:
        raise Refusal(InvalidRequestError, "a cursor names no negative partition")
    if request.topics and cursor.topic_name not in names:
        raise Refusal(InvalidRequestError, "a cursor names one of the topics that are asked for")
    return cursor.topic_name, cursor.partition_index


def _unknown(name: str) -> _Topic:
    error = UnknownTopicOrPartitionError if topic_name_problem(name) is None else InvalidTopicError
    return _Topic(error_code=error.code, name=name, authorized_operations=set(TOPIC_OPERATIONS))


def _page(topics: list[_Topic], next_topic: str, next_partition: int) -> DescribeTopicPartitionsResponse:
    cursor = DescribeTopicPartitionsResponse.Cursor(topic_name=next_topic, partition_index=next_partition)
    return DescribeTopicPartitionsResponse(topics=topics, next_cursor=cursor)


def _describe(cluster: Cluster, partition: Partition) -> _Partition:
    in_sync = cluster.topics.in_sync(partition)
    return _Partition(
        error_code=LeaderNotAvailableError.code if partition.leader_id == NO_LEADER else 0,
        partition_index=partition.partition,
        leader_id=partition.leader_id,
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=in_sync,
        eligible_leader_replicas=[],
        last_known_elr=[],
        offline_replicas=[node for node in partition.replicas if node not in in_sync],
    )
