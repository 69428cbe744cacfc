"""The main flows of a share group through the public API, the same on the reference broker and on real Apache Kafka.

The first sentence of each docstring is the scenario's row in docs/conformance.md.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from conformance.admin_over_wire import Admin
from conformance.conformance_matrix import NOTE
from conformance.kafka_targets import Target
from conformance.share_flow import Flow, Keep, begin, counts, outcomes_of, values
from support.consumers import Record
from support.waiting import poll_until, poll_while, wait_until

from kafka_share import AcknowledgeType
from kafka_share.errors import (
    IllegalStateError,
    InvalidRecordStateError,
    RecordDeserializationError,
    UnsupportedVersionError,
    WakeupError,
)

ACCEPT, RELEASE, REJECT, RENEW = AcknowledgeType
LOCK_MS = 1_000
DELIVERY_COUNT_LIMIT = 5

Names = Callable[[str], str]
Note = Callable[[str, object], None]


@pytest.fixture
def flow(kafka: Target, kafka_admin: Admin, unique: Names, closing: Keep) -> Flow:
    return begin(kafka, kafka_admin, unique, closing)


# ---- records come


def test_the_first_record_arrives_whole_when_a_member_joins_a_new_group(flow: Flow) -> None:
    """A first member joins, and a record arrives with all its parts."""
    flow.produce(b"hello")
    [record] = poll_until(flow.member(), 1)
    assert (record.topic, record.partition, record.offset) == (flow.topic, 0, 0)
    assert (record.key, record.value, list(record.headers)) == (b"k", b"hello", [("h", b"1")])
    assert record.delivery_count == 1
    assert abs(record.timestamp / 1000 - time.time()) < 600


def test_records_arrive_when_the_topic_is_created_after_the_subscription(flow: Flow, unique: Names) -> None:
    """A topic that is created after a member has subscribed to it is consumed."""
    late = unique("late")
    consumer = flow.member(late, allow_auto_create_topics=False)
    assert not consumer.poll(timeout_ms=1_000)
    flow.admin.create_topic(late)
    flow.admin.produce(late, [b"1"])
    assert values(poll_until(consumer, 1)) == [b"1"]


def test_values_are_whole_when_producers_compress_with_each_codec(flow: Flow) -> None:
    """Records compressed with gzip, snappy, lz4 and zstd by librdkafka are read."""
    foreign = pytest.importorskip("conformance.confluent_peer", reason="confluent-kafka is not installed")
    sent = []
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        of_codec = [f"{codec} {i} ".encode() * 20 for i in range(20)]
        foreign.produce(flow.target.bootstrap_servers, flow.topic, of_codec, **{"compression.type": codec})
        sent += of_codec
    assert values(poll_until(flow.member(), len(sent))) == sent


@pytest.mark.behaviour("polling")
def test_polls_are_no_larger_than_asked_when_the_record_limit_is_strict(flow: Flow, record_property: Note) -> None:
    """In record_limit mode polls return no more than max_poll_records, even out of one large batch."""
    flow.produce(*(str(i).encode() for i in range(10)))
    consumer = flow.member(share_acquire_mode="record_limit", max_poll_records=3)
    if not flow.target.speaks_v2:
        with pytest.raises(UnsupportedVersionError):
            poll_until(consumer, 1)
        record_property(NOTE, "refused")
        return
    sizes = []
    found: list[Record] = []
    while len(found) < 10:
        polled = poll_until(consumer, 1)
        sizes.append(len(polled))
        found += polled
    assert max(sizes) <= 3
    assert values(found) == [str(i).encode() for i in range(10)]


# ---- implicit acknowledgement


@pytest.mark.behaviour("implicit acknowledgement")
def test_records_are_accepted_when_the_next_poll_comes(flow: Flow) -> None:
    """Implicit mode: the next poll accepts what the previous one returned."""
    flow.produce(b"1", b"2", b"3")
    first = flow.member()
    told = outcomes_of(first)
    poll_until(first, 3)
    flow.produce(b"4")
    poll_until(first, 1)
    first.close()
    assert told == [(0, None), (1, None), (2, None)]
    [again] = poll_until(flow.member(), 1)
    assert again.value == b"4"


def test_records_are_accepted_when_commit_sync_is_called(flow: Flow) -> None:
    """Implicit mode: commit_sync accepts and returns the result by partition."""
    flow.produce(b"1", b"2")
    first = flow.member()
    poll_until(first, 2)
    result = first.commit_sync()
    assert [(p.topic, p.partition, error) for p, error in result.items()] == [(flow.topic, 0, None)]
    assert first.commit_sync() == {}
    first.close()
    flow.produce(b"3")
    assert values(poll_until(flow.member(), 1)) == [b"3"]


def test_the_callback_is_told_when_commit_async_is_called(flow: Flow) -> None:
    """Implicit mode: commit_async accepts, and the callback hears of it."""
    flow.produce(b"1", b"2")
    consumer = flow.member()
    told = outcomes_of(consumer)
    poll_until(consumer, 2)
    consumer.commit_async()
    wait_until(lambda: not consumer.poll(timeout_ms=100) and len(told) >= 2)
    assert told == [(0, None), (1, None)]


# ---- explicit acknowledgement


def test_release_comes_back_and_reject_does_not_when_acknowledged_explicitly(flow: Flow) -> None:
    """Explicit mode: accept and reject are final, release delivers again with count 2."""
    flow.produce(b"accept", b"release", b"reject")
    consumer = flow.explicit()
    told = outcomes_of(consumer)

    def answer(record: Record) -> None:
        released = record.value == b"release" and record.delivery_count == 1
        consumer.acknowledge(record, RELEASE if released else REJECT if record.value == b"reject" else ACCEPT)

    found = poll_until(consumer, 4, answer)
    assert set(consumer.commit_sync().values()) == {None}
    assert counts(found) == [(b"accept", 1), (b"release", 1), (b"reject", 1), (b"release", 2)]
    assert told == [(0, None), (1, None), (2, None), (1, None)]
    assert not consumer.poll(timeout_ms=700)


@pytest.mark.behaviour("explicit acknowledgement")
def test_poll_is_refused_when_a_record_is_unacknowledged_and_the_last_type_counts(flow: Flow) -> None:
    """Explicit mode: a poll with an unacknowledged record raises, and the last type counts."""
    flow.produce(b"1", b"2")
    consumer = flow.explicit()
    first, second = poll_until(consumer, 2)
    consumer.acknowledge(first, RELEASE)
    with pytest.raises(IllegalStateError):
        consumer.poll(timeout_ms=100)
    consumer.acknowledge(first, ACCEPT)
    consumer.acknowledge(second, REJECT)
    consumer.acknowledge(second, RELEASE)
    [again] = poll_until(consumer, 1)
    assert (again.value, again.delivery_count) == (b"2", 2)
    consumer.acknowledge(again)
    assert set(consumer.commit_sync().values()) == {None}
    with pytest.raises(IllegalStateError):
        consumer.acknowledge(again)


@pytest.mark.behaviour("explicit acknowledgement")
def test_a_record_is_set_aside_when_its_delivery_count_reaches_the_limit(flow: Flow) -> None:
    """A record that is released again and again is delivered five times and then no more."""
    flow.produce(b"poison")
    consumer = flow.explicit(release_backoff_ms=0)
    found = poll_until(consumer, DELIVERY_COUNT_LIMIT, lambda record: consumer.acknowledge(record, RELEASE))
    assert [record.delivery_count for record in found] == [1, 2, 3, 4, 5]
    assert not consumer.poll(timeout_ms=700)
    flow.produce(b"next")
    assert counts(poll_until(consumer, 1, consumer.acknowledge)) == [(b"next", 1)]


# ---- locks


@pytest.mark.behaviour("explicit acknowledgement")
def test_a_record_goes_to_another_member_when_its_lock_expires(flow: Flow) -> None:
    """A lock that runs out gives the record to another member, and the late acknowledgement fails."""
    flow.admin.set_group_config(flow.group, {"share.record.lock.duration.ms": str(LOCK_MS)})
    flow.produce(b"1")
    slow, other = flow.explicit(), flow.explicit()
    [held] = poll_until(slow, 1)
    assert slow.acquisition_lock_timeout_ms == LOCK_MS
    flow.admin.set_group_config(flow.group, {"share.record.lock.duration.ms": "30000"})  # of the locks that follow
    [again] = poll_until(other, 1)
    assert (again.value, again.delivery_count) == (b"1", 2)
    slow.acknowledge(held)
    assert [type(error) for error in slow.commit_sync().values()] == [InvalidRecordStateError]
    other.acknowledge(again)
    assert set(other.commit_sync().values()) == {None}


@pytest.mark.behaviour("delivery counts")
def test_a_record_stays_with_its_member_when_the_lock_is_renewed(flow: Flow, record_property: Note) -> None:
    """RENEW keeps a record locked beyond the lock's duration, without a new delivery."""
    flow.admin.set_group_config(flow.group, {"share.record.lock.duration.ms": str(3 * LOCK_MS)})
    flow.produce(b"long work")
    worker = flow.explicit()
    [record] = poll_until(worker, 1)
    worker.acknowledge(record, RENEW)
    if not flow.target.speaks_v2:
        assert [type(error) for error in worker.commit_sync().values()] == [UnsupportedVersionError]
        record_property(NOTE, "refused")
        return
    other = flow.explicit()
    end_at_s = time.monotonic() + 2 * 3 * LOCK_MS / 1000
    while time.monotonic() < end_at_s:
        assert set(worker.commit_sync().values()) == {None}
        assert not other.poll(timeout_ms=300)
        [renewed] = poll_until(worker, 1)
        assert (renewed.offset, renewed.delivery_count) == (0, 1)
        worker.acknowledge(renewed, RENEW)
    worker.commit_sync()
    [last] = poll_until(worker, 1)
    worker.acknowledge(last, ACCEPT)
    assert set(worker.commit_sync().values()) == {None}
    assert not other.poll(timeout_ms=300)


