"""What `--key-deserializer` and `--value-deserializer` name: the bytes of a record to those that are printed. Pure.

Short names, and the names of Java's classes for the same, because Kafka's own tool takes those.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

_JAVA_PACKAGE: Final = "org.apache.kafka.common.serialization."

Deserializer = Callable[[bytes], bytes]
"""Raises ValueError for bytes that are not of its kind."""


def _unchanged(data: bytes) -> bytes:
    return data


def _hex(data: bytes) -> bytes:
    return data.hex().encode()


def _number(layout: str) -> Deserializer:
    size = struct.calcsize(layout)

    def deserialize(data: bytes) -> bytes:
        if len(data) != size:
            raise ValueError(f"{len(data)} bytes instead of {size}")
        return str(struct.unpack(layout, data)[0]).encode()

    return deserialize


def _uuid(data: bytes) -> bytes:
    try:
        return str(uuid.UUID(data.decode("ascii"))).encode()
    except ValueError:
        raise ValueError("it is not the text of a UUID") from None


DESERIALIZERS: Final[Mapping[str, Deserializer]] = MappingProxyType(
    {
        "string": _unchanged,
        "hex": _hex,
        "short": _number(">h"),
        "integer": _number(">i"),
        "long": _number(">q"),
        "float": _number(">f"),
        "double": _number(">d"),
        "uuid": _uuid,
    }
)
"""Numbers are big-endian, as Java's serializers write them."""


def deserializer_of(name: str) -> Deserializer | None:
    """By its short name or Java class; None if there is none."""
    short = name.removeprefix(_JAVA_PACKAGE).removesuffix("Deserializer").lower()
    return DESERIALIZERS.get({"bytearray": "string", "bytes": "string"}.get(short, short))
