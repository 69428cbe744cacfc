"""Compress and decompress the records of a batch as Kafka's Java client does, with cramjam.

Called by the record batch codec and for pushed metrics; they import it only when they meet compressed bytes.
Decompression never makes more than a given number of bytes, however much a few hostile bytes claim to hold. Snappy is
written in the framing of the xerial library and read in both. LZ4 frames are written with independent blocks, since
Java refuses others, and as there without the checksum of each block that cramjam writes: batches have one.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Any, Final

import cramjam

from kafka_share.protocol.record_format import MAX_BATCH_BYTES, BatchTooLargeError, Codec, CorruptBatchError

_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK_BYTES: Final = 32 * 1024
_LZ4_HEADER: Final = bytes.fromhex("04224d18 60 40 82")
"""Independent blocks of 64 KiB at most, no checksum but that of these bytes, no size."""
_LZ4_BLOCK_BYTES: Final = 64 * 1024
_LZ4_IS_PLAIN: Final = 1 << 31
_OUTPUT_FULL: Final = "failed to write whole buffer"
"""cramjam's message when the output buffer was too small; all codecs have the same."""
_LZ4_SHORTEST_HEADER_BYTES: Final = 7
_LZ4_MOST_LOOKED_AT: Final = 1_000
"""Blocks. More of them are tiny, or more than anybody allows."""
_ZSTD_LONGEST_HEADER_BYTES: Final = 18

NewBuffer = Callable[[int], Any]
"""Makes what can be written into, of so many bytes."""


def compress(codec: Codec, data: bytes) -> bytes:
    """The data, compressed."""
    if codec == "none":
        return data
    if codec == "gzip":
        return bytes(cramjam.gzip.compress(data))
    if codec == "zstd":
        return bytes(cramjam.zstd.compress(data, level=3))
    if codec == "lz4":
        return _compress_lz4(data)
    return _compress_xerial(data)


def decompress(codec: Codec, data: bytes | memoryview, limit: int = MAX_BATCH_BYTES) -> bytes:
    """The data, decompressed.

    Raises `CorruptBatchError` if it is malformed, `BatchTooLargeError` if it holds more than `limit` bytes.
    """
    return bytes(data if codec == "none" else _decompressed(codec, memoryview(data), limit, bytearray))


def decompressed(codec: Codec, data: memoryview, limit: int, new_buffer: NewBuffer) -> memoryview:
    """The same as bytes of a buffer made for them, of which they are three quarters at least; not for "none"."""
    found = _decompressed(codec, data, limit, new_buffer)
    if 4 * len(found) < 3 * len(found.obj):  # type: ignore[arg-type]
        whole, found = found, memoryview(new_buffer(max(1, len(found))))[: len(found)]
        found[:] = whole
    return found.toreadonly()


def _decompressed(codec: Codec, data: memoryview, limit: int, new_buffer: NewBuffer) -> memoryview:
    try:
        if codec == "gzip":
            # A gzip stream ends with its size, so that one buffer of the right length will nearly always do.
            size = int.from_bytes(data[-4:], "little")
            return _grow(cramjam.gzip.decompress_into, data, size, limit, new_buffer)
        if codec == "zstd":
            return _grow(cramjam.zstd.decompress_into, data, _zstd_bytes(data), limit, new_buffer)
        if codec == "lz4":
            return _grow(cramjam.lz4.decompress_into, data, _lz4_bytes(data), limit, new_buffer)
        return _decompress_snappy(data, limit, new_buffer)
    except cramjam.DecompressionError as error:
        raise CorruptBatchError(f"the {codec} data of the batch is damaged: {error}") from error


