"""One seed of the fuzz of record batches: damaged bytes go through the client's decoding, in this process.

Demanded are: no exception, each acquired offset in exactly one of records, gaps and problems, memory within a multiple
of what a batch may decompress to, and that the compiled decoder finds the same as the one in Python.
"""

from __future__ import annotations

import ctypes
import random
import traceback
import tracemalloc
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

from fuzz.outcome import Outcome
from support.old_messages import old_message, old_set

from kafka_share.application.decoding import Decoder, PartitionDecoding, Problem, Record
from kafka_share.core.events import FetchedPartition
from kafka_share.core.fetching.offsets import merged
from kafka_share.native import IS_COMPILED, crc32c
from kafka_share.protocol.record_batches import control_batch, encode_batch
from kafka_share.protocol.record_format import CODEC_NAMES, CorruptBatchError
from kafka_share.protocol.share_values import AcquiredRange
from kafka_share.records import TopicIdPartition

WHERE: Final = TopicIdPartition(UUID(int=1), "t", 0)
MAX_BATCH_BYTES: Final = 1 << 16
MEMORY_FACTOR: Final = 100
"""A record of seven bytes becomes objects of several hundred."""
MEMORY_FLOOR_BYTES: Final = 4 << 20
CRC: Final = slice(17, 21)
CHECKED_FROM: Final = 21
HEAD_BYTES: Final = 61


def run_batches(seed: int, *, trace: bool = False) -> Outcome:
    """Decode what a seed has damaged."""
    source = random.Random(f"batches {seed}")
    happened: Counter[str] = Counter()
    sound, end = sound_batches(source)
    data = b"".join(sound)
    mutations = source.choice((0, 1, 1, 2, 5))
    for _ in range(mutations):
        sound, data = _damaged(sound, source, happened)
    decoder = Decoder(check_crcs=source.random() < 0.7, max_batch_bytes=MAX_BATCH_BYTES)
    fetched = FetchedPartition(WHERE, 1, 1, with_nothing_behind(data), _acquired(end, source))
    lines = [f"{decoder}", f"acquired {fetched.acquired}", data.hex()] if trace else []
    complaint = None
    try:
        complaint = _complaint(fetched, decoder, happened)
    except Exception as error:  # noqa: BLE001 - whatever decoding raises is the finding
        complaint = f"{type(error).__name__}: {error}"
        lines += traceback.format_exc().splitlines() if trace else []
    return Outcome(seed, mutations, happened, complaint, None, lines)


# ---- what is decoded


def sound_batches(source: random.Random) -> tuple[list[bytes], int]:
    """Sound batches one after the other, and the offset behind them."""
    made: list[bytes] = []
    offset = source.choice((0, 5, 2**40))
    for _ in range(source.randint(1, 4)):
        data, offset = _batch(offset, source)
        made.append(data)
        offset += source.choice((0, 0, 3))
    return made, offset


