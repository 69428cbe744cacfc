"""Stories of applications that do nothing special, on the reference broker and on real Apache Kafka.

Each is what happens to somebody who copies the first example: an outage, work that is slower than the locks, a task
that is cancelled, an acknowledgement that is forgotten. (A record that cannot be read is in test_main_flows.py.) The
first sentence of each docstring is its row in docs/conformance.md.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable

import pytest
from conformance.admin_over_wire import Admin
from conformance.kafka_targets import Target
from conformance.share_flow import Flow, Keep, begin, counts, outcomes_of, values
from support.waiting import poll_until, wait_until

from kafka_share import AcknowledgeType, KafkaShareConsumer

RECORDS = 40
OUTAGE_S = 2
WORK_S = 0.05
"""Of one record: the time is the story. All of them take two lock times, and more."""


@pytest.fixture
def flow(kafka: Target, kafka_admin: Admin, unique: Callable[[str], str], closing: Keep) -> Flow:
    """With locks of a second."""
    found = begin(kafka, kafka_admin, unique, closing)
    kafka_admin.set_group_config(found.group, {"share.record.lock.duration.ms": "1000"})
    return found


@pytest.mark.behaviour("explicit acknowledgement")
@pytest.mark.parametrize("mode", ["explicit", "implicit"])
def test_slow_work_is_done_once_when_a_batch_takes_longer_than_its_locks(flow: Flow, mode: str) -> None:
    """A loop whose batch takes longer than its locks handles each record once, and has each accepted once."""
    flow.produce(*(b"%d" % number for number in range(RECORDS)))
    handled: Counter[bytes] = Counter()
    accepted: Counter[int] = Counter()
    work = threading.Event()
    with flow.member(share_acknowledgement_mode=mode) as consumer:
        told = outcomes_of(consumer)
        while len(accepted) < RECORDS:
            for record in consumer:
                assert not record.lock_lost
                work.wait(WORK_S)
                handled[record.value] += 1
                if mode == "explicit":
                    consumer.acknowledge(record)
                if len(handled) == RECORDS:
                    break
            consumer.commit_sync()
            accepted = Counter(offset for offset, error in told if error is None)
    if flow.target.speaks_v2:  # without RENEW, what the locks of a batch leave over is delivered again
        assert set(handled.values()) == set(accepted.values()) == {1}


@pytest.mark.behaviour("delivery counts")
@pytest.mark.parametrize("delay_ms", [0, 2_500], ids=["released at once", "released later"])
def test_an_outage_costs_no_record_when_a_worker_releases_what_it_cannot_handle(flow: Flow, delay_ms: int) -> None:
    """An outage of two seconds, in which a worker releases every record, costs none of them."""
    flow.produce(*(b"%d" % number for number in range(RECORDS)))
    handled: Counter[bytes] = Counter()
    consumer = flow.explicit()
    ends_at_s: float | None = None

    def all_are_handled() -> bool:
        nonlocal ends_at_s
        for record in consumer.poll(timeout_ms=200):
            if ends_at_s is None:
                ends_at_s = time.monotonic() + OUTAGE_S
            if time.monotonic() >= ends_at_s:
                handled[record.value] += 1
                consumer.acknowledge(record)
            elif delay_ms:
                consumer.release(record, delay_ms=delay_ms)
            else:
                consumer.acknowledge(record, AcknowledgeType.RELEASE)
        return len(handled) == RECORDS

    wait_until(all_are_handled, lambda: f"{len(handled)} of {RECORDS} were handled")
    assert all(error is None for error in consumer.commit_sync().values())
    assert set(handled.values()) == {1}


@pytest.mark.behaviour("misuse and close")
def test_a_cancelled_task_loses_nothing_when_its_poll_runs_in_a_thread(flow: Flow) -> None:
    """A task of asyncio that is cancelled in a poll leaves no consumer open, and its records to others."""

    async def program() -> KafkaShareConsumer[bytes | None, bytes | None]:
        consumer = flow.explicit()
        polled = asyncio.Event()

        async def work() -> None:
            await asyncio.to_thread(consumer.poll, timeout_ms=0)
            polled.set()
            await asyncio.to_thread(consumer.poll, timeout_ms=60_000)

        task = asyncio.create_task(work())
        await polled.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.to_thread(consumer.close)
        return consumer

    assert "closed" in repr(asyncio.run(program()))
    flow.produce(b"1")
    assert values(poll_until(flow.member(), 1)) == [b"1"]


@pytest.mark.behaviour("acquisition locks")
def test_a_forgotten_acknowledgement_stalls_nothing_when_its_lock_ends(flow: Flow) -> None:
    """Records of an open window that nobody acknowledges make room again when their locks have ended."""
    flow.produce(b"0", b"1", b"2")
    consumer = flow.explicit(explicit_window_records=3)
    forgotten = poll_until(consumer, 3)
    flow.produce(b"3", b"4", b"5")
    assert counts(forgotten) == [(b"0", 1), (b"1", 1), (b"2", 1)]
    finished: set[bytes] = set()

    def all_came() -> bool:
        for record in consumer.poll(timeout_ms=200):
            finished.add(record.value)
            consumer.acknowledge(record)
        return len(finished) == 6

    wait_until(all_came)
    assert all(record.lock_lost for record in forgotten)
