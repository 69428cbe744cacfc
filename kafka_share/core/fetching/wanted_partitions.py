"""Which partitions are to be fetched, by the node that leads them: assigned, and still subscribed to (KAFKA-19356).

Owned by `fetching.fetcher`; asks the metadata to be refreshed while a name or a leader is missing.
"""

from __future__ import annotations

from kafka_share.core.fetching.share_session import Wanted
from kafka_share.core.membership import Assignment, Membership
from kafka_share.core.metadata import Metadata
from kafka_share.records import TopicIdPartition


class WantedPartitions:
    """Made anew only when assignment, subscription or metadata have changed: nodes compare it by identity."""

    def __init__(self, metadata: Metadata, membership: Membership) -> None:
        self._metadata = metadata
        self._membership = membership
        self._wanted: dict[int, Wanted] = {}
        self._made_for: tuple[int, int, frozenset[str]] | None = None
        self._is_incomplete = False

    def now(self) -> dict[int, Wanted]:
        """Node → what it is asked for; nothing after the membership has failed."""
        membership = self._membership
        if membership.is_fatal:
            return {}
        key = (membership.assignment_version, self._metadata.version, membership.subscription)
        if key != self._made_for:
            if self._made_for is None or self._made_for[0] != membership.assignment_version:
                self._metadata.missing_anew()
            self._made_for = key
            self._wanted, self._is_incomplete = self._by_leader(membership.assignment, membership.subscription)
        if self._is_incomplete:
            self._metadata.request_update()
        elif self._wanted:
            self._metadata.confirmed()
        return self._wanted

    def _by_leader(self, assignment: Assignment, topics: frozenset[str]) -> tuple[dict[int, Wanted], bool]:
        found: dict[int, list[TopicIdPartition]] = {}
        is_incomplete = False
        for topic_id, partition in assignment:
            name = self._metadata.topic_name(topic_id)
            if name is not None and name not in topics:
                continue
            leader = self._metadata.leader(topic_id, partition)
            if name is None or leader is None or self._metadata.node(leader) is None:
                is_incomplete = True
            else:
                found.setdefault(leader, []).append(TopicIdPartition(topic_id, name, partition))
        return {node_id: tuple(partitions) for node_id, partitions in found.items()}, is_incomplete
