"""Scenarios: explicit acknowledgement, its misuse, and locks that run out."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

from conformance.our_client_probe.notation import listed, outcome
from conformance.our_client_probe.registry import scenario
from conformance.our_client_probe.scene import ACCEPT, REJECT, RELEASE, Record, Scene, accept_all

from kafka_share import ShareRecord, TimestampType


def _polled(scene: Scene, consumer: Any, timeout_ms: int) -> str:
    return scene.call("", lambda: len(consumer.poll(timeout_ms=timeout_ms)))


@scenario("explicit/poll-unacked")
def _poll_unacknowledged(scene: Scene) -> str:
    """Poll while some records have no acknowledgement."""
    consumer = scene.begin(scene.explicit(scene.group()), 3)
    records = scene.first(consumer)
    consumer.acknowledge(records[0])
    told = [_polled(scene, consumer, 500), _polled(scene, consumer, 500), f"commit {scene.commit(consumer)}"]
    consumer.acknowledge(records[1])
    told.append(_polled(scene, consumer, 500))
    consumer.acknowledge(records[2])
    told.append(f"allacked {_polled(scene, consumer, 1_500)} commit {scene.commit(consumer)}")
    return " ".join(told)


@scenario("explicit/nothing-acked-commitSync")
def _nothing_acknowledged(scene: Scene) -> str:
    """Commit when nothing has been acknowledged."""
    consumer = scene.held(3, explicit=True)
    return f"{scene.commit(consumer)} {outcome(consumer.commit_async)}"


@scenario("explicit/ack-twice-last-wins")
def _last_wins(scene: Scene) -> str:
    """Each record gets two acknowledgements before the commit."""
    consumer = scene.begin(scene.explicit(scene.group()), 4)
    records = scene.first(consumer)
    said = ((ACCEPT, RELEASE), (RELEASE, ACCEPT), (ACCEPT, REJECT), (ACCEPT, ACCEPT))
    for record, types in zip(records, said, strict=True):
        for kind in types:
            consumer.acknowledge(record, kind)
    return scene.commit(consumer) + scene.records(scene.first(consumer))


def _like(scene: Scene, offset: int) -> Record:
    """A record that no poll has returned."""
    return ShareRecord(scene.named("t1"), 0, offset, 0, TimestampType.CREATE_TIME, "", "", (), None, 1)


@scenario("explicit/ack-errors")
def _errors(scene: Scene) -> str:
    """acknowledge what was not delivered, not asked for, or committed already."""
    consumer = scene.explicit(scene.group())
    topic = scene.topic()
    scene.produce(2)
    told = [f"before:{outcome(lambda: consumer.acknowledge(_like(scene, 0)))}"]
    consumer.subscribe([topic])
    records = scene.first(consumer)
    told.append(f"foreign:{outcome(lambda: consumer.acknowledge(_like(scene, 77)))}")
    told.append(f"copy:{outcome(lambda: consumer.acknowledge(_like(scene, 0)))}")
    told.append(f"null rec:{outcome(lambda: consumer.acknowledge(None))}")  # type: ignore[arg-type]
    told.append(f"null type:{outcome(lambda: consumer.acknowledge(records[1], None))}")  # type: ignore[arg-type]
    by_offset = (("off", topic, 0, 1), ("off wrong", topic, 0, 9), ("off topic", "zz", 0, 1), ("off part", topic, 5, 1))
    for name, named, partition, offset in by_offset:
        told.append(f"{name}:{outcome(partial(consumer.acknowledge_offset, named, partition, offset, ACCEPT))}")
    accept_all(consumer, records)
    told.append(f"commit:{scene.commit(consumer)}")
    told.append(f"after commit:{outcome(lambda: consumer.acknowledge(records[0]))}")
    scene.poll(consumer, "", 300)
    told.append(f"after poll:{outcome(lambda: consumer.acknowledge(records[0]))}")
    return listed(told)


@scenario("explicit/ack-earlier-poll")
def _earlier_poll(scene: Scene) -> str:
    """acknowledge a record of the poll before the last."""
    consumer = scene.begin(scene.explicit(scene.group()), 2)
    earlier = scene.first(consumer)
    accept_all(consumer, earlier)
    scene.produce(2)
    now = scene.first(consumer)
    told = outcome(lambda: consumer.acknowledge(earlier[0]))
    accept_all(consumer, now)
    return f"{told} new {len(now)} {scene.commit(consumer)}"


@scenario("explicit/release-100-one-batch")
def _release_100(scene: Scene) -> str:
    """Release all of a batch of a hundred records, ten times."""
    consumer = scene.begin(scene.explicit(scene.group()), 100)
    told: list[str] = []
    for attempt in range(10):
        records = scene.poll(consumer, "", 1_500) if attempt else scene.first(consumer)
        told.append(scene.records(records))
        accept_all(consumer, records, RELEASE)
    return listed(told)


@scenario("explicit/reject")
def _reject(scene: Scene) -> str:
    """Reject one record, accept another, poll."""
    consumer = scene.begin(scene.explicit(scene.group()), 2)
    records = scene.first(consumer)
    consumer.acknowledge(records[0], REJECT)
    consumer.acknowledge(records[1], ACCEPT)
    return f"{scene.commit(consumer)}{len(scene.poll(consumer, '', 1_000))}"


@scenario("explicit/close-flushes-acks")
def _close_flushes(scene: Scene) -> str:
    """Close with three acknowledgements and one record without; what the next member gets."""
    consumer = scene.watched(scene.begin(scene.explicit(scene.group()), 4))
    records = scene.first(consumer)
    for record, kind in zip(records[:3], (ACCEPT, REJECT, RELEASE), strict=True):
        consumer.acknowledge(record, kind)
    closed = scene.close(consumer)
    second = scene.second()
    return closed + scene.told() + scene.records(scene.drain(second, 2, 8_000))


@scenario("explicit/unsubscribe-then-ack")
def _unsubscribe_then_acknowledge(scene: Scene) -> str:
    """unsubscribe between two acknowledgements; commit; subscribe again."""
    consumer = scene.watched(scene.begin(scene.explicit(scene.group()), 2))
    records = scene.first(consumer)
    consumer.acknowledge(records[0])
    scene.call("unsubscribe", consumer.unsubscribe)
    told = scene.told() + outcome(lambda: consumer.acknowledge(records[1]))
    told += scene.commit(consumer) + scene.told()
    consumer.subscribe([scene.named("t1")])
    # Java's program polls for twenty seconds: nothing comes, on whichever broker.
    return f"{told} poll {scene.records(scene.drain(consumer, 1, 2_500))}{scene.told()}"


@scenario("explicit/after-lock-timeout")
def _after_lock_timeout(scene: Scene) -> str:
    """acknowledge when the locks have run out."""
    group = scene.group(share_record_lock_duration_ms="1000")
    consumer = scene.watched(scene.begin(scene.explicit(group), 2))
    records = scene.first(consumer)
    time.sleep(2.2)  # time itself: the locks of 1 s run out, which only a request would show
    accept_all(consumer, records)
    told = f"lock={consumer.acquisition_lock_timeout_ms} {scene.commit(consumer)}{scene.told()}"
    return f"{told} redelivered {scene.records(scene.first(consumer))}"


@scenario("explicit/other-member-has-it")
def _other_member_has_it(scene: Scene) -> str:
    """acknowledge what another member has got in the meantime."""
    group = scene.group(share_record_lock_duration_ms="1000")
    consumer = scene.begin(scene.explicit(group), 2)
    records = scene.first(consumer)
    other = scene.explicit(group)
    other.subscribe([scene.named("t1")])
    told = scene.records(scene.first(other))
    accept_all(consumer, records)
    return f"{told} old {scene.commit(consumer)}"


@scenario("explicit/lock-accessor")
def _lock_accessor(scene: Scene) -> str:
    """The lock timeout before the first record, with it, after a commit, after an empty poll."""
    consumer = scene.explicit(scene.group(share_record_lock_duration_ms="7000"))
    told = [f"{consumer.acquisition_lock_timeout_ms}"]
    records = scene.first(scene.begin(consumer, 1))
    told.append(f"{consumer.acquisition_lock_timeout_ms}")
    accept_all(consumer, records)
    scene.commit(consumer)
    told.append(f"committed {consumer.acquisition_lock_timeout_ms}")
    scene.poll(consumer, "", 700)
    told.append(f"emptypoll {consumer.acquisition_lock_timeout_ms}")
    return " ".join(told)


@scenario("explicit/record-limit-release-mix")
def _record_limit_release_mix(scene: Scene) -> str:
    """Accept five of ten and release the others, in mode record_limit."""
    config = {"share_acquire_mode": "record_limit", "max_poll_records": 10}
    consumer = scene.begin(scene.explicit(scene.group(), **config), 20)
    records = scene.first(consumer)
    told = [scene.records(records)]
    for index, record in enumerate(records):
        consumer.acknowledge(record, RELEASE if index % 2 else ACCEPT)
    told.append(scene.commit(consumer))
    for _ in range(2):
        found = scene.poll(consumer, "", 2_000)
        told.append(scene.records(found))
        accept_all(consumer, found)
    return listed(told)
