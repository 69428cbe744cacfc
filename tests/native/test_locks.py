"""What a lock knows: the same from both implementations."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from kafka_share.locks import LockGeneration

ENDS_AT_MS = 30_000


class Clock:
    now_ms = 0

    def __call__(self) -> int:
        return self.now_ms


def facts(native: ModuleType) -> tuple[Any, LockGeneration, Clock]:
    generation, clock = LockGeneration(), Clock()
    return native.LockFacts(ENDS_AT_MS, generation, clock), generation, clock


def test_a_lock_begins_whole(native: ModuleType) -> None:
    lock, generation, clock = facts(native)
    assert (lock.deadline_at_ms, lock.generation, lock.now_ms) == (ENDS_AT_MS, generation, clock)
    assert (lock.renewed, lock.lost, lock.lost_spans) == (None, None, ())
    assert lock.is_whole
    assert not lock.may_be_lost


def test_it_may_be_lost_from_its_end_on(native: ModuleType) -> None:
    lock, _, clock = facts(native)
    clock.now_ms = ENDS_AT_MS - 1
    assert not lock.may_be_lost
    clock.now_ms = ENDS_AT_MS
    assert lock.may_be_lost
    assert lock.is_whole


def test_it_may_be_lost_when_its_generation_has_ended(native: ModuleType) -> None:
    lock, generation, _ = facts(native)
    generation.has_ended = True
    assert lock.may_be_lost


def test_what_parts_from_the_others_makes_it_one_to_look_at(native: ModuleType) -> None:
    """A record that was renewed, one that was lost, a span of them: each needs a look of its own then."""
    changes: tuple[Callable[[Any], object], ...] = (
        lambda lock: lock.renewals().update({5: 40_000}),
        lambda lock: lock.losses().add(5),
        lambda lock: lock.lose_span(range(5, 6)),
    )
    for change in changes:
        lock, _, _ = facts(native)
        change(lock)
        assert not lock.is_whole
        assert lock.may_be_lost


def test_what_is_written_into_stays(native: ModuleType) -> None:
    lock, _, _ = facts(native)
    lock.renewals()[5] = 40_000
    lock.losses().add(6)
    assert lock.renewals() is lock.renewed
    assert lock.losses() is lock.lost
    assert (lock.renewed, lock.lost) == ({5: 40_000}, {6})
