"""One micro-batch: parse the files, count by module and construct, write Parquet, dead-letter what does not parse.

`pipeline` hands `BatchWriter` to foreachBatch. Each batch writes folders of its own, named by the batch id, and
overwrites them: a batch that is run again, with the same rows or, if its records are not acquired any more, with none,
leaves what it would have left if it had run once. So each file is counted exactly once.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the usual name
from python_constructs import PARSED_SCHEMA, module_of, parse

from kafka_share.spark import assert_held

FILES_SCHEMA = "name string, module string, topic string, partition int, offset bigint, deliveryCount int, lines int"
UNPARSABLE_SCHEMA = (
    "name string, module string, topic string, partition int, offset bigint, deliveryCount int, error string, "
    "value binary"
)
COUNTS_SCHEMA = "module string, number bigint, construct string"
"""The columns of the three tables; `batch` is one more, by the names of the folders."""


class BatchWriter:
    """Writes below `output`: tables files, counts and unparsable. `tell` gets a line for each batch.

    `agent_dir` is the option agentDir of the source, if it was set.
    """

    def __init__(self, output: str, tell: Callable[[str], None], agent_dir: str = "") -> None:
        self._output = output
        self._tell = tell
        self._agent_dir = agent_dir

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        began_at_s = time.monotonic()
        parsed = self._parsed(batch).persist()  # each table would parse the files again
        try:
            good, bad = parsed.where("error IS NULL"), parsed.where("error IS NOT NULL")
            files, unparsable = good.count(), bad.count()  # in as many tasks as the batch has; the writes have one each
            self._write(good.select(*_names(FILES_SCHEMA)), "files", batch_id)
            self._write(self._counted(good), "counts", batch_id, "construct")
            self._write(bad.select(*_names(UNPARSABLE_SCHEMA)), "unparsable", batch_id)
            self._reject(bad)  # after the tables: what is rejected has been written
            assert_held(parsed, self._agent_dir)  # if a lock was lost: the files come again, and count there
        finally:
            parsed.unpersist()
        seconds = time.monotonic() - began_at_s
        self._tell(f"batch {batch_id}: {files} files counted, {unparsable} set aside, {seconds:.1f} s")

    @staticmethod
    def _parsed(batch: DataFrame) -> DataFrame:
        """A row for each file, with `error`, `lines` and `constructs`."""
        with_struct = batch.withColumn("parsed", F.udf(parse, PARSED_SCHEMA, useArrow=False)("value"))
        return with_struct.select(
            "leaseId", "topic", "partition", "offset", "deliveryCount", "value", "parsed.*",
            F.decode("key", "UTF-8").alias("name"),
            F.udf(module_of, "string", useArrow=False)("key").alias("module"),
        )  # fmt: skip

    @staticmethod
    def _counted(good: DataFrame) -> DataFrame:
        """How often each construct occurs in the files of each module."""
        exploded = good.select("module", F.explode("constructs").alias("construct", "of_file"))
        return exploded.groupBy("module", "construct").agg(F.sum("of_file").alias("number"))

    def _write(self, df: DataFrame, table: str, batch_id: int, *partitions: str) -> None:
        """A folder for this batch and no other, so that readers find `batch` as a column, and a replay overwrites."""
        writer = df.coalesce(1).write.mode("overwrite").partitionBy(*partitions)
        writer.parquet(f"{self._output}/{table}/batch={batch_id}")

    def _reject(self, bad: DataFrame) -> None:
        """The group is through with these records when the batch is committed, and nobody gets them again."""
        decisions = bad.select("leaseId", "topic", "partition", "offset", F.lit("REJECT").alias("ack"))
        writer = decisions.write.format("kafka_share_ack").mode("append")
        writer.option("when", "commit").option("agentDir", self._agent_dir).save()


def _names(schema: str) -> list[str]:
    return [column.split()[0] for column in schema.split(", ")]
