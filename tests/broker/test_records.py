"""Produce, Fetch, ListOffsets and DeleteRecords through the cluster."""

from __future__ import annotations

from typing import Any

import pytest
from broker.cluster_world import START_MS, World, batch

from kafka_share.errors import (
    CorruptMessageError,
    FencedLeaderEpochError,
    InvalidRecordError,
    InvalidRequestError,
    InvalidRequiredAcksError,
    MessageTooLargeError,
    NotLeaderOrFollowerError,
    OffsetOutOfRangeError,
    OutOfOrderSequenceNumberError,
    UnknownLeaderEpochError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
)
from kafka_share.protocol.logs import FetchRequest, ListOffsetsRequest, ProduceRequest
from kafka_share.protocol.topics import DeleteRecordsRequest
from kafka_share.protocol.transactions import InitProducerIdRequest


def produce(world: World, topic: Any, records: bytes, *, index: int = 0, acks: int = -1, **more: Any) -> Any:
    data = ProduceRequest.TopicProduceData
    answer = world.ask(
        ProduceRequest(
            acks=acks,
            timeout_ms=1_000,
            topic_data=[
                data(
                    name=topic.name,
                    topic_id=topic.id,
                    partition_data=[data.PartitionProduceData(index=index, records=records)],
                )
            ],
        ),
        more.pop("version", 9),
        **more,
    )
    return None if answer is None else answer.responses[0].partition_responses[0]


def fetch(world: World, topic: Any, offset: int = 0, version: int = 12, **fields: Any) -> Any:
    """Sends; the answer may be late."""
    asked = FetchRequest.FetchTopic
    connection, node = fields.pop("connection", 1), fields.pop("node", 1)
    partition = asked.FetchPartition(
        partition=fields.pop("index", 0),
        current_leader_epoch=fields.pop("leader_epoch", -1),
        fetch_offset=offset,
        partition_max_bytes=fields.pop("partition_max_bytes", 1_000_000),
    )
    request = FetchRequest(
        max_wait_ms=fields.pop("max_wait_ms", 500),
        min_bytes=fields.pop("min_bytes", 1),
        max_bytes=fields.pop("max_bytes", 1_000_000),
        topics=[asked(topic=topic.name, topic_id=topic.id, partitions=[partition])],
        **fields,
    )
    return world.ask(request, version, connection=connection, node=node)


def data_of(answer: Any) -> Any:
    return answer.responses[0].partitions[0]


@pytest.mark.parametrize("version", [3, 9, 12, 13])
@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_what_was_produced_comes_back_when_it_is_fetched(version: int, codec: str) -> None:
    world = World()
    topic = world.topic("t")
    produced = produce(world, topic, batch(3, codec=codec), version=version)
    assert (produced.error_code, produced.base_offset) == (0, 0)
    for fetch_version in (4, 12, 18):
        found = data_of(fetch(world, topic, version=fetch_version))
        assert (found.error_code, found.high_watermark) == (0, 3)
        assert bytes(found.records)[12 + 5 :] == batch(3, codec=codec)[12 + 5 :]


@pytest.mark.parametrize("node", [1, 2])
def test_every_version_is_answered_whether_the_node_leads_or_not(node: int) -> None:
    world = World(nodes=2)
    topic = world.topic("t")
    code = 0 if node == 1 else NotLeaderOrFollowerError.code
    for version in range(3, 14):
        assert produce(world, topic, batch(), node=node, version=version).error_code == code
    for version in range(4, 19):
        assert data_of(fetch(world, topic, node=node, version=version)).error_code == code
    for version in range(1, 12):
        assert list_offset(world, topic, -2, node=node, version=version)[0] == code


def test_nothing_is_answered_when_acks_is_zero() -> None:
    world = World()
    topic = world.topic("t")
    assert produce(world, topic, batch(), acks=0) is None
    assert topic.partition(0).log.high_watermark == 1


