"""CreateTopics (19), DeleteTopics (20), CreatePartitions (37) and DeleteRecords (21).

- Partitions that are made and deleted count for the quota `controller_mutation_rate`, those of a request that only
  validates, too, as in Kafka. Beyond it they are refused with THROTTLING_QUOTA_EXCEEDED; versions before 6, 5 and 3
  (CreateTopics, DeleteTopics, CreatePartitions) are carried out, and throttled.
- CreateTopics: partitions -1 means `num.partitions`, replication factor -1 `default.replication.factor`; manual
  assignments must name the partitions 0, 1, … and known nodes. Any node takes these requests, as in Kafka.
- DeleteTopics takes names or, from version 6 on, ids. Share state and delayed fetches of the topic go with it.
- CreatePartitions only grows a topic.
- DeleteRecords raises the log's start; offset -1 means the end. Only the leader takes it, and it refuses it for
  internal topics (INVALID_TOPIC_EXCEPTION). DeleteTopics takes those too, as in Kafka: their coordinator forgets all.

Versions: CreateTopics (19) 2 to 7, DeleteTopics (20) 1 to 6, DeleteRecords (21) 0 to 2, CreatePartitions (37) 0 to 3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafka_share.broker.configs.configs import Change, ConfigRefusedError, ConfigSource, Operation, ResourceType
from kafka_share.broker.handlers.throttling import Mutations
from kafka_share.broker.refusals import Refusal
from kafka_share.broker.storage.topics import MAX_PARTITIONS, topic_name_problem
from kafka_share.errors import (
    InvalidConfigError,
    InvalidPartitionsError,
    InvalidReplicaAssignmentError,
    InvalidReplicationFactorError,
    InvalidRequestError,
    InvalidTopicError,
    NotLeaderOrFollowerError,
    OffsetOutOfRangeError,
    TopicAlreadyExistsError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
)
from kafka_share.protocol.topics import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafka_share.broker.cluster import Cluster
    from kafka_share.broker.events import RequestContext
    from kafka_share.broker.storage.topics import Topic

_CreatableTopic = CreateTopicsRequest.CreatableTopic
_CreateResult = CreateTopicsResponse.CreatableTopicResult
_DeleteResult = DeleteTopicsResponse.DeletableTopicResult
_IDS_SINCE_VERSION: Final = 6
_BROKER_DEFAULT: Final = -1
_CREATE_STRICT_SINCE: Final = 6
_DELETE_STRICT_SINCE: Final = 5
_GROW_STRICT_SINCE: Final = 3


# ---- CreateTopics


def handle_create(
    cluster: Cluster, context: RequestContext, request: CreateTopicsRequest, now_ms: int
) -> CreateTopicsResponse:
    names = [topic.name for topic in request.topics]
    mutations = Mutations(cluster, context, now_ms, strict_since=_CREATE_STRICT_SINCE)
    topics = [
        _create_or_refuse(
            cluster, topic, mutations, named_twice=names.count(topic.name) > 1, validate_only=request.validate_only
        )
        for topic in request.topics
    ]
    return CreateTopicsResponse(throttle_time_ms=mutations.throttle_ms, topics=topics)


def _create_or_refuse(
    cluster: Cluster, asked: _CreatableTopic, mutations: Mutations, *, named_twice: bool, validate_only: bool
) -> _CreateResult:
    try:
        if named_twice:
            raise Refusal(InvalidRequestError, "the request names this topic twice")
        return _create(cluster, asked, mutations, validate_only=validate_only)
    except Refusal as refusal:
        return _CreateResult(name=asked.name, error_code=refusal.code, error_message=refusal.message, configs=[])


def _create(cluster: Cluster, asked: _CreatableTopic, mutations: Mutations, *, validate_only: bool) -> _CreateResult:
    problem = topic_name_problem(asked.name)
    if problem is not None:
        raise Refusal(InvalidTopicError, problem)
    if cluster.topics.by_name(asked.name) is not None:
        raise Refusal(TopicAlreadyExistsError, f"topic {asked.name!r} exists")
    changes = [Change(config.name, Operation.SET, config.value) for config in asked.configs]
    try:
        cluster.configs.alter(ResourceType.TOPIC, asked.name, changes, validate_only=True)
    except ConfigRefusedError as error:
        raise Refusal(InvalidConfigError, str(error)) from None
    replicas = _replicas(cluster, asked)
    mutations.add(len(replicas))
    topic = None
    if not validate_only:
        cluster.configs.alter(ResourceType.TOPIC, asked.name, changes)
        topic = cluster.create_topic(asked.name, replicas)
    return _CreateResult(
        name=asked.name,
        topic_id=None if topic is None else topic.id,
        error_code=0,
        error_message=None,
        num_partitions=len(replicas),
        replication_factor=len(replicas[0]),
        configs=_effective_configs(cluster, asked.name),
    )


def _replicas(cluster: Cluster, asked: _CreatableTopic) -> Sequence[Sequence[int]]:
    if asked.assignments:
        return _manual_replicas(cluster, asked)
    partitions, factor = asked.num_partitions, asked.replication_factor
    if partitions == _BROKER_DEFAULT:
        partitions = cluster.configs.broker_int("num.partitions")
    if factor == _BROKER_DEFAULT:
        factor = cluster.configs.broker_int("default.replication.factor")
    if not 1 <= partitions <= MAX_PARTITIONS:
        raise Refusal(InvalidPartitionsError, f"a topic has 1 to {MAX_PARTITIONS} partitions, not {partitions}")
    if not 1 <= factor <= len(cluster.living_nodes()):
        raise Refusal(
            InvalidReplicationFactorError,
            f"replication factor {factor} does not fit {len(cluster.living_nodes())} living nodes",
        )
    return cluster.topics.place(partitions, factor)


def _manual_replicas(cluster: Cluster, asked: _CreatableTopic) -> Sequence[Sequence[int]]:
    if asked.num_partitions != _BROKER_DEFAULT or asked.replication_factor != _BROKER_DEFAULT:
        raise Refusal(InvalidRequestError, "with assignments the partition count and the replication factor must be -1")
    by_index = {assignment.partition_index: list(assignment.broker_ids) for assignment in asked.assignments}
    if sorted(by_index) != list(range(len(asked.assignments))):
        raise Refusal(InvalidReplicaAssignmentError, "the assignments must name the partitions 0, 1, … once each")
    replicas = [by_index[index] for index in range(len(by_index))]
    _require_nodes(cluster, replicas, len(replicas[0]))
    return replicas


def _require_nodes(cluster: Cluster, replicas: Sequence[Sequence[int]], factor: int) -> None:
    for nodes in replicas:
        if len(nodes) != factor or not nodes or len(set(nodes)) != len(nodes):
            raise Refusal(InvalidReplicaAssignmentError, "every partition needs the same number of different nodes")
        if any(node not in cluster.nodes for node in nodes):
            raise Refusal(InvalidReplicaAssignmentError, "an assignment names a node that this cluster does not have")


def _effective_configs(
    cluster: Cluster, name: str
) -> list[CreateTopicsResponse.CreatableTopicResult.CreatableTopicConfigs]:
    configs = []
    for key in cluster.configs.keys(ResourceType.TOPIC).values():
        effective = cluster.configs.synonyms(ResourceType.TOPIC, name, key)[0]
        configs.append(
            CreateTopicsResponse.CreatableTopicResult.CreatableTopicConfigs(
                name=key.name,
                value=effective.value,
                read_only=False,
                config_source=ConfigSource(effective.source).value,
                is_sensitive=False,
            )
        )
    return configs


# ---- DeleteTopics


def handle_delete(
    cluster: Cluster, context: RequestContext, request: DeleteTopicsRequest, now_ms: int
) -> DeleteTopicsResponse:
    mutations = Mutations(cluster, context, now_ms, strict_since=_DELETE_STRICT_SINCE)
    if context.api_version >= _IDS_SINCE_VERSION:
        results = [_delete_state(cluster, state, mutations, now_ms) for state in request.topics]
    else:
        results = [_delete_name(cluster, name, mutations, now_ms) for name in request.topic_names]
    return DeleteTopicsResponse(throttle_time_ms=mutations.throttle_ms, responses=results)


def _delete_state(
    cluster: Cluster, state: DeleteTopicsRequest.DeleteTopicState, mutations: Mutations, now_ms: int
) -> _DeleteResult:
    if state.name is not None:
        return _delete_name(cluster, state.name, mutations, now_ms)
    topic = None if state.topic_id is None else cluster.topics.by_id(state.topic_id)
    if topic is None:
        return _DeleteResult(
            name=None,
            topic_id=state.topic_id,
            error_code=UnknownTopicIdError.code,
            error_message="there is no topic of this id",
        )
    return _delete(cluster, topic, mutations, now_ms)


def _delete_name(cluster: Cluster, name: str, mutations: Mutations, now_ms: int) -> _DeleteResult:
    topic = cluster.topics.by_name(name)
    if topic is not None:
        return _delete(cluster, topic, mutations, now_ms)
    return _DeleteResult(
        name=name, error_code=UnknownTopicOrPartitionError.code, error_message="there is no topic of this name"
    )


def _delete(cluster: Cluster, topic: Topic, mutations: Mutations, now_ms: int) -> _DeleteResult:
    try:
        mutations.add(len(topic.partitions))
    except Refusal as refusal:
        return _DeleteResult(name=topic.name, topic_id=topic.id, error_code=refusal.code, error_message=refusal.message)
    cluster.delete_topic(topic, now_ms)
    return _DeleteResult(name=topic.name, topic_id=topic.id, error_code=0, error_message=None)


# ---- CreatePartitions


def handle_create_partitions(
    cluster: Cluster, context: RequestContext, request: CreatePartitionsRequest, now_ms: int
) -> CreatePartitionsResponse:
    results = []
    mutations = Mutations(cluster, context, now_ms, strict_since=_GROW_STRICT_SINCE)
    for asked in request.topics:
        code, message = 0, None
        try:
            _grow(cluster, asked, mutations, validate_only=request.validate_only)
        except Refusal as refusal:
            code, message = refusal.code, refusal.message
        results.append(
            CreatePartitionsResponse.CreatePartitionsTopicResult(
                name=asked.name, error_code=code, error_message=message
            )
        )
    return CreatePartitionsResponse(throttle_time_ms=mutations.throttle_ms, results=results)


def _grow(
    cluster: Cluster,
    asked: CreatePartitionsRequest.CreatePartitionsTopic,
    mutations: Mutations,
    *,
    validate_only: bool,
) -> None:
    topic = cluster.topics.by_name(asked.name)
    if topic is None:
        raise Refusal(UnknownTopicOrPartitionError, f"there is no topic {asked.name!r}")
    present = len(topic.partitions)
    if not present < asked.count <= MAX_PARTITIONS:
        raise Refusal(
            InvalidPartitionsError, f"the topic has {present} partitions and can only grow, up to {MAX_PARTITIONS}"
        )
    added = asked.count - present
    if asked.assignments is not None and len(asked.assignments) != added:
        raise Refusal(InvalidReplicaAssignmentError, f"{added} new partitions need {added} assignments")
    mutations.add(added)
    if asked.assignments is None:
        replicas: Sequence[Sequence[int]] = cluster.topics.place(added, topic.replication_factor, start=present)
    else:
        replicas = [list(assignment.broker_ids) for assignment in asked.assignments]
        _require_nodes(cluster, replicas, topic.replication_factor)
    if not validate_only:
        cluster.topics.grow(topic, replicas)


# ---- DeleteRecords


def handle_delete_records(
    cluster: Cluster, context: RequestContext, request: DeleteRecordsRequest, now_ms: int
) -> DeleteRecordsResponse:
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsResponse.DeleteRecordsTopicResult(
                name=topic.name,
                partitions=[
                    _delete_records(cluster, context, topic.name, one.partition_index, one.offset, now_ms)
                    for one in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _delete_records(
    cluster: Cluster, context: RequestContext, name: str, index: int, offset: int, now_ms: int
) -> DeleteRecordsResponse.DeleteRecordsTopicResult.DeleteRecordsPartitionResult:
    code, low_watermark = 0, -1
    topic = cluster.topics.by_name(name)
    partition = None if topic is None else topic.partition(index)
    if partition is None:
        code = UnknownTopicOrPartitionError.code
    elif partition.owner.is_internal:
        code = InvalidTopicError.code
    elif partition.leader_id != context.node_id:
        code = NotLeaderOrFollowerError.code
    else:
        before = partition.log.high_watermark if offset == -1 else offset
        if 0 <= before <= partition.log.high_watermark:
            low_watermark = cluster.delete_records(partition, before, now_ms)
        else:
            code = OffsetOutOfRangeError.code
    return DeleteRecordsResponse.DeleteRecordsTopicResult.DeleteRecordsPartitionResult(
        partition_index=index, low_watermark=low_watermark, error_code=code
    )