# ---- members


def test_held_records_go_to_the_next_member_when_their_holder_closes(flow: Flow, record_property: Note) -> None:
    """close releases records at once; their delivery stays counted."""
    flow.produce(b"1", b"2")
    first = flow.member()
    poll_until(first, 2)
    first.close()
    count = 2 if flow.target.counts_released_on_close else 1
    if count == 1:
        record_property(NOTE, "not counted")
    assert counts(poll_until(flow.member(), 2)) == [(b"1", count), (b"2", count)]


@pytest.mark.behaviour("several members")
def test_each_record_is_accepted_once_when_two_members_share_a_partition(flow: Flow) -> None:
    """Two members share one partition: both get records, and each record is accepted once."""
    members = [flow.member(max_poll_records=10) for _ in range(2)]
    told = [outcomes_of(member) for member in members]
    seen: list[set[int]] = [set(), set()]
    total = 200

    def poll_both() -> bool:
        for mine, member in zip(seen, members, strict=True):
            mine.update(record.offset for record in member.poll(timeout_ms=100))
        return len(seen[0] | seen[1]) >= total

    poll_both()
    for start in range(0, total, 10):
        flow.produce(*(str(i).encode() for i in range(start, start + 10)))
    wait_until(poll_both, lambda: f"{len(seen[0])} and {len(seen[1])} of {total} records came")
    for member in members:
        member.commit_sync()
    assert Counter(told[0] + told[1]) == Counter((offset, None) for offset in range(total))
    assert seen[0], "the first member got nothing"
    assert seen[1], "the second member got nothing"
    assert not seen[0] & seen[1], "a record was delivered to both while its lock held"


