"""The acknowledgement commit callback: when it is called, with what, and what it may not do."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest
from facade.delivery_checks import Outcomes, left_for_others, only_result, outcomes_of, produce_values
from support.consumers import Consumer, MakeConsumer
from support.waiting import offsets, poll_until, poll_while, wait_until

from kafka_share import AcknowledgeType, TopicIdPartition
from kafka_share.broker import ReferenceBroker
from kafka_share.errors import ConcurrentUseError, ConsumerClosedError, IllegalStateError, InvalidRecordStateError
from kafka_share.protocol.share_acknowledge import ShareAcknowledgeRequest


@pytest.mark.behaviour("implicit acknowledgement")
def test_callback_is_told_inside_the_poll_that_accepts(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer
) -> None:
    """The poll that accepts records tells the callback of it: topic with id, partition and offsets."""
    produce_values(broker, topic, 3)
    consumer = make_consumer(topic)
    outcomes = outcomes_of(consumer)
    poll_until(consumer, 3)
    assert outcomes.calls == [], "nothing has been acknowledged yet"
    poll_while(consumer, lambda: len(outcomes.succeeded) < 3)
    assert outcomes.succeeded == [(topic, 0, 0), (topic, 0, 1), (topic, 0, 2)]
    for reported, error in outcomes.calls:
        assert error is None
        for partition, found in reported.items():
            assert isinstance(partition, TopicIdPartition)
            assert partition.topic_id.int != 0
            assert isinstance(found, frozenset)


@pytest.mark.behaviour("implicit acknowledgement")
def test_callback_is_told_on_a_later_poll_when_the_commit_was_asynchronous(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer
) -> None:
    """commit_async sends what was accepted, and the callback hears of it in a later poll."""
    produce_values(broker, topic, 3)
    consumer = make_consumer(topic)
    outcomes = outcomes_of(consumer)
    poll_until(consumer, 3)
    consumer.commit_async()
    wait_until(lambda: bool(broker.requests(ShareAcknowledgeRequest.API_KEY)))
    poll_while(consumer, lambda: len(outcomes.succeeded) < 3)
    assert outcomes.succeeded == [(topic, 0, 0), (topic, 0, 1), (topic, 0, 2)]


@pytest.mark.behaviour("commits")
def test_callback_is_told_inside_commit_sync(broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer) -> None:
    """When commit_sync returns, the callback has been called for what it committed; result and callback agree."""
    produce_values(broker, topic, 2)
    consumer = make_consumer(topic)
    outcomes = outcomes_of(consumer)
    poll_until(consumer, 2)
    results = consumer.commit_sync()
    assert outcomes.succeeded == [(topic, 0, 0), (topic, 0, 1)]
    assert {partition for reported, _ in outcomes.calls for partition in reported} == set(results)


@pytest.mark.behaviour("commits")
def test_callback_has_been_called_when_close_returns(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer
) -> None:
    """The callback has heard of whatever the last polls accepted by the time close returns."""
    produce_values(broker, topic, 2)
    consumer = make_consumer(topic)
    outcomes = outcomes_of(consumer)
    poll_until(consumer, 2)
    consumer.poll(timeout_ms=0)
    consumer.close()
    assert outcomes.succeeded == [(topic, 0, 0), (topic, 0, 1)]
    assert outcomes.errors == []


@pytest.mark.behaviour("commits")
def test_callback_gets_invalid_record_state_when_the_lock_has_run_out(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer
) -> None:
    """A poll that accepts after the acquisition lock ended gets its records again, and the callback the error."""
    produce_values(broker, topic, 2)
    consumer = make_consumer(topic)
    outcomes = outcomes_of(consumer)
    first = poll_until(consumer, 2)
    assert [record.delivery_count for record in first] == [1, 1]
    broker.advance(30_001)
    again = poll_until(consumer, 2)
    assert [(record.offset, record.delivery_count) for record in again] == [(0, 2), (1, 2)]
    poll_while(consumer, lambda: len(outcomes.calls) < 2)
    assert outcomes.failed == [(0, InvalidRecordStateError), (1, InvalidRecordStateError)]
    assert outcomes.succeeded == [(topic, 0, 0), (topic, 0, 1)], "the second delivery was accepted"


@pytest.mark.blocking
@pytest.mark.behaviour("commits")
def test_methods_raise_illegal_state_when_called_inside_the_callback(
    broker: ReferenceBroker, topic: str, explicit_consumer: Consumer
) -> None:
    """Every method but wakeup refuses to run inside the callback; afterwards the consumer works as before."""
    broker.produce(topic, b"first")
    (record,) = poll_until(explicit_consumer, 1)
    calls: dict[str, Callable[[], Any]] = {
        "poll": lambda: explicit_consumer.poll(timeout_ms=0),
        "subscribe": lambda: explicit_consumer.subscribe([topic]),
        "subscription": explicit_consumer.subscription,
        "unsubscribe": explicit_consumer.unsubscribe,
        "acknowledge": lambda: explicit_consumer.acknowledge(record),
        "acknowledge_offset": lambda: explicit_consumer.acknowledge_offset(topic, 0, 0, AcknowledgeType.ACCEPT),
        "commit_sync": explicit_consumer.commit_sync,
        "commit_async": explicit_consumer.commit_async,
        "set_acknowledgement_commit_callback": lambda: explicit_consumer.set_acknowledgement_commit_callback(None),
        "acquisition_lock_timeout_ms": lambda: explicit_consumer.acquisition_lock_timeout_ms,
        "close": explicit_consumer.close,
    }
    raised: dict[str, Exception] = {}

    def misuse(*_: object) -> None:
        for name, call in calls.items():
            with pytest.raises(IllegalStateError) as caught:
                call()
            raised[name] = caught.value

    explicit_consumer.set_acknowledgement_commit_callback(misuse)
    explicit_consumer.acknowledge(record)
    assert only_result(explicit_consumer.commit_sync()) is None
    assert set(raised) == set(calls)
    for name, error in raised.items():
        assert isinstance(error, ConcurrentUseError)
        assert "callback" in str(error)
        assert name in str(error)
    explicit_consumer.set_acknowledgement_commit_callback(None)
    broker.produce(topic, b"second")
    assert [r.value for r in poll_until(explicit_consumer, 1, explicit_consumer.acknowledge)] == [b"second"]


@pytest.mark.behaviour("commits")
@pytest.mark.parametrize("reporter", ["poll", "commit_sync", "commit_async", "close"])
def test_exception_of_the_callback_is_logged_and_swallowed(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer, caplog: pytest.LogCaptureFixture, reporter: str
) -> None:
    """What the callback raises is written to the log; the call that ran it returns as usual, and nothing is lost."""
    produce_values(broker, topic, 2)
    consumer = make_consumer(topic)
    called: list[object] = []

    def fail(reported: object, _: object) -> None:
        called.append(reported)
        raise RuntimeError("the callback is broken")

    consumer.set_acknowledgement_commit_callback(fail)
    poll_until(consumer, 2)
    with caplog.at_level(logging.ERROR, logger="kafka_share"):
        if reporter == "poll":
            poll_while(consumer, lambda: not called)
        elif reporter == "commit_sync":
            assert only_result(consumer.commit_sync()) is None
        elif reporter == "commit_async":
            consumer.commit_async()
            poll_while(consumer, lambda: not called)
        else:
            consumer.poll(timeout_ms=0)
            consumer.close()
    assert called
    assert "the callback is broken" in caplog.text
    if reporter != "close":
        broker.produce(topic, b"and on it goes")
        assert [r.value for r in poll_until(consumer, 1)] == [b"and on it goes"]
        consumer.commit_sync()
        consumer.close()
    assert left_for_others(broker, make_consumer, topic) == []


@pytest.mark.behaviour("commits")
def test_offsets_over_all_calls_are_those_acknowledged_when_there_are_several_partitions(
    broker: ReferenceBroker, make_consumer: MakeConsumer
) -> None:
    """All calls of the callback together name exactly the acknowledged offsets of every partition."""
    broker.create_topic("t", partitions=4)
    produce_values(broker, "t", 3, partitions=range(4))
    consumer = make_consumer("t", share_acknowledgement_mode="explicit")
    outcomes = outcomes_of(consumer)
    poll_until(consumer, 12, consumer.acknowledge)
    consumer.commit_sync()
    assert outcomes.succeeded == [("t", partition, offset) for partition in range(4) for offset in range(3)]
    assert outcomes.errors == []


@pytest.mark.behaviour("commits")
def test_callback_is_not_called_when_the_commit_is_empty(consumer: Consumer) -> None:
    """Commits without acknowledgements, polls of an empty topic and close do not run the callback."""
    outcomes = outcomes_of(consumer)
    assert consumer.commit_sync() == {}
    consumer.commit_async()
    consumer.poll(timeout_ms=0)
    consumer.commit_async()
    assert consumer.commit_sync() == {}
    consumer.close()
    assert outcomes.calls == []


@pytest.mark.behaviour("commits")
def test_setting_the_callback_raises_when_it_cannot_be_called(make_consumer: MakeConsumer) -> None:
    """A callback that is not callable is a type error; on a closed consumer setting one is an illegal state."""
    consumer = make_consumer("t")
    with pytest.raises(TypeError, match="callable"):
        consumer.set_acknowledgement_commit_callback("no function")  # type: ignore[arg-type]
    consumer.close()
    with pytest.raises(ConsumerClosedError):
        consumer.set_acknowledgement_commit_callback(None)


@pytest.mark.behaviour("commits")
def test_the_new_callback_is_told_when_it_was_replaced_before_the_outcome(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer
) -> None:
    """An outcome goes to the callback that is set when it is delivered, not to the one that was there before."""
    produce_values(broker, topic, 1)
    consumer = make_consumer(topic)
    old, new = Outcomes(), Outcomes()
    consumer.set_acknowledgement_commit_callback(old)
    poll_until(consumer, 1)
    consumer.commit_async()
    consumer.set_acknowledgement_commit_callback(new)
    consumer.commit_sync()
    assert old.calls == []
    assert new.succeeded == [(topic, 0, 0)]


@pytest.mark.behaviour("commits")
def test_outcomes_are_dropped_when_the_callback_is_taken_away(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer
) -> None:
    """Without a callback the outcomes of acknowledgements are not kept for one that is set later."""
    produce_values(broker, topic, 2)
    consumer = make_consumer(topic)
    poll_until(consumer, 2)
    assert only_result(consumer.commit_sync()) is None
    outcomes = outcomes_of(consumer)
    broker.produce(topic, b"third")
    assert offsets(poll_until(consumer, 1)) == [2]
    consumer.commit_sync()
    assert outcomes.succeeded == [(topic, 0, 2)]


@pytest.mark.behaviour("commits")
def test_callback_hears_of_both_when_close_follows_an_async_commit(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer, explicit_consumer: Consumer
) -> None:
    """With an asynchronous commit under way, close sends the final acknowledgements too, and both are reported."""
    produce_values(broker, topic, 4)
    outcomes = outcomes_of(explicit_consumer)
    records = poll_until(explicit_consumer, 4)
    for record in records[:2]:
        explicit_consumer.acknowledge(record)
    explicit_consumer.commit_async()
    for record in records[2:]:
        explicit_consumer.acknowledge(record)
    explicit_consumer.close()
    assert outcomes.succeeded == [(topic, 0, offset) for offset in range(4)]
    assert left_for_others(broker, make_consumer, topic) == []
