"""The retry topic: a failed record is copied there and accepted, and whoever gets the copy waits for its time."""

from __future__ import annotations

import logging
from collections import Counter
from typing import Any

import pytest
from handling.conftest import GROUP, Running
from handling.given import Driven, jobs, record

from kafka_share.broker import ReferenceBroker
from kafka_share.errors import ConfigurationError
from kafka_share.handling import driver
from kafka_share.handling.jobs import Jobs
from kafka_share.handling.policy import MAX_RETRY_DELAY_MS, DeadLetter, Policy, Reject, Release, Retry, RetryTopic
from kafka_share.producing.dead_letters import dead_letter, origin_of
from kafka_share.producing.retries import Returned, retry_copy, returned
from kafka_share.records import ShareRecord

AGAIN = RetryTopic("again", delay_ms=60_000, attempts=2, then=DeadLetter())
WALL_MS = 1_790_000_000_000


def copy_of(one: ShareRecord[Any, Any], attempt: int, not_before_ms: int, **changes: Any) -> ShareRecord[Any, Any]:
    """As it comes from the retry topic."""
    return one.__replace__(headers=retry_copy(one, "again", attempt, not_before_ms).headers, topic="again", **changes)


def failing(machine: Jobs, *records: Any) -> Driven:
    driven = Driven(machine)
    driven.arrive(*records)
    for one in records:
        driven.finish(one.offset, OSError())
    return driven


# ---- going there


def test_a_failed_record_is_accepted_when_its_copy_is_in_the_retry_topic() -> None:
    driven = failing(jobs({OSError: AGAIN}), record(0))
    assert [(one.topic, one.attempt, one.delay_ms) for one in driven.copies] == [("again", 1, 60_000)]
    assert driven.settled == []
    driven.write(0)
    assert driven.settled == [(0, "ACCEPT", 0)]
    counts = driven.jobs.counts
    assert (counts.deferred, counts.dead_lettered, counts.accepted) == (1, 0, 0)
    assert driven.told == [(0, "DEFERRED")]


def test_after_its_attempts_a_record_is_given_up() -> None:
    """The number of copies is in the record's headers, so that it counts over all workers."""
    driven = failing(jobs({OSError: AGAIN}), copy_of(record(0), 1, 0), copy_of(record(1), 2, 0))
    assert [(one.topic, one.attempt) for one in driven.copies] == [("again", 2), ("dlq.t", 0)]
    driven.write(0)
    driven.write(1)
    assert (driven.jobs.counts.deferred, driven.jobs.counts.dead_lettered) == (1, 1)


def test_a_retry_here_may_end_in_a_retry_topic() -> None:
    driven = Driven(jobs({OSError: Retry(attempts=1, then=AGAIN)}))
    driven.arrive(record(0))
    driven.succeed_with_another(1, 0)
    driven.finish(0, OSError())
    assert driven.produced == [(0, "again")]


@pytest.mark.parametrize(("then", "settled"), [(Reject(), "REJECT"), (Release(), "RELEASE")])
def test_what_becomes_of_it_after_that_is_a_setting(then: Any, settled: str) -> None:
    driven = failing(jobs({OSError: RetryTopic("again", attempts=1, then=then)}), copy_of(record(0), 1, 0))
    assert driven.settled == [(0, settled, 0)]


# ---- coming back


def test_a_copy_waits_for_its_time_under_its_lock_and_its_lease_begins_then() -> None:
    driven = Driven(jobs(concurrency=1, lease_ms=1_000))
    driven.arrive(copy_of(record(0), 1, WALL_MS + 60_000), record(1), now_ms=0, wall_ms=WALL_MS)
    assert (driven.started, driven.jobs.waiting) == ([1], 1)
    driven.finish(1)
    driven.poll(59_999)
    assert (driven.started, driven.jobs.wake_at_ms()) == ([1], 60_000)
    assert [kept.offset for kept in driven.jobs.leased(59_999)] == [0]
    driven.poll(60_000)
    assert driven.started == [1, 0]
    assert [kept.offset for kept in driven.jobs.leased(60_999)] == [0]
    assert driven.jobs.leased(61_000) == []
    driven.poll(61_000)
    assert driven.told[-1] == (0, "LEASE_ENDED")


def test_a_copy_whose_time_has_come_is_like_any_other() -> None:
    driven = Driven(jobs())
    driven.arrive(copy_of(record(0), 1, WALL_MS), wall_ms=WALL_MS)
    assert driven.started == [0]


def test_no_copy_waits_for_longer_than_a_day_whatever_it_says() -> None:
    driven = Driven(jobs())
    driven.arrive(copy_of(record(0), 1, 1 << 62), wall_ms=WALL_MS)
    assert driven.jobs.wake_at_ms() == MAX_RETRY_DELAY_MS or driven.jobs.waiting == 1
    driven.poll(MAX_RETRY_DELAY_MS)
    assert driven.started == [0]


def test_a_copy_that_waits_is_released_when_the_worker_stops_and_tried_at_once_on_its_last_delivery() -> None:
    """A release would be its end."""
    driven = Driven(jobs())
    early = [copy_of(record(n), 1, WALL_MS + 60_000, delivery_count=count) for n, count in enumerate((1, 5))]
    driven.arrive(*early, wall_ms=WALL_MS)
    driven.jobs.drain(0)
    driven.poll(0)
    assert driven.settled == [(0, "RELEASE", 0)]
    assert driven.started == [1]
    driven.finish(1)
    assert driven.jobs.is_done(0)


