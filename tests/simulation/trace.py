"""The record of one history: lines for people, counts for the table, and the complaint that ends it.

Every part of the simulation reports here. Nothing is formatted unless somebody asked for the trace.
"""

from __future__ import annotations

import re
from collections import Counter

from simulation.virtual_time import VirtualTime

_SET = re.compile(r"frozenset\(\{([^{}]*)\}\)")


def _sorted(found: re.Match[str]) -> str:
    """A set is printed in the order of its hashes, which differs from process to process."""
    return f"frozenset({{{', '.join(sorted(found[1].split(', ')))}}})"


class ComplaintError(AssertionError):
    """The auditor has seen what must not be."""


class Trace:
    """`lines` stay empty unless `is_on`; `happened` counts faults and events of interest by name."""

    def __init__(self, time: VirtualTime, *, is_on: bool = False) -> None:
        self.is_on = is_on
        self.lines: list[str] = []
        self.happened: Counter[str] = Counter()
        self._time = time

    def add(self, *words: object) -> None:
        """One line; callers on the hot path ask `is_on` first."""
        if self.is_on:
            text = _SET.sub(_sorted, " ".join(map(str, words)))
            self.lines.append(f"{self._time.steps:6d} {self._time.now_ms:7d} ms  {text}")

    def count(self, what: str, times: int = 1) -> None:
        self.happened[what] += times

    def fault(self, what: str, *words: object) -> None:
        """A fault has happened."""
        self.happened[what] += 1
        self.add("FAULT", what, *words)
