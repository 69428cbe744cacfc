"""Polling: how many records one poll returns, in which order, and what ends it early."""

from __future__ import annotations

import threading

import pytest
from facade.delivery_checks import counted, produce_one_batch, produce_values
from support.consumers import Consumer, MakeConsumer, Record
from support.waiting import looks, offsets, poll_once_more, poll_until, poll_while, wait_until

from kafka_share import ShareRecords, TimestampType, TopicPartition
from kafka_share.broker import ReferenceBroker
from kafka_share.errors import WakeupError
from kafka_share.protocol.share_fetch import ShareFetchRequest

SHARE_FETCH = ShareFetchRequest.API_KEY
INT32_MAX = 2**31 - 1


def poll_sizes(consumer: Consumer, count: int) -> list[int]:
    """How many records each poll that was not empty returned, until `count` have come."""
    sizes: list[int] = []
    while sum(sizes) < count:
        sizes.append(len(poll_until(consumer, 1)))
    return sizes


# ---- when records come


@pytest.mark.behaviour("polling")
def test_each_record_comes_with_the_next_poll_when_they_are_produced_one_by_one(
    broker: ReferenceBroker, topic: str, consumer: Consumer
) -> None:
    """Records that are produced one by one come one by one, each with the next poll."""
    for number in range(3):
        broker.produce(topic, b"v")
        assert counted(poll_until(consumer, 1)) == [(number, 1)]


@pytest.mark.behaviour("polling")
def test_records_come_when_every_poll_has_no_time(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer
) -> None:
    """poll(0) in a loop never waits and still delivers: progress is made from call to call."""
    produce_values(broker, topic, 20)
    consumer = make_consumer(topic, max_poll_records=5)
    found: list[Record] = []

    def poll() -> bool:
        found.extend(consumer.poll(timeout_ms=0))
        return len(found) >= 20

    wait_until(poll)
    assert counted(found) == [(offset, 1) for offset in range(20)]


@pytest.mark.behaviour("polling")
def test_one_fetch_at_a_time_is_under_way_when_many_polls_have_no_time(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer
) -> None:
    """However often poll(0) is called, the node has one ShareFetch waiting, not a queue of them."""
    consumer = make_consumer(topic, fetch_max_wait_ms=20_000)
    poll_while(consumer, lambda: not broker.requests(SHARE_FETCH))
    for _ in range(200):
        assert not consumer.poll(timeout_ms=0)
    broker.produce(topic, b"v")
    assert offsets(poll_until(consumer, 1)) == [0]
    assert len(broker.requests(SHARE_FETCH)) == 1


@pytest.mark.behaviour("polling")
def test_empty_partitions_stall_nothing_when_two_of_eight_have_records(
    broker: ReferenceBroker, make_consumer: MakeConsumer
) -> None:
    """Eight partitions with records in two of them: all arrive, and the others hold nothing up."""
    broker.create_topic("t", partitions=8)
    produce_values(broker, "t", 10, partitions=(2, 7))
    consumer = make_consumer("t", fetch_max_wait_ms=20_000)
    found = poll_until(consumer, 20)
    assert sorted((r.partition, r.offset) for r in found) == [(p, o) for p in (2, 7) for o in range(10)]


@pytest.mark.behaviour("polling")
def test_offsets_ascend_within_each_partition_when_one_member_reads_several(
    broker: ReferenceBroker, make_consumer: MakeConsumer
) -> None:
    """Per partition the records come in offset order, poll after poll, and `records()` gives them apart."""
    broker.create_topic("t", partitions=3)
    produce_values(broker, "t", 30, partitions=range(3))
    consumer = make_consumer("t", max_poll_records=7)
    seen: dict[TopicPartition, list[int]] = {TopicPartition("t", p): [] for p in range(3)}
    for _ in looks(lambda: f"too few records came: {seen}"):
        records = consumer.poll(timeout_ms=100)
        assert isinstance(records, ShareRecords)
        for where in sorted(records.partitions()):
            assert {TopicPartition(r.topic, r.partition) for r in records.records(where)} == {where}
            seen[where] += offsets(records.records(where))
        if sum(map(len, seen.values())) >= 90:
            break
    assert all(found == list(range(30)) for found in seen.values())


