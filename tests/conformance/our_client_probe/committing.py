"""Scenarios: commits, the acknowledgement commit callback, close."""

from __future__ import annotations

import time
from collections.abc import Callable

from conformance.our_client_probe import notation
from conformance.our_client_probe.notation import listed, outcome, span, truth
from conformance.our_client_probe.registry import scenario
from conformance.our_client_probe.scene import Consumer, Scene, accept_all


def _watched(scene: Scene, count: int) -> Consumer:
    return scene.watched(scene.begin(scene.explicit(scene.group()), count))


@scenario("commit/many-async")
def _many_async(scene: Scene) -> str:
    """commitAsync after each of fifty acknowledgements, then commitSync."""
    consumer = _watched(scene, 50)
    for record in scene.first(consumer):
        consumer.acknowledge(record)
        scene.call("a", consumer.commit_async)
    committed = scene.commit(consumer)
    scene.poll(consumer, "p", 500)
    errors = sum("!" in str(event) for event in scene.events)
    return f"{committed} callbacks<51={truth(len(scene.events) < 51)} errors={errors}"


@scenario("commit/async-then-sync")
def _async_then_sync(scene: Scene) -> str:
    """commitAsync, commitSync with more, commitAsync, close: what the callback gets."""
    consumer = _watched(scene, 4)
    records = scene.first(consumer)
    accept_all(consumer, records[:2])
    consumer.commit_async()
    consumer.acknowledge(records[2])
    told = scene.commit(consumer) + scene.told()
    consumer.acknowledge(records[3])
    scene.call("commit_async2", consumer.commit_async)
    told += scene.told()
    scene.close(consumer)
    return told + scene.told()


@scenario("commit/sync-timeout-0")
def _sync_timeout_zero(scene: Scene) -> str:
    """Commit with no time; the next poll; commit again."""
    consumer = _watched(scene, 2)
    accept_all(consumer, scene.first(consumer))
    told = scene.call("cs0", lambda: notation.results(consumer.commit_sync(timeout_ms=0), scene.rename))
    scene.await_outcome(consumer)
    scene.poll(consumer, "poll2", 700)
    return told + scene.told() + scene.commit(consumer)


@scenario("commit/sync-timeout-negative")
def _sync_timeout_negative(scene: Scene) -> str:
    """Commit with a negative timeout."""
    consumer = scene.held(2)
    return outcome(lambda: consumer.commit_sync(timeout_ms=-1))


@scenario("commit/no-callback-when-empty")
def _no_callback_when_empty(scene: Scene) -> str:
    """Commits without acknowledgements."""
    consumer = scene.watched(scene.held(2, explicit=True))
    consumer.commit_async()
    scene.commit(consumer)
    return scene.told()


# ---- callbacks


def _with_callback(scene: Scene, tell: Callable[[], None]) -> Consumer:
    consumer = scene.held(2)
    consumer.set_acknowledgement_commit_callback(lambda *_: tell())
    return consumer


def _raising(scene: Scene) -> Consumer:
    """Holds two records and has a callback that raises."""

    def boom() -> None:
        scene.note_call()
        raise ValueError("boom")

    return _with_callback(scene, boom)


@scenario("callback/throws-in-poll")
def _raises_in_poll(scene: Scene) -> str:
    """The callback raises inside poll."""
    consumer = _raising(scene)
    first = scene.call("poll2", lambda: len(consumer.poll(timeout_ms=1_200)))
    second = scene.call("poll3", lambda: len(consumer.poll(timeout_ms=300)))
    return f"{first} {second}{scene.told()}"


@scenario("callback/throws-in-commitSync")
def _raises_in_commit_sync(scene: Scene) -> str:
    """The callback raises inside commitSync."""
    consumer = _raising(scene)
    told = scene.commit(consumer) + scene.told()
    return told + scene.call("poll2", lambda: len(consumer.poll(timeout_ms=300))) + scene.told()


@scenario("callback/throws-in-close")
def _raises_in_close(scene: Scene) -> str:
    """The callback raises inside close."""
    consumer = _raising(scene)
    consumer.commit_async()
    return scene.close(consumer) + scene.told()


