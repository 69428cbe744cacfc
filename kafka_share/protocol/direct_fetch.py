"""The requests that the application's thread sends by itself, each from a template of what does not change in it.

Made by `network.direct`; the bytes are those of the general codec.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from copy import copy
from typing import Final
from uuid import UUID

from kafka_share.protocol.varint import unsigned

_NUMBER: Final = struct.Struct(">i").pack
_BATCH: Final = struct.Struct(">qqb").pack
_ONE_TYPE: Final = struct.Struct(">qqbbb").pack
_SHARE_FETCH: Final = 78
_SHARE_ACKNOWLEDGE: Final = 79
_MOST: Final = 126
"""Elements of a list whose length takes one byte."""

Batch = tuple[int, int, Sequence[int]]
"""First and last offset, and the types: one for all, or one each."""
Acknowledged = Sequence[tuple[UUID, int, Sequence[Batch]]]
"""What a request acknowledges; each partition, by topic id and number, is named once."""


class Template:
    """One kind of request: what stands before its correlation id, around its epoch, and at its end.

    Of requests with one run for each partition the extension makes the same bytes (`native.PlainCalls`).
    """

    def __init__(self, key: int, version: int, before: bytes, after: bytes, end: bytes) -> None:
        self.head: bytes = struct.pack(">hh", key, version)
        self.before: bytes = before
        self.after: bytes = after
        self.end: bytes = end

    def waiting(self, wait_ms: int) -> Template:
        """The same with another longest wait, of a ShareFetch."""
        made = copy(self)
        made.after = _NUMBER(wait_ms) + self.after[4:]
        return made

    def frame(self, correlation_id: int, epoch: int, acknowledged: Acknowledged) -> bytes | None:
        """The whole frame. None: too much for a short message."""
        parts = [self.head, _NUMBER(correlation_id), self.before, _NUMBER(epoch), self.after]
        if not _put(acknowledged, parts):
            return None
        parts.append(self.end)
        body = b"".join(parts)
        return _NUMBER(len(body)) + body


def fetch_template(
    version: int, client_id: str, group_id: str, member_id: str, limits: tuple[int, int, int, int]
) -> Template:
    """ShareFetch. `limits`: longest wait (ms), least and most bytes, most records."""
    after = struct.pack(">iiiii", *limits, limits[-1]) + (b"" if version == 1 else b"\0\0")
    return Template(_SHARE_FETCH, version, _before(client_id, group_id, member_id), after, b"\x01\0")


def acknowledge_template(version: int, client_id: str, group_id: str, member_id: str) -> Template:
    """ShareAcknowledge, which renews nothing."""
    after = b"" if version == 1 else b"\0"
    return Template(_SHARE_ACKNOWLEDGE, version, _before(client_id, group_id, member_id), after, b"\0")


def _before(client_id: str, group_id: str, member_id: str) -> bytes:
    """What stands between the correlation id and the epoch."""
    client = client_id.encode()
    return struct.pack(">h", len(client)) + client + b"\0" + _text(group_id) + _text(member_id)


def _put(acknowledged: Acknowledged, parts: list[bytes]) -> bool:
    """Encode the topics of a request; False: too much for a short message."""
    by_topic: dict[bytes, list[tuple[int, Sequence[Batch]]]] = {}
    for topic_id, partition, batches in acknowledged:
        by_topic.setdefault(topic_id.bytes, []).append((partition, batches))
    if len(by_topic) > _MOST:
        return False
    parts.append(bytes((len(by_topic) + 1,)))
    for topic, partitions in by_topic.items():
        if len(partitions) > _MOST:
            return False
        parts += topic, bytes((len(partitions) + 1,))
        for partition, batches in partitions:
            if len(batches) > _MOST:
                return False
            parts += _NUMBER(partition), bytes((len(batches) + 1,))
            for first, last, types in batches:
                if len(types) == 1:
                    parts.append(_ONE_TYPE(first, last, 2, types[0], 0))
                elif len(types) <= _MOST:
                    parts += _BATCH(first, last, len(types) + 1), bytes(types), b"\0"
                else:
                    return False
            parts.append(b"\0")
        parts.append(b"\0")
    return True


def _text(value: str) -> bytes:
    """A compact string."""
    content = value.encode()
    return unsigned(len(content) + 1) + content
