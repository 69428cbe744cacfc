"""A pipeline over a share group: parse Python source files, count by module and construct, write Parquet.

    spark-submit --master "local[2]" examples/spark_pipeline/pipeline.py          # on a broker that it starts
    spark-submit --master spark://host:7077 examples/spark_pipeline/pipeline.py \\
        --bootstrap-server broker1:9092 --topic python-files --group source-pipeline --output hdfs:///pipeline

Without --bootstrap-server it starts the bundled broker, publishes the standard library to it, and checks at the end
that each file was counted exactly once. With it, the records of the topic are the input: a file each, with its path as
the key. Files that do not parse are set aside in a table, and rejected when their batch is committed, so that nobody
gets them again. Run again with the same --output, it goes on where it was killed, and no file is counted twice.

- `input_files`: the files, and how they become records
- `python_constructs`: what is counted; runs on the executors
- `batches`: what one micro-batch does
- `results`: reads the tables back; `exactly_once`: the check
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import input_files
import python_constructs
from batches import BatchWriter
from exactly_once import problems_of
from kafka.errors import KafkaError
from pyspark import SparkConf
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery
from results import Results, read_results

import kafka_share.spark
from kafka_share import KafkaShareAdmin
from kafka_share.broker import ReferenceBroker
from kafka_share.errors import KafkaShareError

PARTITIONS = 2
_OPTION_HELP = "any other option of the source, such as kafka.security.protocol=SSL; may be given again"
_SHOWN = 8


class PipelineError(Exception):
    """The pipeline cannot run like this; the text says what to do."""


def arguments(words: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bootstrap-server", metavar="HOST:PORT[,…]", help="a cluster; default: start the broker")
    parser.add_argument("--topic", default="python-files", help="a record is a file (default: %(default)s)")
    parser.add_argument("--group", default="source-pipeline", help="the share group (default: %(default)s)")
    parser.add_argument("--from-beginning", action="store_true", help="have a new group start at the first record")
    parser.add_argument("--input", type=Path, metavar="DIR", help="publish the *.py files below this directory first")
    parser.add_argument("--limit", type=int, metavar="N", help="publish at most so many files, evenly spread")
    parser.add_argument("--output", metavar="DIR", help="for tables and checkpoint; or a URL that Spark knows")
    parser.add_argument("--max-records-per-trigger", type=int, default=250, metavar="N", help="default: %(default)s")
    parser.add_argument("--every", metavar="TIME", help='go on until stopped, a batch every "10 seconds"')
    parser.add_argument("--option", action="append", default=[], metavar="NAME=VALUE", help=_OPTION_HELP)
    chosen = parser.parse_args(words)
    problem = _problem_of(chosen)
    if problem is not None:
        parser.error(problem)
    return chosen


def _problem_of(chosen: argparse.Namespace) -> str | None:
    """What is wrong with these arguments."""
    if chosen.bootstrap_server and not chosen.output:
        return "--bootstrap-server needs --output: the checkpoint has to be there when the pipeline runs again"
    if chosen.limit is not None and chosen.limit < 1:
        return "--limit is at least 1"
    if chosen.input is not None and not chosen.input.is_dir():
        return f"--input {chosen.input} is no directory"
    if not all("=" in option for option in chosen.option):
        return "--option is written as NAME=VALUE"
    is_secured = any(option.startswith(("kafka.security.", "kafka.sasl.")) for option in chosen.option)
    if is_secured and (chosen.from_beginning or chosen.input is not None):
        return (
            "--from-beginning and --input connect without TLS and SASL: set the group's share.auto.offset.reset with "
            "kafka-share-groups --command-config, and publish the files before"
        )
    return None


def main(words: list[str] | None = None) -> int:
    chosen = arguments(words)
    try:
        with _cluster(chosen) as servers:
            return _run(chosen, servers)
    except (PipelineError, KafkaShareError, KafkaError, PySparkException, OSError) as error:
        print(f"pipeline: {error}", file=sys.stderr)
        return 1


@contextlib.contextmanager
def _cluster(chosen: argparse.Namespace) -> Iterator[str]:
    """Where the brokers are."""
    if chosen.bootstrap_server:
        yield chosen.bootstrap_server
        return
    with ReferenceBroker() as broker:
        broker.create_topic(chosen.topic, partitions=PARTITIONS)
        yield broker.bootstrap_servers


def _run(chosen: argparse.Namespace, servers: str) -> int:
    if not chosen.bootstrap_server:
        chosen.input = chosen.input or input_files.standard_library()
        chosen.from_beginning = True
        chosen.output = chosen.output or tempfile.mkdtemp(prefix="spark-pipeline-")
        if Path(chosen.output, "checkpoint").exists():
            raise PipelineError(f"--output {chosen.output} has an earlier run, whose broker is gone: write another")
    if chosen.from_beginning:
        with KafkaShareAdmin(bootstrap_servers=servers) as admin:
            admin.ensure_group_config(chosen.group, {"share.auto.offset.reset": "earliest"})
    published = _published(chosen, servers)
    spark = _session()
    try:
        began_at_s = time.monotonic()
        _started(spark, chosen, servers).awaitTermination()
        seconds = time.monotonic() - began_at_s
        results = read_results(spark, chosen.output, with_places=published is not None)
    finally:
        spark.stop()
    problems = problems_of(results.twice, results.places, published)
    if published is not None:
        problems += _unfinished(servers, chosen.group)
    _tell_all(results, seconds, chosen.output, problems)
    return 1 if problems else 0


def _published(chosen: argparse.Namespace, servers: str) -> set[input_files.Place] | None:
    """The records that this run has written; None: the topic is as it was found."""
    if chosen.input is None:
        return None
    files = input_files.source_files(chosen.input, chosen.limit)
    if not files:
        raise PipelineError(f"there is no *.py file below {chosen.input}")
    published = input_files.publish(chosen.input, files, chosen.topic, servers)
    print(f"{len(published)} files of {chosen.input} are in topic {chosen.topic}", flush=True)
    return published


def _session() -> SparkSession:
    conf = SparkConf().setIfMissing("spark.master", "local[*]").setIfMissing("spark.sql.shuffle.partitions", "2")
    spark = SparkSession.builder.config(conf=conf).appName("source-pipeline").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    spark.sparkContext.addPyFile(python_constructs.__file__)  # the executors have kafka_share, but not this example
    kafka_share.spark.register(spark)
    return spark


def _started(spark: SparkSession, chosen: argparse.Namespace, servers: str) -> StreamingQuery:
    options = {
        "kafka.bootstrap.servers": servers,
        "kafka.group.id": chosen.group,
        "subscribe": chosen.topic,
        "maxRecordsPerTrigger": str(chosen.max_records_per_trigger),
        **dict(option.split("=", 1) for option in chosen.option),
    }
    writer = spark.readStream.format("kafka_share").options(**options).load().writeStream
    sink = BatchWriter(chosen.output, lambda text: print(text, flush=True), options.get("agentDir", ""))
    writer = writer.foreachBatch(sink)
    writer = writer.option("checkpointLocation", f"{chosen.output}/checkpoint")
    if chosen.every:
        return writer.trigger(processingTime=chosen.every).start()
    return writer.trigger(availableNow=True).start()


def _unfinished(servers: str, group: str) -> list[str]:
    """Records that the group is not through with although all batches are committed; the last may be under way."""
    ends_at_s = time.monotonic() + 30
    with KafkaShareAdmin(bootstrap_servers=servers) as admin:
        while (lag := _lag(admin, group)) and time.monotonic() < ends_at_s:
            time.sleep(0.1)
    return [f"the group is not through with {lag} records"] if lag else []


def _lag(admin: KafkaShareAdmin, group: str) -> int:
    offsets = admin.list_share_group_offsets({group: None})[group]
    if isinstance(offsets, KafkaShareError):
        raise offsets
    lag = 0
    for one in offsets.values():
        if isinstance(one, KafkaShareError):
            raise one
        lag += (one.lag or 0) if one is not None else 0
    return lag


def _tell_all(results: Results, seconds: float, output: str, problems: list[str]) -> None:
    counts = f"{results.files} files counted, {results.unparsable} set aside"
    print(f"\n{counts}; {results.redelivered} of them were delivered again")
    for title, totals in (("construct", results.by_construct), ("module", results.by_module)):
        print(f"\n{title:<24}{'number':>10}")
        for name, number in list(totals.items())[:_SHOWN]:
            print(f"{name:<24}{number:>10,}")
    print(f"\n{seconds:.1f} s; the tables are in {output}")
    if problems:
        print("FAILED: " + "; ".join(problems))
    else:
        print("OK: each file was counted exactly once.")


if __name__ == "__main__":
    sys.exit(main())
