"""Explicit acknowledgement: every record must be acknowledged, and the type may change until it is sent."""

from __future__ import annotations

import gc
import random
from collections import Counter
from functools import partial
from typing import Any

import pytest
from facade.delivery_checks import counted, left_for_others, only_result, outcomes_of, produce_one_batch, produce_values
from support.consumers import Consumer, MakeConsumer, Record
from support.waiting import offsets, poll_once_more, poll_until, poll_while

from kafka_share import AcknowledgeType, ShareRecord, TimestampType
from kafka_share.broker import ReferenceBroker
from kafka_share.errors import IllegalStateError, InvalidArgumentError
from kafka_share.protocol.share_acknowledge import ShareAcknowledgeRequest
from kafka_share.records import AcknowledgeTypeOrName

ACCEPT, RELEASE, REJECT, RENEW = AcknowledgeType


@pytest.fixture
def make_consumer(make_consumer: MakeConsumer) -> MakeConsumer:
    """Consumers whose fetches wait shortly, so that acknowledgements that ride on them are answered soon."""
    return partial(make_consumer, fetch_max_wait_ms=50)


@pytest.fixture
def consumer(explicit_consumer: Consumer) -> Consumer:
    """In this file nothing is acknowledged that is not named."""
    return explicit_consumer


def made_by_hand(topic: str, partition: int, offset: int) -> Record:
    return ShareRecord(topic, partition, offset, 0, TimestampType.CREATE_TIME, None, None, (), None, 1)


def accept_all(consumer: Consumer, records: list[Record]) -> None:
    for record in records:
        consumer.acknowledge(record)


@pytest.mark.behaviour("explicit acknowledgement")
def test_only_the_new_record_comes_when_the_last_one_was_accepted(broker: ReferenceBroker, consumer: Consumer) -> None:
    """acknowledge accepts by default; the next poll sends it and brings only what was produced since."""
    broker.produce("t", b"v")
    accept_all(consumer, poll_until(consumer, 1))
    broker.produce("t", b"v")
    assert counted(poll_until(consumer, 1)) == [(1, 1)]


@pytest.mark.behaviour("explicit acknowledgement")
def test_commit_sync_names_the_partition_when_a_record_was_accepted(
    broker: ReferenceBroker, consumer: Consumer
) -> None:
    """commit_sync after an acknowledgement names the partition without an error; then only new records come."""
    broker.produce("t", b"v")
    accept_all(consumer, poll_until(consumer, 1))
    broker.produce("t", b"v")
    assert only_result(consumer.commit_sync()) is None
    assert counted(poll_until(consumer, 1)) == [(1, 1)]


@pytest.mark.behaviour("explicit acknowledgement")
def test_another_member_gets_the_released_record_when_it_was_committed_asynchronously(
    broker: ReferenceBroker, consumer: Consumer, make_consumer: MakeConsumer
) -> None:
    """A record released by an asynchronous commit goes to another member; the accepted ones do not."""
    outcomes = outcomes_of(consumer)
    produce_values(broker, "t", 3)
    first, second, third = poll_until(consumer, 3)
    accept_all(consumer, [first, second])
    consumer.acknowledge(third, RELEASE)
    consumer.commit_async()
    other = make_consumer("t", share_acknowledgement_mode="explicit")
    (again,) = poll_until(other, 1)
    assert (again.offset, again.delivery_count) == (2, 2)
    poll_while(consumer, lambda: len(outcomes.succeeded) < 3)
    assert outcomes.succeeded == [("t", 0, 0), ("t", 0, 1), ("t", 0, 2)]
    assert outcomes.failed == []


@pytest.mark.behaviour("explicit acknowledgement")
def test_poll_is_refused_again_and_again_while_a_record_has_no_word(
    broker: ReferenceBroker, consumer: Consumer, make_consumer: MakeConsumer
) -> None:
    """poll is refused while a record of the last one has no acknowledgement, even if others have been committed."""
    produce_values(broker, "t", 3)
    first, second, third = poll_until(consumer, 3)
    broker.clear_requests()
    for _ in range(2):
        with pytest.raises(
            IllegalStateError, match="3 records of the last poll have not been acknowledged: t-0@0 and others"
        ):
            consumer.poll(timeout_ms=100)
    consumer.acknowledge(second)
    with pytest.raises(IllegalStateError, match="2 records"):
        consumer.poll(timeout_ms=100)
    assert not broker.requests(78)
    assert only_result(consumer.commit_sync()) is None
    with pytest.raises(IllegalStateError, match="2 records"):
        consumer.poll(timeout_ms=100)
    accept_all(consumer, [first, third])
    broker.produce("t", b"v")
    assert offsets(poll_until(consumer, 1)) == [3]


