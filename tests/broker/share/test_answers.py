"""The share machines against what a real broker answered, line by line."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest
from broker.share.scene import SCENARIOS, Scene

for _part in ("sessions", "fetching", "acknowledging", "limits_and_offsets", "finer_points"):
    importlib.import_module(f"broker.share.scenarios_of_{_part}")

_FILE = Path(__file__).with_name("kafka_4_3_answers.txt")


def _recorded() -> dict[str, list[tuple[str, str]]]:
    recorded: dict[str, list[tuple[str, str]]] = {}
    for line in _FILE.read_text().splitlines():
        if line and not line.startswith("#"):
            name, step, answer = line.split(" | ", 2)
            recorded.setdefault(name, []).append((step, answer.rstrip()))
    return recorded


RECORDED = _recorded()


@pytest.mark.parametrize("name", list(RECORDED))
def test_answers_are_those_of_kafka_when_asked_the_same(name: str) -> None:
    scene = Scene(name)
    SCENARIOS[name](scene)
    assert [(step, answer.rstrip()) for step, answer in scene.answers] == RECORDED[name]


def test_every_conversation_has_a_recording() -> None:
    assert list(SCENARIOS) == list(RECORDED)
