"""ShareGroupHeartbeat (76) and ShareGroupDescribe (77).

- Heartbeats: see the group coordinator. An answer with an error carries no member id, epoch 0 and interval 0.
- Describe: one entry per asked group; a group that does not exist is GROUP_ID_NOT_FOUND, an empty id INVALID_GROUP_ID.
  Members show their present assignment, with topic names. Authorized operations are all that a group has.
- Without the feature share.version both answer UNSUPPORTED_VERSION; a node that does not coordinate the group
  NOT_COORDINATOR.

Versions: ShareGroupHeartbeat (76) 1, ShareGroupDescribe (77) 1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka_share.broker.handlers.described_groups import described_assignment, described_groups
from kafka_share.broker.refusals import Refusal
from kafka_share.broker.server_assigned_group import by_topic
from kafka_share.broker.share.share_groups import Heartbeat
from kafka_share.protocol.share_group import (
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafka_share.broker.cluster import Cluster
    from kafka_share.broker.events import RequestContext
    from kafka_share.broker.server_assigned_group import Partition
    from kafka_share.broker.share.share_group import Member, ShareGroup

_DescribedGroup = ShareGroupDescribeResponse.DescribedGroup


def handle_heartbeat(
    cluster: Cluster, context: RequestContext, request: ShareGroupHeartbeatRequest, now_ms: int
) -> ShareGroupHeartbeatResponse:
    beat = Heartbeat(
        group=request.group_id,
        member=request.member_id,
        epoch=request.member_epoch,
        rack_id=request.rack_id,
        subscribed=request.subscribed_topic_names,
        client_id=context.client_id,
        client_host=f"/{context.client_host}",
    )
    try:
        cluster.require_share_groups()
        cluster.require_coordinator(context, beat.group)
        answer = cluster.share_groups.heartbeat(beat, now_ms)
    except Refusal as refusal:
        return ShareGroupHeartbeatResponse(
            error_code=refusal.code,
            error_message=refusal.message,
            member_id=None,
            member_epoch=0,
            heartbeat_interval_ms=0,
            assignment=None,
        )
    return ShareGroupHeartbeatResponse(
        error_code=0,
        error_message=None,
        member_id=answer.member,
        member_epoch=answer.epoch,
        heartbeat_interval_ms=answer.interval_ms,
        assignment=None if answer.assignment is None else _assignment(answer.assignment),
    )


def _assignment(partitions: Iterable[Partition]) -> ShareGroupHeartbeatResponse.Assignment:
    topics = [
        ShareGroupHeartbeatResponse.Assignment.TopicPartitions(topic_id=topic_id, partitions=indexes)
        for topic_id, indexes in by_topic(partitions).items()
    ]
    return ShareGroupHeartbeatResponse.Assignment(topic_partitions=topics)


def handle_describe(
    cluster: Cluster, context: RequestContext, request: ShareGroupDescribeRequest, now_ms: int
) -> ShareGroupDescribeResponse:
    def describe(group_id: str) -> _DescribedGroup:
        return _describe(cluster, cluster.share_groups.existing(group_id))

    groups = described_groups(
        cluster, context, request, _DescribedGroup, describe, require_feature=cluster.require_share_groups
    )
    return ShareGroupDescribeResponse(groups=groups)


def _describe(cluster: Cluster, group: ShareGroup) -> _DescribedGroup:
    return _DescribedGroup(
        error_code=0,
        error_message=None,
        group_id=group.id,
        group_state=group.state,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name="simple",
        members=[_member(cluster, group.members[member_id]) for member_id in sorted(group.members)],
    )


def _member(cluster: Cluster, member: Member) -> _DescribedGroup.Member:
    return _DescribedGroup.Member(
        member_id=member.id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=list(member.subscribed),
        assignment=described_assignment(cluster, _DescribedGroup.Member.Assignment, member.assigned),
    )
