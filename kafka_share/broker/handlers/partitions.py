"""What handlers of Produce, Fetch and DeleteRecords share: which topics are not for clients, and where leaders are."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from kafka_share.broker.refusals import Refusal
from kafka_share.errors import InvalidTopicError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafka_share.broker.cluster import Cluster
    from kafka_share.broker.storage.topics import Topic
    from kafka_share.protocol.logs import FetchResponse, ProduceResponse
    from kafka_share.records import Node

    _Leader: TypeAlias = (
        FetchResponse.FetchableTopicResponse.PartitionData.LeaderIdAndEpoch
        | ProduceResponse.TopicProduceResponse.PartitionProduceResponse.LeaderIdAndEpoch
    )


def require_public(topic: Topic | None) -> None:
    """Raises `Refusal` if only a coordinator may write to the topic and delete its records."""
    if topic is not None and topic.is_internal:
        raise Refusal(InvalidTopicError, f"{topic.name} is an internal topic")


def nodes_of_leaders(cluster: Cluster, leaders: Iterable[_Leader | None]) -> list[Node]:
    """The nodes that an answer names as leaders, each once; none for those that name nobody (-1)."""
    ids = {leader.leader_id for leader in leaders if leader is not None}
    return [cluster.nodes[node_id] for node_id in sorted(ids) if node_id in cluster.nodes]
