"""Records as Arrow columns: the same from compiled blocks and from objects, whatever the records are."""

from __future__ import annotations

import gc
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.waiting import wait_until

from kafka_share import KafkaShareConsumer, ShareRecord, TopicPartition
from kafka_share.application.decoding import Decoder, PartitionDecoding, Problem
from kafka_share.broker import ReferenceBroker
from kafka_share.broker.share.record_state import RecordState
from kafka_share.core.events import FetchedPartition
from kafka_share.deserializers import as_deserializer
from kafka_share.native import IS_COMPILED, exported
from kafka_share.protocol.record_batches import encode_batch
from kafka_share.protocol.record_format import CODEC_NAMES, Codec
from kafka_share.protocol.share_values import AcquiredRange
from kafka_share.records import ShareRecords, TopicIdPartition

Written = list[tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]]
payloads = st.none() | st.binary(max_size=40)
written = st.lists(st.tuples(payloads, payloads, st.lists(st.tuples(st.text(max_size=3), payloads), max_size=2)))


def fetched(
    records: Written, topic: str, decoder: Decoder | None = None, codec: Codec = "zstd"
) -> list[ShareRecord[Any, Any]]:
    if not records:
        return []
    half = (len(records) + 1) // 2  # in two batches
    written = [(o, 1_000 + o, *fields) for o, fields in enumerate(records)]
    data = b"".join(
        encode_batch(part, codec=codec, base_offset=part[0][0]) for part in (written[:half], written[half:]) if part
    )
    where, acquired = TopicIdPartition(UUID(int=1), topic, 3), (AcquiredRange(0, len(records), 2),)
    decoding = PartitionDecoding(FetchedPartition(where, 1, 1, data, acquired), decoder or Decoder())
    found: list[ShareRecord[Any, Any]] = []
    while (step := decoding.next_step()) is not None:
        assert not isinstance(step, Problem)
        decoding.confirm(step)
        found += step
    return found


def by_hand(record: ShareRecord[Any, Any]) -> ShareRecord[Any, Any]:
    return record.__replace__()


@given(written, written, st.sampled_from(CODEC_NAMES))
def test_columns_say_what_the_records_say(one: Written, other: Written, codec: Codec) -> None:
    found = {
        TopicPartition("a", 3): fetched(one, "a"), TopicPartition("b", 3): fetched(other, "b", codec=codec)
    }  # fmt: skip
    found = {where: records for where, records in found.items() if records}
    records = ShareRecords(found)
    batch = records.to_arrow()
    batch.validate(full=True)
    assert batch.num_rows == len(records)
    for row, record in zip(batch.to_pylist(), records, strict=True):
        assert (row["topic"], row["partition"], row["offset"]) == (record.topic, record.partition, record.offset)
        assert (row["key"], row["value"], row["delivery_count"]) == (record.key, record.value, 2)
        assert [(h["name"], h["value"]) for h in row["headers"]] == list(record.headers)
        assert round(row["timestamp"].timestamp() * 1000) == record.timestamp
    same = ShareRecords({where: [by_hand(r) for r in those] for where, those in found.items()}).to_arrow()
    assert batch.schema == same.schema
    assert batch.to_pylist() == same.to_pylist()
    views = records.to_arrow(copy=False)
    views.validate(full=True)
    assert [views[name].type for name in ("key", "value")] == [pa.binary_view()] * 2
    assert views.to_pylist() == batch.to_pylist()


def test_columns_cannot_hold_what_a_deserializer_made() -> None:
    records = fetched([(None, b"1", [])], "a", Decoder(value_deserializer=as_deserializer(int)))
    with pytest.raises(TypeError, match="deserialized to int"):
        ShareRecords({TopicPartition("a", 3): records}).to_arrow()


