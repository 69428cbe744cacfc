"""What the coverage-guided fuzz does with one input, and the inputs it begins with: bytes in, an AssertionError out.

A target reads its input as something that happens to the client, and demands that the compiled module and its twin in
Python, or the two codecs of a message, come to the same; or as what comes to the reference broker, which has to go on.
Called by `guided`, and by tests without a fuzzer.
"""

from __future__ import annotations

import itertools
import random
import struct
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, Final

import attrs
from fuzz.batch_run import (
    CHECKED_FROM,
    CRC,
    HEAD_BYTES,
    MAX_BATCH_BYTES,
    WHERE,
    difference,
    lost_or_doubled,
    sound_batches,
    with_nothing_behind,
)
from fuzz.broker_run import broker_corpus, try_broker
from fuzz.guided_ledgers import ledger_corpus, try_ledgers
from protocol.hot_codecs import REQUESTS, RESPONSES, VERSIONS, same_bytes, same_values, usual_request, usual_response

from kafka_share.application.decoding import Decoder, PartitionDecoding, Problem, Record
from kafka_share.core.events import FetchedPartition
from kafka_share.errors import KafkaShareError
from kafka_share.native import columns, crc32c
from kafka_share.protocol.messages import decode_request, encode_request, encode_response
from kafka_share.protocol.record_format import LENGTH_END, MAGIC_AT
from kafka_share.protocol.share_values import AcquiredRange

SEEDS: Final = 60
"""Of inputs to begin with, for each target."""
_LENGTH_BYTES: Final = 4


@attrs.frozen
class Target:
    """`run` is given an input; `corpus` makes the first ones, from what the client's own encoder makes."""

    run: Callable[[bytes], None]
    corpus: Callable[[], Iterator[bytes]]


# ---- record batches

_CHECKS_CRCS, _SEALS, _IN_STEPS = 1, 2, 4
_RANGES: Final = 4
_RANGE_BYTES: Final = 3
_HEAD: Final = 1 + _RANGES * _RANGE_BYTES
"""A byte of flags, and for each acquired range: how many offsets before it, how many more than one, the deliveries."""
_LARGEST_BASE: Final = 1 << 62
_VIEW: Final = struct.Struct("=i12s")
_PLACE: Final = struct.Struct("=4sii")


def try_batches(data: bytes) -> None:
    """Record batches that a broker sent, behind what of them was acquired."""
    if len(data) <= _HEAD:
        return
    flags, batches = data[0], bytearray(data[_HEAD:])
    if flags & _SEALS:
        _seal(batches)
    decoder = Decoder(check_crcs=bool(flags & _CHECKS_CRCS), max_batch_bytes=MAX_BATCH_BYTES)
    fetched = FetchedPartition(WHERE, 1, 1, with_nothing_behind(bytes(batches)), _acquired(data[1:_HEAD], batches))
    limit = 1 if flags & _IN_STEPS else None
    for complaint in (lost_or_doubled(fetched, decoder, Counter(), limit), difference(fetched, decoder, limit)):
        assert complaint is None, complaint
    _compare_columns(PartitionDecoding(fetched, decoder))


def _seal(batches: bytearray) -> None:
    """Make the checksums right, so that damage gets beyond them."""
    at = 0
    while at + HEAD_BYTES <= len(batches) and batches[at + MAGIC_AT] == 2:
        stop = at + LENGTH_END + int.from_bytes(batches[at + 8 : at + LENGTH_END], "big", signed=True)
        if not at + HEAD_BYTES <= stop <= len(batches):
            return
        batches[at + CRC.start : at + CRC.stop] = crc32c(bytes(batches[at + CHECKED_FROM : stop])).to_bytes(4, "big")
        at = stop


def _acquired(words: bytes, batches: bytearray) -> tuple[AcquiredRange, ...]:
    """Ascending ranges from the offset of the first batch on."""
    base = int.from_bytes(batches[:8], "big")
    at = base if base < _LARGEST_BASE else 0
    ranges: list[AcquiredRange] = []
    for before, more, deliveries in zip(*[iter(words)] * _RANGE_BYTES, strict=True):
        ranges.append(AcquiredRange(at + before, at + before + more, 1 + deliveries))
        at = ranges[-1].last + 1
    return tuple(ranges)


