"""Records that cannot be delivered: failing deserializers and damaged batches."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
from facade.delivery_checks import counted, left_for_others, only_result, outcomes_of, produce_one_batch, produce_values
from facade.fetch_tampering import FetchTampering, in_batch
from support.consumers import Consumer, MakeConsumer
from support.old_messages import TIMESTAMP, old_message, old_set
from support.waiting import offsets, poll_once_more, poll_until, poll_until_raises, poll_while
from support.wire_connection import WireConnection

from kafka_share import AcknowledgeType
from kafka_share.broker import ReferenceBroker
from kafka_share.errors import (
    CorruptRecordError,
    IllegalStateError,
    InvalidArgumentError,
    RecordDeserializationError,
    UnsupportedRecordError,
)
from kafka_share.native import crc32c
from kafka_share.protocol.logs import ProduceRequest
from kafka_share.protocol.record_batches import encode_batch

ACCEPT, RELEASE, REJECT, RENEW = AcknowledgeType
SHARE_FETCH = 78
DELIVERY_LIMIT = 5


@pytest.fixture
def make_consumer(make_consumer: MakeConsumer) -> MakeConsumer:
    """Consumers whose fetches wait shortly, so that acknowledgements that ride on them are answered soon."""
    return partial(make_consumer, fetch_max_wait_ms=50)


def not_bad(data: bytes) -> str:
    """A deserializer."""
    if data.startswith(b"bad"):
        raise ValueError(f"{data!r} is bad")
    return data.decode()


def poll_event(consumer: Consumer) -> str:
    """What the next poll that is not empty comes with: its offsets, or the offset and origin that it raises."""
    try:
        return " ".join(map(str, offsets(poll_until(consumer, 1))))
    except RecordDeserializationError as error:
        return f"{error.origin} {error.offset}"
    except CorruptRecordError as error:
        return f"corrupt {error.offset}"


# ---- deserializers


@pytest.mark.better_than_java("no-acknowledgement-lost")
@pytest.mark.behaviour("fetching")
def test_the_bad_record_is_raised_until_it_is_rejected_when_a_deserializer_fails(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer
) -> None:
    """Each poll raises a record that cannot be deserialized until it is rejected; those before it are accepted.

    (Java loses them.) The bad record was released and is raised again; the override REJECT ends it.
    """
    broker.produce_batch(topic, [b"good", b"good", b"bad"])
    consumer = make_consumer(topic, share_acknowledgement_mode="explicit", value_deserializer=not_bad)
    outcomes = outcomes_of(consumer)
    for record in poll_until(consumer, 2):
        assert record.value == "good"
        consumer.acknowledge(record)
    assert poll_event(consumer) == "value 2"
    assert only_result(consumer.commit_sync()) is None
    assert outcomes.succeeded == [(topic, 0, 0), (topic, 0, 1), (topic, 0, 2)]
    assert poll_event(consumer) == "value 2"
    consumer.acknowledge_offset(topic, 0, 2, REJECT)
    assert only_result(consumer.commit_sync()) is None
    assert poll_once_more(consumer, timeout_ms=0) == []
    consumer.close()
    assert outcomes.failed == []
    assert left_for_others(broker, make_consumer, topic) == []


@pytest.mark.behaviour("bad records")
def test_the_first_error_can_be_overridden_when_records_came_before_it(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer
) -> None:
    """A bad record is not acknowledged before its error was raised, so that the application can decide about it."""
    broker.produce_batch(topic, [b"good", b"bad", b"good"])
    consumer = make_consumer(topic, share_acknowledgement_mode="explicit", value_deserializer=not_bad)
    for record in poll_until(consumer, 2):
        consumer.acknowledge(record)
    assert poll_event(consumer) == "value 1"
    consumer.acknowledge_offset(topic, 0, 1, RELEASE)
    consumer.acknowledge_offset(topic, 0, 1, REJECT)
    consumer.close()
    assert left_for_others(broker, make_consumer, topic) == []


@pytest.mark.behaviour("bad records")
def test_overriding_is_refused_when_the_place_is_wrong_or_the_word_was_committed(
    broker: ReferenceBroker, make_consumer: MakeConsumer
) -> None:
    """A bad record's acknowledgement can be changed only by its right place, and only until it is committed.

    RENEW is an argument that can never work: nobody holds the record.
    """
    broker.create_topic("t")
    broker.produce("t", b"bad")
    consumer = make_consumer("t", share_acknowledgement_mode="explicit", value_deserializer=not_bad)
    assert poll_event(consumer) == "value 0"
    for topic, partition, offset in (("u", 0, 0), ("t", 1, 0), ("t", 0, 1)):
        with pytest.raises(IllegalStateError, match="could not be delivered"):
            consumer.acknowledge_offset(topic, partition, offset, REJECT)
    with pytest.raises(InvalidArgumentError, match="renewed"):
        consumer.acknowledge_offset("t", 0, 0, RENEW)
    consumer.acknowledge_offset("t", 0, 0, REJECT)
    assert only_result(consumer.commit_sync()) is None
    with pytest.raises(IllegalStateError, match="could not be delivered"):
        consumer.acknowledge_offset("t", 0, 0, REJECT)


@pytest.mark.behaviour("fetching")
def test_bad_records_are_raised_up_to_the_limit_and_the_good_ones_come_when_one_batch_holds_both(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer
) -> None:
    """The good records of a batch come first, those behind bad ones too, then the errors with all their raw bytes.

    Released, the bad ones come straight back and are raised up to the delivery limit, five times; then they are
    archived, and implicit mode goes on behind them. Each acknowledgement is reported without an error.
    """
    parts = [(b"k", b"v"), (b"bad", b"raw value"), (b"raw key", b"bad"), (b"k", b"v")]
    batch = [(i, 1_000 + i, key, value, [("h", b"1")]) for i, (key, value) in enumerate(parts)]
    broker.append_batches(topic, encode_batch(batch))
    consumer = make_consumer(topic, key_deserializer=not_bad, value_deserializer=not_bad, release_backoff_ms=0)
    outcomes = outcomes_of(consumer)
    assert offsets(poll_until(consumer, 1)) == [0, 3]
    errors = [poll_until_raises(consumer, RecordDeserializationError) for _ in range(2)]
    assert [(e.topic, e.partition, e.offset, e.origin) for e in errors] == [
        (topic, 0, 1, "key"),
        (topic, 0, 2, "value"),
    ]
    assert [(e.key, e.value, e.timestamp) for e in errors] == [
        (b"bad", b"raw value", 1_001),
        (b"raw key", b"bad", 1_002),
    ]
    assert all(e.headers == (("h", b"1"),) and isinstance(e.__cause__, ValueError) for e in errors)
    again = [poll_until_raises(consumer, RecordDeserializationError).offset for _ in range(2 * (DELIVERY_LIMIT - 1))]
    assert sorted(again) == [1] * (DELIVERY_LIMIT - 1) + [2] * (DELIVERY_LIMIT - 1)
    broker.produce(topic, b"behind")
    assert counted(poll_until(consumer, 1)) == [(4, 1)]
    consumer.close()
    assert outcomes.failed == []
    assert outcomes.succeeded == sorted((topic, 0, offset) for offset in [0, 3, *[1, 2] * DELIVERY_LIMIT])
    assert offsets(left_for_others(broker, make_consumer, topic)) == [4]


@pytest.mark.behaviour("fetching")
def test_no_request_for_records_is_sent_when_a_poll_has_some_at_hand(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer
) -> None:
    """While records or errors of an earlier answer are at hand, polls fetch nothing; acknowledgements still go out."""
    broker.produce_batch(topic, [b"good", b"bad", b"bad", b"good"])
    consumer = make_consumer(topic, value_deserializer=not_bad)
    assert poll_event(consumer) == "0 3"
    fetches = len(broker.requests(SHARE_FETCH))
    assert [poll_event(consumer), poll_event(consumer)] == ["value 1", "value 2"]
    assert len(broker.requests(SHARE_FETCH)) == fetches
    assert set(consumer.commit_sync().values()) == {None}
    consumer.close()
    assert counted(left_for_others(broker, make_consumer, topic)) == [(1, 2), (2, 2)]


@pytest.mark.better_than_java("bad-records-last")
@pytest.mark.behaviour("bad records")
@pytest.mark.parametrize("mode", ["implicit", "explicit"])
def test_a_crash_loop_costs_the_good_neighbours_nothing_when_a_bad_record_ends_each_consumer(
    mode: str, broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer
) -> None:
    """A program that ends with each RecordDeserializationError, and is started again, processes every good record once.

    The bad one ends it five times; then the delivery limit has it archived, and the program goes on.
    """
    broker.produce_batch(topic, [b"bad" if n == 3 else b"good" for n in range(8)])
    processed = []

    def program() -> None:
        with make_consumer(topic, value_deserializer=not_bad, share_acknowledgement_mode=mode) as consumer:
            while True:
                for record in consumer.poll(timeout_ms=50):
                    processed.append((record.offset, record.delivery_count))
                    if mode == "explicit":
                        consumer.acknowledge(record)

    for _ in range(DELIVERY_LIMIT):
        with pytest.raises(RecordDeserializationError):
            program()
    assert processed == [(n, 1) for n in range(8) if n != 3]
    broker.produce(topic, b"behind")
    assert counted(left_for_others(broker, make_consumer, topic)) == [(8, 1)]


@pytest.mark.behaviour("polling")
def test_the_next_poll_returns_everything_when_an_interrupt_strikes_in_a_deserializer(
    broker: ReferenceBroker, make_consumer: MakeConsumer
) -> None:
    """A KeyboardInterrupt in a deserializer costs nothing: no record is skipped, and none is accepted unseen."""
    strikes = [b"2"]

    def deserialize(data: bytes) -> bytes:
        if data in strikes:
            strikes.remove(data)
            raise KeyboardInterrupt
        return data

    broker.create_topic("t")
    for value in (b"1", b"2", b"3"):
        broker.produce("t", value)
    consumer = make_consumer("t", value_deserializer=deserialize)
    with pytest.raises(KeyboardInterrupt):
        poll_until(consumer, 1)
    assert [(r.value, r.delivery_count) for r in poll_until(consumer, 3)] == [(b"1", 1), (b"2", 1), (b"3", 1)]


# ---- damaged batches


def with_wrong_checksum(batch: bytes) -> bytes:
    return batch[:-1] + bytes([batch[-1] ^ 1])


def with_format(number: int) -> Callable[[bytes], bytes]:
    return lambda batch: batch[:16] + bytes([number]) + batch[17:]


def with_unknown_codec(batch: bytes) -> bytes:
    changed = batch[:22] + bytes([batch[22] | 7]) + batch[23:]
    return changed[:17] + crc32c(changed[21:]).to_bytes(4, "big") + changed[21:]


@pytest.mark.better_than_java("no-acknowledgement-lost")
@pytest.mark.behaviour("fetching")
def test_a_damaged_batch_is_rejected_and_the_others_come_when_three_were_fetched(
    broker: ReferenceBroker,
    topic: str,
    make_consumer: MakeConsumer,
    tampering: FetchTampering,
) -> None:
    """Of three batches a damaged one is raised by poll and rejected; the ones before and behind it come.

    What the raising poll had accepted is sent and reported (Java: lost, and back after the lock time).
    """
    for _ in range(3):
        produce_one_batch(broker, topic, 3)
    tampering.next_answers(in_batch(1, with_wrong_checksum))
    consumer = make_consumer(topic)
    outcomes = outcomes_of(consumer)
    assert offsets(poll_until(consumer, 1)) == [0, 1, 2, 6, 7, 8]
    error = poll_until_raises(consumer, CorruptRecordError)
    assert (error.topic, error.partition, error.offset) == (topic, 0, 3)
    assert "t-0" in str(error)
    assert "offset 3" in str(error)
    poll_while(consumer, lambda: len(outcomes.succeeded) < 9)
    assert outcomes.succeeded == [(topic, 0, offset) for offset in range(9)]
    consumer.close()
    assert outcomes.failed == []
    assert left_for_others(broker, make_consumer, topic) == []


@pytest.mark.better_than_java("sound-batches-released")
@pytest.mark.behaviour("bad records")
@pytest.mark.parametrize(
    ("damage", "why"),
    [(with_format(3), "unknown format 3"), (with_unknown_codec, "codec 7 is not known")],
    ids=["format", "codec"],
)
def test_a_batch_that_others_may_read_is_released_when_we_cannot(
    damage: Callable[[bytes], bytes],
    why: str,
    broker: ReferenceBroker,
    topic: str,
    make_consumer: MakeConsumer,
    tampering: FetchTampering,
) -> None:
    """A batch of a codec or format that we do not know is raised by poll and released: another client may read it."""
    produce_one_batch(broker, topic, 3)
    tampering.next_answers(in_batch(0, damage))
    consumer = make_consumer(topic)
    error = poll_until_raises(consumer, UnsupportedRecordError)
    assert (error.topic, error.partition, error.offset) == (topic, 0, 0)
    assert why in str(error)
    assert counted(poll_until(consumer, 3)) == [(0, 2), (1, 2), (2, 2)]


@pytest.mark.better_than_java("sound-batches-released")
@pytest.mark.behaviour("bad records")
def test_a_batch_above_our_limit_is_released_and_the_setting_named(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer
) -> None:
    """A batch above max_record_batch_bytes is released and the setting named; a consumer with a higher one gets it."""
    broker.append_batches(topic, encode_batch([(0, 0, None, b"v" * 100_000, [])], codec="zstd"))
    with make_consumer(topic, max_record_batch_bytes=100_000) as consumer:
        error = poll_until_raises(consumer, UnsupportedRecordError)
    assert "more than the 100000 bytes" in str(error)
    assert "raise max_record_batch_bytes" in str(error)
    (record,) = poll_until(make_consumer(topic, max_record_batch_bytes=200_000), 1)
    assert (record.value, record.delivery_count) == (b"v" * 100_000, 2)


@pytest.mark.behaviour("fetching")
def test_records_come_when_the_name_of_a_header_is_not_utf_8(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer
) -> None:
    """A header name that is not UTF-8 is delivered with U+FFFD in it, and its batch with it; a Produce has it taken."""
    data = encode_batch([(n, 0, None, b"v", [("naXme", b"x")] if n == 1 else []) for n in range(3)])
    data = data.replace(b"naXme", b"na\xffme")
    data = data[:17] + crc32c(data[21:]).to_bytes(4, "big") + data[21:]
    wire = WireConnection(broker.bootstrap_servers)
    about = ProduceRequest.TopicProduceData
    asked = about(name=topic, partition_data=[about.PartitionProduceData(index=0, records=data)])
    answer = wire.call(ProduceRequest(transactional_id=None, acks=-1, timeout_ms=1_000, topic_data=[asked]), 9)
    wire.close()
    assert answer.responses[0].partition_responses[0].error_code == 0
    records = poll_until(make_consumer(topic), 3)
    assert [tuple(r.headers) for r in records] == [(), (("na\ufffdme", b"x"),), ()]


@pytest.mark.behaviour("fetching")
@pytest.mark.parametrize("magic", [0, 1])
def test_records_come_when_an_old_log_has_them_in_an_old_format(
    magic: int, broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer
) -> None:
    """Records of the formats 0 and 1, which brokers serve from the logs of old clusters as they are, are delivered."""
    old = old_message(magic, 0, b"0") + old_set(magic, {1: b"1", 2: b"2"}) + old_message(magic, 3, b"3")
    assert broker.append_batches(topic, old) == 0
    assert broker.produce(topic, b"4") == 4
    with pytest.raises(InvalidArgumentError, match="keeps its offset"):
        broker.append_batches(topic, old)
    consumer = make_consumer(topic)
    records = poll_until(consumer, 5)
    assert [(r.offset, r.value, r.delivery_count) for r in records] == [(n, b"%d" % n, 1) for n in range(5)]
    assert [r.timestamp for r in records[:4]] == [TIMESTAMP if magic else -1] * 4
    assert set(consumer.commit_sync().values()) == {None}


@pytest.mark.behaviour("bad records")
def test_a_damaged_batch_can_be_kept_when_the_application_overrides_the_reject(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer, tampering: FetchTampering
) -> None:
    """Damage on the way is not damage in the log: RELEASE instead of REJECT brings the records again."""
    produce_one_batch(broker, topic, 2)
    tampering.next_answers(in_batch(0, with_wrong_checksum))
    consumer = make_consumer(topic, share_acknowledgement_mode="explicit")
    assert poll_event(consumer) == "corrupt 0"
    consumer.acknowledge_offset(topic, 0, 1, RELEASE)
    (record,) = poll_until(consumer, 1)
    assert (record.offset, record.delivery_count) == (1, 2)
    consumer.acknowledge(record)


@pytest.mark.behaviour("bad records")
def test_a_wrong_checksum_passes_when_check_crcs_is_off(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer
) -> None:
    """check_crcs=False delivers what can be decoded, as it lies in the log."""
    broker.append_batches(topic, encode_batch([(0, 0, None, b"value", [])]).replace(b"value", b"valve"))
    assert [r.value for r in poll_until(make_consumer(topic, check_crcs=False), 1)] == [b"valve"]


@pytest.mark.better_than_java("cut-off-answers-released")
@pytest.mark.behaviour("bad records")
def test_the_rest_comes_again_when_an_answer_was_cut_off(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer, tampering: FetchTampering
) -> None:
    """What follows bytes that are no batch is released, not rejected: it may be sound in the log, and comes again."""
    produce_values(broker, topic, 3)
    tampering.next_answers(in_batch(1, lambda batch: batch[:8] + b"\x7f" + batch[9:]))
    consumer = make_consumer(topic)
    assert counted(poll_until(consumer, 1)) == [(0, 1)]
    assert poll_event(consumer) == "corrupt 1"
    assert counted(poll_until(consumer, 2)) == [(1, 2), (2, 2)]
