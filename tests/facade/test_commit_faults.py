"""Acknowledgements that the broker refuses, answers late or never: nothing is lost, each offset is reported once."""

from __future__ import annotations

import contextlib
import threading

import pytest
from facade.delivery_checks import left_for_others, only_result, outcomes_of, produce_values
from support.consumers import Consumer, MakeConsumer
from support.waiting import poll_until, poll_while, wait_until

from kafka_share.broker import ReferenceBroker
from kafka_share.errors import (
    BrokerError,
    CoordinatorLoadInProgressError,
    OperationTimeoutError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
    WakeupError,
    error_for_code,
)
from kafka_share.protocol.share_acknowledge import ShareAcknowledgeRequest
from kafka_share.protocol.share_fetch import ShareFetchRequest

SHARE_FETCH = ShareFetchRequest.API_KEY
SHARE_ACKNOWLEDGE = ShareAcknowledgeRequest.API_KEY
LATE_MS = 20_000
"""How late a delayed answer is, on the broker's clock: later than what has to come first, earlier than a lock ends."""


def error_class(code: int) -> type[BrokerError]:
    error = error_for_code(code)
    assert error is not None
    return type(error)


@pytest.mark.behaviour("share sessions")
@pytest.mark.parametrize("code", [122, 123, 133, 30, 29, 42])
def test_every_partition_carries_the_error_when_the_commit_fails_as_a_whole(
    broker: ReferenceBroker, make_consumer: MakeConsumer, code: int
) -> None:
    """A top-level error of ShareAcknowledge is the result of every partition, and nothing is left pending."""
    broker.create_topic("t", partitions=3)
    produce_values(broker, "t", 2, partitions=range(3))
    consumer = make_consumer("t", share_acknowledgement_mode="explicit")
    outcomes = outcomes_of(consumer)
    poll_until(consumer, 6, consumer.acknowledge)
    outcomes.calls.clear()
    broker.faults.fail(SHARE_ACKNOWLEDGE, code)
    results = consumer.commit_sync()
    reported = {partition.partition for offsets, _ in outcomes.calls for partition in offsets}
    assert {partition.partition for partition in results} == reported
    assert reported, "the last poll at least was not committed before"
    for error in [*results.values(), *outcomes.errors]:
        assert isinstance(error, error_class(code))
    assert consumer.commit_sync() == {}


@pytest.mark.behaviour("commits")
@pytest.mark.parametrize("code", [122, 123, 42])
def test_callback_gets_the_error_of_each_partition_when_a_fetch_with_acknowledgements_fails(
    broker: ReferenceBroker, make_consumer: MakeConsumer, code: int
) -> None:
    """A top-level error of a ShareFetch is the outcome of all acknowledgements that rode on it."""
    broker.create_topic("t", partitions=3)
    produce_values(broker, "t", 1, partitions=range(3))
    consumer = make_consumer("t", share_acknowledgement_mode="explicit")
    outcomes = outcomes_of(consumer)
    held = poll_until(consumer, 1)
    broker.faults.fail(SHARE_FETCH, code)
    for record in held:
        consumer.acknowledge(record)
    with contextlib.suppress(error_class(code)):  # one that no retry can mend is raised by poll as well
        while not outcomes.calls:
            poll_until(consumer, 0, consumer.acknowledge)
    assert {type(error) for error in outcomes.errors} == {error_class(code)}
    failed = {(p.topic, p.partition, o) for found, error in outcomes.calls if error for p in found for o in found[p]}
    assert failed == {(record.topic, record.partition, record.offset) for record in held}


@pytest.mark.behaviour("share sessions")
@pytest.mark.parametrize("fetch_fails_too", [False, True])
def test_acknowledgements_fail_locally_when_the_session_has_to_begin_anew(
    broker: ReferenceBroker, make_consumer: MakeConsumer, fetch_fails_too: bool
) -> None:
    """The first ShareFetch of a new session has no acknowledgements; the callback gets a local error for them."""
    broker.create_topic("t")
    produce_values(broker, "t", 2)
    consumer = make_consumer("t")
    outcomes = outcomes_of(consumer)
    poll_until(consumer, 2)
    broker.clear_requests()
    if fetch_fails_too:
        broker.faults.drop(SHARE_FETCH)
    broker.drop_connections()
    again = poll_until(consumer, 2)
    assert [(record.offset, record.delivery_count) for record in again] == [(0, 2), (1, 2)]
    assert [offset for offset, _ in outcomes.failed] == [0, 1]
    beginnings = [request for _, request in broker.requests(SHARE_FETCH) if request.share_session_epoch == 0]
    assert beginnings
    for request in beginnings:
        assert not any(p.acknowledgement_batches for topic in request.topics for p in topic.partitions)


