"""Compress and decompress the records of a batch as Kafka's Java client does, with cramjam.

Called by the record batch codec and for pushed metrics; they import it only when they meet compressed bytes.
Decompression never makes more than a given number of bytes, however much a few hostile bytes claim to hold. Snappy is
written in the framing of the xerial library and read in both; LZ4 frames are written with independent blocks, since
Java refuses others.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final

import cramjam

from kafka_share.protocol.record_format import MAX_BATCH_BYTES, BatchTooLargeError, Codec, CorruptBatchError

_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK_BYTES: Final = 32 * 1024
_OUTPUT_FULL: Final = "failed to write whole buffer"
"""cramjam's message when the output buffer was too small; all codecs have the same."""


def compress(codec: Codec, data: bytes) -> bytes:
    """The data, compressed."""
    if codec == "none":
        return data
    if codec == "gzip":
        return bytes(cramjam.gzip.compress(data))
    if codec == "zstd":
        return bytes(cramjam.zstd.compress(data, level=3))
    if codec == "lz4":
        compressor = cramjam.lz4.Compressor(level=1, content_checksum=False, block_linked=False)
        compressor.compress(data)
        return bytes(compressor.finish())
    return _compress_xerial(data)


def decompress(codec: Codec, data: bytes | memoryview, limit: int = MAX_BATCH_BYTES) -> bytes:
    """The data, decompressed.

    Raises `CorruptBatchError` if it is malformed, `BatchTooLargeError` if it holds more than `limit` bytes.
    """
    try:
        if codec == "none":
            return bytes(data)
        if codec == "gzip":
            # A gzip stream ends with its size, so that one buffer of the right length will nearly always do.
            return _grow(cramjam.gzip.decompress_into, data, int.from_bytes(data[-4:], "little"), limit)
        if codec == "zstd":
            return _grow(cramjam.zstd.decompress_into, data, 8 * len(data), limit)
        if codec == "lz4":
            return _grow(cramjam.lz4.decompress_into, data, 4 * len(data), limit)
        return _decompress_snappy(data, limit)
    except cramjam.DecompressionError as error:
        raise CorruptBatchError(f"the {codec} data of the batch is damaged: {error}") from error


def _grow(
    decompress_into: Callable[[bytes | memoryview, bytearray], Any], data: bytes | memoryview, guess: int, limit: int
) -> bytes:
    """Decompress into larger and larger buffers, the last of them as large as is allowed."""
    # Deflate cannot grow data more than 1032 times and LZ4 less: beyond that a guess is a lie. Zstandard can, by steps.
    size = min(max(guess, 1024), 1040 * len(data) + 1024, limit)
    while True:
        output = bytearray(size)
        try:
            length = int(decompress_into(data, output))
        except cramjam.DecompressionError as error:
            if _OUTPUT_FULL not in str(error):
                raise
            if size >= limit:
                raise _too_large(limit) from None
            size = min(8 * size, limit)
        else:
            return bytes(memoryview(output)[:length])


def _compress_xerial(data: bytes) -> bytes:
    parts = [_XERIAL_HEADER]
    for start in range(0, len(data), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + _XERIAL_BLOCK_BYTES]))
        parts += (len(block).to_bytes(4, "big"), block)
    return b"".join(parts)


def _decompress_snappy(data: bytes | memoryview, limit: int) -> bytes:
    if data[: len(_XERIAL_MAGIC)] != _XERIAL_MAGIC:
        return _decompress_raw_snappy(data, limit, limit)
    parts: list[bytes] = []
    left = limit
    position = len(_XERIAL_HEADER)
    while position < len(data):
        length = int.from_bytes(data[position : position + 4], "big")
        position += 4
        if not 0 < length <= len(data) - position:
            raise CorruptBatchError("the snappy data of the batch is damaged: a block has an impossible length")
        part = _decompress_raw_snappy(data[position : position + length], left, limit)
        parts.append(part)
        position += length
        left -= len(part)
    return b"".join(parts)


def _decompress_raw_snappy(data: bytes | memoryview, left: int, limit: int) -> bytes:
    if int(cramjam.snappy.decompress_raw_len(data)) > left:
        raise _too_large(limit)
    return bytes(cramjam.snappy.decompress_raw(data))


def _too_large(limit: int) -> BatchTooLargeError:
    return BatchTooLargeError(f"its records decompress to more than the {limit} bytes that are allowed")
