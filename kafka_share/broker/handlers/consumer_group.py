"""ConsumerGroupHeartbeat (68) and ConsumerGroupDescribe (69), of consumer groups (KIP-848).

- Heartbeats: see the group coordinator. Version 0 may leave the member id empty to be given one; from version 1 on the
  member makes it, and may subscribe by a regular expression. An answer with an error carries no member id and epoch 0.
- The id of a share group: GROUP_ID_NOT_FOUND. A classic group becomes a consumer group, with its offsets; one with
  members only if `group.consumer.migration.policy` says so and the members are consumers, else GROUP_ID_NOT_FOUND.
- Describe: one entry per asked group; a group that does not exist is GROUP_ID_NOT_FOUND, an empty id INVALID_GROUP_ID.
  A member's assignment includes what it has to give back. Authorized operations are all that a group has.
- Without the feature group.version both answer UNSUPPORTED_VERSION.
- A node that does not coordinate the group answers NOT_COORDINATOR.

Versions: ConsumerGroupHeartbeat (68) 0 to 1, ConsumerGroupDescribe (69) 0 to 1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafka_share.broker.consumer.consumer_heartbeat import ConsumerHeartbeat
from kafka_share.broker.handlers.described_groups import described_assignment, described_groups
from kafka_share.broker.refusals import Refusal
from kafka_share.broker.server_assigned_group import by_topic
from kafka_share.broker.storage.topics import NO_TOPIC_ID
from kafka_share.protocol.consumer_group import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

if TYPE_CHECKING:
    from kafka_share.broker.cluster import Cluster
    from kafka_share.broker.consumer.consumer_group import ConsumerGroup
    from kafka_share.broker.consumer.consumer_member import ConsumerMember
    from kafka_share.broker.events import RequestContext

_OWN_IDS_SINCE_VERSION: Final = 1
_CLASSIC_MEMBER, _CONSUMER_MEMBER = 0, 1
"""The types of members: by the protocol that they speak."""

_DescribedGroup = ConsumerGroupDescribeResponse.DescribedGroup
_Assignment = ConsumerGroupHeartbeatResponse.Assignment


def handle_heartbeat(
    cluster: Cluster, context: RequestContext, request: ConsumerGroupHeartbeatRequest, now_ms: int
) -> ConsumerGroupHeartbeatResponse:
    names, owned = request.subscribed_topic_names, request.topic_partitions
    beat = ConsumerHeartbeat(
        group=request.group_id,
        member=request.member_id,
        epoch=request.member_epoch,
        instance_id=request.instance_id,
        rack_id=request.rack_id,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        subscribed=None if names is None else tuple(names),
        pattern=request.subscribed_topic_regex,
        assignor=request.server_assignor,
        owned=None
        if owned is None
        else frozenset((one.topic_id or NO_TOPIC_ID, index) for one in owned for index in one.partitions),
        client_id=context.client_id,
        client_host=f"/{context.client_host}",
        makes_own_id=context.api_version >= _OWN_IDS_SINCE_VERSION,
        may_see=lambda topic: cluster.may_see(context, topic),
    )
    try:
        cluster.require_consumer_groups()
        cluster.require_coordinator(context, beat.group)
        answer = cluster.consumer_groups.heartbeat(beat, now_ms)
    except Refusal as refusal:
        return ConsumerGroupHeartbeatResponse(error_code=refusal.code, error_message=refusal.message)
    assignment = None
    if answer.assignment is not None:
        topics = [
            _Assignment.TopicPartitions(topic_id=topic_id, partitions=indexes)
            for topic_id, indexes in by_topic(answer.assignment).items()
        ]
        assignment = _Assignment(topic_partitions=topics)
    return ConsumerGroupHeartbeatResponse(
        error_code=0,
        error_message=None,
        member_id=answer.member,
        member_epoch=answer.epoch,
        heartbeat_interval_ms=answer.interval_ms,
        assignment=assignment,
    )


def handle_describe(
    cluster: Cluster, context: RequestContext, request: ConsumerGroupDescribeRequest, now_ms: int
) -> ConsumerGroupDescribeResponse:
    def describe(group_id: str) -> _DescribedGroup:
        return _describe(cluster, cluster.consumer_groups.existing(group_id))

    groups = described_groups(
        cluster, context, request, _DescribedGroup, describe, require_feature=cluster.require_consumer_groups
    )
    return ConsumerGroupDescribeResponse(groups=groups)


def _describe(cluster: Cluster, group: ConsumerGroup) -> _DescribedGroup:
    return _DescribedGroup(
        error_code=0,
        error_message=None,
        group_id=group.id,
        group_state=group.state,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=group.preferred_assignor(cluster.consumer_groups.default_assignor()),
        members=[_member(cluster, group, group.members[member_id]) for member_id in sorted(group.members)],
    )


def _member(cluster: Cluster, group: ConsumerGroup, member: ConsumerMember) -> _DescribedGroup.Member:
    kind = _DescribedGroup.Member.Assignment
    return _DescribedGroup.Member(
        member_id=member.id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=list(member.subscribed),
        subscribed_topic_regex=member.pattern,
        assignment=described_assignment(cluster, kind, (*member.assigned, *member.revoking)),
        target_assignment=described_assignment(cluster, kind, group.target.get(member.id, ())),
        member_type=_CONSUMER_MEMBER if member.classic is None else _CLASSIC_MEMBER,
    )
