"""The page of behaviours is what the tests show: one sentence for each behaviour, and nothing left out."""

from __future__ import annotations

import pytest
from support import behaviours
from support.behaviours import HEADINGS, NOT_SHOWN, IncompleteError, Shown

pytestmark = pytest.mark.timeout(180)  # the first one collects all tests of the project
LONGEST = 120


@pytest.fixture(scope="module")
def found() -> list[Shown]:
    """Every marked test of the project; collecting them takes seconds."""
    try:
        return behaviours.collect()
    except IncompleteError as error:
        pytest.skip(str(error))


def test_a_marker_names_a_heading(found: list[Shown]) -> None:
    assert {f"{one.file}::{one.name}": one.heading for one in found if one.heading not in HEADINGS} == {}


def test_every_heading_has_rows(found: list[Shown]) -> None:
    assert set(HEADINGS) - {one.heading for one in found} == set()


def test_the_page_has_a_row_for_each_test(found: list[Shown]) -> None:
    assert behaviours.page(found).count("](../tests/") == len(found)


def test_every_row_is_a_sentence(found: list[Shown]) -> None:
    texts = {f"{one.file}::{one.name}": one.behaviour for one in found}
    assert {name: text for name, text in texts.items() if not _is_sentence(text)} == {}


def test_every_reason_is_a_sentence() -> None:
    texts = [text for missing in NOT_SHOWN for text in (missing.behaviour, missing.reason)]
    assert [text for text in texts if not _is_sentence(text)] == []


def _is_sentence(text: str) -> bool:
    return text.endswith(".") and len(text.split()) > 2 and len(text) <= LONGEST
