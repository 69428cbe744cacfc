"""Range arithmetic over offsets: values without state, used by every machine of the core.

All ranges are inclusive at both ends, as on the wire.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kafka_share.protocol.share_values import AcquiredRange


class AcknowledgementRun(NamedTuple):
    """Neighbouring offsets that are acknowledged with the same type (`GAP` or one of `AcknowledgeType`)."""

    first: int
    last: int
    type: int


class AcknowledgementPiece(NamedTuple):
    """One AcknowledgementBatch of the wire: one type for all offsets, or one per offset."""

    first: int
    last: int
    types: list[int]


MAX_ACQUIRED_OFFSETS = 1 << 24
"""More offsets in one partition of one answer cannot be real: brokers lock at most some ten thousand records."""

_LONG_RUN = 10


def count_of(ranges: Iterable[tuple[int, int, int]]) -> int:
    """How many offsets disjoint ranges (first, last, …) have."""
    return sum(last - first + 1 for first, last, _ in ranges)


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


def encode_runs(runs: Iterable[AcknowledgementRun]) -> list[AcknowledgementPiece]:
    """Runs that do not overlap → the AcknowledgementBatches of a request, ascending.

    The rule of Java's client, so that brokers see the requests they are used to: break at holes; a run of more than
    ten equal types is a piece of its own; what is left between has one type per offset, or one if they are all equal.
    """
    pieces: list[AcknowledgementPiece] = []
    mixed: list[AcknowledgementRun] = []
    for run in merged(runs):
        is_long = run.last - run.first + 1 > _LONG_RUN
        if mixed and (is_long or mixed[-1].last + 1 != run.first):
            pieces.append(_piece(mixed))
            mixed = []
        if is_long:
            pieces.append(AcknowledgementPiece(run.first, run.last, [run.type]))
        else:
            mixed.append(run)
    if mixed:
        pieces.append(_piece(mixed))
    return pieces


def _piece(mixed: list[AcknowledgementRun]) -> AcknowledgementPiece:
    if len(mixed) == 1:
        return AcknowledgementPiece(mixed[0].first, mixed[0].last, [mixed[0].type])
    types = [run.type for run in mixed for _ in range(run.first, run.last + 1)]
    return AcknowledgementPiece(mixed[0].first, mixed[-1].last, types)


def clean_acquired(ranges: Iterable[AcquiredRange]) -> tuple[tuple[AcquiredRange, ...], bool]:
    """What a broker said it acquired → ascending ranges without overlap, and whether anything was impossible.

    Of an offset that is named twice the first mention counts (KAFKA-19789). Negative or reversed ranges, and ranges
    beyond `MAX_ACQUIRED_OFFSETS` in all, are left out and make the second value true.
    """
    kept: list[AcquiredRange] = []
    room = MAX_ACQUIRED_OFFSETS
    impossible = False
    for first, last, count in ranges:
        if first < 0 or last < first or last - first >= room:
            impossible = True
            continue
        new = AcquiredRange(first, last, max(count, 1))
        if not kept or kept[-1].last < first:
            parts = [new]
            kept.append(new)
        else:
            parts = _outside(new, kept)
            kept = sorted(kept + parts)
        room -= sum(part.last - part.first + 1 for part in parts)
    return tuple(kept), impossible


def _outside(new: AcquiredRange, kept: list[AcquiredRange]) -> list[AcquiredRange]:
    """The parts of a range that ascending, disjoint ranges do not cover."""
    parts: list[AcquiredRange] = []
    first = new.first
    for other in kept:
        if other.last < first:
            continue
        if other.first > new.last:
            break
        if other.first > first:
            parts.append(AcquiredRange(first, other.first - 1, new.delivery_count))
        first = other.last + 1
    if first <= new.last:
        parts.append(AcquiredRange(first, new.last, new.delivery_count))
    return parts
