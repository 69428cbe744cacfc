"""How fast a group gets on, from one snapshot to the next. Knows no clock."""

from __future__ import annotations

import attrs

from kafka_share.cli.group_snapshot import GroupSnapshot
from kafka_share.records import TopicPartition
from kafka_share.spark.agent_status import AgentStatus


@attrs.frozen
class Reading:
    """A snapshot, and the records finished per second since the one before."""

    snapshot: GroupSnapshot
    rates: dict[TopicPartition, float]
    """Only partitions that both snapshots tell of."""
    agents: tuple[AgentStatus, ...] = ()
    """The lease agents of Spark on this host that are members of the group."""

    @property
    def rate(self) -> float | None:
        """Of all partitions together; None for the first reading."""
        return sum(self.rates.values()) if self.rates else None


class Rates:
    """Makes readings of snapshots. What finished twice is not counted twice: an offset reset shows as zero."""

    def __init__(self) -> None:
        self._before: tuple[int, dict[TopicPartition, int]] | None = None

    def read(self, snapshot: GroupSnapshot, now_ms: int, agents: tuple[AgentStatus, ...] = ()) -> Reading:
        finished = {p.where: p.finished for p in snapshot.partitions if p.finished is not None}
        rates: dict[TopicPartition, float] = {}
        if self._before is not None and now_ms > self._before[0]:
            then_ms, earlier = self._before
            for where in finished.keys() & earlier.keys():
                rates[where] = max(0, finished[where] - earlier[where]) * 1000 / (now_ms - then_ms)
        self._before = (now_ms, finished)
        return Reading(snapshot, rates, agents)
