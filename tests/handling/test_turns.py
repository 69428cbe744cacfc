"""Order by key, batches and slow handlers: records in, calls out, under a clock that the tests move."""

from __future__ import annotations

import random
from typing import Any

import pytest
from handling.given import Driven, jobs, record

from kafka_share.errors import BatchError, InvalidArgumentError
from kafka_share.handling.job import places_of
from kafka_share.handling.policy import OnError, Reject, Release, Retry
from kafka_share.handling.turns import ByKey, InBatches, key_of


class OddError(Exception):
    """One that the tests map."""


# ---- order by key


def ordered(concurrency: int = 10, **settings: Any) -> Driven:
    return Driven(
        jobs({OddError: Reject(), LookupError: Release()}, ByKey(key_of), concurrency=concurrency, **settings)
    )


def keyed(offset: int, key: Any = b"a") -> Any:
    return record(offset, key=key)


def test_records_of_equal_key_are_handled_one_after_another_and_others_at_the_same_time() -> None:
    driven = ordered()
    driven.arrive(keyed(0), keyed(1), keyed(2, b"b"), keyed(3), keyed(4, b"b"))
    assert driven.started == [0, 2]
    assert driven.jobs.ready == 3
    driven.finish(0)
    assert driven.started == [0, 2, 1]
    driven.finish(2)
    driven.finish(1)
    assert driven.started == [0, 2, 1, 4, 3]
    assert driven.jobs.ready == 0


def test_only_what_could_begin_counts_as_stock() -> None:
    driven = ordered(concurrency=1)
    driven.arrive(keyed(0), keyed(1), keyed(2))
    assert driven.jobs.ready == 2
    assert not driven.is_stocked(), "they wait for the first one of their key"
    driven.arrive(keyed(3, b"b"))
    assert driven.is_stocked()


def test_less_than_a_batch_is_no_stock() -> None:
    driven = Driven(jobs(turns=InBatches(3, 100), concurrency=1, enough_records=2))
    driven.arrive(*[record(offset) for offset in range(5)])
    assert driven.calls == [[0, 1, 2]]
    assert not driven.is_stocked()
    driven.arrive(record(5))
    assert driven.is_stocked()


def test_records_without_a_key_are_not_ordered() -> None:
    driven = ordered()
    driven.arrive(*[keyed(offset, None) for offset in range(4)])
    assert driven.started == [0, 1, 2, 3]


def test_no_key_keeps_others_from_their_turn() -> None:
    """A key with many records gets one turn for each of the others."""
    driven = ordered(concurrency=1)
    driven.arrive(*[keyed(offset) for offset in range(3)], keyed(10, b"b"), keyed(11, b"b"), keyed(20, b"c"))
    while driven.running:
        driven.finish(next(iter(driven.running)))
    assert driven.started == [0, 10, 20, 1, 11, 2]


def test_a_record_that_waits_to_be_tried_again_holds_back_its_key() -> None:
    driven = ordered()
    driven.arrive(keyed(0), keyed(1), keyed(2, b"b"))
    driven.finish(0, OSError())
    driven.poll(999)
    assert driven.started == [0, 2]
    driven.poll(1_000)
    assert driven.started == [0, 2, 0]
    driven.finish(0, now_ms=1_000)
    assert driven.started == [0, 2, 0, 1]


@pytest.mark.parametrize("error", [OddError(), LookupError()])
def test_a_record_that_is_given_up_lets_the_next_one_of_its_key_go_on(error: Exception) -> None:
    driven = ordered()
    driven.arrive(keyed(0), keyed(1))
    driven.finish(0, error)
    assert driven.started == [0, 1]


def test_a_lost_lock_lets_the_next_one_go_on_when_its_handler_has_ended() -> None:
    """Never two of a key at the same time, not even if the first one counts for nothing any more."""
    driven = ordered()
    driven.arrive(keyed(0), keyed(1), keyed(2))
    for job in driven.jobs.unsettled()[:2]:
        driven.jobs.lock_lost(job)
    driven.poll(0)
    assert driven.started == [0]
    driven.finish(0)
    assert driven.started == [0, 2]


def test_a_record_that_is_delivered_again_comes_before_those_that_wait_with_higher_offsets() -> None:
    driven = ordered()
    driven.arrive(keyed(5), keyed(6), keyed(7))
    driven.arrive(record(4, delivery_count=2, key=b"a"))
    for offset in (5, 4, 6):
        driven.finish(offset)
    assert driven.started == [5, 4, 6, 7]


def test_draining_gives_back_what_is_held_back() -> None:
    driven = ordered()
    driven.arrive(keyed(0), keyed(1), keyed(2))
    driven.jobs.drain(0)
    driven.poll(0)
    assert driven.settled == [(1, "RELEASE", 0), (2, "RELEASE", 0)]
    driven.finish(0)
    assert driven.jobs.is_done(0)


