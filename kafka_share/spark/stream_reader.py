"""ShareStreamReader: the streaming source's half that Spark calls; the leases are the agent's.

Spark makes readers in several processes; the methods other than `read` run in one of them, the runner, for the whole
run of a query. There the reader attaches to an agent when it is first needed: to the one that the checkpoint names, if
it still lives, else to a new one. `latestOffset(start)` is Spark's proof that everything up to `start` is committed.

What must hold: the rows of a batch are those that were acquired for it, whenever and however often Spark asks. If they
are gone, the batch is replayed empty, never with other records: a sink that has the batch already would skip them, and
they would be accepted unseen.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from kafka_share.spark.agent_start import proof_of, start_agents
from kafka_share.spark.failures import AgentGoneError
from kafka_share.spark.fleet import Fleet, earlier_fleet
from kafka_share.spark.offsets import SourceOffset
from kafka_share.spark.options import SourceOptions
from kafka_share.spark.share_split import read_split, splits_of_all
from kafka_share.spark.spark_versions import ReadMaxRows, SupportsTriggerAvailableNow

log: logging.Logger = logging.getLogger(__name__)


class ShareStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """`columns`: what `read` yields."""

    def __init__(self, options: SourceOptions, columns: Sequence[str]) -> None:
        self._options = options
        self._columns = list(columns)
        self._fleet: Fleet | None = None
        self._gone: SourceOffset | None = None
        """The batch that was replayed empty, because its lease was gone."""
        self._end = SourceOffset()
        """The latest batch that was planned; Spark 4.0 and 4.1 do not say where they are."""
        self._drains = False
        self._is_drained = False

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_fleet": None}

    # ---- what Spark calls in the runner

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        return SourceOffset().document()

    def getDefaultReadLimit(self) -> Any:  # noqa: N802
        return ReadMaxRows(self._options.max_records)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._drains = True

    def latestOffset(self, start: dict[str, Any] | None = None, limit: Any = None) -> dict[str, Any]:  # noqa: N802
        """The end of the next batch: a lease is acquired for it. `start` itself if there is nothing to read."""
        offset = self._end if start is None else SourceOffset.of(start)
        if self._is_drained:
            return offset.document() if start is None else start
        most = min(getattr(limit, "max_rows", self._options.max_records), self._options.max_records)
        has_failed = self._options.bisect and offset == self._gone
        bite = offset.wanted(most, has_failed=has_failed)
        fleet = self._attached(offset, is_committed=True)
        lease = fleet.acquire(
            offset.leases if _is_of(offset, fleet) else (),
            bite.most,
            self._options.available_now_idle_ms if self._drains else self._options.max_wait_ms,
            drain=self._drains,
        )
        if lease is None:
            self._is_drained = self._drains
            return offset.document() if start is None else start
        return bite.taken(fleet.folders, lease.leases, lease.records).document()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        if start == end:
            return []
        self._end = offset = SourceOffset.of(end)
        fleet = self._attached(offset, is_committed=False)
        splits = splits_of_all(fleet, offset.leases, self._options) if _is_of(offset, fleet) else None
        if splits is None:
            log.warning("leases %s are gone: their batch is replayed without rows, which come again", offset.leases)
            self._gone = offset
        return splits or []

    def reportLatestOffset(self) -> dict[str, int] | None:  # noqa: N802
        """Spark shows this in the progress of the query: what the agents have done, what is open, and the lag."""
        with contextlib.suppress(AgentGoneError):
            return None if self._fleet is None else self._fleet.counts()
        return None

    def commit(self, end: dict[str, Any]) -> None:
        offset = SourceOffset.of(end)
        if self._fleet is not None and _is_of(offset, self._fleet):
            with contextlib.suppress(AgentGoneError):  # the next batch says so; this one is committed in any case
                self._fleet.commit(offset.leases)

    def stop(self) -> None:
        """The run of the query ends: the agents see it by their connections.

        So they do if this is not called: `query.stop()` ends the runner by a signal.
        """
        fleet, self._fleet = self._fleet, None
        if fleet is not None:
            fleet.close()

    # ---- on the executors

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return read_split(partition, self._columns)

    # ---- inside

    def _attached(self, offset: SourceOffset, *, is_committed: bool) -> Fleet:
        """The agents of the query: those that the checkpoint names, or new ones."""
        if self._fleet is None:
            proof = proof_of(self._options)
            if not offset.is_start:
                self._fleet = earlier_fleet(offset.agents, offset.leases, proof, is_committed=is_committed)
            if self._fleet is None:
                self._fleet = Fleet(start_agents(self._options))
                self._fleet.attach(proof)
        return self._fleet


def _is_of(offset: SourceOffset, fleet: Fleet) -> bool:
    return offset.agents == fleet.folders
