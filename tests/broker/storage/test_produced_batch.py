"""What a producer sends for a partition: accepted and refused as by Kafka 4.3.1, and checked in turns."""

from __future__ import annotations

import struct
import tracemalloc
from random import Random
from typing import Any

import pytest
from broker.cluster_world import START_MS, World, batch

from kafka_share.broker.configs.configs import ResourceType
from kafka_share.broker.events import RequestArrived, RequestContext
from kafka_share.broker.refusals import RecordsRefusedError, Refusal
from kafka_share.broker.storage.produced_batch import (
    AT_ONCE_BYTES,
    AT_ONCE_RECORDS,
    MOST_RECORD_ERRORS,
    RecordRules,
    checking,
)
from kafka_share.errors import CorruptMessageError, InvalidRecordError, MessageTooLargeError
from kafka_share.native import crc32c
from kafka_share.protocol.compression import compress
from kafka_share.protocol.handshake import ApiVersionsRequest
from kafka_share.protocol.logs import ProduceRequest
from kafka_share.protocol.record_batches import RecordBatch, control_batch, encode_batch, iter_batches
from kafka_share.protocol.record_encoder import RecordToWrite
from kafka_share.protocol.record_format import Codec
from kafka_share.protocol.varint import zigzag
from kafka_share.records import TimestampType

GOOD = encode_batch([(0, 1, None, b"a", [])])
LIMIT = 1_048_588


def run(records: bytes, max_bytes: int = LIMIT) -> tuple[RecordBatch, int]:
    """The batch, and in how many turns it was checked."""
    turns, number = checking(records, RecordRules(max_bytes)), 1
    while True:
        try:
            next(turns)
        except StopIteration as done:
            return done.value, number
        number += 1


def record(headers: bytes = b"\0", value: bytes = b"") -> bytes:
    body = b"\0\0\0\1" + zigzag(len(value)) + value + headers
    return zigzag(len(body)) + body


def sealed(records: bytes, codec: Codec = "none", count: int = 1) -> bytes:
    """A batch around any bytes, with the checksum that belongs to them."""
    body = compress(codec, records)
    attributes = ("none", "gzip", "snappy", "lz4", "zstd").index(codec)
    checked = struct.pack(">hiqqqhii", attributes, count - 1, START_MS, START_MS, -1, -1, -1, count) + body
    return struct.pack(">qiibI", 0, 9 + len(checked), 0, 2, crc32c(checked)) + checked


def header_bomb(count: int) -> bytes:
    """One record of `count` headers of two bytes each; zstd makes next to nothing of them."""
    return sealed(record(zigzag(count) + b"\0\1" * count), "zstd")


# ---- what is accepted and refused; each was answered so by Kafka 4.3.1


def test_a_batch_is_taken_when_a_producer_wrote_it_well() -> None:
    data = encode_batch(
        [(0, 1, None, b"a", []), (1, 1, b"k", None, [("h", b"1")])], codec="snappy", producer_id=4, base_sequence=0
    )
    assert bytes(run(data)[0].data) == data


def test_what_is_cut_off_behind_the_batch_is_ignored() -> None:
    assert bytes(run(GOOD + GOOD[:-3])[0].data) == GOOD


def test_a_header_name_that_is_not_utf_8_is_no_reason_to_refuse() -> None:
    data = sealed(record(zigzag(1) + zigzag(5) + b"na\xffme" + zigzag(1) + b"x"))
    ((*_, headers),) = run(data)[0].records()
    assert headers == (("na\N{REPLACEMENT CHARACTER}me", b"x"),)


