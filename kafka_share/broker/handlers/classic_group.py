"""JoinGroup (11), SyncGroup (14), Heartbeat (12), LeaveGroup (13) and DescribeGroups (15) of classic consumer groups.

- JoinGroup and SyncGroup wait for the other members: their answers come from the group, through `answer`. From version
  4 on a dynamic member without an id is told one first (MEMBER_ID_REQUIRED).
- The id of a share group: JoinGroup INCONSISTENT_GROUP_PROTOCOL, SyncGroup and Heartbeat UNKNOWN_MEMBER_ID, LeaveGroup
  no top-level error, DescribeGroups as for a group that does not exist.
- DescribeGroups of a missing group: state "Dead" without error up to version 5, GROUP_ID_NOT_FOUND from version 6 on.
  Subscriptions are shown while the group is stable, assignments also while it prepares the next rebalance.
- The id of a consumer group (KIP-848): an empty one becomes a classic group by JoinGroup. One with members takes
  classic members too, unless `group.consumer.migration.policy` is "disabled": then JoinGroup is
  INCONSISTENT_GROUP_PROTOCOL. LeaveGroup removes members of any protocol. DescribeGroups as for a missing group.

Versions: JoinGroup (11) 0 to 9, Heartbeat (12) 0 to 4, LeaveGroup (13) 0 to 5, SyncGroup (14) 0 to 5, DescribeGroups
(15) 0 to 6.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafka_share.broker.classic.classic_group import GroupMember, GroupState, Join, JoinAnswer, SyncAnswer
from kafka_share.broker.classic.classic_groups import ID_FIRST_SINCE_VERSION
from kafka_share.broker.group_ids import GroupType
from kafka_share.broker.handlers.operations import GROUP_OPERATIONS
from kafka_share.broker.refusals import Refusal
from kafka_share.errors import InvalidGroupIdError
from kafka_share.protocol.classic_group import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from kafka_share.protocol.groups import DescribeGroupsRequest, DescribeGroupsResponse

if TYPE_CHECKING:
    from kafka_share.broker.classic.classic_group import ClassicGroup
    from kafka_share.broker.cluster import Cluster
    from kafka_share.broker.events import Message, RequestContext

_REBALANCE_TIMEOUT_SINCE_VERSION: Final = 1
_PROTOCOL_SINCE_VERSION: Final = 5
"""Of SyncGroup."""
_NULL_PROTOCOL_SINCE_VERSION: Final = 7
"""Of JoinGroup."""
_MEMBERS_SINCE_VERSION: Final = 3
"""Of LeaveGroup."""
_NOT_FOUND_SINCE_VERSION: Final = 6
"""Of DescribeGroups."""
_DEAD: Final = "Dead"

_DescribedGroup = DescribeGroupsResponse.DescribedGroup
_Left = LeaveGroupResponse.MemberResponse


def answer(context: RequestContext, waited: JoinAnswer | SyncAnswer) -> Message:
    """The wire form of an answer that came out of the coordinator."""
    return _joined(context, waited) if isinstance(waited, JoinAnswer) else _synced(waited)


# ---- JoinGroup


def handle_join(cluster: Cluster, context: RequestContext, request: JoinGroupRequest, now_ms: int) -> Message | None:
    rebalance_ms = request.rebalance_timeout_ms
    if context.api_version < _REBALANCE_TIMEOUT_SINCE_VERSION:
        rebalance_ms = request.session_timeout_ms
    join = Join(
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        client_id=context.client_id,
        client_host=f"/{context.client_host}",
        session_timeout_ms=request.session_timeout_ms,
        rebalance_timeout_ms=rebalance_ms,
        protocol_type=request.protocol_type,
        protocols=tuple((one.name, bytes(one.metadata)) for one in request.protocols),
    )
    try:
        cluster.require_coordinator(context, request.group_id)
        cluster.classic_groups.require_valid(request.group_id, join)
        cluster.consumer_groups.make_room(request.group_id, now_ms)
        if cluster.group_ids.type_of(request.group_id) is GroupType.CONSUMER:
            return _joined(context, _join_consumer_group(cluster, context, request.group_id, join, now_ms))
        cluster.classic_groups.join(request.group_id, join, context, now_ms)
    except Refusal as refusal:
        return _joined(context, JoinAnswer(refusal.code, request.member_id))
    return None


def _join_consumer_group(
    cluster: Cluster, context: RequestContext, group_id: str, join: Join, now_ms: int
) -> JoinAnswer:
    id_first = context.api_version >= ID_FIRST_SINCE_VERSION
    try:
        return cluster.consumer_groups.join(
            group_id, join, lambda topic: cluster.may_see(context, topic), now_ms, id_first=id_first
        )
    except Refusal as refusal:
        return JoinAnswer(refusal.code, "")


def _joined(context: RequestContext, joined: JoinAnswer) -> JoinGroupResponse:
    protocol = joined.protocol
    if protocol is None and context.api_version < _NULL_PROTOCOL_SINCE_VERSION:
        protocol = ""
    member = JoinGroupResponse.JoinGroupResponseMember
    return JoinGroupResponse(
        error_code=joined.code,
        generation_id=joined.generation,
        protocol_type=joined.protocol_type,
        protocol_name=protocol,
        leader=joined.leader,
        skip_assignment=joined.skip_assignment,
        member_id=joined.member_id,
        members=[
            member(member_id=member_id, group_instance_id=instance_id, metadata=metadata)
            for member_id, instance_id, metadata in joined.members
        ],
    )


# ---- SyncGroup, Heartbeat


def handle_sync(cluster: Cluster, context: RequestContext, request: SyncGroupRequest, now_ms: int) -> Message | None:
    says_protocol = context.api_version >= _PROTOCOL_SINCE_VERSION
    member = (request.member_id, request.group_instance_id)
    protocol = (request.protocol_type, request.protocol_name) if says_protocol else (None, None)
    try:
        cluster.require_coordinator(context, request.group_id)
        if cluster.group_ids.type_of(request.group_id) is GroupType.CONSUMER:
            groups = cluster.consumer_groups
            return _synced(groups.sync(request.group_id, member, request.generation_id, protocol, now_ms))
        cluster.classic_groups.sync(
            request.group_id,
            member,
            request.generation_id,
            protocol,
            {one.member_id: bytes(one.assignment) for one in request.assignments},
            context,
            now_ms,
        )
    except Refusal as refusal:
        return _synced(SyncAnswer(refusal.code))
    return None


def _synced(synced: SyncAnswer) -> SyncGroupResponse:
    return SyncGroupResponse(
        error_code=synced.code,
        protocol_type=synced.protocol_type,
        protocol_name=synced.protocol,
        assignment=synced.assignment,
    )


def handle_heartbeat(
    cluster: Cluster, context: RequestContext, request: HeartbeatRequest, now_ms: int
) -> HeartbeatResponse:
    try:
        cluster.require_coordinator(context, request.group_id)
        member = (request.member_id, request.group_instance_id)
        if cluster.group_ids.type_of(request.group_id) is GroupType.CONSUMER:
            cluster.consumer_groups.beat(request.group_id, member, request.generation_id, now_ms)
        else:
            cluster.classic_groups.heartbeat(request.group_id, member, request.generation_id, now_ms)
    except Refusal as refusal:
        return HeartbeatResponse(error_code=refusal.code)
    return HeartbeatResponse(error_code=0)


# ---- LeaveGroup


def handle_leave(
    cluster: Cluster, context: RequestContext, request: LeaveGroupRequest, now_ms: int
) -> LeaveGroupResponse:
    try:
        cluster.require_coordinator(context, request.group_id)
        if not request.group_id:
            raise Refusal(InvalidGroupIdError, "a group id cannot be empty")
    except Refusal as refusal:
        return LeaveGroupResponse(error_code=refusal.code, members=[])
    if context.api_version < _MEMBERS_SINCE_VERSION:
        (code,) = _leave(cluster, request.group_id, [(request.member_id, None)], now_ms)
        missing = cluster.group_ids.type_of(request.group_id) not in (GroupType.CLASSIC, GroupType.CONSUMER)
        return LeaveGroupResponse(error_code=0 if missing else code, members=[])
    named = [(one.member_id, one.group_instance_id) for one in request.members]
    codes = _leave(cluster, request.group_id, named, now_ms)
    left = [
        _Left(member_id=member_id, group_instance_id=instance_id, error_code=code)
        for (member_id, instance_id), code in zip(named, codes, strict=True)
    ]
    return LeaveGroupResponse(error_code=0, members=left)


def _leave(cluster: Cluster, group_id: str, members: list[tuple[str, str | None]], now_ms: int) -> list[int]:
    """The error code of each member (id, instance id)."""
    if cluster.group_ids.type_of(group_id) is not GroupType.CONSUMER:
        return [_leave_classic(cluster, group_id, member, now_ms) for member in members]
    try:
        return cluster.consumer_groups.leave(group_id, members, now_ms)
    except Refusal as refusal:
        return [refusal.code] * len(members)


def _leave_classic(cluster: Cluster, group_id: str, member: tuple[str, str | None], now_ms: int) -> int:
    try:
        cluster.classic_groups.leave(group_id, member, now_ms)
    except Refusal as refusal:
        return refusal.code
    return 0


# ---- DescribeGroups


def handle_describe(
    cluster: Cluster, context: RequestContext, request: DescribeGroupsRequest, now_ms: int
) -> DescribeGroupsResponse:
    groups = []
    for group_id in request.groups:
        described = _describe(cluster, context, group_id)
        if request.include_authorized_operations and described.error_code == 0:
            described.authorized_operations = set(GROUP_OPERATIONS)
        groups.append(described)
    return DescribeGroupsResponse(groups=groups)


def _describe(cluster: Cluster, context: RequestContext, group_id: str) -> _DescribedGroup:
    try:
        cluster.require_coordinator(context, group_id)
    except Refusal as refusal:
        return _DescribedGroup(error_code=refusal.code, group_id=group_id, members=[])
    try:
        return _described(cluster.classic_groups.existing(group_id))
    except Refusal as refusal:
        silent = context.api_version < _NOT_FOUND_SINCE_VERSION
        return _DescribedGroup(
            error_code=0 if silent else refusal.code,
            error_message=None if silent else refusal.message,
            group_id=group_id,
            group_state=_DEAD,
            members=[],
        )


def _described(group: ClassicGroup) -> _DescribedGroup:
    stable = group.state is GroupState.STABLE
    return _DescribedGroup(
        error_code=0,
        error_message=None,
        group_id=group.id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=(group.protocol or "") if stable else "",
        members=[_described_member(member, group.protocol if stable else None) for member in group.members.values()],
    )


def _described_member(member: GroupMember, protocol: str | None) -> _DescribedGroup.DescribedGroupMember:
    return _DescribedGroup.DescribedGroupMember(
        member_id=member.id,
        group_instance_id=member.join.instance_id,
        client_id=member.join.client_id,
        client_host=member.join.client_host,
        member_metadata=member.metadata(protocol),
        member_assignment=member.assignment,
    )
