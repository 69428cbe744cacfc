"""close from another thread: it ends a call that waits, waits for one that works, and closes."""

from __future__ import annotations

import asyncio
import gc
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
from facade.delivery_checks import counted, left_for_others, produce_values
from support.consumers import Consumer, MakeConsumer
from support.waiting import poll_until, wait_until

from kafka_share import KafkaShareConsumer
from kafka_share.broker import ReferenceBroker
from kafka_share.errors import ConcurrentUseError, ConsumerClosedError
from kafka_share.protocol.share_acknowledge import ShareAcknowledgeRequest
from kafka_share.protocol.share_fetch import ShareFetchRequest

pytestmark = pytest.mark.blocking  # threads, signals and forks; tasks are in test_async_consumer

LONG_MS = 60_000
"""Longer than a test may take: a poll of this length ends only because of what the test does."""


@pytest.fixture
def consumer(broker: ReferenceBroker, make_consumer: MakeConsumer) -> Consumer:
    """One that has consumed a record, so that its next poll fetches at once and waits."""
    broker.create_topic("t")
    produce_values(broker, "t", 1)
    made = make_consumer("t", share_acknowledgement_mode="explicit")
    poll_until(made, 1, made.acknowledge)
    made.commit_sync()
    return made


def in_thread(broker: ReferenceBroker, call: Callable[[], Any]) -> Future[Any]:
    """Start a call that polls, and return when its fetch is at the broker."""
    seen = len(broker.requests(ShareFetchRequest.API_KEY))
    pool = ThreadPoolExecutor(1)
    future = pool.submit(call)
    pool.shutdown(wait=False)
    wait_until(lambda: len(broker.requests(ShareFetchRequest.API_KEY)) > seen)
    return future


@pytest.mark.better_than_java("close-ends-a-poll")
@pytest.mark.behaviour("misuse and close")
def test_close_ends_a_poll_that_waits_in_another_thread(broker: ReferenceBroker, consumer: Consumer) -> None:
    """The poll raises that the consumer is closed; close returns when it is."""
    polling = in_thread(broker, lambda: consumer.poll(timeout_ms=LONG_MS))
    consumer.close()
    with pytest.raises(ConsumerClosedError, match="closed by another thread"):
        polling.result()
    with pytest.raises(ConsumerClosedError, match="already been closed"):
        consumer.poll(timeout_ms=0)
    assert repr(consumer).startswith("<KafkaShareConsumer closed")


def test_a_loop_ends_when_another_thread_closes_the_consumer(broker: ReferenceBroker, consumer: Consumer) -> None:
    """Without an error: a loop over a consumer ends when it is closed."""
    looping = in_thread(broker, lambda: list(consumer))
    consumer.close()
    assert looping.result() == []


def test_a_commit_that_waits_ends_when_another_thread_closes_the_consumer(
    broker: ReferenceBroker, consumer: Consumer
) -> None:
    produce_values(broker, "t", 1)
    poll_until(consumer, 1, consumer.acknowledge)
    broker.faults.delay(ShareAcknowledgeRequest.API_KEY, LONG_MS)
    seen = len(broker.requests(ShareAcknowledgeRequest.API_KEY))
    with ThreadPoolExecutor(1) as pool:
        committing = pool.submit(consumer.commit_sync)
        wait_until(lambda: len(broker.requests(ShareAcknowledgeRequest.API_KEY)) > seen)
        consumer.close(timeout_ms=100)
        with pytest.raises(ConsumerClosedError):
            committing.result()


class SlowDeserializer:
    """Does not end before a test says so."""

    def __init__(self) -> None:
        self.works, self.go_on = threading.Event(), threading.Event()

    def __call__(self, data: bytes) -> bytes:
        self.works.set()
        assert self.go_on.wait(30)
        return data


