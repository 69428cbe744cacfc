"""commit_sync and commit_async: what they answer, and what becomes of the records."""

from __future__ import annotations

import threading

import pytest
from facade.delivery_checks import left_for_others, only_result, outcomes_of, produce_values
from support.consumers import Consumer, MakeConsumer
from support.waiting import offsets, poll_until, wait_until

from kafka_share import AcknowledgeType
from kafka_share.broker import ReferenceBroker
from kafka_share.errors import ConsumerClosedError, InvalidArgumentError, OperationTimeoutError
from kafka_share.native import DirectLine
from kafka_share.protocol.share_acknowledge import ShareAcknowledgeRequest


@pytest.mark.behaviour("commits")
def test_commit_sync_is_empty_and_sends_nothing_when_nothing_was_delivered(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer
) -> None:
    """commit_sync with nothing to acknowledge returns an empty mapping and sends nothing."""
    consumer = make_consumer()
    assert consumer.commit_sync() == {}
    consumer.subscribe([topic])
    assert consumer.commit_sync() == {}
    assert not consumer.poll(timeout_ms=0)
    assert consumer.commit_sync() == {}
    assert not broker.requests(ShareAcknowledgeRequest.API_KEY)


@pytest.mark.behaviour("commits")
def test_each_commit_names_its_partition_when_committing_in_steps(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer
) -> None:
    """Committing step by step, each result names the partition; a second commit at once is empty.

    The number of ShareAcknowledge requests is the number of commits that had acknowledgements.
    """
    produce_values(broker, topic, 50)
    consumer = make_consumer(topic, share_acknowledgement_mode="explicit", max_poll_records=10)
    for _ in range(5):
        for record in poll_until(consumer, 10):
            consumer.acknowledge(record)
        assert only_result(consumer.commit_sync()) is None
        assert consumer.commit_sync() == {}
    assert len(broker.requests(ShareAcknowledgeRequest.API_KEY)) == 5
    consumer.close()
    assert left_for_others(broker, make_consumer, topic) == []


@pytest.mark.skipif(DirectLine is None, reason="the application's thread uses a socket in the compiled module only")
def test_a_commit_is_sent_by_the_thread_that_calls_it_when_the_session_is_lent(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer, caplog: pytest.LogCaptureFixture
) -> None:
    """A loan ends after 100 ms, so this is tried until a commit was in time. The polls after it have their records."""
    caplog.set_level("DEBUG", logger="kafka_share.network.direct")
    consumer = make_consumer(topic)

    def commits() -> bool:
        produce_values(broker, topic, 1)
        poll_until(consumer, 1)
        assert only_result(consumer.commit_sync()) is None
        return "sent api=ShareAcknowledge" in caplog.text

    wait_until(commits)
    commits()
    consumer.close()
    assert left_for_others(broker, make_consumer, topic) == []


@pytest.mark.behaviour("commits")
def test_result_names_exactly_the_partitions_of_the_batch_when_there_are_three(
    broker: ReferenceBroker, make_consumer: MakeConsumer
) -> None:
    """The result has the partitions that the committed batch was from, no more and no fewer."""
    broker.create_topic("t", partitions=3)
    produce_values(broker, "t", 4, partitions=range(3))
    consumer = make_consumer("t", share_acknowledgement_mode="explicit")
    seen = 0
    while seen < 12:
        records = poll_until(consumer, 1)
        for record in records:
            consumer.acknowledge(record)
        results = consumer.commit_sync()
        assert {tp.topic_partition for tp in results} == {(r.topic, r.partition) for r in records}
        assert set(results.values()) == {None}
        seen += len(records)


@pytest.mark.behaviour("commits")
def test_both_topics_appear_in_the_results_when_two_are_consumed(
    broker: ReferenceBroker, make_consumer: MakeConsumer
) -> None:
    """The results of commits name every topic that is consumed."""
    for topic in ("a", "b"):
        broker.create_topic(topic)
        produce_values(broker, topic, 3)
    consumer = make_consumer("a", "b")
    seen, topics = 0, set()
    while seen < 6:
        seen += len(poll_until(consumer, 1))
        topics |= {partition.topic for partition in consumer.commit_sync()}
    assert topics == {"a", "b"}


