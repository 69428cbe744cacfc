"""The compiled decoder against the one in Python: the same records, gaps and problems, whatever the bytes are."""

from __future__ import annotations

import gc
import pickle
import weakref
from types import ModuleType
from typing import Any
from uuid import UUID

import pytest
from fuzz.batch_run import run_batches
from hypothesis import given
from hypothesis import strategies as st
from native.implementations import implementation

from kafka_share.application.decoding import Decoder, PartitionDecoding, Problem
from kafka_share.core.events import FetchedPartition
from kafka_share.locks import AcquisitionLock, LockGeneration
from kafka_share.protocol.compression import decompress
from kafka_share.protocol.record_batches import encode_batch
from kafka_share.protocol.record_format import CODEC_NAMES, Codec
from kafka_share.protocol.record_headers import EncodedHeaders
from kafka_share.protocol.share_values import AcquiredRange
from kafka_share.records import ShareRecord, TimestampType, TopicIdPartition

TYPES = (TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME)
WHERE = TopicIdPartition(UUID(int=1), "t", 0)


@pytest.fixture(scope="module", name="compiled")
def compiled_module() -> ModuleType:
    return implementation("compiled")


def block(compiled: ModuleType, data: bytes, lock: AcquisitionLock | None = None) -> Any:
    return compiled.RecordBlock("t", 0, data, lock, TYPES, EncodedHeaders)


def scanned(found: Any, acquired: list[tuple[int, int, int]], *, position: int = 0, limit: int = 1 << 30) -> Any:
    return found.scan(position, acquired, True, 1 << 20, decompress, limit)


def batch(*offsets: int, codec: Codec = "none", base: int | None = None) -> bytes:
    records = [(o, 1_000 + o, b"k%d" % o, b"v%d" % o, ()) for o in offsets]
    return encode_batch(records, base_offset=offsets[0] if base is None else base, codec=codec)


@given(st.integers(0, 1_000_000))
@pytest.mark.usefixtures("compiled")
def test_damaged_batches_are_read_as_in_python(seed: int) -> None:
    assert run_batches(seed).complaint is None


texts = st.none() | st.binary(max_size=200)
headers = st.lists(st.tuples(st.text(max_size=5), texts), max_size=3)


@given(
    st.lists(
        st.tuples(st.integers(1, 3), st.integers(-(2**40), 2**40), texts, texts, headers), min_size=1, max_size=30
    ),
    st.sampled_from(CODEC_NAMES),
    st.sampled_from(TYPES),
    st.integers(-1, 5),
)
@pytest.mark.usefixtures("compiled")
def test_a_record_has_the_fields_that_were_written(
    steps: list[tuple[int, int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]],
    codec: Codec,
    kind: TimestampType,
    epoch: int,
) -> None:
    written, offset = [], 7
    for step, timestamp, key, value, pairs in steps:
        offset += step
        written.append((offset, timestamp, key, value, pairs))
    data = encode_batch(
        written, base_offset=written[0][0], codec=codec, timestamp_type=kind, partition_leader_epoch=epoch
    )
    acquired = (AcquiredRange(0, offset, 3),)
    records = PartitionDecoding(FetchedPartition(WHERE, 1, 1, memoryview(data), acquired), Decoder()).next_step()
    assert records is not None
    assert not isinstance(records, Problem)
    last_ms = max(timestamp for _, timestamp, *_ in written)
    shown = [(r.offset, r.timestamp, r.key, r.value, list(r.headers)) for r in records]
    appended = kind is TimestampType.LOG_APPEND_TIME
    assert shown == [(o, last_ms if appended else t, k, v, list(h)) for o, t, k, v, h in written]
    for record in records:
        assert (record.topic, record.partition, record.timestamp_type) == ("t", 0, kind)
        assert (record.leader_epoch, record.delivery_count) == (None if epoch < 0 else epoch, 3)
        assert (record.error, record.lock) == (None, None)


def test_records_are_found_in_acquired_ranges_alone_and_holes_are_named(compiled: ModuleType) -> None:
    data = batch(0, 1, 2) + batch(5, 6, 9) + batch(10, 11, codec="lz4")
    position, records, gaps, reached = scanned(block(compiled, data), [(1, 6, 1), (8, 9, 2), (11, 30, 5)])
    assert [(r.offset, r.delivery_count) for r in records] == [(1, 1), (2, 1), (5, 1), (6, 1), (9, 2), (11, 5)]
    assert gaps == [(3, 4), (8, 8)]
    assert (position, reached) == (len(data), 12), "what lies behind the last batch is not known"


def test_a_scan_ends_behind_the_batch_that_reaches_its_limit(compiled: ModuleType) -> None:
    first, second = batch(0, 1, 2), batch(3, 4)
    found = block(compiled, first + second)
    position, records, _, reached = scanned(found, [(0, 9, 1)], limit=2)
    assert (position, len(records), reached) == (len(first), 3, 3)
    position, records, _, reached = scanned(found, [(3, 9, 1)], position=position, limit=2)
    assert (position, [r.value for r in records], reached) == (len(first + second), [b"v3", b"v4"], 5)


