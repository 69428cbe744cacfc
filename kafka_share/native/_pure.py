"""The twin of `_compiled.pyx` in Python: the same names, the same results, the same errors, more time.

`kafka_share.native` imports it where there is no compiled module, or where KAFKA_SHARE_PURE_PYTHON=1 asks for it. The
tests in tests/native hold that the two are the same.
"""

from __future__ import annotations

from typing import Any

from kafka_share.native.pure_ledger import Ledger
from kafka_share.native.pure_record import ShareRecord, with_values

__all__ = ["Gate", "Ledger", "RecordBlock", "ShareRecord", "columns", "crc32c", "shut_all_gates", "with_values"]

RecordBlock = None
"""Records are found batch by batch, as those are that the compiled one leaves out."""
Gate = None
"""There is no short way that would be shorter."""


def columns(records: list[ShareRecord[Any, Any]]) -> None:
    """There are no blocks whose bytes could be copied at once."""


def shut_all_gates() -> None:
    """There is none."""


def crc32c(data: bytes | bytearray | memoryview, /) -> int:
    """The checksum of some bytes, an unsigned 32-bit number."""
    # Imported late: the import reads the metadata of installed packages. This package rather than google-crc32c, which
    # is as fast: kafka-python's producer uses it too when it is installed.
    from crc32c import crc32c as compute

    return int(compute(data))
