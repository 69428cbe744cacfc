"""The parts of examples/spark_pipeline that need no Spark: what is counted, which files, and the check at the end."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest
from exactly_once import problems_of
from input_files import MAX_FILE_BYTES, publish, source_files
from python_constructs import CONSTRUCTS, module_of, parse
from support.documentation import ROOT, environment

from kafka_share import KafkaShareConsumer
from kafka_share.broker import ReferenceBroker

pytestmark = pytest.mark.timeout(120)  # some tests start a program, which loads pyspark

PROGRAM = ROOT / "examples" / "spark_pipeline" / "pipeline.py"
SOURCE = b"""\
import os
from sys import path

class Door:
    def open(self):
        with self.lock:
            return [one for one in path if (length := len(one))]

async def walk():
    await Door().open()
"""


def test_the_constructs_of_a_file_are_counted() -> None:
    error, lines, constructs = parse(SOURCE)
    assert (error, lines) == (None, 10)
    assert constructs == {
        "import": 2,
        "class": 1,
        "function": 1,
        "with": 1,
        "comprehension": 1,
        "assignment expression": 1,
        "async function": 1,
        "await": 1,
    }


def test_every_construct_is_a_class_of_the_parser() -> None:
    newer = {"TryStar"} if sys.version_info < (3, 11) else set()
    assert [name for name in CONSTRUCTS if name not in newer and not hasattr(ast, name)] == []


@pytest.mark.parametrize("source", [b"def (:", b"a = 1\0", b"\xff\xfe", b"(" * 5_000])
def test_what_does_not_parse_has_the_error_of_the_parser_and_no_counts(source: bytes) -> None:
    """Which error it is depends on the version of Python."""
    error, lines, constructs = parse(source)
    assert error is not None
    assert error.partition(": ")[0] in ("SyntaxError", "ValueError", "RecursionError", "MemoryError")
    assert (lines, constructs) == (0, {})


def test_a_record_without_a_value_is_no_file() -> None:
    assert parse(None) == ("there is no value", 0, {})


def test_warnings_about_the_style_of_a_file_are_no_errors() -> None:
    assert parse(rb"a = '\d'")[0] is None


@pytest.mark.parametrize(
    ("key", "module"),
    [
        (b"json/decoder.py", "json"),
        (b"abc.py", "abc"),
        (b"/lib/abc.py", "lib"),
        (b"\xff/x.py", "\ufffd"),
        (b"", "(no key)"),
        (None, "(no key)"),
    ],
)
def test_a_file_belongs_to_its_top_level_module(key: bytes | None, module: str) -> None:
    assert module_of(key) == module


def test_the_input_is_the_source_files_without_installed_packages_and_giants(tmp_path: Path) -> None:
    for name in ("b.py", "a/c.py", "a/notes.txt", "site-packages/other.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("1")
    (tmp_path / "giant.py").write_bytes(b"#" * (MAX_FILE_BYTES + 1))
    assert source_files(tmp_path) == [tmp_path / "a" / "c.py", tmp_path / "b.py"]


def test_a_limit_takes_files_from_everywhere(tmp_path: Path) -> None:
    for number in range(10):
        (tmp_path / f"{number}.py").write_text("1")
    assert [file.stem for file in source_files(tmp_path, 3)] == ["0", "3", "6"]
    assert len(source_files(tmp_path, 11)) == 10


def test_files_are_published_under_their_paths(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "b.py").write_text("b = 1")
    with ReferenceBroker() as broker:
        broker.create_topic("files")
        broker.set_group_config("g", share_auto_offset_reset="earliest")
        places = publish(tmp_path, source_files(tmp_path), "files", broker.bootstrap_servers)
        with KafkaShareConsumer("files", bootstrap_servers=broker.bootstrap_servers, group_id="g") as consumer:
            record = next(iter(consumer))
    assert places == {("files", 0, 0)}
    assert (record.key, record.value) == (b"a/b.py", b"b = 1")


def test_a_result_is_right_when_each_record_is_in_it_once() -> None:
    published = {("t", 0, 0), ("t", 1, 0)}
    assert problems_of([], set(published), published) == []
    assert problems_of([], None, None) == []


def test_each_way_in_which_a_result_can_be_wrong_is_named() -> None:
    counted, published = {("t", 0, 0), ("t", 0, 9)}, {("t", 0, 0), ("t", 0, 1)}
    assert problems_of([("t", 0, 0)], counted, published) == [
        "1 records were counted more than once: t-0@0",
        "1 records were not counted: t-0@1",
        "1 records were counted, but not published: t-0@9",
    ]
    many = problems_of([], set(), {("t", 0, offset) for offset in range(11)})
    assert many[0].endswith("t-0@9, ...")


@pytest.mark.parametrize(
    ("words", "status", "text"),
    [
        (["--help"], 0, "spark-submit --master"),
        (["--bootstrap-server", "localhost:9092"], 2, "--bootstrap-server needs --output"),
        (["--input", "/nowhere"], 2, "/nowhere is no directory"),
        (["--option", "dataPlane"], 2, "NAME=VALUE"),
        (["--limit", "0"], 2, "--limit is at least 1"),
        (["--from-beginning", "--option", "kafka.security.protocol=SSL"], 2, "--command-config"),
    ],
)
def test_the_program_says_how_to_run_it_and_what_is_wrong(words: list[str], status: int, text: str) -> None:
    done = _run(*words)
    assert done.returncode == status
    assert text in done.stdout + done.stderr


def test_the_output_of_a_broker_that_is_gone_is_refused(tmp_path: Path) -> None:
    """Its checkpoint names offsets of records that nobody has any more."""
    (tmp_path / "checkpoint").mkdir()
    done = _run("--output", str(tmp_path))
    assert (done.returncode, "has an earlier run" in done.stderr) == (1, True)


def test_an_input_without_files_is_refused(tmp_path: Path) -> None:
    done = _run("--input", str(tmp_path))
    assert (done.returncode, done.stderr) == (1, f"pipeline: there is no *.py file below {tmp_path}\n")


def _run(*words: str) -> subprocess.CompletedProcess[str]:
    pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'kafka-share[spark]'")
    command = [sys.executable, str(PROGRAM), *words]
    return subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
