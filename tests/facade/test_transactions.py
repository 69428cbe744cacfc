"""Transactions as share groups see them: aborted records, markers, open transactions, both isolation levels."""

from __future__ import annotations

from functools import partial

import attrs
import pytest
from facade.delivery_checks import counted, only_result, outcomes_of, produce_values
from support.consumers import MakeConsumer
from support.waiting import offsets, poll_once_more, poll_until, poll_while

from kafka_share import AcknowledgeType
from kafka_share.broker import ReferenceBroker
from kafka_share.protocol.record_encoder import RecordToWrite, control_batch, encode_batch

COMMITTED = {"share.isolation.level": "read_committed"}
UNCOMMITTED = {"share.isolation.level": "read_uncommitted"}


@pytest.fixture
def make_consumer(make_consumer: MakeConsumer) -> MakeConsumer:
    """Consumers whose fetches wait shortly: the tests wait for markers, which bring no records."""
    return partial(make_consumer, fetch_max_wait_ms=50)


@attrs.define
class Producer:
    """A transactional producer, by what it leaves in the log of topic t."""

    broker: ReferenceBroker
    id: int = 7
    partition: int = 0
    sequence: int = 0

    def write(self, *values: bytes) -> None:
        records: list[RecordToWrite] = [(index, 0, None, value, []) for index, value in enumerate(values)]
        batch = encode_batch(
            records,
            producer_id=self.id,
            producer_epoch=0,
            base_sequence=self.sequence,
            is_transactional=True,
        )
        self.sequence += len(values)
        self.broker.append_batches("t", batch, self.partition)

    def end(self, *, commit: bool) -> None:
        marker = control_batch("commit" if commit else "abort", producer_id=self.id, producer_epoch=0, timestamp=0)
        self.broker.append_batches("t", marker, self.partition)

    def run(self, *values: bytes, commit: bool) -> None:
        self.write(*values)
        self.end(commit=commit)


def group_that_reads(broker: ReferenceBroker, level: dict[str, str], group: str = "g") -> None:
    broker.set_group_config(group, level)


@pytest.mark.behaviour("transactions")
def test_all_records_come_at_their_offsets_when_the_group_reads_uncommitted(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer
) -> None:
    """By default aborted records are delivered too; markers never, they only leave holes between the offsets."""
    producer = Producer(broker)
    producer.run(b"committed", commit=True)
    produce_values(broker, topic, 1)
    producer.run(b"aborted", commit=False)
    produce_values(broker, topic, 1)
    consumer = make_consumer(topic)
    outcomes = outcomes_of(consumer)
    found = poll_until(consumer, 4)
    assert offsets(found) == [0, 2, 3, 5]
    assert [r.value for r in found] == [b"committed", b"value 0", b"aborted", b"value 0"]
    assert only_result(consumer.commit_sync()) is None
    assert outcomes.succeeded == [(topic, 0, offset) for offset in range(6)], "markers are acknowledged as gaps"
    assert poll_once_more(consumer) == []


@pytest.mark.behaviour("transactions")
def test_aborted_records_never_come_when_the_group_reads_committed(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer
) -> None:
    """Ten transactions of one record, every fifth aborted: a read_committed group gets the other eight, in order."""
    group_that_reads(broker, COMMITTED)
    producer = Producer(broker)
    for number in range(1, 11):
        producer.run(b"%d" % number, commit=number % 5 != 0)
    consumer = make_consumer(topic)
    assert [int(r.value) for r in poll_until(consumer, 8)] == [1, 2, 3, 4, 6, 7, 8, 9]
    assert poll_once_more(consumer) == []


@pytest.mark.behaviour("transactions")
@pytest.mark.parametrize(("level", "expected"), [(COMMITTED, 7), (UNCOMMITTED, 10)], ids=["committed", "uncommitted"])
def test_plain_and_transactional_records_are_told_apart_when_they_are_mixed(
    level: dict[str, str], expected: int, broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer
) -> None:
    """Plain records are always delivered; of transactional ones a read_committed group gets the committed only."""
    group_that_reads(broker, level)
    producer = Producer(broker)
    produce_values(broker, topic, 2)
    producer.run(b"c", b"c", b"c", commit=True)
    producer.run(b"a", b"a", b"a", commit=False)
    produce_values(broker, topic, 2)
    consumer = make_consumer(topic)
    found = poll_until(consumer, expected)
    assert len(found) == expected
    assert sum(r.value == b"a" for r in found) == expected - 7


