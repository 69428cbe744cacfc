"""Kafka's error codes that only ordinary consumers, producers and transactions meet: share consumers never see them.

Used by the broker's machines and handlers in a `Refusal`, beside the exception classes of `kafka_share.errors`, which
are for codes that a user of this package may meet.
"""

from __future__ import annotations

import enum


class ErrorCode(enum.IntEnum):
    """The wire codes, with Kafka's names."""

    OFFSET_METADATA_TOO_LARGE = 12
    ILLEGAL_GENERATION = 22
    INCONSISTENT_GROUP_PROTOCOL = 23
    INVALID_SESSION_TIMEOUT = 26
    REBALANCE_IN_PROGRESS = 27
    INVALID_TXN_STATE = 48
    INVALID_PRODUCER_ID_MAPPING = 49
    INVALID_TRANSACTION_TIMEOUT = 50
    CONCURRENT_TRANSACTIONS = 51
    OPERATION_NOT_ATTEMPTED = 55
    FETCH_SESSION_ID_NOT_FOUND = 70
    MEMBER_ID_REQUIRED = 79
    FENCED_INSTANCE_ID = 82
    GROUP_SUBSCRIBED_TO_TOPIC = 86
    UNSTABLE_OFFSET_COMMIT = 88
    PRODUCER_FENCED = 90

    @property
    def code(self) -> int:
        """The code as a plain number, under the name that the exception classes have for it."""
        return self.value
