"""Which tests coverage does not look at: a name that no test has any more would go unnoticed."""

from __future__ import annotations

import re

import pytest
from support.documentation import ROOT
from support.measuring import NOR_DO_THESE, TAKE_NO_OTHER_BRANCHES

pytestmark = pytest.mark.one_python

BEGINNINGS = [
    *(one.partition("::")[::2] for one in TAKE_NO_OTHER_BRANCHES),
    *((file, f"test_{name}") for file, names in NOR_DO_THESE.items() for name in names),
]


@pytest.mark.parametrize(("place", "name"), BEGINNINGS)
def test_every_name_is_the_beginning_of_one_of_a_test(place: str, name: str) -> None:
    path = ROOT / place
    assert path.exists()
    if name:
        assert re.search(rf"^(def )?{name}", path.read_text("utf-8"), re.M)
