"""A driver program: runs streaming queries of the source kafka_share on command, with faults where it is told to.

Run by `spark_driver`, as a script. The sink is a file with a line per batch; a batch appends its line when it is
written. Faults in tasks are those of `task_faults`.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyspark
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from spark import task_faults

import kafka_share.spark
from kafka_share import KafkaShareAdmin
from kafka_share.spark.agent_client import AgentClient
from kafka_share.spark.group_lag import lag_of

HAS_AVAILABLE_NOW = tuple(map(int, pyspark.__version__.split(".")[:2])) >= (4, 2)
"""And the progress of a query has what the agents have done."""
WAITING = "waiting"
"""As `story` has it."""
PAUSE_S = 0.02
PATIENCE_S = 60


class Sink:
    """Where the rows of a query go, and the fault that happens on the way."""

    def __init__(self, command: dict[str, Any]) -> None:
        self.path = Path(command["sink"])
        self.command = command
        self.wants_stop = threading.Event()
        self.is_stopping = threading.Event()

    def batches(self) -> dict[int, list[list[Any]]]:
        found: dict[int, list[list[Any]]] = {}
        if self.path.exists():
            for line in self.path.read_text().splitlines():
                document = json.loads(line)
                found.setdefault(document["batch"], []).extend(document["rows"])
        return found

    def rows(self) -> int:
        return sum(len(rows) for rows in self.batches().values())

    def write(self, df: DataFrame, batch: int) -> None:
        fault = FAULTS.get(self.command.get("fault", ""))
        at = self.command.get("at")
        is_due = fault is not None and at in (None, batch)
        if is_due and self.command.get("when", "before") == "before":
            assert fault is not None
            df = fault(self, df, batch) or df
        self._write(df, batch)
        if is_due and self.command.get("when") == "after":
            assert fault is not None
            fault(self, df, batch)

    def _write(self, df: DataFrame, batch: int) -> None:
        if self.command.get("idempotent") and batch in self.batches():
            return
        if self.command.get("actions"):
            assert df.count() == len(df.collect())
        rows = [
            [row["topic"], row["partition"], row["offset"], row["deliveryCount"], row["leaseId"]]
            for row in df.collect()
        ]
        with self.path.open("a") as file:
            file.write(json.dumps({"batch": batch, "rows": rows}) + "\n")
            file.flush()
            os.fsync(file.fileno())


def _fail(sink: Sink, df: DataFrame, batch: int) -> None:
    raise RuntimeError(f"the sink fails at batch {batch}")


def _kill_driver(sink: Sink, df: DataFrame, batch: int) -> None:
    _kill_jvm(df.sparkSession)


def _kill_jvm(spark: SparkSession) -> None:
    os.kill(spark.sparkContext._gateway.proc.pid, signal.SIGKILL)
    os._exit(9)


def _kill_only_jvm(sink: Sink, df: DataFrame, batch: int) -> None:
    os.kill(df.sparkSession.sparkContext._gateway.proc.pid, signal.SIGKILL)


def _be_stopped(sink: Sink, df: DataFrame, batch: int) -> None:
    sink.wants_stop.set()
    sink.is_stopping.wait(PATIENCE_S)
    raise RuntimeError("the query was stopped in this batch")


def _wait(sink: Sink, df: DataFrame, batch: int) -> None:
    """Until the test removes the file."""
    file = sink.path.with_name(WAITING)
    file.touch()
    while file.exists():
        threading.Event().wait(PAUSE_S)


def _kill_runner(sink: Sink, df: DataFrame, batch: int) -> None:
    """That of this program's JVM: others on the machine may run queries, too."""
    jvm = f"PPid:\t{df.sparkSession.sparkContext._gateway.proc.pid}\n"
    for process in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            is_runner = (
                process.name.isdecimal() and b"python_streaming_source_runner" in (process / "cmdline").read_bytes()
            )
            if is_runner and jvm in (process / "status").read_text():
                os.kill(int(process.name), signal.SIGKILL)


def _kill_agent(sink: Sink, df: DataFrame, batch: int) -> None:
    log = (_agent_of(df) / "agent.log").resolve()
    for process in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if process.name.isdecimal() and (process / "fd" / "2").resolve() == log:
                os.kill(int(process.name), signal.SIGKILL)


def _kill_agent_and_fail(sink: Sink, df: DataFrame, batch: int) -> None:
    _kill_agent(sink, df, batch)
    _fail(sink, df, batch)


def _agent_of(df: DataFrame) -> Path:
    lease_id: str = df.select("leaseId").first()["leaseId"]
    return Path(CURRENT["agentDir"]) / lease_id.rpartition("-")[0]


