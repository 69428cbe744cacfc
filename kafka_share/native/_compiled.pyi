"""The types of `_compiled.pyx`; those of `_pure.py` are the same."""

from typing import Final

CRC32C_BY: Final[str]
"""The processor's instruction that `crc32c` uses: "sse4.2" or "armv8"; or "table"."""

def crc32c(data: bytes | bytearray | memoryview, /) -> int: ...
def crc32c_by_table(data: bytes | bytearray | memoryview, /) -> int: ...
