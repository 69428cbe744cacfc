"""The checksum of record batches: CRC-32C (Castagnoli), computed by the processor's instruction where there is one."""

from __future__ import annotations

import google_crc32c


def crc32c(data: bytes) -> int:
    """The checksum of some bytes, an unsigned 32-bit number."""
    return int(google_crc32c.value(data))
