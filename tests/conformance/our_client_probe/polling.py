"""Scenarios: how much a poll returns, who may call it and when, and wakeup."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from conformance.our_client_probe.notation import listed, outcome, span, truth
from conformance.our_client_probe.registry import scenario
from conformance.our_client_probe.scene import Consumer, Scene, accept_all, later
from support.waiting import pause, wait_until

from kafka_share import ShareRecord, TimestampType


@scenario("poll/zero-timeout-loop")
def _zero_timeout_loop(scene: Scene) -> str:
    """Poll with no timeout until five records have come."""
    consumer = scene.begin(scene.consumer(scene.group()), 5)
    end_at_s = time.monotonic() + 15
    found = 0
    while found < 5 and time.monotonic() < end_at_s:
        found += len(consumer.poll(timeout_ms=0))
        pause()
    return str(found)


def _limited(scene: Scene, mode: str, limit: int, count: int, *, one_by_one: bool) -> str:
    scene.topic()
    scene.produce(count, one_by_one=one_by_one)
    consumer = scene.explicit(scene.group(), share_acquire_mode=mode, max_poll_records=limit)
    consumer.subscribe([scene.named("t1")])
    told: list[str] = []
    got = 0
    while got < count and (found := scene.first(consumer)):
        got += len(found)
        told.append(scene.records(found))
        accept_all(consumer, found)
    return listed(told)


@scenario("poll/batch-optimized-one-batch")
def _batch_optimized_one_batch(scene: Scene) -> str:
    """max.poll.records 5, mode batch_optimized, ten records in one batch."""
    return _limited(scene, "batch_optimized", 5, 10, one_by_one=False)


@scenario("poll/batch-optimized-single-batches")
def _batch_optimized_single_batches(scene: Scene) -> str:
    """The same with a batch for each record."""
    return _limited(scene, "batch_optimized", 5, 10, one_by_one=True)


@scenario("poll/record-limit-single-batches")
def _record_limit_single_batches(scene: Scene) -> str:
    """max.poll.records 5, mode record_limit, twelve records in a batch each."""
    return _limited(scene, "record_limit", 5, 12, one_by_one=True)


def _bounded(scene: Scene, fetch_max_bytes: int, limit_ms: int) -> str:
    consumer = scene.consumer(scene.group(), fetch_max_bytes=fetch_max_bytes)
    scene.topic()
    scene.produce(3, one_by_one=True)
    consumer.subscribe([scene.named("t1")])
    return listed(scene.counts(consumer, 3, limit_ms))


@scenario("poll/fetch-max-bytes-1")
def _fetch_max_bytes_1(scene: Scene) -> str:
    """fetch.max.bytes 1: the numbers of records that three polls return."""
    return _bounded(scene, 1, 10_000)


@scenario("poll/fetch-max-bytes-0")
def _fetch_max_bytes_0(scene: Scene) -> str:
    """The same with fetch.max.bytes 0."""
    return _bounded(scene, 0, 4_000)


@scenario("poll/two-partitions-one-poll")
def _two_partitions_one_poll(scene: Scene) -> str:
    """Two records in each of three partitions."""
    scene.topic(partitions=3)
    for partition in range(3):
        scene.produce(2, partition=partition)
    consumer = scene.consumer(scene.group())
    consumer.subscribe([scene.named("t1")])
    return str(sum(scene.counts(consumer, 6, 8_000)))


def every_method(consumer: Consumer, scene: Scene) -> list[tuple[str, Callable[[], Any]]]:
    """The calls that are not a poll, by the names that the lines have for them."""
    return [
        ("subscribe", lambda: consumer.subscribe(["a"])),
        ("subscription", lambda: scene.rename(listed(sorted(consumer.subscription())))),
        ("commit_sync", consumer.commit_sync),
        ("commit_async", consumer.commit_async),
        ("callback", lambda: consumer.set_acknowledgement_commit_callback(None)),
        ("lock", lambda: consumer.acquisition_lock_timeout_ms),
        ("metrics", lambda: truth(not consumer.metrics())),
        ("close", lambda: consumer.close(timeout_ms=100)),
        ("unsubscribe", consumer.unsubscribe),
    ]


def _poll_metric(consumer: Consumer, name: str) -> float:
    return consumer.metrics()["consumer-share-metrics"][name]


@scenario("poll/second-thread")
def _second_thread(scene: Scene) -> str:
    """Every method, from another thread, while a poll of three seconds runs."""
    consumer = scene.begin(scene.consumer(scene.group()), 0)
    consumer.poll(timeout_ms=0)
    # Polls that begin in the same millisecond could not be told apart below.
    wait_until(lambda: _poll_metric(consumer, "last-poll-seconds-ago") > 0, "no poll")
    first: list[str] = []
    thread = threading.Thread(target=lambda: first.append(outcome(lambda: len(consumer.poll(timeout_ms=3_000)))))
    thread.start()
    wait_until(lambda: _poll_metric(consumer, "time-between-poll-max") > 0, "no second poll")
    told = [f"{name}:{outcome(call)}" for name, call in every_method(consumer, scene)]
    began_at_s = time.monotonic()
    told.append(f"poll:{outcome(lambda: len(consumer.poll(timeout_ms=0)))}{span(began_at_s)}")
    thread.join()
    told.append(f"first:{first[0]}")
    told.append(f"after:{outcome(lambda: len(consumer.poll(timeout_ms=0)))}")
    return listed(told)


@scenario("poll/wakeup-during")
def _wakeup_during(scene: Scene) -> str:
    """wakeup while a poll waits; then records come."""
    consumer = scene.begin(scene.consumer(scene.group()), 0)
    scene.poll(consumer, "", 2_500)
    later(0.5, consumer.wakeup)
    began_at_s = time.monotonic()
    woken = outcome(lambda: len(consumer.poll(timeout_ms=10_000)))
    woken += span(began_at_s)
    scene.produce(2)
    return f"{woken} then {scene.records(scene.drain(consumer, 2, 10_000))}"


def _acknowledged(scene: Scene) -> Consumer:
    """A consumer with two acknowledgements that it has not sent."""
    consumer = scene.begin(scene.explicit(scene.group()), 2)
    accept_all(consumer, scene.first(consumer))
    return consumer


@scenario("poll/wakeup-before-commitSync")
def _wakeup_before_commit_sync(scene: Scene) -> str:
    """wakeup, a commit with acknowledgements, another commit, a poll."""
    consumer = _acknowledged(scene)
    consumer.wakeup()
    first = scene.commit(consumer)
    second = scene.commit(consumer)
    return f"{first} then {second} then poll {outcome(lambda: len(consumer.poll(timeout_ms=1_000)))}"


@scenario("poll/wakeup-before-commitSync-result")
def _wakeup_before_commit_sync_result(scene: Scene) -> str:
    """What the callback gets for a commit that wakeup ended."""
    consumer = scene.watched(_acknowledged(scene))
    consumer.wakeup()
    first = scene.commit(consumer)
    scene.await_outcome(consumer)
    scene.poll(consumer, "poll2", 800)
    return first + scene.told()


@scenario("poll/wakeup-before-commitAsync-close")
def _wakeup_before_commit_async_close(scene: Scene) -> str:
    """wakeup, then calls that do not wait for it."""
    consumer = scene.begin(scene.explicit(scene.group()), 0)
    consumer.poll(timeout_ms=300)
    consumer.wakeup()
    return f"{outcome(consumer.commit_async)} close {outcome(consumer.close)}"


@scenario("poll/wakeup-before-unsubscribe")
def _wakeup_before_unsubscribe(scene: Scene) -> str:
    """wakeup, unsubscribe, subscribe, poll."""
    consumer = scene.begin(scene.explicit(scene.group()), 0)
    consumer.poll(timeout_ms=1_500)
    consumer.wakeup()
    consumer.unsubscribe()
    left = listed(sorted(consumer.subscription()))
    consumer.subscribe([scene.named("t1")])
    return f"{left} then {outcome(lambda: len(consumer.poll(timeout_ms=300)))}"


@scenario("poll/after-close")
def _after_close(scene: Scene) -> str:
    """Every method after close."""
    pushing = scene.consumer(scene.group(), enable_metrics_push=True)  # Java's default, not ours
    consumer = scene.begin(pushing, 0)
    consumer.poll(timeout_ms=300)
    consumer.close()
    record = ShareRecord("t", 0, 0, 0, TimestampType.CREATE_TIME, "", "", (), None, 1)
    calls = dict(every_method(consumer, scene))
    calls["poll"] = lambda: len(consumer.poll(timeout_ms=0))
    calls["ack"] = lambda: consumer.acknowledge(record)
    calls["wakeup"] = consumer.wakeup
    calls["close"] = consumer.close
    before = ("poll", "subscribe", "unsubscribe", "subscription", "commit_sync", "commit_async", "callback", "ack")
    calls["client_instance_id"] = lambda: consumer.client_instance_id(10)
    order = (*before, "lock", "wakeup", "metrics", "close", "client_instance_id")
    return listed(f"{name}:{outcome(calls[name])}" for name in order)