@pytest.mark.parametrize(
    ("data", "error", "problem"),
    [
        pytest.param(b"", InvalidRecordError, "missing or cut off", id="nothing"),
        pytest.param(GOOD[:-1], InvalidRecordError, "missing or cut off", id="cut"),
        pytest.param(GOOD + GOOD, InvalidRecordError, "one record batch per partition", id="two"),
        pytest.param(
            bytes.fromhex("00000000 00000000 0000000e 7d3c8b0e 00 00 ffffffff ffffffff"),
            InvalidRecordError,
            "format 2, not 0",
            id="old format",
        ),
        pytest.param(GOOD[:16] + b"\3" + GOOD[17:], CorruptMessageError, "unknown format 3", id="new format"),
        pytest.param(GOOD[:-1] + b"x", CorruptMessageError, "checksum", id="checksum"),
        pytest.param(
            encode_batch([(0, 1, None, bytes(LIMIT), [])])[:-1] + b"x", MessageTooLargeError, "limit", id="too large"
        ),
        pytest.param(
            control_batch("commit", producer_id=1, producer_epoch=0, timestamp=0),
            CorruptMessageError,
            "control",
            id="control",
        ),
        pytest.param(
            encode_batch([(0, 1, None, b"a", [])], producer_id=3), CorruptMessageError, "sequence", id="sequence"
        ),
        pytest.param(
            encode_batch([(0, 1, None, b"a", []), (2, 1, None, b"b", [])]),
            CorruptMessageError,
            "claims 2 records",
            id="hole",
        ),
        pytest.param(
            sealed(record(zigzag(1) + zigzag(-2) + b"\0")), CorruptMessageError, "impossible length", id="header"
        ),
        pytest.param(sealed(record(zigzag(2) + b"\0\1")), CorruptMessageError, "headers", id="headers missing"),
    ],
)
def test_a_batch_is_refused_when_a_broker_may_not_store_it(
    data: bytes, error: type[InvalidRecordError], problem: str
) -> None:
    with pytest.raises(Refusal, match=problem) as refused:
        run(data)
    assert refused.value.code == error.code


def test_a_batch_is_refused_when_little_data_becomes_too_much() -> None:
    """Not a row above: every worker would make it while it collects."""
    bomb = sealed(bytes(200 * 1024 * 1024), "zstd")
    with pytest.raises(Refusal, match="allowed") as refused:
        run(bomb)
    assert refused.value.code == CorruptMessageError.code


# ---- memory and turns


