"""Topics page by page, replaced configs, elections and reassignments, and who writes transactions: without sockets.

What is expected is what Kafka 4.3.1 answered to the same requests.
"""

from __future__ import annotations

from typing import Any

import pytest
from broker.cluster_world import START_MS, World, batch

from kafka_share.errors import (
    InvalidProducerEpochError,
    InvalidReplicaAssignmentError,
    InvalidReplicationFactorError,
    InvalidRequestError,
    InvalidTopicError,
    NotLeaderOrFollowerError,
    UnknownTopicOrPartitionError,
)
from kafka_share.protocol.cluster import DescribeTopicPartitionsRequest, FindCoordinatorRequest, MetadataRequest
from kafka_share.protocol.configs import AlterConfigsRequest
from kafka_share.protocol.logs import ProduceRequest
from kafka_share.protocol.producers import (
    DescribeProducersRequest,
    DescribeTransactionsRequest,
    ListTransactionsRequest,
)
from kafka_share.protocol.replicas import (
    AlterPartitionReassignmentsRequest,
    DescribeLogDirsRequest,
    ElectLeadersRequest,
    ListPartitionReassignmentsRequest,
)
from kafka_share.protocol.transactions import EndTxnRequest, InitProducerIdRequest, WriteTxnMarkersRequest

INVALID_REGULAR_EXPRESSION = 128
COORDINATOR_FENCED, NO_PREFERRED, NONE_ELIGIBLE, NOT_NEEDED, NO_REASSIGNMENT, NO_ID = 52, 80, 83, 84, 85, 105
TOPIC = 2


# ---- Metadata


@pytest.mark.parametrize("name", [None, "", "other"])
def test_metadata_goes_by_the_id_of_a_topic_whatever_stands_beside_it(name: str | None) -> None:
    """Java sends an empty name with the id."""
    world = World()
    topic = world.topic("t")
    world.topic("other")
    asked = MetadataRequest.MetadataRequestTopic(name=name, topic_id=topic.id)
    (found,) = world.ask(MetadataRequest(topics=[asked])).topics
    assert (found.error_code, found.name, found.topic_id) == (0, "t", topic.id)


# ---- DescribeTopicPartitions


def pages(world: World, *names: str, limit: int = 2_000, cursor: tuple[str, int] | None = None) -> Any:
    kind = DescribeTopicPartitionsRequest
    return world.ask(
        kind(
            topics=[kind.TopicRequest(name=name) for name in names],
            response_partition_limit=limit,
            cursor=None if cursor is None else kind.Cursor(topic_name=cursor[0], partition_index=cursor[1]),
        )
    )


def listed(answer: Any) -> tuple[list[tuple[str, int, list[int]]], tuple[str, int] | None]:
    topics = [(one.name, one.error_code, [p.partition_index for p in one.partitions]) for one in answer.topics]
    cursor = answer.next_cursor
    return topics, None if cursor is None else (cursor.topic_name, cursor.partition_index)


def two_topics() -> World:
    world = World()
    world.topic("b", 2)
    world.topic("a", 2)
    return world


def test_topics_come_sorted_and_once_with_errors_for_those_that_do_not_exist() -> None:
    answer = pages(two_topics(), "b", "nope", "a", "a", "b:ad")
    unknown, bad = UnknownTopicOrPartitionError.code, InvalidTopicError.code
    assert listed(answer) == ([("a", 0, [0, 1]), ("b", 0, [0, 1]), ("b:ad", bad, []), ("nope", unknown, [])], None)
    assert answer.topics[0].authorized_operations == {3, 4, 5, 6, 7, 8, 10, 11}


@pytest.mark.parametrize(
    ("limit", "first", "cursor"),
    [
        (1, [("a", 0, [0])], ("a", 1)),
        (0, [("a", 0, [0])], ("a", 1)),
        (2, [("a", 0, [0, 1])], ("b", 0)),
        (3, [("a", 0, [0, 1]), ("b", 0, [0])], ("b", 1)),
        (4, [("a", 0, [0, 1]), ("b", 0, [0, 1])], None),
    ],
)
def test_a_page_ends_after_so_many_partitions(limit: int, first: Any, cursor: Any) -> None:
    assert listed(pages(two_topics(), limit=limit)) == (first, cursor)