def test_a_key_that_cannot_be_made_is_a_failure_of_the_record() -> None:
    """The function raises, or its result cannot be hashed: the policy decides, and the handler is never called."""
    driven = Driven(jobs({Exception: Reject()}, ByKey(lambda one: one.key["id"])))
    driven.arrive(keyed(0, {}), keyed(1, {"id": []}), keyed(2, {"id": 7}))
    assert driven.started == [2]
    assert driven.settled == [(0, "REJECT", 0), (1, "REJECT", 0)]


def test_a_key_that_cannot_be_made_is_tried_again_as_the_policy_says() -> None:
    keys: list[Any] = [[], "a"]
    driven = Driven(jobs(None, ByKey(lambda _: keys.pop(0))))
    driven.arrive(keyed(0))
    assert (driven.started, driven.told) == ([], [(0, "WILL_RETRY")])
    driven.poll(1_000)
    assert driven.started == [0]


# ---- batches


def batched(records: int = 3, wait_ms: int = 50, **settings: Any) -> Driven:
    policy: OnError = {OddError: Reject(), OSError: Retry(attempts=2)}
    return Driven(jobs(policy, InBatches(records, wait_ms), **{"concurrency": 2, **settings}))


def test_a_call_gets_as_many_records_as_make_a_batch() -> None:
    driven = batched()
    driven.arrive(*map(record, range(7)))
    assert driven.calls == [[0, 1, 2], [3, 4, 5]]
    driven.finish(0)
    assert driven.settled == [(offset, "ACCEPT", 0) for offset in (0, 1, 2)]
    assert driven.jobs.ready == 1


def test_a_batch_that_does_not_fill_begins_when_its_first_record_has_waited_long_enough() -> None:
    driven = batched()
    driven.arrive(record(0), now_ms=10)
    driven.arrive(record(1), now_ms=40)
    assert driven.jobs.wake_at_ms() == 60
    driven.poll(59)
    assert driven.calls == []
    driven.poll(60)
    assert driven.calls == [[0, 1]]


def test_nobody_waits_for_a_turn_while_all_handlers_are_busy() -> None:
    driven = batched(concurrency=1)
    driven.arrive(*map(record, range(4)), now_ms=0)
    driven.poll(1_000)
    assert driven.calls == [[0, 1, 2]]
    assert driven.jobs.wake_at_ms() == 100_000, "the end of the lease: the loop must not spin"
    driven.finish(0, now_ms=1_000)
    assert driven.calls == [[0, 1, 2], [3]]


def test_a_batch_that_fails_is_tried_again_one_record_at_a_time() -> None:
    """So a bad record is found, and the others are accepted. One line says that all have failed."""
    driven = batched()
    driven.arrive(*map(record, range(3)))
    driven.finish(0, OSError())
    assert driven.told == [(0, "WILL_RETRY")]
    assert [one.record.offset for one in driven.tells[0].others] == [1, 2]
    driven.poll(1_000)
    assert driven.calls == [[0, 1, 2], [0], [1]]
    driven.finish(0, now_ms=1_000)
    driven.finish(1, OSError(), now_ms=1_000)
    driven.finish(2, now_ms=1_000)
    driven.poll(3_000)
    driven.finish(1, OSError(), now_ms=3_000)
    assert driven.settled == [(0, "ACCEPT", 0), (2, "ACCEPT", 0), (1, "RELEASE", 0)]


def test_a_batch_error_says_which_records_have_failed() -> None:
    driven = batched()
    batch = [record(offset) for offset in range(3)]
    driven.arrive(*batch)
    driven.finish(0, BatchError({batch[1]: OddError(), batch[2]: OSError()}))
    assert driven.settled == [(0, "ACCEPT", 0), (1, "REJECT", 0)]
    driven.poll(1_000)
    assert driven.calls[1:] == [[2]]


def test_a_batch_error_about_other_records_fails_the_whole_batch() -> None:
    driven = batched()
    error = BatchError({record(9): OddError()})
    driven.arrive(*map(record, range(3)))
    driven.finish(0, error)
    assert driven.settled == []
    assert "not in the batch" in error.__notes__[0]
    with pytest.raises(InvalidArgumentError):
        BatchError({})


def test_a_batch_that_fails_is_one_sign_of_an_outage() -> None:
    """With nothing to compare with, its records are given up after a minute: three records alone are no outage."""
    driven = batched(lease_ms=900_000, concurrency=3)
    driven.arrive(*map(record, range(3)))
    now_ms = 0
    while not driven.settled:
        for offset in list(driven.running):
            driven.finish(offset, RuntimeError(), now_ms)
        now_ms = driven.jobs.wake_at_ms() or now_ms
        driven.poll(now_ms)
    assert now_ms < 70_000


