"""Delivery: what was delivered, how it was acknowledged, and the runs that are gathered from it."""

from __future__ import annotations

import itertools
import tracemalloc
from itertools import count
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kafka_share.application.delivery import Delivery, runs_of
from kafka_share.core.events import FetchedPartition, GatheredAcknowledgements
from kafka_share.core.fetching.answers import MAX_ACQUIRED_OFFSETS
from kafka_share.core.fetching.offsets import AcknowledgementRun as Run
from kafka_share.locks import AcquisitionLock, LockGeneration
from kafka_share.protocol.share_values import GAP
from kafka_share.records import AcknowledgeType, ShareRecord, TimestampType, TopicIdPartition

NUMBERS = count(1)
LOCK = AcquisitionLock(1_000, LockGeneration(), int)
PARTITION = TopicIdPartition(UUID(int=1), "t", 0)
ACCEPT, RELEASE, REJECT, RENEW = AcknowledgeType
TYPES = st.sampled_from(list(AcknowledgeType))


def record(offset: int) -> ShareRecord[Any, Any]:
    return ShareRecord("t", 0, offset, 0, TimestampType.CREATE_TIME, None, b"", (), 0, 1)


def holding(*offsets: int) -> Delivery:
    holder = Delivery(FetchedPartition(PARTITION, 1, 7, b"", ()), LOCK)
    holder.deliver([record(offset) for offset in offsets])
    return holder


def gathered_from(holder: Delivery) -> tuple[GatheredAcknowledgements | None, dict[int, ShareRecord[Any, Any]]]:
    """Take out all that has been acknowledged, and the records under renewal."""
    leaving = holder.gathered(NUMBERS, has_window=False)
    if leaving is None:
        return None, {}
    for _ in range(2):  # doing it again changes nothing
        holder.leave(leaving, has_window=False)
    ((gathered, _),) = leaving.parts
    return gathered, leaving.renewing


def said(holder: Delivery) -> tuple[Run, ...]:
    gathered, _ = gathered_from(holder)
    return () if gathered is None else gathered.runs


def spread(runs: tuple[Run, ...]) -> dict[int, int]:
    """Runs as offset -> type; fails if an offset is in two of them or if they do not ascend."""
    types: dict[int, int] = {}
    last = -1
    for run in runs:
        assert last < run.first <= run.last, runs
        last = run.last
        types.update(dict.fromkeys(range(run.first, run.last + 1), run.type))
    return types


def test_neighbours_of_one_type_are_one_run_when_offsets_become_runs() -> None:
    assert runs_of([(0, 1), (1, 1), (2, 2), (4, 2), (5, 2)]) == [Run(0, 1, 1), Run(2, 2, 2), Run(4, 5, 2)]
    assert runs_of([]) == []


@given(st.dictionaries(st.integers(0, 60), st.integers(0, 4)))
def test_runs_say_what_the_offsets_said_when_they_are_spread_out_again(types: dict[int, int]) -> None:
    runs = runs_of(sorted(types.items()))
    assert spread(tuple(runs)) == types
    for one, other in itertools.pairwise(runs):
        assert (one.last + 1, one.type) != (other.first, other.type), "neighbours of one type were not joined"


def test_nothing_is_said_when_nothing_was_acknowledged() -> None:
    holder = holding(0, 1)
    assert said(holder) == ()
    assert holder.unacknowledged == 2


def test_the_session_and_node_of_the_delivery_come_along_when_gathered() -> None:
    holder = holding(3)
    holder.acknowledge(3, ACCEPT)
    gathered, renewing = gathered_from(holder)
    assert gathered is not None
    assert (gathered.partition, gathered.node_id, gathered.session_id) == (PARTITION, 1, 7)
    assert renewing == {}
    assert holder.is_done


def test_the_last_word_wins_when_a_record_is_acknowledged_twice() -> None:
    holder = holding(0)
    assert holder.acknowledge(0, RELEASE)
    assert holder.acknowledge(0, ACCEPT)
    assert said(holder) == (Run(0, 0, ACCEPT),)