def test_the_lock_of_a_copy_that_waits_may_be_lost() -> None:
    driven = Driven(jobs())
    driven.arrive(copy_of(record(0), 1, WALL_MS + 60_000), wall_ms=WALL_MS)
    [job] = driven.jobs.unsettled()
    driven.jobs.lock_lost(job)
    driven.poll(60_000)
    assert (driven.started, driven.settled, driven.jobs.waiting) == ([], [], 0)


# ---- what copies say


def test_a_copy_of_a_copy_names_the_place_that_the_record_had_first() -> None:
    """Its own headers stay, and those of retries are there once. A dead letter of it is one of that place."""
    first = record(7, delivery_count=2).__replace__(headers=(("h", b"1"), ("__dlq.errors.topic", b"x")), timestamp=5)
    copy = copy_of(first, 1, 10)
    again = retry_copy(copy.__replace__(offset=99), "later", 2, 20)
    names = [name for name, _ in again.headers]
    assert len(names) == len(set(names))
    assert again.headers[0] == ("h", b"1")
    assert returned(copy.__replace__(headers=again.headers)) == Returned("t", 0, 7, 5, 2, 20)
    letter = dead_letter(copy.__replace__(headers=again.headers, offset=123), "dlq.t", "g", OSError())
    origin = origin_of(letter.headers)
    assert origin is not None
    assert (origin.topic, origin.offset, origin.timestamp) == ("t", 7, 5)
    assert [name for name, _ in letter.headers if not name.startswith("__dlq.errors.")] == ["h"]


@pytest.mark.parametrize(
    "headers",
    [
        (("__retry.attempt", b"x"),),
        (("__retry.attempt", b"1"),),
        (("__retry.attempt", None),),
        (("__retry.attempt", b"1"), ("__retry.topic", b"\xff"), ("__retry.partition", b"0"), ("__retry.offset", b"0")),
    ],
)
def test_headers_that_are_somebody_elses_mean_nothing(headers: Any) -> None:
    assert returned(record(3).__replace__(headers=headers)) == Returned("t", 0, 3, 0)


# ---- mistakes


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: RetryTopic(""), "topic is ''"),
        (lambda: RetryTopic("a", delay_ms=MAX_RETRY_DELAY_MS + 1), "delay_ms"),
        (lambda: RetryTopic("a", attempts=0), "attempts"),
        (lambda: RetryTopic("a", then=RetryTopic("b")), r"Release\(…\), Reject\(\) or DeadLetter\(\)"),  # type: ignore[arg-type]
        (lambda: Policy({OSError: RetryTopic}), r"RetryTopic\(…\)"),
    ],
)
def test_a_mistake_is_refused(make: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        make()


def test_where_dead_letters_may_go_is_known_through_retry_topics() -> None:
    assert Policy({OSError: Retry(then=AGAIN)}).dead_letter_topics("t") == {"dlq.t"}


# ---- on a broker


def test_records_go_round_and_are_dead_letters_in_the_end(
    form: str, broker: ReferenceBroker, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three calls of each: of the record, and of two copies. One that succeeds on the way is accepted."""
    caplog.set_level(logging.INFO, "kafka_share.worker")
    clock_ms = [WALL_MS]
    monkeypatch.setattr(driver, "wall_ms", lambda: clock_ms[0])
    broker.create_topic("t.again")
    broker.create_topic("dlq.t")
    broker.produce("t", b"dies", key=b"k", headers=[("h", b"1")])
    broker.produce("t", b"lives")
    calls: Counter[tuple[str, bytes]] = Counter()

    def handle(one: Any, lease: Any) -> None:
        calls[one.topic, one.value] += 1
        if one.value == b"dies" or one.topic == "t":
            raise OSError("away")

    policy = {OSError: RetryTopic("t.again", delay_ms=10, attempts=2, then=DeadLetter())}
    with Running(form, broker, handle, topics=["t", "t.again"], on_error=policy) as running:
        running.wait_for(lambda: running.worker.inspect().counts.dead_lettered == 1)
        running.wait_for(lambda: running.worker.inspect().counts.accepted == 1)
    assert calls == {("t", b"dies"): 1, ("t", b"lives"): 1, ("t.again", b"dies"): 2, ("t.again", b"lives"): 1}
    counts = running.worker.inspect().counts
    assert (counts.received, counts.deferred, counts.redelivered) == (5, 3, 0)
    [letter] = broker.records("dlq.t")
    origin = origin_of(letter.headers)
    assert origin is not None
    assert (letter.key, letter.value, letter.headers[0]) == (b"k", b"dies", ("h", b"1"))
    assert (origin.topic, origin.partition, origin.offset, origin.group) == ("t", 0, 0, GROUP)
    copies = {one.value: dict(one.headers) for one in broker.records("t.again")}
    assert copies[b"lives"]["__retry.not.before"] == b"%d" % (WALL_MS + 10)
    assert "its handler failed and it goes to the retry topic 't.again'" in caplog.text


class UnprintableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (UnprintableError(), ""),
        (OSError("a\nb\x1b"), r"a\nb\x1b"),
        (OSError("\ud800"), r"\ud800"),
        (OSError("x" * 5_000), "x" * 1_000 + "… (5000 characters)"),
    ],
)
def test_what_an_exception_says_of_itself_is_bounded_and_harmless(error: Exception, said: str) -> None:
    """It cannot keep its record from being written, whatever it does."""
    origin = origin_of(dead_letter(record(0).__replace__(value=b"v"), "dlq.t", "g", error).headers)
    assert origin is not None
    assert origin.exception_message == said