def _be_slow(sink: Sink, df: DataFrame, batch: int) -> None:
    """Until the locks have been renewed often enough, or the records are not acquired any more."""
    client = AgentClient(_agent_of(df))
    lease = int(df.select("leaseId").first()["leaseId"].rpartition("-")[2])
    before = client.counts()["renewals"]
    while client.is_held(lease) and client.counts()["renewals"] - before < sink.command["renewals"]:
        threading.Event().wait(PAUSE_S)
    client.close()


def _poison(sink: Sink, df: DataFrame, batch: int) -> None:
    if df.where(F.col("offset") == sink.command["poison"]).count():
        raise RuntimeError("a poison record")


def _in_tasks(sink: Sink, df: DataFrame, batch: int) -> DataFrame:
    """The fault happens where the rows are read."""
    fault = task_faults.AtFirstRow(
        task_faults.TASK_FAULTS[sink.command["fault"]], sink.path.with_name(task_faults.ATTEMPTS)
    )
    return df.withColumn("offset", F.udf(fault, "bigint")("offset"))


def _with_acks(df: DataFrame) -> DataFrame:
    """REJECT each offset that ends in 1; RELEASE, when it comes for the first time, each that ends in 2."""
    is_new = F.col("deliveryCount") == 1
    ends_in = F.col("offset") % 10
    return df.withColumn("ack", F.when(ends_in == 1, "REJECT").when((ends_in == 2) & is_new, "release"))


def _decide(sink: Sink, df: DataFrame, batch: int) -> None:
    writer = _with_acks(df).write.format("kafka_share_ack").mode("append")
    writer.option("when", "commit").option("agentDir", CURRENT["agentDir"]).save()


def _decided(df: DataFrame, when: str) -> Any:
    """A whole query that only decides."""
    writer = _with_acks(df).writeStream.format("kafka_share_ack")
    return writer.option("when", when).option("agentDir", CURRENT["agentDir"])


def _assert_held(sink: Sink, df: DataFrame, batch: int) -> None:
    _be_slow(sink, df, batch)
    kafka_share.spark.assert_held(df, CURRENT["agentDir"])


FAULTS: dict[str, Callable[[Sink, DataFrame, int], DataFrame | None]] = {
    "fail": _fail,
    "kill_driver": _kill_driver,
    "kill_jvm": _kill_only_jvm,
    "stop": _be_stopped,
    "wait": _wait,
    "kill_runner": _kill_runner,
    "kill_agent": _kill_agent,
    "kill_agent_and_fail": _kill_agent_and_fail,
    "slow": _be_slow,
    "poison": _poison,
    **dict.fromkeys(task_faults.TASK_FAULTS, _in_tasks),
    "decide": _decide,
    "assert_held": _assert_held,
}
CURRENT: dict[str, str] = {}
"""The options of the query that runs."""


def run_stream(spark: SparkSession, command: dict[str, Any]) -> dict[str, Any]:
    """Run a query until it is drained, or until its sink has `rows`."""
    CURRENT.clear()
    CURRENT.update(command["options"])
    sink = Sink(command)
    _await_executors(spark, command.get("executors", 0))
    df = spark.readStream.format("kafka_share").options(**command["options"]).load()
    if command.get("columns"):
        df = df.select(*command["columns"])
    drains_itself = HAS_AVAILABLE_NOW and "until_rows" not in command
    every = command.get("trigger", "100 milliseconds")
    trigger: dict[str, Any] = {"availableNow": True} if drains_itself else {"processingTime": every}
    writer = _decided(df, command["when"]) if command.get("into_acks") else df.writeStream.foreachBatch(sink.write)
    query = writer.option("checkpointLocation", command["checkpoint"]).trigger(**trigger).start()
    error = ""
    try:
        if drains_itself:
            query.awaitTermination()
        elif "until_rows" in command:
            _run_until_rows(query, sink)
        else:
            _run_until_drained(query)
    except Exception as failure:  # noqa: BLE001 - the test looks at it
        error = str(failure)
    progress = query.lastProgress
    has_counts = HAS_AVAILABLE_NOW and progress
    counts = json.loads(progress["sources"][0]["latestOffset"] or "null") if has_counts else None
    return {"error": error, "counts": counts}


def _run_until_rows(query: Any, sink: Sink) -> None:
    """Until the sink has so many, or a batch wants to be stopped."""
    while query.isActive and sink.rows() < sink.command["until_rows"] and not sink.wants_stop.is_set():
        threading.Event().wait(PAUSE_S)
    if sink.command.get("until_accepted"):
        _wait_for_acceptance(sink)
    elif sink.wants_stop.is_set():
        _stop_in_batch(query, sink)
    else:
        query.processAllAvailable()
    query.stop()