@pytest.mark.behaviour("transactions")
def test_only_the_second_transaction_comes_when_the_first_was_aborted(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer
) -> None:
    """Three records aborted, then three committed by the same producer: a read_committed group gets the latter."""
    group_that_reads(broker, COMMITTED)
    producer = Producer(broker)
    producer.run(b"a", b"a", b"a", commit=False)
    producer.run(b"c", b"c", b"c", commit=True)
    assert counted(poll_until(make_consumer(topic), 3)) == [(4, 1), (5, 1), (6, 1)]


@pytest.mark.behaviour("transactions")
def test_markers_leave_gaps_that_nobody_sees_when_transactions_are_committed(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer
) -> None:
    """Between committed transactions an offset is missing; the group's start moves on past it."""
    group_that_reads(broker, COMMITTED)
    producer = Producer(broker)
    for _ in range(3):
        producer.run(b"1", b"2", commit=True)
    consumer = make_consumer(topic)
    outcomes = outcomes_of(consumer)
    assert offsets(poll_until(consumer, 6)) == [0, 1, 3, 4, 6, 7]
    poll_while(consumer, lambda: len(outcomes.succeeded) < 9)
    state = broker.share_partition("g", topic, 0)
    assert state is not None
    assert state.start_offset == 9


@pytest.mark.behaviour("transactions")
@pytest.mark.parametrize("commit", [True, False])
def test_an_open_transaction_holds_back_what_is_behind_it_when_the_group_reads_committed(
    commit: bool, broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer
) -> None:
    """Until the transaction ends, a read_committed group gets nothing from its first record on; others get all."""
    group_that_reads(broker, COMMITTED)
    producer = Producer(broker)
    produce_values(broker, topic, 1)
    producer.write(b"open")
    produce_values(broker, topic, 1)
    assert offsets(poll_until(make_consumer(topic, group_id="all"), 3)) == [0, 1, 2]
    consumer = make_consumer(topic)
    assert offsets(poll_until(consumer, 1)) == [0]
    assert poll_once_more(consumer) == []
    producer.end(commit=commit)
    expected = [1, 2] if commit else [2]
    assert offsets(poll_until(consumer, len(expected))) == expected


@pytest.mark.behaviour("transactions")
def test_aborted_records_come_from_then_on_when_the_isolation_level_is_lowered(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer
) -> None:
    """A group that is changed to read_uncommitted gets later aborted records; earlier ones stay away."""
    group_that_reads(broker, COMMITTED)
    producer = Producer(broker)
    producer.run(b"1", commit=True)
    producer.run(b"2", commit=False)
    producer.run(b"3", commit=True)
    consumer = make_consumer(topic, share_acknowledgement_mode="explicit")
    for record in poll_until(consumer, 2):
        consumer.acknowledge(record, AcknowledgeType.RELEASE if record.value == b"3" else AcknowledgeType.ACCEPT)
    assert only_result(consumer.commit_sync()) is None
    group_that_reads(broker, UNCOMMITTED)
    producer.run(b"4", commit=False)
    assert [(r.value, r.delivery_count) for r in poll_until(consumer, 2, consumer.acknowledge)] == [
        (b"3", 2),
        (b"4", 1),
    ]


@pytest.mark.behaviour("transactions")
def test_each_group_has_its_own_isolation_level(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer
) -> None:
    """Two groups on one topic, one read_committed and one not: each gets what its level shows."""
    group_that_reads(broker, COMMITTED, "rc")
    producer = Producer(broker)
    for commit in (True, False, True):
        producer.run(*[b"v"] * 20, commit=commit)
    strict, lax = make_consumer(topic, group_id="rc"), make_consumer(topic, group_id="ru")
    assert [len(poll_until(strict, 40)), len(poll_until(lax, 60))] == [40, 60]
    assert poll_once_more(strict) == poll_once_more(lax) == []


@pytest.mark.behaviour("transactions")
def test_only_committed_records_come_when_producers_are_interleaved(
    broker: ReferenceBroker, make_consumer: MakeConsumer
) -> None:
    """Three producers write in turn into two partitions; one aborts: its records, and only they, stay away."""
    broker.create_topic("t", partitions=2)
    group_that_reads(broker, COMMITTED)
    producers = {
        (name, index): Producer(broker, number, index) for number, name in enumerate("abc", 1) for index in (0, 1)
    }
    for _ in range(5):
        for (name, _), producer in producers.items():
            producer.write(name.encode())
    for (name, _), producer in producers.items():
        producer.end(commit=name != "b")
    found = poll_until(make_consumer("t"), 20)
    assert sorted(r.value for r in found) == [b"a"] * 10 + [b"c"] * 10