def test_a_batch_is_refused_when_something_about_it_is_wrong() -> None:
    world = World(nodes=2, config={"message.max.bytes": "100"})
    topic = world.topic("t")
    good = batch(1)
    assert produce(world, topic, good[:-1] + b"\xff").error_code == CorruptMessageError.code
    assert produce(world, topic, b"").error_code == InvalidRecordError.code
    assert produce(world, topic, good + good).error_code == InvalidRecordError.code
    assert produce(world, topic, batch(50)).error_code == MessageTooLargeError.code
    assert produce(world, topic, good, acks=2).error_code == InvalidRequiredAcksError.code
    assert produce(world, topic, good, index=1).error_code == UnknownTopicOrPartitionError.code
    moved = produce(world, topic, good, node=2, version=10)
    assert moved.error_code == NotLeaderOrFollowerError.code
    assert (moved.current_leader.leader_id, moved.current_leader.leader_epoch) == (1, 0)
    assert topic.partition(0).log.high_watermark == 0
    world.cluster.delete_topic(topic, world.now_ms)
    assert produce(world, topic, good, version=13).error_code == UnknownTopicIdError.code


def test_a_repeated_batch_is_answered_with_its_first_offset_when_the_producer_is_idempotent() -> None:
    world = World()
    topic = world.topic("t")
    producer = world.ask(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0)).producer_id

    def send(sequence: int) -> Any:
        records = batch(2, producer_id=producer, producer_epoch=0, base_sequence=sequence)
        return produce(world, topic, records)

    assert [send(0).base_offset, send(2).base_offset, send(0).base_offset] == [0, 2, 0]
    assert send(6).error_code == OutOfOrderSequenceNumberError.code
    assert topic.partition(0).log.high_watermark == 4


def test_producer_ids_differ_and_transactions_are_refused() -> None:
    world = World()
    ids = [world.ask(InitProducerIdRequest(transactional_id=None)).producer_id for _ in range(3)]
    assert len(set(ids)) == 3
    again = world.ask(InitProducerIdRequest(transactional_id=None, producer_id=ids[0], producer_epoch=0))
    assert (again.producer_id, again.producer_epoch) == (ids[0], 1)
    assert world.ask(InitProducerIdRequest(transactional_id="tx")).error_code != 0


def test_records_carry_the_time_of_the_append_when_the_topic_says_so() -> None:
    world = World(config={"log.message.timestamp.type": "LogAppendTime"})
    topic = world.topic("t")
    assert produce(world, topic, batch(2, 5)).log_append_time_ms == START_MS
    assert topic.partition(0).log.offset_for_timestamp(START_MS) == (0, START_MS)


def test_a_fetch_waits_for_records_when_there_are_none() -> None:
    world = World()
    topic = world.topic("t")
    assert fetch(world, topic) is None
    waiting = world.last_id
    world.advance(499)
    assert world.late == {}
    produce(world, topic, batch(), connection=2)
    assert len(data_of(world.late.pop(waiting)).records) > 0


def test_a_fetch_comes_back_empty_when_its_time_is_up() -> None:
    world = World()
    topic = world.topic("t")
    assert fetch(world, topic) is None
    world.advance(500)
    found = data_of(world.late.pop(world.last_id))
    assert (found.error_code, bytes(found.records)) == (0, b"")


def test_a_fetch_waits_for_enough_when_it_asks_for_more_than_there_is() -> None:
    world = World()
    topic = world.topic("t")
    produce(world, topic, batch())
    assert fetch(world, topic, min_bytes=len(batch()) + 1) is None
    waiting = world.last_id
    produce(world, topic, batch(), connection=2)
    assert len(data_of(world.late.pop(waiting)).records) == 2 * len(batch())


def test_a_waiting_fetch_is_told_when_the_leader_moves_or_the_topic_goes() -> None:
    world = World(nodes=2)
    moved, gone = world.topic("moved", 1, 2), world.topic("gone", 1, 2)
    assert fetch(world, moved, connection=1) is None
    first = world.last_id
    assert fetch(world, gone, connection=2, node=2) is None
    second = world.last_id
    world.cluster.move_leader(moved.partition(0), 2, world.now_ms)
    world.cluster.delete_topic(gone, world.now_ms)
    world.take_answers()
    assert data_of(world.late.pop(first)).error_code == NotLeaderOrFollowerError.code
    assert data_of(world.late.pop(second)).error_code == UnknownTopicOrPartitionError.code


def test_nothing_is_sent_when_the_connection_of_a_waiting_fetch_ends() -> None:
    world = World()
    topic = world.topic("t")
    assert fetch(world, topic, connection=7) is None
    world.disconnect(7)
    assert world.machine.wake_at_ms() is None