@pytest.mark.behaviour("explicit acknowledgement")
def test_a_released_record_comes_again_until_it_is_accepted(broker: ReferenceBroker, consumer: Consumer) -> None:
    """A released record comes again with the next poll and the next delivery count, until it is accepted."""
    broker.produce("t", b"v")
    for count in (1, 2, 3):
        (record,) = poll_until(consumer, 1)
        assert (record.offset, record.delivery_count) == (0, count)
        consumer.acknowledge(record, RELEASE)
    (record,) = poll_until(consumer, 1)
    consumer.acknowledge(record)
    broker.produce("t", b"sentinel")
    assert offsets(poll_until(consumer, 1)) == [1]


@pytest.mark.behaviour("explicit acknowledgement")
@pytest.mark.parametrize(
    ("words", "left"),
    [
        ([RELEASE, ACCEPT], []),
        ([ACCEPT, RELEASE], [(0, 2)]),
        ([ACCEPT, REJECT], []),
        ([REJECT, RELEASE, ACCEPT, RELEASE], [(0, 2)]),
        ([RENEW, ACCEPT], []),
    ],
    ids=lambda value: " ".join(w.name for w in value) if value and isinstance(value[0], AcknowledgeType) else None,
)
def test_the_last_word_wins_when_it_changes_before_it_is_sent(
    words: list[AcknowledgeType],
    left: list[tuple[int, int]],
    broker: ReferenceBroker,
    consumer: Consumer,
    make_consumer: MakeConsumer,
) -> None:
    """Only the last acknowledgement of a record is sent: a release redelivers it with count 2, the others end it."""
    broker.produce("t", b"v")
    (record,) = poll_until(consumer, 1)
    for word in words:
        consumer.acknowledge(record, word)
    assert only_result(consumer.commit_sync()) is None
    consumer.close()
    assert counted(left_for_others(broker, make_consumer, "t")) == left


@pytest.mark.behaviour("explicit acknowledgement")
def test_close_sends_the_words_when_nothing_was_committed(
    broker: ReferenceBroker, consumer: Consumer, make_consumer: MakeConsumer
) -> None:
    """Accept, release and reject are sent by close and reported to the callback."""
    outcomes = outcomes_of(consumer)
    produce_values(broker, "t", 3)
    for record, word in zip(poll_until(consumer, 3), (ACCEPT, RELEASE, REJECT), strict=True):
        consumer.acknowledge(record, word)
    consumer.close()
    assert outcomes.succeeded == [("t", 0, 0), ("t", 0, 1), ("t", 0, 2)]
    assert counted(left_for_others(broker, make_consumer, "t")) == [(1, 2)]


@pytest.mark.behaviour("explicit acknowledgement")
@pytest.mark.parametrize("sent_by", ["poll", "commit_sync", "commit_async"])
def test_acknowledge_is_refused_when_the_word_has_been_sent(
    sent_by: str, broker: ReferenceBroker, consumer: Consumer
) -> None:
    """After the poll or commit that sent a record's acknowledgement, another one is an illegal state."""
    broker.produce("t", b"v")
    (record,) = poll_until(consumer, 1)
    consumer.acknowledge(record)
    if sent_by == "poll":
        consumer.poll(timeout_ms=0)
    else:
        getattr(consumer, sent_by)()
    for word in AcknowledgeType:
        with pytest.raises(IllegalStateError, match="not in flight"):
            consumer.acknowledge(record, word)


@pytest.mark.behaviour("explicit acknowledgement")
def test_a_record_from_elsewhere_is_known_by_its_place_alone(
    broker: ReferenceBroker, consumer: Consumer, make_consumer: MakeConsumer
) -> None:
    """A hand-made record, or one of another consumer, counts by topic, partition and offset: in flight here or not."""
    produce_values(broker, "t", 2)
    poll_until(consumer, 2)
    stranger = make_consumer("t", group_id="other", share_acknowledgement_mode="explicit")
    foreign, _ = poll_until(stranger, 2)
    consumer.acknowledge(foreign)
    consumer.acknowledge(made_by_hand("t", 0, 1))
    for topic, partition, offset in (("t", 0, 2), ("t", 1, 0), ("u", 0, 0), ("t", 0, -1)):
        with pytest.raises(IllegalStateError, match="not in flight"):
            consumer.acknowledge(made_by_hand(topic, partition, offset))
    assert only_result(consumer.commit_sync()) is None


