"""Operations on the start offsets of share groups: list with lag, alter, delete (APIs 90 to 92).

All go to the group coordinator, which passes them on to the share coordinators.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from kafka_share.admin_values import ShareGroupOffsets, SharePartitionOffset
from kafka_share.core.admin import arguments
from kafka_share.core.admin.conversation import Call, Conversation, Operation
from kafka_share.core.admin.routing import GroupRequest, ask_coordinators
from kafka_share.errors import KafkaShareError, RemoteProtocolError, UnsupportedVersionError, error_for_code
from kafka_share.protocol.share_offsets import (
    AlterShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequest,
)
from kafka_share.records import Node, TopicPartition

if TYPE_CHECKING:
    from kafka_share.protocol.share_offsets import (
        AlterShareGroupOffsetsResponse,
        DeleteShareGroupOffsetsResponse,
        DescribeShareGroupOffsetsResponse,
    )

_AskedGroup = DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestGroup
_AskedTopic = _AskedGroup.DescribeShareGroupOffsetsRequestTopic
_AlteredTopic = AlterShareGroupOffsetsRequest.AlterShareGroupOffsetsRequestTopic
_AlteredPartition = _AlteredTopic.AlterShareGroupOffsetsRequestPartition
_DeletedTopic = DeleteShareGroupOffsetsRequest.DeleteShareGroupOffsetsRequestTopic


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Topic -> partition numbers, as requests want them."""
    topics: dict[str, list[int]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(partition)
    return topics


# ---- list


def list_share_group_offsets(
    groups: Mapping[str, Iterable[TopicPartition] | None],
) -> Operation[dict[str, ShareGroupOffsets | KafkaShareError]]:
    """Start offset and lag; all groups of one coordinator in one request. None: all partitions with share state."""
    asked = {
        arguments.name("group id", group_id): None if partitions is None else arguments.topic_partitions(partitions)
        for group_id, partitions in arguments.mapping("groups to partitions", groups).items()
    }
    return partial(_list, asked)


def _list(
    asked: Mapping[str, tuple[TopicPartition, ...] | None], call: Call
) -> Conversation[dict[str, ShareGroupOffsets | KafkaShareError]]:
    def build(groups: list[str]) -> DescribeShareGroupOffsetsRequest:
        return DescribeShareGroupOffsetsRequest(groups=[_asked_group(group, asked[group]) for group in groups])

    def read(response: DescribeShareGroupOffsetsResponse, _: Node) -> dict[str, ShareGroupOffsets | KafkaShareError]:
        found: dict[str, ShareGroupOffsets | KafkaShareError] = {}
        for group in response.groups:
            error = error_for_code(group.error_code, group.error_message or None)
            if error is not None:
                found[group.group_id] = error
            else:
                found[group.group_id] = {**dict.fromkeys(asked.get(group.group_id) or ()), **_offsets(group)}
        return found

    return (yield from ask_coordinators(asked, GroupRequest(build, read), call))


def _asked_group(group_id: str, partitions: tuple[TopicPartition, ...] | None) -> _AskedGroup:
    if partitions is None:
        return _AskedGroup(group_id=group_id, topics=None)
    topics = [_AskedTopic(topic_name=topic, partitions=numbers) for topic, numbers in by_topic(partitions).items()]
    return _AskedGroup(group_id=group_id, topics=topics)


def _offsets(group: DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponseGroup) -> ShareGroupOffsets:
    found: ShareGroupOffsets = {}
    for topic in group.topics:
        for partition in topic.partitions:
            where = TopicPartition(topic.topic_name, partition.partition_index)
            found[where] = error_for_code(partition.error_code, partition.error_message or None)
            if not partition.error_code and partition.start_offset >= 0:
                found[where] = _offset(partition)
    return dict(sorted(found.items(), key=lambda item: item[0]))


def _offset(partition: Any) -> SharePartitionOffset:
    epoch, lag, start = partition.leader_epoch, partition.lag, partition.start_offset
    # -1 is "not known"; less than that is a start beyond the end of the log.
    return SharePartitionOffset(start, epoch if epoch >= 0 else None, None if lag == -1 else lag)


# ---- alter


def alter_share_group_offsets(
    group_id: str, offsets: Mapping[TopicPartition, int]
) -> Operation[dict[TopicPartition, KafkaShareError | None]]:
    """Set start offsets; the broker makes the group if there is none.

    Raises what concerns the group; `UnsupportedVersionError` if the broker answers success without a word on the
    partitions, which is what Kafka 4.1 does, having done nothing.
    """
    arguments.name("group id", group_id)
    wanted = {}
    for key, value in arguments.mapping("partitions to offsets", offsets).items():
        where = arguments.topic_partition(key)
        wanted[where] = arguments.offset(where, value)
    return partial(_alter, group_id, wanted)


def _alter(
    group_id: str, wanted: Mapping[TopicPartition, int], call: Call
) -> Conversation[dict[TopicPartition, KafkaShareError | None]]:
    def build(_: list[str]) -> AlterShareGroupOffsetsRequest:
        return AlterShareGroupOffsetsRequest(
            group_id=group_id,
            topics=[
                _AlteredTopic(
                    topic_name=topic,
                    partitions=[
                        _AlteredPartition(partition_index=number, start_offset=wanted[TopicPartition(topic, number)])
                        for number in numbers
                    ],
                )
                for topic, numbers in by_topic(wanted).items()
            ],
        )

    answered = yield from _ask_one(call, group_id, build, _altered)
    missing = [where for where in wanted if where not in answered]
    if missing and not any(error is None for error in answered.values()):
        raise UnsupportedVersionError(
            f"the coordinator of group {group_id!r} answered, but did not say what became of {missing[0]}: Kafka 4.1 "
            "cannot alter the offsets of share groups and changed nothing; Kafka 4.2 can"
        )
    return {where: answered.get(where, _silence(where)) for where in wanted}


def _altered(response: AlterShareGroupOffsetsResponse) -> dict[TopicPartition, KafkaShareError | None]:
    return {
        TopicPartition(topic.topic_name, partition.partition_index): error_for_code(
            partition.error_code, partition.error_message or None
        )
        for topic in response.responses
        for partition in topic.partitions
    }


# ---- delete


def delete_share_group_offsets(group_id: str, topics: Iterable[str]) -> Operation[dict[str, KafkaShareError | None]]:
    """Forget the start offsets of whole topics. Raises what concerns the group."""
    arguments.name("group id", group_id)
    return partial(_delete, group_id, arguments.names("topic name", topics))


def _delete(group_id: str, topics: tuple[str, ...], call: Call) -> Conversation[dict[str, KafkaShareError | None]]:
    def build(_: list[str]) -> DeleteShareGroupOffsetsRequest:
        return DeleteShareGroupOffsetsRequest(
            group_id=group_id, topics=[_DeletedTopic(topic_name=topic) for topic in topics]
        )

    answered = yield from _ask_one(call, group_id, build, _deleted)
    return {topic: answered.get(topic, _silence(topic)) for topic in topics}


def _deleted(response: DeleteShareGroupOffsetsResponse) -> dict[str, KafkaShareError | None]:
    return {
        topic.topic_name: error_for_code(topic.error_code, topic.error_message or None) for topic in response.responses
    }


# ---- what alter and delete have in common


def _ask_one(call: Call, group_id: str, build: Any, read: Any) -> Conversation[dict[Any, KafkaShareError | None]]:
    """One group, whose error concerns the whole call."""

    def read_group(response: Any, _: Node) -> dict[str, Any]:
        error = error_for_code(response.error_code, response.error_message or None)
        return {group_id: read(response) if error is None else error}

    results = yield from ask_coordinators((group_id,), GroupRequest(build, read_group, one_group_each=True), call)
    result: Any = results[group_id]
    if isinstance(result, KafkaShareError):
        raise result
    return dict(result)


def _silence(what: object) -> RemoteProtocolError:
    return RemoteProtocolError(f"the coordinator's answer does not mention {what}")
