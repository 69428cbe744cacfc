"""The twin of `_compiled.pyx` in Python: the same names, the same results, the same errors, more time.

`kafka_share.native` imports it where there is no compiled module, or where KAFKA_SHARE_PURE_PYTHON=1 asks for it. The
tests in tests/native hold that the two are the same.
"""

from __future__ import annotations


def crc32c(data: bytes | bytearray | memoryview, /) -> int:
    """The checksum of some bytes, an unsigned 32-bit number."""
    # Imported late: the import reads the metadata of installed packages. This package rather than google-crc32c, which
    # is as fast: kafka-python's producer uses it too when it is installed.
    from crc32c import crc32c as compute

    return int(compute(data))