def test_a_record_is_unknown_when_it_was_gathered_or_never_delivered() -> None:
    holder = holding(0, 1)
    assert not holder.acknowledge(2, ACCEPT)
    holder.acknowledge(0, ACCEPT)
    gathered_from(holder)
    assert not holder.acknowledge(0, ACCEPT)
    assert holder.unacknowledged == 1


def test_the_rest_is_accepted_when_some_records_have_a_word_already() -> None:
    holder = holding(0, 1, 2)
    holder.acknowledge(1, REJECT)
    holder.accept_rest()
    assert said(holder) == (Run(0, 0, ACCEPT), Run(1, 1, REJECT), Run(2, 2, ACCEPT))


def test_gaps_need_no_word_and_keep_their_place_when_gathered() -> None:
    holder = holding(1, 4)
    holder.preset([Run(0, 0, GAP), Run(2, 3, GAP)])
    assert holder.unacknowledged == 2
    holder.accept_rest()
    assert said(holder) == (Run(0, 0, GAP), Run(1, 1, ACCEPT), Run(2, 3, GAP), Run(4, 4, ACCEPT))


def test_gaps_are_gathered_when_no_record_was_acknowledged() -> None:
    holder = holding(1)
    holder.preset([Run(0, 0, GAP)])
    assert said(holder) == (Run(0, 0, GAP),)
    assert not holder.is_done


def test_a_failed_offset_keeps_its_preset_type_when_nobody_overrides_it() -> None:
    holder = holding()
    holder.fail([Run(5, 6, RELEASE)])
    assert holder.unacknowledged == 0
    holder.accept_rest()
    assert said(holder) == (Run(5, 6, RELEASE),)


def test_millions_of_failed_offsets_stay_one_run_and_can_be_overridden_one_by_one() -> None:
    """A broker names them in a few bytes."""
    last = MAX_ACQUIRED_OFFSETS - 1
    holder = holding()
    tracemalloc.start()
    try:
        holder.fail([Run(0, last, REJECT)])
        assert holder.override(7, RELEASE)
        assert holder.override(0, ACCEPT)
        assert holder.override(last, RELEASE)
        assert not holder.override(last + 1, RELEASE)
        assert said(holder) == (Run(0, 0, ACCEPT), Run(1, 6, REJECT), Run(7, 7, RELEASE), Run(8, last - 1, REJECT),
                                    Run(last, last, RELEASE))  # fmt: skip
        assert holder.is_done
        lock = AcquisitionLock(1_000, LockGeneration(), lambda: 0)
        lock.lose(1, last)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (lock.is_lost(0), lock.is_lost(1), lock.is_lost(last), lock.is_lost(last + 1)) == (False, True, True, False)
    assert lock.lost_among([0, 1, 2]) == [1, 2]
    assert peak < 1_000_000


def test_only_failed_offsets_can_be_overridden_and_only_delivered_ones_acknowledged() -> None:
    holder = holding(4)
    holder.fail([Run(5, 5, RELEASE)])
    assert not holder.override(4, REJECT)
    assert not holder.acknowledge(5, ACCEPT)
    assert holder.override(5, ACCEPT)
    assert holder.override(5, REJECT)
    assert said(holder) == (Run(5, 5, REJECT),)
    assert not holder.override(5, REJECT)


def test_renewed_records_are_handed_back_when_gathered() -> None:
    holder = holding(0, 1)
    holder.acknowledge(0, ACCEPT)
    holder.acknowledge(1, RENEW)
    gathered, renewing = gathered_from(holder)
    assert gathered is not None
    assert gathered.runs == (Run(0, 0, ACCEPT), Run(1, 1, RENEW))
    assert list(renewing) == [1]
    assert not holder.acknowledge(1, ACCEPT), "under renewal it is not in flight"
    holder.deliver(list(renewing.values()))
    assert holder.acknowledge(1, ACCEPT)


