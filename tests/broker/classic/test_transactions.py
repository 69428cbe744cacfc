"""Transactional producers through the cluster: who may write, what readers see, what a second try is told."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from broker.cluster_world import World, batch
from broker.consumer_peer import Peer, fetch_offsets, stable_group

from kafka_share.errors import (
    InvalidGroupIdError,
    InvalidProducerEpochError,
    InvalidRecordError,
    InvalidRequestError,
    NotCoordinatorError,
    UnknownServerError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
)
from kafka_share.protocol.logs import FetchRequest, ListOffsetsRequest, ProduceRequest
from kafka_share.protocol.transactions import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    TxnOffsetCommitRequest,
    WriteTxnMarkersRequest,
)

INVALID_STATE, NOT_MAPPED, INVALID_TIMEOUT, NOT_ATTEMPTED, UNSTABLE, FENCED = 48, 49, 50, 55, 88, 90
OUT_OF_SEQUENCE = 45
TIMEOUT_MS = 60_000


class Producer:
    """A transactional producer that says what it is told to say."""

    def __init__(self, world: World, transactional_id: str = "tx", topic: str = "t") -> None:
        self.world, self.id, self.topic = world, transactional_id, topic
        self.producer_id, self.epoch, self.sequence = -1, -1, 0

    def init(self, version: int = 5, **fields: Any) -> int:
        values = {"transactional_id": self.id, "transaction_timeout_ms": TIMEOUT_MS, **fields}
        answer = self.world.ask(InitProducerIdRequest(**values), version)
        if answer.error_code == 0:
            self.producer_id, self.epoch, self.sequence = answer.producer_id, answer.producer_epoch, 0
        return int(answer.error_code)

    def add(self, *partitions: int, version: int = 3, topic: str | None = None) -> list[int]:
        asked = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[asked(name=topic or self.topic, partitions=list(partitions))],
        )
        answer = self.world.ask(request, version)
        return [p.partition_error_code for t in answer.results_by_topic_v3_and_below for p in t.results_by_partition]

    def produce(self, count: int = 1, version: int = 11, **fields: Any) -> int:
        topic = ProduceRequest.TopicProduceData
        records = batch(
            count,
            **{
                "producer_id": self.producer_id,
                "producer_epoch": self.epoch,
                "base_sequence": self.sequence,
                "is_transactional": True,
                **fields,
            },
        )
        partition = topic.PartitionProduceData(index=0, records=records)
        request = ProduceRequest(
            transactional_id=self.id or None,
            acks=-1,
            timeout_ms=1_000,
            topic_data=[topic(name=self.topic, partition_data=[partition])],
        )
        code = int(self.world.ask(request, version).responses[0].partition_responses[0].error_code)
        self.sequence += count if code == 0 else 0
        return code

    def end(self, committed: bool, version: int = 4) -> int:
        request = EndTxnRequest(
            transactional_id=self.id, producer_id=self.producer_id, producer_epoch=self.epoch, committed=committed
        )
        answer = self.world.ask(request, version)
        if version >= 5 and answer.error_code == 0:
            self.producer_id, self.epoch, self.sequence = answer.producer_id, answer.producer_epoch, 0
        return int(answer.error_code)

    def add_group(self, group: str) -> int:
        request = AddOffsetsToTxnRequest(
            transactional_id=self.id, producer_id=self.producer_id, producer_epoch=self.epoch, group_id=group
        )
        return int(self.world.ask(request).error_code)

    def commit_offset(self, group: str, offset: int, version: int = 4, **fields: Any) -> int:
        topic = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic
        partition = topic.TxnOffsetCommitRequestPartition(
            partition_index=fields.pop("partition", 0),
            committed_offset=offset,
            committed_metadata=fields.pop("note", ""),
        )
        topic_id = fields.pop("topic_id", None)
        request = TxnOffsetCommitRequest(
            transactional_id=self.id,
            group_id=group,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            **{"generation_id_or_member_epoch": -1, "member_id": "", **fields},
            topics=[topic(name=self.topic, topic_id=topic_id, partitions=[partition])],
        )
        return int(self.world.ask(request, version).topics[0].partitions[0].error_code)


def started() -> tuple[World, Producer]:
    world = World(config={"group.initial.rebalance.delay.ms": "0"})
    world.topic("t", 2)
    producer = Producer(world)
    assert producer.init() == 0
    return world, producer


def run_one(producer: Producer, committed: bool, count: int = 2) -> None:
    """A whole transaction."""
    assert producer.add(0) == [0]
    assert producer.produce(count) == 0
    assert producer.end(committed) == 0


def end_offsets(world: World) -> tuple[int, int]:
    """(last stable offset, high watermark)"""

    def end(level: int) -> int:
        asked = ListOffsetsRequest.ListOffsetsTopic
        one = asked.ListOffsetsPartition(partition_index=0, current_leader_epoch=-1, timestamp=-1)
        request = ListOffsetsRequest(replica_id=-1, isolation_level=level, topics=[asked(name="t", partitions=[one])])
        return int(world.ask(request, 6).topics[0].partitions[0].offset)

    return end(1), end(0)


def aborted(world: World) -> list[tuple[int, int]]:
    """What a read_committed fetch of everything names as aborted: (producer id, first offset)."""
    asked = FetchRequest.FetchTopic
    one = asked.FetchPartition(partition=0, current_leader_epoch=-1, fetch_offset=0, partition_max_bytes=1 << 20)
    request = FetchRequest(
        max_wait_ms=0, min_bytes=0, isolation_level=1, session_id=0, topics=[asked(topic="t", partitions=[one])]
    )
    (partition,) = world.ask(request, 12).responses[0].partitions
    return [(one.producer_id, one.first_offset) for one in partition.aborted_transactions or ()]


def test_readers_of_committed_records_wait_for_the_end_of_a_transaction() -> None:
    world, producer = started()
    run_one(producer, committed=True)
    assert end_offsets(world) == (3, 3), "two records and the marker"
    producer.add(0)
    producer.produce(2)
    assert end_offsets(world) == (3, 5)
    assert producer.end(committed=False) == 0
    assert end_offsets(world) == (6, 6)
    assert aborted(world) == [(producer.producer_id, 3)]
    run_one(producer, committed=True)
    assert aborted(world) == [(producer.producer_id, 3)]


def test_the_predecessor_is_fenced_and_its_transaction_aborted_when_a_producer_starts_anew() -> None:
    world, old = started()
    old.add(0)
    old.produce()
    new = Producer(world)
    assert new.init() == 0
    assert (new.producer_id, new.epoch) == (old.producer_id, old.epoch + 1)
    assert aborted(world) == [(old.producer_id, 0)]
    assert old.produce() == InvalidProducerEpochError.code
    assert old.add(0) == [FENCED]
    assert old.add(0, version=1) == [InvalidProducerEpochError.code]
    assert old.end(committed=True) == FENCED
    assert old.add_group("g") == FENCED
    stale = {"producer_id": old.producer_id, "producer_epoch": old.epoch}
    assert old.init(**stale) == FENCED
    assert old.init(3, **stale) == InvalidProducerEpochError.code
    run_one(new, committed=True)


def test_the_epoch_grows_when_a_producer_recovers_and_the_id_changes_when_it_is_used_up() -> None:
    world, producer = started()
    known = {"producer_id": producer.producer_id, "producer_epoch": producer.epoch}
    assert producer.init(**known) == 0
    assert (producer.producer_id, producer.epoch) == (known["producer_id"], 1)
    world.cluster.transactions.owned("tx", (producer.producer_id, 1)).epoch = 2**15 - 2
    assert producer.init() == 0
    assert producer.epoch == 0
    assert producer.producer_id != known["producer_id"]


def test_a_transaction_is_aborted_and_its_producer_fenced_when_it_is_open_for_too_long() -> None:
    world, producer = started()
    producer.add(0)
    producer.produce()
    world.advance(TIMEOUT_MS - 1)
    assert end_offsets(world) == (0, 1)
    world.advance(1)
    assert end_offsets(world) == (2, 2)
    assert aborted(world) == [(producer.producer_id, 0)]
    assert producer.end(committed=True) == FENCED
    assert producer.init() == 0
    run_one(producer, committed=True)


@pytest.mark.parametrize("committed", [True, False])
def test_an_end_is_answered_again_when_it_is_sent_again(committed: bool) -> None:
    world, producer = started()
    run_one(producer, committed)
    end = end_offsets(world)
    assert producer.end(committed) == 0
    assert producer.end(not committed) == INVALID_STATE
    assert end_offsets(world) == end, "there is no second marker"


def test_nothing_ends_when_nothing_was_begun() -> None:
    _, producer = started()
    assert producer.end(committed=True) == producer.end(committed=False) == INVALID_STATE
    stranger = Producer(producer.world, "other")
    assert stranger.end(committed=True) == NOT_MAPPED
    assert stranger.add(0) == [NOT_MAPPED]


def test_every_end_raises_the_epoch_when_the_second_protocol_is_spoken() -> None:
    world, producer = started()
    first = (producer.producer_id, producer.epoch)
    assert producer.produce(2, version=12) == 0, "writing adds the partition"
    assert producer.end(committed=True, version=5) == 0
    assert (producer.producer_id, producer.epoch) == (first[0], first[1] + 1)
    again = Producer(world)
    again.producer_id, again.epoch = first
    assert again.end(committed=True, version=5) == 0, "its answer was lost"
    assert again.epoch == producer.epoch
    assert producer.end(committed=False, version=5) == 0, "an abort of nothing only raises the epoch"
    assert producer.produce(1, version=12) == 0
    assert producer.end(committed=False, version=5) == 0
    assert end_offsets(world) == (5, 5)


def test_batches_are_refused_when_they_do_not_belong_to_the_transaction() -> None:
    _, producer = started()
    assert producer.produce() == INVALID_STATE, "the partition was not added"
    producer.add(0)
    assert producer.produce(is_transactional=False) == InvalidRecordError.code
    assert producer.produce(is_control=True) == InvalidRecordError.code
    assert producer.produce(producer_id=99) == NOT_MAPPED
    assert producer.produce(base_sequence=0) == 0
    assert producer.produce(base_sequence=7) == OUT_OF_SEQUENCE
    producer.id = ""
    assert producer.produce() == InvalidRecordError.code, "the request names no transactional id"


def test_partitions_are_added_all_or_none() -> None:
    _, producer = started()
    assert producer.add(0, 9) == [NOT_ATTEMPTED, UnknownTopicOrPartitionError.code]
    assert producer.produce() == INVALID_STATE
    asked = AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction

    def ask(verify_only: bool) -> list[int]:
        one = asked(
            transactional_id="tx",
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            verify_only=verify_only,
            topics=[asked.AddPartitionsToTxnTopic(name="t", partitions=[0])],
        )
        answer = producer.world.ask(AddPartitionsToTxnRequest(transactions=[one]))
        (result,) = answer.results_by_transaction
        return [p.partition_error_code for t in result.topic_results for p in t.results_by_partition]

    assert ask(verify_only=True) == [INVALID_STATE]
    assert ask(verify_only=False) == [0]
    assert ask(verify_only=True) == [0]


def test_a_producer_is_refused_when_its_values_cannot_be() -> None:
    _, producer = started()
    assert producer.init(transaction_timeout_ms=0) == producer.init(transaction_timeout_ms=900_001) == INVALID_TIMEOUT
    assert producer.init(transactional_id="") == InvalidRequestError.code
    assert producer.add_group("") == InvalidGroupIdError.code
    assert producer.commit_offset("", 1) == InvalidGroupIdError.code
    pair = World(2)
    elsewhere = 3 - pair.cluster.coordinator_of("tx").id
    request = InitProducerIdRequest(transactional_id="tx", transaction_timeout_ms=TIMEOUT_MS)
    assert pair.ask(request, node=elsewhere).error_code == NotCoordinatorError.code
    end = EndTxnRequest(transactional_id="tx", producer_id=0, producer_epoch=0, committed=True)
    assert pair.ask(end, node=elsewhere).error_code == NotCoordinatorError.code


def test_the_transaction_goes_on_without_a_topic_that_was_deleted() -> None:
    world, producer = started()
    producer.add(0)
    producer.produce()
    topic = world.cluster.topics.by_name("t")
    assert topic is not None
    world.cluster.delete_topic(topic, world.now_ms)
    world.take_answers()
    assert producer.end(committed=True) == 0


# ---- offsets


def test_offsets_count_when_their_transaction_is_committed() -> None:
    world, producer = started()
    (member,) = stable_group(world, 1)
    who: dict[str, Any] = {"generation_id_or_member_epoch": member.generation, "member_id": member.member_id}
    member.commit({("t", 0): 1})
    for committed, expected in ((False, 1), (True, 5)):
        assert producer.commit_offset("g", 5, **who) == INVALID_STATE, "the group was not added"
        assert producer.add_group("g") == 0
        assert producer.commit_offset("g", 5, **who) == 0
        assert fetch_offsets(world, "g", {"t": [0]}) == {("t", 0): (1, 0)}
        assert fetch_offsets(world, "g", {"t": [0, 1]}, stable=True) == {("t", 0): (-1, UNSTABLE), ("t", 1): (-1, 0)}
        assert producer.end(committed) == 0
        assert fetch_offsets(world, "g", {"t": [0]}, stable=True) == {("t", 0): (expected, 0)}


def test_an_offset_is_refused_when_member_partition_or_note_are_wrong() -> None:
    world, producer = started()
    (member,) = stable_group(world, 1)
    who: dict[str, Any] = {"generation_id_or_member_epoch": member.generation, "member_id": member.member_id}
    producer.add_group("g")
    assert producer.commit_offset("g", 5, **{**who, "generation_id_or_member_epoch": 9}) == 22
    assert producer.commit_offset("g", 5, **who, partition=7) == UnknownTopicOrPartitionError.code
    assert producer.commit_offset("g", 5, **who, note="x" * 5_000) == 12
    assert producer.commit_offset("g", 5) == 0, "a producer need not say who read the records"
    assert producer.commit_offset("new", 5, version=5) == 0, "its offsets add the group"
    producer.end(committed=True)
    assert fetch_offsets(world, "new", None) == {("t", 0): (5, 0)}
    stranger = Producer(world, "other")
    assert stranger.commit_offset("g", 5) == NOT_MAPPED


def test_offsets_of_an_open_transaction_go_with_their_group() -> None:
    world, producer = started()
    producer.add_group("g")
    producer.commit_offset("g", 5)
    world.cluster.classic_groups.delete("g", world.now_ms)
    assert producer.end(committed=True) == 0
    assert Peer(world, 1).commit({("t", 1): 2}) == [0]
    assert fetch_offsets(world, "g", None) == {("t", 1): (2, 0)}


def test_offsets_are_committed_by_topic_id_from_kafka_4_4_on() -> None:
    world = World(config={"group.initial.rebalance.delay.ms": "0"}, kafka_version="4.4")
    topic = world.topic("t", 2)
    producer = Producer(world)
    assert producer.init() == 0
    assert producer.commit_offset("g", 5, version=6, topic_id=UUID(int=7)) == UnknownTopicIdError.code
    assert (
        producer.commit_offset("g", 5, version=6, topic_id=topic.id, partition=2) == UnknownTopicOrPartitionError.code
    )
    assert producer.commit_offset("g", 5, version=6, topic_id=topic.id) == 0
    assert producer.end(True) == 0
    assert fetch_offsets(world, "g", {"t": [0]}, stable=True) == {("t", 0): (5, 0)}


@pytest.mark.parametrize("committed", [True, False])
def test_a_marker_that_an_admin_sends_to_the_offsets_topic_ends_the_commits_of_all_its_groups(committed: bool) -> None:
    world, producer = started()
    offsets = world.cluster.journal
    beside = next(name for name in map(str, range(1_000)) if offsets.home_of(name) == offsets.home_of("g"))
    elsewhere = next(name for name in map(str, range(1_000)) if offsets.home_of(name) != offsets.home_of("g"))
    for group in ("g", beside, elsewhere):
        assert producer.add_group(group) == 0
        assert producer.commit_offset(group, 5) == 0

    def mark(epoch: int, coordinator_epoch: int = 0) -> int:
        kind = WriteTxnMarkersRequest.WritableTxnMarker
        topic = kind.WritableTxnMarkerTopic(name="__consumer_offsets", partition_indexes=[offsets.home_of("g")])
        marker = kind(
            producer_id=producer.producer_id,
            producer_epoch=epoch,
            transaction_result=committed,
            topics=[topic],
            coordinator_epoch=coordinator_epoch,
        )
        (result,) = world.ask(WriteTxnMarkersRequest(markers=[marker])).markers
        return int(result.topics[0].partitions[0].error_code)

    assert mark(producer.epoch - 1) == UnknownServerError.code
    assert fetch_offsets(world, "g", {"t": [0]}, stable=True) == {("t", 0): (-1, UNSTABLE)}
    assert mark(producer.epoch) == 0
    assert mark(producer.epoch, -5) == 52
    expected = (5 if committed else -1, 0)
    for group in ("g", beside):
        assert fetch_offsets(world, group, {"t": [0]}, stable=True) == {("t", 0): expected}
    assert fetch_offsets(world, elsewhere, {"t": [0]}, stable=True) == {("t", 0): (-1, UNSTABLE)}
    world.cluster.load_coordinators(world.now_ms)
    assert fetch_offsets(world, "g", {"t": [0]}, stable=True) == {("t", 0): expected}
    assert producer.end(True) == 0
    assert fetch_offsets(world, elsewhere, {"t": [0]}, stable=True) == {("t", 0): (5, 0)}
    assert fetch_offsets(world, "g", {"t": [0]}, stable=True) == {("t", 0): expected}
