"""Dead letters (KIP-1191) that were not written when their share partition stopped, as Kafka 4.4 does it."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from broker.cluster_world import World, batch
from support.share_requests import Limits, Topic, fetch_request

from kafka_share.broker.configs.configs import ResourceType
from kafka_share.broker.inspection import records_in
from kafka_share.broker.share.state_batches import StateBatch
from kafka_share.broker.share.state_records import StateKey
from kafka_share.errors import UnknownServerError

ARCHIVING = 3


def fetch(world: World, topic_id: Any) -> Any:
    answer = world.ask(fetch_request(Topic("t", topic_id, "g", 1), "m", 0, Limits(max_wait_ms=1_000), ()))
    if answer is None:
        world.advance(1_000)
        answer = world.late[world.last_id]
    return answer.responses[0].partitions[0]


def stored(world: World, delivery_count: int) -> Any:
    """A topic of three records, the first of which is ARCHIVING; its id."""
    topic = world.topic("t")
    world.cluster.append(topic.partitions[0], batch(3), world.now_ms)
    key = StateKey("g", topic.id, 0)
    world.cluster.share_states.initialize(key, 1, 0, world.now_ms)
    world.cluster.share_states.write(
        key,
        state_epoch=1,
        leader_epoch=0,
        start_offset=0,
        delivery_complete_count=0,
        batches=[StateBatch(0, 0, ARCHIVING, delivery_count)],
        now_ms=world.now_ms,
    )
    return topic.id


@pytest.mark.parametrize(("delivery_count", "message"), [(1, b"Offset rejected"), (5, b"Offset delivery count")])
@pytest.mark.parametrize("still_wanted", [True, False])
def test_the_letter_is_written_when_the_state_is_loaded(
    delivery_count: int, message: bytes, still_wanted: bool
) -> None:
    world = World(kafka_version="4.4", share_version=2)
    letters = world.topic("dlq.t")
    configs = world.cluster.configs
    configs.set_values(ResourceType.TOPIC, "dlq.t", {"errors.deadletterqueue.group.enable": "true"})
    if still_wanted:
        configs.set_values(ResourceType.GROUP, "g", {"errors.deadletterqueue.topic.name": "dlq.t"})
    topic_id = stored(world, delivery_count)
    acquired = fetch(world, topic_id).acquired_records
    assert [(one.first_offset, one.last_offset) for one in acquired] == [(1, 2)]
    said = [
        dict(letter.headers)["__dlq.errors.message"]
        for letter in records_in(letters.partitions[0], read_committed=False)
    ]
    assert len(said) == still_wanted
    assert all((text or b"").startswith(message) for text in said)
    share_partition = world.cluster.share_nodes[1].share_partition("g", topic_id, 0)
    assert share_partition is not None
    assert share_partition.window.start_offset == 1


def test_kafka_4_3_takes_a_state_with_dead_letters_for_damaged() -> None:
    world = World()
    assert fetch(world, stored(world, 1)).error_code == UnknownServerError.code


ENABLED = {"errors.deadletterqueue.group.enable": "true"}


@pytest.mark.parametrize(
    ("name", "settings", "problem"),
    [
        ("dlq.t", None, "there is no topic dlq.t, and the broker may not make it"),
        ("dlq.t", {}, "does not have errors.deadletterqueue.group.enable=true"),
        ("other", ENABLED, "does not begin with 'dlq.'"),
        ("dlq.t", {**ENABLED, "max.message.bytes": "10"}, "dlq.t-0 does not take it"),
        ("dlq.t", {**ENABLED, "cleanup.policy": "compact"}, "takes no record without a key"),
    ],
)
def test_a_letter_that_cannot_be_written_is_an_error_in_the_log_and_its_record_is_archived(
    name: str, settings: dict[str, str] | None, problem: str, caplog: pytest.LogCaptureFixture
) -> None:
    world = World(kafka_version="4.4", share_version=2)
    configs = world.cluster.configs
    if settings is not None:
        world.topic(name)
        configs.set_values(ResourceType.TOPIC, name, settings)
    configs.set_values(ResourceType.GROUP, "g", {"errors.deadletterqueue.topic.name": name})
    topic_id = stored(world, 1)
    with caplog.at_level(logging.ERROR):
        acquired = fetch(world, topic_id).acquired_records
    assert [(one.first_offset, one.last_offset) for one in acquired] == [(1, 2)]
    (line,) = caplog.messages
    assert line.startswith("offsets 0 to 0 of t-0, which group 'g' has given up, get no dead letter: ")
    assert problem in line
    share_partition = world.cluster.share_nodes[1].share_partition("g", topic_id, 0)
    assert share_partition is not None
    assert share_partition.window.start_offset == 1
