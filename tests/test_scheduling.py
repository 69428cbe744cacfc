"""Parallel runs: what begins first, and what goes to one worker together."""

from __future__ import annotations

import pytest
from support.scheduling import long_ones_first


def test_long_tests_begin_first_and_the_others_keep_their_order(request: pytest.FixtureRequest) -> None:
    def item(name: str, *marks: pytest.MarkDecorator) -> pytest.Item:
        made: pytest.Item = pytest.Function.from_parent(request.node.parent, name=name, callobj=lambda: None)
        for mark in marks:
            made.add_marker(mark)
        return made

    long = pytest.mark.timeout(300)
    items = [item("b"), item("c", long), item("a", pytest.mark.java), item("d", long)]
    long_ones_first(items)
    assert [one.name for one in items] == ["c", "d", "b", "a"]
