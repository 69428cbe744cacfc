"""Scenarios: subscriptions, and topics that come, go, grow and come again."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

from conformance.our_client_probe.notation import listed, outcome, truth
from conformance.our_client_probe.registry import scenario
from conformance.our_client_probe.scene import Consumer, Scene


@scenario("sub/arguments")
def _arguments(scene: Scene) -> str:
    """subscribe with arguments that are no topics, with duplicates, and with none; the answer is the subscription."""
    consumer = scene.consumer(scene.group())
    wrong: list[tuple[str, Any]] = [("null", None), ("[null]", [None]), ("['']", [""]), ("['  ']", ["  "])]
    told = [f"{name}:{outcome(partial(consumer.subscribe, topics))}" for name, topics in wrong]
    told.append(f"state:{_subscription(consumer)}")
    told.append(f"[a,a]:{_subscribed(consumer, ['a', 'a'])}")
    told.append(f"[b]:{_subscribed(consumer, ['b'])}")
    told.append(f"then ['']:{outcome(lambda: consumer.subscribe(['']))}{_subscription(consumer)}")
    told.append(f"[]:{_subscribed(consumer, [])}")
    consumer.unsubscribe()
    told.append(f"unsub:{_subscription(consumer)}")
    consumer.subscribe(["b"])
    told.append(f"modify:{outcome(lambda: consumer.subscription().add('q'))}")  # type: ignore[attr-defined]
    return listed(told)


def _subscription(consumer: Consumer) -> str:
    return listed(sorted(consumer.subscription()))


def _subscribed(consumer: Consumer, topics: list[str]) -> str:
    consumer.subscribe(topics)
    return _subscription(consumer)


def _polled(consumer: Consumer) -> str:
    return outcome(lambda: len(consumer.poll(timeout_ms=100)))


@scenario("sub/poll-without")
def _poll_without(scene: Scene) -> str:
    """poll without a subscription, and without a timeout."""
    consumer = scene.consumer(scene.group())
    return f"{_polled(consumer)} null:{outcome(lambda: consumer.poll(timeout_ms=None))}"  # type: ignore[arg-type]


@scenario("sub/poll-after-unsubscribe")
def _poll_after_unsubscribe(scene: Scene) -> str:
    """poll after unsubscribe; unsubscribe again."""
    consumer = scene.begin(scene.consumer(scene.group()), 0)
    consumer.poll(timeout_ms=300)
    consumer.unsubscribe()
    polled = _polled(consumer)
    consumer.unsubscribe()
    return f"{polled} sub={_subscription(consumer)}"


@scenario("sub/poll-after-subscribe-empty")
def _poll_after_subscribe_empty(scene: Scene) -> str:
    """poll after subscribing to no topics."""
    consumer = scene.begin(scene.consumer(scene.group()), 0)
    consumer.poll(timeout_ms=300)
    consumer.subscribe([])
    return _polled(consumer)


@scenario("sub/never-subscribed-other-calls")
def _never_subscribed(scene: Scene) -> str:
    """The other methods of a consumer that never subscribed."""
    consumer = scene.consumer(scene.group())
    return (
        f"sub={_subscription(consumer)} commit_sync={scene.commit(consumer)} "
        f"commit_async={outcome(consumer.commit_async)} unsubscribe={outcome(consumer.unsubscribe)} "
        f"lock={consumer.acquisition_lock_timeout_ms} close={outcome(consumer.close)}"
    )


@scenario("sub/invalid-name-space")
def _invalid_name_space(scene: Scene) -> str:
    """Poll with a topic name that Kafka does not allow."""
    consumer = scene.consumer(scene.group())
    consumer.subscribe(["topic abc"])
    return scene.polls(consumer, 10_000)


@scenario("sub/invalid-name-caret")
def _invalid_name_caret(scene: Scene) -> str:
    """Poll with a pattern for a name."""
    consumer = scene.consumer(scene.group())
    scene.topic()
    scene.produce(3)
    consumer.subscribe([f"^{scene.named('t1')}$"])
    return scene.polls(consumer, 4_000)


def _missing_topic(scene: Scene, **config: Any) -> str:
    consumer = scene.consumer(scene.group(), **config)
    consumer.subscribe([scene.named("no")])
    return f"{scene.polls(consumer, 2_500)} created={truth(scene.desk.has_topic(scene.named('no')))}"


@scenario("sub/missing-topic-noautocreate")
def _missing_topic_stays_missing(scene: Scene) -> str:
    """Poll for a topic that does not exist and must not be created."""
    return _missing_topic(scene, allow_auto_create_topics=False)


@scenario("sub/missing-topic-default")
def _missing_topic_is_created(scene: Scene) -> str:
    """Poll for a topic that does not exist and may be created."""
    return _missing_topic(scene, allow_auto_create_topics=True)


@scenario("sub/topic-created-later")
def _topic_created_later(scene: Scene) -> str:
    """The topic is created, with records, after the first polls."""
    consumer = scene.consumer(scene.group(), allow_auto_create_topics=False, metadata_max_age_ms=1_000)
    consumer.subscribe([scene.named("t1")])
    scene.polls(consumer, 1_500)
    scene.topic(partitions=2)
    scene.produce(2, partition=0)
    scene.produce(2, partition=1)
    return scene.records(scene.drain(consumer, 4, 20_000))


@scenario("sub/partitions-added")
def _partitions_added(scene: Scene) -> str:
    """The topic gets partitions with records while it is consumed."""
    consumer = scene.begin(scene.consumer(scene.group(), metadata_max_age_ms=1_000), 2)
    before = scene.records(scene.drain(consumer, 2, 15_000))
    scene.desk.add_partitions(scene.named("t1"), 3)
    scene.produce(2, partition=1)
    scene.produce(2, partition=2)
    return f"{before} then {scene.records(scene.drain(consumer, 4, 25_000))}"


@scenario("sub/replace")
def _replace(scene: Scene) -> str:
    """Subscribe to another topic; records of both come in."""
    group = scene.group(share_heartbeat_interval_ms="5000")
    consumer = scene.begin(scene.watched(scene.consumer(group)), 2)
    scene.topic("t2")
    before = scene.records(scene.drain(consumer, 2, 20_000))
    consumer.subscribe([scene.named("t2")])
    subscribed = scene.rename(_subscription(consumer))
    scene.poll_until_told(consumer)
    scene.produce(2, "t1")
    scene.produce(2, "t2")
    return f"{before} sub={subscribed} {scene.records(scene.drain(consumer, 2, 30_000, topic='t2'))}"


@scenario("sub/topic-deleted")
def _topic_deleted(scene: Scene) -> str:
    """One of two topics is deleted while its records are held."""
    group = scene.group(share_record_lock_duration_ms="3000")
    consumer = scene.consumer(group, metadata_max_age_ms=1_000)
    for topic in ("t1", "t2"):
        scene.topic(topic)
        scene.produce(2, topic)
    consumer.subscribe([scene.named("t1"), scene.named("t2")])
    count = len(scene.drain(consumer, 4, 15_000))
    scene.desk.delete_topic(scene.named("t1"))
    scene.poll(consumer, "", 500)
    scene.produce(2, "t2")
    then = scene.call("", lambda: re.sub(r"x\d", "", scene.records(scene.drain(consumer, 2, 15_000))))
    return f"{count} then {then} quiet:{scene.polls(consumer, 2_000)}"


@scenario("sub/topic-recreated")
def _topic_recreated(scene: Scene) -> str:
    """The topic is deleted and made again under its name."""
    config = {"metadata_max_age_ms": 1_000, "allow_auto_create_topics": False}
    consumer = scene.begin(scene.consumer(scene.group(), **config), 2)
    count = len(scene.drain(consumer, 2, 15_000))
    scene.desk.delete_topic(scene.named("t1"))
    scene.poll(consumer, "", 1_500)
    scene.topic()
    scene.produce(3)
    return f"{count} then {scene.call('', lambda: scene.records(scene.drain(consumer, 3, 25_000)))}"
