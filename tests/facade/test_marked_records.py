"""Records that cannot be deserialized, delivered with their error instead of being raised."""

from __future__ import annotations

from functools import partial

import pytest
from facade.delivery_checks import left_for_others, only_result, outcomes_of
from facade.fetch_tampering import FetchTampering, in_batch
from support.consumers import MakeConsumer, Record
from support.waiting import offsets, poll_until, poll_until_raises

from kafka_share import AcknowledgeType
from kafka_share.broker import ReferenceBroker
from kafka_share.errors import ConfigurationError, CorruptRecordError, IllegalStateError
from kafka_share.protocol.record_batches import encode_batch


def not_bad(data: bytes) -> str:
    """A deserializer."""
    if data.startswith(b"bad"):
        raise ValueError(f"{data!r} is bad")
    return data.decode()


@pytest.fixture
def make_marking(broker: ReferenceBroker, make_consumer: MakeConsumer) -> MakeConsumer:
    """Consumers that mark; the topic has a good record, a bad value, a bad key and a good record."""
    broker.create_topic("t")
    parts = [(b"k", b"v"), (b"k", b"bad value"), (b"bad key", b"v"), (b"k", b"v")]
    data = encode_batch([(i, 0, key, value, []) for i, (key, value) in enumerate(parts)], base_offset=0)
    broker.append_batches("t", data)
    return partial(
        make_consumer,
        fetch_max_wait_ms=50,
        key_deserializer=not_bad,
        value_deserializer=not_bad,
        deserialization_errors="mark",
    )


def described(record: Record) -> tuple[object, ...]:
    error = record.error
    return (record.offset, record.key, record.value, error and (error.origin, error.key, error.value))


MARKED = [
    (0, "k", "v", None),
    (1, b"k", b"bad value", ("value", b"k", b"bad value")),
    (2, b"bad key", b"v", ("key", b"bad key", b"v")),
    (3, "k", "v", None),
]


@pytest.mark.behaviour("bad records")
def test_the_next_poll_accepts_marked_records_when_the_mode_is_implicit(
    broker: ReferenceBroker, make_consumer: MakeConsumer, make_marking: MakeConsumer
) -> None:
    """All records of the batch come in one poll, the bad ones with their raw bytes and error; nothing gets stuck."""
    consumer = make_marking("t")
    outcomes = outcomes_of(consumer)
    records = poll_until(consumer, 4)
    assert [described(record) for record in records] == MARKED
    error = records[1].error
    assert error is not None
    assert isinstance(error.__cause__, ValueError)
    assert "RELEASE" not in str(error)
    broker.produce("t", b"good")
    assert offsets(poll_until(consumer, 1)) == [4]
    consumer.commit_sync()
    assert outcomes.succeeded == [("t", 0, offset) for offset in range(5)]
    consumer.close()
    assert left_for_others(broker, make_consumer, "t") == []


@pytest.mark.behaviour("bad records")
def test_a_marked_record_needs_its_word_like_any_other_when_the_mode_is_explicit(
    broker: ReferenceBroker, make_consumer: MakeConsumer, make_marking: MakeConsumer
) -> None:
    """In explicit mode a record that is marked as bad has to be acknowledged like any other."""
    consumer = make_marking("t", share_acknowledgement_mode="explicit")
    for record in poll_until(consumer, 4):
        if record.error is None:
            consumer.acknowledge(record)
        else:
            with pytest.raises(IllegalStateError, match="could not be delivered"):
                consumer.acknowledge_offset("t", 0, record.offset, AcknowledgeType.REJECT)
            with pytest.raises(IllegalStateError, match="not been acknowledged"):
                consumer.poll(timeout_ms=0)
            consumer.acknowledge(record, AcknowledgeType.REJECT)
    assert only_result(consumer.commit_sync()) is None
    consumer.close()
    assert left_for_others(broker, make_consumer, "t") == []


def test_a_damaged_batch_is_raised_when_records_are_marked(
    make_marking: MakeConsumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There are no records in it to mark."""
    FetchTampering(monkeypatch).next_answers(in_batch(0, lambda batch: batch[:-1] + bytes([batch[-1] ^ 1])))
    consumer = make_marking("t")
    assert poll_until_raises(consumer, CorruptRecordError).offset == 0


def test_an_unknown_policy_is_refused(make_consumer: MakeConsumer) -> None:
    """Only raise and mark are known."""
    with pytest.raises(ConfigurationError, match="raise, mark"):
        make_consumer("t", deserialization_errors="ignore")
