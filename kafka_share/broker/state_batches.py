"""The rule by which a write to a share state is merged over what is stored.

Called by the share coordinator. Knows offsets, states and counts only: neither states nor offsets are checked for
sense, because Kafka's coordinator does not check them either.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence


class StateBatch(NamedTuple):
    """Neighbouring offsets in one delivery state with one delivery count. Inclusive at both ends."""

    first: int
    last: int
    state: int
    delivery_count: int


def merge_state_batches(
    stored: Sequence[StateBatch], written: Sequence[StateBatch], start_offset: int
) -> tuple[StateBatch, ...]:
    """Both together, cut at `start_offset` (-1: not cut), ascending and without overlap.

    `stored` is ascending and without overlap. Where two batches overlap the higher delivery count wins, and at equal
    counts the higher state: not the later write. Neighbours that agree in state and count are joined.
    (Kafka: `PersisterStateBatchCombiner`.)
    """
    old, new = _cut(stored, start_offset), _cut(written, start_offset)
    if all(a.last < b.first for a, b in pairwise(new)):
        return _joined(_overlaid(old, new))
    for batch in new:
        old = _overlaid(old, [batch])
    return _joined(old)


def _cut(batches: Sequence[StateBatch], start_offset: int) -> list[StateBatch]:
    if start_offset < 0:
        return [batch for batch in batches if batch.first <= batch.last]
    return [
        batch if batch.first >= start_offset else batch._replace(first=start_offset)
        for batch in batches
        if start_offset <= batch.last and batch.first <= batch.last
    ]


def _overlaid(one: Sequence[StateBatch], other: Sequence[StateBatch]) -> list[StateBatch]:
    """Two ascending lists without overlap as one: a walk along both, one piece of equal cover at a time."""
    result: list[StateBatch] = []
    left, right = list(reversed(one)), list(reversed(other))
    while left and right:
        a, b = left[-1], right[-1]
        if a.first > b.first:
            left, right, a, b = right, left, b, a
        if a.first < b.first:
            result.append(a._replace(last=min(a.last, b.first - 1)))
            _consume(left, result[-1].last)
            continue
        stronger = max(a, b, key=lambda batch: (batch.delivery_count, batch.state))
        result.append(stronger._replace(last=min(a.last, b.last)))
        _consume(left, result[-1].last)
        _consume(right, result[-1].last)
    result.extend(reversed(left or right))
    return result


def _consume(batches: list[StateBatch], last: int) -> None:
    """Take the offsets up to `last` from the batch at the end of the reversed list."""
    batch = batches.pop()
    if batch.last > last:
        batches.append(batch._replace(first=last + 1))


def _joined(batches: Sequence[StateBatch]) -> tuple[StateBatch, ...]:
    joined: list[StateBatch] = []
    for batch in batches:
        before = joined[-1] if joined else None
        if (
            before
            and before.last + 1 == batch.first
            and (before.state, before.delivery_count) == (batch.state, batch.delivery_count)
        ):
            joined[-1] = before._replace(last=batch.last)
        else:
            joined.append(batch)
    return tuple(joined)
