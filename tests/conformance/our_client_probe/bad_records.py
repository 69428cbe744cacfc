"""Scenarios: records that cannot be deserialized, offsets without a record, records that are deleted."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from conformance.our_client_probe.notation import listed, outcome
from conformance.our_client_probe.registry import scenario
from conformance.our_client_probe.scene import ACCEPT, FIRST_RECORD_S, REJECT, Consumer, Scene, accept_all


def _read(data: bytes) -> str:
    text = data.decode()
    if text.startswith("bad"):
        raise ValueError(f"cannot read {text}")
    return text


def _polls(scene: Scene, consumer: Consumer, count: int, *, acknowledge: bool = True) -> list[str]:
    """What the first polls bring; the very first waits until there is something."""
    first = scene.poll_bad(consumer, acknowledge=acknowledge, patience_s=FIRST_RECORD_S)
    return [first, *(scene.poll_bad(consumer, acknowledge=acknowledge) for _ in range(count - 1))]


def _with_values(scene: Scene, *values: bytes, explicit: bool) -> Consumer:
    """A consumer with a callback, subscribed to a topic with these values in one batch."""
    mode = "explicit" if explicit else "implicit"
    group = scene.group(share_isolation_level="read_uncommitted")
    consumer = scene.watched(scene.consumer(group, value_deserializer=_read, share_acknowledgement_mode=mode))
    scene.topic()
    scene.desk.produce(scene.named("t1"), 0, [(None, value) for value in values])
    consumer.subscribe([scene.named("t1")])
    return consumer


@scenario("data/bad-value-explicit")
def _bad_value_explicit(scene: Scene) -> str:
    """The third of four records cannot be deserialized; seven polls, and a commit between."""
    consumer = _with_values(scene, b"a", b"b", b"bad", b"d", explicit=True)
    told = _polls(scene, consumer, 4)
    told.append(f"commit {scene.commit(consumer)}")
    told.extend(scene.poll_bad(consumer, acknowledge=True) for _ in range(3))
    return listed(told) + scene.told()


@scenario("data/bad-value-implicit")
def _bad_value_implicit(scene: Scene) -> str:
    """The same in implicit mode: nine polls."""
    consumer = _with_values(scene, b"a", b"b", b"bad", b"d", explicit=False)
    told = _polls(scene, consumer, 9, acknowledge=False)
    return listed(told) + scene.told()


@scenario("data/bad-value-first")
def _bad_value_first(scene: Scene) -> str:
    """The first of two records cannot be deserialized."""
    consumer = _with_values(scene, b"bad", b"b", explicit=True)
    told = _polls(scene, consumer, 4)
    return listed(told) + scene.told()


@scenario("data/bad-value-override-reject")
def _bad_value_override(scene: Scene) -> str:
    """The second of three cannot be deserialized, and is rejected by its offset."""
    consumer = _with_values(scene, b"a", b"bad", b"c", explicit=True)
    told = _polls(scene, consumer, 2)
    said = (
        ("wrong", 0, REJECT),
        ("wrong2", 2, REJECT),
        ("right", 1, REJECT),
        ("again", 1, ACCEPT),
        ("and", 1, REJECT),
    )
    topic = scene.named("t1")
    for name, offset, kind in said:
        told.append(f"{name}:{outcome(partial(consumer.acknowledge_offset, topic, 0, offset, kind))}")
    told.append(scene.commit(consumer))
    told.append(f"late:{outcome(lambda: consumer.acknowledge_offset(topic, 0, 1, REJECT))}")
    told.extend(scene.poll_bad(consumer, acknowledge=True) for _ in range(3))
    return listed(told) + scene.told()


def _after_transactions(scene: Scene, ends: Sequence[bool], **configs: str) -> str:
    consumer = scene.watched(scene.consumer(scene.group(**configs)))
    topic = scene.topic()
    scene.desk.produce_transactions(topic, scene.named("tx"), ends)
    consumer.subscribe([topic])
    found = scene.drain(consumer, 4, 8_000)
    scene.poll(consumer, "", 1_200)
    scene.poll(consumer, "", 300)
    return scene.records(found) + scene.told_anywhere()


@scenario("data/txn-markers-are-gaps")
def _markers_are_gaps(scene: Scene) -> str:
    """A committed and an aborted transaction, read uncommitted; what is acknowledged."""
    return _after_transactions(scene, (True, False))


@scenario("data/txn-read-committed")
def _read_committed(scene: Scene) -> str:
    """Three transactions, the second aborted, read committed."""
    return _after_transactions(scene, (True, False, True), share_isolation_level="read_committed")


@scenario("data/delete-records-while-held")
def _delete_records_while_held(scene: Scene) -> str:
    """Held records are deleted from the log, then accepted."""
    consumer = scene.begin(scene.explicit(scene.group()), 6)
    records = scene.first(consumer)
    scene.desk.delete_records(scene.named("t1"), 0, before_offset=3)
    accept_all(consumer, records)
    return scene.commit(consumer)
