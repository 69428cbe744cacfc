"""RELEASE, REJECT, the delivery count and its limit, as an application sees them."""

from __future__ import annotations

from collections import Counter

import pytest
from facade.delivery_checks import (
    counted,
    left_for_others,
    only_result,
    produce_one_batch,
    produce_values,
    start_offset,
)
from support.consumers import Consumer, MakeConsumer, Record
from support.waiting import offsets, poll_until

from kafka_share import AcknowledgeType
from kafka_share.broker import ReferenceBroker


def release_all(consumer: Consumer) -> list[Record]:
    """Poll, release what came and commit it, so that it is back before the next poll."""
    records = poll_until(consumer, 1)
    for record in records:
        consumer.acknowledge(record, AcknowledgeType.RELEASE)
    assert only_result(consumer.commit_sync()) is None
    return records


@pytest.mark.behaviour("explicit acknowledgement")
def test_record_is_delivered_five_times_when_always_released(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer, explicit_consumer: Consumer
) -> None:
    """With the default limit the delivery counts are 1 to 5, and the fifth release archives the record."""
    broker.produce(topic, b"poison")
    assert [counted(release_all(explicit_consumer)) for _ in range(5)] == [[(0, count)] for count in range(1, 6)]
    explicit_consumer.close()
    assert left_for_others(broker, make_consumer, topic) == []


@pytest.mark.behaviour("delivery counts")
def test_every_record_is_seen_twice_when_the_limit_is_two(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer, explicit_consumer: Consumer
) -> None:
    """A member that always releases sees every offset exactly twice, a fresh member none of them."""
    produce_values(broker, topic, 5)
    broker.set_group_config("g", {"share.delivery.count.limit": "2"})
    seen: Counter[tuple[int, int]] = Counter()
    while sum(seen.values()) < 10:
        seen.update(counted(release_all(explicit_consumer)))
    assert seen == Counter((offset, count) for offset in range(5) for count in (1, 2))
    explicit_consumer.close()
    assert left_for_others(broker, make_consumer, topic) == []


@pytest.mark.behaviour("delivery counts")
def test_close_counts_as_a_delivery_when_records_were_held(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer
) -> None:
    """A close with acquired records counts as a delivery of them: each close brings a batch nearer to its limit.

    A batch whose count nears the limit is cut, so that one poisonous record does not take the others with it.
    """
    produce_one_batch(broker, topic, 10)
    seen = []
    for _ in range(6):
        consumer = make_consumer(topic)
        seen.append(counted(poll_until(consumer, 1)))
        consumer.close()
    whole = [[(offset, count) for offset in range(10)] for count in (1, 2, 3)]
    assert seen == [*whole, [(offset, 4) for offset in range(5)], [(0, 5)], [(1, 5)]]


@pytest.mark.behaviour("delivery counts")
def test_released_and_held_records_count_alike_when_the_consumer_closes(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer, explicit_consumer: Consumer
) -> None:
    """One record released and committed, the other kept until close: the next member sees both with count 2."""
    produce_values(broker, topic, 2)
    first, _ = poll_until(explicit_consumer, 2)
    explicit_consumer.acknowledge(first, AcknowledgeType.RELEASE)
    assert only_result(explicit_consumer.commit_sync()) is None
    explicit_consumer.close()
    assert counted(left_for_others(broker, make_consumer, topic)) == [(0, 2), (1, 2)]


@pytest.mark.behaviour("explicit acknowledgement")
def test_rejected_record_never_comes_again(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer, explicit_consumer: Consumer
) -> None:
    """REJECT archives: nobody gets the record again, and the start offset moves past it."""
    produce_values(broker, topic, 3)
    for record in poll_until(explicit_consumer, 3):
        explicit_consumer.acknowledge(record, AcknowledgeType.REJECT)
    assert only_result(explicit_consumer.commit_sync()) is None
    assert start_offset(broker, topic) == 3
    explicit_consumer.close()
    assert left_for_others(broker, make_consumer, topic) == []


@pytest.mark.behaviour("delivery counts")
def test_record_returns_to_its_own_consumer_when_its_lock_ends(
    broker: ReferenceBroker, topic: str, explicit_consumer: Consumer
) -> None:
    """An unacknowledged record comes back to the consumer that let its lock run out, with delivery count 2."""
    produce_values(broker, topic, 1)
    (record,) = poll_until(explicit_consumer, 1)
    broker.advance(30_001)
    explicit_consumer.acknowledge(record)
    assert [(r.offset, r.delivery_count) for r in poll_until(explicit_consumer, 1, explicit_consumer.acknowledge)] == [
        (0, 2)
    ]
    assert only_result(explicit_consumer.commit_sync()) is None