@pytest.mark.behaviour("explicit acknowledgement")
def test_late_answer_is_reported_when_commit_sync_ran_out_of_time(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer
) -> None:
    """commit_sync raises when its time ends; the acknowledgements stay under way and are reported when answered."""
    produce_values(broker, topic, 3)
    consumer = make_consumer(topic)
    outcomes = outcomes_of(consumer)
    poll_until(consumer, 3)
    broker.faults.delay(SHARE_ACKNOWLEDGE, LATE_MS)
    with pytest.raises(OperationTimeoutError, match="under way"):
        consumer.commit_sync(timeout_ms=50)
    assert outcomes.calls == []
    wait_until(lambda: broker.faults.pending() == 0)  # what comes later would be held from then on
    broker.advance(LATE_MS)
    poll_while(consumer, lambda: not outcomes.calls)
    assert outcomes.succeeded == [(topic, 0, 0), (topic, 0, 1), (topic, 0, 2)]
    consumer.close()
    assert left_for_others(broker, make_consumer, topic) == []


@pytest.mark.behaviour("commits")
def test_async_commits_do_not_wait_and_share_requests_when_an_answer_is_late(
    broker: ReferenceBroker, topic: str, explicit_consumer: Consumer
) -> None:
    """commit_async never waits; what is acknowledged while one answer is late goes in one later request."""
    produce_values(broker, topic, 50)
    outcomes = outcomes_of(explicit_consumer)
    records = poll_until(explicit_consumer, 50)
    broker.faults.delay(SHARE_ACKNOWLEDGE, LATE_MS)
    for record in records:
        explicit_consumer.acknowledge(record)
        returned: object = explicit_consumer.commit_async()  # type: ignore[func-returns-value]
        assert returned is None
        wait_until(lambda: bool(broker.requests(SHARE_ACKNOWLEDGE)))
    assert outcomes.calls == [], "no answer has come: none of the calls can have waited for one"
    broker.advance(LATE_MS)
    explicit_consumer.commit_sync()
    assert outcomes.succeeded == [(topic, 0, offset) for offset in range(50)]
    assert len(broker.requests(SHARE_ACKNOWLEDGE)) == 2


@pytest.mark.behaviour("commits")
def test_commit_sync_succeeds_when_async_commits_are_under_way_and_cached(
    broker: ReferenceBroker, topic: str, explicit_consumer: Consumer
) -> None:
    """commit_sync takes along what earlier asynchronous commits have not sent yet, in one request.

    librdkafka sends the sync before the cached async; ours sends them together, and reports all of them.
    """
    produce_values(broker, topic, 3)
    outcomes = outcomes_of(explicit_consumer)
    under_way, cached, waited_for = poll_until(explicit_consumer, 3)
    broker.faults.delay(SHARE_ACKNOWLEDGE, LATE_MS)
    explicit_consumer.acknowledge(under_way)
    explicit_consumer.commit_async()
    wait_until(lambda: len(broker.requests(SHARE_ACKNOWLEDGE)) == 1)
    explicit_consumer.acknowledge(cached)
    explicit_consumer.commit_async()
    explicit_consumer.acknowledge(waited_for)
    with pytest.raises(OperationTimeoutError):
        explicit_consumer.commit_sync(timeout_ms=0)
    broker.advance(LATE_MS)
    assert only_result(explicit_consumer.commit_sync()) is None
    assert outcomes.succeeded == [(topic, 0, 0), (topic, 0, 1), (topic, 0, 2)]
    assert len(broker.requests(SHARE_ACKNOWLEDGE)) == 2


@pytest.mark.behaviour("share sessions")
def test_result_names_the_partition_when_its_topic_was_deleted(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer
) -> None:
    """commit_sync after the topic was deleted answers at once, with an error for the partition."""
    produce_values(broker, topic, 2)
    consumer = make_consumer(topic, allow_auto_create_topics=False)
    outcomes = outcomes_of(consumer)
    poll_until(consumer, 2)
    broker.delete_topic(topic)
    ((partition, error),) = consumer.commit_sync().items()
    assert partition.topic_partition == (topic, 0)
    assert isinstance(error, UnknownTopicIdError | UnknownTopicOrPartitionError)
    assert [offset for offset, _ in outcomes.failed] == [0, 1]
    assert consumer.commit_sync() == {}


