"""Values of the share group protocol that clients and brokers have in common: epochs of share sessions, ranges, GAP.

Used by the client and by the broker, which share nothing else but the messages.
"""

from __future__ import annotations

from typing import Final, NamedTuple

INITIAL_EPOCH: Final = 0
"""The epoch of the request that opens a share session."""
FINAL_EPOCH: Final = -1
"""The epoch of the request that ends a share session."""
MAX_EPOCH: Final = 2**31 - 1


def next_epoch(epoch: int) -> int:
    """The epoch after `epoch`; after the highest one comes 1, because 0 would open a session."""
    return 1 if epoch >= MAX_EPOCH else epoch + 1


DEFAULT_LOCK_MS: Final = 30_000
"""Kafka's default of group.share.record.lock.duration.ms."""

GAP: Final = 0
"""The acknowledgement type of offsets without a record; the others are `AcknowledgeType`."""


class AcquiredRange(NamedTuple):
    """Offsets that a broker acquired for one member, with the delivery count they share (AcquiredRecords)."""

    first: int
    last: int
    delivery_count: int
