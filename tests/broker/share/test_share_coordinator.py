"""Stored share state: fences, merge rule, summaries."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from broker.share.probe import Probe
from hypothesis import given
from hypothesis import strategies as st

from kafka_share.broker.refusals import Refusal
from kafka_share.broker.share import state_batches
from kafka_share.broker.share.share_coordinator import ShareCoordinator, StateSummary
from kafka_share.broker.share.state_batches import StateBatch, StoredBatches, merge_state_batches
from kafka_share.broker.share.state_records import StateKey
from kafka_share.errors import (
    FencedLeaderEpochError,
    FencedStateEpochError,
    InvalidRequestError,
    UnknownServerError,
    UnknownTopicOrPartitionError,
)

NOW = 1_000_000


@pytest.fixture
def probe() -> Probe:
    return Probe()


@pytest.fixture
def states(probe: Probe) -> ShareCoordinator:
    return probe.coordinator


@pytest.fixture
def key(probe: Probe) -> StateKey:
    return StateKey("g", probe.topic("t"), 0)


def _write(
    states: ShareCoordinator,
    key: StateKey,
    *batches: tuple[int, int, int, int],
    start: int = -1,
    state_epoch: int = 5,
    leader_epoch: int = 3,
    complete: int = 0,
) -> None:
    states.write(
        key,
        state_epoch=state_epoch,
        leader_epoch=leader_epoch,
        start_offset=start,
        delivery_complete_count=complete,
        batches=[StateBatch(*batch) for batch in batches],
        now_ms=NOW,
    )


def _code(error: pytest.ExceptionInfo[Refusal]) -> int:
    return error.value.code


def test_read_and_write_are_refused_when_nothing_is_initialised(states: ShareCoordinator, key: StateKey) -> None:
    for attempt in (lambda: states.read(key, 0, NOW), lambda: _write(states, key)):
        with pytest.raises(Refusal) as error:
            attempt()
        assert _code(error) == InvalidRequestError.code
    assert states.summary(key) == StateSummary(0, 0, -1, -1)
    states.delete(key, NOW)


def test_initialize_is_refused_when_the_partition_is_unknown_or_negative(
    states: ShareCoordinator, key: StateKey
) -> None:
    with pytest.raises(Refusal) as error:
        states.initialize(key._replace(partition=9), 0, 0, NOW)
    assert _code(error) == UnknownTopicOrPartitionError.code
    with pytest.raises(Refusal) as error:
        states.initialize(key._replace(partition=-1), 0, 0, NOW)
    assert _code(error) == InvalidRequestError.code


@pytest.mark.behaviour("broker")
def test_leader_epoch_fences_older_leaders_when_a_newer_one_has_read(states: ShareCoordinator, key: StateKey) -> None:
    """Stored state is refused to older leaders once a newer one has read it; a read without epoch changes nothing."""
    states.initialize(key, 5, -1, NOW)
    assert states.summary(key) == StateSummary(5, 0, -1, -1)
    assert states.read(key, 3, NOW).start_offset == -1
    for attempt in (lambda: states.read(key, 2, NOW), lambda: _write(states, key, leader_epoch=1)):
        with pytest.raises(Refusal) as error:
            attempt()
        assert _code(error) == FencedLeaderEpochError.code
    assert states.read(key, -1, NOW).state_epoch == 5
    assert states.summary(key).leader_epoch == 3


def test_summary_shows_leader_epoch_0_but_the_fence_stays_when_initialised_again(
    states: ShareCoordinator, key: StateKey
) -> None:
    states.initialize(key, 5, -1, NOW)
    states.read(key, 3, NOW)
    states.initialize(key, 5, 7, NOW)
    assert states.summary(key) == StateSummary(5, 0, 7, 0)
    with pytest.raises(Refusal) as error:
        states.read(key, 2, NOW)
    assert _code(error) == FencedLeaderEpochError.code


def test_lower_state_epoch_is_fenced_when_initialising_and_writing(states: ShareCoordinator, key: StateKey) -> None:
    states.initialize(key, 5, 0, NOW)
    for attempt in (lambda: states.initialize(key, 4, 0, NOW), lambda: _write(states, key, state_epoch=4)):
        with pytest.raises(Refusal) as error:
            attempt()  # type: ignore[no-untyped-call]
        assert _code(error) == FencedStateEpochError.code
    _write(states, key, state_epoch=6, leader_epoch=4)
    _write(states, key, state_epoch=-1, leader_epoch=-1)
    assert states.read(key, 0, NOW).state_epoch == 5


def test_writes_are_merged_as_by_kafka_when_they_overlap(states: ShareCoordinator, key: StateKey) -> None:
    def stored() -> tuple[int, list[tuple[int, ...]]]:
        state = states.read(key, 9, NOW)
        return state.start_offset, [tuple(batch) for batch in state.batches]

    states.initialize(key, 5, 7, NOW)
    _write(states, key, (0, 4, 2, 1), (5, 9, 0, 2), (20, 29, 4, 3), start=0, complete=3)
    first = [(0, 4, 2, 1), (5, 9, 0, 2), (20, 29, 4, 3)]
    assert stored() == (0, first)
    assert states.summary(key).delivery_complete_count == 3
    _write(states, key, (3, 6, 0, 1), leader_epoch=9)
    assert stored() == (0, first)
    _write(states, key, start=8, leader_epoch=9)
    assert stored() == (8, [(8, 9, 0, 2), (20, 29, 4, 3)])
    _write(states, key, start=2, leader_epoch=9)
    assert stored() == (2, [(8, 9, 0, 2), (20, 29, 4, 3)])
    for batch in ((40, 41, 1, 1), (50, 51, 9, 1), (61, 60, 2, 1), (-3, 60, 2, 1)):
        _write(states, key, batch, leader_epoch=9)
    assert stored() == (
        2,
        [
            (2, 7, 2, 1),
            (8, 9, 0, 2),
            (10, 19, 2, 1),
            (20, 29, 4, 3),
            (30, 49, 2, 1),
            (50, 51, 9, 1),
            (52, 60, 2, 1),
        ],
    )


def test_a_batch_that_ends_before_it_begins_is_refused_when_it_overlaps_another(
    states: ShareCoordinator, key: StateKey
) -> None:
    """Kafka 4.1 to 4.3 never answer that. Nothing is changed."""
    states.initialize(key, 0, 0, NOW)
    _write(states, key, (5, 3, 2, 1), state_epoch=0, leader_epoch=0)
    stored, summary = states.read(key, 0, NOW), states.summary(key)
    with pytest.raises(Refusal) as refusal:
        _write(states, key, (0, 9, 0, 1), start=2, complete=7, state_epoch=0, leader_epoch=0)
    assert _code(refusal) == UnknownServerError.code
    assert (states.read(key, 0, NOW), states.summary(key)) == (stored, summary)


def test_everything_is_forgotten_when_deleted(states: ShareCoordinator, key: StateKey) -> None:
    states.initialize(key, 5, 7, NOW)
    states.read(key, 3, NOW)
    states.delete(key, NOW)
    states.delete(key, NOW)
    assert states.summary(key) == StateSummary()
    states.initialize(key, 0, 0, NOW)
    assert states.read(key, 0, NOW).state_epoch == 0


def test_state_of_all_groups_goes_when_the_topic_is_deleted(
    probe: Probe, states: ShareCoordinator, key: StateKey
) -> None:
    other = key._replace(group_id="h")
    kept = StateKey("g", probe.topic("u"), 0)
    for each in (key, other, kept):
        states.initialize(each, 0, 0, NOW)
    states.topic_deleted(key.topic_id, NOW)
    assert states.keys("g") == [kept]
    assert states.keys("h") == []
    states.delete_group("g", NOW)
    assert states.keys("g") == []


_batches = st.lists(
    st.builds(
        lambda first, size, state, count: StateBatch(first, first + size, state, count),
        st.integers(0, 30),
        st.integers(0, 8),
        st.sampled_from([0, 2, 4]),
        st.integers(1, 3),
    ),
    max_size=8,
)


@given(st.lists(_batches, max_size=5), st.integers(-1, 20))
def test_merge_keeps_the_strongest_state_of_each_offset_when_batches_overlap(
    writes: list[list[StateBatch]], start: int
) -> None:
    stored: tuple[StateBatch, ...] = ()
    expected: dict[int, tuple[int, int]] = {}
    for write in writes:
        stored = merge_state_batches(stored, write, start)
        for batch in write:
            for offset in range(max(batch.first, start), batch.last + 1):
                expected[offset] = max(expected.get(offset, (0, 0)), batch.strength)
    found = [(offset, batch.strength) for batch in stored for offset in range(batch.first, batch.last + 1)]
    assert found == sorted(expected.items())


@given(st.lists(st.tuples(_batches, st.integers(-1, 3)), max_size=8))
def test_what_is_stored_is_the_merge_of_everything_after_each_write(
    writes: list[tuple[list[StateBatch], int]],
) -> None:
    """The part that a write is merged with is all that the write concerns, whatever has been written before."""
    kept = StoredBatches()
    expected: tuple[StateBatch, ...] = ()
    start = -1
    for written, further in writes:
        start += max(0, further)
        kept.merge(written, start)
        expected = merge_state_batches(expected, written, start)
        assert tuple(kept) == expected


def test_a_write_costs_the_same_however_much_is_stored_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[int] = []
    merge = state_batches.merge_state_batches

    def counted(stored: Sequence[StateBatch], written: Sequence[StateBatch], start: int) -> tuple[StateBatch, ...]:
        looked_at.append(len(stored))
        return merge(stored, written, start)

    monkeypatch.setattr(state_batches, "merge_state_batches", counted)
    kept = StoredBatches()
    for offset in range(0, 2_000, 2):
        kept.merge([StateBatch(offset, offset, 2, 1)], 0)
    kept.merge([StateBatch(1_001, 1_001, 2, 1)], 0)
    assert looked_at[-1] == 2
    assert max(looked_at) <= 2
    assert len(tuple(kept)) == 999
