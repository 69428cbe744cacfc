"""How many rows per second Spark gets from a real Kafka: by our source, by confluent-kafka's ShareConsumer, by its own.

    PYTHONPATH=tests python tests/performance/spark_rate.py

A script, not a test; `--help` lists the options. It starts an Apache Kafka, fills topics, and lets the contestants take
turns, round after round, each run in a fresh share group. It prints medians with the lowest and the highest round, and
the medians of the ratios to our source within each round: five minutes on two busy cores. `--part scale` shows instead
how our rate grows with splits and executors, and where it ends on this machine. Needs Java 17, Maven (the jars of Kafka
and of Spark's source) and the extras dev and spark.
"""

# ruff: noqa: T201 - a command line of its own

from __future__ import annotations

import argparse
import importlib.util
import itertools
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import attrs
import pyspark
from conformance.kafka_server import KafkaServer
from performance.filling import PARTITIONS, fill
from performance.spark_contestants import PHASES
from performance.spark_kafka_jars import fetch
from spark.maven_jars import JarsMissingError
from spark.spark_home import spark_home

from kafka_share.cli.demo.cluster import Cluster

OURS: Final = "kafka_share"
SIZES: Final = (100, 1_000)
MASTERS: Final = {
    "local-cluster[1,1,1024]": "1 with 1 core",
    "local-cluster[2,1,1024]": "2 with 1 core",
    "local-cluster[2,2,1024]": "2 with 2 cores",
}
SPLITS: Final = (1, 2, 4)
WORK: Final = {"none": "none", "wait": "50 ms for every 500 rows"}
_PREPARATION_S: Final = 300
_PROGRAM: Final = Path(__file__).with_name("spark_contestants.py")
_LOCKS: Final = "group.share.partition.max.record.locks"
_MOST_LOCKS: Final = "group.share.max.partition.max.record.locks"

Run = dict[str, Any]


@attrs.frozen
class Case:
    """What is measured. `work`: what a task does with its rows, a key of `WORK`."""

    contestant: str
    size: int
    splits: int = 2
    work: str = "none"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=80_000, help="in each topic (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each (default: %(default)s)")
    parser.add_argument("--per-batch", type=int, default=10_000, help="records of a batch (default: %(default)s)")
    parser.add_argument("--locks", type=int, default=2_000, help=f"{_LOCKS} (default: %(default)s, as Kafka's)")
    parser.add_argument("--kafka", default="4.3.1", metavar="VERSION", help="default: %(default)s")
    parser.add_argument(
        "--kafka-source",
        default=pyspark.__version__,
        metavar="VERSION",
        help="of Spark's source (default: %(default)s)",
    )
    parser.add_argument("--part", choices=("contestants", "scale"), default="contestants", help="default: %(default)s")
    return parser.parse_args()


class Field:
    """A Kafka with a topic for each size, and share groups as they are needed."""

    def __init__(self, options: argparse.Namespace, bootstrap: str) -> None:
        self._options = options
        self._bootstrap = bootstrap
        self._numbers = itertools.count()
        with self._cluster() as cluster:
            for size in SIZES:
                cluster.create_topic(f"rows-{size}", PARTITIONS)
                fill(bootstrap, f"rows-{size}", options.records, size)

    def _cluster(self) -> Cluster:
        return Cluster(self._bootstrap, time.monotonic() + _PREPARATION_S)

    def runs(self, cases: Iterable[Case]) -> list[Run]:
        """What each run is told; each has a share group that starts at the first record."""
        runs = []
        with self._cluster() as cluster:
            for case in cases:
                group = f"group-{next(self._numbers)}"
                cluster.start_group_at_earliest(group)
                runs.append(self._run(case, group))
        return runs

    def _run(self, case: Case, group: str) -> Run:
        return {
            **attrs.asdict(case),
            "bootstrap": self._bootstrap,
            "topic": f"rows-{case.size}",
            "group": group,
            "records": self._options.records,
            "per_batch": self._options.per_batch,
        }


def measured(master: str, jars: list[Path], runs: list[Run]) -> Iterator[Run]:
    """Have one Spark make these runs, one after the other."""
    command = [sys.executable, str(_PROGRAM), master, ",".join(map(str, jars))]
    home = {"PYSPARK_PYTHON": sys.executable, "SPARK_HOME": str(spark_home()), "SPARK_LOCAL_IP": "127.0.0.1"}
    with (
        tempfile.TemporaryFile("w+") as log,
        tempfile.TemporaryDirectory(prefix="ks-", ignore_cleanup_errors=True) as temporary,
    ):
        done = subprocess.run(
            command,
            input=json.dumps(runs),
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env={**os.environ, **home, "TMPDIR": temporary},
            check=False,
        )
        if done.returncode != 0:
            log.seek(0)
            sys.exit(f"{master}: {log.read()[-3_000:]}")
    for line in done.stdout.splitlines():
        if line.startswith("RESULT "):
            result: Run = json.loads(line.removeprefix("RESULT "))
            if result["rows"] != result["records"]:
                print(f"{result['contestant']} got {result['rows']} rows of {result['records']}", file=sys.stderr)
            yield result


