"""examples/spark_pipeline on a Spark: the result, also when it is killed in the middle of a batch and runs again."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from python_constructs import parse
from spark.conftest import why_no_spark
from support.documentation import ROOT

from kafka_share.broker import ReferenceBroker

pytestmark = pytest.mark.timeout(900)  # JVMs start, one after the other, and machines are busy

FOLDER = ROOT / "examples" / "spark_pipeline"
KILLED = Path(__file__).with_name("killed_pipeline.py")
SUBMIT_ARGUMENTS = "--master local[2] --conf spark.ui.enabled=false pyspark-shell"
FILES = 40
PER_BATCH = 10
BROKEN = 13
"""The number of the file that does not parse."""


class Pipeline:
    """One pipeline with all its runs, on a topic with some files."""

    def __init__(self, broker: ReferenceBroker, folder: Path, environment: dict[str, str]) -> None:
        self.output = folder / "output"
        self.sources = {f"m{number % 3}/f{number}.py": _source(number) for number in range(FILES)}
        self._log = folder / "log.txt"
        self._environment = {**environment, "PYSPARK_SUBMIT_ARGS": SUBMIT_ARGUMENTS}
        broker.create_topic("files", partitions=2)
        for number, (name, source) in enumerate(self.sources.items()):
            broker.produce("files", source, name, partition=number % 2)
        self._options = [
            *("--bootstrap-server", broker.bootstrap_servers, "--topic", "files", "--group", "g"),
            *("--output", str(self.output), "--max-records-per-trigger", str(PER_BATCH)),
        ]

    def run(self, *more: str) -> subprocess.CompletedProcess[str]:
        return self._started(str(FOLDER / "pipeline.py"), *self._options, *more)

    def is_killed(self, table: str, batch: int, *more: str) -> None:
        done = self._started(str(KILLED), str(FOLDER), table, str(batch), *self._options, *more)
        assert done.returncode == 9, done.stdout + self._log.read_text()[-3_000:]

    def _started(self, *words: str) -> subprocess.CompletedProcess[str]:
        with self._log.open("a") as log:
            return subprocess.run(
                [sys.executable, *words],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=self._environment,
                check=False,
            )

    def rows(self, table: str) -> list[dict[str, Any]]:
        """What a reader of the table sees: the folders' names are columns."""
        from pyarrow import dataset

        files = dataset.dataset(self.output / table, partitioning="hive", exclude_invalid_files=True)
        rows: list[dict[str, Any]] = files.to_table().to_pylist()
        return rows

    def is_complete(self) -> None:
        """Each file was counted once, or set aside, and the counts are those of the files."""
        names = [row["name"] for row in self.rows("files")]
        set_aside = [(row["name"], row["value"]) for row in self.rows("unparsable")]
        broken = f"m{BROKEN % 3}/f{BROKEN}.py"
        assert sorted(names) == sorted(self.sources.keys() - {broken})
        assert set_aside == [(broken, self.sources[broken])]
        expected: Counter[tuple[str, str]] = Counter()
        for name, source in self.sources.items():
            for construct, number in parse(source)[2].items():
                expected[name.partition("/")[0], construct] += number
        counted: Counter[tuple[str, str]] = Counter()
        for row in self.rows("counts"):
            counted[row["module"], row["construct"]] += row["number"]
        assert counted == expected

    @property
    def deliveries(self) -> int:
        """The most that a file took."""
        most: int = max(row["deliveryCount"] for row in self.rows("files"))
        return most


def _source(number: int) -> bytes:
    return (
        b"def (:" if number == BROKEN else b"class C:\n" + b"    def f(self): return [1 for _ in ()]\n" * (number + 1)
    )


@pytest.fixture
def environment() -> Iterator[dict[str, str]]:
    """For programs with Spark; their agents are in a folder of the test's."""
    reason = why_no_spark()
    if reason is not None:
        pytest.skip(reason)
    with tempfile.TemporaryDirectory(prefix="ks-", ignore_cleanup_errors=True) as folder:
        yield {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1", "TMPDIR": folder}


@pytest.fixture
def pipeline(broker: ReferenceBroker, tmp_path: Path, environment: dict[str, str]) -> Pipeline:
    return Pipeline(broker, tmp_path, environment)


def test_a_pipeline_that_is_killed_in_the_middle_counts_each_file_once_when_it_runs_again(pipeline: Pipeline) -> None:
    """Batch 1 is killed between its tables, and replayed with its rows."""
    pipeline.is_killed("counts", 1, "--option", "orphanGraceMs=300000")
    done = pipeline.run("--option", "orphanGraceMs=300000")
    assert done.returncode == 0, done.stdout
    assert "OK: each file was counted exactly once." in done.stdout
    pipeline.is_complete()
    assert pipeline.deliveries == 1


def test_a_batch_that_is_replayed_without_rows_takes_back_what_it_had_written(pipeline: Pipeline) -> None:
    """Batch 1 is killed when all is written; its records come again, in later batches, and are counted there."""
    pipeline.is_killed("commit", 1, "--option", "orphanGraceMs=0")
    done = pipeline.run("--option", "orphanGraceMs=0")
    assert done.returncode == 0, done.stdout
    pipeline.is_complete()
    assert pipeline.deliveries == 2
    assert [row for row in pipeline.rows("files") if row["batch"] == 1] == []


@pytest.mark.parametrize("master", ["local[2]", "local-cluster[2,1,1024]"])
def test_one_command_runs_it_on_a_broker_that_it_starts(
    environment: dict[str, str], tmp_path: Path, master: str
) -> None:
    """Also on executors that are processes of their own, and have the example's modules from the driver only."""
    submit = shutil.which("spark-submit", path=str(Path(sys.executable).parent))
    assert submit is not None
    command = [submit, "--master", master, "--conf", "spark.ui.enabled=false", str(FOLDER / "pipeline.py")]
    options = ["--limit", "30", "--output", str(tmp_path / "output")]
    done = subprocess.run([*command, *options], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr[-3_000:]
    assert "30 files" in done.stdout
    assert done.stdout.splitlines()[-1] == "OK: each file was counted exactly once."