@pytest.mark.behaviour("explicit acknowledgement")
def test_commit_is_repeated_until_it_succeeds_when_the_partitions_error_may_pass(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer
) -> None:
    """A partition's retriable error in the answer of ShareAcknowledge is retried within the timeout, then succeeds."""
    produce_values(broker, topic, 2)
    consumer = make_consumer(topic, retry_backoff_ms=10)
    outcomes = outcomes_of(consumer)
    poll_until(consumer, 2)
    broker.faults.fail_persister("WriteShareGroupState", CoordinatorLoadInProgressError, times=3)
    assert only_result(consumer.commit_sync()) is None
    assert outcomes.succeeded == [(topic, 0, 0), (topic, 0, 1)]
    assert outcomes.errors == []
    assert len(broker.requests(SHARE_ACKNOWLEDGE)) == 4


@pytest.mark.behaviour("commits")
def test_commit_raises_and_reports_the_last_error_when_it_was_repeated_until_its_deadline(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer
) -> None:
    """An error that does not pass in time: the commit raises a timeout or has one as its result, like the callback."""
    produce_values(broker, topic, 1)
    consumer = make_consumer(topic, retry_backoff_ms=10, retry_backoff_max_ms=50)
    outcomes = outcomes_of(consumer)
    poll_until(consumer, 1)
    broker.faults.fail_persister("WriteShareGroupState", CoordinatorLoadInProgressError, times=10_000)
    with pytest.raises(OperationTimeoutError):
        raise only_result(consumer.commit_sync(timeout_ms=200))
    poll_while(consumer, lambda: not outcomes.calls)
    assert outcomes.failed == [(0, OperationTimeoutError)]
    broker.faults.clear()


@pytest.mark.behaviour("commits")
def test_an_acknowledgement_counts_when_the_broker_takes_longer_to_store_it_than_the_lock_lasts(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer
) -> None:
    """A broker that is slow to store an acknowledgement keeps its records to itself, and reports success in the end."""
    produce_values(broker, topic, 2)
    consumer = make_consumer(topic)
    outcomes = outcomes_of(consumer)
    poll_until(consumer, 2)
    broker.faults.delay_persister("WriteShareGroupState", 40_000)
    consumer.commit_async()
    poll_while(consumer, lambda: broker.faults.pending() > 0)

    def states() -> list[tuple[int, int, str, bool]]:
        loaded = broker.share_partition("g", topic)
        assert loaded is not None
        return [(one.first, one.last, one.state.name, one.is_pending) for one in loaded.ranges]

    assert states() == [(0, 1, "ACKNOWLEDGED", True)]
    assert (broker.stored_offset("g", topic), outcomes.calls) == (-1, [])
    broker.advance(35_000)  # locks last 30,000
    assert states() == [(0, 1, "ACKNOWLEDGED", True)]
    broker.advance(5_000)
    poll_while(consumer, lambda: not outcomes.calls)
    assert outcomes.succeeded == [(topic, 0, 0), (topic, 0, 1)]
    consumer.close()
    assert left_for_others(broker, make_consumer, topic) == []


@pytest.mark.behaviour("commits")
def test_wakeup_interrupts_commit_sync_and_its_acknowledgements_go_all_the_same(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer
) -> None:
    """A commit_sync hit by wakeup raises; what it had handed over is applied and reported by the callback."""
    produce_values(broker, topic, 1)
    consumer = make_consumer(topic)
    outcomes = outcomes_of(consumer)
    poll_until(consumer, 1)
    broker.faults.delay(SHARE_ACKNOWLEDGE, LATE_MS)

    def wake_when_it_waits() -> None:
        wait_until(lambda: bool(broker.requests(SHARE_ACKNOWLEDGE)))
        consumer.wakeup()

    other = threading.Thread(target=wake_when_it_waits)
    other.start()
    with pytest.raises(WakeupError):
        consumer.commit_sync()
    other.join()
    broker.advance(LATE_MS)
    poll_while(consumer, lambda: not outcomes.calls)
    assert outcomes.succeeded == [(topic, 0, 0)]
