"""The ShareFetch requests that the application's thread sends by itself, from a template of what does not change.

Made by `network.direct`; the bytes are those of the general codec.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final
from uuid import UUID

import attrs

from kafka_share.protocol.varint import unsigned

_HEAD: Final = struct.Struct(">ihhi").pack
_NUMBER: Final = struct.Struct(">i").pack
_BATCH: Final = struct.Struct(">qqb").pack
_ONE_TYPE: Final = struct.Struct(">qqbbb").pack
_API_KEY: Final = 78
_HEAD_BYTES: Final = 8
"""Key, version and correlation id."""
_MOST: Final = 126
"""Elements of a list whose length takes one byte."""

Batch = tuple[int, int, Sequence[int]]
"""First and last offset, and the types: one for all, or one each."""


@attrs.frozen
class FetchTemplate:
    """`limits`: longest wait (ms), least and most bytes, most records."""

    version: int
    client_id: str
    group_id: str
    member_id: str
    limits: tuple[int, int, int, int]
    _before: bytes = attrs.field(init=False)
    _after: bytes = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        client = self.client_id.encode()
        before = struct.pack(">h", len(client)) + client + b"\0" + _text(self.group_id) + _text(self.member_id)
        after = struct.pack(">iiiii", *self.limits, self.limits[-1])
        object.__setattr__(self, "_before", before)
        object.__setattr__(self, "_after", after if self.version == 1 else after + b"\0\0")

    def frame(
        self, correlation_id: int, epoch: int, acknowledgements: Sequence[tuple[UUID, int, Sequence[Batch]]]
    ) -> bytes | None:
        """The whole frame; each partition is named once. None: too much for a short message."""
        parts = [self._before, _NUMBER(epoch), self._after]
        by_topic: dict[bytes, list[tuple[int, Sequence[Batch]]]] = {}
        for topic_id, partition, batches in acknowledgements:
            by_topic.setdefault(topic_id.bytes, []).append((partition, batches))
        if len(by_topic) > _MOST:
            return None
        parts.append(bytes((len(by_topic) + 1,)))
        for topic, partitions in by_topic.items():
            if len(partitions) > _MOST:
                return None
            parts += topic, bytes((len(partitions) + 1,))
            for partition, batches in partitions:
                if len(batches) > _MOST:
                    return None
                parts += _NUMBER(partition), bytes((len(batches) + 1,))
                for first, last, types in batches:
                    if len(types) == 1:
                        parts.append(_ONE_TYPE(first, last, 2, types[0], 0))
                    elif len(types) <= _MOST:
                        parts += _BATCH(first, last, len(types) + 1), bytes(types), b"\0"
                    else:
                        return None
                parts.append(b"\0")
            parts.append(b"\0")
        parts.append(b"\x01\0")
        body = b"".join(parts)
        return _HEAD(len(body) + _HEAD_BYTES, _API_KEY, self.version, correlation_id) + body


def _text(value: str) -> bytes:
    """A compact string."""
    content = value.encode()
    return unsigned(len(content) + 1) + content