def test_the_pages_together_have_every_partition_once() -> None:
    world, seen, cursor = two_topics(), [], None
    for _ in range(4):
        topics, cursor = listed(pages(world, "a", "b", limit=1, cursor=cursor))
        seen += [(name, index) for name, _, indexes in topics for index in indexes]
    assert (seen, cursor) == ([("a", 0), ("a", 1), ("b", 0), ("b", 1)], None)


@pytest.mark.parametrize("cursor", [("a", -1), ("aa", 0), ("c", 0)])
def test_a_cursor_is_refused_when_it_names_no_topic_of_the_request(cursor: tuple[str, int]) -> None:
    code = InvalidRequestError.code
    assert listed(pages(two_topics(), "b", "a", cursor=cursor)) == ([("b", code, []), ("a", code, [])], None)


# ---- AlterConfigs


def replace(world: World, *configs: tuple[str, str | None], validate_only: bool = False) -> int:
    kind = AlterConfigsRequest.AlterConfigsResource
    values = [kind.AlterableConfig(name=name, value=value) for name, value in configs]
    resource = kind(resource_type=TOPIC, resource_name="a", configs=values)
    answer = world.ask(AlterConfigsRequest(resources=[resource], validate_only=validate_only))
    return int(answer.responses[0].error_code)


def test_altered_configs_replace_those_that_were_set() -> None:
    world = two_topics()

    def own() -> dict[str, str]:
        return world.cluster.configs.own_values(TOPIC, "a")  # type: ignore[arg-type]  # the number is the member

    assert replace(world, ("max.message.bytes", "1000")) == 0
    assert replace(world, ("message.timestamp.type", "LogAppendTime")) == 0
    assert own() == {"message.timestamp.type": "LogAppendTime"}
    assert replace(world, validate_only=True) == 0
    assert replace(world, ("max.message.bytes", None)) == InvalidRequestError.code
    assert replace(world, ("max.message.bytes", "1"), ("max.message.bytes", "2")) == InvalidRequestError.code
    assert own() == {"message.timestamp.type": "LogAppendTime"}
    assert replace(world) == 0
    assert own() == {}


# ---- replicas


def elect(world: World, kind: int, *asked: tuple[str, list[int]], everything: bool = False) -> list[tuple[int, int]]:
    topics = [ElectLeadersRequest.TopicPartitions(topic=name, partitions=indexes) for name, indexes in asked]
    answer = world.ask(ElectLeadersRequest(election_type=kind, topic_partitions=None if everything else topics))
    return [(p.partition_id, p.error_code) for one in answer.replica_election_results for p in one.partition_result]


def test_the_preferred_leader_leads_again_when_it_is_elected() -> None:
    world = World(nodes=2)
    topic = world.topic("t", 2, 2)
    first = topic.partitions[0]
    preferred, other = first.replicas
    world.cluster.move_leader(first, other, world.now_ms)
    assert elect(world, 0, everything=True) == [(0, 0)]
    assert first.leader_id == preferred
    assert elect(world, 0, ("t", [0, 9])) == [(0, NOT_NEEDED), (9, UnknownTopicOrPartitionError.code)]
    world.cluster.stop_node(preferred, world.now_ms)
    node = other
    request = ElectLeadersRequest(
        election_type=0, topic_partitions=[ElectLeadersRequest.TopicPartitions(topic="t", partitions=[0])]
    )
    (result,) = world.ask(request, node=node).replica_election_results
    assert result.partition_result[0].error_code == NO_PREFERRED


def test_an_unclean_election_finds_nobody_when_no_replica_runs() -> None:
    world = World(nodes=2)
    partition = world.topic("t", 1, 1).partitions[0]
    assert elect(world, 1, ("t", [0])) == [(0, NOT_NEEDED)]
    assert elect(world, 5, ("t", [0])) == [(0, InvalidRequestError.code)]
    world.cluster.stop_node(partition.leader_id, world.now_ms)
    assert elect(world, 1, ("t", [0])) == [(0, NONE_ELIGIBLE)]


