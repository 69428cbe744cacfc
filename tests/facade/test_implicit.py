"""Implicit acknowledgement: the next poll, or a commit, accepts what the last poll returned."""

from __future__ import annotations

from functools import partial

import pytest
from facade.delivery_checks import (
    Outcomes,
    counted,
    left_for_others,
    only_result,
    outcomes_of,
    produce_one_batch,
    produce_values,
)
from support.consumers import Consumer, MakeConsumer
from support.waiting import looks, offsets, poll_once_more, poll_until, poll_while

from kafka_share import AcknowledgeType, ShareRecord
from kafka_share.broker import ReferenceBroker
from kafka_share.errors import IllegalStateError
from kafka_share.protocol.share_acknowledge import ShareAcknowledgeRequest
from kafka_share.protocol.share_fetch import ShareFetchRequest

Sent = tuple[int, int, list[int]]
"""(first offset, last offset, types) of an AcknowledgementBatch."""


def sent_acknowledgements(broker: ReferenceBroker) -> list[Sent]:
    """Every AcknowledgementBatch that arrived, with a fetch or by itself."""
    requests = [request for _, request in broker.requests()]
    return [
        (batch.first_offset, batch.last_offset, list(batch.acknowledge_types))
        for request in requests
        if request.API_KEY in (ShareFetchRequest.API_KEY, ShareAcknowledgeRequest.API_KEY)
        for topic in request.topics
        for partition in topic.partitions
        for batch in partition.acknowledgement_batches
    ]


def accept_by_polling(consumer: Consumer, outcomes: Outcomes, count: int) -> None:
    """Poll until the broker has answered `count` acknowledgements; no record may come."""
    poll_while(consumer, lambda: len(outcomes.succeeded) < count)
    assert outcomes.failed == []


@pytest.fixture
def make_consumer(make_consumer: MakeConsumer) -> MakeConsumer:
    """Consumers whose fetches wait shortly, so that acknowledgements that ride on them are answered soon."""
    return partial(make_consumer, fetch_max_wait_ms=50)


@pytest.mark.behaviour("implicit acknowledgement")
def test_the_next_poll_accepts_what_the_last_one_returned(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer
) -> None:
    """In implicit mode the next poll accepts what the last one returned, once, and nobody sees it again."""
    produce_values(broker, topic, 5)
    consumer = make_consumer(topic)
    outcomes = outcomes_of(consumer)
    assert offsets(poll_until(consumer, 5)) == [0, 1, 2, 3, 4]
    assert sent_acknowledgements(broker) == []
    accept_by_polling(consumer, outcomes, 5)
    assert sent_acknowledgements(broker) == [(0, 4, [1])]
    assert not broker.requests(ShareAcknowledgeRequest.API_KEY)
    assert poll_once_more(consumer) == []
    consumer.close()
    assert left_for_others(broker, make_consumer, topic) == []


@pytest.mark.behaviour("implicit acknowledgement")
def test_commit_sync_accepts_what_the_last_poll_returned(broker: ReferenceBroker, make_consumer: MakeConsumer) -> None:
    """commit_sync accepts what the last poll returned; a second one at once has nothing to do."""
    topic_id = broker.create_topic("t")
    broker.produce("t", b"v")
    consumer = make_consumer("t")
    poll_until(consumer, 1)
    assert consumer.commit_sync() == {(topic_id, "t", 0): None}
    assert consumer.commit_sync() == {}
    consumer.close()
    assert left_for_others(broker, make_consumer, "t") == []


@pytest.mark.behaviour("implicit acknowledgement")
def test_commit_async_reports_through_the_callback(broker: ReferenceBroker, make_consumer: MakeConsumer) -> None:
    """commit_async accepts what the last poll returned, and a later poll tells the callback so."""
    topic_id = broker.create_topic("t")
    produce_values(broker, "t", 3)
    consumer = make_consumer("t")
    outcomes = outcomes_of(consumer)
    poll_until(consumer, 3)
    consumer.commit_async()
    accept_by_polling(consumer, outcomes, 3)
    assert outcomes.calls == [({(topic_id, "t", 0): frozenset({0, 1, 2})}, None)]


