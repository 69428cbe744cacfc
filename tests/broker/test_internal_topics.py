"""The topics of the coordinators, as clients see them. What is expected is what Kafka 4.3.1 answered."""

from __future__ import annotations

from typing import Any

import pytest
from broker.cluster_world import World, batch

from kafka_share.errors import InvalidTopicError, TopicAlreadyExistsError
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
    assert own == {"retention.ms": "-1", "segment.bytes": "104857600"}
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


def test_the_states_come_back_when_they_are_read_from_the_log(world: World) -> None:
    (key,) = world.cluster.share_states.keys("g")
    before = world.cluster.share_states.summary(key)
    world.cluster.load_coordinators(world.now_ms)
    world.machine.check()
    assert world.cluster.share_states.keys("g") == [key]
    assert world.cluster.share_states.summary(key) == before