@pytest.mark.behaviour("polling")
def test_poll_is_interrupted_and_loses_nothing_when_wakeup_is_called(flow: Flow) -> None:
    """wakeup interrupts the next poll and a waiting one, once, and loses nothing."""
    consumer = flow.member()
    consumer.wakeup()
    with pytest.raises(WakeupError):
        consumer.poll(timeout_ms=10_000)
    timer = threading.Timer(0.3, consumer.wakeup)
    timer.start()
    with pytest.raises(WakeupError):
        consumer.poll(timeout_ms=30_000)
    timer.join()
    flow.produce(b"1")
    assert counts(poll_until(consumer, 1)) == [(b"1", 1)]


def test_records_come_again_when_a_member_unsubscribes_and_subscribes_anew(flow: Flow, unique: Names) -> None:
    """unsubscribe leaves the group, and subscribing to other topics and back joins it again."""
    other = unique("other")
    flow.admin.create_topic(other)
    flow.admin.produce(other, [b"b1"])
    flow.produce(b"a1")
    consumer = flow.member()
    assert values(poll_until(consumer, 1)) == [b"a1"]
    consumer.commit_sync()
    consumer.unsubscribe()
    with pytest.raises(IllegalStateError):
        consumer.poll(timeout_ms=100)
    consumer.subscribe([other])
    assert values(poll_until(consumer, 1)) == [b"b1"]
    consumer.subscribe([flow.topic])
    flow.produce(b"a2")
    assert values(poll_until(consumer, 1)) == [b"a2"]


