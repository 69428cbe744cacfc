"""`kafka-share watch` at work, with what the cluster answers replaced: each form of output, failures, and Ctrl-C."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from support.terminal import Terminal

from kafka_share.admin_values import GroupState
from kafka_share.cli.group_snapshot import GroupSnapshot, PartitionSnapshot
from kafka_share.cli.watch import looking
from kafka_share.cli.watch.looking import watch_group
from kafka_share.errors import GroupIdNotFoundError, KafkaShareError
from kafka_share.records import TopicPartition
from kafka_share.spark.agent_status import AgentStatus, LeaseStatus

SNAPSHOT = GroupSnapshot("g", GroupState.STABLE, (), (PartitionSnapshot(TopicPartition("t", 0), 5, 4, 10, ("m1",)),))
MISSING = GroupIdNotFoundError("there is no group g")


class Cluster:
    """What each look is answered; its pauses are noted, and take no time."""

    def __init__(self, *answers: GroupSnapshot | BaseException) -> None:
        self.answers: Iterator[GroupSnapshot | BaseException] = iter(answers)
        self.pauses: list[float] = []

    def take_snapshots(self, admin: Any, groups: list[str]) -> dict[str, GroupSnapshot | KafkaShareError]:
        answer = next(self.answers)
        if isinstance(answer, GroupSnapshot | GroupIdNotFoundError):
            return dict.fromkeys(groups, answer)
        raise answer

    def watch(self, monkeypatch: pytest.MonkeyPatch, count: int | None = None, *, as_json: bool = False) -> bool:
        monkeypatch.setattr(looking, "take_snapshots", self.take_snapshots)
        monkeypatch.setattr("kafka_share.cli.watch.looking.time.sleep", self.pauses.append)
        admin: Any = None  # take_snapshots alone would use it
        return watch_group(admin, "g", 500, count, as_json=as_json)


def test_a_terminal_shows_the_failure_and_then_the_group(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a terminal a failed look takes the place of the screen, and the next one draws the group again."""
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    for name, value in {"TERM": "xterm", "COLUMNS": "160", "LINES": "40"}.items():
        monkeypatch.setenv(name, value)
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    assert Cluster(MISSING, SNAPSHOT).watch(monkeypatch, 2)
    assert any("there is no group g" in line for line in terminal.shown)
    assert ["t", "0", "5", "10", "4", "-", "1"] in [line.split() for line in terminal.shown]


def test_a_line_per_look_is_written_when_the_output_is_no_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a terminal each look is a line, a failed one on standard error; between two there is the interval."""
    cluster = Cluster(SNAPSHOT, KafkaShareError("no broker"))
    assert not cluster.watch(monkeypatch, 2)
    captured = capsys.readouterr()
    assert len(captured.out.splitlines()) == 1
    assert "no broker" in captured.err
    assert cluster.pauses == [0.5]


def test_a_failed_look_is_a_json_line_as_well(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With --json a failed look is a document with the time and the error."""
    assert Cluster(MISSING, SNAPSHOT).watch(monkeypatch, 2, as_json=True)
    failed, seen = map(json.loads, capsys.readouterr().out.splitlines())
    assert set(failed) == {"time", "error"}
    assert failed["error"]["code"] == "GROUP_ID_NOT_FOUND"
    assert "there is no group g" in failed["error"]["message"]
    assert (seen["lag"], seen["partitions"][0]["end_offset"], seen["agents"]) == (4, 10, [])


def test_leases_of_spark_are_in_the_document(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    agent = AgentStatus("a1", True, {"renewals": 5}, (LeaseStatus(1, 2_000, 10, 1, 0, 0),))
    monkeypatch.setattr(
        looking, "agents_of_group", lambda group, folder: (agent,) if (group, folder) == ("g", "") else ()
    )
    assert Cluster(SNAPSHOT).watch(monkeypatch, 1, as_json=True)
    (seen,) = json.loads(capsys.readouterr().out)["agents"]
    assert (seen["name"], seen["counts"]["renewals"], seen["leases"][0]["age_ms"]) == ("a1", 5, 2_000)


def test_interrupting_is_no_failure(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Ctrl-C ends the command as a success, whatever the last look brought."""
    assert Cluster(MISSING, KeyboardInterrupt()).watch(monkeypatch)
    assert "there is no group g" in capsys.readouterr().err


@contextlib.contextmanager
def keyboard(monkeypatch: pytest.MonkeyPatch, typed: bytes) -> Iterator[int]:
    """Standard input is a terminal at which something has been typed; its number."""
    ours, tools = os.openpty()
    with open(tools, closefd=True) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        os.write(ours, typed)
        yield tools
    os.close(ours)


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="a terminal is simulated by openpty")
def test_q_ends_the_watch_and_leaves_the_terminal_as_it_was(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Other keys do nothing; q ends the pause at once, and it is no failure."""
    import termios

    with keyboard(monkeypatch, b"xq") as terminal:
        before = termios.tcgetattr(terminal)
        cluster = Cluster(SNAPSHOT)
        monkeypatch.setattr(looking, "take_snapshots", cluster.take_snapshots)
        admin: Any = None
        assert watch_group(admin, "g", 3_600_000, None, as_json=False)
        assert termios.tcgetattr(terminal) == before
    assert len(capsys.readouterr().out.splitlines()) == 1
