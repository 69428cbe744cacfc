"""The rules of a worker: records in, commands out, under a clock that the tests move."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest
from handling.given import Driven, jobs, record

from kafka_share.errors import (
    IllegalStateError,
    InvalidRecordStateError,
    KafkaShareError,
    LockLostError,
    OutcomeUnknownError,
    RecordDeserializationError,
)
from kafka_share.handling.jobs import CANCEL_GRACE_MS, Phase
from kafka_share.handling.policy import Reject, Release, Retry


class OddError(Exception):
    """One that the tests map."""


# ---- turns


def test_records_start_in_order_and_no_more_than_fit() -> None:
    driven = Driven(jobs(concurrency=2))
    driven.arrive(*map(record, range(4)))
    assert driven.started == [0, 1]
    driven.finish(1)
    assert driven.started == [0, 1, 2]
    assert driven.settled == [(1, "ACCEPT", 0)]
    assert driven.jobs.counts.accepted == 1


def test_more_is_wanted_when_a_handler_is_free_or_too_few_records_wait() -> None:
    driven = Driven(jobs(concurrency=2, enough_records=2))
    assert not driven.is_stocked()
    driven.arrive(*map(record, range(5)))
    assert driven.started == [0, 1]
    assert driven.is_stocked()
    driven.finish(0)
    assert not driven.is_stocked(), "two wait, and two are in work"
    driven.arrive(record(5))
    assert driven.is_stocked()


def test_records_that_cannot_begin_are_no_stock() -> None:
    driven = Driven(jobs(concurrency=2, enough_records=0))
    driven.arrive(record(0), record(1), record(2))
    assert driven.is_stocked()
    driven.finish(0, OddError())
    assert driven.jobs.waiting == 1
    assert not driven.is_stocked(), "one waits to be tried again"


def test_an_acknowledgement_that_fails_is_told_and_not_counted_as_accepted() -> None:
    driven = Driven(jobs())
    driven.outcome = OutcomeUnknownError("the connection broke")
    driven.arrive(record(0))
    driven.finish(0)
    driven.poll(0)
    assert driven.told == [(0, "NOT_ACKNOWLEDGED")]
    assert (driven.jobs.counts.accepted, driven.jobs.counts.unknown) == (0, 1)


@pytest.mark.parametrize("refusal", [InvalidRecordStateError("gone"), IllegalStateError("not in flight")])
def test_a_result_that_is_refused_since_the_lock_was_lost_is_told_as_such(refusal: KafkaShareError) -> None:
    driven = Driven(jobs({OddError: Reject()}))
    driven.outcome = refusal
    driven.arrive(record(0), record(1))
    driven.finish(0)
    driven.finish(1, OddError())
    driven.poll(0)
    assert [one for one in driven.told if one[1] != "REJECTED"] == [(0, "RESULT_LOST"), (1, "NOT_ACKNOWLEDGED")]
    lost = driven.tells[0].error
    assert isinstance(lost, LockLostError)
    assert lost.__cause__ is refusal
    assert (driven.jobs.counts.late, driven.jobs.counts.unknown) == (1, 2)


# ---- failures


def test_a_failure_is_tried_again_after_a_pause_that_doubles_and_then_released() -> None:
    """Other records were accepted meanwhile, so it is the record's fault: three attempts, then a delivery is spent."""
    driven = Driven(jobs())
    driven.arrive(record(0))
    times = []
    now_ms = 0
    for other in range(100, 103):
        driven.succeed_with_another(other, now_ms)
        driven.finish(0, OSError(), now_ms)
        wake_at_ms = driven.jobs.wake_at_ms()
        if 0 in [offset for offset, _, _ in driven.settled]:
            break
        assert wake_at_ms is not None
        driven.poll(wake_at_ms - 1)
        assert 0 not in driven.running
        driven.poll(wake_at_ms)
        times.append(wake_at_ms - now_ms)
        now_ms = wake_at_ms
    assert times == [1_000, 2_000]
    assert (0, "RELEASE", 0) in driven.settled
    assert [event for offset, event in driven.told if offset == 0] == ["WILL_RETRY", "WILL_RETRY", "GIVEN_BACK"]


