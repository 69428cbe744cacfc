"""Range arithmetic over offsets: values without state, used by every machine of the core.

All ranges are inclusive at both ends, as on the wire.
"""

from __future__ import annotations

from typing import NamedTuple


class OffsetRange(NamedTuple):
    first: int
    last: int


class AcquiredRange(NamedTuple):
    """Offsets that a broker acquired for this member, with the delivery count they share."""

    first: int
    last: int
    delivery_count: int


class AcknowledgementRun(NamedTuple):
    """Neighbouring offsets that are acknowledged with the same type (0 GAP, else `AcknowledgeType`)."""

    first: int
    last: int
    type: int
