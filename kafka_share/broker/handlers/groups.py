"""ListGroups (16) and DeleteGroups (42).

- Every node lists the groups that it coordinates. All groups are share groups: type and protocol type are "share",
  the state is "Empty" or "Stable". Filters compare without case; a state or type that nobody has matches nothing.
- A group with members is NON_EMPTY_GROUP, an unknown one GROUP_ID_NOT_FOUND, another node's NOT_COORDINATOR. Deleting
  takes the group's share state along, not its configuration. Share partitions in memory are not told.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka_share.broker.refusals import Refusal
from kafka_share.protocol.classic import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
)

if TYPE_CHECKING:
    from kafka_share.broker.cluster import Cluster
    from kafka_share.broker.events import RequestContext

GROUP_TYPE = "share"


def handle_list(
    cluster: Cluster, context: RequestContext, request: ListGroupsRequest, now_ms: int
) -> ListGroupsResponse:
    states = [state.lower() for state in request.states_filter or ()]
    types = [kind.lower() for kind in request.types_filter or ()]
    groups = [
        ListGroupsResponse.ListedGroup(
            group_id=group.id, protocol_type=GROUP_TYPE, group_state=group.state, group_type=GROUP_TYPE
        )
        for group in cluster.groups.groups()
        if cluster.coordinator_of(group.id).id == context.node_id
        and (not states or group.state.lower() in states)
        and (not types or GROUP_TYPE in types)
    ]
    return ListGroupsResponse(error_code=0, groups=groups)


def handle_delete(
    cluster: Cluster, context: RequestContext, request: DeleteGroupsRequest, now_ms: int
) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(
        results=[
            DeleteGroupsResponse.DeletableGroupResult(group_id=group, error_code=_delete(cluster, context, group))
            for group in request.groups_names
        ]
    )


def _delete(cluster: Cluster, context: RequestContext, group: str) -> int:
    try:
        cluster.require_coordinator(context, group)
        cluster.groups.delete(group)
    except Refusal as refusal:
        return refusal.code
    return 0
