"""The offsets of a partition that somebody has acquired and not acknowledged, as ranges.

Used by `replayed_group`. Adding behind the last range and taking from the first one, which is what clients do, costs
the same however many offsets there are.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator


class OffsetRanges:
    """Ranges in order that neither overlap nor touch; first and last offset belong to a range."""

    def __init__(self) -> None:
        self._first: list[int] = []
        self._last: list[int] = []

    def __len__(self) -> int:
        """The number of offsets."""
        return sum(self._last) - sum(self._first) + len(self._first)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return iter(list(zip(self._first, self._last, strict=True)))

    def add(self, first: int, last: int) -> None:
        """These offsets, none of which is there yet."""
        if not self._first:
            self._first.append(first)
            self._last.append(last)
            return
        at = bisect_right(self._first, first)
        touches_before = at > 0 and self._last[at - 1] == first - 1
        touches_behind = at < len(self._first) and self._first[at] == last + 1
        if touches_before and touches_behind:
            self._last[at - 1] = self._last.pop(at)
            del self._first[at]
        elif touches_before:
            self._last[at - 1] = last
        elif touches_behind:
            self._first[at] = first
        else:
            self._first.insert(at, first)
            self._last.insert(at, last)

    def covers(self, first: int, last: int) -> bool:
        """Whether all of these offsets are there; they can be in one range only."""
        at = bisect_right(self._first, first) - 1
        return at >= 0 and self._last[at] >= last

    def remove(self, first: int, last: int) -> int:
        """Returns how many of these offsets were not there; the others are gone."""
        if self._first and self._first[0] == first and self._last[0] <= last:  # the rule: all of the first range
            missing = last - self._last.pop(0)
            self._first.pop(0)
            first = last - missing + 1
            if not missing:
                return 0
        missing = last - first + 1
        at = max(0, bisect_right(self._first, first) - 1)
        while at < len(self._first) and self._first[at] <= last:
            low, high = max(first, self._first[at]), min(last, self._last[at])
            if low > high:
                at += 1
                continue
            missing -= high - low + 1
            at = self._cut(at, low, high)
        return missing

    def _cut(self, at: int, low: int, high: int) -> int:
        """Take a part out of one range; returns where the next one is."""
        first, last = self._first[at], self._last[at]
        left = [(first, low - 1)] if first < low else []
        left += [(high + 1, last)] if high < last else []
        self._first[at : at + 1] = [one for one, _ in left]
        self._last[at : at + 1] = [one for _, one in left]
        return at + len(left)
