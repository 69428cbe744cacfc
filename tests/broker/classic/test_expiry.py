"""Producers and transactional ids that are not used any more are forgotten, by the clock. As in Kafka 4.3.1."""

from __future__ import annotations

from typing import Any

import pytest
from broker.classic.test_transactions import NOT_MAPPED, OUT_OF_SEQUENCE, Producer
from broker.cluster_world import START_MS, World

from kafka_share.broker.configs.configs import ResourceType
from kafka_share.protocol.producers import (
    DescribeProducersRequest,
    DescribeTransactionsRequest,
    ListTransactionsRequest,
)

DAY_MS = 86_400_000
PRODUCERS_LOOK_MS = 600_000
IDS_LOOK_MS = 3_600_000
NOT_FOUND = 105


def idempotent(world: World) -> Producer:
    """A producer without a transactional id, and what it sends is not transactional."""
    producer = Producer(world, transactional_id="")
    assert producer.init(transactional_id=None) == 0
    return producer


def write(producer: Producer, sequence: int | None = None, **fields: Any) -> int:
    if sequence is not None:
        producer.sequence = sequence
    return producer.produce(1, is_transactional=False, timestamp=producer.world.now_ms, **fields)


def producers(world: World) -> list[tuple[int, int, int]]:
    """(id, epoch, last sequence number) of those that DescribeProducers names."""
    topic = DescribeProducersRequest.TopicRequest(name="t", partition_indexes=[0])
    answer = world.ask(DescribeProducersRequest(topics=[topic]))
    found = answer.topics[0].partitions[0].active_producers
    return [(one.producer_id, one.producer_epoch, one.last_sequence) for one in found]


def in_a_long_transaction(**config: str) -> Producer:
    """A producer on a broker of its own that may leave its transaction open for ten days; one record is written."""
    world = World(config={"transaction.max.timeout.ms": str(10 * DAY_MS), **config})
    world.topic("t")
    producer = Producer(world)
    assert producer.init(transaction_timeout_ms=10 * DAY_MS) == 0
    assert (producer.add(0), producer.produce()) == ([0], 0)
    return producer


@pytest.fixture
def world() -> World:
    made = World()
    made.topic("t", 2)
    return made


def test_a_producer_that_has_written_nothing_for_a_day_is_forgotten_and_goes_on_with_any_number(world: World) -> None:
    producer = idempotent(world)
    assert [write(producer), write(producer)] == [0, 0]
    world.advance(DAY_MS - 1)
    assert producers(world) == [(producer.producer_id, 0, 1)]
    assert write(producer, 7) == OUT_OF_SEQUENCE
    world.advance(PRODUCERS_LOOK_MS)
    assert producers(world) == []
    assert [write(producer, 7), write(producer, 9), write(producer, 8)] == [0, OUT_OF_SEQUENCE, 0]


def test_what_is_sent_again_is_written_again_when_the_producer_was_forgotten(world: World) -> None:
    producer = idempotent(world)
    producer.epoch = 5
    assert write(producer) == 0
    world.advance(DAY_MS + PRODUCERS_LOOK_MS)
    producer.epoch = 3
    assert write(producer, 0) == 0, "a lower epoch is not fenced by what is forgotten"
    assert producers(world) == [(producer.producer_id, 3, 0)]
    assert world.cluster.topics.by_name("t").partitions[0].log.high_watermark == 2  # type: ignore[union-attr]


def test_it_is_the_time_of_its_records_that_counts(world: World) -> None:
    old, new = idempotent(world), idempotent(world)
    assert old.produce(1, is_transactional=False, timestamp=START_MS - 2 * DAY_MS) == 0
    assert new.produce(1, is_transactional=False, timestamp=START_MS + 1_000_000) == 0
    world.advance(PRODUCERS_LOOK_MS)
    assert producers(world) == [(new.producer_id, 0, 0)]
    world.advance(DAY_MS)
    assert producers(world) == [(new.producer_id, 0, 0)]
    world.advance(PRODUCERS_LOOK_MS)
    assert producers(world) == []
    assert world.cluster.producer_expiry.wake_at_ms() is None, "there is nothing left to look at"