def test_a_record_is_not_in_flight_when_it_was_taken_back() -> None:
    holder = holding(0, 1)
    taken = [record.offset for record in holder.present([1, 9])]
    holder.take_back([1, 9])
    assert list(taken) == [1]
    assert not holder.acknowledge(1, ACCEPT)
    holder.accept_rest()
    assert said(holder) == (Run(0, 0, ACCEPT),)


def test_check_fails_when_what_waits_for_its_release_is_not_here() -> None:
    holder = holding(0)
    holder._held[1] = 1
    with pytest.raises(AssertionError, match="is gone waits for its release"):
        holder.check()


class InFlightAgainstModel(RuleBasedStateMachine):
    """Every offset below 20 against a dict of what it is: "delivered", "failed", a gap, or gone."""

    OFFSETS = st.integers(0, 19)

    @initialize()
    def start(self) -> None:
        self.holder = holding()
        self.state: dict[int, str] = {}
        self.types: dict[int, int] = {}
        self.renewing: dict[int, ShareRecord[Any, Any]] = {}

    def _is_new(self, offset: int) -> bool:
        return offset not in self.state and offset not in self.renewing

    @rule(offsets=st.lists(OFFSETS, unique=True))
    def deliver(self, offsets: list[int]) -> None:
        new = sorted(filter(self._is_new, offsets))
        self.holder.deliver([record(o) for o in new])
        self.state.update(dict.fromkeys(new, "delivered"))

    @rule(offset=OFFSETS)
    def settle(self, offset: int) -> None:
        if self._is_new(offset):
            self.holder.preset([Run(offset, offset, GAP)])
            self.state[offset] = "gap"
            self.types[offset] = GAP

    @rule(offset=OFFSETS)
    def fail(self, offset: int) -> None:
        if self._is_new(offset):
            self.holder.fail([Run(offset, offset, REJECT)])
            self.state[offset] = "failed"
            self.types[offset] = REJECT

    @rule(offset=OFFSETS, kind=TYPES)
    def acknowledge(self, offset: int, kind: AcknowledgeType) -> None:
        allowed = self.state.get(offset) == "delivered"
        assert self.holder.acknowledge(offset, kind) == allowed
        if allowed:
            self.types[offset] = kind

    @rule(offset=OFFSETS, kind=st.sampled_from([ACCEPT, RELEASE, REJECT]))
    def override(self, offset: int, kind: AcknowledgeType) -> None:
        allowed = self.state.get(offset) == "failed"
        assert self.holder.override(offset, kind) == allowed
        if allowed:
            self.types[offset] = kind

    @rule()
    def accept_rest(self) -> None:
        self.holder.accept_rest()
        for offset, state in self.state.items():
            if state == "delivered":
                self.types.setdefault(offset, ACCEPT)

    @rule(offsets=st.lists(OFFSETS, unique=True))
    def take_back(self, offsets: list[int]) -> None:
        taken = [record.offset for record in self.holder.present(offsets)]
        assert taken == [o for o in offsets if self.state.get(o) == "delivered"]
        self.holder.take_back(offsets)
        for offset in taken:
            del self.state[offset]
            self.types.pop(offset, None)

    @rule()
    def gather(self) -> None:
        gathered, renewing = gathered_from(self.holder)
        assert spread(() if gathered is None else gathered.runs) == self.types
        expected = {o for o, kind in self.types.items() if kind == RENEW}
        assert set(renewing) == expected
        self.renewing.update(renewing)
        for offset in self.types:
            del self.state[offset]
        self.types = {}

    @rule()
    def renewed(self) -> None:
        self.holder.deliver([self.renewing[offset] for offset in sorted(self.renewing)])
        self.state.update(dict.fromkeys(self.renewing, "delivered"))
        self.renewing = {}

    @invariant()
    def agrees(self) -> None:
        self.holder.check()
        silent = [o for o, state in self.state.items() if state == "delivered" and o not in self.types]
        assert self.holder.unacknowledged == len(silent)
        assert self.holder.is_done == (not self.state)


TestInFlightAgainstModel = InFlightAgainstModel.TestCase
