"""docs/client-side-by-side.md: Java's answers and ours, scenario by scenario.

`SideBySide` is a pytest plugin, registered when the run was given --write-matrix, that writes the page from what
`test_our_client_probe` was answered. The same test file holds the page to what `comparison` expects. The file is
generated: change the scenarios or the tables, not the file.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Final, cast

import pytest
from conformance.kafka_targets import REFERENCE
from conformance.our_client_probe.all_scenarios import SCENARIOS
from conformance.our_client_probe.comparison import expected, verdict
from conformance.our_client_probe.differences import NOT_PLAYED
from conformance.our_client_probe.java import VERSION, java_answers

ANSWER: Final = "our client's answer"
"""The property in which a test leaves (scenario, target, answer)."""
NOT_RUN: Final = "not run"

_AS_LEFT: Final = "="
_AREAS: Final[Mapping[str, str]] = {
    "ctor": "Creating a consumer",
    "sub": "Subscribing",
    "poll": "Polling",
    "implicit": "Implicit acknowledgement",
    "explicit": "Explicit acknowledgement, locks and renewal",
    "commit": "Commits",
    "callback": "The acknowledgement commit callback",
    "close": "Closing",
    "data": "Bad records, gaps, deleted records",
    "member": "Membership",
    "admin": "The admin client",
    "metrics": "Metrics",
}
_HEAD: Final = """\
# The Java client and ours, side by side

What Apache Kafka's share consumer and admin client 4.3.1 answered on a running broker 4.3.1, and what ours answer in
the same {count} scenarios, on the reference broker and on Apache Kafka 4.3.1. The Java program is
`tests/conformance/probes/ClientProbe.java`, ours are in `tests/conformance/our_client_probe`; the broker's settings are
the same. `pytest tests/conformance/test_our_client_probe.py --kafka-versions 4.3.1 --write-matrix` plays ours and
writes this page. Every run of the tests plays them on the reference broker, compares each answer by code, and fails for
a difference that is not named here, and for a named one that is gone. Of the scenarios:

{figures}

How to read the answers: `t1-0:0..2x1` are the offsets 0 to 2 of partition 0 of the topic t1, each delivered once;
`cb[poll2]{{t1-0=[0..2]}}` is a call of the acknowledgement commit callback inside `poll2`, `!` before the error it was
told; `{{t1-0=ok}}` is the result of a commit; errors stand for themselves, without what they say; `<0.7s` is how long
it took. "=": the same answer as on the left. "same, in Python's words": the same, with our names of errors and methods.
"""
_FIGURES: Final = (
    ("same", "answered the same, to the letter"),
    ("same, in Python's words", "answered the same, with our names of errors and methods"),
    ("Python's idiom", "differ because Python does it otherwise"),
    ("deliberate", "differ on purpose, see [differences-from-java.md](differences-from-java.md)"),
    ("not there", "are about something that we do not have"),
)

Answers = Mapping[tuple[str, str], str]
"""(scenario, target) -> answer."""


def expected_answers() -> Answers:
    played = [scenario for scenario in java_answers() if scenario not in NOT_PLAYED]
    return {(scenario, target): expected(scenario) for scenario in played for target in (REFERENCE, VERSION)}


def text(answers: Answers) -> str:
    """The page for these answers."""
    java = java_answers()
    kinds = Counter(re.split(r":| \(", verdict(scenario))[0] for scenario in java)
    assert sum(kinds[kind] for kind, _ in _FIGURES) == len(java), f"a verdict has no line: {kinds}"
    figures = "\n".join(f"- {kinds[kind]} {meaning}" for kind, meaning in _FIGURES)
    parts = [_HEAD.format(count=len(java), figures=figures)]
    for area, title in _AREAS.items():
        rows = [_row(scenario, java[scenario], answers) for scenario in java if scenario.split("/")[0] == area]
        head = ["scenario", "Java on Kafka 4.3.1", "ours on the reference broker", "ours on Kafka 4.3.1", "verdict"]
        parts.append("\n".join([f"## {title}\n", _line(head), _line(["---"] * len(head)), *rows]) + "\n")
    return "\n".join(parts)


def _row(scenario: str, java: str, answers: Answers) -> str:
    on_reference = answers.get((scenario, REFERENCE))
    on_kafka = answers.get((scenario, VERSION))
    cells = [_scenario(scenario), _code(java)]
    if scenario in NOT_PLAYED:
        cells += ["", ""]
    else:
        cells.append(_cell(on_reference, java))
        cells.append(_cell(on_kafka, on_reference))
    return _line([*cells, verdict(scenario)])


def _scenario(scenario: str) -> str:
    """Its name, and what is done in it, which is the docstring of the function that plays it."""
    name = _code(scenario.split("/", 1)[1])
    story = SCENARIOS[scenario].__doc__ if scenario in SCENARIOS else None
    return f"{name}: {story}" if story else name


def _cell(answer: str | None, left: str | None) -> str:
    if answer is None:
        return NOT_RUN
    return _AS_LEFT if answer == left else _code(answer)


def _code(answer: str) -> str:
    """As code; a bar would end the cell."""
    return "`" + answer.replace("|", "\\|") + "`"


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


class SideBySide:
    """Writes the page if any of the scenarios was played."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._answers: dict[tuple[str, str], str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        for name, value in report.user_properties if report.when == "call" else ():
            if name == ANSWER:
                scenario, target, answer = cast(tuple[str, str, str], value)
                self._answers[scenario, target] = answer

    def pytest_sessionfinish(self) -> None:
        if self._answers:
            self._file.write_text(text(self._answers), encoding="utf-8")