@pytest.mark.behaviour("commits")
def test_commit_sync_raises_and_reports_later_when_it_is_given_no_time(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer
) -> None:
    """commit_sync without time raises if something was pending; what became of that is reported by a later call."""
    produce_values(broker, topic, 3)
    consumer = make_consumer(topic)
    outcomes = outcomes_of(consumer)
    assert consumer.commit_sync(timeout_ms=0) == {}
    poll_until(consumer, 3)
    with pytest.raises(OperationTimeoutError):
        consumer.commit_sync(timeout_ms=0)
    # The next commit waits for what is still under way; a quick answer was reported by the one that raised.
    assert set(consumer.commit_sync().values()) <= {None}
    assert outcomes.succeeded == [(topic, 0, 0), (topic, 0, 1), (topic, 0, 2)]
    assert consumer.commit_sync(timeout_ms=0) == {}
    consumer.close()
    assert left_for_others(broker, make_consumer, topic) == []


@pytest.mark.behaviour("commits")
def test_commit_refuses_timeouts_that_make_no_sense(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer
) -> None:
    """A negative timeout is an argument error, one that is no number and an unknown keyword are type errors."""
    produce_values(broker, topic, 1)
    consumer = make_consumer(topic)
    poll_until(consumer, 1)
    with pytest.raises(InvalidArgumentError):
        consumer.commit_sync(timeout_ms=-1)
    for value in ("5", 1.5, True):
        with pytest.raises(TypeError):
            consumer.commit_sync(timeout_ms=value)  # type: ignore[arg-type]
    for method in (consumer.commit_sync, consumer.commit_async):
        with pytest.raises(TypeError):
            method(patience=5)  # type: ignore[call-arg]
    assert only_result(consumer.commit_sync()) is None, "the refused calls lost nothing"


@pytest.mark.behaviour("commits")
@pytest.mark.parametrize("method", ["commit_sync", "commit_async"])
def test_commit_raises_illegal_state_when_the_consumer_is_closed(make_consumer: MakeConsumer, method: str) -> None:
    """The commit methods of a closed consumer raise an illegal-state error, which is a RuntimeError."""
    consumer = make_consumer("t")
    consumer.close()
    with pytest.raises(ConsumerClosedError, match="already been closed") as raised:
        getattr(consumer, method)()
    assert isinstance(raised.value, RuntimeError)


@pytest.mark.better_than_java("commit-sync-waits-for-all")
@pytest.mark.behaviour("commits")
def test_nothing_is_lost_when_async_commits_are_followed_by_a_sync_one(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer
) -> None:
    """Many commit_async followed by one commit_sync: each offset is reported once, and none is left."""
    produce_values(broker, topic, 55)
    consumer = make_consumer(topic, share_acknowledgement_mode="explicit", max_poll_records=11)
    outcomes = outcomes_of(consumer)
    for _ in range(5):
        records = poll_until(consumer, 11)
        for record in records[:10]:
            consumer.acknowledge(record)
            consumer.commit_async()
        consumer.acknowledge(records[10])
        assert only_result(consumer.commit_sync()) is None
    assert outcomes.succeeded == [(topic, 0, offset) for offset in range(55)]
    consumer.close()
    assert left_for_others(broker, make_consumer, topic) == []


@pytest.mark.behaviour("commits")
def test_every_offset_is_reported_once_when_commits_alternate(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer, explicit_consumer: Consumer
) -> None:
    """When commit_sync and commit_async alternate after each record, every offset is reported once and none is left."""
    produce_values(broker, topic, 40)
    outcomes = outcomes_of(explicit_consumer)

    def acknowledge_and_commit(record: object) -> None:
        explicit_consumer.acknowledge(record)  # type: ignore[arg-type]
        if record.offset % 2:  # type: ignore[attr-defined]
            explicit_consumer.commit_async()
        else:
            assert set(explicit_consumer.commit_sync().values()) <= {None}

    poll_until(explicit_consumer, 40, acknowledge_and_commit)
    explicit_consumer.commit_sync()
    assert outcomes.succeeded == [(topic, 0, offset) for offset in range(40)]
    explicit_consumer.close()
    assert left_for_others(broker, make_consumer, topic) == []


