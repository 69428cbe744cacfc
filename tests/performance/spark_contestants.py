"""The ways from Kafka into Spark that `spark_rate` compares; run by it, as a process with one Spark.

Standard input has the runs, a JSON list; standard output gets a line of JSON for each. A run reads a topic to its end
and does some work with each row. Its rate leaves out what comes before the second batch: starting, joining, and the
first use of everything.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual name

import kafka_share.spark

IDLE_S: Final = 3.0
PHASES: Final = ("latestOffset", "queryPlanning", "walCommit", "addBatch", "commitOffsets", "triggerExecution")
"""What Spark says a batch took, in milliseconds; the last one is the whole."""
_ROWS_OF_WAIT: Final = 500
_WAIT_S: Final = 0.05
_rows = [0]


def wait_for_a_service(value: bytes) -> int:
    """What a pipeline does that sends its rows somewhere, in portions: its tasks wait, and use no processor."""
    _rows[0] += 1
    if _rows[0] % _ROWS_OF_WAIT == 0:
        time.sleep(_WAIT_S)
    return len(value)


def with_work(rows: DataFrame, run: dict[str, Any]) -> DataFrame:
    return rows if run["work"] == "none" else rows.select(F.udf(wait_for_a_service, "int", useArrow=False)("value"))


def _stream(reader: Any, run: dict[str, Any]) -> dict[str, float]:
    """A drained query; its batches but the first."""
    with tempfile.TemporaryDirectory() as checkpoint:
        writer = with_work(reader.load(), run).writeStream.format("noop").option("checkpointLocation", checkpoint)
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        batches = [one for one in query.recentProgress if one["numInputRows"]]
    timed = batches[1:]
    phases = {name: statistics.median(one["durationMs"].get(name, 0) for one in timed) for name in PHASES}
    return {
        **phases,
        "rows": sum(one["numInputRows"] for one in batches),
        "batches": len(batches),
        "rate": sum(one["numInputRows"] for one in timed) / (sum(_batch_ms(one) for one in timed) / 1_000),
    }


def _batch_ms(progress: Any) -> int:
    spent: int = progress["durationMs"]["triggerExecution"]
    return spent


def share_source(spark: SparkSession, run: dict[str, Any]) -> dict[str, float]:
    """Ours."""
    options = {
        "kafka.bootstrap.servers": run["bootstrap"],
        "kafka.group.id": run["group"],
        "subscribe": run["topic"],
        "maxRecordsPerTrigger": run["per_batch"],
        "minPartitions": run["splits"],
        "availableNowIdleMs": int(IDLE_S * 1_000),
    }
    return _stream(spark.readStream.format("kafka_share").options(**options), run)


def kafka_source(spark: SparkSession, run: dict[str, Any]) -> dict[str, float]:
    """Spark's own, by offsets: no share group, no acknowledgements, consumers in the executors."""
    options = {
        "kafka.bootstrap.servers": run["bootstrap"],
        "subscribe": run["topic"],
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": run["per_batch"],
        "minPartitions": run["splits"],
    }
    return _stream(spark.readStream.format("kafka").options(**options), run)


def confluent(spark: SparkSession, run: dict[str, Any]) -> dict[str, float]:
    """confluent-kafka's ShareConsumer in the driver: each poll becomes a DataFrame, and is accepted by the next one."""
    from confluent_kafka import ShareConsumer

    consumer: Any = ShareConsumer(
        {"bootstrap.servers": run["bootstrap"], "group.id": run["group"], "max.poll.records": run["per_batch"]}
    )
    consumer.subscribe([run["topic"]])
    counts: list[int] = []
    began_at_s = ended_at_s = idle_since_s = time.perf_counter()
    while sum(counts) < run["records"] and time.perf_counter() - idle_since_s < 10 * IDLE_S:
        messages = consumer.poll(1.0)
        if messages:
            with_work(_frame(spark, messages), run).write.format("noop").mode("overwrite").save()
            ended_at_s = idle_since_s = time.perf_counter()
            if not counts:
                began_at_s = ended_at_s
            counts.append(len(messages))
    consumer.close()
    return {"rows": sum(counts), "batches": len(counts), "rate": sum(counts[1:]) / max(1e-9, ended_at_s - began_at_s)}


def _frame(spark: SparkSession, messages: list[Any]) -> DataFrame:
    """The columns of the sources, by way of Arrow: rows as tuples take several times as long."""
    return spark.createDataFrame(
        pa.table(
            {
                "key": pa.array([message.key() for message in messages], pa.binary()),
                "value": pa.array([message.value() for message in messages], pa.binary()),
                "topic": pa.array([message.topic() for message in messages], pa.string()),
                "partition": pa.array([message.partition() for message in messages], pa.int32()),
                "offset": pa.array([message.offset() for message in messages], pa.int64()),
                "timestamp": pa.array(
                    [message.timestamp()[1] * 1_000 for message in messages], pa.timestamp("us", "UTC")
                ),
            }
        )
    )


CONTESTANTS: Final[dict[str, Callable[[SparkSession, dict[str, Any]], dict[str, float]]]] = {
    "kafka_share": share_source,
    "confluent-kafka": confluent,
    "Spark's Kafka source": kafka_source,
}


def main() -> None:
    master, jars = sys.argv[1:3]
    builder = SparkSession.builder.master(master).config("spark.ui.enabled", "false").config("spark.log.level", "ERROR")
    if jars:
        builder = builder.config("spark.jars", jars)
    spark = builder.config("spark.driver.memory", "2g").getOrCreate()
    kafka_share.spark.register(spark)
    for run in json.load(sys.stdin):
        result = {**run, **CONTESTANTS[run["contestant"]](spark, run)}
        sys.stdout.write(f"\nRESULT {json.dumps(result)}\n")
        sys.stdout.flush()
    spark.stop()


if __name__ == "__main__":
    main()
