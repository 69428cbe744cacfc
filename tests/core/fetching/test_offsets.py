"""Range arithmetic: acknowledgement batches against a naive model, acquired ranges against another."""

from __future__ import annotations

from itertools import groupby, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_share.core.fetching.answers import MAX_ACQUIRED_OFFSETS, clean_acquired
from kafka_share.core.fetching.offsets import AcknowledgementRun, merged, overlap
from kafka_share.core.fetching.share_session import encode_runs
from kafka_share.protocol.share_values import AcquiredRange


def runs_of(types: dict[int, int]) -> list[AcknowledgementRun]:
    """One run per offset: the worst that can be handed in."""
    return [AcknowledgementRun(offset, offset, kind) for offset, kind in types.items()]


def naive_pieces(types: dict[int, int]) -> list[tuple[int, int, list[int]]]:
    """The encoding rule, offset by offset: cut at holes, cut out long runs, collapse what is all equal."""
    pieces: list[list[tuple[int, int]]] = []
    for offset, kind in sorted(types.items()):
        if not pieces or pieces[-1][-1][0] + 1 != offset:
            pieces.append([])
        pieces[-1].append((offset, kind))
    result = []
    for piece in pieces:
        rest: list[tuple[int, int]] = []
        for _, group in groupby(piece, key=lambda pair: pair[1]):
            run = list(group)
            if len(run) > 10:
                result.append(rest)
                result.append(run)
                rest = []
            else:
                rest = rest + run
        result.append(rest)
    return [
        (found[0][0], found[-1][0], [kind for _, kind in found] if len({k for _, k in found}) > 1 else [found[0][1]])
        for found in result
        if found
    ]


offsets_with_types = st.dictionaries(st.integers(0, 120), st.integers(0, 4), max_size=120)
runs_in_blocks = st.lists(st.tuples(st.integers(1, 14), st.integers(0, 2), st.integers(0, 1)), max_size=12).map(
    lambda blocks: {
        sum(length + hole for length, _, hole in blocks[:i]) + n: kind
        for i, (length, kind, _) in enumerate(blocks)
        for n in range(length)
    }
)


@pytest.mark.behaviour("explicit acknowledgement")
@given(st.one_of(offsets_with_types, runs_in_blocks))
def test_runs_are_encoded_like_the_naive_model_when_offsets_have_any_types(types: dict[int, int]) -> None:
    """Any acknowledgements are encoded as a slow, obvious model encodes them."""
    assert [tuple(piece) for piece in encode_runs(runs_of(types))] == naive_pieces(types)


@pytest.mark.behaviour("explicit acknowledgement")
@given(st.one_of(offsets_with_types, runs_in_blocks))
def test_encoded_pieces_satisfy_the_broker_when_expanded(types: dict[int, int]) -> None:
    """Encoded batches are ascending, do not overlap, have one type or one for each offset, and keep each type."""
    pieces = encode_runs(runs_of(types))
    expanded = {}
    for first, last, kinds in pieces:
        assert len(kinds) in (1, last - first + 1)
        expanded.update({o: kinds[0 if len(kinds) == 1 else o - first] for o in range(first, last + 1)})
    assert expanded == types
    assert all(before.last < after.first for before, after in pairwise(pieces))


@pytest.mark.behaviour("explicit acknowledgement")
def test_the_observed_example_is_encoded_when_runs_of_ten_are_split_by_rejects() -> None:
    """Acknowledgements are encoded with one type for equal ones and a type for each offset for short runs."""
    types = dict.fromkeys(range(26), 1) | {26: 3, 27: 1, 28: 3, 29: 1}
    types |= {offset: 3 if (offset - 31) % 11 == 10 else 1 for offset in range(31, 63)}
    pieces = encode_runs(runs_of(types))
    assert [tuple(piece) for piece in pieces[:2]] == [(0, 25, [1]), (26, 29, [3, 1, 3, 1])]
    assert (pieces[2].first, pieces[2].last, len(pieces[2].types)) == (31, 62, 32)
    assert len(pieces) == 3