@pytest.mark.behaviour("polling")
def test_every_record_comes_whole_and_in_order_when_polls_return_two_at_a_time(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer
) -> None:
    """Two at a time, 1000 records come in the order of their offsets, with right key, value and timestamp."""
    for number in range(1000):
        broker.produce(topic, b"value %d" % number, key=b"key %d" % number, timestamp_ms=1_000 + number)
    consumer = make_consumer(topic, max_poll_records=2)
    found: list[Record] = []
    while len(found) < 1000:
        records = poll_until(consumer, 1)
        assert len(records) <= 2
        found += records
    for number, record in enumerate(found):
        assert (record.offset, record.delivery_count) == (number, 1)
        assert (record.key, record.value) == (b"key %d" % number, b"value %d" % number)
        assert (record.timestamp, record.timestamp_type) == (1_000 + number, TimestampType.CREATE_TIME)


# ---- sizes


@pytest.mark.behaviour("polling")
def test_a_record_is_delivered_when_it_is_larger_than_fetch_max_bytes(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer
) -> None:
    """fetch_max_bytes=1: an answer still holds at least one record batch (KAFKA-18936)."""
    broker.produce(topic, b"v")
    consumer = make_consumer(topic, fetch_max_bytes=1)
    assert offsets(poll_until(consumer, 1)) == [0]


@pytest.mark.behaviour("polling")
def test_small_and_large_records_both_arrive_when_one_fills_the_limit(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer
) -> None:
    """A limit of 10,000 bytes, one small record and one of 10,000 bytes: both arrive.

    Share consumers have no limit per partition any more, so that the one of the answer stands for it.
    """
    broker.produce(topic, b"small")
    broker.produce(topic, b"x" * 10_000)
    consumer = make_consumer(topic, fetch_max_bytes=10_000)
    assert [len(r.value) for r in poll_until(consumer, 2)] == [5, 10_000]


@pytest.mark.behaviour("polling")
def test_each_poll_has_one_record_when_fetch_max_bytes_holds_one_batch(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer
) -> None:
    """When fetch_max_bytes holds one record batch of one record, each poll returns one record."""
    for _ in range(100):
        broker.produce(topic, b"x" * 1_000)
    consumer = make_consumer(topic, fetch_max_bytes=1_500)
    assert poll_sizes(consumer, 100) == [1] * 100


@pytest.mark.behaviour("polling")
def test_no_record_comes_when_fetch_max_bytes_is_zero(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer
) -> None:
    """fetch_max_bytes=0 is accepted, and the answers never hold a record."""
    broker.produce(topic, b"v")
    consumer = make_consumer(topic, fetch_max_bytes=0, fetch_max_wait_ms=10)
    poll_while(consumer, lambda: len(broker.requests(SHARE_FETCH)) < 4)
    assert {request.max_bytes for _, request in broker.requests(SHARE_FETCH)} == {0}


@pytest.mark.behaviour("polling")
def test_the_answer_comes_at_once_when_fetch_min_bytes_is_zero(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer
) -> None:
    """fetch_min_bytes=0: a fetch of an empty topic is answered although its wait has not begun to run out."""
    consumer = make_consumer(topic, fetch_min_bytes=0, fetch_max_wait_ms=20_000)
    poll_while(consumer, lambda: len(broker.requests(SHARE_FETCH)) < 3)
    broker.produce(topic, b"v")
    assert offsets(poll_until(consumer, 1)) == [0]


@pytest.mark.behaviour("polling")
def test_the_answer_comes_when_the_wait_is_over_if_fetch_min_bytes_is_never_reached(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer
) -> None:
    """fetch_min_bytes at its maximum: no records come until fetch_max_wait_ms has passed, then all do."""
    consumer = make_consumer(topic, fetch_min_bytes=INT32_MAX, fetch_max_wait_ms=20_000)
    poll_while(consumer, lambda: not broker.requests(SHARE_FETCH))
    produce_values(broker, topic, 3)
    assert poll_once_more(consumer) == []
    broker.advance(20_000)
    assert offsets(poll_until(consumer, 3)) == [0, 1, 2]


# ---- max_poll_records


@pytest.mark.behaviour("polling")
def test_no_poll_exceeds_the_limit_when_each_record_is_a_batch(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer
) -> None:
    """Ten single-record batches: with max_poll_records 5 no poll has more, and two are needed."""
    produce_values(broker, topic, 10)
    sizes = poll_sizes(make_consumer(topic, max_poll_records=5), 10)
    assert max(sizes) <= 5
    assert sum(sizes) == 10


@pytest.mark.behaviour("polling")
def test_one_poll_takes_all_when_the_limit_allows_it(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer
) -> None:
    """Ten single-record batches come in one poll when max_poll_records is 10."""
    produce_values(broker, topic, 10)
    assert poll_sizes(make_consumer(topic, max_poll_records=10), 10) == [10]


