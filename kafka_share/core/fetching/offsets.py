"""Range arithmetic over offsets: values without state, used by every machine of the core.

All ranges are inclusive at both ends, as on the wire.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class AcknowledgementRun(NamedTuple):
    """Neighbouring offsets that are acknowledged with the same type (`GAP` or one of `AcknowledgeType`)."""

    first: int
    last: int
    type: int


def count_of(ranges: Iterable[tuple[int, int, int]]) -> int:
    """How many offsets disjoint ranges (first, last, …) have."""
    count = 0
    for first, last, _ in ranges:
        count += last - first + 1
    return count


def overlap(one: Iterable[tuple[int, int, int]], other: Iterable[tuple[int, int, int]]) -> bool:
    """Whether two lists of ascending, disjoint ranges (first, last, …) share an offset."""
    left, right = iter(one), iter(other)
    a, b = next(left, None), next(right, None)
    while a is not None and b is not None:
        if a[1] < b[0]:
            a = next(left, None)
        elif b[1] < a[0]:
            b = next(right, None)
        else:
            return True
    return False


def merged(runs: Iterable[AcknowledgementRun]) -> list[AcknowledgementRun]:
    """Sort runs that do not overlap, and join neighbours of one type."""
    result: list[AcknowledgementRun] = []
    for run in sorted(runs):
        if result and result[-1].last + 1 == run.first and result[-1].type == run.type:
            result[-1] = AcknowledgementRun(result[-1].first, run.last, run.type)
        else:
            result.append(run)
    return result