def tries_of(driven: Driven, *offsets: int) -> tuple[int, int]:
    """These fail until they are given up. How often the first was tried, and when it was given up."""
    now_ms, tries = 0, 0
    while True:
        for offset in offsets:
            if offset in driven.running:
                tries += offset == offsets[0]
                driven.finish(offset, OSError(), now_ms)
        if offsets[0] in [offset for offset, _, _ in driven.settled]:
            return tries, now_ms
        now_ms = driven.jobs.wake_at_ms() or now_ms
        driven.poll(now_ms)


def test_in_an_outage_a_record_is_tried_until_its_lease_ends() -> None:
    """Three new records in a row fail, and none succeeds: that spends no delivery as long as the lease lasts."""
    driven = Driven(jobs(concurrency=3, lease_ms=900_000))
    driven.arrive(*map(record, range(3)))
    tries, ended_at_ms = tries_of(driven, 0, 1, 2)
    assert 840_000 <= ended_at_ms < 900_000
    assert tries == 7 + (ended_at_ms - 63_000) // 60_000


@pytest.mark.parametrize(
    "records", [[record(0)], [record(0), record(1)], [record(n, delivery_count=2) for n in range(4)]]
)
def test_where_nothing_tells_an_outage_a_record_is_tried_for_a_minute(records: list[Any]) -> None:
    """It is alone, or with few; or all that is here has failed before, as bad records have in a full window."""
    driven = Driven(jobs(concurrency=4, lease_ms=900_000))
    driven.arrive(*records)
    assert tries_of(driven, *[one.offset for one in records]) == (7, 63_000)
    assert (0, "RELEASE", 0) in driven.settled


def test_a_record_that_is_alone_has_its_attempts_at_least() -> None:
    driven = Driven(jobs({OSError: Retry(attempts=9, backoff_ms=100, backoff_max_ms=100)}, lease_ms=900_000))
    driven.arrive(record(0))
    assert tries_of(driven, 0) == (9, 800)


def test_the_first_success_after_an_outage_lets_the_others_have_their_attempts() -> None:
    driven = Driven(jobs({OSError: Retry(attempts=2, backoff_ms=10)}, concurrency=4))
    driven.arrive(*map(record, range(4)))
    driven.finish(2, OSError())
    driven.finish(3, OSError())
    for now_ms in (0, 10, 30):
        driven.finish(0, OSError(), now_ms)
        driven.poll(now_ms + 1_000)
    driven.finish(1, now_ms=2_000)
    driven.finish(0, OSError(), 2_000)
    driven.poll(3_000)
    assert driven.settled == [(1, "ACCEPT", 0)], "one failure of its own is not two"
    driven.finish(2, now_ms=3_000)
    driven.finish(0, OSError(), 3_000)
    assert driven.settled[-1] == (0, "RELEASE", 0)


@pytest.mark.parametrize(
    ("action", "settled"),
    [(Reject(), ("REJECT", 0)), (Release(), ("RELEASE", 0)), (Release(delay_ms=700), ("RELEASE", 700))],
)
def test_the_policy_decides_by_the_closest_class(action: Any, settled: tuple[str, int]) -> None:
    driven = Driven(jobs({Exception: Retry(), LookupError: Reject(), KeyError: action}))
    driven.arrive(record(0))
    driven.finish(0, KeyError())
    assert driven.settled == [(0, *settled)]


def test_a_function_of_the_exception_may_decide() -> None:
    driven = Driven(jobs({OddError: lambda error: Release(delay_ms=error.args[0])}))
    driven.arrive(record(0))
    driven.finish(0, OddError(42))
    assert driven.settled == [(0, "RELEASE", 42)]