@pytest.mark.parametrize(
    ("replicas", "any_factor", "code"),
    [
        ([2], True, 0),
        ([2, 1], True, 0),
        ([2, 1], False, InvalidReplicationFactorError.code),
        ([], True, InvalidReplicaAssignmentError.code),
        ([1, 1], True, InvalidReplicaAssignmentError.code),
        ([7], True, InvalidReplicaAssignmentError.code),
        (None, True, NO_REASSIGNMENT),
    ],
)
def test_replicas_move_at_once_or_not_at_all(replicas: list[int] | None, any_factor: bool, code: int) -> None:
    world = World(nodes=2)
    partition = world.topic("t").partitions[0]
    before = partition.replicas
    assert before == (1,)
    kind = AlterPartitionReassignmentsRequest.ReassignableTopic
    asked = kind(name="t", partitions=[kind.ReassignablePartition(partition_index=0, replicas=replicas)])
    answer = world.ask(AlterPartitionReassignmentsRequest(topics=[asked], allow_replication_factor_change=any_factor))
    assert answer.responses[0].partitions[0].error_code == code
    assert partition.replicas == (before if code else tuple(replicas or ()))
    assert partition.leader_id in partition.replicas
    assert world.ask(ListPartitionReassignmentsRequest(topics=None)).topics == []


def test_a_node_describes_the_logs_that_it_has_replicas_of() -> None:
    world = World(nodes=2)
    topic = world.topic("t", 2)
    records = batch(3)
    world.cluster.append(topic.partitions[0], records, world.now_ms)
    found = {}
    for node in (1, 2):
        (log_dir,) = world.ask(DescribeLogDirsRequest(topics=None), node=node).results
        found.update({(node, p.partition_index): p.partition_size for t in log_dir.topics for p in t.partitions})
    assert found == {(1, 0): len(records), (2, 1): 0}


# ---- producers and transactions


class Writer:
    """A transactional producer of the second protocol version."""

    def __init__(self) -> None:
        self.world = World()
        self.world.topic("t")
        self.init()

    def init(self) -> None:
        answer = self.world.ask(InitProducerIdRequest(transactional_id="tx", transaction_timeout_ms=60_000))
        self.id, self.epoch = answer.producer_id, answer.producer_epoch

    def write(self, count: int = 1, epoch: int | None = None) -> int:
        topic = ProduceRequest.TopicProduceData
        fields = {"producer_id": self.id, "producer_epoch": self.epoch if epoch is None else epoch}
        records = batch(count, base_sequence=0, is_transactional=True, **fields)
        data = topic(name="t", partition_data=[topic.PartitionProduceData(index=0, records=records)])
        request = ProduceRequest(transactional_id="tx", acks=-1, timeout_ms=1_000, topic_data=[data])
        return int(self.world.ask(request, 12).responses[0].partition_responses[0].error_code)

    def end(self, *, committed: bool) -> None:
        request = EndTxnRequest(
            transactional_id="tx", producer_id=self.id, producer_epoch=self.epoch, committed=committed
        )
        self.epoch = self.world.ask(request, 5).producer_epoch

    def mark(self, epoch: int, coordinator_epoch: int, name: str = "t") -> int:
        kind = WriteTxnMarkersRequest.WritableTxnMarker
        marker = kind(
            producer_id=self.id,
            producer_epoch=epoch,
            transaction_result=False,
            topics=[kind.WritableTxnMarkerTopic(name=name, partition_indexes=[0])],
            coordinator_epoch=coordinator_epoch,
        )
        (result,) = self.world.ask(WriteTxnMarkersRequest(markers=[marker]), 1).markers
        return int(result.topics[0].partitions[0].error_code)

    def described(self) -> list[tuple[int, int, int, int]]:
        """Epoch, last sequence, coordinator epoch and start of the open transaction of each producer."""
        kind = DescribeProducersRequest
        answer = self.world.ask(kind(topics=[kind.TopicRequest(name="t", partition_indexes=[0])]))
        return [
            (one.producer_epoch, one.last_sequence, one.coordinator_epoch, one.current_txn_start_offset)
            for one in answer.topics[0].partitions[0].active_producers
        ]

    def state(self) -> tuple[str, int, dict[str, list[int]]]:
        (one,) = self.world.ask(DescribeTransactionsRequest(transactional_ids=["tx"])).transaction_states
        return one.transaction_state, one.transaction_start_time_ms, {t.topic: t.partitions for t in one.topics}

    def listed(self, **filters: Any) -> tuple[list[str], list[str]]:
        answer = self.world.ask(ListTransactionsRequest(**filters))
        return [one.transaction_state for one in answer.transaction_states], answer.unknown_state_filters


