"""The operation that finds out which partitions of a share group their leaders hold in memory.

No broker tells that. But a leader answers an acknowledgement for a share partition that it has not loaded with
UNKNOWN_TOPIC_OR_PARTITION, and any other one with another error. So a session without a partition is opened, an offset
that nobody can have acquired is acknowledged, and the session is closed: nothing is loaded, acquired or changed by it.
Seen so on Kafka 4.1.2, 4.2.1, 4.3.1 and 4.4.0. The fetch names no partition and asks for no bytes and no records.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final
from uuid import UUID

from kafka_share.admin_values import TopicDescription
from kafka_share.core.admin import arguments
from kafka_share.core.admin.conversation import Ask, Call, Conversation, Operation, Question, Reply
from kafka_share.core.admin.routing import ask_metadata
from kafka_share.core.admin.share_offsets import by_topic
from kafka_share.core.admin.topics import topics_in, topics_request
from kafka_share.errors import (
    InvalidRecordStateError,
    InvalidRequestError,
    KafkaShareError,
    LeaderNotAvailableError,
    RemoteProtocolError,
    UnknownTopicOrPartitionError,
    error_for_code,
)
from kafka_share.protocol.share_acknowledge import ShareAcknowledgeRequest
from kafka_share.protocol.share_fetch import ShareFetchRequest
from kafka_share.records import Node, TopicPartition

if TYPE_CHECKING:
    from kafka_share.protocol.share_acknowledge import ShareAcknowledgeResponse

_OPENING, _NEXT, _CLOSING = 0, 1, -1
"""Epochs of a share session."""
_NOBODYS_OFFSET: Final = 2**62
_ACCEPT: Final = 1
_OF_LOADED: Final = (InvalidRequestError, InvalidRecordStateError)

_AskedTopic = ShareAcknowledgeRequest.AcknowledgeTopic
_AskedPartition = _AskedTopic.AcknowledgePartition

Result = bool | KafkaShareError


def loaded_share_partitions(
    group_id: str, partitions: Iterable[TopicPartition], member_id: str
) -> Operation[dict[TopicPartition, Result]]:
    """Whether each is in its leader's memory; one leader after the other is asked once. `member_id` is a new one."""
    arguments.name("group id", group_id)
    return partial(_loaded, group_id, arguments.topic_partitions(partitions), member_id)


def _loaded(
    group_id: str, wanted: tuple[TopicPartition, ...], member_id: str, call: Call
) -> Conversation[dict[TopicPartition, Result]]:
    done: dict[TopicPartition, Result] = {}
    by_leader: dict[Node, list[TopicPartition]] = {}
    if not wanted:
        return done
    response = yield from ask_metadata(call, topics_request(tuple(dict.fromkeys(w.topic for w in wanted)), False))
    topics = topics_in(response)
    ids = {name: topic.topic_id for name, topic in topics.items() if isinstance(topic, TopicDescription)}
    for where in wanted:
        leader = _leader(topics.get(where.topic), where)
        if isinstance(leader, Node):
            by_leader.setdefault(leader, []).append(where)
        else:
            done[where] = leader
    for node, places in by_leader.items():
        done.update((yield from _ask_leader(group_id, member_id, node, places, ids)))
    return {where: done[where] for where in wanted}


def _leader(topic: TopicDescription | KafkaShareError | None, where: TopicPartition) -> Node | KafkaShareError:
    if isinstance(topic, KafkaShareError):
        return topic
    found = () if topic is None else tuple(p for p in topic.partitions if p.partition == where.partition)
    if not found:
        return UnknownTopicOrPartitionError(f"there is no partition {where}")
    return found[0].leader or LeaderNotAvailableError(f"partition {where} has no leader")


def _ask_leader(
    group_id: str, member_id: str, node: Node, places: list[TopicPartition], ids: Mapping[str, UUID]
) -> Conversation[dict[TopicPartition, Result]]:
    opened = ShareFetchRequest(group_id=group_id, member_id=member_id, share_session_epoch=_OPENING, max_bytes=0)
    (reply,) = yield Ask((Question(opened, node),))
    error = _error(reply)
    if error is not None:
        return dict.fromkeys(places, error)
    (reply,) = yield Ask((Question(_acknowledgement(group_id, member_id, places, ids), node),))
    closed = ShareAcknowledgeRequest(group_id=group_id, member_id=member_id, share_session_epoch=_CLOSING)
    yield Ask((Question(closed, node),))
    error = _error(reply)
    if error is not None or isinstance(reply, KafkaShareError):
        return dict.fromkeys(places, error or reply)
    return _results(reply, places, ids)


def _error(reply: Reply) -> KafkaShareError | None:
    """Of the whole request."""
    return reply if isinstance(reply, KafkaShareError) else error_for_code(reply.error_code, reply.error_message)


def _acknowledgement(
    group_id: str, member_id: str, places: list[TopicPartition], ids: Mapping[str, UUID]
) -> ShareAcknowledgeRequest:
    batch = _AskedPartition.AcknowledgementBatch(
        first_offset=_NOBODYS_OFFSET, last_offset=_NOBODYS_OFFSET, acknowledge_types=[_ACCEPT]
    )
    topics = [
        _AskedTopic(
            topic_id=ids[topic],
            partitions=[_AskedPartition(partition_index=n, acknowledgement_batches=[batch]) for n in numbers],
        )
        for topic, numbers in by_topic(places).items()
    ]
    return ShareAcknowledgeRequest(group_id=group_id, member_id=member_id, share_session_epoch=_NEXT, topics=topics)


def _results(
    response: ShareAcknowledgeResponse, places: list[TopicPartition], ids: Mapping[str, UUID]
) -> dict[TopicPartition, Result]:
    codes = {
        (topic.topic_id, partition.partition_index): error_for_code(partition.error_code, partition.error_message)
        for topic in response.responses
        for partition in topic.partitions
    }
    found: dict[TopicPartition, Result] = {}
    for where in places:
        place = ids[where.topic], where.partition
        error = codes.get(place)
        if place not in codes:
            found[where] = RemoteProtocolError(f"the answer of the leader has no result for {where}")
        elif isinstance(error, UnknownTopicOrPartitionError):
            found[where] = False
        else:
            found[where] = True if error is None or isinstance(error, _OF_LOADED) else error
    return found
