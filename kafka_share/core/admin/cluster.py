"""Operations on what share groups stand on: the cluster, its topics, and the offsets of their partitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

import attrs

from kafka_share._version import VERSION
from kafka_share.admin_values import (
    ClusterDescription,
    ListedOffset,
    OffsetSpec,
    PartitionDescription,
    TopicDescription,
)
from kafka_share.core.admin import arguments
from kafka_share.core.admin.conversation import Ask, Call, Conversation, Operation, Question
from kafka_share.core.admin.groups import known_operations
from kafka_share.core.admin.offsets import by_topic
from kafka_share.core.admin.routing import ask_any, ask_metadata, may_pass, nodes_of
from kafka_share.errors import (
    AuthenticationError,
    BrokerError,
    KafkaShareError,
    LeaderNotAvailableError,
    RemoteProtocolError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
    error_for_code,
)
from kafka_share.protocol.classic import ApiVersionsRequest, ListOffsetsRequest, MetadataRequest
from kafka_share.protocol.versions import ranges_of
from kafka_share.records import Node, TopicPartition

if TYPE_CHECKING:
    from kafka_share.protocol.classic import ListOffsetsResponse, MetadataResponse

SHARE_VERSION: Final = "share.version"
UNKNOWN_ATTEMPTS: Final = 3
"""How often a topic that is not known is asked for: another broker may not have heard of a new one yet."""
_WITH_FEATURES: Final = 3
_WITH_OFFSET: Final = 1
_NO_EPOCH: Final = -1
_REMOTE_STORAGE_TIMEOUT_MS: Final = 20_000
"""How long the leader may read from tiered storage for the answer; less than the default request timeout."""

_AskedTopic = ListOffsetsRequest.ListOffsetsTopic
_AskedPartition = _AskedTopic.ListOffsetsPartition


# ---- the cluster


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


# ---- topics


def describe_topics(
    topics: Iterable[str] | None, include_authorized_operations: bool
) -> Operation[dict[str, TopicDescription | KafkaShareError]]:
    """Partitions, leaders and ids; None: of all topics that the caller may see. No topic is created by asking."""
    names = None if topics is None else arguments.names("topic name", topics)
    return partial(_describe_topics, names, bool(include_authorized_operations))


def _describe_topics(
    names: tuple[str, ...] | None, include_operations: bool, call: Call
) -> Conversation[dict[str, TopicDescription | KafkaShareError]]:
    done: dict[str, TopicDescription | KafkaShareError] = {}
    troubles: dict[str, KafkaShareError] = {}
    attempts = 0
    waiting = names
    while (waiting is None or waiting) and not call.is_over():
        response = yield from ask_metadata(call, _topics_request(waiting, include_operations))
        attempts += 1
        found = _topics_in(response)
        if waiting is None:
            return dict(sorted(found.items()))
        for name in waiting:
            result = found.get(name, RemoteProtocolError(f"the broker answered, but said nothing about topic {name!r}"))
            if _may_appear(result, attempts):
                assert isinstance(result, KafkaShareError)
                troubles[name] = result
            else:
                done[name] = result
        waiting = tuple(name for name in waiting if name not in done)
        if waiting and not call.is_over():
            yield call.pause()
    for name in waiting or ():
        done[name] = call.timed_out(troubles.get(name))
    return {name: done[name] for name in names or ()}


def _topics_request(names: tuple[str, ...] | None, include_operations: bool) -> MetadataRequest:
    return MetadataRequest(
        topics=None if names is None else [MetadataRequest.MetadataRequestTopic(name=name) for name in names],
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=include_operations,
    )


def _may_appear(result: TopicDescription | KafkaShareError, attempts: int) -> bool:
    """Whether a topic that cannot be described now is worth asking for again."""
    if isinstance(result, UnknownTopicOrPartitionError | UnknownTopicIdError):
        return attempts < UNKNOWN_ATTEMPTS
    return isinstance(result, LeaderNotAvailableError)


def _topics_in(response: MetadataResponse) -> dict[str, TopicDescription | KafkaShareError]:
    nodes = {node.id: node for node in nodes_of(response)}
    found: dict[str, TopicDescription | KafkaShareError] = {}
    for topic in response.topics:
        if topic.name is not None:
            error = error_for_code(topic.error_code)
            found[topic.name] = _topic(topic.name, topic, nodes) if error is None else error
    return found


def _topic(name: str, topic: MetadataResponse.MetadataResponseTopic, nodes: Mapping[int, Node]) -> TopicDescription:
    operations = topic.authorized_operations
    return TopicDescription(
        name=name,
        topic_id=topic.topic_id or UUID(int=0),
        is_internal=topic.is_internal,
        partitions=tuple(
            PartitionDescription(
                partition=partition.partition_index,
                leader=nodes.get(partition.leader_id),
                leader_epoch=partition.leader_epoch if partition.leader_epoch >= 0 else None,
                replicas=tuple(partition.replica_nodes),
                in_sync_replicas=tuple(partition.isr_nodes),
            )
            for partition in sorted(topic.partitions, key=lambda p: p.partition_index)
        ),
        authorized_operations=None if operations is None else known_operations(operations),
    )


# ---- offsets of partitions


def list_offsets(
    partitions: Mapping[TopicPartition, OffsetSpec | int],
) -> Operation[dict[TopicPartition, ListedOffset | KafkaShareError | None]]:
    """Look up offsets at the partitions' leaders, all partitions of a leader in one request."""
    wanted = {}
    for key, value in arguments.mapping("partitions to offsets", partitions).items():
        where = arguments.topic_partition(key)
        wanted[where] = arguments.offset_spec(where, value)
    return partial(_list_offsets, wanted)