def _grow(
    decompress_into: Callable[[memoryview, memoryview], Any],
    data: memoryview,
    guess: int,
    limit: int,
    new_buffer: NewBuffer,
) -> memoryview:
    """Decompress into larger and larger buffers, the last of them as large as is allowed."""
    # Deflate cannot grow data more than 1032 times and LZ4 less: beyond that a guess is a lie. Zstandard can, by steps.
    size = min(max(guess, 1024), 1040 * len(data) + 1024, limit)
    while True:
        output = memoryview(new_buffer(size))
        try:
            return output[: int(decompress_into(data, output))]
        except cramjam.DecompressionError as error:
            if _OUTPUT_FULL not in str(error):
                raise
            if size >= limit:
                raise _too_large(limit) from None
            size = min(8 * size, limit)


def _zstd_bytes(data: memoryview) -> int:
    """What a Zstandard frame (RFC 8878) says that it holds; a guess if it says nothing."""
    if len(data) < _ZSTD_LONGEST_HEADER_BYTES:
        return 8 * len(data)
    descriptor = data[4]
    is_single = descriptor >> 5 & 1
    width = (is_single, 2, 4, 8)[descriptor >> 6]
    position = 5 + (not is_single) + (0, 1, 2, 4)[descriptor & 3]
    size = int.from_bytes(data[position : position + width], "little") + (256 if width == 2 else 0)
    return size if width else 8 * len(data)


def _lz4_bytes(data: memoryview) -> int:
    """How much an LZ4 frame can hold at most, as far as its blocks tell."""
    if len(data) < _LZ4_SHORTEST_HEADER_BYTES:
        return 0
    flags = data[4]
    block_bytes = 1 << 8 + 2 * (data[5] >> 4 & 7)
    position = _LZ4_SHORTEST_HEADER_BYTES + (8 if flags & 8 else 0) + (4 if flags & 1 else 0)
    behind_bytes = 4 if flags & 16 else 0
    size = 0
    for _ in range(_LZ4_MOST_LOOKED_AT):
        length = int.from_bytes(data[position : position + 4], "little") & ~_LZ4_IS_PLAIN
        if length == 0:
            break
        size += min(255 * length, block_bytes)
        position += 4 + length + behind_bytes
    return size


def _compress_lz4(data: bytes) -> bytes:
    parts = [_LZ4_HEADER]
    for start in range(0, len(data), _LZ4_BLOCK_BYTES):
        plain = data[start : start + _LZ4_BLOCK_BYTES]
        block = bytes(cramjam.lz4.compress_block(plain, store_size=False))
        if len(block) < len(plain):
            parts += (len(block).to_bytes(4, "little"), block)
        else:
            parts += ((len(plain) | _LZ4_IS_PLAIN).to_bytes(4, "little"), plain)
    parts.append(bytes(4))
    return b"".join(parts)


def _compress_xerial(data: bytes) -> bytes:
    parts = [_XERIAL_HEADER]
    for start in range(0, len(data), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + _XERIAL_BLOCK_BYTES]))
        parts += (len(block).to_bytes(4, "big"), block)
    return b"".join(parts)


def _decompress_snappy(data: memoryview, limit: int, new_buffer: NewBuffer) -> memoryview:
    blocks = [data]
    if bytes(data[: len(_XERIAL_MAGIC)]) == _XERIAL_MAGIC:
        blocks = list(_xerial_blocks(data))
    size = sum(int(cramjam.snappy.decompress_raw_len(block)) for block in blocks)
    if size > limit:
        raise _too_large(limit)
    output, at = memoryview(new_buffer(max(1, size))), 0
    for block in blocks:
        at += int(cramjam.snappy.decompress_raw_into(block, output[at:]))
    return output[:at]


def _xerial_blocks(data: memoryview) -> Iterator[memoryview]:
    position = len(_XERIAL_HEADER)
    while position < len(data):
        length = int.from_bytes(data[position : position + 4], "big")
        position += 4
        if not 0 < length <= len(data) - position:
            raise CorruptBatchError("the snappy data of the batch is damaged: a block has an impossible length")
        yield data[position : position + length]
        position += length


def _too_large(limit: int) -> BatchTooLargeError:
    return BatchTooLargeError(f"its records decompress to more than the {limit} bytes that are allowed")
