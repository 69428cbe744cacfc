"""Variable-length integers: seven bits in a byte, the lowest first, the top bit set on all bytes but the last.

Called by the record and message codecs for what their inlined short forms do not cover. Signed numbers are zigzag
encoded (0, -1, 1, -2, …) on top. Overlong and unfinished numbers are refused, so that reading always ends quickly.
"""

from __future__ import annotations

from kafka_share.errors import LocalProtocolError, RemoteProtocolError

MAX_UINT32 = 0xFFFF_FFFF
MAX_UINT64 = 0xFFFF_FFFF_FFFF_FFFF


def read_unsigned(data: bytes | memoryview, position: int, maximum: int = MAX_UINT32) -> tuple[int, int]:
    """The unsigned number at a position, and the position behind it.

    Raises `RemoteProtocolError` if the data ends inside it or if it is above `maximum`.
    """
    value = shift = 0
    while shift < 70:
        if position >= len(data):
            raise RemoteProtocolError("the data ends inside a variable-length number")
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > maximum:
                break
            return value, position
        shift += 7
    raise RemoteProtocolError(f"a variable-length number is larger than {maximum}")


def unsigned(value: int) -> bytes:
    """An unsigned number, encoded. Raises `LocalProtocolError` if it is negative or has more than 64 bits."""
    if 0 <= value < 0x80:
        return _ONE_BYTE[value]
    if not 0 <= value <= MAX_UINT64:
        raise LocalProtocolError(f"{value} cannot be written as an unsigned variable-length number")
    out = bytearray()
    while value >= 0x80:
        out.append((value & 0x7F) | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def zigzag(value: int) -> bytes:
    """A signed number, encoded. Raises `LocalProtocolError` if it has more than 64 bits."""
    return unsigned(value << 1 if value >= 0 else (-value << 1) - 1)


def unzigzag(value: int) -> int:
    """The signed number that an unsigned one stands for."""
    return (value >> 1) ^ -(value & 1)


_ONE_BYTE = tuple(bytes((value,)) for value in range(0x80))
