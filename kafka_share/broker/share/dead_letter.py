"""A dead letter: what a share partition says of records that nobody will get any more (KIP-1191).

Made by share partitions of groups that have a dead-letter queue; the cluster writes it to the group's dead-letter
topic.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from kafka_share.broker.share.state_records import StateKey


class Reason(str, enum.Enum):
    """Why; the texts are Kafka's, which consumers of the dead-letter topic read."""

    REJECTED = "Offset rejected by client."
    SPENT = "Offset delivery count exceeded the threshold."


@attrs.frozen
class DeadLetter:
    """Neighbouring offsets of a group's partition with one reason."""

    key: StateKey
    first: int
    last: int
    delivery_count: int
    reason: Reason
