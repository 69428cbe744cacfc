"""The page of behaviours is what the tests show: up to date, one sentence for each, and nothing left out silently."""

from __future__ import annotations

import behaviours
import pytest
from behaviours import HEADINGS, NOT_SHOWN, PAGE, PITFALLS, SCENARIOS, IncompleteError, Shown

WRITE = "python tests/behaviours.py --write"
LONGEST = 120


@pytest.fixture(scope="module")
def found() -> list[Shown]:
    """Every marked test of the project; collecting them takes seconds."""
    try:
        return behaviours.collect()
    except IncompleteError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def shown(found: list[Shown]) -> set[tuple[str, int]]:
    return set().union(*(one.numbers for one in found))


WANTED = {("scenario", number) for number in SCENARIOS} | {("pitfall", number) for number in PITFALLS}


def test_the_page_is_what_the_tests_show(found: list[Shown]) -> None:
    is_current = PAGE.read_text("utf-8") == behaviours.page(found)
    assert is_current, f"{PAGE.name} is not what the tests show; mend it with: {WRITE}"


def test_every_behaviour_has_a_test_or_a_reason(shown: set[tuple[str, int]]) -> None:
    assert sorted(WANTED - shown - set(NOT_SHOWN)) == []


def test_nothing_is_said_not_to_be_shown_when_it_is(shown: set[tuple[str, int]]) -> None:
    assert sorted(set(NOT_SHOWN) & shown) == []


def test_a_marker_has_a_number_of_the_lists(found: list[Shown]) -> None:
    unknown = {f"{one.file}::{one.name}": sorted(one.numbers - WANTED) for one in found if one.numbers - WANTED}
    assert unknown == {}


def test_every_row_is_a_sentence(found: list[Shown]) -> None:
    texts = {f"{one.file}::{one.name}": one.behaviour for one in found}
    assert {name: text for name, text in texts.items() if not _is_sentence(text)} == {}


def test_every_reason_is_a_sentence() -> None:
    texts = [text for missing in NOT_SHOWN.values() for text in (missing.behaviour, missing.reason)]
    assert [text for text in texts if not _is_sentence(text)] == []


def _is_sentence(text: str) -> bool:
    return text.endswith(".") and len(text.split()) > 2 and len(text) <= LONGEST


def test_every_number_has_one_heading() -> None:
    """Each number stands under exactly one heading, so that a test's place does not depend on their order."""
    for numbers, of_headings in (
        (SCENARIOS, [heading.scenarios for heading in HEADINGS]),
        (PITFALLS, [heading.pitfalls for heading in HEADINGS]),
    ):
        assert sorted(number for number in numbers if sum(number in some for some in of_headings) != 1) == []
