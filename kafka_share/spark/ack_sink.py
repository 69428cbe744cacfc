"""ShareAckSink: `df.write.format("kafka_share_ack")` and the same with writeStream: what becomes of single records.

A row names a record by leaseId, topic, partition and offset, and says in `ack` ACCEPT, RELEASE or REJECT (null: nothing
is decided). Tasks only collect; the driver hands the decisions to the agents when all tasks have succeeded. Those about
a streaming batch are kept by the agent until the batch is committed; those about a batch read are sent at once and end
it, and records without a decision are then released.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from kafka_share.errors import ConfigurationError
from kafka_share.spark.agent_client import find_agent
from kafka_share.spark.failures import LeaseAgentError
from kafka_share.spark.options import agents_folder

COLUMNS: Final = ("leaseId", "topic", "partition", "offset", "ack")
TYPES: Final = ("ACCEPT", "RELEASE", "REJECT")
_OPTIONS: Final = ("agentdir", "when", "path", "checkpointlocation")
_WHEN: Final = {"commit": False, "now": True}
"""When decisions are sent -> whether that is how it is with a batch read."""

Decision = tuple[str, int, int, str]


class Decisions(WriterCommitMessage):
    """What one task has collected: decisions by leaseId."""

    def __init__(self, by_lease: dict[str, list[Decision]]) -> None:
        self.by_lease: dict[str, list[Decision]] = by_lease


class ShareAckSink(DataSource):
    """Options: agentDir, as for the source; `when`, "commit" (streaming) or "now" (batch), to have it checked."""

    @classmethod
    def name(cls) -> str:
        return "kafka_share_ack"

    def writer(self, schema: StructType, overwrite: bool) -> AckWriter:
        return AckWriter(self._handing_over(schema, overwrite))

    def streamWriter(self, schema: StructType, overwrite: bool) -> AckStreamWriter:  # noqa: N802
        return AckStreamWriter(self._handing_over(schema, overwrite))

    def _handing_over(self, schema: StructType, overwrite: bool) -> HandingOver:
        options = {name.lower(): value for name, value in dict(self.options).items()}
        for name in options:
            if name not in _OPTIONS:
                raise ConfigurationError(f"{name} is not an option of kafka_share_ack; there are agentDir and when")
        if overwrite:
            raise ConfigurationError('decisions cannot be overwritten: write .mode("append")')
        missing = [name for name in COLUMNS if name.lower() not in (known.lower() for known in schema.fieldNames())]
        if missing:
            raise ConfigurationError(
                f"kafka_share_ack needs the columns {', '.join(COLUMNS)}; missing are {', '.join(missing)}"
            )
        when = options.get("when", "").lower()
        if when and when not in _WHEN:
            raise ConfigurationError("when is commit (decisions about a streaming batch) or now (about a batch read)")
        return HandingOver(agents_folder(options.get("agentdir", "")), when)


class HandingOver:
    """From the rows of tasks to the agents of their leases."""

    def __init__(self, folder: Path, when: str) -> None:
        self._folder = folder
        self._when = when

    def collect(self, batches: Iterator[Any]) -> Decisions:
        """In a task. Raises `LeaseAgentError` for an `ack` that is none."""
        by_lease: dict[str, list[Decision]] = {}
        for batch in batches:
            place = {name.lower(): index for index, name in enumerate(batch.schema.names)}
            columns = [batch.column(place[name.lower()]).to_pylist() for name in COLUMNS]
            for lease_id, topic, partition, offset, ack in zip(*columns, strict=True):
                if ack is None:
                    continue
                if ack.upper() not in TYPES:
                    raise LeaseAgentError(f"ack is {', '.join(TYPES)} or null")
                by_lease.setdefault(lease_id, []).append((topic, partition, offset, ack.upper()))
        return Decisions(by_lease)

    def hand_over(self, messages: Sequence[Decisions | None]) -> None:
        """On the driver. Raises `LeaseLostError` or `AgentGoneError` if a lease is not there any more."""
        by_lease: dict[str, list[Decision]] = {}
        for message in messages:
            for lease_id, decisions in (message.by_lease if message is not None else {}).items():
                by_lease.setdefault(lease_id, []).extend(decisions)
        for lease_id, decisions in by_lease.items():
            client, lease = find_agent(lease_id, self._folder)
            try:
                if self._when and _WHEN[self._when] is not client.is_batch():
                    of = (
                        "a streaming query: write when=commit"
                        if self._when == "now"
                        else "a batch read: write when=now"
                    )
                    raise LeaseAgentError(f"these records are of {of}")
                client.decide(lease, decisions)
            finally:
                client.close()


class AckWriter(DataSourceArrowWriter):
    """For `df.write`."""

    def __init__(self, handing_over: HandingOver) -> None:
        self._handing_over = handing_over

    def write(self, iterator: Iterator[Any]) -> Decisions:
        return self._handing_over.collect(iterator)

    def commit(self, messages: Sequence[Decisions | None]) -> None:
        self._handing_over.hand_over(messages)


class AckStreamWriter(DataSourceStreamArrowWriter):
    """For `df.writeStream`: the decisions of a batch leave with its commit."""

    def __init__(self, handing_over: HandingOver) -> None:
        self._handing_over = handing_over

    def write(self, iterator: Iterator[Any]) -> Decisions:
        return self._handing_over.collect(iterator)

    def commit(self, messages: Sequence[Decisions | None], batchId: int) -> None:  # noqa: N803
        self._handing_over.hand_over(messages)
