"""The operation that describes topics; with it others find the leaders of partitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final
from uuid import UUID

from kafka_share.admin_values import (
    PartitionDescription,
    TopicDescription,
)
from kafka_share.core.admin import arguments
from kafka_share.core.admin.conversation import Call, Conversation, Operation
from kafka_share.core.admin.groups import known_operations
from kafka_share.core.admin.routing import ask_metadata, nodes_of
from kafka_share.errors import (
    KafkaShareError,
    LeaderNotAvailableError,
    RemoteProtocolError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
    error_for_code,
)
from kafka_share.protocol.cluster import MetadataRequest
from kafka_share.records import Node

if TYPE_CHECKING:
    from kafka_share.protocol.cluster import MetadataResponse

UNKNOWN_ATTEMPTS: Final = 3
"""How often a topic that is not known is asked for: another broker may not have heard of a new one yet."""


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
        response = yield from ask_metadata(call, topics_request(waiting, include_operations))
        attempts += 1
        found = topics_in(response)
        if waiting is None:
            return dict(sorted(found.items()))
        for name in waiting:
            result = found.get(name, RemoteProtocolError(f"the broker's answer does not mention topic {name!r}"))
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


def topics_request(names: tuple[str, ...] | None, include_operations: bool) -> MetadataRequest:
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


def topics_in(response: MetadataResponse) -> dict[str, TopicDescription | KafkaShareError]:
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
