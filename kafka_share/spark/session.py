"""What a driver program calls: `register`, `batch` and `assert_held`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from weakref import WeakSet

from pyspark.sql import DataFrame, SparkSession

from kafka_share.errors import ConfigurationError
from kafka_share.spark.ack_sink import ShareAckSink
from kafka_share.spark.agent_client import AgentClient, find_agent
from kafka_share.spark.agent_start import new_agent_name
from kafka_share.spark.batch_reader import EMPTY, ONLY_LEASE
from kafka_share.spark.failures import AgentGoneError, LeaseLostError
from kafka_share.spark.listener import ShareAckListener
from kafka_share.spark.options import SourceOptions, agents_folder
from kafka_share.spark.source import ShareGroupSource

_listening: WeakSet[SparkSession] = WeakSet()


def register(spark: SparkSession) -> None:
    """Make the formats kafka_share and kafka_share_ack known to a session, and accept records as batches commit.

    Spark finds the formats by itself where the package is installed; without this call, though, the records of a batch
    are accepted only when the next one begins. Calling it again does nothing.
    """
    if spark in _listening:
        return
    spark.dataSource.register(ShareGroupSource)
    spark.dataSource.register(ShareAckSink)
    spark.streams.addListener(ShareAckListener())
    _listening.add(spark)


class ShareBatch:
    """One batch read: `df` has its rows. Nothing is acquired until the first action on it."""

    def __init__(self, df: DataFrame, agent_dir: str) -> None:
        self.df: DataFrame = df
        self.is_settled: bool = False
        self._agent_dir = agent_dir

    def acknowledge(self, decisions: DataFrame) -> None:
        """End the batch by what these rows say (leaseId, topic, partition, offset, ack); the rest is released.

        Raises `LeaseLostError` if the records were not acquired any more.
        """
        decisions.write.format("kafka_share_ack").mode("append").option("agentDir", self._agent_dir).save()
        self.is_settled = True


@contextlib.contextmanager
def batch(spark: SparkSession, options: Mapping[str, str]) -> Iterator[ShareBatch]:
    """Read a batch of records: accepted at the end of the block, released if it raises.

    `options` are those of the source. Raises `LeaseLostError` at the end of the block if the records could not be
    accepted, because they were not acquired any more: they are delivered again.
    """
    if "loadid" in {name.lower() for name in options}:
        raise ConfigurationError("loadId is given by batch() itself")
    name = new_agent_name()
    checked = SourceOptions.of(options)
    reader = spark.read.format(ShareGroupSource.name()).options(**options, loadId=name)
    opened = ShareBatch(reader.load(), checked.agent_dir)
    folder = checked.agents_folder / name
    try:
        yield opened
    except BaseException:
        with contextlib.suppress(AgentGoneError, LeaseLostError):  # then they are free already
            if folder.exists() and not opened.is_settled:
                _settle(AgentClient(folder), "RELEASE")
        raise
    if folder.exists() and not (folder / EMPTY).exists() and not opened.is_settled:
        try:
            client = AgentClient(folder)
        except AgentGoneError as error:
            raise LeaseLostError(
                "the lease of the batch has ended before the end of the block (see leaseTtlMs): its records come again"
            ) from error
        _settle(client, "ACCEPT")


def _settle(client: AgentClient, rest: str) -> None:
    try:
        client.settle(ONLY_LEASE, rest)
    finally:
        client.close()


def assert_held(df: DataFrame, agent_dir: str = "") -> None:
    """Raise `LeaseLostError` if records of this DataFrame are known not to be acquired any more.

    For use in foreachBatch right before a write that is not idempotent: the batch then fails, instead of writing rows
    that others were given meanwhile. `agent_dir` is the option agentDir of the source, if it was set.
    """
    for row in df.select("leaseId").distinct().collect():
        client, lease = find_agent(row["leaseId"], agents_folder(agent_dir))
        try:
            if not client.is_held(lease):
                raise LeaseLostError(f"the records of {row['leaseId']} are not acquired any more: they come again")
        finally:
            client.close()