@pytest.mark.behaviour("explicit acknowledgement")
def test_acknowledging_by_offset_is_refused_when_the_record_was_delivered(
    broker: ReferenceBroker, consumer: Consumer
) -> None:
    """As in Java, the offset form is for records that could not be delivered (librdkafka: for all).

    Before any poll, for a delivered record and for a wrong topic, partition or offset it is an illegal state, and the
    delivered record still has to be acknowledged.
    """
    broker.produce("t", b"v")
    with pytest.raises(IllegalStateError):
        consumer.acknowledge_offset("t", 0, 0, ACCEPT)
    (record,) = poll_until(consumer, 1)
    for topic, partition, offset in (("t", 0, 0), ("u", 0, 0), ("t", 1, 0), ("t", 0, 1)):
        with pytest.raises(IllegalStateError, match="could not be delivered"):
            consumer.acknowledge_offset(topic, partition, offset, ACCEPT)
    with pytest.raises(IllegalStateError, match="1 record of"):
        consumer.poll(timeout_ms=0)
    consumer.acknowledge(record)


@pytest.mark.behaviour("explicit acknowledgement")
@pytest.mark.parametrize("kind", ["release", "RELEASE", AcknowledgeType.RELEASE])
def test_a_record_comes_again_when_it_is_released_by_name(
    broker: ReferenceBroker, consumer: Consumer, kind: AcknowledgeTypeOrName
) -> None:
    """The types of acknowledgements may be given by their names."""
    broker.produce("t", b"v")
    (record,) = poll_until(consumer, 1)
    consumer.acknowledge(record, kind)
    (again,) = poll_until(consumer, 1)
    assert again.delivery_count == 2
    consumer.acknowledge(again, "accept")


@pytest.mark.behaviour("explicit acknowledgement")
def test_acknowledge_is_refused_when_an_argument_can_never_work(broker: ReferenceBroker, consumer: Consumer) -> None:
    """Negative places and unknown types are argument errors, something that is no record is a TypeError."""
    broker.produce("t", b"v")
    (record,) = poll_until(consumer, 1)
    for kind in (0, 5, -1, None, "ACK", "accept "):
        with pytest.raises(InvalidArgumentError, match="AcknowledgeType: those are ACCEPT, RELEASE, REJECT, RENEW"):
            consumer.acknowledge(record, kind)  # type: ignore[arg-type]
        with pytest.raises(InvalidArgumentError, match="AcknowledgeType"):
            consumer.acknowledge_offset("t", 0, 0, kind)  # type: ignore[arg-type]
    for partition, offset in ((-1, 0), (0, -1)):
        with pytest.raises(InvalidArgumentError, match="no partition"):
            consumer.acknowledge_offset("t", partition, offset, ACCEPT)
    for thing in (None, ("t", 0, 0), 0, "t"):
        with pytest.raises(TypeError, match="ShareRecord"):
            consumer.acknowledge(thing)  # type: ignore[arg-type]
    consumer.acknowledge(record, 1)  # type: ignore[arg-type]  # the wire's number is as good as the name
    assert only_result(consumer.commit_sync()) is None


@pytest.mark.behaviour("explicit acknowledgement")
def test_the_order_of_the_words_does_not_matter_and_a_word_may_be_repeated(
    broker: ReferenceBroker, consumer: Consumer, make_consumer: MakeConsumer
) -> None:
    """One batch acknowledged backwards, each record twice with the same type, is committed without an error."""
    produce_one_batch(broker, "t", 10)
    for record in reversed(poll_until(consumer, 10)):
        consumer.acknowledge(record)
        consumer.acknowledge(record)
    assert only_result(consumer.commit_sync()) is None
    consumer.close()
    assert left_for_others(broker, make_consumer, "t") == []


@pytest.mark.behaviour("explicit acknowledgement")
def test_a_second_member_gets_the_released_ones_when_a_batch_was_judged_in_three_ways(
    broker: ReferenceBroker, consumer: Consumer, make_consumer: MakeConsumer
) -> None:
    """Of a batch with accepted, released and rejected records another member gets exactly the released ones."""
    produce_one_batch(broker, "t", 10)
    words = [ACCEPT, RELEASE, ACCEPT, REJECT, RELEASE, ACCEPT, ACCEPT, REJECT, RELEASE, ACCEPT]
    for record, word in zip(poll_until(consumer, 10), words, strict=True):
        consumer.acknowledge(record, word)
    assert only_result(consumer.commit_sync()) is None
    consumer.close()
    assert counted(left_for_others(broker, make_consumer, "t")) == [(1, 2), (4, 2), (8, 2)]


