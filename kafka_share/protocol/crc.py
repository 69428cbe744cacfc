"""The checksum of record batches: CRC-32C (Castagnoli), computed by the processor's instruction where there is one."""

from __future__ import annotations


def crc32c(data: bytes | memoryview) -> int:
    """The checksum of some bytes, an unsigned 32-bit number."""
    # Imported late: the import reads the metadata of installed packages. This package rather than google-crc32c, which
    # is as fast: kafka-python's producer uses it too when it is installed.
    from crc32c import crc32c as compute

    return int(compute(data))