def _compare_columns(decoding: PartitionDecoding) -> None:
    """Columns have what the records have."""
    while (step := decoding.next_step()) is not None:
        decoding.confirm(step)
        if isinstance(step, Problem):
            continue
        payloads = [record.key for record in step], [record.value for record in step]
        for read, views in ((_copied, False), (_viewed, True)):
            found: Any = columns([step], views)
            if found is not None:
                assert tuple(found[2:6]) == _numbers_of(list(step))
                assert tuple(_nulls(step) if column is None else read(*column) for column in found[6:8]) == payloads


def _numbers_of(records: list[Record]) -> tuple[bytes, ...]:
    fields = {"offset": "q", "timestamp": "q", "partition": "i", "delivery_count": "i"}
    return tuple(array(kind, [getattr(record, name) for record in records]).tobytes() for name, kind in fields.items())


def _nulls(records: Sequence[Any]) -> list[None]:
    return [None] * len(records)


def _copied(validity: bytes | None, ends: bytes, content: bytes) -> Sequence[bytes | None]:
    """What Arrow reads in the buffers of a binary column."""
    found = [content[start:end] for start, end in itertools.pairwise(array("i", ends))]
    assert b"".join(found) == content
    return _where_valid(validity, found)


def _viewed(validity: bytes | None, views: bytes, sources: list[bytes | memoryview]) -> Sequence[bytes | None]:
    """What Arrow reads in those of a column of views: short values are in the view, for others it has their place."""
    found: list[bytes] = []
    for size, short in _VIEW.iter_unpack(views):
        if size <= len(short):
            found.append(short[:size])
        else:
            prefix, source, at = _PLACE.unpack(short)
            found.append(bytes(sources[source][at : at + size]))
            assert (len(found[-1]), found[-1][:4]) == (size, prefix)
    return _where_valid(validity, found)


def _where_valid(validity: bytes | None, values: list[bytes]) -> Sequence[bytes | None]:
    if validity is None:
        return values
    return [value if validity[at >> 3] & 1 << (at & 7) else None for at, value in enumerate(values)]


def batch_corpus() -> Iterator[bytes]:
    source = random.Random("guided batches")
    for number in range(SEEDS):
        ranges = bytes(source.choice((0, 0, 1, 5, 40)) for _ in range(_HEAD - 1))
        yield bytes((number % 8,)) + ranges + b"".join(sound_batches(source)[0])


# ---- messages


def try_messages(data: bytes) -> None:
    """The frame of an answer, or of a request, behind a byte that says which."""
    if not data:
        return
    kind, version = data[0] & 1, VERSIONS[data[0] >> 1 & 1]
    if data[0] & 4:
        _try_request(data[1:])
        return
    for frame in (data[1:], memoryview(data)[1:]):
        same_values(RESPONSES[kind].API_KEY, version, frame)


def _try_request(frame: bytes) -> None:
    """What the broker's codec reads of it is written by both of the client's in the same bytes."""
    try:
        header, request = decode_request(frame)
    except KafkaShareError:
        return
    if type(request) in REQUESTS and header.api_version in VERSIONS:
        same_bytes(request, header.api_version, header.client_id)


def message_corpus() -> Iterator[bytes]:
    source = random.Random("guided messages")
    for number in range(SEEDS):
        kind, version = number & 1, VERSIONS[number >> 1 & 1]
        yield (
            bytes((number & 3,)) + encode_response(7, usual_response(RESPONSES[kind], source), version)[_LENGTH_BYTES:]
        )
        request = usual_request(REQUESTS[kind], source)
        yield bytes((4,)) + encode_request(request, version, 7, "client")[_LENGTH_BYTES:]


TARGETS: Final[Mapping[str, Target]] = MappingProxyType(
    {
        "batches": Target(try_batches, batch_corpus),
        "messages": Target(try_messages, message_corpus),
        "ledgers": Target(try_ledgers, ledger_corpus),
        "broker": Target(try_broker, partial(broker_corpus, SEEDS)),
    }
)
