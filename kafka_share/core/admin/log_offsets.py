"""The operation that looks up offsets in the logs of partitions, at their leaders."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import attrs

from kafka_share.admin_values import (
    ListedOffset,
    OffsetSpec,
    TopicDescription,
)
from kafka_share.core.admin import arguments
from kafka_share.core.admin.conversation import Ask, Call, Conversation, Operation, Question
from kafka_share.core.admin.routing import ask_metadata, may_pass
from kafka_share.core.admin.share_offsets import by_topic
from kafka_share.core.admin.topics import UNKNOWN_ATTEMPTS, topics_in, topics_request
from kafka_share.errors import (
    AuthenticationError,
    BrokerError,
    InvalidArgumentError,
    KafkaShareError,
    LeaderNotAvailableError,
    RemoteProtocolError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
    error_for_code,
)
from kafka_share.protocol.logs import ListOffsetsRequest
from kafka_share.records import Node, TopicPartition

if TYPE_CHECKING:
    from kafka_share.protocol.logs import ListOffsetsResponse

_WITH_OFFSET: Final = 1
_NO_EPOCH: Final = -1
_ISOLATION_LEVELS: Final = ("read_uncommitted", "read_committed")
"""In the order of their wire values."""
_REMOTE_STORAGE_TIMEOUT_MS: Final = 20_000
"""How long the leader may read from tiered storage for the answer; less than the default request timeout."""

_AskedTopic = ListOffsetsRequest.ListOffsetsTopic
_AskedPartition = _AskedTopic.ListOffsetsPartition


def list_offsets(
    partitions: Mapping[TopicPartition, OffsetSpec | int], isolation_level: str = _ISOLATION_LEVELS[0]
) -> Operation[dict[TopicPartition, ListedOffset | KafkaShareError | None]]:
    """Look up offsets at the partitions' leaders, all partitions of a leader in one request."""
    if isolation_level not in _ISOLATION_LEVELS:
        raise InvalidArgumentError(f"isolation_level is {isolation_level!r}; there are {', '.join(_ISOLATION_LEVELS)}")
    wanted = {}
    for key, value in arguments.mapping("partitions to offsets", partitions).items():
        where = arguments.topic_partition(key)
        wanted[where] = arguments.offset_spec(where, value)
    return partial(_list_offsets, wanted, _ISOLATION_LEVELS.index(isolation_level))


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
    wanted: Mapping[TopicPartition, int], isolation_level: int, call: Call
) -> Conversation[dict[TopicPartition, ListedOffset | KafkaShareError | None]]:
    look_up = _LookUp(dict(wanted))
    while look_up.wanted and not call.is_over():
        leaders = yield from _find_leaders(look_up, call)
        if leaders and not call.is_over():
            questions = [
                Question(_offsets_request(places, wanted, isolation_level), node, _WITH_OFFSET)
                for node, places in leaders.items()
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
    response = yield from ask_metadata(call, topics_request(topics, False))
    found = topics_in(response)
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


def _offsets_request(
    places: Iterable[TopicPartition], wanted: Mapping[TopicPartition, int], isolation_level: int
) -> ListOffsetsRequest:
    return ListOffsetsRequest(
        replica_id=-1,
        isolation_level=isolation_level,
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
            look_up.finish(where, RemoteProtocolError(f"the leader's answer does not mention {where}"))
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