@pytest.mark.behaviour("polling")
def test_the_whole_batch_comes_when_it_has_more_records_than_the_limit(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer
) -> None:
    """batch_optimized, the default: one batch of 10 comes in one poll although max_poll_records is 5."""
    produce_one_batch(broker, topic, 10)
    assert poll_sizes(make_consumer(topic, max_poll_records=5), 10) == [10]


@pytest.mark.behaviour("polling")
def test_a_batch_is_cut_when_the_mode_is_record_limit(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer
) -> None:
    """In record_limit mode a batch of 10 comes in two polls of exactly max_poll_records, 5."""
    produce_one_batch(broker, topic, 10)
    consumer = make_consumer(topic, max_poll_records=5, share_acquire_mode="record_limit")
    assert counted(poll_until(consumer, 1)) == [(offset, 1) for offset in range(5)]
    assert counted(poll_until(consumer, 1)) == [(offset, 1) for offset in range(5, 10)]
    assert {context.api_version for context, _ in broker.requests(SHARE_FETCH)} == {2}


@pytest.mark.behaviour("polling")
def test_records_come_one_by_one_when_record_limit_and_max_poll_records_are_one(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer
) -> None:
    """record_limit with max_poll_records 1, explicit: ten polls give one record each, each accepted and committed."""
    produce_one_batch(broker, topic, 10)
    consumer = make_consumer(
        topic, max_poll_records=1, share_acquire_mode="record_limit", share_acknowledgement_mode="explicit"
    )
    for offset in range(10):
        (record,) = poll_until(consumer, 1)
        assert (record.offset, record.delivery_count) == (offset, 1)
        consumer.acknowledge(record)
        assert list(consumer.commit_sync().values()) == [None]
    assert poll_once_more(consumer) == []


@pytest.mark.behaviour("polling")
def test_the_rest_of_a_batch_comes_when_its_first_part_was_committed(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer
) -> None:
    """In record_limit mode the rest of a batch comes when its first part was committed."""
    produce_one_batch(broker, topic, 15)
    consumer = make_consumer(
        topic, max_poll_records=10, share_acquire_mode="record_limit", share_acknowledgement_mode="explicit"
    )
    for expected in (range(10), range(10, 15)):
        records = poll_until(consumer, 1)
        assert offsets(records) == list(expected)
        for record in records:
            consumer.acknowledge(record)
        assert list(consumer.commit_sync().values()) == [None]


# ---- interruptions


@pytest.mark.behaviour("polling")
def test_the_record_is_kept_for_the_next_poll_when_wakeup_came_before_a_poll(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer
) -> None:
    """wakeup before poll(0) raises once, and a record that had been fetched is returned by a following poll."""
    consumer = make_consumer(topic, fetch_max_wait_ms=20_000)
    poll_while(consumer, lambda: not broker.requests(SHARE_FETCH))
    broker.produce(topic, b"v")  # the fetch that waits brings it, while nothing polls
    consumer.wakeup()
    consumer.wakeup()
    with pytest.raises(WakeupError):
        consumer.poll(timeout_ms=0)
    assert counted(poll_until(consumer, 1)) == [(0, 1)]


@pytest.mark.behaviour("polling")
def test_a_waiting_poll_ends_when_another_thread_calls_wakeup(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer
) -> None:
    """wakeup ends a poll that waits, once; the consumer goes on, and what the previous poll returned is accepted."""
    broker.produce(topic, b"v")
    consumer = make_consumer(topic, fetch_max_wait_ms=20_000)
    assert offsets(poll_until(consumer, 1)) == [0]
    fetches = len(broker.requests(SHARE_FETCH))

    def wake() -> None:
        wait_until(lambda: len(broker.requests(SHARE_FETCH)) > fetches)
        consumer.wakeup()

    waker = threading.Thread(target=wake)
    waker.start()
    with pytest.raises(WakeupError):
        consumer.poll(timeout_ms=30_000)
    waker.join()
    broker.produce(topic, b"v")
    assert counted(poll_until(consumer, 1)) == [(1, 1)]


@pytest.mark.behaviour("polling")
def test_the_next_poll_connects_again_when_the_connections_have_idled_out(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer
) -> None:
    """A consumer closes its idle connections; the next poll connects again and delivers.

    A record that was held while the connection idled out may come twice, none may be missing.
    """
    consumer = make_consumer(topic, connections_max_idle_ms=200)
    broker.produce(topic, b"v")
    seen = set(offsets(poll_until(consumer, 1)))
    wait_until(lambda: consumer.metrics()["consumer-metrics"]["connection-count"] == 0)
    broker.produce(topic, b"v")
    while len(seen) < 2:
        seen.update(offsets(poll_until(consumer, 1)))
    assert len({context.connection_id for context, _ in broker.requests(SHARE_FETCH)}) > 1
