"""How the broker's machines say no: an error code with a text, to be put into an answer by the handler.

Raised by the machines, caught by the handlers; never leaves the cluster. The codes are the exception classes of
`kafka_share.errors`, which users of this package may meet, and `ErrorCode` for the rest.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final

from kafka_share.errors import (
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    FencedLeaderEpochError,
    FencedStateEpochError,
    GroupIdNotFoundError,
    NotCoordinatorError,
    NotLeaderOrFollowerError,
    UnknownServerError,
    UnknownTopicOrPartitionError,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafka_share.errors import BrokerError


class ErrorCode(enum.IntEnum):
    """Wire codes that share consumers do not meet, with Kafka's names."""

    OFFSET_METADATA_TOO_LARGE = 12
    ILLEGAL_GENERATION = 22
    INCONSISTENT_GROUP_PROTOCOL = 23
    INVALID_SESSION_TIMEOUT = 26
    REBALANCE_IN_PROGRESS = 27
    INVALID_TIMESTAMP = 32
    INVALID_TXN_STATE = 48
    INVALID_PRODUCER_ID_MAPPING = 49
    INVALID_TRANSACTION_TIMEOUT = 50
    TRANSACTION_COORDINATOR_FENCED = 52
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
    SECURITY_DISABLED = 54
    OPERATION_NOT_ATTEMPTED = 55
    FETCH_SESSION_ID_NOT_FOUND = 70
    MEMBER_ID_REQUIRED = 79
    PREFERRED_LEADER_NOT_AVAILABLE = 80
    FENCED_INSTANCE_ID = 82
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83
    ELECTION_NOT_NEEDED = 84
    NO_REASSIGNMENT_IN_PROGRESS = 85
    GROUP_SUBSCRIBED_TO_TOPIC = 86
    UNSTABLE_OFFSET_COMMIT = 88
    PRODUCER_FENCED = 90
    RESOURCE_NOT_FOUND = 91
    DUPLICATE_RESOURCE = 92
    UNACCEPTABLE_CREDENTIAL = 93
    INVALID_UPDATE_VERSION = 95
    TRANSACTIONAL_ID_NOT_FOUND = 105
    UNRELEASED_INSTANCE_ID = 111
    UNSUPPORTED_ASSIGNOR = 112
    STALE_MEMBER_EPOCH = 113
    INVALID_REGULAR_EXPRESSION = 128

    @property
    def code(self) -> int:
        """The code as a plain number, under the name that the exception classes have for it."""
        return self.value


class Refusal(Exception):  # noqa: N818  a refusal is an ordinary answer here, no error of the broker
    """A request, or a part of it, is answered with `code` (an int of Kafka's error codes) and `message` (our words)."""

    def __init__(self, error: type[BrokerError] | ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code: int = error.code
        self.message = message


class RecordsRefusedError(Refusal):
    """A batch is refused because of some of its records: `errors` has their indexes in it, and what is wrong."""

    def __init__(self, error: type[BrokerError] | ErrorCode, message: str, errors: Sequence[tuple[int, str]]) -> None:
        super().__init__(error, message)
        self.errors = errors


class RequestFailedError(Exception):
    """A share request as a whole is answered with UNKNOWN_SERVER_ERROR: Kafka trips over it."""

    code: Final = UnknownServerError.code


_SHARE_ERRORS: Final[dict[int, type[BrokerError]]] = {
    NotCoordinatorError.code: CoordinatorNotAvailableError,
    CoordinatorNotAvailableError.code: CoordinatorNotAvailableError,
    CoordinatorLoadInProgressError.code: CoordinatorNotAvailableError,
    GroupIdNotFoundError.code: GroupIdNotFoundError,
    UnknownTopicOrPartitionError.code: UnknownTopicOrPartitionError,
    FencedStateEpochError.code: NotLeaderOrFollowerError,
    FencedLeaderEpochError.code: NotLeaderOrFollowerError,
}


def as_share_error(refusal: Refusal) -> Refusal:
    """What a refusal of the share coordinator becomes in the answer to a share consumer (Kafka 4.3's `SharePartition`).

    Whatever has no meaning for the consumer is UNKNOWN_SERVER_ERROR.
    """
    return Refusal(_SHARE_ERRORS.get(refusal.code, UnknownServerError), f"the share state: {refusal.message}")
