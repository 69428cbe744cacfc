"""OffsetCommit (8), OffsetFetch (9) and OffsetDelete (47): the committed offsets of classic and consumer groups.

- Commit: by a member of the present generation, or, without member and generation, by anybody while the group has no
  members; that also makes the group. For a group that does not exist and a generation: ILLEGAL_GENERATION, from version
  9 on GROUP_ID_NOT_FOUND. A share group's id is GROUP_ID_NOT_FOUND. Missing partitions are refused one by one.
  A member of a consumer group (KIP-848) commits with its epoch, or (from Kafka 4.3 on) with an older one for partitions
  that it has had since then, else STALE_MEMBER_EPOCH for the whole request; versions below 9 are UNSUPPORTED_VERSION.
- Fetch: a group or an offset that does not exist is offset -1 without error. Offsets that an open transaction will
  change are UNSTABLE_OFFSET_COMMIT where the request asks for stable ones. All partitions of a share group: none.
  A member of a consumer group that names itself has to be in its present epoch (STALE_MEMBER_EPOCH).
- Delete: a group with members keeps the offsets of the topics that they subscribe to (GROUP_SUBSCRIBED_TO_TOPIC).
- Topics by id from version 10 of commit and fetch on.

Versions: OffsetCommit (8) 2 to 10, OffsetFetch (9) 1 to 10, OffsetDelete (47) 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

from kafka_share.broker.classic.classic_group import GroupState
from kafka_share.broker.classic.classic_groups import CONSUMER_PROTOCOL
from kafka_share.broker.classic.committed_offsets import CommittedOffset
from kafka_share.broker.consumer import offset_rights
from kafka_share.broker.group_ids import GroupType
from kafka_share.broker.refusals import ErrorCode, Refusal
from kafka_share.errors import (
    GroupIdNotFoundError,
    InvalidGroupIdError,
    NonEmptyGroupError,
    RemoteProtocolError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
)
from kafka_share.protocol.committed_offsets import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from kafka_share.protocol.consumer_protocol import ConsumerProtocolSubscription, decode

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafka_share.broker.classic.classic_group import ClassicGroup
    from kafka_share.broker.classic.committed_offsets import Key
    from kafka_share.broker.cluster import Cluster
    from kafka_share.broker.events import RequestContext
    from kafka_share.broker.storage.topics import Topic

_IDS_SINCE_VERSION: Final = 10
_NOT_FOUND_SINCE_VERSION: Final = 9
_GROUPS_SINCE_VERSION: Final = 8
_GROUP_ERROR_SINCE_VERSION: Final = 2
_NOTHING: Final = CommittedOffset(-1, -1, "")

_CommitTopic = OffsetCommitRequest.OffsetCommitRequestTopic
_CommittedTopic = OffsetCommitResponse.OffsetCommitResponseTopic
_CommittedPartition = _CommittedTopic.OffsetCommitResponsePartition
_FetchedGroup = OffsetFetchResponse.OffsetFetchResponseGroup
_FetchedTopics = _FetchedGroup.OffsetFetchResponseTopics
_FetchedPartitions = _FetchedTopics.OffsetFetchResponsePartitions
_OldTopic = OffsetFetchResponse.OffsetFetchResponseTopic
_DeletedTopic = OffsetDeleteResponse.OffsetDeleteResponseTopic

_Found: TypeAlias = tuple[int, CommittedOffset, int]
"""Partition, offset, error code."""


def _coordinated(cluster: Cluster, context: RequestContext, group_id: str) -> None:
    cluster.require_coordinator(context, group_id)
    if not group_id:
        raise Refusal(InvalidGroupIdError, "a group id cannot be empty")


# ---- OffsetCommit


def handle_commit(
    cluster: Cluster, context: RequestContext, request: OffsetCommitRequest, now_ms: int
) -> OffsetCommitResponse:
    code = 0
    try:
        _coordinated(cluster, context, request.group_id)
        member = (request.member_id, request.group_instance_id)
        named = [(_topic(cluster, context, topic), topic.partitions) for topic in request.topics]
        by_id = context.api_version >= _NOT_FOUND_SINCE_VERSION
        require_may_commit(
            cluster,
            request.group_id,
            member,
            request.generation_id_or_member_epoch,
            [(topic.id, one.partition_index) for topic, partitions in named if topic for one in partitions],
            now_ms,
            api_version=context.api_version,
            missing=GroupIdNotFoundError if by_id else ErrorCode.ILLEGAL_GENERATION,
        )
    except Refusal as refusal:
        code = refusal.code
    return OffsetCommitResponse(topics=_commit(cluster, context, request, code, now_ms))


def _commit(
    cluster: Cluster, context: RequestContext, request: OffsetCommitRequest, code: int, now_ms: int
) -> list[_CommittedTopic]:
    """Commit what can be committed, in one step; `code` is what refuses all of it, 0 for nothing."""
    offsets: dict[Key, CommittedOffset] = {}
    refused: dict[tuple[int, int], int] = {}
    for number, asked in enumerate(request.topics):
        topic = _topic(cluster, context, asked)
        for one in asked.partitions:
            offset = CommittedOffset(one.committed_offset, one.committed_leader_epoch, one.committed_metadata or "")
            try:
                found = _require_partition(context, topic, one.partition_index)
                if code == 0:
                    cluster.classic_groups.require_metadata_fits(offset)
                    offsets[found.id, one.partition_index] = offset
            except Refusal as refusal:
                refused[number, one.partition_index] = refusal.code
    try:
        cluster.offsets.commit(request.group_id, offsets, now_ms)
    except Refusal as refusal:
        code = refusal.code
    return [
        _CommittedTopic(
            name=asked.name,
            topic_id=asked.topic_id,
            partitions=[
                _CommittedPartition(
                    partition_index=one.partition_index, error_code=refused.get((number, one.partition_index), code)
                )
                for one in asked.partitions
            ],
        )
        for number, asked in enumerate(request.topics)
    ]


def require_may_commit(
    cluster: Cluster,
    group_id: str,
    member: tuple[str, str | None],
    generation: int,
    partitions: Iterable[Key],
    now_ms: int,
    *,
    api_version: int | None,
    missing: type[GroupIdNotFoundError] | ErrorCode,
) -> None:
    """Raises `Refusal` unless the member (id, instance id), or somebody outside of the group, may commit now.

    `generation` is the member epoch in a consumer group. `api_version` is that of OffsetCommit, None in a transaction;
    `missing` is what a member of a group that does not exist is told.
    """
    if cluster.group_ids.type_of(group_id) is GroupType.CONSUMER:
        group = cluster.consumer_groups.existing(group_id)
        offset_rights.require_may_commit(group, member[0], generation, partitions, api_version=api_version)
    else:
        transactional = api_version is None
        cluster.classic_groups.require_may_commit(
            group_id, member, generation, now_ms, transactional=transactional, missing=missing
        )


def _topic(cluster: Cluster, context: RequestContext, asked: Any) -> Topic | None:
    if context.api_version < _IDS_SINCE_VERSION:
        return cluster.topics.by_name(asked.name)
    return None if asked.topic_id is None else cluster.topics.by_id(asked.topic_id)


def _require_partition(context: RequestContext, topic: Topic | None, index: int) -> Topic:
    if topic is None and context.api_version >= _IDS_SINCE_VERSION:
        raise Refusal(UnknownTopicIdError, "there is no topic of this id")
    if topic is None or topic.partition(index) is None:
        raise Refusal(UnknownTopicOrPartitionError, "there is no such partition")
    return topic


# ---- OffsetFetch


def handle_fetch(
    cluster: Cluster, context: RequestContext, request: OffsetFetchRequest, now_ms: int
) -> OffsetFetchResponse:
    if context.api_version >= _GROUPS_SINCE_VERSION:
        groups = [_fetch_group(cluster, context, asked, request.require_stable) for asked in request.groups]
        return OffsetFetchResponse(groups=groups)
    code = 0
    try:
        _coordinated(cluster, context, request.group_id)
    except Refusal as refusal:
        code = refusal.code
    topics = []
    for name, _, found in _offsets(cluster, context, request.group_id, request.topics, request.require_stable, code):
        partitions = [
            _OldTopic.OffsetFetchResponsePartition(
                partition_index=index,
                committed_offset=offset.offset,
                committed_leader_epoch=offset.leader_epoch,
                metadata=offset.metadata,
                error_code=partition_code,
            )
            for index, offset, partition_code in found
        ]
        topics.append(_OldTopic(name=name, partitions=partitions))
    return OffsetFetchResponse(topics=topics, error_code=code)


def _fetch_group(
    cluster: Cluster, context: RequestContext, asked: OffsetFetchRequest.OffsetFetchRequestGroup, stable: bool
) -> _FetchedGroup:
    try:
        _coordinated(cluster, context, asked.group_id)
        group = cluster.consumer_groups.group(asked.group_id)
        if group is not None:
            offset_rights.require_may_fetch(group, asked.member_id, asked.member_epoch)
    except Refusal as refusal:
        return _FetchedGroup(group_id=asked.group_id, topics=[], error_code=refusal.code)
    topics = []
    for name, topic_id, found in _offsets(cluster, context, asked.group_id, asked.topics, stable, 0):
        partitions = [
            _FetchedPartitions(
                partition_index=index,
                committed_offset=offset.offset,
                committed_leader_epoch=offset.leader_epoch,
                metadata=offset.metadata,
                error_code=code,
            )
            for index, offset, code in found
        ]
        topics.append(_FetchedTopics(name=name, topic_id=topic_id, partitions=partitions))
    return _FetchedGroup(group_id=asked.group_id, topics=topics, error_code=0)


def _offsets(
    cluster: Cluster, context: RequestContext, group_id: str, asked: Any, stable: bool, code: int
) -> list[tuple[str, Any, list[_Found]]]:
    """Per topic its name, its id and its offsets; `asked` is None for all that the group has."""
    if code != 0:
        # Version 1 has no place for the group's error but the partitions that were asked for.
        nothing = asked or () if context.api_version < _GROUP_ERROR_SINCE_VERSION else ()
        return [(topic.name, None, [(index, _NOTHING, code) for index in topic.partition_indexes]) for topic in nothing]
    if asked is None:
        return _all_offsets(cluster, group_id, stable)
    topics = []
    for one in asked:
        topic = _topic(cluster, context, one)
        if topic is None and context.api_version >= _IDS_SINCE_VERSION:
            found = [(index, _NOTHING, UnknownTopicIdError.code) for index in one.partition_indexes]
        else:
            found = [_offset(cluster, group_id, topic, index, stable) for index in one.partition_indexes]
        name, topic_id = (one.name, None) if topic is None else (topic.name, topic.id)
        topics.append((name, topic_id or getattr(one, "topic_id", None), found))
    return topics


def _all_offsets(cluster: Cluster, group_id: str, stable: bool) -> list[tuple[str, Any, list[_Found]]]:
    by_topic: dict[Any, list[int]] = {}
    for topic_id, index in cluster.offsets.of_group(group_id):
        by_topic.setdefault(topic_id, []).append(index)
    topics = [(topic, indexes) for topic_id, indexes in by_topic.items() if (topic := cluster.topics.by_id(topic_id))]
    return [
        (topic.name, topic.id, [_offset(cluster, group_id, topic, index, stable) for index in sorted(indexes)])
        for topic, indexes in topics
    ]


def _offset(cluster: Cluster, group_id: str, topic: Topic | None, index: int, stable: bool) -> _Found:
    if topic is None:
        return index, _NOTHING, 0
    offsets, key = cluster.offsets, (topic.id, index)
    if stable and offsets.is_pending(group_id, key):
        return index, _NOTHING, ErrorCode.UNSTABLE_OFFSET_COMMIT
    return index, offsets.of_group(group_id).get(key, _NOTHING), 0


# ---- OffsetDelete


def handle_delete(
    cluster: Cluster, context: RequestContext, request: OffsetDeleteRequest, now_ms: int
) -> OffsetDeleteResponse:
    try:
        _coordinated(cluster, context, request.group_id)
        subscribed = _subscribed_of(cluster, request.group_id)
    except Refusal as refusal:
        return OffsetDeleteResponse(error_code=refusal.code, topics=[])
    gone: list[Key] = []
    topics = [_delete_topic(cluster, topic, subscribed, gone) for topic in request.topics]
    try:
        cluster.offsets.delete(request.group_id, gone, now_ms)
    except Refusal as refusal:
        return OffsetDeleteResponse(error_code=refusal.code, topics=[])
    return OffsetDeleteResponse(error_code=0, topics=topics)


def _subscribed_of(cluster: Cluster, group_id: str) -> frozenset[str]:
    """The topics that members of the group subscribe to; raises `Refusal`."""
    if cluster.group_ids.type_of(group_id) is GroupType.CONSUMER:
        return frozenset(cluster.consumer_groups.existing(group_id).subscribed_names())
    return _subscribed(cluster.classic_groups.existing(group_id))


def _subscribed(group: ClassicGroup) -> frozenset[str]:
    """The topics that members subscribe to; raises `Refusal` if the members are not consumers."""
    if group.state is GroupState.EMPTY:
        return frozenset()
    if group.protocol_type != CONSUMER_PROTOCOL:
        raise Refusal(NonEmptyGroupError, f"group {group.id!r} still has members")
    return frozenset(
        topic
        for member in group.members.values()
        for _, metadata in member.join.protocols
        for topic in subscribed_topics(metadata)
    )


def _delete_topic(
    cluster: Cluster,
    asked: OffsetDeleteRequest.OffsetDeleteRequestTopic,
    subscribed: frozenset[str],
    gone: list[Key],
) -> _DeletedTopic:
    """The answer for a topic; what has to be deleted is added to `gone`."""
    topic = cluster.topics.by_name(asked.name)
    partitions = []
    for one in asked.partitions:
        code = 0
        if topic is None or topic.partition(one.partition_index) is None:
            code = UnknownTopicOrPartitionError.code
        elif asked.name in subscribed:
            code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
        else:
            gone.append((topic.id, one.partition_index))
        partitions.append(
            _DeletedTopic.OffsetDeleteResponsePartition(partition_index=one.partition_index, error_code=code)
        )
    return _DeletedTopic(name=asked.name, partitions=partitions)


def subscribed_topics(metadata: bytes) -> tuple[str, ...]:
    """The topics that a member subscribes to; none if these are not the bytes of a subscription."""
    try:
        return tuple(decode(ConsumerProtocolSubscription, metadata, version=0).topics)
    except RemoteProtocolError:
        return ()
