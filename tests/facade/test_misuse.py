"""What an application may do wrong with a consumer, and interruptions of a call that blocks."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from facade.delivery_checks import left_for_others, only_result, outcomes_of, produce_values
from facade.signals import signalled
from support.consumers import Consumer, MakeConsumer
from support.waiting import poll_until, wait_until

from kafka_share import AcknowledgeType
from kafka_share.broker import ReferenceBroker
from kafka_share.errors import ConcurrentUseError, ConsumerClosedError, IllegalStateError, WakeupError
from kafka_share.protocol.share_acknowledge import ShareAcknowledgeRequest
from kafka_share.protocol.share_fetch import ShareFetchRequest

pytestmark = pytest.mark.blocking  # threads, signals and forks; tasks are in test_async_consumer

SHARE_FETCH = ShareFetchRequest.API_KEY
LONG_MS = 60_000
"""Longer than a test may take: a poll of this length ends only because of what the test does."""


def run_when_polling(broker: ReferenceBroker, action: Callable[[], Any]) -> threading.Thread:
    """Run `action` on a thread as soon as a new ShareFetch says that the consumer's poll is waiting."""
    seen = len(broker.requests(SHARE_FETCH))

    def work() -> None:
        wait_until(lambda: len(broker.requests(SHARE_FETCH)) > seen)
        action()

    thread = threading.Thread(target=work)
    thread.start()
    return thread


def joined_consumer(broker: ReferenceBroker, make_consumer: MakeConsumer, **config: Any) -> Consumer:
    """A consumer that has consumed one record, so that its next poll fetches at once."""
    broker.create_topic("t")
    produce_values(broker, "t", 1)
    consumer = make_consumer("t", **config)
    poll_until(consumer, 1)
    consumer.commit_sync()
    return consumer


@pytest.mark.better_than_java("second-poll-raises")
@pytest.mark.behaviour("misuse and close")
def test_second_thread_is_refused_and_the_first_unharmed_when_both_use_the_consumer(
    broker: ReferenceBroker, make_consumer: MakeConsumer
) -> None:
    """Every method but wakeup and close raises in a second thread while a poll runs; poll too."""
    consumer = joined_consumer(broker, make_consumer)
    calls: list[Callable[[], Any]] = [
        lambda: consumer.poll(timeout_ms=0),
        lambda: consumer.subscribe(["t"]),
        consumer.subscription,
        consumer.unsubscribe,
        consumer.commit_sync,
        consumer.commit_async,
        lambda: consumer.set_acknowledgement_commit_callback(None),
        lambda: consumer.acquisition_lock_timeout_ms,
    ]
    raised: list[Exception] = []

    def misuse() -> None:
        for call in calls:
            with pytest.raises(ConcurrentUseError, match="another thread") as caught:
                call()
            raised.append(caught.value)
        broker.produce("t", b"for the first thread")

    other = run_when_polling(broker, misuse)
    found = [record.value for record in consumer.poll(timeout_ms=LONG_MS)]
    other.join()
    assert found == [b"for the first thread"]
    assert len(raised) == len(calls)


def test_consumer_works_in_another_thread_when_the_first_has_finished(
    broker: ReferenceBroker, make_consumer: MakeConsumer
) -> None:
    """One thread at a time: handing a consumer over from thread to thread is fine."""
    consumer = joined_consumer(broker, make_consumer)
    broker.produce("t", b"second")
    found: list[bytes] = []
    other = threading.Thread(target=lambda: found.extend(record.value for record in poll_until(consumer, 1)))
    other.start()
    other.join()
    assert found == [b"second"]
    assert only_result(consumer.commit_sync()) is None


@pytest.mark.behaviour("polling")
def test_blocking_poll_raises_keyboard_interrupt_and_goes_on_afterwards(
    broker: ReferenceBroker, make_consumer: MakeConsumer
) -> None:
    """SIGINT during a poll is a KeyboardInterrupt; nothing is lost, and the consumer stays usable."""
    consumer = joined_consumer(broker, make_consumer)
    outcomes = outcomes_of(consumer)
    broker.produce("t", b"before")
    poll_until(consumer, 1)
    seen = len(broker.requests(SHARE_FETCH))
    with signalled(lambda: len(broker.requests(SHARE_FETCH)) > seen), pytest.raises(KeyboardInterrupt):
        consumer.poll(timeout_ms=LONG_MS)
    broker.produce("t", b"after")
    assert [record.value for record in poll_until(consumer, 1)] == [b"after"]
    assert only_result(consumer.commit_sync()) is None
    assert outcomes.succeeded == [("t", 0, 1), ("t", 0, 2)]
    consumer.close()
    assert left_for_others(broker, make_consumer, "t") == []