# ---- what changes around a member


@pytest.mark.behaviour("share sessions")
def test_only_new_records_come_when_a_topic_was_deleted_and_created_again(flow: Flow) -> None:
    """A topic is deleted and created again under its name: its new records come, from offset 0 with count 1."""
    flow.produce(b"old 1", b"old 2")
    consumer = flow.member(allow_auto_create_topics=False, metadata_max_age_ms=1_000)
    told = outcomes_of(consumer)
    poll_until(consumer, 2)
    flow.admin.delete_topic(flow.topic)
    flow.admin.create_topic(flow.topic)
    flow.produce(b"new")
    [record] = poll_until(consumer, 1)
    assert (record.value, record.offset, record.delivery_count) == (b"new", 0, 1)
    assert set(consumer.commit_sync().values()) == {None}
    assert [offset for offset, error in told if error is None] == [0]
    assert [offset for offset, error in told if error is not None] == [0, 1], "those of the old topic"


@pytest.mark.behaviour("fetching")
def test_new_partitions_are_consumed_when_a_topic_grows(flow: Flow) -> None:
    """A topic grows from one partition to three while it is consumed: the new ones are delivered too."""
    flow.produce(b"before")
    consumer = flow.member()
    poll_until(consumer, 1)
    flow.admin.grow_topic(flow.topic, 3)
    for partition in range(3):
        flow.produce(b"%d" % partition, partition=partition)
    assert sorted(values(poll_until(consumer, 3))) == [b"0", b"1", b"2"]


@pytest.mark.behaviour("membership")
def test_held_records_stay_valid_and_polls_go_on_when_the_application_stalled(flow: Flow) -> None:
    """A member that polls too late has left the group: its records can be acknowledged, and it joins again."""
    flow.produce(b"1")
    slow = flow.explicit(max_poll_interval_ms=500)
    [held] = poll_until(slow, 1)
    wait_until(lambda: flow.admin.share_members(flow.group) == 0)
    slow.acknowledge(held)
    assert set(slow.commit_sync().values()) == {None}
    flow.produce(b"2")
    assert values(poll_until(slow, 1, slow.acknowledge)) == [b"2"]
    poll_while(slow, lambda: flow.admin.share_members(flow.group) != 1)


