"""What a member of a consumer group says in ConsumerGroupHeartbeat, and what it is told; values, and their checks.

Made by the handler, read by `ConsumerGroups`. Nothing here knows a group. Source: KIP-848 and Kafka
4.3's group coordinator.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from kafka_share.broker.consumer.consumer_member import JOIN_EPOCH, LEAVE_EPOCH, STATIC_LEAVE_EPOCH
from kafka_share.broker.name_pattern import NamePattern, PatternError
from kafka_share.broker.refusals import ErrorCode, Refusal
from kafka_share.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kafka_share.broker.consumer.consumer_member import ConsumerMember
    from kafka_share.broker.server_assigned_group import Partition


@attrs.frozen(kw_only=True)
class ConsumerHeartbeat:
    """What a member says; None (for `rebalance_timeout_ms` -1) where it is as before.

    With `makes_own_id` (version 1) the member has to name itself.
    """

    group: str
    member: str
    epoch: int
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    subscribed: tuple[str, ...] | None = None
    pattern: str | None = None
    assignor: str | None = None
    owned: frozenset[Partition] | None = None
    client_id: str = ""
    client_host: str = ""
    makes_own_id: bool = True
    may_see: Callable[[str], bool] = lambda topic: True
    """Whether the client may know of a topic: regular expressions stand for no others."""

    @property
    def is_full(self) -> bool:
        """Whether the member says everything, as it does when it wants its assignment again."""
        subscribes = self.subscribed is not None or self.pattern is not None
        return self.rebalance_timeout_ms != -1 and subscribes and self.owned is not None


@attrs.frozen
class ConsumerAnswer:
    """What the member is told. `assignment` is None where it is as before."""

    member: str
    epoch: int
    interval_ms: int = 0
    assignment: frozenset[Partition] | None = None


def validate(beat: ConsumerHeartbeat, assignors: Sequence[str]) -> None:
    """Raises `Refusal` for what makes no sense in any group."""
    if not beat.member and (beat.makes_own_id or beat.epoch > JOIN_EPOCH or beat.epoch == LEAVE_EPOCH):
        raise Refusal(InvalidRequestError, "a heartbeat has to name a member")
    if not beat.group.strip():
        raise Refusal(InvalidRequestError, "a heartbeat has to name a group")
    if beat.instance_id is not None and not beat.instance_id.strip():
        raise Refusal(InvalidRequestError, "an instance id cannot be empty; leave it out instead")
    if beat.rack_id is not None and not beat.rack_id.strip():
        raise Refusal(InvalidRequestError, "a rack id cannot be empty; leave it out instead")
    if beat.epoch == JOIN_EPOCH and (not beat.is_full or beat.owned):
        raise Refusal(
            InvalidRequestError,
            "a member that joins has to name its rebalance timeout and its topics, and owns no partitions",
        )
    if beat.epoch == STATIC_LEAVE_EPOCH and beat.instance_id is None:
        raise Refusal(InvalidRequestError, "only a static member can leave for a while")
    if beat.epoch < STATIC_LEAVE_EPOCH:
        raise Refusal(InvalidRequestError, f"{beat.epoch} is not a member epoch")
    if beat.assignor is not None and beat.assignor not in assignors:
        raise Refusal(ErrorCode.UNSUPPORTED_ASSIGNOR, f"there is no assignor {beat.assignor!r} but {assignors}")
    if beat.pattern and beat.epoch >= JOIN_EPOCH:
        _require_pattern(beat.pattern)


def _require_pattern(pattern: str) -> None:
    try:
        NamePattern(pattern)
    except PatternError as error:
        raise Refusal(
            ErrorCode.INVALID_REGULAR_EXPRESSION, f"{pattern!r} is not a regular expression: {error}"
        ) from None


def updated_by(member: ConsumerMember, beat: ConsumerHeartbeat) -> ConsumerMember:
    """The member with what it says about itself."""
    said: dict[str, Any] = {
        "instance_id": beat.instance_id,
        "rack_id": beat.rack_id,
        "rebalance_timeout_ms": None if beat.rebalance_timeout_ms == -1 else beat.rebalance_timeout_ms,
        "subscribed": None if beat.subscribed is None else tuple(sorted(set(beat.subscribed))),
        "pattern": beat.pattern,
        "assignor": beat.assignor,
    }
    news = {name: value for name, value in said.items() if value is not None}
    return attrs.evolve(member, client_id=beat.client_id, client_host=beat.client_host, classic=None, **news)