def test_headers_by_the_million_cost_no_more_memory_than_their_bytes() -> None:
    count = 100_000
    data = header_bomb(count)
    assert len(data) < 1_000
    tracemalloc.start()
    try:
        found, turns = run(data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found.record_count == 1
    assert turns >= count // AT_ONCE_RECORDS
    assert peak < 16 * 2 * count  # the buffers of the codec grow by steps


def test_small_batches_are_checked_in_one_turn() -> None:
    assert run(batch(1_000, codec="lz4"))[1] == 1


def test_nothing_large_is_opened_in_the_first_turn() -> None:
    data = sealed(record(value=bytes(20 * AT_ONCE_BYTES)), "zstd")
    turns = checking(data, RecordRules(LIMIT))
    tracemalloc.start()
    try:
        next(turns)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2 * AT_ONCE_BYTES
    with pytest.raises(StopIteration):
        next(turns)


def test_many_records_are_checked_in_turns() -> None:
    count = 3 * AT_ONCE_RECORDS
    body = b"".join(
        zigzag(5 + len(delta)) + b"\0\0" + delta + b"\1\1\0" for delta in (zigzag(number) for number in range(count))
    )
    assert run(sealed(body, "zstd", count))[1] > 3


# ---- in the broker


class Busy(World):
    """A world in which producers have their turns: nothing is polled unless the test does it."""

    def send(self, request: Any, version: int, connection: int) -> RequestContext:
        self._correlation_id += 1
        context = RequestContext(connection, 1, "127.0.0.1", request.API_KEY, version, self._correlation_id, "test")
        self.machine.handle(RequestArrived(context, request), self.now_ms)
        return context

    def answered(self) -> set[int]:
        """One poll of the machine; the connections that get an answer."""
        return {reply.context.connection_id for reply in self.machine.poll(self.now_ms)}


def produce_request(topic: Any, *records: bytes, acks: int = -1) -> ProduceRequest:
    data = ProduceRequest.TopicProduceData
    partitions = [data.PartitionProduceData(index=index, records=one) for index, one in enumerate(records)]
    return ProduceRequest(
        acks=acks, timeout_ms=1_000, topic_data=[data(name=topic.name, topic_id=topic.id, partition_data=partitions)]
    )


def ping() -> ApiVersionsRequest:
    return ApiVersionsRequest(client_software_name="c", client_software_version="1")


def test_others_are_answered_while_the_records_of_one_are_checked() -> None:
    """Twenty batches that take long: each poll gives them a turn, and others their answers."""
    world = Busy()
    topic = world.topic("t", partitions=20)
    heavy = produce_request(topic, *[header_bomb(2 * AT_ONCE_RECORDS)] * 20)
    world.send(heavy, 9, connection=1)
    polls = 0
    while True:
        world.send(ping(), 4, connection=2)
        world.send(produce_request(topic, batch()), 9, connection=3)
        polls += 1
        answered = world.answered()
        assert {2, 3} <= answered
        if 1 in answered:
            break
        assert world.machine.wake_at_ms() == 0, "it wants to go on as soon as others have had their turn"
    assert polls > 40
    assert world.machine.wake_at_ms() == world.cluster.retention.wake_at_ms(), "nothing is left to be checked"
    assert topic.partitions[19].log.high_watermark == 1
    assert topic.partitions[0].log.high_watermark == polls + 1


def test_only_one_large_batch_is_open_at_a_time_and_the_first_to_come_is_the_first_to_end() -> None:
    world = Busy()
    topic = world.topic("t")
    large = 8 * AT_ONCE_BYTES
    heavy = sealed(record(zigzag(2 * AT_ONCE_RECORDS) + b"\0\1" * 2 * AT_ONCE_RECORDS, value=bytes(large)), "zstd")
    tracemalloc.start()
    try:
        for connection in range(4):
            world.send(produce_request(topic, heavy), 9, connection)
        order: list[int] = []
        while len(order) < 4:
            order += world.answered()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert order == list(range(4))
    assert peak < 4 * large


def test_nothing_is_written_when_the_leader_has_moved_while_records_were_checked() -> None:
    world = Busy(nodes=2)
    topic = world.topic("t", replication_factor=2)
    world.send(produce_request(topic, header_bomb(5 * AT_ONCE_RECORDS)), 9, connection=1)
    world.cluster.move_leader(topic.partitions[0], 2, world.now_ms)
    replies: list[Any] = []
    while not replies:
        replies = world.machine.poll(world.now_ms)
    assert replies[0].response.responses[0].partition_responses[0].error_code == 6
    assert topic.partitions[0].log.high_watermark == 0


def test_records_get_the_brokers_time_when_the_topic_says_so() -> None:
    world = World(config={"log.message.timestamp.type": "LogAppendTime"})
    topic = world.topic("t")
    sent = batch(3, timestamp=5, codec="gzip")
    world.ask(produce_request(topic, sent), 9)
    (stored,) = topic.partitions[0].log.read(0, 10_000, 3)
    (found,) = iter_batches(stored.data)
    found.verify_crc()
    assert found.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert [timestamp for _, timestamp, *_ in found.records()] == [START_MS] * 3
    assert stored.data[61:] == sent[61:], "the records are as the producer has compressed them"


def test_random_bytes_are_refused_or_taken_and_nothing_else() -> None:
    random = Random(7)
    good = bytearray(batch(3, codec="zstd"))
    refused = []
    for _ in range(300):
        data = bytearray(good)
        data[random.randrange(len(data))] = random.randrange(256)
        data[17:21] = crc32c(bytes(data[21:])).to_bytes(4, "big")
        try:
            run(bytes(data))
        except Refusal as refusal:
            refused.append(refusal.code)
    assert set(refused) == {CorruptMessageError.code, InvalidRecordError.code}


def refused(records: bytes, **rules: Any) -> tuple[int, list[int]]:
    """The code of the refusal, and the indexes of the records that it names."""
    turns = checking(records, RecordRules(LIMIT, **rules))
    with pytest.raises(RecordsRefusedError) as caught:
        for _ in turns:
            pass
    return caught.value.code, [index for index, _ in caught.value.errors]


def accepted(records: bytes, **rules: Any) -> bool:
    return all(turn is None for turn in checking(records, RecordRules(LIMIT, **rules)))


KEYED: list[RecordToWrite] = [
    (0, START_MS, b"k", b"v", []),
    (1, START_MS, None, b"v", []),
    (2, START_MS, b"", b"v", []),
]


@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_a_compacted_topic_takes_no_record_without_a_key(codec: Codec) -> None:
    assert refused(encode_batch(KEYED, codec=codec), needs_keys=True) == (InvalidRecordError.code, [1])
    assert accepted(encode_batch(KEYED, codec=codec))
    assert accepted(encode_batch([KEYED[0]], codec=codec), needs_keys=True)


def _at(*timestamps: int) -> bytes:
    return encode_batch([(index, timestamp, b"k", b"v", []) for index, timestamp in enumerate(timestamps)])


def test_timestamps_have_to_be_near_enough() -> None:
    bounds = (START_MS - 10, START_MS + 5)
    assert accepted(_at(START_MS, START_MS - 10, START_MS + 5), timestamps=bounds)
    assert accepted(_at(-1, -1), timestamps=bounds), "none at all"
    assert refused(_at(START_MS, START_MS + 6, START_MS, START_MS - 11), timestamps=bounds) == (32, [1, 3])
    assert refused(_at(START_MS + 6, START_MS), timestamps=bounds) == (32, [0])
    assert refused(_at(START_MS + 1_000_000), timestamps=bounds) == (32, [0])


def test_the_code_is_that_of_the_timestamp_where_keys_are_missing_too() -> None:
    records: list[RecordToWrite] = [
        (0, START_MS, b"k", b"v", []),
        (1, START_MS, None, b"v", []),
        (2, 5, None, b"v", []),
        (3, 5, b"k", b"v", []),
    ]
    assert refused(encode_batch(records), needs_keys=True, timestamps=(START_MS, START_MS)) == (32, [1, 2, 3])


def test_the_header_of_a_batch_is_not_believed() -> None:
    """It says that no record is younger; the producer may have written anything there."""
    data = bytearray(_at(START_MS, START_MS + 100_000))
    struct.pack_into(">q", data, 35, START_MS)
    data[17:21] = crc32c(bytes(data[21:])).to_bytes(4, "big")
    assert refused(bytes(data), timestamps=(START_MS, START_MS)) == (32, [1])


def test_a_batch_of_wrong_records_is_looked_at_in_turns_and_some_are_named() -> None:
    data = encode_batch([(index, START_MS, None, b"", []) for index in range(3 * AT_ONCE_RECORDS)])
    turns = checking(data, RecordRules(LIMIT, needs_keys=True))
    with pytest.raises(RecordsRefusedError) as caught:
        for number, _ in enumerate(turns):  # noqa: B007
            pass
    assert number == 4, "a pause before it is opened, and two in each of the two looks"
    assert len(caught.value.errors) == MOST_RECORD_ERRORS


def test_the_answer_to_a_producer_names_the_records() -> None:
    world = World()
    topic = world.topic("jobs")
    world.cluster.configs.set_values(ResourceType.TOPIC, "jobs", {"cleanup.policy": "compact"})

    def answer(records: bytes) -> Any:
        data = ProduceRequest.TopicProduceData.PartitionProduceData(index=0, records=records)
        asked = ProduceRequest.TopicProduceData(topic_id=topic.id, partition_data=[data])
        response = world.ask(ProduceRequest(transactional_id=None, acks=-1, timeout_ms=1, topic_data=[asked]))
        (found,) = response.responses[0].partition_responses
        return found

    found = answer(encode_batch(KEYED))
    assert (found.error_code, found.base_offset, found.log_start_offset) == (InvalidRecordError.code, -1, 0)
    assert [one.batch_index for one in found.record_errors] == [1]
    found = answer(_at(START_MS + 3_600_001))
    assert (found.error_code, [one.batch_index for one in found.record_errors]) == (32, [0])
    assert answer(_at(START_MS + 3_600_000)).error_code == 0
    world.cluster.configs.set_values(ResourceType.TOPIC, "jobs", {"message.timestamp.type": "LogAppendTime"})
    assert answer(_at(START_MS + 3_600_001)).error_code == 0, "the broker gives it another one"
    assert topic.partitions[0].log.high_watermark == 2
