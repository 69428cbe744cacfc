"""Which members of a consumer group may commit and fetch its offsets, by their epochs.

Called by the handlers of committed offsets and of transactions. What a member of the classic protocol calls its
generation is its epoch. Source: Kafka 4.3's `ConsumerGroup`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafka_share.broker.refusals import ErrorCode, Refusal
from kafka_share.errors import UnknownMemberIdError, UnsupportedVersionError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafka_share.broker.consumer.consumer_group import ConsumerGroup
    from kafka_share.broker.consumer.consumer_member import ConsumerMember
    from kafka_share.broker.server_assigned_group import Partition

_COMMITS_SINCE_VERSION: Final = 9
"""Of OffsetCommit: it knows member epochs."""


def require_may_commit(
    group: ConsumerGroup,
    member_id: str,
    epoch: int,
    partitions: Iterable[Partition],
    *,
    api_version: int | None,
) -> None:
    """Raises `Refusal` unless the member, or somebody outside of an empty group, may commit these partitions now.

    `api_version` is that of OffsetCommit, None in a transaction.
    """
    if epoch < 0 and (not group.members or (api_version is None and not member_id)):
        return
    member = group.members.get(member_id)
    if member is None:
        raise Refusal(UnknownMemberIdError, f"group {group.id!r} has no member {member_id!r}")
    if api_version is not None and api_version < _COMMITS_SINCE_VERSION and member.classic is None:
        raise Refusal(UnsupportedVersionError, "members of consumer groups commit with version 9 or later")
    if epoch == member.epoch:
        return
    stale = ErrorCode.ILLEGAL_GENERATION if api_version is None else _stale(member)
    if epoch > member.epoch or not group.behaviour.commits_at_assignment_epochs:
        raise Refusal(stale, f"the member epoch is {member.epoch}, not {epoch}")
    for partition in partitions:
        since = member.assigned.get(partition, member.revoking.get(partition))
        if since is None or epoch < since:
            raise Refusal(stale, f"the member has not had the partition since epoch {epoch}")


def require_may_fetch(group: ConsumerGroup, member_id: str | None, epoch: int) -> None:
    """Raises `Refusal` if a member names itself, and its epoch is not the present one."""
    if member_id is None and epoch < 0:
        return
    member = group.members.get(member_id or "")
    if member is None:
        raise Refusal(UnknownMemberIdError, f"group {group.id!r} has no member {member_id!r}")
    if epoch != member.epoch:
        raise Refusal(_stale(member), f"the member epoch is {member.epoch}, not {epoch}")


def _stale(member: ConsumerMember) -> ErrorCode:
    return ErrorCode.STALE_MEMBER_EPOCH if member.classic is None else ErrorCode.ILLEGAL_GENERATION
