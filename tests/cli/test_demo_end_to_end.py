"""`kafka-share demo` as a whole, on the embedded broker, over a small directory that has one file of each kind."""

from __future__ import annotations

import contextlib
import json
import threading
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from kafka_share.cli.demo import job
from kafka_share.cli.demo.view import View
from kafka_share.cli.main import main as cli

GOOD_FILES = 30
ODD_FILES = {
    "empty.py": b"",
    "broken.py": b"def (:\n",
    "not_utf8.py": b"name = '\xff\xfe'\n",
    "latin1.py": b"# coding: latin-1\nname = '\xe9'\n",
    "null_byte.py": b"a = 1\x00\n",
    "escape.py": b"pattern = '\\d'\n",
}
REJECTED = ["broken.py", "not_utf8.py", "null_byte.py"]
FILES = GOOD_FILES + len(ODD_FILES)


@pytest.fixture
def files(tmp_path: Path) -> str:
    for number in range(GOOD_FILES):
        source = "class A:\n    def method(self): pass\nasync def f(): pass\n" * (number + 1)
        (tmp_path / f"good_{number:02}.py").write_text(source)
    for name, data in ODD_FILES.items():
        (tmp_path / name).write_bytes(data)
    return str(tmp_path)


def demo(files: str, *arguments: str) -> Result:
    return CliRunner().invoke(cli, ["demo", "--input", files, "--timeout", "60", *arguments])


def told_by(result: Result) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(result.stdout)
    assert told["problems"] == []
    assert told["ok"] is True
    assert result.exit_code == 0
    return told


def test_every_file_is_settled_once_when_errors_strike_and_a_worker_is_stopped(files: str) -> None:
    # With this seed no file meets more than two transient errors, so that none reaches the delivery count limit.
    told = told_by(demo(files, "--flaky", "0.2", "--seed", "7", "--format", "json"))
    assert told["files"] == FILES
    assert told["settled"] == {"accepted": FILES - len(REJECTED), "rejected": len(REJECTED), "archived": 0}
    assert told["rejected_files"] == REJECTED
    total = GOOD_FILES * (GOOD_FILES + 1) // 2
    assert told["definitions"] == {"functions": total, "async_functions": total, "classes": total}
    assert [worker["stopped"] for worker in told["workers"]].count(True) == 1
    assert told["dropped"] > 0
    assert told["released"] > 0
    assert told["redelivered"] >= told["released"] + told["dropped"]
    assert sum(told["delivery_counts"].values()) == FILES
    assert told["failed_acknowledgements"] == 0


def test_every_file_is_archived_at_the_delivery_count_limit_when_each_delivery_fails(files: str) -> None:
    told = told_by(demo(files, "--flaky", "1", "--no-stop-worker", "--workers", "2", "--format", "json"))
    assert told["settled"] == {"accepted": 0, "rejected": 0, "archived": FILES}
    assert told["delivery_counts"] == {str(told["delivery_count_limit"]): FILES}
    assert told["released"] == FILES * told["delivery_count_limit"]


def test_text_has_no_control_characters_when_it_is_piped(files: str) -> None:
    result = demo(files, "--flaky", "0", "--codec", "none", "--workers", "1", "--partitions", "1")
    assert result.exit_code == 0, result.output
    assert f"OK: each of the {FILES} files was settled exactly once." in result.output
    assert "\x1b" not in result.output
    assert "SyntaxWarning" not in result.output
    assert "DeprecationWarning" not in result.output


class IdleConsumer:
    """Never gets a record."""

    def set_acknowledgement_commit_callback(self, callback: object) -> None: ...

    def poll(self, timeout_ms: int) -> list[Any]:
        return []

    def wakeup(self) -> None: ...


def test_the_check_fails_with_the_list_when_the_time_runs_out(files: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job, "_open_consumer", lambda _: contextlib.nullcontext(IdleConsumer()))
    result = demo(files, "--timeout", "2", "--format", "json")
    assert result.exit_code == 1
    problems = json.loads(result.stdout)["problems"]
    assert problems[0] == "the time of 2 s ran out before all files were settled"
    assert "empty.py: never settled (deliveries: 0)" in problems
    assert len(problems) == 1 + FILES


def test_workers_and_broker_are_gone_when_the_run_is_interrupted(files: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = set(threading.enumerate())
    monkeypatch.setattr(View, "working", interrupt)
    result = demo(files)
    assert result.exit_code == 130
    assert "Interrupted" in result.output
    assert set(threading.enumerate()) <= before
