"""Metadata (3): nodes, topics by name or id, leaders.

- Topics null (or, in version 0, empty) means all of them.
- A name that does not exist is created if the request and `auto.create.topics.enable` allow it, and its partitions are
  in the same answer; Kafka needs a second request here. A bad name is INVALID_TOPIC_EXCEPTION. Where there is an id
  (Java sends an empty name with it), only that counts; an unknown one is UNKNOWN_TOPIC_ID and never creates anything.
- Only living nodes are listed. A partition without a leader has LEADER_NOT_AVAILABLE.
- A request for the authorized operations of topics, or of the cluster, gets all that there are.

Versions: Metadata (3) 0 to 13.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka_share.broker.handlers.operations import CLUSTER_OPERATIONS, TOPIC_OPERATIONS
from kafka_share.broker.handlers.throttling import Mutations
from kafka_share.broker.storage.topics import NO_LEADER, topic_name_problem
from kafka_share.errors import (
    InvalidTopicError,
    LeaderNotAvailableError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
)
from kafka_share.protocol.cluster import MetadataRequest, MetadataResponse

if TYPE_CHECKING:
    from kafka_share.broker.cluster import Cluster
    from kafka_share.broker.events import RequestContext
    from kafka_share.broker.storage.topics import Partition, Topic

_Topic = MetadataResponse.MetadataResponseTopic


def handle(cluster: Cluster, context: RequestContext, request: MetadataRequest, now_ms: int) -> MetadataResponse:
    asked = request.topics
    if asked is None or (context.api_version == 0 and not asked):
        topics = [_describe(cluster, topic) for topic in cluster.topics]
    else:
        may_create = request.allow_auto_topic_creation and cluster.configs.broker_flag("auto.create.topics.enable")
        mutations = Mutations(cluster, context, now_ms, strict_since=0)
        topics = [_answer(cluster, one, mutations, may_create=may_create) for one in asked]
    if request.include_topic_authorized_operations:
        for topic in topics:
            topic.authorized_operations = None if topic.name is None else set(TOPIC_OPERATIONS)
    alive = cluster.living_nodes()
    return MetadataResponse(
        brokers=[
            MetadataResponse.MetadataResponseBroker(node_id=node.id, host=node.host, port=node.port, rack=None)
            for node in alive
        ],
        cluster_id=cluster.cluster_id,
        controller_id=alive[0].id,
        topics=topics,
        authorized_operations=set(CLUSTER_OPERATIONS) if request.include_cluster_authorized_operations else None,
    )


def _answer(
    cluster: Cluster, asked: MetadataRequest.MetadataRequestTopic, mutations: Mutations, *, may_create: bool
) -> _Topic:
    if asked.topic_id is not None or asked.name is None:
        topic = None if asked.topic_id is None else cluster.topics.by_id(asked.topic_id)
        if topic is None:
            return _Topic(error_code=UnknownTopicIdError.code, name=None, topic_id=asked.topic_id, partitions=[])
        return _describe(cluster, topic)
    topic = cluster.topics.by_name(asked.name)
    if topic is not None:
        return _describe(cluster, topic)
    if topic_name_problem(asked.name) is not None:
        return _Topic(error_code=InvalidTopicError.code, name=asked.name, partitions=[])
    if not may_create or not mutations.may_add(cluster.configs.broker_int("num.partitions")):
        return _Topic(error_code=UnknownTopicOrPartitionError.code, name=asked.name, partitions=[])
    return _describe(cluster, cluster.create_topic(asked.name))


def _describe(cluster: Cluster, topic: Topic) -> _Topic:
    return _Topic(
        error_code=0,
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.is_internal,
        partitions=[_partition(cluster, partition) for partition in topic.partitions],
    )


def _partition(
    cluster: Cluster, partition: Partition
) -> MetadataResponse.MetadataResponseTopic.MetadataResponsePartition:
    in_sync = cluster.topics.in_sync(partition)
    return MetadataResponse.MetadataResponseTopic.MetadataResponsePartition(
        error_code=LeaderNotAvailableError.code if partition.leader_id == NO_LEADER else 0,
        partition_index=partition.partition,
        leader_id=partition.leader_id,
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=in_sync,
        offline_replicas=[node for node in partition.replicas if node not in in_sync],
    )