@pytest.mark.parametrize("at", [8, 16, 20, 22, 57, 70, -1])
def test_a_scan_stops_before_a_batch_that_is_not_sound(compiled: ModuleType, at: int) -> None:
    first, damaged = batch(0, 1, 2), bytearray(batch(3, 4))
    damaged[at] ^= 0x41
    position, records, gaps, reached = scanned(block(compiled, first + bytes(damaged)), [(0, 9, 1)])
    assert (position, len(records), gaps, reached) == (len(first), 3, [], 3)


def test_records_are_not_tracked_by_the_garbage_collector(compiled: ModuleType) -> None:
    _, records, _, _ = scanned(block(compiled, batch(0, 1)), [(0, 1, 1)])
    assert not any(map(gc.is_tracked, records))


def test_a_record_keeps_its_bytes_alive_when_its_block_is_forgotten(compiled: ModuleType) -> None:
    data = bytearray(batch(0, 1) + batch(2, codec="zstd"))
    _, records, _, _ = scanned(block(compiled, memoryview(data)), [(0, 2, 1)])  # type: ignore[arg-type]
    with pytest.raises(BufferError):
        data.append(0)
    assert [r.value for r in records] == [b"v0", b"v1", b"v2"]
    del records
    data.append(0)


def test_garbage_that_holds_records_is_collected(compiled: ModuleType) -> None:
    """The collector clears the views that it finds, and the interpreter crashes if somebody has their bytes then."""

    class Holder:
        pass

    holder = Holder()
    found = block(compiled, memoryview(batch(0, 1)))  # type: ignore[arg-type]
    _, run, _, _ = scanned(found, [(0, 1, 1)])
    ledger = compiled.Ledger()
    ledger.add(run)
    holder.held = found, run, ledger, compiled.with_values(run[0], b"k", b"v", None), holder  # type: ignore[attr-defined]
    gone = weakref.ref(holder)
    del holder, found, run, ledger
    gc.collect()
    assert gone() is None


def test_a_run_makes_its_records_when_they_are_looked_at(compiled: ModuleType) -> None:
    _, run, _, _ = scanned(block(compiled, batch(*range(10))), [(2, 6, 1)])
    assert (len(run), [r.offset for r in run], [r.offset for r in run[1:3]]) == (5, [2, 3, 4, 5, 6], [3, 4])
    assert (run[0].offset, run[-1].offset, run[4].offset) == (2, 6, 6)
    for beyond in (5, -6):
        with pytest.raises(IndexError):
            run[beyond]
    assert not scanned(block(compiled, batch(0)), [(5, 6, 1)])[1]


class Document:
    """What a deserializer may make, and an application may hang the record on."""

    record: ShareRecord[Any, Any]


def test_a_value_that_refers_to_its_record_is_freed(native: ModuleType) -> None:
    lock = AcquisitionLock(1, LockGeneration(), int)
    record = native.ShareRecord("t", 0, 5, 0, TYPES[0], b"k", b"v", (), None, 1, None, lock)
    own = native.with_values(record, b"k", Document(), None)
    own.value.record = own
    gone = weakref.ref(own.value)
    assert (own.key, own.offset, own.lock, list(own.headers)) == (b"k", 5, lock, [])
    del own
    gc.collect()
    assert gone() is None


def test_a_record_without_a_block_cannot_be_made(compiled: ModuleType) -> None:
    """It would be looked into."""
    record = compiled.ShareRecord("t", 0, 5, 0, TYPES[0], b"k", b"v", (), None, 1)
    kinds: tuple[Any, ...] = (
        type(record), compiled.ShareRecord, compiled.RecordRun, compiled.RecordBlock, compiled.Gate
    )  # fmt: skip
    for make in kinds:
        with pytest.raises(TypeError):
            make()
        with pytest.raises(TypeError):
            make.__new__(make)
    with pytest.raises(TypeError):
        type("Mine", (compiled.ShareRecord,), {})()


def test_a_record_keeps_the_bytes_that_a_deserializer_has_seen(native: ModuleType, compiled: ModuleType) -> None:
    """Be it found in a block, made one by one, or made anew of another with values of its own."""
    by_hand = native.ShareRecord("t", 0, 5, 0, TYPES[0], b"k", None, (), None, 1)
    for record in (scanned(block(compiled, batch(5)), [(5, 5, 1)])[1][0], by_hand):
        make = compiled.with_values if record is not by_hand else native.with_values
        raw = record.key, record.value
        assert (record.raw_key, record.raw_value) == raw
        own = make(make(record, "key", {}, None), "another", [], None)
        assert (own.key, own.value, own.raw_key, own.raw_value) == ("another", [], *raw)


def test_a_record_without_its_bytes_says_so(native: ModuleType) -> None:
    """Somebody has made it, or it comes from another process: what deserializers made is all that there is."""
    record = native.ShareRecord("t", 0, 5, 0, TYPES[0], None, {"a": 1}, (), None, 1)
    for one in (record, pickle.loads(pickle.dumps(record)), native.with_values(record, b"k", b"v", None)):
        assert one.raw_key is None
        with pytest.raises(AttributeError, match="made by hand or unpickled"):
            _ = one.raw_value