def test_producers_and_transactions_are_described_as_they_go_on() -> None:
    writer = Writer()
    assert (writer.described(), writer.state()) == ([], ("Empty", -1, {}))
    assert writer.write(3) == 0
    assert (writer.described(), writer.state()) == ([(0, 2, -1, 0)], ("Ongoing", START_MS, {"t": [0]}))
    writer.end(committed=True)
    assert (writer.described(), writer.state()) == ([(1, -1, 0, -1)], ("CompleteCommit", START_MS, {}))
    assert writer.write() == 0
    assert writer.described() == [(1, 0, 0, 4)]
    writer.end(committed=False)
    assert (writer.described(), writer.state()[0]) == ([(2, -1, 0, -1)], "CompleteAbort")
    assert writer.write(epoch=1) == InvalidProducerEpochError.code
    writer.init()
    assert writer.state() == ("Empty", -1, {})


def test_a_marker_of_an_admin_ends_a_transaction_in_the_partition_and_fences_old_epochs() -> None:
    writer = Writer()
    writer.end(committed=False)
    assert writer.write(2) == 0
    log = writer.world.cluster.topics.by_name("t").partitions[0].log  # type: ignore[union-attr]
    assert writer.mark(writer.epoch - 1, 0) == InvalidProducerEpochError.code
    assert writer.mark(writer.epoch, 0, name="nope") == UnknownTopicOrPartitionError.code
    assert log.last_stable_offset == 0
    assert writer.mark(writer.epoch, 5) == 0
    assert log.last_stable_offset == log.high_watermark == 3
    assert log.aborted_ranges(0, 1) == [(writer.id, 0, 2)]
    assert writer.described() == [(1, 1, 5, -1)]
    assert writer.mark(writer.epoch, 4) == COORDINATOR_FENCED
    assert writer.state()[0] == "Ongoing"


def test_transactions_are_listed_by_state_producer_and_duration() -> None:
    writer = Writer()
    writer.write()
    writer.world.advance(1_000)
    assert writer.listed() == (["Ongoing"], [])
    assert writer.listed(state_filters=["CompleteCommit"]) == ([], [])
    assert writer.listed(state_filters=["ongoing", "Ongoing"]) == (["Ongoing"], ["ongoing"])
    assert writer.listed(producer_id_filters=[writer.id + 1]) == ([], [])
    assert writer.listed(duration_filter=999) == (["Ongoing"], [])
    assert writer.listed(duration_filter=1_000) == ([], [])


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        (None, ["tx", "tx2"]),
        ("", ["tx", "tx2"]),
        ("tx", ["tx"]),
        ("t.*", ["tx", "tx2"]),
        ("(?i)TX|no", ["tx"]),
        ("x", []),
    ],
)
def test_transactions_are_listed_by_a_pattern_for_the_whole_id(pattern: str | None, found: list[str]) -> None:
    pytest.importorskip("re2", reason="it needs the extra broker-patterns")
    writer = Writer()
    writer.world.cluster.transactions.initialise("tx2", 60_000, (-1, -1), START_MS)
    answer = writer.world.ask(ListTransactionsRequest(transactional_id_pattern=pattern), 2)
    assert (answer.error_code, [one.transactional_id for one in answer.transaction_states]) == (0, found)


@pytest.mark.parametrize("pattern", ["(", "[a", "a{2000}", ".*(?=x)"])
def test_transactions_are_not_listed_by_what_is_no_pattern(pattern: str) -> None:
    answer = Writer().world.ask(ListTransactionsRequest(transactional_id_pattern=pattern, state_filters=["none"]), 2)
    assert (answer.error_code, answer.unknown_state_filters) == (INVALID_REGULAR_EXPRESSION, [])
    assert answer.transaction_states == []


def test_another_node_does_not_answer_for_producers_and_transactions() -> None:
    world = World(nodes=2)
    leader = world.topic("t").partitions[0].leader_id
    asked = DescribeProducersRequest(topics=[DescribeProducersRequest.TopicRequest(name="t", partition_indexes=[0])])
    answer = world.ask(asked, node=3 - leader)
    assert answer.topics[0].partitions[0].error_code == NotLeaderOrFollowerError.code
    found = world.ask(FindCoordinatorRequest(key_type=1, coordinator_keys=["tx"])).coordinators[0].node_id
    for node, code in ((found, NO_ID), (3 - found, 16)):
        (state,) = world.ask(DescribeTransactionsRequest(transactional_ids=["tx"]), node=node).transaction_states
        assert state.error_code == code
    (state,) = world.ask(DescribeTransactionsRequest(transactional_ids=[""])).transaction_states
    assert state.error_code == InvalidRequestError.code