def test_an_error_is_told_at_once_when_the_offset_or_the_epoch_is_wrong() -> None:
    world = World(nodes=2)
    topic = world.topic("t", 1, 2)
    world.cluster.move_leader(topic.partition(0), 2, world.now_ms)
    assert data_of(fetch(world, topic, 1, node=2)).error_code == OffsetOutOfRangeError.code
    assert data_of(fetch(world, topic, node=2, leader_epoch=0)).error_code == FencedLeaderEpochError.code
    assert data_of(fetch(world, topic, node=2, leader_epoch=2)).error_code == UnknownLeaderEpochError.code
    answer = fetch(world, topic, node=1, version=16)
    assert data_of(answer).current_leader.leader_id == 2
    assert [node.node_id for node in answer.node_endpoints] == [2]


def test_a_producer_at_the_wrong_node_is_told_the_leader_and_where_it_is() -> None:
    world = World(nodes=2)
    topic = world.topic("t", 1, 2)
    world.cluster.move_leader(topic.partition(0), 2, world.now_ms)
    data = ProduceRequest.TopicProduceData

    def asked(version: int) -> Any:
        sent = data(name="t", topic_id=topic.id, partition_data=[data.PartitionProduceData(index=0, records=batch())])
        answer = world.ask(ProduceRequest(acks=1, timeout_ms=1, topic_data=[sent]), version)
        (refused,) = answer.responses[0].partition_responses
        assert refused.error_code == NotLeaderOrFollowerError.code
        return answer, refused

    for version in (10, 13):
        answer, refused = asked(version)
        assert refused.current_leader.leader_id == 2
        assert [node.node_id for node in answer.node_endpoints] == [2]
    assert asked(9)[0].node_endpoints == []


def test_bytes_are_limited_but_the_first_batch_always_comes() -> None:
    world = World()
    topic = world.topic("t")
    for _ in range(3):
        produce(world, topic, batch())
    size = len(batch())
    assert len(data_of(fetch(world, topic, max_bytes=1)).records) == size
    assert len(data_of(fetch(world, topic, partition_max_bytes=2 * size)).records) == 2 * size


def list_offset(world: World, topic: Any, timestamp: int, **more: Any) -> tuple[int, int, int]:
    asked = ListOffsetsRequest.ListOffsetsTopic
    answer = world.ask(
        ListOffsetsRequest(
            replica_id=-1,
            topics=[
                asked(
                    name=topic.name,
                    partitions=[asked.ListOffsetsPartition(partition_index=0, timestamp=timestamp)],
                )
            ],
        ),
        **more,
    )
    found = answer.topics[0].partitions[0]
    return found.error_code, found.offset, found.timestamp


def test_offsets_are_found_by_time_and_by_name() -> None:
    world = World(nodes=2)
    topic = world.topic("t")
    produce(world, topic, batch(2, START_MS))
    produce(world, topic, batch(2, START_MS + 500))
    assert list_offset(world, topic, -1) == (0, 4, -1)
    assert list_offset(world, topic, -2) == (0, 0, -1)
    assert list_offset(world, topic, -3) == (0, 3, START_MS + 501)
    assert list_offset(world, topic, START_MS + 100) == (0, 2, START_MS + 500)
    assert list_offset(world, topic, START_MS + 900) == (0, -1, -1)
    assert list_offset(world, topic, -4) == (0, 0, -1), "the first local one: nothing is tiered here"
    assert list_offset(world, topic, -5) == (0, -1, -1)
    assert list_offset(world, topic, -9)[0] == InvalidRequestError.code
    assert list_offset(world, world.topic("empty"), -3, node=2) == (0, -1, -1)
    assert list_offset(world, topic, -1, node=2)[0] == NotLeaderOrFollowerError.code


def test_deleted_records_are_out_of_range_when_they_are_fetched() -> None:
    world = World(nodes=2)
    topic = world.topic("t")
    produce(world, topic, batch(5))

    def delete(offset: int, index: int = 0, node: int = 1) -> Any:
        asked = DeleteRecordsRequest.DeleteRecordsTopic
        request = DeleteRecordsRequest(
            topics=[
                asked(name="t", partitions=[asked.DeleteRecordsPartition(partition_index=index, offset=offset)]),
            ],
            timeout_ms=1_000,
        )
        return world.ask(request, node=node).topics[0].partitions[0]

    assert delete(3).low_watermark == 3
    assert data_of(fetch(world, topic, 0)).error_code == OffsetOutOfRangeError.code
    assert delete(6).error_code == OffsetOutOfRangeError.code
    assert delete(3, index=7).error_code == UnknownTopicOrPartitionError.code
    assert delete(3, node=2).error_code == NotLeaderOrFollowerError.code
    assert delete(-1).low_watermark == 5
