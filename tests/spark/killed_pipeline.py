"""The example's pipeline, killed with its JVM where the test says: `killed_pipeline.py FOLDER TABLE BATCH OPTION…`.

Run as a script by `test_pipeline`. FOLDER is that of the example. It dies right before it writes TABLE of BATCH; with
the table "commit", when the batch is done and not yet committed.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any
from unittest import mock

sys.path.insert(0, sys.argv[1])

import batches
import pipeline
from pyspark.sql import DataFrame, SparkSession

DEATH = (sys.argv[2], int(sys.argv[3]))


class KilledWriter(batches.BatchWriter):
    """As the original, until it dies."""

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        super().__call__(batch, batch_id)
        if ("commit", batch_id) == DEATH:
            _kill_all(batch.sparkSession)

    def _write(self, df: DataFrame, table: str, batch_id: int, *partitions: str) -> None:
        if (table, batch_id) == DEATH:
            _kill_all(df.sparkSession)
        super()._write(df, table, batch_id, *partitions)


def _kill_all(spark: SparkSession) -> None:
    gateway: Any = spark.sparkContext._gateway
    os.kill(gateway.proc.pid, signal.SIGKILL)
    os._exit(9)


with mock.patch.object(pipeline, "BatchWriter", KilledWriter):
    sys.exit(pipeline.main(sys.argv[4:]))