def test_close_waits_for_what_runs_in_another_thread(broker: ReferenceBroker, make_consumer: MakeConsumer) -> None:
    """A deserializer that works is not disturbed; its poll ends with its records, which close then releases."""
    broker.create_topic("t")
    produce_values(broker, "t", 1)
    slow = SlowDeserializer()
    consumer = make_consumer("t", value_deserializer=slow)
    with ThreadPoolExecutor(2) as pool:
        polling = pool.submit(poll_until, consumer, 1)
        assert slow.works.wait(30)
        closing = pool.submit(consumer.close)
        wait_until(lambda: consumer._one_caller.is_wanted)
        slow.go_on.set()
        assert len(polling.result()) == 1
        closing.result()
    assert counted(left_for_others(broker, make_consumer, "t")) == [(0, 2)]


def test_close_gives_up_when_what_runs_in_another_thread_does_not_end(
    broker: ReferenceBroker, make_consumer: MakeConsumer
) -> None:
    """It raises when its time is over, and can be called again."""
    broker.create_topic("t")
    produce_values(broker, "t", 1)
    slow = SlowDeserializer()
    consumer = make_consumer("t", value_deserializer=slow)
    with ThreadPoolExecutor(1) as pool:
        polling = pool.submit(poll_until, consumer, 1)
        assert slow.works.wait(30)
        with pytest.raises(ConcurrentUseError, match="waited in vain"):
            consumer.close(timeout_ms=10)
        slow.go_on.set()
        assert len(polling.result()) == 1
    consumer.close()


def test_close_is_refused_from_inside_a_call_of_its_own_thread(
    broker: ReferenceBroker, make_consumer: MakeConsumer
) -> None:
    """It could only wait for itself."""
    broker.create_topic("t")
    produce_values(broker, "t", 1)
    raised: list[Exception] = []

    def closing(data: bytes) -> bytes:
        with pytest.raises(ConcurrentUseError, match="close was called from inside another call") as caught:
            busy.close()
        raised.append(caught.value)
        return data

    busy = make_consumer("t", value_deserializer=closing)
    poll_until(busy, 1)
    assert len(raised) == 1


def test_two_threads_may_close_at_the_same_time(broker: ReferenceBroker, consumer: Consumer) -> None:
    polling = in_thread(broker, lambda: consumer.poll(timeout_ms=LONG_MS))
    with ThreadPoolExecutor(4) as pool:
        for closing in [pool.submit(consumer.close) for _ in range(4)]:
            closing.result()
    with pytest.raises(ConsumerClosedError):
        polling.result()


def test_a_cancelled_task_leaves_nothing_open(broker: ReferenceBroker, make_consumer: MakeConsumer) -> None:
    """The natural way to poll in asyncio, cancelled: the consumer is closed, and nothing is lost."""
    broker.create_topic("t")
    broker.set_group_config("g", share_auto_offset_reset="earliest")
    produce_values(broker, "t", 2)

    has_handled = asyncio.Event()

    async def work(handled: list[bytes | None]) -> None:
        with KafkaShareConsumer(
            "t", bootstrap_servers=broker.bootstrap_servers, group_id="g", share_acknowledgement_mode="explicit"
        ) as consumer:
            while True:
                for record in await asyncio.to_thread(consumer.poll, timeout_ms=LONG_MS):
                    consumer.acknowledge(record)
                    handled.append(record.value)
                if len(handled) == 2:
                    has_handled.set()

    async def main() -> list[bytes | None]:
        handled: list[bytes | None] = []
        task = asyncio.create_task(work(handled))
        await has_handled.wait()
        fetches = len(broker.requests(ShareFetchRequest.API_KEY))
        await asyncio.to_thread(wait_until, lambda: len(broker.requests(ShareFetchRequest.API_KEY)) > fetches)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return handled

    with warnings.catch_warnings():
        warnings.simplefilter("error", ResourceWarning)
        assert len(asyncio.run(main())) == 2
        gc.collect()
    group = broker.share_group("g")
    assert group is None or not group.members
    assert left_for_others(broker, make_consumer, "t") == []
