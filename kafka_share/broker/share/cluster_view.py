"""What the share machines need to know of the cluster around them.

The cluster implements these protocols; `ShareNode` and `ShareCoordinator` hold one `ClusterView` and ask it whenever
they decide something, so a change of leaders, topics or settings needs no notice beyond the calls that `ShareNode`
documents. Nothing here can change the cluster.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from uuid import UUID

    from kafka_share.broker.configs.configs import GroupSettings
    from kafka_share.broker.events import RequestContext
    from kafka_share.broker.storage.log import PartitionLog
    from kafka_share.records import Node


class PartitionView(Protocol):
    """One partition of a topic as the metadata shows it now."""

    @property
    def topic_id(self) -> UUID: ...
    @property
    def topic(self) -> str:
        """The topic's name."""

    @property
    def partition(self) -> int:
        """The index of the partition."""

    @property
    def leader_id(self) -> int:
        """The node that leads the partition, -1 if none does."""

    @property
    def leader_epoch(self) -> int: ...
    @property
    def log(self) -> PartitionLog: ...


class ClusterView(Protocol):
    """The questions that the share machines ask."""

    def topic_name(self, topic_id: UUID) -> str | None:
        """The topic's name, None for an id that no topic has (any more)."""

    def partition(self, topic_id: UUID, partition: int) -> PartitionView | None:
        """None if there is no such topic or no such partition."""

    def may_read(self, context: RequestContext, topic_id: UUID) -> bool:
        """Whether the client of a request may read the topic; True for one that does not exist."""

    def node(self, node_id: int) -> Node | None:
        """The address that clients reach a node at, None if it is not part of the cluster."""

    def group_settings(self, group_id: str) -> GroupSettings:
        """The group's settings as they are now; the broker's own for a group that does not exist."""

    def share_enabled(self) -> bool:
        """Whether the feature share.version is on."""

    def max_share_sessions(self) -> int:
        """How many share sessions one node may hold (group.share.max.share.sessions)."""