@pytest.mark.behaviour("membership")
def test_a_group_with_an_odd_id_is_served_like_any_other(
    kafka: Target, kafka_admin: Admin, unique: Names, closing: Keep
) -> None:
    """A group whose id has colons, spaces, slashes and other alphabets: delivered, accepted, not delivered again."""
    topic, group = unique("t"), unique("a:b/c d #%? grüße 日本 " + "x" * 300)
    flow = Flow(kafka, kafka_admin, topic, group, closing)
    kafka_admin.create_topic(topic)
    kafka_admin.set_group_config(group, {"share.auto.offset.reset": "earliest"})
    flow.produce(b"1")
    first = flow.member()
    poll_until(first, 1)
    assert set(first.commit_sync().values()) == {None}
    first.close()
    flow.produce(b"2")
    assert values(poll_until(flow.member(), 1)) == [b"2"]


# ---- what cannot be delivered


@pytest.mark.behaviour("fetching")
def test_a_record_can_be_rejected_when_its_deserializer_fails(flow: Flow) -> None:
    """A record whose deserializer fails is reported with its place, can be rejected, and delays no other."""

    def parse(data: bytes) -> Any:
        if data == b"bad":
            raise ValueError("not a value")
        return data.decode()

    flow.produce(b"good", b"bad", b"fine")
    consumer = flow.explicit(value_deserializer=parse)
    found: list[Any] = []
    failures: list[RecordDeserializationError] = []

    def poll() -> bool:
        try:
            for record in consumer.poll(timeout_ms=200):
                found.append(record.value)
                consumer.acknowledge(record)
        except RecordDeserializationError as error:
            failures.append(error)
            consumer.acknowledge_offset(error.topic, error.partition, error.offset, REJECT)
        return len(found) >= 2 and bool(failures)

    wait_until(poll, lambda: f"came: {found}, failed: {failures}")
    consumer.commit_sync()
    assert found == ["good", "fine"]
    assert [(f.topic, f.offset, f.value) for f in failures] == [(flow.topic, 1, b"bad")]
    assert not consumer.poll(timeout_ms=700)


@pytest.mark.behaviour("fetching")
def test_a_crash_loop_costs_the_good_neighbours_nothing_when_a_bad_record_ends_each_member(flow: Flow) -> None:
    """A bad record that ends its program five times costs the good ones beside it no delivery, and is then archived."""

    def parse(data: bytes) -> str:
        if data == b"bad":
            raise ValueError("not a value")
        return data.decode()

    flow.produce(b"0", b"1", b"bad", b"3", b"4")
    processed = []

    def program() -> None:
        with flow.explicit(value_deserializer=parse) as consumer:
            while True:
                for record in consumer.poll(timeout_ms=200):
                    processed.append((record.value, record.delivery_count))
                    consumer.acknowledge(record)

    for _ in range(DELIVERY_COUNT_LIMIT):
        with pytest.raises(RecordDeserializationError):
            program()
    assert processed == [("0", 1), ("1", 1), ("3", 1), ("4", 1)]
    flow.produce(b"behind")
    assert counts(poll_until(flow.member(), 1)) == [(b"behind", 1)]


# ---- clusters


def test_all_partitions_are_consumed_when_each_has_another_leader(
    cluster: Target, cluster_admin: Admin, unique: Names, closing: Keep
) -> None:
    """Three nodes, a leader for each partition: one member reads and acknowledges on all of them."""
    flow = begin(cluster, cluster_admin, unique, closing, partitions=3)
    assert len(set(cluster_admin.leaders(flow.topic).values())) == 3, "the partitions do not have a leader each"
    for partition in range(3):
        flow.produce(*(f"{partition}-{i}".encode() for i in range(5)), partition=partition)
    first = flow.explicit()
    told = outcomes_of(first)
    found = poll_until(first, 15, first.acknowledge)
    assert sorted(values(found)) == [f"{partition}-{i}".encode() for partition in range(3) for i in range(5)]
    assert set(first.commit_sync().values()) <= {None}
    assert Counter(told) == Counter((i, None) for i in range(5) for _ in range(3))
    first.close()
    flow.produce(b"new", partition=1)
    assert values(poll_until(flow.member(), 1)) == [b"new"]