def test_where_the_broker_sets_the_time_that_one_counts() -> None:
    world = World(config={"log.message.timestamp.type": "LogAppendTime"})
    world.topic("t")
    producer = idempotent(world)
    assert producer.produce(1, is_transactional=False, timestamp=0) == 0
    world.advance(PRODUCERS_LOOK_MS)
    assert len(producers(world)) == 1


def test_an_admin_says_how_long_a_producer_is_remembered(world: World) -> None:
    producer = idempotent(world)
    assert write(producer) == 0
    world.cluster.configs.set_values(ResourceType.BROKER, "", {"producer.id.expiration.ms": "1"})
    world.advance(PRODUCERS_LOOK_MS)
    assert producers(world) == []


def test_a_producer_with_an_open_transaction_is_not_forgotten() -> None:
    producer = in_a_long_transaction(**{"producer.id.expiration.ms": "1000"})
    world = producer.world
    world.advance(2 * PRODUCERS_LOOK_MS)
    assert producers(world) == [(producer.producer_id, 0, 0)]
    assert producer.produce() == 0
    assert producer.end(True) == 0
    world.advance(PRODUCERS_LOOK_MS)
    assert producers(world) == []


# ---- transactional ids


def described(world: World) -> tuple[int, str]:
    (state,) = world.ask(DescribeTransactionsRequest(transactional_ids=["tx"])).transaction_states
    return state.error_code, state.transaction_state


def listed(world: World) -> list[str]:
    answer = world.ask(ListTransactionsRequest(state_filters=[], producer_id_filters=[]))
    return [one.transactional_id for one in answer.transaction_states]


def test_a_transactional_id_that_is_not_used_for_a_week_is_forgotten_and_its_producer_has_to_begin_anew(
    world: World,
) -> None:
    producer = Producer(world)
    assert producer.init() == 0
    world.advance(3 * DAY_MS)
    assert (producer.add(0), producer.produce(), producer.end(True)) == ([0], 0, 0)
    world.advance(7 * DAY_MS - 1)
    assert (described(world), listed(world)) == ((0, "CompleteCommit"), ["tx"])
    world.advance(IDS_LOOK_MS)
    assert (described(world), listed(world)) == ((NOT_FOUND, ""), [])
    assert (producer.add(0), producer.end(True), producer.end(False, 5)) == ([NOT_MAPPED], NOT_MAPPED, NOT_MAPPED)
    assert (producer.produce(version=11), producer.produce(version=12)) == (NOT_MAPPED, NOT_MAPPED)
    before = producer.producer_id
    assert producer.init(producer_id=before, producer_epoch=producer.epoch) == 0
    assert (producer.producer_id != before, producer.epoch) == (True, 0)
    assert listed(world) == ["tx"]


def test_an_open_transaction_keeps_its_id() -> None:
    producer = in_a_long_transaction(**{"transactional.id.expiration.ms": "1000"})
    world = producer.world
    world.advance(2 * IDS_LOOK_MS)
    assert described(world) == (0, "Ongoing")
    assert producer.end(True) == 0
    world.advance(IDS_LOOK_MS)
    assert described(world) == (NOT_FOUND, "")
    assert world.cluster.transactions.wake_at_ms() is None, "there is nothing left to look at"


# ---- who begins where


def test_who_is_not_known_begins_with_0_in_the_second_protocol_of_transactions(world: World) -> None:
    producer = Producer(world)
    assert producer.init() == 0
    producer.sequence = 5
    assert producer.produce(version=12) == OUT_OF_SEQUENCE
    assert (producer.add(0), producer.produce(version=11)) == ([0], 0)


def test_a_new_epoch_that_only_a_marker_has_told_begins_with_0(world: World) -> None:
    producer = Producer(world)
    assert producer.init() == 0
    assert (producer.produce(version=12), producer.end(True, 5)) == (0, 0)
    producer.sequence = 5
    assert producer.produce(version=12) == OUT_OF_SEQUENCE
    assert (producer.add(0), producer.produce(version=11)) == ([0], OUT_OF_SEQUENCE)
    producer.sequence = 0
    assert producer.produce(version=12) == 0