def compare(options: argparse.Namespace, field: Field, jars: list[Path]) -> None:
    """The contestants in turns, on local[2]; the first round only warms everything up."""
    names = [OURS]
    if importlib.util.find_spec("confluent_kafka"):
        names.append("confluent-kafka")
    if jars:
        names.append("Spark's Kafka source")
    cases = [Case(name, size) for size in SIZES for name in names]
    runs = field.runs(cases * (options.rounds + 1))
    results = list(measured("local[2]", jars, runs))[len(cases) :]
    print("\n| bytes | contestant | rows/s | lowest to highest | ratio of kafka_share to it | rows of a batch |")
    print("|---|---|---|---|---|---|")
    for size in SIZES:
        ours = [result["rate"] for result in results if (result["size"], result["contestant"]) == (size, OURS)]
        for name in names:
            mine = [result for result in results if (result["size"], result["contestant"]) == (size, name)]
            rates = [result["rate"] for result in mine]
            ratio = statistics.median(our / rate for our, rate in zip(ours, rates, strict=True))
            per_batch = statistics.median(result["rows"] / result["batches"] for result in mine)
            print(
                f"| {size:,} | {name} | {statistics.median(rates):,.0f} | {min(rates):,.0f} to {max(rates):,.0f} | "
                f"{ratio:.2f} | {per_batch:,.0f} |"
            )

    _print_phases(results)


def _print_phases(results: list[Run]) -> None:
    """Where the time of a batch goes, for those that are streaming queries."""
    print(f"\n| bytes | contestant | {' | '.join(f'{name}, ms' for name in PHASES)} |")
    print(f"|---|---|{'---|' * len(PHASES)}")
    for size, name in sorted({(one["size"], one["contestant"]) for one in results if PHASES[0] in one}):
        mine = [one for one in results if (one["size"], one["contestant"]) == (size, name)]
        spent = (f"{statistics.median(one[phase] for one in mine):,.0f}" for phase in PHASES)
        print(f"| {size:,} | {name} | {' | '.join(spent)} |")


def scale(options: argparse.Namespace, field: Field) -> None:
    """Our source by executors, splits and work; the first round only warms everything up."""
    print("\n| executors | splits | work in the tasks | rows/s | lowest to highest |")
    print("|---|---|---|---|---|")
    cases = [Case(OURS, SIZES[0]), *(Case(OURS, SIZES[0], splits, "wait") for splits in SPLITS)]
    for master, executors in MASTERS.items():
        results = list(measured(master, [], field.runs(cases * (options.rounds + 1))))[len(cases) :]
        for case in cases:
            rates = [one["rate"] for one in results if (one["splits"], one["work"]) == (case.splits, case.work)]
            spread = f"{min(rates):,.0f} to {max(rates):,.0f}"
            named = f"| {executors} | {case.splits} | {WORK[case.work]}"
            print(f"{named} | {statistics.median(rates):,.0f} | {spread} |", flush=True)


def main() -> None:
    options = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that Kafka and Spark end, too
    began_at_s = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        jars: list[Path] = []
        try:
            jars = fetch(options.kafka_source, Path(folder))
        except JarsMissingError as error:
            print(f"without Spark's Kafka source: {error}", file=sys.stderr)
        locks = {_LOCKS: str(options.locks), _MOST_LOCKS: str(max(options.locks, 4_000))}
        with KafkaServer(options.kafka, settings=locks, heap="1g") as kafka:
            field = Field(options, kafka.bootstrap_servers)
            print(
                f"Kafka {options.kafka}, {PARTITIONS} partitions, {options.records:,} records, at most "
                f"{options.per_batch:,} in a batch, {_LOCKS} {options.locks:,}, Spark {pyspark.__version__}, "
                f"{os.cpu_count()} processors",
                flush=True,
            )
            if options.part == "contestants":
                compare(options, field, jars)
            else:
                scale(options, field)
    print(f"\n{time.monotonic() - began_at_s:.0f} s", file=sys.stderr)


if __name__ == "__main__":
    main()