@pytest.mark.behaviour("explicit acknowledgement")
def test_a_run_of_eleven_is_cut_out_when_ten_would_not_be() -> None:
    """More than ten equal types in a row become a batch of their own; ten do not."""
    ten = [AcknowledgementRun(0, 9, 1), AcknowledgementRun(10, 10, 2)]
    eleven = [AcknowledgementRun(0, 10, 1), AcknowledgementRun(11, 11, 2)]
    assert [p.types for p in encode_runs(ten)] == [[1] * 10 + [2]]
    assert [p.types for p in encode_runs(eleven)] == [[1], [2]]


def test_a_huge_run_stays_small_when_encoded() -> None:
    assert encode_runs([AcknowledgementRun(0, 2**60, 0)])[0].types == [0]


@pytest.mark.behaviour("fetching")
@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 6), st.integers(1, 5)), max_size=12))
def test_each_offset_is_acquired_once_with_its_first_count_when_ranges_are_in_disorder(
    found: list[tuple[int, int, int]],
) -> None:
    """Acquired ranges may be unsorted, overlap and repeat: each offset counts once, as it was named first."""
    named = [AcquiredRange(first, first + length, count) for first, length, count in found]
    naive: dict[int, int] = {}
    for first, last, count in named:
        for offset in range(first, last + 1):
            naive.setdefault(offset, count)
    cleaned, impossible = clean_acquired(named)
    assert not impossible
    assert {o: count for first, last, count in cleaned for o in range(first, last + 1)} == naive
    assert all(before.last < after.first for before, after in pairwise(cleaned))


@pytest.mark.parametrize("is_descending", [True, False], ids=["descending", "the last one again and again"])
def test_a_hundred_thousand_ranges_in_disorder_take_no_quadratic_time(is_descending: bool) -> None:
    """An answer of two megabytes held the heartbeats up for minutes."""
    count = 100_000
    ascending = [AcquiredRange(3 * n, 3 * n + 1, 1) for n in range(count)]
    named = ascending[::-1] if is_descending else [*ascending, *ascending[-1:] * count]
    assert clean_acquired(named) == (tuple(ascending), False)


def test_impossible_ranges_are_left_out_when_a_broker_names_them() -> None:
    good = AcquiredRange(5, 6, 2)
    bad = [AcquiredRange(-1, 3, 1), AcquiredRange(9, 8, 1), AcquiredRange(10, 10 + MAX_ACQUIRED_OFFSETS, 1)]
    assert clean_acquired([*bad, good]) == ((good,), True)
    half = MAX_ACQUIRED_OFFSETS // 2
    low, high = AcquiredRange(0, half - 1, 1), AcquiredRange(half, 2 * half - 1, 2)
    assert clean_acquired([high, low]) == ((low, high), False)
    assert clean_acquired([high, AcquiredRange(2 * half, 2 * half, 1), low]) == ((low, high), True)
    assert clean_acquired([AcquiredRange(5, 6, -3)]) == ((AcquiredRange(5, 6, 1),), False)


@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 4)), max_size=6),
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 4)), max_size=6),
)
def test_overlap_is_found_when_two_lists_share_an_offset(
    one: list[tuple[int, int]], two: list[tuple[int, int]]
) -> None:
    def ranges(found: list[tuple[int, int]]) -> tuple[AcquiredRange, ...]:
        return clean_acquired([AcquiredRange(first, first + length, 1) for first, length in found])[0]

    def offsets(found: tuple[AcquiredRange, ...]) -> set[int]:
        return {o for first, last, _ in found for o in range(first, last + 1)}

    left, right = ranges(one), ranges(two)
    assert overlap(left, right) == bool(offsets(left) & offsets(right))


def test_neighbours_are_joined_when_their_types_are_equal() -> None:
    pieces = [AcknowledgementRun(3, 4, 1), AcknowledgementRun(0, 2, 1), AcknowledgementRun(5, 5, 2)]
    assert merged(pieces) == [AcknowledgementRun(0, 4, 1), AcknowledgementRun(5, 5, 2)]
