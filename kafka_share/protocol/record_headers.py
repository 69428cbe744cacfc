"""The headers of one record as they were received: they become objects when somebody looks at them, one by one.

Made by the decoder of records. Two bytes make a header, so a hostile batch of some kilobytes decompresses to sixty
million of them; an application that looks at none pays for none, and one that goes through them holds one at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, Final, TypeAlias, overload

from kafka_share.errors import RemoteProtocolError
from kafka_share.protocol.record_format import CorruptBatchError
from kafka_share.protocol.varint import read_unsigned

Header: TypeAlias = "tuple[str, bytes | None]"

_NULL: Final = 1
"""The length of a value that is null."""
_SHOWN: Final = 20
_DO_NOT_FILL: Final = "the headers of a record do not fill its length"


class EncodedHeaders(Sequence[Header]):
    """The (name, value) pairs in the producer's order, decoded anew by every look.

    A name that is not UTF-8 has U+FFFD where it cannot be read, as with Java's client. Equal to every tuple or list of
    the same pairs, and pickled as a tuple. All but `len` raises `CorruptBatchError` if the bytes are no headers, which
    a broker that checks what it stores never sends.
    """

    __slots__ = ("_encoded",)

    def __init__(self, encoded: bytes) -> None:
        """`encoded` begins with the number of headers, which has been compared with its length, and ends with them."""
        self._encoded = encoded

    def __len__(self) -> int:
        return read_unsigned(self._encoded, 0)[0] >> 1

    def __iter__(self) -> Iterator[Header]:
        data = self._encoded
        count, position = read_unsigned(data, 0)
        try:
            for _ in range(count >> 1):
                length, position = _length(data, position)
                name = data[position : position + length].decode(errors="replace")
                position += length
                if data[position] == _NULL:
                    position += 1
                    yield name, None
                else:
                    length, position = _length(data, position)
                    yield name, data[position : position + length]
                    position += length
        except IndexError:
            raise CorruptBatchError(_DO_NOT_FILL) from None
        if position != len(data):
            raise CorruptBatchError(_DO_NOT_FILL)

    def check(self) -> None:
        """Raise `CorruptBatchError` unless the bytes are headers from the first to the last. Makes no objects."""
        data = self._encoded
        count, position = read_unsigned(data, 0)
        try:
            for _ in range(count >> 1):
                length = data[position]
                if length & 0x81:  # more than one byte, or negative
                    length, position = _length(data, position)
                    position += length
                else:
                    position += 1 + (length >> 1)
                length = data[position]
                if length == _NULL:
                    position += 1
                elif length & 0x81:
                    length, position = _length(data, position)
                    position += length
                else:
                    position += 1 + (length >> 1)
        except IndexError:
            raise CorruptBatchError(_DO_NOT_FILL) from None
        if position != len(data):
            raise CorruptBatchError(_DO_NOT_FILL)

    @overload
    def __getitem__(self, index: int) -> Header: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Header, ...]: ...
    def __getitem__(self, index: int | slice) -> Header | tuple[Header, ...]:
        if isinstance(index, slice):
            return tuple(self)[index]
        at = range(len(self))[index]
        return next(islice(self, at, None))

    def __reversed__(self) -> Iterator[Header]:
        return reversed(tuple(self))

    def index(self, value: Any, start: int = 0, stop: int | None = None) -> int:
        return tuple(self).index(value, start, len(self) if stop is None else stop)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or isinstance(other, str | bytes):
            return NotImplemented
        return len(self) == len(other) and all(mine == theirs for mine, theirs in zip(self, other, strict=True))

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __reduce__(self) -> tuple[Any, ...]:
        return tuple, (tuple(self),)

    def __repr__(self) -> str:
        shown = ", ".join(map(repr, islice(self, _SHOWN)))
        return f"({shown}, and {len(self) - _SHOWN} more)" if len(self) > _SHOWN else f"({shown})"


def _length(data: bytes, position: int) -> tuple[int, int]:
    """The length of a name or value, and the position behind it."""
    try:
        number, position = read_unsigned(data, position)
    except RemoteProtocolError:
        raise CorruptBatchError(_DO_NOT_FILL) from None
    if number & 1:
        raise CorruptBatchError("the name or value of a header has an impossible length")
    return number >> 1, position
