"""What poll makes of a ShareFetch answer: acquired ranges against records, holes, errors of one partition."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from facade.delivery_checks import counted, left_for_others, only_result, outcomes_of, produce_one_batch
from facade.fetch_tampering import FetchTampering, PartitionData, in_partition, partition_error
from support.consumers import MakeConsumer, Record
from support.waiting import offsets, poll_until, poll_until_raises, poll_while, wait_until

from kafka_share import AcknowledgeType
from kafka_share.broker import ReferenceBroker
from kafka_share.errors import (
    BrokerError,
    CoordinatorNotAvailableError,
    CorruptMessageError,
    RemoteProtocolError,
    TopicAuthorizationFailedError,
)
from kafka_share.native import crc32c
from kafka_share.protocol.record_batches import encode_batch


@pytest.fixture
def make_consumer(make_consumer: MakeConsumer) -> MakeConsumer:
    """Consumers whose fetches wait shortly, so that acknowledgements that ride on them are answered soon."""
    return partial(make_consumer, fetch_max_wait_ms=50)


# ---- acquired ranges and holes


@pytest.mark.behaviour("fetching")
@pytest.mark.parametrize("free", [[0, 1, 2, 6, 7, 8], [1, 3, 5, 7, 9]], ids=["two ranges", "odd offsets"])
def test_only_acquired_records_come_when_others_of_the_batch_are_held(
    free: list[int], broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer
) -> None:
    """A member holds one batch of ten and releases some: another one gets exactly these, with their delivery counts."""
    produce_one_batch(broker, topic, 10)
    holder = make_consumer(topic, share_acknowledgement_mode="explicit")
    for record in poll_until(holder, 10):
        if record.offset in free:
            holder.acknowledge(record, AcknowledgeType.RELEASE)
    assert only_result(holder.commit_sync()) is None
    other = make_consumer(topic)
    found: list[Record] = []
    while len(found) < len(free):
        found += poll_until(other, 1)
    assert counted(found) == [(offset, 2) for offset in free]
    assert [r.value for r in found] == [b"value %d" % offset for offset in free]


def with_last_offset(batch: bytes, delta: int) -> bytes:
    """A batch whose last records were compacted away: it still reaches to `delta`."""
    changed = batch[:23] + delta.to_bytes(4, "big") + batch[27:]
    return changed[:17] + crc32c(changed[21:]).to_bytes(4, "big") + changed[21:]


@pytest.mark.behaviour("fetching")
def test_holes_are_acknowledged_unseen_when_compaction_removed_records(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer
) -> None:
    """Acquired offsets without a record are never returned; they are acknowledged as GAP together with the others."""
    batch = encode_batch([(offset, 0, None, b"v", []) for offset in (1, 4)])
    broker.append_batches(topic, with_last_offset(batch, 6))
    consumer = make_consumer(topic)
    outcomes = outcomes_of(consumer)
    assert offsets(poll_until(consumer, 2)) == [1, 4]
    assert only_result(consumer.commit_sync()) is None
    assert outcomes.succeeded == [(topic, 0, offset) for offset in range(7)]
    broker.produce(topic, b"v")
    assert counted(poll_until(consumer, 1)) == [(7, 1)]
    consumer.close()
    assert offsets(left_for_others(broker, make_consumer, topic)) == [7]


@pytest.mark.behaviour("fetching")
@pytest.mark.parametrize("mode", ["implicit", "explicit"])
def test_gaps_are_acknowledged_without_another_poll_when_an_answer_has_nothing_else(
    mode: str, broker: ReferenceBroker, make_consumer: MakeConsumer, tampering: FetchTampering
) -> None:
    """An answer that acquired offsets but has no records: the poll that met the gaps sends them, and waits on."""

    def empty(partition: Any) -> None:
        partition.records = b""

    broker.create_topic("t")
    produce_one_batch(broker, "t", 3)
    tampering.next_answers(in_partition(empty))
    consumer = make_consumer("t", share_acknowledgement_mode=mode)
    outcomes = outcomes_of(consumer)
    poll_while(consumer, lambda: len(outcomes.succeeded) < 3)
    assert outcomes.succeeded == [("t", 0, 0), ("t", 0, 1), ("t", 0, 2)]
    assert consumer.commit_sync() == {}


@pytest.mark.behaviour("fetching")
def test_each_offset_comes_once_when_the_acquired_ranges_are_out_of_order_and_overlap(
    broker: ReferenceBroker, make_consumer: MakeConsumer, tampering: FetchTampering
) -> None:
    """Acquired ranges may be unsorted, repeated and overlapping: each record is delivered and accepted once."""

    def scramble(partition: Any) -> None:
        ranges = [(6, 8, 1), (0, 2, 3), (1, 3, 5), (6, 8, 1)]
        acquired = PartitionData.AcquiredRecords
        partition.acquired_records = [acquired(first_offset=a, last_offset=b, delivery_count=c) for a, b, c in ranges]

    broker.create_topic("t")
    produce_one_batch(broker, "t", 10)
    tampering.next_answers(in_partition(scramble))
    consumer = make_consumer("t")
    outcomes = outcomes_of(consumer)
    found = poll_until(consumer, 1)
    assert counted(found) == [(0, 3), (1, 3), (2, 3), (3, 5), (6, 1), (7, 1), (8, 1)]
    assert only_result(consumer.commit_sync()) is None
    assert outcomes.succeeded == [("t", 0, r.offset) for r in found]


@pytest.mark.behaviour("bad records")
def test_the_rest_is_delivered_and_a_protocol_error_raised_when_an_acquired_range_cannot_be(
    broker: ReferenceBroker, make_consumer: MakeConsumer, tampering: FetchTampering
) -> None:
    """Impossible ranges in an answer are left out with an error from poll; the possible ones are delivered."""

    def impossible(partition: Any) -> None:
        ranges = [(-5, 1, 1), (9, 3, 1), (1, 2, 1), (0, 2**62, 1)]
        acquired = PartitionData.AcquiredRecords
        partition.acquired_records = [acquired(first_offset=a, last_offset=b, delivery_count=c) for a, b, c in ranges]

    broker.create_topic("t")
    produce_one_batch(broker, "t", 10)
    tampering.next_answers(in_partition(impossible))
    consumer = make_consumer("t")
    found: list[Any] = []
    errors: list[str] = []

    def both_came() -> bool:
        """An answer that comes between two polls raises first."""
        try:
            found.extend(consumer.poll(timeout_ms=100))
        except RemoteProtocolError as error:
            errors.append(str(error))
        return bool(found and errors)

    wait_until(both_came)
    assert counted(found) == [(1, 1), (2, 1)]
    assert "t-0" in errors[0]


# ---- errors of one partition


@pytest.mark.better_than_java("errors-by-their-own-name")
@pytest.mark.behaviour("fetching")
@pytest.mark.parametrize(
    "kind",
    [CorruptMessageError, TopicAuthorizationFailedError, CoordinatorNotAvailableError],
    ids=lambda kind: kind.name,
)
def test_polls_raise_until_it_has_passed_when_a_partition_fails(
    kind: type[BrokerError], broker: ReferenceBroker, make_consumer: MakeConsumer, tampering: FetchTampering
) -> None:
    """Errors of a partition that need somebody's attention are raised by polls until they have passed.

    (For unexpected ones Java raises an illegal-state error, ours is the code's own.) Then delivery goes on.
    """
    topic_id = broker.create_topic("t")
    tampering.next_answers(partition_error(topic_id, kind.code), times=3)
    consumer = make_consumer("t", fetch_max_wait_ms=10)
    assert "t" in str(poll_until_raises(consumer, kind))

    def has_passed() -> bool:
        try:
            return not consumer.poll(timeout_ms=100) and tampering.remaining == 0
        except kind:
            return False

    wait_until(has_passed)
    broker.produce("t", b"v")
    assert counted(poll_until(consumer, 1)) == [(0, 1)]


@pytest.mark.behaviour("bad records")
@pytest.mark.parametrize("code", [-1, 75, 3, 6, 9, 56, 74, 78, 100, 103])
def test_polls_are_empty_when_a_partition_fails_with_an_error_that_passes(
    code: int, broker: ReferenceBroker, make_consumer: MakeConsumer, tampering: FetchTampering
) -> None:
    """Errors of a partition that pass by themselves or with fresh metadata are never raised by poll."""
    topic_id = broker.create_topic("t")
    tampering.next_answers(partition_error(topic_id, code), times=2)
    consumer = make_consumer("t", fetch_max_wait_ms=10)
    poll_while(consumer, lambda: tampering.remaining > 0)
    broker.produce("t", b"v")
    assert counted(poll_until(consumer, 1)) == [(0, 1)]
