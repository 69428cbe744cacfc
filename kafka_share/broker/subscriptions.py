"""What a classic consumer subscribes to, read from the bytes that it sends through its group.

The bytes belong to the clients (Kafka's ConsumerProtocolSubscription): a version, then the topics' names, then things
that no broker needs. Only deleting offsets asks for it.
"""

from __future__ import annotations

import struct


def subscribed_topics(metadata: bytes) -> tuple[str, ...]:
    """The topics' names; none if these are not the bytes of a subscription."""
    topics = []
    try:
        _, count = struct.unpack_from(">hi", metadata)
        at = 6
        for _ in range(count):
            (length,) = struct.unpack_from(">h", metadata, at)
            at += 2 + length
            if length < 0 or at > len(metadata):
                return ()
            topics.append(metadata[at - length : at].decode())
    except (struct.error, UnicodeDecodeError):
        return ()
    return tuple(topics)
