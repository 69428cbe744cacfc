"""What is known of Spark on the driver, and how rows reach the tasks by it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.waiting import wait_until

from kafka_share.broker import ReferenceBroker
from kafka_share.spark import driver_conf as module
from kafka_share.spark.data_plane import LARGE_SPLIT_BYTES, SMALL_SPLIT_BYTES, most_inline, split_bytes
from kafka_share.spark.driver_conf import DriverConf, conf_of, driver_conf
from kafka_share.spark.options import SourceOptions

MIB = 1 << 20
JAVA = ["/usr/bin/java", "-cp", "x", "-Xmx1g", "org.apache.spark.deploy.SparkSubmit"]
GIVEN = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "orders", "shareGroup": "g"}


def known(*submitted: str, defaults: str = "") -> DriverConf:
    files = {Path("/conf/spark-defaults.conf"): defaults, Path("/own.conf"): "spark.rpc.message.maxSize 7"}
    return conf_of([*JAVA, *submitted], "/conf", lambda path: files.get(path, ""))


@pytest.mark.parametrize(
    ("submitted", "is_local"),
    [
        (["--conf", "spark.master=local[2]", "pyspark-shell"], True),
        (["--conf", "spark.master=local-cluster[2,1,1024]", "pyspark-shell"], True),
        (["-c", "spark.master=local", "a.py"], True),
        (["--verbose", "--master=local[*]", "a.py"], True),
        (["--master", "spark://host:7077", "a.py"], False),
        (["--master", "yarn", "a.py", "--master", "local[2]"], False),
        (["a.py", "--conf", "spark.master=local[2]"], False),
        (["--master"], False),
        ([], False),
    ],
)
def test_the_master_is_known_from_the_command_line_of_the_driver(submitted: list[str], is_local: bool) -> None:
    """Up to the program, whose options are its own affair."""
    assert known(*submitted).is_local is is_local


def test_a_process_that_is_no_driver_says_nothing() -> None:
    assert conf_of(["python", "-m", "pytest", "--master", "local"], "") == DriverConf()
    assert DriverConf() == DriverConf(is_local=False, max_message_bytes=128 * MIB)


def test_the_size_of_messages_is_known_from_the_command_line_or_the_defaults() -> None:
    """The command line comes first, and names another file of defaults."""
    defaults = "# spark.rpc.message.maxSize 1\n\nspark.rpc.message.maxSize=3\nspark.master   local[2]\nlonely\n"
    assert known("a.py", defaults=defaults) == DriverConf(is_local=True, max_message_bytes=3 * MIB)
    assert known("--conf", "spark.rpc.message.maxSize=5", "a.py", defaults=defaults).max_message_bytes == 5 * MIB
    assert known("--properties-file", "/own.conf", "a.py", defaults=defaults).max_message_bytes == 7 * MIB
    assert known("--conf", "spark.rpc.message.maxSize=many", "a.py").max_message_bytes == 128 * MIB


@pytest.mark.skipif(sys.platform != "linux", reason="command lines are read from /proc")
def test_the_driver_of_this_process_is_asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """This one's own command line has no spark-submit, but there are defaults."""
    monkeypatch.setattr(module, "driver_pid", os.getpid)
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    assert driver_conf() == DriverConf()
    (tmp_path / "spark-defaults.conf").write_text("spark.master local[4]\n")
    assert driver_conf().is_local


@pytest.mark.parametrize(
    ("plane", "conf", "is_elsewhere", "most", "size"),
    [
        ("auto", DriverConf(), False, LARGE_SPLIT_BYTES, SMALL_SPLIT_BYTES),
        ("auto", DriverConf(max_message_bytes=4 * MIB), False, 4 * MIB - (64 << 10), SMALL_SPLIT_BYTES),
        ("auto", DriverConf(is_local=True), False, SMALL_SPLIT_BYTES, LARGE_SPLIT_BYTES),
        ("auto", DriverConf(is_local=True, max_message_bytes=MIB), False, SMALL_SPLIT_BYTES, LARGE_SPLIT_BYTES),
        ("auto", DriverConf(is_local=True), True, 0, LARGE_SPLIT_BYTES),
        ("tcp", DriverConf(), False, 0, LARGE_SPLIT_BYTES),
        ("inline", DriverConf(is_local=True, max_message_bytes=MIB), False, 1 << 40, SMALL_SPLIT_BYTES),
    ],
)
def test_rows_travel_with_the_task_or_are_fetched(
    plane: str, conf: DriverConf, is_elsewhere: bool, most: int, size: int
) -> None:
    options = SourceOptions.of({**GIVEN, "dataPlane": plane})
    assert most_inline(options, conf, is_elsewhere=is_elsewhere) == most
    assert split_bytes(options, conf) == size


def test_the_size_of_splits_is_the_user_s_if_given() -> None:
    options = SourceOptions.of({**GIVEN, "splitBytes": "2000", "dataPlane": "tcp"})
    assert split_bytes(options, DriverConf(is_local=True)) == 2_000


@pytest.fixture(name="large")
def large_fixture() -> Iterator[ReferenceBroker]:
    """A broker with five records of half a mebibyte."""
    with ReferenceBroker() as broker:
        broker.create_topic("orders")
        broker.set_group_config("g", share_auto_offset_reset="earliest")
        for _ in range(5):
            broker.produce("orders", b"x" * (MIB // 2))
        yield broker


def after(reader: Any, start: dict[str, Any]) -> dict[str, Any] | None:
    end: dict[str, Any] = reader.latestOffset(start)
    return None if end == start else end


@pytest.mark.skipif(sys.platform != "linux", reason="what becomes of processes is read from /proc")
@pytest.mark.parametrize(
    ("conf", "size", "is_inline"),
    [
        (DriverConf(max_message_bytes=MIB), "4000000", False),
        (DriverConf(max_message_bytes=128 * MIB), "4000000", True),
        (DriverConf(is_local=True), "4000000", False),
        (DriverConf(max_message_bytes=MIB), "600000", True),
    ],
    ids=["too large for a message", "not too large", "local", "small"],
)
def test_no_task_is_larger_than_a_message_may_be(
    large: ReferenceBroker,
    agent_dir: Path,
    monkeypatch: pytest.MonkeyPatch,
    conf: DriverConf,
    size: str,
    is_inline: bool,
) -> None:
    """Rows that would be are fetched from the agent, and are all there."""
    pytest.importorskip("pyspark", reason="pip install 'kafka-share[spark]'")
    from kafka_share.spark import agent_start, share_split
    from kafka_share.spark.share_split import ShareSplit
    from kafka_share.spark.stream_reader import ShareStreamReader

    monkeypatch.setattr(share_split, "driver_conf", lambda: conf)
    monkeypatch.setattr(agent_start, "driver_conf", lambda: conf)
    given = {**GIVEN, "kafka.bootstrap.servers": large.bootstrap_servers, "agentDir": str(agent_dir)}
    options = SourceOptions.of({**given, "orphanGraceMs": "0", "minPartitions": "1", "splitBytes": size})
    reader = ShareStreamReader(options, ["offset", "value"])
    try:
        start = reader.initialOffset()
        splits = reader.partitions(start, wait_until(lambda: after(reader, start), "no records came"))
        assert {split.place is None for split in splits if isinstance(split, ShareSplit)} == {is_inline}
        rows = [row for split in splits for batch in reader.read(split) for row in batch.to_pylist()]
        assert sorted(row["offset"] for row in rows) == list(range(len(rows)))
        assert all(len(row["value"]) == MIB // 2 for row in rows)
    finally:
        reader.stop()