@pytest.mark.behaviour("delivery counts")
def test_deliveries_shrink_when_a_large_batch_nears_a_high_limit(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer
) -> None:
    """A batch of 512 that is always released comes whole five times, then in halves, the last time one by one."""
    produce_one_batch(broker, topic, 512)
    consumer = make_consumer(topic, share_acknowledgement_mode="explicit", release_backoff_ms=0, max_poll_records=512)
    broker.set_group_config("g", {"share.delivery.count.limit": "10"})
    sizes = [len(release_all(consumer)) for _ in range(10)]
    assert sizes == [512, 512, 512, 512, 512, 256, 128, 64, 32, 1]


@pytest.mark.behaviour("delivery counts")
def test_every_offset_is_delivered_ten_times_when_the_limit_is_ten(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer, explicit_consumer: Consumer
) -> None:
    """Cut into ever smaller deliveries, every offset still has all its ten attempts, and none more."""
    produce_one_batch(broker, topic, 40)
    broker.set_group_config("g", {"share.delivery.count.limit": "10"})
    seen: Counter[tuple[int, int]] = Counter()
    while sum(seen.values()) < 400:
        seen.update(counted(release_all(explicit_consumer)))
    assert seen == Counter((offset, count) for offset in range(40) for count in range(1, 11))
    explicit_consumer.close()
    assert left_for_others(broker, make_consumer, topic) == []


@pytest.mark.behaviour("delivery counts")
def test_deliveries_do_not_shrink_when_the_limit_is_two(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer
) -> None:
    """With a delivery limit of 2 a batch comes whole twice, and then no more."""
    produce_one_batch(broker, topic, 512)
    consumer = make_consumer(topic, share_acknowledgement_mode="explicit", release_backoff_ms=0, max_poll_records=512)
    broker.set_group_config("g", {"share.delivery.count.limit": "2"})
    assert [len(release_all(consumer)) for _ in range(2)] == [512, 512]
    consumer.close()
    assert left_for_others(broker, make_consumer, topic) == []


@pytest.mark.behaviour("fetching")
def test_only_the_poisonous_record_is_archived_when_it_kills_its_consumer_every_time(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer
) -> None:
    """A consumer that dies on one record of a batch loses that record alone: the smaller deliveries save the others."""
    produce_one_batch(broker, topic, 16)
    done: set[int] = set()
    last_count = 0
    while len(done) < 15:
        consumer = make_consumer(topic, share_acknowledgement_mode="explicit", release_backoff_ms=0)
        for record in poll_until(consumer, 1):
            if record.offset == 0:
                last_count = record.delivery_count
                break  # a crash: nothing of this delivery is acknowledged
            consumer.acknowledge(record)
            done.add(record.offset)
        consumer.close()
    assert done == set(range(1, 16))
    assert last_count == 5
    assert offsets(left_for_others(broker, make_consumer, topic)) == []


@pytest.mark.behaviour("fetching")
def test_two_records_come_together_and_then_one_by_one_when_always_released(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer
) -> None:
    """Two records of a batch that is always released come together three times, then one by one up to the limit."""
    produce_one_batch(broker, topic, 2)
    consumer = make_consumer(topic, share_acknowledgement_mode="explicit", release_backoff_ms=0, fetch_max_wait_ms=50)

    def release(record: Record) -> None:
        consumer.acknowledge(record, AcknowledgeType.RELEASE)

    deliveries = [counted(poll_until(consumer, 1, release)) for _ in range(7)]
    assert deliveries[:3] == [[(0, count), (1, count)] for count in (1, 2, 3)]
    assert deliveries[3:] == [[(0, 4)], [(1, 4)], [(0, 5)], [(1, 5)]]
    consumer.commit_sync()
    consumer.close()
    assert left_for_others(broker, make_consumer, topic) == []


@pytest.mark.behaviour("fetching")
def test_a_whole_batch_comes_five_times_when_the_broker_is_a_4_1(make_consumer: MakeConsumer) -> None:
    """Kafka 4.1 delivers a batch that is always released whole each time, five times."""
    with ReferenceBroker(kafka_version="4.1") as broker:
        broker.create_topic("t")
        broker.set_group_config("g", share_auto_offset_reset="earliest")
        produce_one_batch(broker, "t", 2)
        consumer = make_consumer(
            "t",
            reset=None,
            bootstrap_servers=broker.bootstrap_servers,
            share_acknowledgement_mode="explicit",
            release_backoff_ms=0,
        )
        assert [counted(release_all(consumer)) for _ in range(5)] == [[(0, n), (1, n)] for n in range(1, 6)]
        consumer.close()