def _batch(base: int, source: random.Random) -> tuple[bytes, int]:
    kind = source.choice(("new", "new", "new", "new", "old", "control"))
    offsets = [base + i for i in range(source.choice((1, 2, 7, 40)))]
    if kind == "control":
        return control_batch("commit", base_offset=base, producer_id=7, producer_epoch=0, timestamp=1), base + 1
    if kind == "old":
        magic = source.choice((0, 1))
        values = {offset: b"v%d" % offset for offset in offsets}
        if source.random() < 0.5:
            return old_set(magic, values), offsets[-1] + 1
        return b"".join(old_message(magic, offset, value) for offset, value in values.items()), offsets[-1] + 1
    if source.random() < 0.3:
        offsets = sorted(source.sample(offsets, max(1, len(offsets) // 2)))
    size = source.choice((0, 1, 20, 500))
    records: list[Any] = [
        (offset, 1_000 + offset % 1000, source.choice((None, b"k")), source.randbytes(size) or None, _headers(source))
        for offset in offsets
    ]
    return encode_batch(records, base_offset=base, codec=source.choice(CODEC_NAMES)), offsets[-1] + 1


def _headers(source: random.Random) -> list[tuple[str, bytes | None]]:
    return [(f"h{i}", source.choice((None, b"", b"x" * 9))) for i in range(source.choice((0, 0, 1, 3)))]


def with_nothing_behind(data: bytes) -> memoryview:
    """The bytes in memory that ends with them: a bytes object has a zero more, which would stop who reads too far."""
    return memoryview((ctypes.c_char * len(data)).from_buffer_copy(data)).cast("B")


def _acquired(end: int, source: random.Random) -> tuple[AcquiredRange, ...]:
    """Ascending ranges about the batches, some of which reach beyond them."""
    ranges: list[AcquiredRange] = []
    at = max(0, end - 200 + source.randint(0, 150))
    while at < end + 5 and len(ranges) < 6:
        last = at + source.choice((0, 1, 9, 60))
        ranges.append(AcquiredRange(at, last, source.randint(1, 5)))
        at = last + 1 + source.choice((0, 0, 2, 10))
    return tuple(ranges)


# ---- what is done to it


def _damaged(sound: Sequence[bytes], source: random.Random, happened: Counter[str]) -> tuple[list[bytes], bytes]:
    batches = list(sound)
    number = source.randrange(len(batches))
    one = bytearray(batches[number])
    what = source.choice(("bits", "bits", "head", "head", "tail", "cut", "length", "twice", "swapped", "torn"))
    happened[f"batch: {what}"] += 1
    if what in ("bits", "head"):
        stop = len(one) if what == "bits" else min(HEAD_BYTES, len(one))
        for _ in range(source.choice((1, 1, 3))):
            one[source.randrange(stop)] ^= 1 << source.randrange(8)
    elif what == "tail":  # a number that does not end before the batch does
        tail = min(len(one), source.choice((1, 1, 2, 9)))
        one[-tail:] = source.choice((b"\x80", b"\xff")) * tail
    elif what == "cut":
        del one[source.randrange(len(one)) :]
    elif what == "torn":
        at = source.randrange(len(one))
        one[at : at + source.randint(1, 30)] = source.randbytes(source.randint(0, 30))
    elif what == "length":
        one[8:12] = source.choice((0, 1, 48, 49, len(one), 2**31 - 1, 2**32 - 1)).to_bytes(4, "big")
    elif what == "twice":
        batches.insert(number, bytes(one))
    else:
        other = source.randrange(len(batches))
        batches[number], batches[other] = batches[other], batches[number]
        one = bytearray(batches[number])
    if source.random() < 0.6 and len(one) > CHECKED_FROM:
        one[CRC] = crc32c(bytes(one[CHECKED_FROM:])).to_bytes(4, "big")  # the damage is not where the checksum sees it
        happened["batch: sealed again"] += 1
    batches[number] = bytes(one)
    return [batch for batch in batches if batch] or [bytes(one) or b"\0"], b"".join(batches)


# ---- what is demanded


def _complaint(fetched: FetchedPartition, decoder: Decoder, happened: Counter[str]) -> str | None:
    tracemalloc.start()
    try:
        complaint = lost_or_doubled(fetched, decoder, happened)
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    if complaint is None and IS_COMPILED:
        complaint = difference(fetched, decoder)
    limit_bytes = MEMORY_FLOOR_BYTES + MEMORY_FACTOR * (MAX_BATCH_BYTES + len(fetched.records))
    if complaint is None and peak_bytes > limit_bytes:
        complaint = f"decoding took {peak_bytes:,} bytes"
    return complaint


def lost_or_doubled(
    fetched: FetchedPartition, decoder: Decoder, happened: Counter[str], limit: int | None = None
) -> str | None:
    """Acquired offsets that are in none of records, gaps and problems, or in two; None if there are none."""
    found = _decoded(fetched, decoder, happened, limit)
    expected = Counter(offset for run in fetched.acquired for offset in range(run.first, run.last + 1))
    if found == expected:
        return None
    return f"missing {sorted((expected - found).elements())[:5]}, too much {sorted((found - expected).elements())[:5]}"


class DecodingInPython(PartitionDecoding):
    """As it is where nothing was compiled."""

    def _new_block(self) -> None:
        return None


def difference(fetched: FetchedPartition, decoder: Decoder, limit: int | None = None) -> str | None:
    """What the compiled decoder says otherwise than the one in Python; None if it says the same."""
    compiled, plain = (_told(kind(fetched, decoder), limit) for kind in (PartitionDecoding, DecodingInPython))
    return None if compiled == plain else f"compiled: {compiled}, in Python: {plain}"


def _told(decoding: PartitionDecoding, limit: int | None) -> list[Any]:
    """All that a consumer is told, except how the records are divided into steps."""
    told: list[Any] = []
    while (step := decoding.next_step(limit)) is not None:
        decoding.confirm(step)
        if isinstance(step, Problem):
            told.append((str(step.error), step.runs))
        else:
            told += [(*(getattr(record, name) for name in _FIELDS), _headers_of(record)) for record in step]
    return [*told, [tuple(run) for run in merged(decoding.gaps())]]


_FIELDS: Final = ("offset", "timestamp", "timestamp_type", "key", "value", "leader_epoch", "delivery_count")


def _headers_of(record: Record) -> Any:
    """They are decoded when they are looked at, and may say then that they are damaged."""
    try:
        return tuple(record.headers)
    except CorruptBatchError as error:
        return str(error)


def _decoded(fetched: FetchedPartition, decoder: Decoder, happened: Counter[str], limit: int | None) -> Counter[int]:
    """How often each offset is in a record, a gap or a problem."""
    found: Counter[int] = Counter()
    decoding = PartitionDecoding(fetched, decoder)
    while (step := decoding.next_step(limit)) is not None:
        decoding.confirm(step)
        if isinstance(step, Problem):
            happened[f"problem {type(step.error).__name__}"] += 1
            found.update(offset for run in step.runs for offset in range(run.first, run.last + 1))
        else:
            happened["records"] += len(step)
            found.update(record.offset for record in step)
            happened["headers that are damaged"] += sum(isinstance(_headers_of(record), str) for record in step)
    found.update(offset for run in decoding.gaps() for offset in range(run.first, run.last + 1))
    return found