@pytest.mark.behaviour("explicit acknowledgement")
@pytest.mark.parametrize(
    ("topics", "partitions", "count"),
    [(1, 1, 500), (4, 1, 500), (1, 4, 500), (2, 2, 500), (5, 2, 1000), (1, 8, 1000)],
    ids=lambda value: str(value),
)
def test_each_record_ends_once_when_words_are_random(
    topics: int, partitions: int, count: int, broker: ReferenceBroker, make_consumer: MakeConsumer
) -> None:
    """With random acknowledgements each accepted or rejected record is seen once, and each released one twice."""
    source = random.Random(66)
    names = [f"t{number}" for number in range(topics)]
    for name in names:
        broker.create_topic(name, partitions=partitions)
    each = count // (topics * partitions)
    for name in names:
        for partition in range(partitions):
            for _ in range(each // 5):
                produce_one_batch(broker, name, 5, partition=partition)
    consumer = make_consumer(*names, share_acknowledgement_mode="explicit", max_poll_records=50)
    seen: Counter[tuple[str, int, int]] = Counter()
    released: set[tuple[str, int, int]] = set()
    awaited = each * topics * partitions
    while awaited:
        for record in poll_until(consumer, 1):
            place = (record.topic, record.partition, record.offset)
            seen[place] += 1
            assert record.delivery_count == seen[place]
            word = ACCEPT if place in released else source.choice([ACCEPT, REJECT, RELEASE])
            if word is RELEASE:
                released.add(place)
            else:
                awaited -= 1
            consumer.acknowledge(record, word)
    assert set(consumer.commit_sync().values()) <= {None}
    assert released == {place for place, times in seen.items() if times == 2}
    assert max(seen.values()) == 2
    assert len(seen) == each * topics * partitions
    assert poll_once_more(consumer) == []


@pytest.mark.behaviour("membership")
def test_records_can_be_acknowledged_when_the_consumer_has_unsubscribed(
    broker: ReferenceBroker, consumer: Consumer, make_consumer: MakeConsumer
) -> None:
    """After unsubscribe, acknowledge and commit_sync still work, and the consumer can subscribe again."""
    produce_values(broker, "t", 2)
    first, second = poll_until(consumer, 2)
    consumer.unsubscribe()
    consumer.acknowledge(first)
    assert only_result(consumer.commit_sync()) is None
    consumer.subscribe(["t"])
    with pytest.raises(IllegalStateError, match="1 record of"):
        consumer.poll(timeout_ms=0)
    consumer.acknowledge(second)
    broker.produce("t", b"v")
    assert offsets(poll_until(consumer, 1)) == [2]


@pytest.mark.behaviour("explicit acknowledgement")
def test_acknowledgements_are_grouped_as_brokers_know_them_when_words_differ(
    broker: ReferenceBroker, consumer: Consumer
) -> None:
    """Acknowledgements are grouped as in Java's client: long runs by one type, mixed ones by a type for each offset."""
    produce_one_batch(broker, "t", 63)
    records = poll_until(consumer, 63)
    tail = ([ACCEPT] * 10 + [REJECT]) * 2 + [ACCEPT] * 10
    words = [*[ACCEPT] * 26, REJECT, ACCEPT, REJECT, ACCEPT, None, *tail]
    for record, word in zip(records, words, strict=True):
        if word is not None:
            consumer.acknowledge(record, word)
    assert only_result(consumer.commit_sync()) is None
    ((_, request),) = broker.requests(ShareAcknowledgeRequest.API_KEY)
    assert sent_batches(request) == [
        (0, 25, [ACCEPT]),
        (26, 29, [REJECT, ACCEPT, REJECT, ACCEPT]),
        (31, 62, tail),
    ]
    consumer.acknowledge(records[30])


def sent_batches(request: Any) -> list[tuple[int, int, list[int]]]:
    ((partition,),) = [topic.partitions for topic in request.topics]
    return [(b.first_offset, b.last_offset, list(b.acknowledge_types)) for b in partition.acknowledgement_batches]


@pytest.mark.behaviour("commits")
def test_acknowledgements_stand_when_the_records_are_thrown_away(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer, explicit_consumer: Consumer
) -> None:
    """Once acknowledged, a record object is not needed any more: the acknowledgement is kept by place, and sent."""
    produce_one_batch(broker, topic, 6)
    outcomes = outcomes_of(explicit_consumer)
    records = poll_until(explicit_consumer, 6)
    for record in records:
        explicit_consumer.acknowledge(record, AcknowledgeType.REJECT if record.offset % 2 else AcknowledgeType.ACCEPT)
    records.clear()
    del record
    gc.collect()
    assert only_result(explicit_consumer.commit_sync()) is None
    assert outcomes.succeeded == [(topic, 0, offset) for offset in range(6)]
    explicit_consumer.close()
    assert left_for_others(broker, make_consumer, topic) == []