def test_consumer_is_closed_and_its_thread_ended_when_close_is_interrupted(
    broker: ReferenceBroker, make_consumer: MakeConsumer
) -> None:
    """SIGINT while close waits for a broker: KeyboardInterrupt, and nothing of the consumer is left running."""
    before = set(threading.enumerate())
    consumer = joined_consumer(broker, make_consumer)
    (thread,) = set(threading.enumerate()) - before
    broker.faults.lose_reply(ShareAcknowledgeRequest.API_KEY)
    with signalled(lambda: broker.faults.pending() == 0), pytest.raises(KeyboardInterrupt):
        consumer.close()
    assert not thread.is_alive()
    with pytest.raises(ConsumerClosedError):
        consumer.poll(timeout_ms=0)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_forked_child_is_refused_and_the_parent_goes_on(broker: ReferenceBroker, make_consumer: MakeConsumer) -> None:
    """A consumer cannot be used in a forked child: each call there says so, and the parent does not notice."""
    consumer = joined_consumer(broker, make_consumer)
    assert _status_of_child(lambda: _misuse_in_child(consumer, [])) == 0, "else the number of what was not refused"
    broker.produce("t", b"for the parent")
    assert [record.value for record in poll_until(consumer, 1)] == [b"for the parent"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("window", [0, 10])
def test_forked_child_is_refused_when_it_acknowledges(
    broker: ReferenceBroker, make_consumer: MakeConsumer, window: int
) -> None:
    """No acknowledgement is swallowed, no future is left that nobody resolves; the parent's records stay its own."""
    consumer = make_consumer("t", share_acknowledgement_mode="explicit", explicit_window_records=window)
    broker.create_topic("t")
    produce_values(broker, "t", 1)
    records = poll_until(consumer, 1)
    assert _status_of_child(lambda: _misuse_in_child(consumer, records)) == 0, "else the number of what was not refused"
    consumer.acknowledge(records[0])
    assert list(consumer.commit_sync().values()) == [None]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_forked_child_leaves_the_block_of_a_consumer_without_an_error(
    broker: ReferenceBroker, make_consumer: MakeConsumer
) -> None:
    """What ends the child is not hidden by a refusal to close what is the parent's."""
    consumer = joined_consumer(broker, make_consumer)

    def leave() -> int:
        with consumer:
            return 0

    assert _status_of_child(leave) == 0
    broker.produce("t", b"for the parent")
    assert [record.value for record in poll_until(consumer, 1)] == [b"for the parent"]


def _status_of_child(run: Callable[[], int]) -> int:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons warn of fork() with threads
        child = os.fork()
    if child == 0:
        status = 1
        try:
            status = run()
        finally:
            os._exit(status)  # the parent's test run must not go on here
    _, result = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(result)


def _misuse_in_child(consumer: Consumer, records: list[Any]) -> int:
    """0 if every call was refused, else the number of the first that was not."""
    calls: list[Callable[[], Any]] = [
        lambda: consumer.poll(timeout_ms=0),
        lambda: consumer.subscribe(["t"]),
        consumer.commit_sync,
        consumer.commit_async,
        consumer.subscription,
        consumer.unsubscribe,
        lambda: next(iter(consumer)),
        lambda: consumer.acquisition_lock_timeout_ms,
        lambda: consumer.acknowledge_offset("t", 0, 0, AcknowledgeType.ACCEPT),
        lambda: consumer.set_acknowledgement_commit_callback(None),
        consumer.wakeup,
        consumer.close,
        consumer.metrics,
        lambda: consumer.client_instance_id(0),
        lambda: consumer.register_metric_for_subscription("m", lambda: 0.0),
        lambda: consumer.unregister_metric_from_subscription("m"),
        *(partial(consumer.acknowledge, record) for record in records),
        *(partial(consumer.acknowledge_with_result, record) for record in records if consumer._has_window),
    ]
    for number, call in enumerate(calls, start=2):
        try:
            call()
        except IllegalStateError as error:
            if "fork" not in str(error):
                return number
        else:
            return number
    return 0


@pytest.mark.behaviour("misuse and close")
def test_wakeup_is_harmless_when_nobody_waits(broker: ReferenceBroker, make_consumer: MakeConsumer) -> None:
    """commit_async, subscription and close neither raise nor use up a pending wakeup; the next poll does."""
    consumer = joined_consumer(broker, make_consumer)
    consumer.wakeup()
    consumer.wakeup()
    consumer.commit_async()
    assert consumer.subscription() == {"t"}
    with pytest.raises(WakeupError):
        consumer.poll(timeout_ms=LONG_MS)
    assert not consumer.poll(timeout_ms=0), "several wakeups count as one"
    consumer.wakeup()
    consumer.close()