def test_a_batch_is_cancelled_when_no_record_is_left_whose_result_counts() -> None:
    driven = batched()
    driven.arrive(*map(record, range(3)))
    for job in driven.jobs.unsettled()[::2]:
        driven.jobs.lock_lost(job)
    driven.poll(0)
    assert driven.cancelled == []
    driven.finish(0)
    assert driven.settled == [(1, "ACCEPT", 0)]
    assert [event for _, event in driven.told] == ["LOCK_LOST", "LOCK_LOST", "RESULT_LOST", "RESULT_LOST"]
    driven = batched()
    driven.arrive(*map(record, range(3)))
    for job in driven.jobs.unsettled():
        driven.jobs.lock_lost(job)
    driven.poll(0)
    assert driven.cancelled == [0, 1, 2]


def test_all_handlers_with_lost_batches_are_stuck() -> None:
    driven = batched(concurrency=1)
    driven.arrive(*map(record, range(3)))
    for job in driven.jobs.unsettled()[:2]:
        driven.jobs.lock_lost(job)
    assert not driven.jobs.is_stuck
    driven.jobs.lock_lost(driven.jobs.unsettled()[2])
    assert driven.jobs.is_stuck


def test_draining_does_not_wait_for_a_batch_to_fill() -> None:
    driven = batched()
    driven.arrive(record(0, delivery_count=5), record(1))
    driven.jobs.drain(0)
    driven.poll(0)
    assert driven.settled == [(1, "RELEASE", 0)]
    assert driven.calls == [[0]], "it has no other delivery"


# ---- slow handlers


def test_a_handler_that_takes_longer_than_expected_is_told_at_growing_distance() -> None:
    driven = Driven(jobs(expected_ms=100))
    driven.arrive(record(0), record(1), now_ms=1_000)
    driven.finish(1, now_ms=1_050)
    times: list[int] = []
    for _ in range(4):
        now_ms = driven.jobs.wake_at_ms()
        assert now_ms is not None
        driven.poll(now_ms - 1)
        assert len(driven.told) == len(times)
        driven.poll(now_ms)
        times.append(now_ms - 1_000)
    assert times == [100, 200, 400, 800]
    assert driven.told == [(0, "SLOW")] * 4
    assert [one.running_for_ms for one in driven.tells] == times
    driven.finish(0, now_ms=1_900)
    assert driven.jobs.wake_at_ms() is None


def test_a_late_look_tells_once() -> None:
    driven = Driven(jobs(expected_ms=100))
    driven.arrive(record(0))
    driven.poll(750)
    driven.poll(751)
    assert driven.told == [(0, "SLOW")]
    assert driven.jobs.wake_at_ms() == 800


def test_a_slow_batch_is_told_once_for_all_its_records() -> None:
    driven = batched(expected_ms=100)
    driven.arrive(*map(record, range(3)))
    driven.poll(100)
    assert driven.told == [(0, "SLOW")]
    assert [one.record.offset for one in driven.tells[0].others] == [1, 2]


def test_places_are_shown_in_few_words() -> None:
    batch = [record(offset) for offset in (9, 3, 7, 8)] + [record(0).__replace__(partition=1)]
    assert places_of(batch) == "t-0@3,7-9 t-1@0"
    assert places_of(batch[:1]) == "t-0@9"


# ---- all of it


@pytest.mark.parametrize("kind", ["by key", "in batches"])
@pytest.mark.parametrize("seed", range(30))
def test_every_record_ends_once_whatever_happens(kind: str, seed: int) -> None:
    """At random, as in test_jobs; beside that, no two records of a key are ever in work together, and no key waits
    while a handler is idle."""
    chance = random.Random(seed)
    turns = ByKey(key_of) if kind == "by key" else InBatches(4, 300)
    driven = Driven(jobs({OddError: Reject(), OSError: Retry(backoff_ms=100)}, turns, concurrency=3, lease_ms=20_000))
    now_ms, offset = 0, 0
    for _ in range(400):
        now_ms += chance.choice((0, 1, 200))
        what = chance.random()
        if what < 0.3:
            count = chance.randint(1, 4)
            keys = [chance.choice((None, b"a", b"b", b"c", b"d")) for _ in range(count)]
            new = [record(offset + n, chance.randint(1, 5), key=key) for n, key in enumerate(keys)]
            driven.arrive(*new, now_ms=now_ms)
            offset += count
        elif what < 0.8 and driven.running:
            call = chance.choice(list(driven.running.values()))
            failed = {one: chance.choice((OSError(), OddError())) for one in call.records if chance.random() < 0.3}
            error = chance.choice((None, OSError(), OddError(), BatchError(failed) if failed else None))
            driven.finish(call.records[0].offset, error, now_ms)
        elif what < 0.85 and driven.jobs.unsettled():
            driven.jobs.lock_lost(chance.choice(driven.jobs.unsettled()))
        driven.poll(now_ms)
        if kind == "by key":
            keys = [job.record.key for job in driven.jobs.running() if job.record.key is not None]
            assert len(keys) == len(set(keys))
    driven.drain(now_ms)
    driven.check_ends(offset)
    assert driven.jobs.ready == driven.jobs.waiting == 0
