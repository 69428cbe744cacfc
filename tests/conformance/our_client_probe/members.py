"""Scenarios: membership, and groups of another type."""

from __future__ import annotations

import re
import threading
import time
from typing import Any

from conformance.our_client_probe.notation import listed, outcome, span, truth
from conformance.our_client_probe.registry import scenario
from conformance.our_client_probe.scene import Scene, accept_all
from support.waiting import pause


@scenario("member/max-poll-interval")
def _max_poll_interval(scene: Scene) -> str:
    """No poll for longer than max.poll.interval.ms; then acknowledge, commit, poll."""
    consumer = scene.watched(scene.begin(scene.explicit(scene.group(), max_poll_interval_ms=1_500), 2))
    records = scene.first(consumer)
    state = scene.await_state("Empty")
    accept_all(consumer, records)
    committed = scene.commit(consumer) + scene.told()
    polled = scene.call("", lambda: scene.records(consumer.poll(timeout_ms=1_000)))
    scene.produce(1)
    return f"{state} {committed} poll {polled} {scene.records(scene.first(consumer))}"


@scenario("member/max-poll-interval-unacked")
def _max_poll_interval_unacknowledged(scene: Scene) -> str:
    """The same without acknowledgements; then poll."""
    consumer = scene.begin(scene.explicit(scene.group(), max_poll_interval_ms=1_500), 2)
    scene.first(consumer)
    scene.await_state("Empty")
    return " ".join(
        [
            outcome(lambda: scene.records(consumer.poll(timeout_ms=1_000))),
            outcome(lambda: scene.records(consumer.poll(timeout_ms=3_000))),
        ]
    )


@scenario("member/one-long-poll")
def _one_long_poll(scene: Scene) -> str:
    """One poll that is longer than max.poll.interval.ms."""
    consumer = scene.begin(scene.consumer(scene.group(), max_poll_interval_ms=1_500), 0)
    thread = threading.Thread(target=lambda: outcome(lambda: consumer.poll(timeout_ms=6_000)))
    thread.start()
    joined = left = False
    while thread.is_alive():
        is_member = bool(scene.desk.share_group(scene.named("g")).members)
        left = left or (joined and not is_member)
        joined = joined or is_member
        pause()
    assert joined
    return f"left the group during one poll longer than max.poll.interval.ms: {truth(left)}"


@scenario("member/two-on-one-partition")
def _two_on_one_partition(scene: Scene) -> str:
    """Two members and one partition, as the coordinator describes them."""
    members = [scene.consumer(scene.group()) for _ in range(2)]
    topic = scene.topic()
    for member in members:
        member.subscribe([topic])
    for _ in range(8):
        for member in members:
            scene.poll(member, "", 250)
    group = scene.desk.share_group(scene.named("g"))
    assigned = sorted(listed(_assigned(scene, member)) for member in group.members)
    host = re.sub(r"\d+(\.\d+){3}", "IP", group.members[0].client_host)
    return f"{listed(assigned)} {group.group_state} host={host} client={group.members[0].client_id}"


def _assigned(scene: Scene, member: Any) -> list[str]:
    topics = member.assignment.topic_partitions
    return [f"{scene.rename(topic.topic_name)}-{partition}" for topic in topics for partition in topic.partitions]


@scenario("member/share-on-consumer-group")
def _share_on_consumer_group(scene: Scene) -> str:
    """Join a group that is a consumer group."""
    topic = scene.topic()
    with scene.desk.classic_member(scene.named("g"), topic):
        consumer = scene.consumer(scene.named("g"))
        consumer.subscribe([topic])
        polled = scene.polls(consumer, 3_000)
        again = outcome(lambda: len(consumer.poll(timeout_ms=300)))
        began_at_s = time.monotonic()
        return f"{polled} again {again} close {outcome(consumer.close)}{span(began_at_s)}"


@scenario("member/group-deleted-under-member")
def _group_deleted_under_member(scene: Scene) -> str:
    """Delete the group while it has a member."""
    consumer = scene.begin(scene.consumer(scene.group()), 0)
    scene.poll(consumer, "", 1_500)
    return outcome(lambda: scene.desk.delete_group(scene.named("g")))
