"""Topics that are deleted or grow while a consumer is at work on them, and leaders that move under its hands."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest
from facade.delivery_checks import counted, only_result, outcomes_of, produce_one_batch, produce_values
from support.consumers import QUICK, MakeConsumer
from support.waiting import looks, offsets, poll_until
from support.wire_connection import WireConnection

from kafka_share.broker import ReferenceBroker
from kafka_share.protocol.share_acknowledge import ShareAcknowledgeRequest
from kafka_share.protocol.share_fetch import ShareFetchRequest
from kafka_share.protocol.topics import CreatePartitionsRequest

LOCK_MS = 30_000


@pytest.fixture
def make_consumer(make_consumer: MakeConsumer) -> MakeConsumer:
    """Consumers that notice changes of topics soon, and make none by themselves."""
    return partial(make_consumer, fetch_max_wait_ms=50, metadata_max_age_ms=100, allow_auto_create_topics=False)


@pytest.fixture(params=["4.1", "4.2", "4.3", "4.4"])
def versioned(request: pytest.FixtureRequest) -> Iterator[ReferenceBroker]:
    """A broker of each version, whose members send heartbeats often."""
    quick = dict(QUICK)
    if request.param in ("4.3", "4.4"):
        quick["group.share.assignment.interval.ms"] = "0"
    with ReferenceBroker(config=quick, kafka_version=request.param) as broker:
        broker.set_group_config("g", share_auto_offset_reset="earliest")
        yield broker


def grow(broker: ReferenceBroker, topic: str, partitions: int) -> None:
    """Give the topic more partitions, as an admin client does."""
    asked = CreatePartitionsRequest.CreatePartitionsTopic(name=topic, count=partitions, assignments=None)
    with WireConnection(broker.bootstrap_servers) as admin:
        answer = admin.call(CreatePartitionsRequest(topics=[asked], timeout_ms=1_000, validate_only=False), 3)
    assert [result.error_code for result in answer.results] == [0]


@pytest.mark.behaviour("fetching")
def test_the_other_topic_is_delivered_when_one_is_deleted(
    versioned: ReferenceBroker, make_consumer: MakeConsumer
) -> None:
    """One of two topics is deleted while a fetch waits: nothing is raised, and the other's records arrive.

    Up to Kafka 4.3 an answer that fails as a whole loses what it acquired to everybody until the lock ends.
    """
    for name in ("bar", "baz"):
        versioned.create_topic(name)
        produce_values(versioned, name, 1)
    consumer = make_consumer("bar", "baz", reset=None, bootstrap_servers=versioned.bootstrap_servers)
    poll_until(consumer, 2)
    assert not consumer.poll(timeout_ms=0), "a fetch is waiting from here on"
    versioned.delete_topic("bar")
    produce_values(versioned, "baz", 3)
    seen: set[int] = set()
    for _ in looks(lambda: f"only these came: {seen}"):
        seen.update(offsets(consumer.poll(timeout_ms=50)))
        if seen == {1, 2, 3}:
            break
        versioned.advance(LOCK_MS // 4)
    assert seen == {1, 2, 3}
    consumer.close()


@pytest.mark.behaviour("fetching")
def test_records_of_new_partitions_come_when_a_topic_grows(
    versioned: ReferenceBroker, make_consumer: MakeConsumer
) -> None:
    """Two partitions become five while a consumer is at work: the new ones are delivered as well."""
    versioned.create_topic("t", partitions=2)
    consumer = make_consumer("t", reset=None, bootstrap_servers=versioned.bootstrap_servers)
    for partition in range(2):
        produce_one_batch(versioned, "t", 4, partition=partition)
    assert len(poll_until(consumer, 8)) == 8
    grow(versioned, "t", 5)
    for partition in range(5):
        produce_one_batch(versioned, "t", 4, partition=partition)
    found = poll_until(consumer, 20)
    assert sorted(counted(found)) == sorted([(4 + n, 1) for n in range(4)] * 2 + [(n, 1) for n in range(4)] * 3)
    consumer.close()


@pytest.mark.behaviour("explicit acknowledgement")
def test_acknowledgements_are_not_sent_to_the_new_leader_when_the_leader_moves(make_consumer: MakeConsumer) -> None:
    """The leader moves while records are acquired: acknowledging them fails, and only the old leader was ever asked.

    The new leader does not know their locks; it delivers them again.
    """
    with ReferenceBroker(nodes=2) as broker:
        broker.set_group_config("g", share_auto_offset_reset="earliest")
        broker.create_topic("t", replication_factor=2)
        consumer = make_consumer("t", reset=None, bootstrap_servers=broker.bootstrap_servers)
        outcomes = outcomes_of(consumer)
        produce_values(broker, "t", 3)
        held = poll_until(consumer, 3)
        old = broker.leader("t")
        new = 3 - old
        broker.move_leader("t", 0, new)
        assert only_result(consumer.commit_sync()) is not None
        assert [offset for offset, _ in outcomes.failed] == offsets(held)
        asked = [context.node_id for context, _ in broker.requests(ShareAcknowledgeRequest.API_KEY)]
        carried = [
            context.node_id
            for context, request in broker.requests(ShareFetchRequest.API_KEY)
            if any(p.acknowledgement_batches for t in request.topics for p in t.partitions)
        ]
        assert new not in (*asked, *carried)
        assert offsets(poll_until(consumer, 3)) == [0, 1, 2]
        assert only_result(consumer.commit_sync()) is None
        consumer.close()
