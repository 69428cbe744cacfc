"""Ledger: both implementations do the same, step by step, and what they do is what a dictionary would."""

from __future__ import annotations

from array import array
from types import ModuleType
from typing import Any, NamedTuple

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from native.implementations import implementation

from kafka_share.native import ShareRecord
from kafka_share.records import TimestampType

ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4
OFFSETS = st.integers(0, 19)
KINDS = st.sampled_from((ACCEPT, RELEASE, REJECT, RENEW))


def record(native: ModuleType, offset: int) -> ShareRecord[Any, Any]:
    made: ShareRecord[Any, Any] = native.ShareRecord("t", 0, offset, 0, TimestampType.CREATE_TIME, None, b"", (), 0, 1)
    return made


def ledger_with(native: ModuleType, *offsets: int) -> Any:
    ledger = native.Ledger()
    ledger.add([record(native, offset) for offset in offsets])
    return ledger


def test_acknowledgements_leave_as_runs_of_neighbours_with_one_type(native: ModuleType) -> None:
    ledger = ledger_with(native, 0, 1, 2, 3, 5, 6, 9)
    for offset, kind in ((0, ACCEPT), (1, ACCEPT), (2, REJECT), (5, ACCEPT), (6, RENEW), (9, ACCEPT)):
        assert ledger.acknowledge(offset, kind)
    taken = ledger.snapshot(with_renewals=True)
    assert ledger.runs(taken) == [(0, 1, ACCEPT), (2, 2, REJECT), (5, 5, ACCEPT), (6, 6, RENEW), (9, 9, ACCEPT)]
    assert [r.offset for r in ledger.renewing_in(taken).values()] == [6]
    assert ledger.runs(ledger.snapshot(with_renewals=False))[-2:] == [(5, 5, ACCEPT), (9, 9, ACCEPT)]
    late, rest = ledger.split(taken, [2, 9])
    assert (ledger.offsets_in(late), ledger.offsets_in(rest)) == ([2, 9], [0, 1, 5, 6])
    ledger.leave(taken, keeps_renewals=True)
    assert (len(ledger), ledger.open, ledger.first_open()) == (2, 2, 3)
    ledger.check()


def test_nothing_is_left_behind_when_all_have_been_accepted(native: ModuleType) -> None:
    ledger = ledger_with(native, *range(500))
    ledger.accept_open()
    taken = ledger.snapshot(with_renewals=True)
    assert ledger.runs(taken) == [(0, 499, ACCEPT)]
    ledger.leave(taken, keeps_renewals=False)
    assert (len(ledger), ledger.open, ledger.acknowledged) == (0, 0, 0)
    assert not ledger.snapshot(with_renewals=True)
    ledger.add([record(native, 3)])
    assert (len(ledger), ledger.first_open()) == (1, 3)


class Run(NamedTuple):
    first: int
    last: int
    type: int


def test_all_leaves_at_once_when_each_has_its_final_acknowledgement(native: ModuleType) -> None:
    ledger = ledger_with(native, 0, 1, 2, 4)
    assert ledger.runs_of_all(Run, accepts=False) is None
    ledger.acknowledge(1, REJECT)
    assert ledger.runs_of_all(Run, accepts=False) is None
    found = ledger.runs_of_all(Run, accepts=True)
    assert found == (Run(0, 0, ACCEPT), Run(1, 1, REJECT), Run(2, 2, ACCEPT), Run(4, 4, ACCEPT))
    assert {type(run) for run in found} == {Run}
    assert ledger.runs_of_all(Run, accepts=False) == found
    ledger.remove([1])
    assert ledger.runs_of_all(Run, accepts=False) == (Run(0, 0, ACCEPT), Run(2, 2, ACCEPT), Run(4, 4, ACCEPT))


@pytest.mark.parametrize("offsets", [(), (0,), (0, 1, 2)], ids=len)
def test_nothing_leaves_at_once_when_there_is_nothing_or_a_renewal_or_one_is_held(
    native: ModuleType, offsets: tuple[int, ...]
) -> None:
    ledger = ledger_with(native, *offsets)
    if offsets:
        ledger.acknowledge(0, RENEW) if len(offsets) == 1 else ledger.hold(0)
    assert ledger.runs_of_all(Run, accepts=True) is None


def test_a_record_that_is_held_waits_until_it_is_released(native: ModuleType) -> None:
    ledger = ledger_with(native, 0, 1)
    assert ledger.hold(1)
    assert (ledger.open, ledger.held, ledger.is_held(1), ledger.hold(7)) == (1, 1, True, False)
    assert not ledger.acknowledge_once(1, ACCEPT)
    ledger.accept_open()
    assert ledger.runs(ledger.snapshot(with_renewals=True)) == [(0, 0, ACCEPT)]
    assert ledger.acknowledge(1, RELEASE)
    assert (ledger.held, ledger.is_held(1)) == (0, False)


def test_a_record_that_is_held_can_be_accepted_with_others(native: ModuleType) -> None:
    ledger = ledger_with(native, 0, 1)
    assert ledger.hold(1)
    ledger.accept([0, 1, 7])
    assert (ledger.held, ledger.acknowledged) == (0, 2)
    ledger.check()


