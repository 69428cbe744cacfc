"""Record batches against two libraries that others wrote: kafka-python's and aiokafka's builders and readers."""

from __future__ import annotations

from typing import Any

import pytest
from aiokafka.record.default_records import DefaultRecordBatch as AiokafkaBatch
from aiokafka.record.default_records import DefaultRecordBatchBuilder as AiokafkaBuilder
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch as KafkaPythonBatch
from kafka.record.default_records import DefaultRecordBatchBuilder as KafkaPythonBuilder

from kafka_share.protocol.record_batches import (
    RecordTuple,
    control_batch,
    encode_batch,
    iter_batches,
)
from kafka_share.protocol.record_format import CODEC_NAMES, CODEC_NUMBERS, Codec

some = settings(max_examples=30, suppress_health_check=list(HealthCheck))

blobs = st.none() | st.binary(max_size=300) | st.integers(0, 70_000).map(bytes)
records = st.lists(
    st.tuples(
        st.integers(0, 2**42),
        blobs,
        blobs,
        st.lists(st.tuples(st.text(max_size=20), st.binary(max_size=70)), max_size=3).map(tuple),
    ),
    min_size=1,
    max_size=70,
).map(lambda made: [(offset, *rest) for offset, rest in enumerate(made)])

PURE_PYTHON_CODECS: tuple[Codec, ...] = ("none", "gzip")
"""What kafka-python compresses with the standard library alone."""


def read_by_others(batch: Any) -> list[RecordTuple]:
    assert batch.validate_crc()
    return [(r.offset, r.timestamp, r.key, r.value, tuple(r.headers)) for r in batch]


@pytest.mark.parametrize("codec", CODEC_NAMES)
@given(records=records)
@some
def test_aiokafka_reads_the_same_records_when_we_write_them(codec: Codec, records: list[RecordTuple]) -> None:
    assert read_by_others(AiokafkaBatch(encode_batch(records, codec=codec))) == records


@pytest.mark.parametrize("codec", PURE_PYTHON_CODECS)
@given(records=records)
@some
def test_kafka_python_reads_the_same_records_when_we_write_them(codec: Codec, records: list[RecordTuple]) -> None:
    assert read_by_others(KafkaPythonBatch(encode_batch(records, codec=codec))) == records


@pytest.mark.parametrize(
    ("builder_class", "codec"),
    [(AiokafkaBuilder, codec) for codec in CODEC_NAMES] + [(KafkaPythonBuilder, codec) for codec in PURE_PYTHON_CODECS],
)
@given(records=records)
@some
def test_we_read_the_same_records_when_another_library_writes_them(
    builder_class: Any, codec: Codec, records: list[RecordTuple]
) -> None:
    builder = builder_class(
        magic=2,
        compression_type=CODEC_NUMBERS[codec],
        is_transactional=0,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=10**9,
    )
    for offset, timestamp, key, value, headers in records:
        assert builder.append(offset, timestamp, key, value, list(headers))
    (batch,) = iter_batches(bytes(builder.build()))
    batch.verify_crc()
    assert batch.records() == records


def test_others_see_a_control_batch_when_a_transaction_ends() -> None:
    data = control_batch("abort", producer_id=5, producer_epoch=1, timestamp=9)
    for batch_class in (AiokafkaBatch, KafkaPythonBatch):
        batch = batch_class(data)
        assert batch.is_control_batch
        assert batch.is_transactional
        assert batch.producer_id == 5
        assert batch.validate_crc()


def test_others_agree_on_the_header_when_a_batch_has_every_field() -> None:
    data = encode_batch([(9, 5, b"k", b"v", [])], base_offset=9, producer_id=8, producer_epoch=2, base_sequence=3)
    (ours,) = iter_batches(data)
    theirs: Any = AiokafkaBatch(data)
    assert (ours.base_offset, ours.crc, ours.producer_id, ours.producer_epoch, ours.base_sequence) == (
        theirs.base_offset, theirs.crc, theirs.producer_id, theirs.producer_epoch, theirs.base_sequence,
    )  # fmt: skip