@pytest.mark.behaviour("implicit acknowledgement")
def test_acknowledge_is_refused_and_the_batch_stays_good_when_the_mode_is_implicit(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer
) -> None:
    """In implicit mode every form of acknowledge is an illegal state; commits go on working."""
    produce_values(broker, topic, 2)
    consumer = make_consumer(topic, max_poll_records=1)

    def refuses(record: ShareRecord[bytes, bytes]) -> None:
        with pytest.raises(IllegalStateError, match="implicitly"):
            consumer.acknowledge(record)
        with pytest.raises(IllegalStateError, match="implicitly"):
            consumer.acknowledge(record, AcknowledgeType.RELEASE)
        with pytest.raises(IllegalStateError, match="implicitly"):
            consumer.acknowledge_offset(topic, 0, record.offset, AcknowledgeType.REJECT)

    (first,) = poll_until(consumer, 1)
    refuses(first)
    (second,) = poll_until(consumer, 1)
    refuses(first)
    refuses(second)
    assert only_result(consumer.commit_sync()) is None
    refuses(second)
    consumer.close()
    assert left_for_others(broker, make_consumer, topic) == []


@pytest.mark.parametrize(("count", "how_many"), [(1, "1 record of the last poll"), (3, "3 records of the last poll")])
def test_close_says_what_it_releases_and_what_to_write_instead(
    count: int,
    how_many: str,
    broker: ReferenceBroker,
    topic: str,
    make_consumer: MakeConsumer,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A program of one poll has accepted nothing when it closes: it learns that, and of commit_sync; others do not."""
    produce_values(broker, topic, count)
    first = make_consumer(topic)
    assert len(poll_until(first, count)) == count
    first.close()
    (warning,) = [r.getMessage() for r in caplog.records if "commit_sync()" in r.getMessage()]
    assert how_many in warning
    caplog.clear()
    second = make_consumer(topic)
    assert len(poll_until(second, count)) == count
    second.commit_sync()
    second.close()
    assert [r.getMessage() for r in caplog.records if "commit_sync()" in r.getMessage()] == []


@pytest.mark.behaviour("implicit acknowledgement")
def test_each_round_sees_its_own_records_when_new_members_follow_each_other(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer
) -> None:
    """Members that follow each other each see only the records that the one before has not accepted."""
    for number in range(3):
        produce_values(broker, topic, 4)
        consumer = make_consumer(topic)
        outcomes = outcomes_of(consumer)
        assert counted(poll_until(consumer, 4)) == [(offset, 1) for offset in range(4 * number, 4 * number + 4)]
        accept_by_polling(consumer, outcomes, 4)
        consumer.close()


@pytest.mark.behaviour("implicit acknowledgement")
@pytest.mark.parametrize(
    ("topics", "partitions", "batches", "size"),
    [(["t"], 1, 1, 1), (["t"], 1, 1, 100), (["t"], 1, 20, 1), (["t"], 2, 5, 2), (["a", "b"], 1, 5, 2)],
    ids=["one record", "one batch of 100", "20 batches of one", "two partitions", "two topics"],
)
def test_nothing_is_left_for_others_when_a_poll_has_accepted_it(
    topics: list[str],
    partitions: int,
    batches: int,
    size: int,
    broker: ReferenceBroker,
    make_consumer: MakeConsumer,
) -> None:
    """Whatever the number of records, another member sees none that a poll has accepted."""
    for topic in topics:
        broker.create_topic(topic, partitions=partitions)
        for partition in range(partitions):
            for _ in range(batches):
                produce_one_batch(broker, topic, size, partition=partition)
    total = len(topics) * partitions * batches * size
    consumer = make_consumer(*topics)
    outcomes = outcomes_of(consumer)
    found = poll_until(consumer, total)
    accept_by_polling(consumer, outcomes, total)
    assert outcomes.succeeded == sorted((r.topic, r.partition, r.offset) for r in found)
    consumer.close()
    assert left_for_others(broker, make_consumer, *topics, partitions=partitions) == []


@pytest.mark.behaviour("implicit acknowledgement")
def test_polls_of_an_empty_topic_acknowledge_nothing(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer
) -> None:
    """Polling an empty topic sends no acknowledgement; records produced later are accepted as usual."""
    consumer = make_consumer(topic, fetch_max_wait_ms=10)
    outcomes = outcomes_of(consumer)
    poll_while(consumer, lambda: len(broker.requests(ShareFetchRequest.API_KEY)) < 4)
    assert consumer.commit_sync() == {}
    assert sent_acknowledgements(broker) == []
    broker.produce(topic, b"v")
    assert offsets(poll_until(consumer, 1)) == [0]
    accept_by_polling(consumer, outcomes, 1)
    assert sent_acknowledgements(broker) == [(0, 0, [1])]


@pytest.mark.behaviour("membership")
def test_the_old_topic_is_acknowledged_when_the_subscription_changes(
    broker: ReferenceBroker, make_consumer: MakeConsumer
) -> None:
    """After a changed subscription the next poll accepts what came from the old topic, without an error."""
    for topic in ("a", "b"):
        broker.create_topic(topic)
        broker.produce(topic, b"v")
    consumer = make_consumer("a")
    outcomes = outcomes_of(consumer)
    assert [r.topic for r in poll_until(consumer, 1)] == ["a"]
    consumer.subscribe(["b"])
    assert [r.topic for r in poll_until(consumer, 1)] == ["b"]
    accept_by_polling(consumer, outcomes, 2)
    assert outcomes.succeeded == [("a", 0, 0), ("b", 0, 0)]


@pytest.mark.behaviour("membership")
def test_every_record_comes_once_when_one_member_is_implicit_and_one_explicit(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer
) -> None:
    """One member may be implicit and another explicit: each record is delivered once between them."""
    implicit = make_consumer(topic, max_poll_records=3)
    explicit = make_consumer(topic, max_poll_records=3, share_acknowledgement_mode="explicit")
    produce_values(broker, topic, 60)
    seen: list[tuple[int, int]] = []
    for _ in looks(lambda: f"only these came: {seen}"):
        seen.extend(counted(list(implicit.poll(timeout_ms=20))))
        for record in explicit.poll(timeout_ms=20):
            explicit.acknowledge(record)
            seen.append((record.offset, record.delivery_count))
        if len(seen) >= 60:
            break
    implicit.commit_sync()
    explicit.commit_sync()
    assert sorted(seen) == [(offset, 1) for offset in range(60)]
    implicit.close()
    explicit.close()
    assert left_for_others(broker, make_consumer, topic) == []


@pytest.mark.behaviour("implicit acknowledgement")
def test_commit_sync_has_nothing_to_do_when_a_poll_has_accepted_everything(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer
) -> None:
    """After the accepting poll has reported its outcome, commit_sync answers {} and sends nothing."""
    broker.produce(topic, b"v")
    consumer = make_consumer(topic)
    outcomes = outcomes_of(consumer)
    poll_until(consumer, 1)
    accept_by_polling(consumer, outcomes, 1)
    assert consumer.commit_sync() == {}
    assert not broker.requests(ShareAcknowledgeRequest.API_KEY)


@pytest.mark.behaviour("implicit acknowledgement")
def test_no_record_comes_twice_when_producing_and_consuming_take_turns(
    broker: ReferenceBroker, topic: str, consumer: Consumer
) -> None:
    """When producing and consuming take turns for 20 rounds, no record comes twice."""
    found: list[tuple[int, int]] = []
    for _ in range(20):
        for _ in range(5):
            produce_one_batch(broker, topic, 10)
        found += counted(poll_until(consumer, 50))
    assert found == [(offset, 1) for offset in range(1000)]


@pytest.mark.behaviour("implicit acknowledgement")
def test_the_last_batch_is_given_back_when_the_consumer_closes_without_another_poll(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer
) -> None:
    """Closing accepts nothing by itself: what the last poll returned is released at once, for another member."""
    produce_values(broker, topic, 4)
    consumer = make_consumer(topic, max_poll_records=2)
    outcomes = outcomes_of(consumer)
    assert offsets(poll_until(consumer, 1)) == [0, 1]
    assert offsets(poll_until(consumer, 1)) == [2, 3]
    consumer.close()
    assert outcomes.succeeded == [(topic, 0, 0), (topic, 0, 1)]
    assert counted(left_for_others(broker, make_consumer, topic)) == [(2, 2), (3, 2)]


@pytest.mark.behaviour("implicit acknowledgement")
def test_no_record_is_accepted_unseen_when_an_interrupt_strikes_in_the_callback(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer
) -> None:
    """A poll that fetched records but was interrupted before it returned hands them to the next poll."""
    produce_values(broker, topic, 2)
    consumer = make_consumer(topic, max_poll_records=1)
    strikes = [KeyboardInterrupt()]

    def callback(*_: object) -> None:
        if strikes:
            raise strikes.pop()

    consumer.set_acknowledgement_commit_callback(callback)
    assert offsets(poll_until(consumer, 1)) == [0]
    with pytest.raises(KeyboardInterrupt):
        poll_until(consumer, 2)  # accepts 0; its outcome strikes, at the latest when 1 has come
    assert counted(poll_until(consumer, 1)) == [(1, 1)]
