"""The coverage-guided fuzz: its targets on what it begins with, that they see defects, and a run of the fuzzer."""

from __future__ import annotations

import importlib.util
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from fuzz import guided
from fuzz.guided_targets import TARGETS
from support.documentation import ROOT, environment

from kafka_share import native
from kafka_share.native import pure_ledger
from kafka_share.protocol import hot_messages

MUTATED = 150
"""Inputs of each target that were mutated without any guidance."""


pytestmark = pytest.mark.skipif(not native.IS_COMPILED, reason=f"nothing to compare: {native.WHY_PURE}")


def inputs(name: str) -> list[bytes]:
    """What the fuzz begins with, and some of it with a few bytes changed."""
    chance = random.Random(name)
    first = list(TARGETS[name].corpus())
    return [*first, *(mutated(chance.choice(first), chance) for _ in range(MUTATED))]


def mutated(data: bytes, chance: random.Random) -> bytes:
    changed = bytearray(data or b"\0")
    for _ in range(chance.randint(1, 4)):
        changed[chance.randrange(len(changed))] = chance.randrange(256)
    return bytes(changed[: chance.choice((len(changed), chance.randint(1, len(changed))))])


def complains(name: str) -> bool:
    try:
        for data in inputs(name):
            TARGETS[name].run(data)
    except AssertionError:
        return True
    return False


def test_the_names_on_the_command_line_are_those_of_the_targets() -> None:
    assert set(guided.NAMES) == set(TARGETS)


@pytest.mark.parametrize("name", guided.NAMES)
def test_both_implementations_do_the_same_whatever_comes(name: str) -> None:
    for data in inputs(name):
        TARGETS[name].run(data)


def test_a_ledger_that_forgets_that_a_record_was_held_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    def keep_held(self: Any, offset: int, kind: int) -> bool:
        if offset not in self._look_up():
            return False
        self._types[offset] = kind
        return True

    monkeypatch.setattr(pure_ledger.Ledger, "acknowledge", keep_held)
    assert complains("ledgers")


def test_a_message_that_is_read_otherwise_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    original = hot_messages._answer
    monkeypatch.setattr(hot_messages, "_answer", lambda kind, throttle, *rest: original(kind, 0, *rest))
    assert complains("messages")


def test_records_that_are_lost_show(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafka_share.application.decoding.PartitionDecoding.gaps", lambda _: [])
    assert complains("batches")


def test_columns_that_say_something_else_show(monkeypatch: pytest.MonkeyPatch) -> None:
    def swapped(records: list[Any], views: bool) -> Any:
        found = list(native.columns(records, views) or ())
        return [*found[:6], *reversed(found[6:8]), *found[8:]] if found else None

    monkeypatch.setattr("fuzz.guided_targets.columns", swapped)
    assert complains("batches")


def test_an_input_that_was_kept_can_be_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = tmp_path / "crash"
    kept.write_bytes(next(iter(TARGETS["messages"].corpus())))
    guided.main(["messages", "--input", str(kept)])
    monkeypatch.setattr(hot_messages, "_answer", lambda kind, *_: kind())
    with pytest.raises(AssertionError):
        guided.main(["messages", "--input", str(kept)])


@pytest.mark.timeout(120)  # a Python, and what atheris does to the modules that it looks at
@pytest.mark.skipif(importlib.util.find_spec("atheris") is None, reason="atheris is not installed: tox run -e guided")
def test_the_fuzzer_runs_and_keeps_what_it_finds(tmp_path: Path) -> None:
    command = [sys.executable, "-P", "-m", "fuzz.guided", "messages", "--seconds", "2", "--folder", str(tmp_path)]
    done = subprocess.run(command, env=environment(), cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "stat::number_of_executed_units" in done.stderr
    assert len(os.listdir(tmp_path / "messages" / "corpus")) > 0