@attrs.define
class _LookUp:
    """How far `list_offsets` is: what is still wanted, what was found, what went wrong last, and how often."""

    wanted: dict[TopicPartition, int]
    done: dict[TopicPartition, ListedOffset | KafkaShareError | None] = attrs.field(factory=dict)
    troubles: dict[TopicPartition, KafkaShareError] = attrs.field(factory=dict)
    unknown: dict[TopicPartition, int] = attrs.field(factory=dict)

    def finish(self, where: TopicPartition, result: ListedOffset | KafkaShareError | None) -> None:
        self.wanted.pop(where, None)
        self.done[where] = result

    def failed(self, where: TopicPartition, error: BrokerError) -> None:
        """Leaders move and new topics spread: such errors are tried again with fresh metadata, others are final."""
        self.troubles[where] = error
        if isinstance(error, UnknownTopicOrPartitionError | UnknownTopicIdError):
            self.unknown[where] = self.unknown.get(where, 0) + 1
            if self.unknown[where] >= UNKNOWN_ATTEMPTS:
                self.finish(where, error)
        elif not error.retriable:
            self.finish(where, error)


def _list_offsets(
    wanted: Mapping[TopicPartition, int], call: Call
) -> Conversation[dict[TopicPartition, ListedOffset | KafkaShareError | None]]:
    look_up = _LookUp(dict(wanted))
    while look_up.wanted and not call.is_over():
        leaders = yield from _find_leaders(look_up, call)
        if leaders and not call.is_over():
            questions = [
                Question(_offsets_request(places, wanted), node, _WITH_OFFSET) for node, places in leaders.items()
            ]
            replies = yield Ask(tuple(questions))
            for places, reply in zip(leaders.values(), replies, strict=True):
                _take_offsets(look_up, places, reply, call)
        if look_up.wanted and not call.is_over():
            yield call.pause()
    for where in look_up.wanted:
        look_up.done[where] = call.timed_out(look_up.troubles.get(where))
    return {where: look_up.done[where] for where in wanted}


def _find_leaders(look_up: _LookUp, call: Call) -> Conversation[dict[Node, list[TopicPartition]]]:
    """The leaders of what is still wanted; partitions without one are left for the next round, or have failed."""
    topics = tuple(dict.fromkeys(where.topic for where in look_up.wanted))
    response = yield from ask_metadata(call, _topics_request(topics, False))
    found = _topics_in(response)
    leaders: dict[Node, list[TopicPartition]] = {}
    for where in tuple(look_up.wanted):
        topic = found.get(where.topic)
        if isinstance(topic, BrokerError):
            look_up.failed(where, topic)
            continue
        partitions = topic.partitions if isinstance(topic, TopicDescription) else ()
        partition = next((p for p in partitions if p.partition == where.partition), None)
        if partition is None:
            look_up.failed(where, UnknownTopicOrPartitionError(f"there is no partition {where}"))
        elif partition.leader is None:
            look_up.failed(where, LeaderNotAvailableError(f"partition {where} has no leader"))
        else:
            leaders.setdefault(partition.leader, []).append(where)
    return leaders


def _offsets_request(places: Iterable[TopicPartition], wanted: Mapping[TopicPartition, int]) -> ListOffsetsRequest:
    return ListOffsetsRequest(
        replica_id=-1,
        isolation_level=0,
        timeout_ms=_REMOTE_STORAGE_TIMEOUT_MS,
        topics=[
            _AskedTopic(
                name=topic,
                partitions=[
                    _AskedPartition(
                        partition_index=number,
                        current_leader_epoch=_NO_EPOCH,
                        timestamp=wanted[TopicPartition(topic, number)],
                    )
                    for number in numbers
                ],
            )
            for topic, numbers in by_topic(places).items()
        ],
    )


def _take_offsets(look_up: _LookUp, places: list[TopicPartition], reply: Any, call: Call) -> None:
    if isinstance(reply, KafkaShareError):
        if isinstance(reply, AuthenticationError):
            raise reply
        for where in places:
            if may_pass(reply):
                look_up.troubles[where] = reply
            elif not call.is_over():
                look_up.finish(where, reply)
        return
    answered = _offsets_in(reply)
    for where in places:
        result = answered.get(where)
        if where not in answered:
            look_up.finish(where, RemoteProtocolError(f"the leader answered, but said nothing about {where}"))
        elif isinstance(result, BrokerError):
            look_up.failed(where, result)
        else:
            look_up.finish(where, result)


def _offsets_in(response: ListOffsetsResponse) -> dict[TopicPartition, ListedOffset | KafkaShareError | None]:
    found: dict[TopicPartition, ListedOffset | KafkaShareError | None] = {}
    for topic in response.topics:
        for partition in topic.partitions:
            where = TopicPartition(topic.name, partition.partition_index)
            found[where] = error_for_code(partition.error_code)
            if not partition.error_code and partition.offset >= 0:
                epoch, timestamp = partition.leader_epoch, partition.timestamp
                found[where] = ListedOffset(
                    partition.offset, timestamp if timestamp >= 0 else None, epoch if epoch >= 0 else None
                )
    return found