def test_a_function_that_fails_or_returns_something_else_keeps_the_record() -> None:
    driven = Driven(jobs({OddError: lambda error: 1 // error.args[0]}, concurrency=3))
    for offset, number in enumerate((0, 1)):
        error = OddError(number)
        driven.arrive(record(offset))
        driven.finish(offset, error)
        assert driven.told[-1] == (offset, "WILL_RETRY")
        assert error.__notes__[0].startswith("on_error r")
    assert not driven.settled


def test_a_release_on_the_last_delivery_is_a_rejection_and_is_told() -> None:
    driven = Driven(jobs({OddError: Release(delay_ms=5)}))
    driven.arrive(record(0, delivery_count=5, limit=5), record(1, delivery_count=5, limit=None))
    driven.finish(0, OddError())
    driven.finish(1, OddError())
    assert driven.settled == [(0, "REJECT", 0), (1, "RELEASE", 5)], "of the second the limit is not known"
    assert driven.told == [(0, "LAST_DELIVERY"), (1, "GIVEN_BACK")]


def test_the_limit_of_deliveries_may_be_lower_than_the_groups() -> None:
    driven = Driven(jobs({OddError: Release()}, max_deliveries=2))
    driven.arrive(record(0, delivery_count=1), record(1, delivery_count=2))
    driven.finish(0, OddError())
    driven.finish(1, OddError())
    assert driven.settled == [(0, "RELEASE", 0), (1, "REJECT", 0)]


def test_a_value_that_cannot_be_deserialized_never_starts() -> None:
    error = RecordDeserializationError.__new__(RecordDeserializationError)
    driven = Driven(jobs())
    driven.arrive(record(0, error=error), record(1))
    assert driven.started == [1]
    assert driven.settled == [(0, "RELEASE", 5_000)]


@pytest.mark.parametrize("error", [asyncio.CancelledError(), SystemExit()])
def test_a_handler_that_was_cancelled_by_others_or_exits_gives_its_record_back(error: BaseException) -> None:
    """No policy speaks of these, and nothing disappears without a word."""
    driven = Driven(jobs())
    driven.arrive(record(0))
    driven.finish(0, error)
    assert driven.settled == [(0, "RELEASE", 0)]
    assert driven.told == [(0, "GIVEN_BACK")]


# ---- leases


def test_locks_are_kept_from_the_receipt_to_the_end_of_the_lease() -> None:
    """Those that wait for their turn, that run and that wait to be tried again; not those that are acknowledged."""
    driven = Driven(jobs(concurrency=2, lease_ms=1_000))
    driven.arrive(*map(record, range(4)))
    driven.finish(0)
    driven.finish(1, OSError())
    assert [kept.offset for kept in driven.jobs.leased(999)] == [2, 3]
    driven = Driven(jobs(concurrency=2, lease_ms=10_000))
    driven.arrive(*map(record, range(4)))
    driven.finish(0)
    driven.finish(1, OSError())
    assert [kept.offset for kept in driven.jobs.leased(9_999)] == [1, 2, 3]
    assert driven.jobs.leased(10_000) == []


def test_the_end_of_a_lease_is_told_once_for_what_runs() -> None:
    driven = Driven(jobs(concurrency=1, lease_ms=1_000))
    driven.arrive(record(0), record(1))
    assert driven.jobs.wake_at_ms() == 1_000
    driven.poll(1_000)
    driven.poll(1_001)
    assert driven.told == [(0, "LEASE_ENDED")]
    assert driven.jobs.wake_at_ms() is None


def test_a_lost_lock_ends_what_waits_and_cancels_what_runs() -> None:
    """What the cancelled handler returns counts for nothing, and is told."""
    driven = Driven(jobs(concurrency=2))
    driven.arrive(*map(record, range(3)))
    driven.finish(0, OSError())
    assert driven.started == [0, 1, 2]
    for job in driven.jobs.unsettled():
        driven.jobs.lock_lost(job)
        driven.jobs.lock_lost(job)
    driven.poll(10_000)
    assert driven.cancelled == [1, 2]
    assert driven.jobs.counts.lost == 3
    driven.finish(1, now_ms=10_000)
    driven.finish(2, asyncio.CancelledError(), now_ms=10_000)
    assert driven.settled == []
    (told,) = [one for one in driven.tells if one.event.name == "RESULT_LOST"]
    assert isinstance(told.error, LockLostError)
    assert "t-0@1" in str(told.error)
    assert driven.jobs.counts.late == 1
    assert driven.started == [0, 1, 2]


# ---- the end


def test_draining_releases_what_has_not_begun_and_lets_the_rest_end() -> None:
    driven = Driven(jobs(concurrency=2))
    driven.arrive(*map(record, range(4)))
    driven.finish(0, OSError())
    driven.jobs.drain(100)
    driven.poll(100)
    assert driven.jobs.phase is Phase.DRAINING
    assert not driven.jobs.wants_records
    assert sorted(driven.settled) == [(0, "RELEASE", 0), (3, "RELEASE", 0)]
    assert not driven.jobs.is_done(200)
    driven.finish(1, now_ms=200)
    driven.finish(2, OSError(), now_ms=200)
    assert driven.settled[2:] == [(1, "ACCEPT", 0), (2, "RELEASE", 0)]
    assert driven.jobs.is_done(200)


def test_draining_tries_what_has_no_other_delivery() -> None:
    """A release would be the end of these records."""
    driven = Driven(jobs({OddError: Retry(backoff_ms=500)}, concurrency=1))
    driven.arrive(record(0), record(1, delivery_count=5), record(2, delivery_count=5), record(3))
    driven.jobs.drain(0)
    driven.finish(0)
    driven.finish(1, OddError())
    assert driven.started == [0, 1, 2]
    driven.finish(2)
    driven.poll(500)
    driven.finish(1, now_ms=500)
    assert sorted(driven.settled) == [(0, "ACCEPT", 0), (1, "ACCEPT", 0), (2, "ACCEPT", 0), (3, "RELEASE", 0)]
    assert driven.jobs.is_done(500)


def test_records_that_arrive_while_it_drains_are_released() -> None:
    driven = Driven(jobs())
    driven.jobs.drain(0)
    driven.arrive(record(0))
    assert driven.settled == [(0, "RELEASE", 0)]
    assert driven.started == []


def test_what_does_not_end_in_time_is_cancelled_and_waited_for_a_moment() -> None:
    driven = Driven(jobs(concurrency=3))
    driven.arrive(*map(record, range(3)))
    driven.jobs.drain(0)
    assert driven.jobs.wake_at_ms() == 10_000
    driven.poll(10_000)
    assert driven.cancelled == [0, 1, 2]
    driven.finish(0, asyncio.CancelledError(), 10_000)
    driven.finish(1, None, 10_000)
    assert driven.settled == [(0, "RELEASE", 0), (1, "ACCEPT", 0)]
    assert not driven.jobs.is_done(10_000 + CANCEL_GRACE_MS - 1)
    assert driven.jobs.is_done(10_000 + CANCEL_GRACE_MS)


def test_an_abort_waits_for_nothing() -> None:
    driven = Driven(jobs(concurrency=1))
    driven.arrive(record(0), record(1, delivery_count=5))
    driven.jobs.drain(0)
    driven.jobs.abort(1)
    driven.poll(1)
    assert driven.cancelled == [0]
    assert driven.settled == [(1, "RELEASE", 0)]
    assert driven.jobs.is_done(1)


# ---- all of it


@pytest.mark.parametrize("seed", range(40))
def test_every_record_ends_once_whatever_happens(seed: int) -> None:
    """At random: arrivals, results, failures, lost locks, refused acknowledgements, and a drain at some time."""
    chance = random.Random(seed)
    driven = Driven(jobs({OddError: Reject()}, concurrency=3, lease_ms=20_000))
    now_ms, offset = 0, 0
    for _ in range(400):
        now_ms += chance.choice((0, 1, 700))
        driven.outcome = InvalidRecordStateError("gone") if chance.random() < 0.1 else None
        what = chance.random()
        if what < 0.3 and driven.jobs.wants_records:
            driven.arrive(record(offset, chance.randint(1, 5)), now_ms=now_ms)
            offset += 1
        elif what < 0.8 and driven.running:
            error = chance.choice((None, OSError(), OddError(), asyncio.CancelledError()))
            driven.finish(chance.choice(sorted(driven.running)), error, now_ms)
        elif what < 0.85 and driven.jobs.unsettled():
            driven.jobs.lock_lost(chance.choice(driven.jobs.unsettled()))
        driven.poll(now_ms)
    driven.drain(now_ms)
    driven.check_ends(offset)
    counts = driven.jobs.counts
    assert (
        counts.received == offset == counts.accepted + counts.released + counts.rejected + counts.lost + counts.unknown
    )