def test_views_stay_in_what_the_broker_sent() -> None:
    """Long values are not copied where the record path is compiled; what they refer to outlives the records."""
    records = fetched([(b"k" * 5, b"%d" % n * 100, []) for n in range(4)], "a", codec="none")
    batch = ShareRecords({TopicPartition("a", 3): records}).to_arrow(copy=False)
    del records
    if IS_COMPILED:
        buffers = batch["value"].buffers()
        assert len(buffers) == 3, "validity, views, and one buffer for both batches"
        assert buffers[2].size > 4 * 100 + 2 * 61, "that is all that was sent"
    assert batch["value"].to_pylist() == [b"%d" % n * 100 for n in range(4)]
    assert batch["key"].to_pylist() == [b"k" * 5] * 4


def test_a_mask_over_columns_says_what_to_acknowledge() -> None:
    with ReferenceBroker() as broker:
        broker.create_topic("t")
        broker.set_group_config("g", share_auto_offset_reset="earliest")
        broker.produce_batch("t", [b"%d" % n for n in range(10)])
        with KafkaShareConsumer(
            "t", bootstrap_servers=broker.bootstrap_servers, group_id="g", share_acknowledgement_mode="explicit"
        ) as consumer:
            records = wait_until(lambda: consumer.poll(100))
            values = records.to_arrow()["value"].cast(pa.string()).cast(pa.int32())
            odd = pc.equal(pc.bit_wise_and(values, 1), 1)
            consumer.acknowledge_all(records, "release", rows=odd)
            consumer.acknowledge_all(records, rows=pc.invert(odd))
            assert set(consumer.commit_sync().values()) == {None}
            partition = broker.share_partition("g", "t")
        assert partition is not None
        assert {one.first for one in partition.ranges if one.state is RecordState.AVAILABLE} == {1, 3, 5, 7, 9}


def test_no_records_are_columns_too() -> None:
    batch = ShareRecords({}).to_arrow()
    assert (batch.num_rows, batch.schema.names[:2]) == (0, ["topic", "partition"])


@pytest.mark.skipif(not IS_COMPILED, reason="columns refer to the broker's bytes in the compiled module only")
@pytest.mark.parametrize("keep", [lambda batch: batch, lambda batch: batch.column("value").slice(1, 1)])
def test_what_columns_refer_to_stays_as_long_as_one_of_them(keep: Any) -> None:
    data = bytearray(encode_batch([(o, 1_000, None, b"%d" % o * 20, ()) for o in range(3)], base_offset=0))
    where, acquired = TopicIdPartition(UUID(int=1), "t", 0), (AcquiredRange(0, 2, 1),)
    run = PartitionDecoding(FetchedPartition(where, 1, 1, memoryview(data), acquired), Decoder()).next_step()
    assert not isinstance(run, Problem)
    assert run is not None
    records = ShareRecords[Any, Any].of_runs({TopicPartition("t", 0): [run]})
    kept = keep(records.to_arrow(copy=False))
    del records, run
    with pytest.raises(BufferError):
        data.append(0)
    assert b"1" * 20 in (kept.column("value") if isinstance(kept, pa.RecordBatch) else kept).to_pylist()
    del kept
    gc.collect()  # the decoding and its generator refer to each other
    data.append(0)


@pytest.mark.skipif(not IS_COMPILED, reason="columns are exported in the compiled module only")
@pytest.mark.parametrize("views", [False, True])
def test_columns_that_nobody_takes_keep_nothing(views: bool) -> None:
    data = bytearray(encode_batch([(0, 1_000, None, b"v" * 20, ())], base_offset=0))
    fetched_once = FetchedPartition(
        TopicIdPartition(UUID(int=1), "t", 0), 1, 1, memoryview(data), (AcquiredRange(0, 0, 1),)
    )
    run = PartitionDecoding(fetched_once, Decoder()).next_step()
    assert not isinstance(run, Problem)
    assert run is not None
    export = exported([run], views)
    assert export.address != 0
    del run, export, fetched_once
    gc.collect()  # as above
    data.append(0)


def test_columns_of_several_topics_name_each_record_s() -> None:
    found = {TopicPartition(topic, 3): fetched([(None, b"v", [])], topic) for topic in ("a", "bé", "c")}
    batch = ShareRecords(found).to_arrow()
    batch.validate(full=True)
    assert batch.column("topic").to_pylist() == ["a", "bé", "c"]
    assert batch.column("headers").to_pylist() == [[], [], []]
