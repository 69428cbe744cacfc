"""The rules of a worker about dead letters: a copy is written, and only then the record is accepted."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest
from handling.given import Driven, jobs, record

from kafka_share.errors import ConfigurationError, ProduceError, RecordDeserializationError
from kafka_share.handling.jobs import CANCEL_GRACE_MS, Jobs
from kafka_share.handling.policy import DeadLetter, Policy, Reject, Release, Retry, RetryTopic
from kafka_share.producing.dead_letters import dead_letter, lacks_copy, origin_of
from kafka_share.producing.retries import retry_copy

ALWAYS = {Exception: DeadLetter()}
REFUSED = ProduceError("topic 'dlq.t' has not taken the record")


def dying(machine: Jobs, *records: Any) -> Driven:
    """The handlers of these records have failed."""
    driven = Driven(machine)
    driven.arrive(*records)
    for one in records:
        driven.finish(one.offset, ValueError("never"))
    return driven


def test_a_record_is_accepted_when_its_copy_is_written_and_not_before() -> None:
    driven = dying(jobs(ALWAYS), record(0))
    assert (driven.produced, driven.settled, driven.jobs.producing) == ([(0, "dlq.t")], [], 1)
    driven.write(0)
    assert driven.settled == [(0, "ACCEPT", 0)]
    counts = driven.jobs.counts
    assert (counts.dead_lettered, counts.accepted, counts.failed) == (1, 0, 1)
    assert driven.told == [(0, "DEAD_LETTER")]


def test_a_copy_that_is_written_takes_no_handlers_place() -> None:
    driven = dying(jobs(ALWAYS, concurrency=1), record(0))
    driven.arrive(record(1))
    assert driven.started == [0, 1]


def test_the_lock_is_kept_until_the_copy_is_written_even_beyond_the_lease() -> None:
    driven = dying(jobs(ALWAYS, lease_ms=1_000), record(0))
    driven.poll(5_000)
    assert [kept.offset for kept in driven.jobs.leased(5_000)] == [0]
    driven.write(0, REFUSED, 5_000)
    assert [kept.offset for kept in driven.jobs.leased(5_500)] == [0]
    driven.poll(6_000)
    driven.write(0, None, 6_001)
    assert driven.jobs.leased(6_001) == []


def test_in_an_outage_of_the_producer_the_record_stays_and_is_tried_again() -> None:
    """The pauses double up to a minute; nothing is accepted, released or called again meanwhile."""
    driven = dying(jobs(ALWAYS, lease_ms=1_000), record(0))
    now_ms, pauses = 0, []
    for _ in range(9):
        driven.write(0, REFUSED, now_ms)
        wake_at_ms = driven.jobs.wake_at_ms()
        assert wake_at_ms is not None
        driven.poll(wake_at_ms - 1)
        assert 0 not in driven.producing
        driven.poll(wake_at_ms)
        pauses.append(wake_at_ms - now_ms)
        now_ms = wake_at_ms
    assert pauses == [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000, 60_000]
    assert (driven.settled, driven.started) == ([], [0])
    driven.write(0, None, now_ms)
    assert driven.settled == [(0, "ACCEPT", 0)]
    assert [event for _, event in driven.told] == ["DEAD_LETTER", *["NOT_PRODUCED"] * 9]


def test_a_letter_of_just_max_bytes_has_its_copy() -> None:
    """Everything counts that comes from the record or from the worker; null is nothing."""
    large = record(0, key=b"key").__replace__(value=b"value", headers=(("ä", b"1"), ("null", None)))
    whole = dead_letter(large, "dlq.t", "g", OSError())
    size = len(b"keyvalue") + sum(len(name.encode()) + len(value or b"") for name, value in whole.headers)
    assert dead_letter(large, "dlq.t", "g", OSError(), size) == whole
    smaller = dead_letter(large, "dlq.t", "g", OSError(), size - 1)
    assert (smaller.key, smaller.value, lacks_copy(smaller.headers)) == (None, b"", True)
    assert origin_of(smaller.headers) == origin_of(whole.headers)


@pytest.mark.parametrize("max_bytes", [0, -1, "1000"])
def test_max_bytes_is_a_number(max_bytes: Any) -> None:
    with pytest.raises(ConfigurationError, match="max_bytes"):
        DeadLetter(max_bytes=max_bytes)


def test_a_record_that_has_had_its_tries_is_kept() -> None:
    driven = Driven(jobs({OSError: Retry(attempts=2, backoff_ms=10, then=DeadLetter("broken"))}))
    driven.arrive(record(0))
    for other, now_ms in ((100, 0), (101, 10)):
        driven.poll(now_ms)
        driven.succeed_with_another(other, now_ms)
        driven.finish(0, OSError(), now_ms)
    assert driven.produced == [(0, "broken")]


def test_a_record_on_its_last_delivery_is_kept_when_the_worker_says_so() -> None:
    """Whatever would release it: an action, or a retry that is over."""
    machine = jobs({OSError: Release(delay_ms=9)}, max_deliveries=3, on_last_delivery=DeadLetter())
    driven = Driven(machine)
    driven.arrive(record(0, delivery_count=3), record(1, delivery_count=2))
    driven.finish(0, OSError())
    driven.finish(1, OSError())
    assert (driven.produced, driven.settled) == ([(0, "dlq.t")], [(1, "RELEASE", 9)])


def test_a_value_that_cannot_be_deserialized_can_be_kept() -> None:
    error = RecordDeserializationError.__new__(RecordDeserializationError)
    driven = Driven(jobs({RecordDeserializationError: DeadLetter()}))
    driven.arrive(record(0, error=error))
    assert (driven.started, driven.produced) == ([], [(0, "dlq.t")])
    driven.write(0)
    assert driven.settled == [(0, "ACCEPT", 0)]


# ---- a lock that is lost


@pytest.mark.parametrize("is_refused", [False, True])
def test_a_lock_that_is_lost_ends_it_and_a_copy_that_was_written_is_told(is_refused: bool) -> None:
    """The record comes again, and may be written twice: the log says so."""
    driven = dying(jobs(ALWAYS), record(0))
    job = driven.producing[0]
    driven.jobs.lock_lost(job)
    driven.poll(0)
    assert driven.jobs.leased(0) == []
    driven.write(0, REFUSED if is_refused else None)
    assert driven.settled == []
    assert [event for _, event in driven.told[1:]] == ["LOCK_LOST", *([] if is_refused else ["PRODUCED_IN_VAIN"])]
    assert driven.jobs.counts.lost == 1


def test_a_lock_that_is_lost_in_a_pause_ends_it() -> None:
    driven = dying(jobs(ALWAYS), record(0))
    job = driven.producing[0]
    driven.write(0, REFUSED)
    driven.jobs.lock_lost(job)
    driven.poll(100_000)
    assert (len(driven.produced), driven.settled, driven.jobs.waiting) == (1, [], 0)


# ---- the end


def test_a_drain_waits_for_what_is_being_written() -> None:
    driven = dying(jobs(ALWAYS), record(0))
    driven.jobs.drain(0)
    driven.poll(9_999)
    assert not driven.jobs.is_done(9_999)
    driven.write(0, None, 9_999)
    assert driven.settled == [(0, "ACCEPT", 0)]
    assert driven.jobs.is_done(9_999)


def test_what_is_not_written_when_the_drain_is_over_is_released() -> None:
    driven = dying(jobs(ALWAYS), record(0))
    driven.jobs.drain(0)
    driven.poll(10_000)
    assert driven.settled == [(0, "RELEASE", 0)]
    driven.write(0, None, 10_001)
    assert driven.settled == [(0, "RELEASE", 0)]
    assert driven.told[-1] == (0, "PRODUCED_IN_VAIN")
    assert driven.jobs.is_done(10_000 + CANCEL_GRACE_MS)
    assert (driven.jobs.counts.dead_lettered, driven.jobs.counts.released) == (0, 1)


@pytest.mark.parametrize("has_drained", [False, True])
def test_what_cannot_be_written_is_released_when_the_worker_drains(has_drained: bool) -> None:
    driven = dying(jobs(ALWAYS), record(0))
    if has_drained:
        driven.jobs.drain(0)
    driven.write(0, REFUSED)
    if not has_drained:
        driven.jobs.drain(0)
        driven.poll(0)
    assert driven.settled == [(0, "RELEASE", 0)]


def test_on_its_last_delivery_it_is_tried_again_until_the_drain_is_over_and_then_an_error() -> None:
    """A release would be its end."""
    driven = dying(jobs(ALWAYS), record(0, delivery_count=5))
    driven.jobs.drain(0)
    driven.write(0, REFUSED, 0)
    assert driven.settled == []
    driven.poll(1_000)
    driven.write(0, REFUSED, 1_000)
    driven.poll(10_000)
    assert driven.settled == [(0, "RELEASE", 0)]
    assert driven.told[-1] == (0, "LEFT_WITHOUT_COPY")


def test_abort_waits_for_no_copy() -> None:
    driven = dying(jobs(ALWAYS), record(0))
    driven.jobs.abort(0)
    driven.poll(0)
    assert driven.settled == [(0, "RELEASE", 0)]
    assert driven.jobs.is_done(0)


@pytest.mark.parametrize("then", [DeadLetter(), Reject()])
def test_a_first_failure_while_the_worker_drains_is_no_reason_to_give_the_record_up(then: Any) -> None:
    """It has not had its tries: it is released."""
    driven = Driven(jobs({OSError: Retry(then=then)}))
    driven.arrive(record(0))
    driven.jobs.drain(0)
    driven.finish(0, OSError())
    assert (driven.settled, driven.produced) == ([(0, "RELEASE", 0)], [])


def test_a_handler_that_fails_in_the_drain_has_its_record_kept() -> None:
    driven = Driven(jobs(ALWAYS))
    driven.arrive(record(0))
    driven.jobs.drain(0)
    driven.finish(0, OSError())
    driven.write(0)
    assert driven.settled == [(0, "ACCEPT", 0)]


# ---- mistakes


@pytest.mark.parametrize("topic", ["", "a b", "..", "x" * 250, 5, b"t"])
def test_a_topic_is_a_name(topic: Any) -> None:
    with pytest.raises(ConfigurationError, match="write the name of a topic"):
        DeadLetter(topic)


def test_where_dead_letters_may_go_is_known_before() -> None:
    policy = Policy({OSError: Retry(then=DeadLetter("a")), KeyError: DeadLetter()}, None, DeadLetter("b"))
    assert policy.dead_letter_topics("t") == {"a", "b", "dlq.t"}
    assert Policy().dead_letter_topics("t") == set()


# ---- any order of events


@pytest.mark.parametrize("seed", range(20))
def test_whatever_happens_each_record_ends_once_and_is_accepted_only_with_its_copy(seed: int) -> None:
    """Failures, copies that are written or not, lost locks, retry topics and a drain, in any order."""
    chance = random.Random(seed)
    policy: dict[type[Exception], Any] = {
        ValueError: DeadLetter(),
        KeyError: RetryTopic("again", delay_ms=500, attempts=2, then=DeadLetter()),
        OSError: Retry(attempts=2, backoff_ms=100, then=DeadLetter()),
    }
    driven = Driven(jobs(policy, on_last_delivery=DeadLetter(), concurrency=3, lease_ms=20_000))
    now_ms, offset = 0, 0
    for _ in range(500):
        now_ms += chance.choice((0, 1, 700))
        what = chance.random()
        if what < 0.3 and driven.jobs.wants_records:
            one = record(offset, chance.randint(1, 5))
            headers = retry_copy(one, "again", chance.randint(1, 2), now_ms + chance.choice((-1, 5_000))).headers
            driven.arrive(one.__replace__(headers=chance.choice(((), headers))), now_ms=now_ms, wall_ms=now_ms)
            offset += 1
        elif what < 0.6 and driven.running:
            error = chance.choice((None, OSError(), KeyError(), ValueError(), TypeError(), asyncio.CancelledError()))
            driven.finish(chance.choice(sorted(driven.running)), error, now_ms)
        elif what < 0.8 and driven.producing:
            driven.write(chance.choice(sorted(driven.producing)), chance.choice((None, REFUSED)), now_ms)
        elif what < 0.85 and driven.jobs.unsettled():
            driven.jobs.lock_lost(chance.choice(driven.jobs.unsettled()))
        driven.poll(now_ms)
    driven.drain(now_ms, lambda: chance.choice((None, REFUSED)))
    driven.check_ends(offset)
    accepted = {number for number, kind, _ in driven.settled if kind == "ACCEPT"}
    counts = driven.jobs.counts
    assert len(accepted) == counts.accepted + counts.dead_lettered + counts.deferred
    assert {number for number, _ in driven.produced} & accepted <= driven.written
    assert counts.rejected == 0
