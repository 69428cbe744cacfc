"""A data directory on a real disk: whose it is, and what a broker that is started again finds in it."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path

import pytest

from kafka_share.broker import ReferenceBroker
from kafka_share.broker.durability.data_directory import FORMAT_FILE
from kafka_share.errors import ConfigurationError, IllegalStateError


def values(broker: ReferenceBroker, topic: str) -> list[tuple[int, int, bytes | None]]:
    return [(record.partition, record.offset, record.value) for record in broker.records(topic)]


def log_of(data_dir: Path, folder: str) -> Path:
    """The segment with the most in it."""
    return max((data_dir / folder).glob("*.log"), key=lambda path: path.stat().st_size)


def test_a_broker_that_starts_again_has_its_topics_records_and_settings(tmp_path: Path) -> None:
    with ReferenceBroker(data_dir=tmp_path) as broker:
        topic_id = broker.create_topic("t", 2, config={"max.message.bytes": "5000"})
        broker.create_topic("gone")
        for value in ("a", "b", "c"):
            broker.produce("t", value)
        broker.produce("t", "d", partition=1)
        broker.delete_records("t", 0, 1)
        broker.delete_topic("gone")
        broker.set_group_config("g", share_auto_offset_reset="earliest")
        broker.set_broker_config({"num.partitions": 3})
        expected = values(broker, "t")
    assert expected == [(0, 1, b"b"), (0, 2, b"c"), (1, 0, b"d")]
    with ReferenceBroker(data_dir=tmp_path) as again:
        assert again.topics() == {"t": 2}
        assert values(again, "t") == expected
        assert again.group_config("g") == {"share.auto.offset.reset": "earliest"}
        assert again.produce("t", "e") == 3
        again.delete_topic("t")
        assert again.create_topic("t") != topic_id
        assert again.produce("t", "new") == 0
    again.start()
    assert values(again, "t") == [(0, 0, b"new")]
    again.check()
    again.stop()


def test_segments_have_kafkas_names_and_go_with_their_records(tmp_path: Path) -> None:
    with ReferenceBroker(data_dir=tmp_path, config={"log.segment.bytes": 1_048_576}) as broker:
        broker.create_topic("t")
        for _ in range(3):
            broker.produce("t", b"x" * 600_000)
        names = sorted(path.name for path in (tmp_path / "t-0").iterdir())
        assert names == [*(f"{offset:020d}.log" for offset in range(3)), "partition.metadata"]
        broker.delete_records("t", 0, 2)
        assert [path.name for path in (tmp_path / "t-0").glob("*.log")] == [f"{2:020d}.log"]
        broker.delete_topic("t")
        assert not (tmp_path / "t-0").exists()


def test_what_is_torn_at_the_end_is_cut_with_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with ReferenceBroker(data_dir=tmp_path) as broker:
        broker.create_topic("t")
        broker.produce("t", "whole")
        broker.produce("t", "torn")
    path = log_of(tmp_path, "t-0")
    path.write_bytes(path.read_bytes()[:-3])
    with caplog.at_level(logging.WARNING), ReferenceBroker(data_dir=tmp_path) as again:
        assert values(again, "t") == [(0, 0, b"whole")]
        (message,) = caplog.messages
        assert message.startswith(f"t-0/{path.name}: cut off 69 bytes behind offset 0")
        assert again.produce("t", "next") == 1
    with ReferenceBroker(data_dir=tmp_path) as third:
        assert values(third, "t") == [(0, 0, b"whole"), (0, 1, b"next")]


def test_a_batch_with_a_wrong_checksum_is_cut_and_later_segments_stay(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with ReferenceBroker(data_dir=tmp_path) as broker:
        broker.create_topic("t")
        broker.produce("t", "a")
    broker.start()  # begins a new segment
    broker.produce("t", "b")
    broker.stop()
    path = tmp_path / "t-0" / f"{0:020d}.log"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with caplog.at_level(logging.WARNING), ReferenceBroker(data_dir=tmp_path) as again:
        assert values(again, "t") == [(0, 1, b"b")]
        assert "the stored checksum is" in caplog.text


def test_folders_that_belong_to_nothing_go_and_those_of_others_stay(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with ReferenceBroker(data_dir=tmp_path):
        pass
    (tmp_path / "old-0").mkdir()
    (tmp_path / "old-0" / f"{0:020d}.log").write_bytes(b"")
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "mine.txt").write_text("mine")
    with caplog.at_level(logging.WARNING), ReferenceBroker(data_dir=tmp_path):
        assert sorted(caplog.messages) == [
            "deleting old-0, which belongs to no topic",
            "notes in the data directory is not ours, and stays",
        ]
    assert not (tmp_path / "old-0").exists()
    assert (tmp_path / "notes" / "mine.txt").exists()


@pytest.mark.parametrize(
    ("facts", "problem"),
    [
        ('{"format": 2, "cluster_id": "c", "nodes": 1}', "has the format 2, of a newer kafka-share"),
        ('{"format": 1, "cluster_id": "c", "nodes": 3}', "is of a cluster with 3 nodes, not 1"),
        ('{"format": 1}', f"{FORMAT_FILE} of the data directory is damaged"),
        ("[]", f"{FORMAT_FILE} of the data directory is damaged"),
    ],
)
def test_a_directory_of_another_broker_is_refused(tmp_path: Path, facts: str, problem: str) -> None:
    (tmp_path / FORMAT_FILE).write_text(facts)
    with pytest.raises(ConfigurationError, match=problem):
        ReferenceBroker(data_dir=tmp_path).start()


def test_a_directory_with_something_else_in_it_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("")
    with pytest.raises(ConfigurationError, match=r"holds what is no broker's: thesis\.tex"):
        ReferenceBroker(data_dir=tmp_path).start()
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_directory_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigurationError, match=r"the data directory cannot be used: .*file/data: Not a directory"):
        ReferenceBroker(data_dir=tmp_path / "file" / "data").start()


def test_a_second_broker_on_the_directory_is_refused_until_the_first_one_is_gone(tmp_path: Path) -> None:
    second = ReferenceBroker(data_dir=tmp_path)
    with ReferenceBroker(data_dir=tmp_path), pytest.raises(ConfigurationError, match="another broker uses"):
        second.start()
    second.start()
    second.stop()


def test_a_process_that_has_the_directory_keeps_others_out(tmp_path: Path) -> None:
    with ReferenceBroker(data_dir=tmp_path):
        command = ["from kafka_share.cli.broker import main; main()", "--data-dir", str(tmp_path)]
        ended = subprocess.run([sys.executable, "-c", *command], capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert "another broker uses the directory" in ended.stderr


def test_a_broker_with_data_is_not_reset(tmp_path: Path) -> None:
    with ReferenceBroker(data_dir=tmp_path) as broker, pytest.raises(IllegalStateError, match="cannot be reset"):
        broker.reset()


def test_the_cluster_id_stays_with_the_directory(tmp_path: Path) -> None:
    ids = []
    for _ in range(2):
        with ReferenceBroker(data_dir=tmp_path) as broker:
            ids.append(broker._cluster.cluster_id)
    assert ids[0] == ids[1]
