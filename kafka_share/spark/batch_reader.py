"""ShareBatchReader: the batch source's half that Spark calls.

Spark plans a DataFrame once, at its first action, in a process that ends right after; so the agent keeps the lease
until it is settled by `kafka_share_ack`, by `batch()`, by its time to live, or by the end of the driver. All actions on
the DataFrame see the same rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from pyspark.sql.datasource import DataSourceReader, InputPartition

from kafka_share.spark.agent_client import AgentClient
from kafka_share.spark.agent_start import new_agent_name, proof_of, start_agent
from kafka_share.spark.options import SourceOptions
from kafka_share.spark.share_split import read_split, splits_of

EMPTY: Final = "empty"
"""A file of this name in an agent's folder: there was nothing to read."""
ONLY_LEASE: Final = 1
"""The number of a batch read's lease."""


class ShareBatchReader(DataSourceReader):
    """`columns`: what `read` yields. Raises `ConfigurationError` for options of streaming queries."""

    def __init__(self, options: SourceOptions, columns: Sequence[str]) -> None:
        options.demand_batch()
        self._options = options
        self._columns = list(columns)

    def partitions(self) -> list[InputPartition]:
        """Acquire a lease: one for the life of the DataFrame."""
        options = self._options
        try:
            client = start_agent(options, options.load_id or new_agent_name(), is_batch=True)
        except FileExistsError:  # Spark has planned the DataFrame before
            return self._planned_again()
        try:
            client.attach(proof_of(options))
            if client.acquire(0, options.max_records, options.available_now_idle_ms, drain=True) is None:
                (client.folder / EMPTY).touch()
                client.stop()
                return []
            return list(splits_of(client, ONLY_LEASE, options) or [])
        finally:
            client.close()

    def _planned_again(self) -> list[InputPartition]:
        folder = self._options.agents_folder / self._options.load_id
        if (folder / EMPTY).exists():
            return []
        client = AgentClient(folder)
        try:
            client.attach(proof_of(self._options))
            return list(splits_of(client, ONLY_LEASE, self._options) or [])
        finally:
            client.close()

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return read_split(partition, self._columns)
