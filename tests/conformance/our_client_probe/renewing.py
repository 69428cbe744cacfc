"""Scenarios: RENEW."""

from __future__ import annotations

import time

from conformance.our_client_probe.notation import outcome, span
from conformance.our_client_probe.registry import scenario
from conformance.our_client_probe.scene import ACCEPT, RENEW, Consumer, Record, Scene, accept_all


def _half_renewed(scene: Scene) -> tuple[Consumer, list[Record]]:
    """Four records: the even ones are to be accepted, the odd ones to be renewed."""
    consumer = scene.watched(scene.begin(scene.explicit(scene.group()), 4))
    records = list(scene.first(consumer))
    for index, record in enumerate(records):
        consumer.acknowledge(record, RENEW if index % 2 else ACCEPT)
    return consumer, records


@scenario("explicit/renew")
def _renew(scene: Scene) -> str:
    """Accept two, renew two, poll; then acknowledge the renewed ones."""
    consumer, records = _half_renewed(scene)
    polled = scene.records(scene.poll(consumer, "poll2", 3_000)) + scene.told()
    acknowledged = outcome(lambda: accept_all(consumer, [records[1], records[3]]))
    return polled + acknowledged + scene.commit(consumer) + scene.told()


@scenario("explicit/renew-poll-poll")
def _renew_poll_poll(scene: Scene) -> str:
    """The same with two polls, and how long they take."""
    consumer, _ = _half_renewed(scene)
    began_at_s = time.monotonic()
    first = scene.records(found := scene.poll(consumer, "poll2", 2_000)) + span(began_at_s) + scene.told()
    if found:
        accept_all(consumer, found)  # Java returns them with the next poll
    began_at_s = time.monotonic()
    second = scene.records(found := scene.poll(consumer, "poll3", 2_000)) + span(began_at_s)
    accept_all(consumer, found)
    return first + second + scene.commit(consumer) + scene.told()


@scenario("explicit/renew-commitAsync")
def _renew_commit_async(scene: Scene) -> str:
    """Renew by a commit that does not wait; poll; accept."""
    consumer = scene.watched(scene.begin(scene.explicit(scene.group()), 2))
    accept_all(consumer, scene.first(consumer), RENEW)
    consumer.commit_async()
    scene.await_outcome(consumer)
    found = scene.poll(consumer, "poll2", 1_500)
    accept_all(consumer, found)
    return scene.records(found) + scene.told() + scene.commit(consumer) + scene.told()


@scenario("explicit/renew-all-commitSync-poll")
def _renew_all_commit_sync_poll(scene: Scene) -> str:
    """Renew by a commit; a new record comes in; poll; accept; poll."""
    consumer = scene.watched(scene.begin(scene.explicit(scene.group()), 2))
    records = scene.first(consumer)
    accept_all(consumer, records, RENEW)
    told = scene.commit(consumer) + scene.told()
    scene.produce(1)
    told += scene.records(scene.poll(consumer, "poll2", 1_500))
    accept_all(consumer, records)
    told += scene.records(scene.poll(consumer, "poll3", 3_000))
    return told + scene.told()


@scenario("explicit/renew-then-accept-before-send")
def _renew_then_accept(scene: Scene) -> str:
    """Renew and then accept before anything is sent."""
    consumer = scene.watched(scene.begin(scene.explicit(scene.group()), 1))
    [record] = scene.first(consumer)
    consumer.acknowledge(record, RENEW)
    consumer.acknowledge(record, ACCEPT)
    return scene.commit(consumer) + scene.told() + str(len(scene.poll(consumer, "", 800)))


@scenario("explicit/renew-keeps-lock")
def _renew_keeps_lock(scene: Scene) -> str:
    """Renew three times in longer than the lock's duration."""
    consumer = scene.begin(scene.explicit(scene.group(share_record_lock_duration_ms="1500")), 1)
    records = scene.first(consumer)
    told = ""
    for _ in range(3):
        time.sleep(0.9)  # time itself: the renewals together last longer than the lock of 1.5 s
        accept_all(consumer, records, RENEW)
        told += scene.commit(consumer)
        records = scene.poll(consumer, "", 500)
        told += scene.records(records)
    accept_all(consumer, records)
    return told + scene.commit(consumer)


@scenario("explicit/renew-disabled")
def _renew_disabled(scene: Scene) -> str:
    """Renew in a group that does not allow it."""
    group = scene.group(share_renew_acknowledge_enable="false")
    consumer = scene.watched(scene.begin(scene.explicit(group), 1))
    [record] = scene.first(consumer)
    consumer.acknowledge(record, RENEW)
    told = scene.commit(consumer) + scene.told() + outcome(lambda: consumer.acknowledge(record))
    return told + scene.call("", lambda: scene.records(consumer.poll(timeout_ms=1_500)))
