"""The topics of the coordinators, as clients see them. What is expected is what Kafka 4.3.1 answered."""

from __future__ import annotations

from typing import Any

import pytest
from broker.cluster_world import World, batch

from kafka_share.broker.faults import FaultPlan
from kafka_share.errors import (
    CoordinatorNotAvailableError,
    InvalidArgumentError,
    InvalidTopicError,
    TopicAlreadyExistsError,
)
from kafka_share.protocol.cluster import MetadataRequest
from kafka_share.protocol.configs import DescribeConfigsRequest
from kafka_share.protocol.logs import ProduceRequest
from kafka_share.protocol.share_group import ShareGroupHeartbeatRequest
from kafka_share.protocol.topics import CreateTopicsRequest, DeleteRecordsRequest, DeleteTopicsRequest

STATE = "__share_group_state"
TOPIC = 2


@pytest.fixture
def world() -> World:
    """A cluster in which a share group has initialised the state of a partition."""
    world = World(nodes=3)
    world.cluster.create_topic("t", [[1]])
    beat = ShareGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=0, subscribed_topic_names=["t"])
    assert world.ask(beat, node=world.cluster.coordinator_of("g").id).error_code == 0
    return world


def _leader(world: World, index: int) -> int:
    topic = world.cluster.topics.by_name(STATE)
    assert topic is not None
    return topic.partitions[index].leader_id


def _create(world: World, name: str) -> int:
    kind = CreateTopicsRequest
    answer = world.ask(kind(topics=[kind.CreatableTopic(name=name, num_partitions=1, replication_factor=1)]))
    code: int = answer.topics[0].error_code
    return code


def test_the_topic_is_internal_and_keeps_everything_when_it_has_been_made(world: World) -> None:
    topics = {topic.name: topic for topic in world.ask(MetadataRequest(topics=None)).topics}
    assert topics["t"].is_internal is False
    assert topics[STATE].is_internal is True
    assert [len(partition.replica_nodes) for partition in topics[STATE].partitions] == [3] * 50
    resource = DescribeConfigsRequest.DescribeConfigsResource(resource_type=TOPIC, resource_name=STATE)
    (found,) = world.ask(DescribeConfigsRequest(resources=[resource])).results
    own = {config.name: config.value for config in found.configs if config.config_source == 1}
    assert own == {
        "cleanup.policy": "delete",
        "compression.type": "producer",
        "retention.ms": "-1",
        "segment.bytes": "104857600",
    }
    assert _create(world, STATE) == TopicAlreadyExistsError.code


def test_nobody_else_writes_to_it_or_deletes_its_records(world: World) -> None:
    node = _leader(world, 0)
    of_topic = ProduceRequest.TopicProduceData
    data = of_topic(name=STATE, partition_data=[of_topic.PartitionProduceData(index=0, records=batch())])
    answer: Any = world.ask(ProduceRequest(acks=-1, timeout_ms=1_000, topic_data=[data]), 12, node=node)
    assert answer.responses[0].partition_responses[0].error_code == InvalidTopicError.code
    delete = DeleteRecordsRequest.DeleteRecordsTopic
    one = delete.DeleteRecordsPartition(partition_index=0, offset=-1)
    answer = world.ask(DeleteRecordsRequest(topics=[delete(name=STATE, partitions=[one])], timeout_ms=1), node=node)
    assert answer.topics[0].partitions[0].error_code == InvalidTopicError.code


def test_its_coordinator_forgets_everything_when_the_topic_is_deleted(world: World) -> None:
    assert world.cluster.share_states.keys("g")
    state = DeleteTopicsRequest.DeleteTopicState(name=STATE)
    answer = world.ask(DeleteTopicsRequest(topics=[state], timeout_ms=1_000))
    assert answer.responses[0].error_code == 0
    assert not world.cluster.share_states.keys("g")
    assert world.cluster.topics.by_name(STATE) is None


def test_a_topic_is_internal_by_its_name_when_somebody_else_makes_it() -> None:
    world = World()
    assert _create(world, STATE) == 0
    (topic,) = world.ask(MetadataRequest(topics=None)).topics
    assert (topic.is_internal, len(topic.partitions)) == (True, 1)


def test_heartbeats_are_answered_and_partitions_wait_when_their_state_cannot_be_stored(world: World) -> None:
    """The coordinator of the group tries again with the next heartbeat."""
    plan = FaultPlan()
    world.cluster.append_fault = plan.take_log_fault
    plan.fail_log(STATE, CoordinatorNotAvailableError, times=2)
    world.cluster.create_topic("u", [[1]])
    node = world.cluster.coordinator_of("h").id
    epoch = 0
    assigned = []
    for _ in range(5):
        beat = ShareGroupHeartbeatRequest(
            group_id="h", member_id="m", member_epoch=epoch, subscribed_topic_names=None if epoch else ["u"]
        )
        answer = world.ask(beat, node=node)
        assert answer.error_code == 0
        epoch = answer.member_epoch
        assigned.append(bool(answer.assignment and answer.assignment.topic_partitions))
        world.advance(1_000)
    assert assigned == [False, False, False, True, False]
    assert plan.pending() == 0


def test_a_fault_is_planned_for_topics_that_coordinators_write_to() -> None:
    plan = FaultPlan()
    for topic, times in (("t", 1), (STATE, 0)):
        with pytest.raises(InvalidArgumentError):
            plan.fail_log(topic, CoordinatorNotAvailableError, times)
    plan.fail_log(STATE, CoordinatorNotAvailableError.code)
    assert plan.take_log_fault("__consumer_offsets") is None
    assert plan.take_log_fault(STATE) is CoordinatorNotAvailableError
    plan.fail_log(STATE, CoordinatorNotAvailableError, 3)
    plan.clear()
    assert plan.take_log_fault(STATE) is None


def test_coordinators_read_their_logs_when_they_move(world: World) -> None:
    """What was never written is gone with the node that had it in memory."""
    group = world.cluster.share_groups.existing("g")
    group.members["m"].client_id = "never written"
    (key,) = world.cluster.share_states.keys("g")
    summary = world.cluster.share_states.summary(key)
    world.cluster.stop_node(world.cluster.coordinator_of("g").id, world.now_ms)
    moved = world.cluster.share_groups.existing("g")
    assert moved is not group
    assert (moved.epoch, moved.members["m"].client_id) == (group.epoch, "test")
    assert world.cluster.share_states.summary(key) == summary
    world.machine.check()
    answer = world.ask(
        ShareGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=moved.members["m"].epoch),
        node=world.cluster.coordinator_of("g").id,
    )
    assert answer.error_code == 0


def test_the_states_come_back_when_they_are_read_from_the_log(world: World) -> None:
    (key,) = world.cluster.share_states.keys("g")
    before = world.cluster.share_states.summary(key)
    world.cluster.load_coordinators(world.now_ms)
    world.machine.check()
    assert world.cluster.share_states.keys("g") == [key]
    assert world.cluster.share_states.summary(key) == before
