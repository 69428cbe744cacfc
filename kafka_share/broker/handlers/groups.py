"""ListGroups (16) and DeleteGroups (42), of groups of all types. From version 3 on DeleteGroups tells the reason (4.4).

- Every node lists the groups that it coordinates. A share group has the type and protocol type "share"; a classic one
  the type "classic" and the protocol type of its members, "" if it never had any; a consumer group (KIP-848) the type
  and protocol type "consumer". Filters compare without case; a state
  or type that nobody has matches nothing.
- A group with members is NON_EMPTY_GROUP, an unknown one GROUP_ID_NOT_FOUND, another node's NOT_COORDINATOR. Deleting
  takes the group's share state or offsets along, not its configuration. Share partitions in memory are not told.

Versions: ListGroups (16) 0 to 5, DeleteGroups (42) 0 to 2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka_share.broker.group_ids import GroupType
from kafka_share.broker.refusals import Refusal
from kafka_share.protocol.groups import DeleteGroupsRequest, DeleteGroupsResponse, ListGroupsRequest, ListGroupsResponse

if TYPE_CHECKING:
    from kafka_share.broker.cluster import Cluster
    from kafka_share.broker.events import RequestContext

_DeletedGroup = DeleteGroupsResponse.DeletableGroupResult
_ListedGroup = ListGroupsResponse.ListedGroup


def handle_list(
    cluster: Cluster, context: RequestContext, request: ListGroupsRequest, now_ms: int
) -> ListGroupsResponse:
    states = [state.lower() for state in request.states_filter or ()]
    types = [kind.lower() for kind in request.types_filter or ()]
    groups = [
        group
        for group in sorted(_all_groups(cluster), key=lambda group: group.group_id)
        if cluster.coordinator_of(group.group_id).id == context.node_id
        and (not states or group.group_state.lower() in states)
        and (not types or group.group_type in types)
    ]
    return ListGroupsResponse(error_code=0, groups=groups)


def _all_groups(cluster: Cluster) -> list[_ListedGroup]:
    server_assigned = ((GroupType.SHARE, cluster.share_groups), (GroupType.CONSUMER, cluster.consumer_groups))
    return _classic_groups(cluster) + [
        _ListedGroup(group_id=group.id, protocol_type=kind.value, group_state=group.state, group_type=kind.value)
        for kind, groups in server_assigned
        for group in groups.groups()
    ]


def _classic_groups(cluster: Cluster) -> list[_ListedGroup]:
    return [
        _ListedGroup(
            group_id=group.id,
            protocol_type=group.protocol_type or "",
            group_state=group.state.value,
            group_type=GroupType.CLASSIC.value,
        )
        for group in cluster.classic_groups.groups()
    ]


def handle_delete(
    cluster: Cluster, context: RequestContext, request: DeleteGroupsRequest, now_ms: int
) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(results=[_delete(cluster, context, group, now_ms) for group in request.groups_names])


def _delete(cluster: Cluster, context: RequestContext, group: str, now_ms: int) -> _DeletedGroup:
    try:
        cluster.require_coordinator(context, group)
        kind = cluster.group_ids.type_of(group)
        if kind is GroupType.CLASSIC:
            cluster.classic_groups.delete(group, now_ms)
        elif kind is GroupType.CONSUMER:
            cluster.consumer_groups.delete(group, now_ms)
        else:
            cluster.share_groups.delete(group, now_ms)
    except Refusal as refusal:
        return _DeletedGroup(group_id=group, error_code=refusal.code, error_message=refusal.message)
    return _DeletedGroup(group_id=group, error_code=0)
