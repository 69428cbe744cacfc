"""What `--key-deserializer` and `--value-deserializer` name: bytes to what is printed. Pure functions.

Short names, and the names of Java's classes for the same, because Kafka's own tool takes those.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

_JAVA_PACKAGE: Final = "org.apache.kafka.common.serialization."

Deserializer = Callable[[bytes], str]


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _number(layout: str) -> Deserializer:
    size = struct.calcsize(layout)

    def deserialize(data: bytes) -> str:
        if len(data) != size:
            raise ValueError(f"{len(data)} bytes instead of {size}")
        return str(struct.unpack(layout, data)[0])

    return deserialize


def _uuid(data: bytes) -> str:
    return str(uuid.UUID(_text(data)))


DESERIALIZERS: Final[Mapping[str, Deserializer]] = MappingProxyType(
    {
        "string": _text,
        "hex": bytes.hex,
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
