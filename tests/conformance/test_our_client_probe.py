"""Our consumer and admin answer what Apache's answered, scenario by scenario, but for the differences that are named.

The scenarios are those of `probes/ClientProbe.java`, written for our client in `our_client_probe`. They are played on
the reference broker in every run, and on Apache Kafka 4.3.1 if --kafka-versions asks for it.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from conformance.kafka_targets import REFERENCE, Target
from conformance.our_client_probe.all_scenarios import SCENARIOS
from conformance.our_client_probe.comparison import CLASSES, MORE_EXACT, expected, translated
from conformance.our_client_probe.differences import DIFFERENCES, NOT_PLAYED, Kind
from conformance.our_client_probe.java import java_answers
from conformance.our_client_probe.page import ANSWER, expected_answers, text
from conformance.our_client_probe.runs import play, play_all

from kafka_share import errors

DOCS = Path(__file__).parents[2] / "docs"
PLAYED = [scenario for scenario in java_answers() if scenario not in NOT_PLAYED]
ON_REFERENCE_AT_ONCE = 32
ON_KAFKA_AT_ONCE = 8
TIMEOUT_S = 600
"""The first test of a target waits until all scenarios have been played there."""


@pytest.fixture(autouse=True)
def foreign_leaks() -> None:
    """Takes the place of the one for foreign clients, which looks for garbage after each test: here are many tests."""


@pytest.fixture(scope="session")
def answers(probed_kafka: Target, request: pytest.FixtureRequest) -> Mapping[str, str]:
    """What was answered in the scenarios that this run has chosen; all are played before the first is judged."""
    played = [item for item in request.session.items if isinstance(item, pytest.Function) and _is_played(item)]
    chosen = dict.fromkeys(str(item.callspec.params["scenario"]) for item in played)
    at_once = ON_REFERENCE_AT_ONCE if probed_kafka.version is None else ON_KAFKA_AT_ONCE
    return play_all(probed_kafka.bootstrap_servers, chosen, at_once)


def _is_played(item: pytest.Function) -> bool:
    return item.path == Path(__file__) and {"answers", "scenario"} <= set(item.fixturenames)


@pytest.mark.timeout(TIMEOUT_S)
@pytest.mark.parametrize("scenario", PLAYED)
def test_our_client_answers_what_javas_answers_when_known_differences_are_left_out(
    scenario: str,
    probed_kafka: Target,
    answers: Mapping[str, str],
    record_property: Callable[[str, object], None],
) -> None:
    """The consumer and the admin client do what Apache's do, but for differences that are listed with their reason."""
    answer = answers[scenario]
    if answer != expected(scenario):
        # Some answers are told apart by how long they took: on a busy machine they get a second chance, alone.
        answer = play(probed_kafka.bootstrap_servers, scenario)
    record_property(ANSWER, (scenario, probed_kafka.version or REFERENCE, answer))
    assert answer == expected(scenario), f"Java answers {java_answers()[scenario]}"


# ---- the tables


def test_each_scenario_of_the_java_program_is_played_when_our_client_has_what_it_is_about() -> None:
    """No scenario of the Java program is forgotten, and none is made up."""
    assert list(SCENARIOS.keys() - java_answers().keys()) == []
    assert sorted(PLAYED) == sorted(SCENARIOS)


def test_a_scenario_says_what_is_done_in_it_when_its_name_is_no_setting() -> None:
    """The page tells of each scenario what is done in it."""
    assert [name for name, story in SCENARIOS.items() if not story.__doc__ and "=" not in name] == []


@pytest.mark.parametrize("scenario", DIFFERENCES)
def test_a_known_difference_is_one_when_java_is_put_in_pythons_words(scenario: str) -> None:
    """No answer is listed as different that is the same but for names."""
    assert DIFFERENCES[scenario].ours != translated(scenario, java_answers()[scenario]), "they agree: take it off"
    assert DIFFERENCES[scenario].why.endswith(".")


@pytest.mark.parametrize("scenario", [name for name, known in DIFFERENCES.items() if known.kind is Kind.DELIBERATE])
def test_a_deliberate_difference_is_in_the_documentation_when_it_is_named(scenario: str) -> None:
    """A deliberate difference is one that the documentation gives a reason and tests for."""
    page = (DOCS / "differences-from-java.md").read_text(encoding="utf-8")
    assert f"(`{DIFFERENCES[scenario].rule}`)" in page


@pytest.mark.parametrize(
    "name", sorted({*CLASSES.values(), *(c for more in MORE_EXACT.values() for c in more.values())})
)
def test_an_error_that_stands_for_one_of_javas_is_ours_or_pythons(name: str) -> None:
    """The errors that stand for Java's exist."""
    assert issubclass(getattr(errors, name, None) or getattr(builtins, name), Exception)


def test_every_class_of_the_table_is_one_that_java_raised() -> None:
    """The table has no exceptions that no answer has."""
    raised = " ".join(java_answers().values())
    assert [java for java in CLASSES if f"{java}(" not in raised and f"{java} " not in raised] == []


def test_the_page_shows_what_is_expected_when_it_was_written_by_a_run_that_passed() -> None:
    """The page and the tables agree, to the letter."""
    written = (DOCS / "client-side-by-side.md").read_text(encoding="utf-8")
    assert written == text(expected_answers()), "run with --kafka-versions 4.3.1 --write-matrix"
