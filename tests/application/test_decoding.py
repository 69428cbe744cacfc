"""PartitionDecoding: every acquired offset becomes exactly one of a record, a gap, or a failure."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any
from uuid import UUID

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.old_messages import old_message, old_set

from kafka_share.application.decoding import Decoder, PartitionDecoding, Problem, Record
from kafka_share.core.events import FetchedPartition
from kafka_share.core.fetching.offsets import AcknowledgementRun as Run
from kafka_share.deserializers import as_deserializer
from kafka_share.errors import CorruptRecordError, RecordDeserializationError, UnsupportedRecordError
from kafka_share.native import crc32c
from kafka_share.protocol.record_batches import control_batch, encode_batch
from kafka_share.protocol.share_values import AcquiredRange
from kafka_share.records import AcknowledgeType, TimestampType, TopicIdPartition

PARTITION = TopicIdPartition(UUID(int=1), "t", 0)
PLAIN = Decoder()
GAP = 0
ACCEPT, RELEASE, REJECT, RENEW = AcknowledgeType
LAST_OFFSET_DELTA_AT = 23
RECORD_COUNT_AT = 57
RECORDS_AT = 61


def value_of(offset: int) -> bytes:
    return b"v%d" % offset


def sealed(data: bytes) -> bytes:
    """The batch with a checksum that is right for what it holds now."""
    return data[:17] + crc32c(data[21:]).to_bytes(4, "big") + data[21:]


def batch(offsets: Sequence[int], *, base: int | None = None, last: int | None = None, **options: Any) -> bytes:
    """One batch with these offsets; `base` and `last` reach further where compaction removed records."""
    start = offsets[0] if base is None else base
    data = encode_batch(
        [(o, 1000 + o, b"k%d" % o, value_of(o), []) for o in offsets or [start]], base_offset=start, **options
    )
    if not offsets:  # what compaction leaves of a batch whose last record is gone
        data = data[:8] + (RECORDS_AT - 12).to_bytes(4, "big") + data[12:RECORD_COUNT_AT] + bytes(4)
    delta = (last if last is not None else (offsets or [start])[-1]) - start
    return sealed(data[:LAST_OFFSET_DELTA_AT] + delta.to_bytes(4, "big") + data[LAST_OFFSET_DELTA_AT + 4 :])


def with_bad_crc(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


def with_magic(data: bytes, magic: int) -> bytes:
    return data[:16] + bytes([magic]) + data[17:]


def with_unknown_codec(data: bytes) -> bytes:
    return sealed(data[:22] + bytes([data[22] | 7]) + data[23:])


def with_many_records(data: bytes) -> bytes:
    """A batch at the same offsets of 20 kB, which compress to nothing."""
    base = int.from_bytes(data[:8], "big")
    return encode_batch([(base + n, 0, None, b"v" * 20_000, []) for n in range(3)], base_offset=base, codec="zstd")


def fetched(records: bytes, *acquired: tuple[int, int, int]) -> FetchedPartition:
    return FetchedPartition(PARTITION, 1, 7, records, tuple(AcquiredRange(*a) for a in acquired))


def confirmed(decoding: PartitionDecoding) -> Sequence[Record] | Problem | None:
    step = decoding.next_step()
    if step is not None:
        decoding.confirm(step)
    return step


def taken_gaps(decoding: PartitionDecoding) -> list[Run]:
    gaps = decoding.gaps()
    decoding.drop_gaps()
    return gaps


def steps_of(decoding: PartitionDecoding) -> list[Sequence[Record] | Problem]:
    return list(iter(lambda: confirmed(decoding), None))


@attrs.define
class Outcome:
    """What became of each offset; adding one twice fails."""

    records: dict[int, Record] = attrs.Factory(dict)
    gaps: set[int] = attrs.Factory(set)
    failed: dict[int, int] = attrs.Factory(dict)

    def add(self, steps: Iterable[Sequence[Record] | Problem], gaps: Iterable[Run]) -> Outcome:
        for step in steps:
            if isinstance(step, Problem):
                for offset, kind in spread(step.runs):
                    assert offset not in self.failed
                    self.failed[offset] = kind
            else:
                for record in step:
                    assert record.offset not in self.records
                    self.records[record.offset] = record
        for offset, kind in spread(gaps):
            assert kind == GAP
            assert offset not in self.gaps
            self.gaps.add(offset)
        return self


def spread(runs: Iterable[Run]) -> list[tuple[int, int]]:
    return [(offset, run.type) for run in runs for offset in range(run.first, run.last + 1)]


def decode(part: FetchedPartition, decoder: Decoder = PLAIN) -> Outcome:
    decoding = PartitionDecoding(part, decoder)
    return Outcome().add(steps_of(decoding), taken_gaps(decoding))


# ---- what a record carries


def test_a_record_has_all_that_the_batch_says_when_it_is_decoded() -> None:
    data = encode_batch(
        [(5, 1000, b"k", b"v", [("h", b"1"), ("h", None)])], base_offset=5, partition_leader_epoch=3, codec="gzip"
    )
    (record,) = decode(fetched(data, (5, 5, 4))).records.values()
    assert (record.topic, record.partition, record.offset) == ("t", 0, 5)
    assert (record.timestamp, record.timestamp_type) == (1000, TimestampType.CREATE_TIME)
    assert (record.key, record.value, record.headers) == (b"k", b"v", (("h", b"1"), ("h", None)))
    assert (record.leader_epoch, record.delivery_count) == (3, 4)


def test_the_leader_epoch_is_none_when_the_batch_has_none() -> None:
    (record,) = decode(fetched(batch([0]), (0, 0, 1))).records.values()
    assert record.leader_epoch is None


def test_the_time_of_the_log_is_told_when_the_topic_stamps_on_append() -> None:
    data = batch([0, 1], timestamp_type=TimestampType.LOG_APPEND_TIME)
    records = decode(fetched(data, (0, 1, 1))).records
    assert [r.timestamp for r in records.values()] == [1001, 1001]
    assert records[0].timestamp_type is TimestampType.LOG_APPEND_TIME


def test_deserializers_get_topic_headers_and_bytes_when_they_ask_for_them() -> None:
    seen: list[Any] = []

    class Spy:
        def __init__(self, name: str) -> None:
            self.name = name

        def deserialize(self, topic: str, headers: Any, data: bytes | None) -> Any:
            seen.append((self.name, topic, headers, data))
            return self.name

    data = encode_batch([(0, 0, b"k", None, [("h", b"1")])])
    (record,) = decode(fetched(data, (0, 0, 1)), Decoder(Spy("key"), Spy("value"))).records.values()
    assert (record.key, record.value) == ("key", "value")
    assert seen == [("key", "t", (("h", b"1"),), b"k"), ("value", "t", (("h", b"1"),), None)]


# ---- acquired ranges against records


@pytest.mark.behaviour("fetching")
@pytest.mark.parametrize(
    "ranges",
    [[(0, 2, 1), (6, 8, 3)], [(o, o, o + 1) for o in range(1, 10, 2)], [(0, 9, 2)], [(3, 3, 1)]],
    ids=["two ranges", "odd offsets", "all", "one"],
)
def test_only_acquired_records_come_out_when_the_batch_holds_more(ranges: list[tuple[int, int, int]]) -> None:
    """Records of a batch that were not acquired (others hold them) are skipped."""
    outcome = decode(fetched(batch(range(10)), *ranges))
    expected = {o: count for first, last, count in ranges for o in range(first, last + 1)}
    assert {o: r.delivery_count for o, r in outcome.records.items()} == expected
    assert [r.value for r in outcome.records.values()] == [value_of(o) for o in expected]
    assert not outcome.gaps
    assert not outcome.failed


def test_no_unacquired_record_slips_through_when_a_compacted_batch_has_as_many_records_as_were_acquired() -> None:
    outcome = decode(fetched(batch([0, 5, 6]), (0, 2, 1)))
    assert list(outcome.records) == [0]
    assert outcome.gaps == {1, 2}


@pytest.mark.behaviour("fetching")
@pytest.mark.parametrize(
    ("records", "acquired", "delivered"),
    [
        (batch([0, 2], last=3), (0, 3, 1), [0, 2]),
        (batch([1, 2], base=0), (0, 2, 1), [1, 2]),
        (batch([4, 5]), (0, 9, 1), [4, 5]),
        (batch([0]) + batch([4]), (0, 4, 1), [0, 4]),
        (batch([], base=0, last=4) + batch([5]), (0, 5, 1), [5]),
        (b"", (0, 4, 1), []),
    ],
    ids=["hole and end", "first removed", "below and above", "between batches", "empty batch", "no bytes at all"],
)
def test_acquired_offsets_are_gaps_when_no_record_is_there(
    records: bytes, acquired: tuple[int, int, int], delivered: list[int]
) -> None:
    """Acquired offsets without a record become gaps."""
    outcome = decode(fetched(records, acquired))
    assert list(outcome.records) == delivered
    assert outcome.gaps == set(range(acquired[0], acquired[1] + 1)) - set(delivered)


@pytest.mark.behaviour("fetching")
def test_offsets_of_an_empty_batch_are_gaps_and_its_neighbours_come() -> None:
    """A batch that compaction has emptied is no damage: its offsets are gaps, records before and behind it come."""
    records = batch([0, 1]) + batch([], base=2, last=4) + batch([5])
    outcome = decode(fetched(records, (0, 5, 1)))
    assert (sorted(outcome.records), outcome.gaps, outcome.failed) == ([0, 1, 5], {2, 3, 4}, {})


@pytest.mark.behaviour("fetching")
def test_a_control_batch_is_a_gap_when_it_was_acquired() -> None:
    """Control records (transaction markers) are never delivered; their offsets become gaps."""
    marker = control_batch("commit", producer_id=1, producer_epoch=0, timestamp=0, base_offset=1)
    outcome = decode(fetched(batch([0]) + marker + batch([2]), (0, 2, 1)))
    assert list(outcome.records) == [0, 2]
    assert outcome.gaps == {1}


# ---- failures


def failing_at(*offsets: int) -> Decoder:
    def deserialize(data: bytes) -> str:
        if data in map(value_of, offsets):
            raise ValueError("poison")
        return data.decode()

    return Decoder(value_deserializer=as_deserializer(deserialize))


@pytest.mark.behaviour("fetching")
def test_decoding_goes_on_behind_each_failure_when_a_deserializer_raises() -> None:
    """A record whose deserializer fails becomes a problem of this record alone; decoding goes on behind it."""
    bad_key = Decoder(as_deserializer(_raise_for(b"k1")), as_deserializer(_raise_for(b"v2")))
    first, key, value, last = steps_of(PartitionDecoding(fetched(batch(range(4)), (0, 3, 1)), bad_key))
    assert not isinstance(first, Problem)
    assert not isinstance(last, Problem)
    assert [r.offset for r in first] == [0]
    assert [r.offset for r in last] == [3]
    for problem, offset, origin in ((key, 1, "key"), (value, 2, "value")):
        assert isinstance(problem, Problem)
        error = problem.error
        assert isinstance(error, RecordDeserializationError)
        assert (error.topic, error.partition, error.offset, error.origin) == ("t", 0, offset, origin)
        assert (error.key, error.value) == (b"k%d" % offset, value_of(offset))
        assert (error.headers, error.timestamp) == ((), 1000 + offset)
        assert isinstance(error.__cause__, ValueError)
        assert problem.runs == (Run(offset, offset, RELEASE),)


def _raise_for(poison: bytes) -> Callable[[bytes], bytes]:
    def deserialize(data: bytes) -> bytes:
        if data == poison:
            raise ValueError(data)
        return data

    return deserialize


@pytest.mark.behaviour("fetching")
@pytest.mark.parametrize(
    ("damage", "error", "kind"),
    [
        (with_bad_crc, CorruptRecordError, REJECT),
        (lambda b: with_magic(b, 9), UnsupportedRecordError, RELEASE),
        (with_unknown_codec, UnsupportedRecordError, RELEASE),
        (with_many_records, UnsupportedRecordError, RELEASE),
    ],
    ids=["checksum", "unknown format", "unknown codec", "too large"],
)
def test_one_unreadable_batch_costs_its_neighbours_nothing_when_three_were_fetched(
    damage: Callable[[bytes], bytes], error: type[Exception], kind: AcknowledgeType
) -> None:
    """Of three batches a damaged one is rejected; one that another client may read is released. The others come."""
    records = batch([0, 1, 2]) + damage(batch([3, 4, 5])) + batch([6, 7, 8])
    good, problem, rest = steps_of(PartitionDecoding(fetched(records, (0, 8, 1)), Decoder(max_batch_bytes=10_000)))
    assert isinstance(problem, Problem)
    assert type(problem.error) is error
    assert ("raise max_record_batch_bytes" in str(problem.error)) == (damage is with_many_records)
    assert isinstance(problem.error, CorruptRecordError | UnsupportedRecordError)
    assert (problem.error.topic, problem.error.partition, problem.error.offset) == ("t", 0, 3)
    assert problem.runs == (Run(3, 5, kind),)
    assert not isinstance(good, Problem)
    assert not isinstance(rest, Problem)
    assert [r.offset for r in good] == [0, 1, 2]
    assert [r.offset for r in rest] == [6, 7, 8]


@pytest.mark.behaviour("fetching")
@pytest.mark.parametrize("magic", [0, 1])
def test_records_of_old_formats_are_delivered_when_an_old_log_has_them(magic: int) -> None:
    """Messages of the record formats 0 and 1, single and compressed, are delivered as Java delivers them."""
    records = (
        old_message(magic, 0, value_of(0))
        + old_message(magic, 1, value_of(1))
        + old_set(magic, values_at(2, 4))
        + old_set(magic, values_at(6, 7))
        + batch([8])
    )
    outcome = decode(fetched(records, (1, 8, 1)))
    assert list(outcome.records) == [1, 2, 4, 6, 7, 8]
    assert [r.value for r in outcome.records.values()] == list(map(value_of, outcome.records))
    assert (outcome.gaps, outcome.failed) == ({3, 5}, {})
    assert [r.timestamp for r in outcome.records.values()][:5] == [1000 if magic else -1] * 5


@pytest.mark.parametrize("magic", [0, 1])
def test_only_one_old_message_is_rejected_when_it_is_damaged(magic: int) -> None:
    """A message begins with its last offset: what follows is not its own."""
    records = (
        old_message(magic, 0, value_of(0))
        + with_bad_crc(old_set(magic, values_at(1, 2)))
        + old_set(magic, values_at(3, 4))
        + batch([5])
    )
    outcome = decode(fetched(records, (0, 5, 1)))
    assert list(outcome.records) == [0, 3, 4, 5]
    assert outcome.failed == {1: REJECT, 2: REJECT}


def values_at(*offsets: int) -> dict[int, bytes]:
    return {offset: value_of(offset) for offset in offsets}


def test_only_acquired_offsets_are_rejected_when_a_damaged_batch_holds_more() -> None:
    (problem,) = steps_of(PartitionDecoding(fetched(with_bad_crc(batch(range(6))), (1, 2, 1), (4, 4, 2)), PLAIN))
    assert isinstance(problem, Problem)
    assert problem.runs == (Run(1, 2, REJECT), Run(4, 4, REJECT))


def test_nothing_is_raised_when_nothing_of_the_damaged_batch_was_acquired() -> None:
    outcome = decode(fetched(with_bad_crc(batch([0, 1])) + batch([2, 3]), (2, 3, 1)))
    assert list(outcome.records) == [2, 3]
    assert not outcome.failed


def test_the_next_batch_survives_when_the_damage_hit_the_last_offset_of_the_one_before() -> None:
    damaged = batch([0, 1])[:LAST_OFFSET_DELTA_AT] + (99).to_bytes(4, "big") + batch([0, 1])[LAST_OFFSET_DELTA_AT + 4 :]
    outcome = decode(fetched(damaged + batch([2, 3]), (0, 3, 1)))
    assert outcome.failed == {0: REJECT, 1: REJECT}
    assert list(outcome.records) == [2, 3]


def test_a_bad_checksum_passes_when_checksums_are_not_to_be_checked() -> None:
    outcome = decode(fetched(batch([0]).replace(b"v0", b"w0"), (0, 0, 1)), Decoder(check_crcs=False))
    assert [r.value for r in outcome.records.values()] == [b"w0"]


@pytest.mark.parametrize("rest", [batch([3, 4])[:-1], b"\0" * 200], ids=["cut off", "zeroes"])
def test_the_rest_is_given_back_when_nothing_can_be_told_apart_any_more(rest: bytes) -> None:
    outcome = decode(fetched(batch([0, 1, 2]) + rest, (0, 4, 1)))
    assert list(outcome.records) == [0, 1, 2]
    assert outcome.failed == {3: RELEASE, 4: RELEASE}


# ---- interrupts


def test_no_record_is_lost_when_an_interrupt_strikes_inside_a_deserializer() -> None:
    strikes = [b"v5"]

    def deserialize(data: bytes) -> bytes:
        if data in strikes:
            strikes.remove(data)
            raise KeyboardInterrupt
        if data == b"v3":
            raise ValueError(data)
        return data

    records = batch([1, 3, 4], base=0) + batch([5, 7], last=8)
    decoding = PartitionDecoding(fetched(records, (0, 8, 1)), Decoder(value_deserializer=as_deserializer(deserialize)))
    outcome = Outcome()
    outcome.add([confirmed(decoding) for _ in range(3)], [])  # type: ignore[misc]
    with pytest.raises(KeyboardInterrupt):
        confirmed(decoding)
    outcome.add(steps_of(decoding), taken_gaps(decoding))
    assert list(outcome.records) == [1, 4, 5, 7]
    assert outcome.failed == {3: RELEASE}
    assert outcome.gaps == {0, 2, 6, 8}


def test_a_step_comes_again_when_it_was_not_confirmed() -> None:
    """Who is interrupted before the step is in safe hands gets it once more, and no gap twice."""
    decoding = PartitionDecoding(fetched(batch([1, 3, 4], base=0), (0, 4, 1)), failing_at(3))
    steps = []
    while (step := decoding.next_step()) is not None:
        again = decoding.next_step()
        assert again is not None
        assert again is not step
        decoding.confirm(again)
        steps.append(again)
    outcome = Outcome().add(steps, decoding.gaps())
    assert (list(outcome.records), outcome.failed, outcome.gaps) == ([1, 4], {3: RELEASE}, {0, 2})


# ---- giving up


class Received(bytearray):
    """What a broker sent, and weak references tell of its end."""


@pytest.mark.parametrize("decoder", [PLAIN, Decoder(value_deserializer=as_deserializer(bytes.upper))])
def test_what_the_broker_sent_goes_with_its_last_record_and_waits_for_no_garbage_collector(decoder: Decoder) -> None:
    gc.collect()
    gc.disable()
    try:
        received = Received(batch(range(3)) + batch(range(3, 6), codec="lz4"))
        is_there = weakref.ref(received)
        decoding = PartitionDecoding(
            FetchedPartition(PARTITION, 1, 7, memoryview(received), (AcquiredRange(0, 5, 1),)), decoder
        )
        del received
        records: list[Record] = []
        while not decoding.is_done:
            step = confirmed(decoding)
            assert step is not None
            assert not isinstance(step, Problem)
            records += step
        assert [r.offset for r in records] == list(range(6))
        del decoding, step
        kept = records.pop()
        records.clear()
        assert (kept.offset, kept.delivery_count) == (5, 1)
        del kept
        assert is_there() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("steps", range(4))
def test_all_that_was_not_answered_is_released_when_decoding_is_given_up(steps: int) -> None:
    decoding = PartitionDecoding(fetched(batch([1, 3, 4], base=0), (0, 4, 1)), failing_at(3))
    outcome = Outcome().add([confirmed(decoding) for _ in range(steps)], [])  # type: ignore[misc]
    done = max([*outcome.records, *outcome.failed, -1])
    settled = spread(decoding.released_rest())
    assert [o for o, _ in settled] == [o for o in range(5) if o not in {**outcome.records, **outcome.failed}]
    assert all(kind == (GAP if offset < done else RELEASE) for offset, kind in settled)


# ---- anything


@attrs.frozen
class Scene:
    """A piece of a log, what was acquired of it, and what has to become of each acquired offset."""

    part: FetchedPartition
    counts: dict[int, int]
    records: set[int]
    failed: dict[int, AcknowledgeType]
    interrupts: set[int]
    poison: set[int]


@st.composite
def scenes(draw: st.DrawFn) -> Scene:
    data, next_offset = b"", draw(st.integers(0, 3))
    present: set[int] = set()
    verdicts: dict[int, AcknowledgeType] = {}
    damaged: dict[int, int | None] = {}  # base offset -> the last one, if it can still be read
    shape = st.sampled_from(["good", "good", "good", "empty", "control", "checksum", "format", "codec"])
    for kind in draw(st.lists(shape, max_size=6)):
        base = next_offset + draw(st.integers(0, 2))
        next_offset = base + (1 if kind == "control" else draw(st.integers(1, 6)))
        kept = [o for o in range(base, next_offset) if draw(st.booleans())]
        if kind == "control":
            data += control_batch("abort", producer_id=1, producer_epoch=0, timestamp=0, base_offset=base)
            continue
        made = batch([] if kind == "empty" else kept, base=base, last=next_offset - 1)
        if kind in DAMAGES:
            made = DAMAGES[kind](made)
            damaged[base] = None if kind == "format" else next_offset - 1
            verdicts[base] = REJECT if kind == "checksum" else RELEASE
        elif kind == "good":
            present |= set(kept)
        data += made
    counts = {o: draw(st.integers(1, 2)) for o in range(next_offset + 3) if draw(st.booleans())}
    unreadable = _unreadable(damaged, [*_bases(data), next_offset + 3], set(counts))
    good = sorted(present & set(counts))
    poison = {o for o in good if draw(st.integers(0, 4)) == 0}
    interrupts = {o for o in good if draw(st.integers(0, 4)) == 0}
    failed: dict[int, AcknowledgeType] = dict.fromkeys(poison, RELEASE)
    failed.update({offset: verdicts[base] for offset, base in unreadable.items()})
    return Scene(fetched(data, *_ranges(counts)), counts, set(good) - poison, failed, interrupts, poison)


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "checksum": with_bad_crc,
    "format": lambda b: with_magic(b, 9),
    "codec": with_unknown_codec,
}


def _unreadable(damaged: dict[int, int | None], bases: list[int], acquired: set[int]) -> dict[int, int]:
    """A batch that cannot be read, if something of it was acquired, takes with it all up to the batch that follows."""
    found: dict[int, int] = {}
    for base, following in pairwise(bases):
        if base in damaged:
            last = damaged[base]
            if acquired & set(range(base, following if last is None else last + 1)):
                found.update(dict.fromkeys(acquired & set(range(base, following)), base))
    return found


def _ranges(counts: dict[int, int]) -> list[tuple[int, int, int]]:
    ranges: list[tuple[int, int, int]] = []
    for offset, count in counts.items():
        if ranges and ranges[-1][1:] == (offset - 1, count):
            ranges[-1] = (ranges[-1][0], offset, count)
        else:
            ranges.append((offset, offset, count))
    return ranges


def _bases(data: bytes) -> list[int]:
    bases, position = [], 0
    while position < len(data):
        bases.append(int.from_bytes(data[position : position + 8], "big"))
        position += 12 + int.from_bytes(data[position + 8 : position + 12], "big")
    return bases


@pytest.mark.behaviour("fetching")
@given(scenes())
def test_every_acquired_offset_is_once_a_record_a_gap_or_a_failure_whatever_was_fetched(scene: Scene) -> None:
    """Whatever was fetched, each acquired offset is exactly once a record, a gap or a failure."""
    interrupts = {value_of(o) for o in scene.interrupts}
    poison = {value_of(o) for o in scene.poison}

    def deserialize(data: bytes) -> bytes:
        if data in interrupts:
            interrupts.remove(data)
            raise KeyboardInterrupt
        if data in poison:
            raise ValueError(data)
        return data

    decoding = PartitionDecoding(scene.part, Decoder(value_deserializer=as_deserializer(deserialize)))
    steps: list[Sequence[Record] | Problem] = []
    gaps: list[Run] = []
    step: Sequence[Record] | Problem | None = []
    while step is not None:
        try:
            step = confirmed(decoding)
        except KeyboardInterrupt:
            continue
        if step is not None:
            steps.append(step)
        gaps += taken_gaps(decoding)
    outcome = Outcome().add(steps, gaps)
    assert set(outcome.records) == scene.records
    assert outcome.failed == scene.failed
    assert outcome.gaps == set(scene.counts) - scene.records - set(scene.failed)
    for offset, record in outcome.records.items():
        assert (record.value, record.delivery_count) == (value_of(offset), scene.counts[offset])
    assert list(outcome.records) == sorted(outcome.records), "records came out of order"
