"""ShareAckListener: accepts the records of a batch as soon as the query reports it, not only with the next batch.

`register` adds it to a session. Spark reports a batch when it is in the query's commit log; so this is proof, too. It
runs in the driver's Python; nothing it does can fail a query.
"""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

from pyspark.sql.streaming.listener import StreamingQueryListener

from kafka_share.spark.agent_client import AgentClient
from kafka_share.spark.failures import LeaseAgentError
from kafka_share.spark.offsets import SourceOffset

log: logging.Logger = logging.getLogger(__name__)


class ShareAckListener(StreamingQueryListener):
    """Reads the end offsets of each progress report; those of other sources are not ours to read."""

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802
        """Nothing is committed yet."""

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        """Nothing new is committed."""

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        """What was committed was reported before."""

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        for source in event.progress.sources:
            offset = _offset_of(source.endOffset)
            if offset is not None and not offset.is_start:
                self._committed(offset)

    def _committed(self, offset: SourceOffset) -> None:
        for agent, lease in zip(offset.agents, offset.leases, strict=True):
            try:
                client = AgentClient(Path(agent))
                try:
                    client.commit(lease)
                finally:
                    client.close()
            except LeaseAgentError as error:  # the next batch is proof, too
                log.debug("lease %d could not be settled early: %s", lease, error)


def _offset_of(text: str | None) -> SourceOffset | None:
    try:
        return SourceOffset.of(json.loads(text or ""))
    except ValueError:
        return None
