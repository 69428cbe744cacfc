"""Messages of the record formats 0 and 1, as producers wrote them until 2017."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping

GZIP = 1
TIMESTAMP = 1_000


def old_message(magic: int, offset: int, value: bytes, codec: int = 0) -> bytes:
    """One message without a key; a compressed set if there is a codec."""
    checked = struct.pack(">bb", magic, codec) + (struct.pack(">q", TIMESTAMP) if magic else b"")
    checked += struct.pack(">ii", -1, len(value)) + value
    return struct.pack(">qiI", offset, 4 + len(checked), zlib.crc32(checked)) + checked


def old_set(magic: int, values: Mapping[int, bytes]) -> bytes:
    """A compressed set of messages with these offsets; those inside count from the first one in format 1."""
    base = min(values) if magic else 0
    inside = b"".join(old_message(magic, offset - base, value) for offset, value in values.items())
    return old_message(magic, max(values), zlib.compress(inside, wbits=31), GZIP)
