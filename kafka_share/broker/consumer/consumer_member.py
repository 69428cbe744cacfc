"""One member of a consumer group: what it said of itself, and how far it has come towards its target assignment.

A value: a heartbeat makes a new one, which replaces the old one when nothing has refused it. What is stored of a group
is its members and targets, so every field here is plain.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any, Final

import attrs

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafka_share.broker.server_assigned_group import Partition

JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1
STATIC_LEAVE_EPOCH: Final = -2
"""A static member goes, and will come back before its session ends."""


class MemberState(enum.IntEnum):
    """How far reconciliation has come; the numbers that Kafka stores."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    """The member has to give partitions back before it can go on."""
    UNRELEASED_PARTITIONS = 2
    """The member waits for partitions that others have not given back yet."""


@attrs.frozen
class ClassicProtocol:
    """What a member of the classic protocol said when it joined, the preferred (name, subscription) first."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]


@attrs.frozen(kw_only=True)
class ConsumerMember:
    """One member. `epoch` is -2 while a static member is away."""

    id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    subscribed: tuple[str, ...] = ()
    """The topics that it named, in order."""
    pattern: str = ""
    """The regular expression of further topics, empty for none."""
    assignor: str | None = None
    epoch: int = JOIN_EPOCH
    previous_epoch: int = JOIN_EPOCH
    state: MemberState = MemberState.STABLE
    assigned: Mapping[Partition, int] = attrs.field(factory=dict)
    """What the member may use -> the member epoch with which it got it."""
    revoking: Mapping[Partition, int] = attrs.field(factory=dict)
    """What it has to give back -> the member epoch with which it had got it."""
    classic: ClassicProtocol | None = None
    """None for a member that speaks the consumer protocol."""

    def at_epoch(self, epoch: int, **changes: Any) -> ConsumerMember:
        """The member in another epoch (or, for a lost answer, again in the same one)."""
        return attrs.evolve(self, epoch=epoch, previous_epoch=self.epoch, **changes)

    def is_reconciled_to(self, assignment_epoch: int) -> bool:
        """Whether the member has come to the target of this epoch."""
        return self.state is MemberState.STABLE and self.epoch == assignment_epoch
