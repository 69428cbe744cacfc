"""The page of behaviours is what the tests show: one sentence for each behaviour, and nothing left out."""

from __future__ import annotations

import pytest
from support import behaviours
from support.behaviours import HEADINGS, NOT_SHOWN, IncompleteError
from support.measuring import unmeasured

pytestmark = [
    pytest.mark.one_python,
    pytest.mark.timeout(180),  # the first one collects all tests of the project
]
LONGEST = 120


@unmeasured()
def test_every_behaviour_has_a_row_that_is_a_sentence_below_a_heading(request: pytest.FixtureRequest) -> None:
    """One test for all. To collect takes seconds, so a run of everything need not do it again."""
    try:
        found = behaviours.collected_by(request.session) or behaviours.collect()
    except IncompleteError as error:
        pytest.skip(str(error))
    by_name = {f"{one.file}::{one.name}": one for one in found}
    assert {name: one.heading for name, one in by_name.items() if one.heading not in HEADINGS} == {}
    assert set(HEADINGS) - {one.heading for one in found} == set(), "headings without rows"
    assert behaviours.page(found).count("](../tests/") == len(found)
    assert {name: one.behaviour for name, one in by_name.items() if not _is_sentence(one.behaviour)} == {}


def test_every_reason_is_a_sentence() -> None:
    texts = [text for missing in NOT_SHOWN for text in (missing.behaviour, missing.reason)]
    assert [text for text in texts if not _is_sentence(text)] == []


def _is_sentence(text: str) -> bool:
    return text.endswith(".") and len(text.split()) > 2 and len(text) <= LONGEST