@scenario("callback/reentrance")
def _reentrance(scene: Scene) -> str:
    """The callback calls every method."""
    told: list[str] = []

    def reenter() -> None:
        calls: list[tuple[str, Callable[[], object]]] = [
            ("poll", lambda: len(consumer.poll(timeout_ms=0))),
            ("subscribe", lambda: consumer.subscribe(["a"])),
            ("unsubscribe", consumer.unsubscribe),
            ("subscription", lambda: listed(sorted(consumer.subscription()))),
            ("commit_sync", consumer.commit_sync),
            ("commit_async", consumer.commit_async),
            ("set_callback", lambda: consumer.set_acknowledgement_commit_callback(None)),
            ("lock", lambda: consumer.acquisition_lock_timeout_ms),
            ("metrics", lambda: truth(not consumer.metrics())),
            ("close", consumer.close),
            ("wakeup", consumer.wakeup),
        ]
        told.extend(f"{name}:{outcome(call)}" for name, call in calls)

    consumer = _with_callback(scene, reenter)
    committed = scene.commit(consumer)
    polls = [outcome(lambda: len(consumer.poll(timeout_ms=300))) for _ in range(2)]
    return f"{committed}{listed(told)} next poll {polls[0]} next {polls[1]}"


@scenario("callback/replaced")
def _replaced(scene: Scene) -> str:
    """Another callback, and none, while results are under way."""
    consumer = scene.held(2)

    def be_told_as(name: str) -> None:
        consumer.set_acknowledgement_commit_callback(lambda *_: scene.events.append(name))

    be_told_as("old")
    consumer.commit_async()
    scene.await_outcome(consumer)
    be_told_as("new")
    scene.poll(consumer, "", 300)
    told = scene.told()
    scene.produce(1)
    scene.first(consumer)
    consumer.commit_async()
    scene.await_outcome(consumer)
    consumer.set_acknowledgement_commit_callback(None)
    scene.poll(consumer, "", 300)
    be_told_as("third")
    scene.poll(consumer, "", 300)
    return told + scene.told()


# ---- close


@scenario("close/negative")
def _close_negative(scene: Scene) -> str:
    """Close with a negative timeout, and without."""
    consumer = scene.consumer(scene.group())
    return outcome(lambda: consumer.close(timeout_ms=-1)) + outcome(consumer.close)


@scenario("close/timeout-0")
def _close_timeout_zero(scene: Scene) -> str:
    """Close with no time while records are held."""
    consumer = scene.watched(scene.held(2, explicit=True))
    began_at_s = time.monotonic()
    closed = scene.call("close", lambda: consumer.close(timeout_ms=0))
    return f"{closed} {span(began_at_s)}{scene.told()}"


@scenario("close/timeout-0-with-acks")
def _close_timeout_zero_with_acknowledgements(scene: Scene) -> str:
    """Close with no time and acknowledgements."""
    consumer = _watched(scene, 2)
    accept_all(consumer, scene.first(consumer))
    return scene.call("close", lambda: consumer.close(timeout_ms=0))


@scenario("close/never-polled")
def _close_never_polled(scene: Scene) -> str:
    """Close without having polled."""
    consumer = scene.consumer(scene.group())
    consumer.subscribe(["x"])
    began_at_s = time.monotonic()
    return outcome(consumer.close) + span(began_at_s)


@scenario("close/wakeup-pending")
def _close_wakeup_pending(scene: Scene) -> str:
    """wakeup, then close."""
    consumer = scene.held(2)
    consumer.wakeup()
    return outcome(consumer.close)


@scenario("close/group-state")
def _close_group_state(scene: Scene) -> str:
    """The group's state before and after close."""
    consumer = scene.begin(scene.consumer(scene.group()), 0)
    scene.poll(consumer, "", 2_000)
    before = scene.desk.share_group(scene.named("g")).group_state
    consumer.close()
    return f"{before} {scene.desk.share_group(scene.named('g')).group_state}"
