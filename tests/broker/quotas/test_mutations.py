"""The quota `controller_mutation_rate`: who makes and deletes partitions too fast. As in Kafka 4.3.1."""

from __future__ import annotations

from typing import Any

import pytest
from broker.cluster_world import World

from kafka_share.broker.quotas.token_bucket import TokenBucket
from kafka_share.errors import (
    InvalidPartitionsError,
    InvalidTopicError,
    ThrottlingQuotaExceededError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
)
from kafka_share.protocol.cluster import MetadataRequest
from kafka_share.protocol.topics import CreatePartitionsRequest, CreateTopicsRequest, DeleteTopicsRequest

EXCEEDED = ThrottlingQuotaExceededError.code
OF_CLIENT = (("client-id", "test"),)
Answer = tuple[list[int], int]
"""Error codes, and how long to wait."""


@pytest.fixture
def world() -> World:
    """The client may make a partition a second, and eleven at once."""
    made = World()
    made.cluster.client_quotas.alter(OF_CLIENT, {"controller_mutation_rate": 1.0})
    return made


def create(world: World, *topics: tuple[str, int], version: int = 7, validate_only: bool = False) -> Answer:
    asked = [
        CreateTopicsRequest.CreatableTopic(
            name=name, num_partitions=partitions, replication_factor=1, assignments=[], configs=[]
        )
        for name, partitions in topics
    ]
    answer = world.ask(CreateTopicsRequest(topics=asked, timeout_ms=1, validate_only=validate_only), version)
    return [topic.error_code for topic in answer.topics], answer.throttle_time_ms


def delete(world: World, name: str, version: int = 6) -> Answer:
    state = DeleteTopicsRequest.DeleteTopicState(name=name, topic_id=None)
    asked: dict[str, Any] = {"topics": [state]} if version >= 6 else {"topic_names": [name]}
    answer = world.ask(DeleteTopicsRequest(timeout_ms=1, **asked), version)
    return [one.error_code for one in answer.responses], answer.throttle_time_ms


def grow(world: World, name: str, count: int, version: int = 3) -> Answer:
    asked = CreatePartitionsRequest.CreatePartitionsTopic(name=name, count=count, assignments=None)
    answer = world.ask(CreatePartitionsRequest(topics=[asked], timeout_ms=1, validate_only=False), version)
    return [one.error_code for one in answer.results], answer.throttle_time_ms


def auto_create(world: World, name: str) -> int:
    topics = [MetadataRequest.MetadataRequestTopic(name=name, topic_id=None)]
    answer = world.ask(MetadataRequest(topics=topics, allow_auto_topic_creation=True), 12)
    assert answer.throttle_time_ms == 0
    return int(answer.topics[0].error_code)


def names(world: World) -> list[str]:
    return [topic.name for topic in world.cluster.topics]


def test_more_may_be_made_at_once_than_the_quota_allows_and_nothing_until_that_is_made_up_for(world: World) -> None:
    assert create(world, ("a", 14)) == ([0], 0)
    assert create(world, ("b", 1), ("c", 1)) == ([EXCEEDED, EXCEEDED], 3_000)
    assert delete(world, "a") == ([EXCEEDED], 3_000)
    world.advance(1_000)
    assert grow(world, "a", 15) == ([EXCEEDED], 2_000)
    assert names(world) == ["a"]
    world.advance(2_000)
    assert delete(world, "a") == ([0], 0)
    assert create(world, ("a", 1)) == ([EXCEEDED], 14_000)
    world.advance(60_000)
    assert create(world, ("a", 11), ("b", 1), ("c", 1)) == ([0, 0, EXCEEDED], 1_000)


def test_what_is_refused_for_another_reason_does_not_count_and_says_so(world: World) -> None:
    codes = [InvalidTopicError.code, InvalidPartitionsError.code]
    assert create(world, ("no!", 50), ("b", 0)) == (codes, 0)
    assert create(world, ("a", 12)) == ([0], 0)
    assert create(world, ("a", 1), ("no!", 1), ("b", 0)) == ([TopicAlreadyExistsError.code, *codes], 0)
    assert delete(world, "none") == ([UnknownTopicOrPartitionError.code], 0)
    assert grow(world, "a", 2) == ([InvalidPartitionsError.code], 0)


def test_a_request_that_only_validates_counts(world: World) -> None:
    assert create(world, ("a", 12), validate_only=True) == ([0], 0)
    assert create(world, ("a", 1), validate_only=True) == ([EXCEEDED], 1_000)
    assert names(world) == []


def test_older_requests_are_carried_out_and_told_to_wait(world: World) -> None:
    assert create(world, ("a", 14), version=5) == ([0], 3_000)
    assert grow(world, "a", 15, version=2) == ([0], 4_000)
    assert delete(world, "a", version=4) == ([0], 19_000)
    assert names(world) == []
    assert create(world, ("a", 1)) == ([EXCEEDED], 19_000)


def test_topics_that_are_made_by_asking_for_them_count(world: World) -> None:
    assert create(world, ("a", 10)) == ([0], 0)
    codes = [auto_create(world, name) for name in ("b", "c", "d", "a")]
    assert codes == [0, 0, UnknownTopicOrPartitionError.code, 0]
    assert names(world) == ["a", "b", "c"]


def test_others_are_not_held_back(world: World) -> None:
    assert create(world, ("a", 20)) == ([0], 0)
    world.cluster.client_quotas.alter(OF_CLIENT, {"controller_mutation_rate": None})
    world.cluster.client_quotas.alter((("user", "somebody"),), {"controller_mutation_rate": 1.0})
    assert create(world, ("b", 20)) == ([0], 0)
    assert create(world, ("c", 20)) == ([0], 0)


@pytest.mark.parametrize(("rate", "wait_ms"), [(5e-324, 2**31 - 1), (1e-9, 2**31 - 1), (1e308, 0), (1.7e308, 0)])
def test_a_time_to_wait_fits_into_an_answer_whatever_the_quota_is(world: World, rate: float, wait_ms: int) -> None:
    world.cluster.client_quotas.alter(OF_CLIENT, {"controller_mutation_rate": rate, "producer_byte_rate": 1e-7})
    world.advance(5_000)
    create(world, ("a", 1))
    assert create(world, ("b", 1)) == ([EXCEEDED if wait_ms else 0], wait_ms)
    assert world.cluster.client_quotas.take("producer_byte_rate", "u", "test", 5, 0) > 0
    assert world.cluster.client_quotas.take("producer_byte_rate", "u", "test", 2**40, 0) == 2**31 - 1


def test_a_bucket_fills_with_time_and_not_beyond_what_eleven_seconds_allow() -> None:
    bucket = TokenBucket(2.0, 0)
    bucket.take(22, 2.0, 0)
    assert bucket.wait_ms(2.0, 0) == 0
    bucket.take(1, 2.0, 0)
    assert (bucket.wait_ms(2.0, 0), bucket.wait_ms(2.0, 300), bucket.wait_ms(2.0, 500)) == (500, 200, 0)
    bucket.take(24, 2.0, 1_000_000)
    assert bucket.wait_ms(2.0, 1_000_000) == 1_000
    assert bucket.wait_ms(1.0, 1_000_000) == 2_000, "the quota was lowered"