def _run_until_drained(query: Any) -> None:
    """In place of availableNow on Spark 4.1, which has it for one batch only: until the group is through."""
    group, topics = CURRENT["kafka.group.id"], frozenset([CURRENT["subscribe"]])
    with KafkaShareAdmin(bootstrap_servers=CURRENT["kafka.bootstrap.servers"]) as admin:
        is_drained = False
        while query.isActive and not is_drained:
            offsets = admin.list_share_group_offsets({group: None})[group]
            is_drained = isinstance(offsets, dict) and lag_of(offsets, topics) == 0
            threading.Event().wait(PAUSE_S)
    if query.exception() is not None:
        raise query.exception()
    query.stop()


def _stop_in_batch(query: Any, sink: Sink) -> None:
    """Stop the query, which waits for the batch, and have the batch end when Spark has begun to stop."""
    stopping = threading.Thread(target=query.stop)
    stopping.start()
    while query.isActive:
        threading.Event().wait(PAUSE_S)
    sink.is_stopping.set()
    stopping.join()


def _await_executors(spark: SparkSession, count: int) -> None:
    """Until the driver knows so many; one that was killed has to be replaced before another one may be."""
    ends_at_s = time.monotonic() + PATIENCE_S
    while count and spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() <= count:  # the driver is one of them
        assert time.monotonic() < ends_at_s, "the executors do not come"
        threading.Event().wait(PAUSE_S)


def _wait_for_acceptance(sink: Sink) -> None:
    """Until the agent has accepted what is in the sink, though no further batch is asked for."""
    lease_id = sink.batches()[0][0][4]
    client = AgentClient(Path(CURRENT["agentDir"]) / lease_id.rpartition("-")[0])
    ends_at_s = time.monotonic() + PATIENCE_S
    while client.counts()["records_accepted"] < sink.rows() and time.monotonic() < ends_at_s:
        threading.Event().wait(PAUSE_S)
    client.close()


def run_batch(spark: SparkSession, command: dict[str, Any]) -> dict[str, Any]:
    """Read a batch with the context manager; `raises`: the block does."""
    read: list[list[list[Any]]] = []
    try:
        with kafka_share.spark.batch(spark, command["options"]) as batch:
            read += [[[row["partition"], row["offset"]] for row in batch.df.collect()] for _ in range(2)]
            if command.get("decide"):
                ack = F.when(F.col("offset") % 10 == 1, "REJECT").when(F.col("offset") % 10 != 2, "ACCEPT")
                batch.acknowledge(batch.df.withColumn("ack", ack))
            if command.get("kills"):
                _kill_jvm(spark)
            if command.get("raises"):
                raise RuntimeError("the block raises")
    except Exception as failure:  # noqa: BLE001 - the test looks at it
        return {"error": f"{type(failure).__name__}: {failure}", "read": read}
    return {"error": "", "read": read}


def run_load(spark: SparkSession, command: dict[str, Any]) -> dict[str, Any]:
    """What Spark says to these options, and to a schema."""
    reader = spark.read.format("kafka_share").options(**command["options"])
    if command.get("schema"):
        reader = reader.schema(command["schema"])
    try:
        df = reader.load()
        return {"error": "", "schema": df.schema.simpleString(), "rows": [row.asDict() for row in _plain(df).collect()]}
    except Exception as failure:  # noqa: BLE001 - the test looks at it
        return {"error": str(failure)}


def run_code(spark: SparkSession, command: dict[str, Any]) -> dict[str, Any]:
    """Run a program of a page."""
    try:
        exec(compile(command["code"], "page", "exec"), {"__name__": "__main__"})
    except Exception as failure:  # noqa: BLE001 - the test looks at it
        return {"error": f"{type(failure).__name__}: {failure}"}
    return {"error": ""}


def _plain(df: DataFrame) -> DataFrame:
    return df.select(*(F.col(name).cast("string").alias(name) for name, kind in df.dtypes if kind != "array"))


def main() -> None:
    plan = json.loads(sys.argv[1])
    builder = (
        SparkSession.builder.config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.driver.memory", "700m")
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    )
    for name, value in plan["settings"].items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    cloudpickle.register_pickle_by_value(task_faults)
    if plan["registers"]:
        kafka_share.spark.register(spark)
    kinds = {"stream": run_stream, "batch": run_batch, "load": run_load, "code": run_code}
    for line in sys.stdin:
        command = json.loads(line)
        result = kinds[command.get("kind", "stream")](spark, command)
        sys.stdout.write(f"\nRESULT {json.dumps(result)}\n")
        sys.stdout.flush()
    spark.stop()


if __name__ == "__main__":
    main()
