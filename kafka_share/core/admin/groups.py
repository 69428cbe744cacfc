"""Operations on groups: list, describe, delete."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from kafka_share.admin_values import (
    AclOperation,
    GroupListing,
    GroupListings,
    GroupState,
    GroupType,
    ShareGroupDescription,
    ShareMemberDescription,
)
from kafka_share.core.admin import arguments
from kafka_share.core.admin.conversation import Call, Conversation, Operation
from kafka_share.core.admin.routing import GroupRequest, ask_coordinators, ask_every, find_brokers
from kafka_share.errors import KafkaShareError, error_for_code
from kafka_share.protocol.groups import DeleteGroupsRequest, ListGroupsRequest
from kafka_share.protocol.share_group import ShareGroupDescribeRequest
from kafka_share.records import Node, TopicPartition

if TYPE_CHECKING:
    from kafka_share.protocol.groups import DeleteGroupsResponse, ListGroupsResponse
    from kafka_share.protocol.share_group import ShareGroupDescribeResponse

E = TypeVar("E", bound=Enum)

_WITH_STATES: Final = 4
_WITH_TYPES: Final = 5
_NOT_TOLD: Final = -(2**31)


# ---- list


def list_groups(
    states: Iterable[GroupState | str] | None, types: Iterable[GroupType | str] | None
) -> Operation[GroupListings]:
    """Ask every broker for the groups that it coordinates; filters are applied by the brokers, in any case (KIP-848).

    Raises the first broker's error if none answered, `UnsupportedVersionError` among them where types are asked for
    and ListGroups is older than version 5.
    """
    states_filter, types_filter = (
        arguments.filter_values("group state", states),
        arguments.filter_values("group type", types),
    )
    request = ListGroupsRequest(states_filter=states_filter, types_filter=types_filter)
    min_version = _WITH_TYPES if types_filter else _WITH_STATES if states_filter else 0
    return partial(_list_groups, request, min_version)


def _list_groups(request: ListGroupsRequest, min_version: int, call: Call) -> Conversation[GroupListings]:
    nodes = yield from find_brokers(call)
    answers = yield from ask_every(call, nodes, request, min_version, lambda r: error_for_code(r.error_code))
    errors = {node: answer for node, answer in answers.items() if isinstance(answer, KafkaShareError)}
    if errors and len(errors) == len(answers):
        raise next(iter(errors.values()))
    found: dict[str, GroupListing] = {}
    for node in nodes:
        if node not in errors:
            for listing in _listings(answers[node], node):
                found.setdefault(listing.group_id, listing)  # twice while it moves from one coordinator to another
    return GroupListings(tuple(found[group_id] for group_id in sorted(found)), errors)


def _listings(response: ListGroupsResponse, node: Node) -> Iterable[GroupListing]:
    for group in response.groups:
        state, group_type = parsed(GroupState, group.group_state), parsed(GroupType, group.group_type)
        yield GroupListing(group.group_id, state, group.protocol_type, group_type, node)


def parsed(kind: type[E], name: str | None) -> E:
    """The member of an enum that a broker names; its UNKNOWN for others. Brokers differ in the case."""
    wanted = (name or "").lower()
    return next((member for member in kind if member.value.lower() == wanted), kind["UNKNOWN"])


# ---- describe


def describe_share_groups(
    group_ids: Iterable[str], include_authorized_operations: bool
) -> Operation[dict[str, ShareGroupDescription | KafkaShareError]]:
    """Members, assignments and epochs; all groups of one coordinator in one request."""
    ids = arguments.names("group id", group_ids)

    def build(groups: list[str]) -> ShareGroupDescribeRequest:
        return ShareGroupDescribeRequest(
            group_ids=groups, include_authorized_operations=bool(include_authorized_operations)
        )

    return partial(ask_coordinators, ids, GroupRequest(build, _descriptions, min_version=1))


def _descriptions(
    response: ShareGroupDescribeResponse, coordinator: Node
) -> dict[str, ShareGroupDescription | KafkaShareError]:
    found: dict[str, ShareGroupDescription | KafkaShareError] = {}
    for group in response.groups:
        error = error_for_code(group.error_code, group.error_message or None)
        found[group.group_id] = _description(group, coordinator) if error is None else error
    return found


def _description(group: ShareGroupDescribeResponse.DescribedGroup, coordinator: Node) -> ShareGroupDescription:
    return ShareGroupDescription(
        group_id=group.group_id,
        state=parsed(GroupState, group.group_state),
        group_epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        assignor=group.assignor_name,
        members=tuple(_member(member) for member in sorted(group.members, key=lambda m: m.member_id)),
        coordinator=coordinator,
        authorized_operations=_operations_in(group.authorized_operations),
    )


def _member(member: ShareGroupDescribeResponse.DescribedGroup.Member) -> ShareMemberDescription:
    assignment = [
        TopicPartition(topic.topic_name, partition)
        for topic in member.assignment.topic_partitions
        for partition in topic.partitions
    ]
    return ShareMemberDescription(
        member_id=member.member_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        rack_id=member.rack_id,
        subscribed_topic_names=tuple(member.subscribed_topic_names),
        assignment=tuple(sorted(assignment)),
    )


def _operations_in(bits: int) -> frozenset[AclOperation] | None:
    if bits == _NOT_TOLD:
        return None
    return known_operations(bit for bit in range(32) if bits >> bit & 1)


def known_operations(codes: Iterable[int]) -> frozenset[AclOperation]:
    """The operations that this version has a name for."""
    known = {operation.value: operation for operation in AclOperation}
    return frozenset(known[code] for code in codes if code in known)


# ---- delete


def delete_share_groups(group_ids: Iterable[str]) -> Operation[dict[str, KafkaShareError | None]]:
    """DeleteGroups to each coordinator. It does not look at the type: a group of another type is deleted as well."""
    ids = arguments.names("group id", group_ids)
    return partial(ask_coordinators, ids, GroupRequest(_delete_request, _deletions))


def _delete_request(groups: list[str]) -> DeleteGroupsRequest:
    return DeleteGroupsRequest(groups_names=groups)


def _deletions(response: DeleteGroupsResponse, _: Node) -> dict[str, KafkaShareError | None]:
    return {result.group_id: error_for_code(result.error_code) for result in response.results}
