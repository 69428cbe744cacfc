"""The groups of one type as the describing APIs of KIP-848 and KIP-932 list them: one entry per asked group.

Used by the handlers of ConsumerGroupDescribe and ShareGroupDescribe, whose entries differ in their members only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from kafka_share.broker.handlers.operations import GROUP_OPERATION_BITS
from kafka_share.broker.refusals import Refusal
from kafka_share.broker.server_assigned_group import by_topic
from kafka_share.errors import InvalidGroupIdError
from kafka_share.protocol.consumer_group import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse
from kafka_share.protocol.share_group import ShareGroupDescribeRequest, ShareGroupDescribeResponse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kafka_share.broker.cluster import Cluster
    from kafka_share.broker.events import RequestContext
    from kafka_share.broker.server_assigned_group import Partition

_Entry = TypeVar("_Entry", ConsumerGroupDescribeResponse.DescribedGroup, ShareGroupDescribeResponse.DescribedGroup)
_Assignment = TypeVar(
    "_Assignment",
    ConsumerGroupDescribeResponse.DescribedGroup.Member.Assignment,
    ShareGroupDescribeResponse.DescribedGroup.Member.Assignment,
)


def described_groups(
    cluster: Cluster,
    context: RequestContext,
    request: ConsumerGroupDescribeRequest | ShareGroupDescribeRequest,
    entry: type[_Entry],
    describe: Callable[[str], _Entry],
    *,
    require_feature: Callable[[], None] | None = None,
) -> list[_Entry]:
    """An entry for each group; one with an error where `describe`, or what has to hold before, raises `Refusal`."""
    groups = []
    # Kafka answers for the ids that cannot exist before it asks the coordinator for the others.
    for group_id in sorted(request.group_ids, key=bool):
        try:
            if require_feature is not None:
                require_feature()
            if not group_id:
                raise Refusal(InvalidGroupIdError, "a group id cannot be empty")
            cluster.require_coordinator(context, group_id)
            described = describe(group_id)
            if request.include_authorized_operations:
                described.authorized_operations = GROUP_OPERATION_BITS
        except Refusal as refusal:
            described = entry(error_code=refusal.code, error_message=refusal.message, group_id=group_id, members=[])
        groups.append(described)
    return groups


def described_assignment(cluster: Cluster, kind: type[_Assignment], partitions: Iterable[Partition]) -> _Assignment:
    """Of a member, with the names of the topics; without those that are gone."""
    topics = [(cluster.topics.by_id(topic_id), indexes) for topic_id, indexes in by_topic(partitions).items()]
    return kind(
        topic_partitions=[
            kind.TopicPartitions(topic_id=topic.id, topic_name=topic.name, partitions=indexes)
            for topic, indexes in topics
            if topic is not None
        ]
    )
