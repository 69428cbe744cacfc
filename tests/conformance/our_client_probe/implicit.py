"""Scenarios: implicit acknowledgement."""

from __future__ import annotations

from conformance.our_client_probe.notation import outcome
from conformance.our_client_probe.registry import scenario
from conformance.our_client_probe.scene import REJECT, Scene


@scenario("implicit/commitSync")
def _commit_sync(scene: Scene) -> str:
    """Commit delivered records, and commit again."""
    consumer = scene.held(3)
    return f"{scene.commit(consumer)} again {scene.commit(consumer)} evs={scene.told()}"


@scenario("implicit/commitSync-callback")
def _commit_sync_callback(scene: Scene) -> str:
    """The same with a callback, and a poll."""
    consumer = scene.watched(scene.held(3))
    committed = f"{scene.commit(consumer)} evs={scene.told()}"
    return f"{committed} poll:{len(scene.poll(consumer, 'poll2', 800))} evs={scene.told()}"


@scenario("implicit/poll-accepts")
def _poll_accepts(scene: Scene) -> str:
    """The next poll accepts; the callback runs in it."""
    consumer = scene.watched(scene.held(3))
    polled = f"{len(scene.poll(consumer, 'poll2', 1_500))}{scene.told()}"
    scene.poll(consumer, "poll3", 800)
    return f"{polled}{scene.told()} commit_sync {scene.commit(consumer)}"


@scenario("implicit/commitAsync")
def _commit_async(scene: Scene) -> str:
    """Commit without waiting; which poll tells the callback."""
    consumer = scene.watched(scene.held(3))
    scene.call("commit_async", consumer.commit_async)
    scene.await_outcome(consumer)
    told = scene.told()
    scene.poll(consumer, "poll2", 800)
    told += scene.told()
    scene.poll(consumer, "poll3", 300)
    return told + scene.told()


@scenario("implicit/acknowledge")
def _acknowledge(scene: Scene) -> str:
    """acknowledge, although the consumer acknowledges by itself."""
    consumer = scene.begin(scene.consumer(scene.group()), 1)
    [record] = scene.first(consumer)
    told = [
        outcome(lambda: consumer.acknowledge(record)),
        outcome(lambda: consumer.acknowledge(record, REJECT)),
        outcome(lambda: consumer.acknowledge_offset(scene.named("t1"), 0, 0, REJECT)),
    ]
    return f"{' '.join(told)} commit {scene.commit(consumer)}"


@scenario("implicit/close-releases")
def _close_releases(scene: Scene) -> str:
    """Close with delivered records; what the next member gets."""
    scene.close(scene.watched(scene.held(3)))
    second = scene.second()
    return scene.told() + scene.records(scene.drain(second, 3, 10_000))


@scenario("implicit/poll-close")
def _poll_close(scene: Scene) -> str:
    """Poll twice and close; what the next member gets."""
    consumer = scene.watched(scene.held(3))
    scene.produce(2)
    polled = scene.records(scene.first(consumer))
    scene.close(consumer)
    second = scene.second()
    return polled + scene.told_anywhere() + scene.records(scene.drain(second, 2, 10_000))


@scenario("implicit/poll0-close")
def _poll_zero_close(scene: Scene) -> str:
    """Accept by a poll without a timeout, and close at once."""
    consumer = scene.watched(scene.held(3))
    scene.poll(consumer, "poll2", 0)
    scene.close(consumer)
    second = scene.second()
    return scene.told() + scene.records(scene.drain(second, 3, 4_000))


@scenario("implicit/commitAsync-close")
def _commit_async_close(scene: Scene) -> str:
    """Commit without waiting, and close at once."""
    consumer = scene.watched(scene.held(3))
    consumer.commit_async()
    scene.close(consumer)
    second = scene.second()
    return scene.told() + scene.records(scene.drain(second, 3, 4_000))