class BothAgainstADictionary(RuleBasedStateMachine):
    """Offset → None (open), "held", or the type."""

    @initialize()
    def start(self) -> None:
        self.modules = [implementation("compiled"), implementation("pure")]
        self.ledgers = [module.Ledger() for module in self.modules]
        self.model: dict[int, int | str | None] = {}

    def both(self, call: str, *arguments: Any, **named: Any) -> Any:
        one, other = (getattr(ledger, call)(*arguments, **named) for ledger in self.ledgers)
        assert one == other
        return one

    @rule(offsets=st.sets(OFFSETS, min_size=1))
    def add(self, offsets: set[int]) -> None:
        new = sorted(offsets - self.model.keys())
        if not new:
            return
        for module, ledger in zip(self.modules, self.ledgers, strict=True):
            ledger.add([record(module, offset) for offset in new])
        self.model.update(dict.fromkeys(new))

    @rule(offsets=st.lists(OFFSETS))
    def remove(self, offsets: list[int]) -> None:
        self.both("remove", offsets)
        self.model = {offset: state for offset, state in self.model.items() if offset not in offsets}

    @rule(offset=OFFSETS, kind=KINDS)
    def acknowledge(self, offset: int, kind: int) -> None:
        assert self.both("acknowledge", offset, kind) == (offset in self.model)
        if offset in self.model:
            self.model[offset] = kind

    @rule(offsets=st.lists(OFFSETS), kind=KINDS, once=st.booleans())
    def acknowledge_each(self, offsets: list[int], kind: int, once: bool) -> None:
        possible = {o for o in offsets if o in self.model and (not once or self.model[o] in (None, RENEW))}
        left = self.both("acknowledge_each", array("q", offsets), kind, once=once)
        assert left == array("q", [o for o in offsets if o not in possible])
        self.model.update(dict.fromkeys(possible, kind))

    @rule(offset=OFFSETS, kind=KINDS)
    def acknowledge_once(self, offset: int, kind: int) -> None:
        is_possible = offset in self.model and self.model[offset] in (None, RENEW)
        assert self.both("acknowledge_once", offset, kind) == is_possible
        if is_possible:
            self.model[offset] = kind

    @rule(offset=OFFSETS)
    def hold(self, offset: int) -> None:
        assert self.both("hold", offset) == (offset in self.model)
        if offset in self.model:
            self.model[offset] = "held"

    @rule(offsets=st.lists(OFFSETS))
    def accept(self, offsets: list[int]) -> None:
        self.both("accept", offsets)
        self.model.update({offset: ACCEPT for offset in offsets if offset in self.model})

    @rule()
    def accept_open(self) -> None:
        self.both("accept_open")
        self.model = {offset: ACCEPT if state is None else state for offset, state in self.model.items()}

    @rule(with_renewals=st.booleans(), keeps_renewals=st.booleans())
    def leave(self, with_renewals: bool, keeps_renewals: bool) -> None:
        taken = [ledger.snapshot(with_renewals=with_renewals) for ledger in self.ledgers]
        expected = {
            o: s for o, s in self.model.items() if isinstance(s, int) and (with_renewals or s != RENEW)
        }  # fmt: skip
        for ledger, snapshot in zip(self.ledgers, taken, strict=True):
            assert bool(snapshot) == bool(expected)
            assert ledger.offsets_in(snapshot) == sorted(expected)
            assert {o: ledger.kind_in(snapshot, o) for o in range(20)} == {o: expected.get(o, 0) for o in range(20)}
            assert [(f, last, k) for f, last, k in ledger.runs(snapshot)] == runs(expected)
            assert {*ledger.renewing_in(snapshot)} == {o for o, kind in expected.items() if kind == RENEW}
            for _ in range(2):  # who was interrupted does it again
                ledger.leave(snapshot, keeps_renewals=keeps_renewals)
        for offset, kind in expected.items():
            if kind == RENEW and keeps_renewals:
                self.model[offset] = None
            else:
                del self.model[offset]

    @invariant()
    def all_tell_the_same(self) -> None:
        if not hasattr(self, "model"):
            return
        states = list(self.model.values())
        types = [state for state in states if isinstance(state, int)]
        open_ones = sorted(o for o, state in self.model.items() if state is None)
        for ledger in self.ledgers:
            ledger.check()
            assert len(ledger) == len(self.model)
            assert (ledger.open, ledger.held) == (states.count(None), states.count("held"))
            assert (ledger.acknowledged, ledger.renewing) == (len(types), types.count(RENEW))
            assert ledger.unacknowledged(with_held=False) == open_ones
            assert sorted(ledger.renewals()) == sorted(o for o, state in self.model.items() if state == RENEW)
            assert ledger.first_open() == min((o for o, s in self.model.items() if s in (None, RENEW)), default=None)
            assert [r.offset for r in ledger.records_at(range(20))] == sorted(self.model)


def runs(types: dict[int, int]) -> list[tuple[int, int, int]]:
    found: list[tuple[int, int, int]] = []
    for offset, kind in sorted(types.items()):
        if found and found[-1][1:] == (offset - 1, kind):
            found[-1] = (found[-1][0], offset, kind)
        else:
            found.append((offset, offset, kind))
    return found


TestBothAgainstADictionary = BothAgainstADictionary.TestCase
TestBothAgainstADictionary.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