@pytest.mark.behaviour("commits")
def test_every_offset_is_reported_once_when_commits_come_in_bursts(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer, explicit_consumer: Consumer
) -> None:
    """Commits without acknowledgements disturb nothing: each offset is reported once."""
    produce_values(broker, topic, 50)
    outcomes = outcomes_of(explicit_consumer)

    def acknowledge_and_commit(record: object) -> None:
        explicit_consumer.acknowledge(record)  # type: ignore[arg-type]
        for _ in range(5):
            explicit_consumer.commit_async()
        assert set(explicit_consumer.commit_sync().values()) <= {None}

    poll_until(explicit_consumer, 50, acknowledge_and_commit)
    assert outcomes.succeeded == [(topic, 0, offset) for offset in range(50)]
    explicit_consumer.close()
    assert left_for_others(broker, make_consumer, topic) == []


@pytest.mark.behaviour("commits")
def test_nothing_is_left_when_many_topics_are_committed_asynchronously(
    broker: ReferenceBroker, make_consumer: MakeConsumer
) -> None:
    """Many topics and partitions are committed asynchronously without a record being left."""
    topics = [f"topic-{number}" for number in range(5)]
    for topic in topics:
        broker.create_topic(topic, partitions=3)
    consumer = make_consumer(*topics, share_acknowledgement_mode="explicit")
    outcomes = outcomes_of(consumer)
    for _ in range(4):
        for topic in topics:
            produce_values(broker, topic, 2, partitions=range(3))
        poll_until(consumer, 30, consumer.acknowledge)
        consumer.commit_async()
    consumer.close()
    assert len(outcomes.succeeded) == len(set(outcomes.succeeded)) == 120
    assert outcomes.errors == []
    assert left_for_others(broker, make_consumer, *topics, partitions=3) == []


@pytest.mark.behaviour("commits")
@pytest.mark.parametrize("method", ["commit_sync", "commit_async"])
def test_acknowledgements_persist_when_close_follows_the_commit(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer, explicit_consumer: Consumer, method: str
) -> None:
    """What was committed before close, synchronously or not, stays done: close drains what is under way."""
    produce_values(broker, topic, 10)
    outcomes = outcomes_of(explicit_consumer)
    poll_until(explicit_consumer, 10, explicit_consumer.acknowledge)
    getattr(explicit_consumer, method)()
    explicit_consumer.close()
    assert outcomes.succeeded == [(topic, 0, offset) for offset in range(10)]
    assert left_for_others(broker, make_consumer, topic) == []


@pytest.mark.behaviour("commits")
def test_another_thread_makes_progress_when_commit_sync_waits(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer
) -> None:
    """commit_sync waits without the interpreter lock: it ends only because another thread lets the answer come."""
    produce_values(broker, topic, 1)
    consumer = make_consumer(topic)
    poll_until(consumer, 1)
    broker.faults.delay(ShareAcknowledgeRequest.API_KEY, 20_000)
    released = threading.Event()

    def let_the_answer_come() -> None:
        wait_until(lambda: bool(broker.requests(ShareAcknowledgeRequest.API_KEY)))
        released.set()
        broker.advance(20_000)

    other = threading.Thread(target=let_the_answer_come)
    other.start()
    assert only_result(consumer.commit_sync()) is None
    assert released.is_set()
    other.join()


@pytest.mark.behaviour("commits")
def test_only_the_acknowledged_part_is_committed_when_the_rest_has_no_word(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer, explicit_consumer: Consumer
) -> None:
    """In explicit mode a commit sends what was acknowledged; the rest stays in flight and is released by close."""
    produce_values(broker, topic, 4)
    outcomes = outcomes_of(explicit_consumer)
    records = poll_until(explicit_consumer, 4)
    explicit_consumer.acknowledge(records[0])
    explicit_consumer.acknowledge(records[3], AcknowledgeType.REJECT)
    assert only_result(explicit_consumer.commit_sync()) is None
    assert outcomes.succeeded == [(topic, 0, 0), (topic, 0, 3)]
    explicit_consumer.close()
    assert offsets(left_for_others(broker, make_consumer, topic)) == [1, 2]
