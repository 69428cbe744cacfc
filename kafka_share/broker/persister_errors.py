"""What a refusal of the share coordinator becomes in the answer to a share consumer.

Called by share partitions. Source: Kafka 4.3's `SharePartition`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafka_share.broker.refusals import Refusal
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
    from kafka_share.errors import BrokerError

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
    """The refusal that the consumer sees; whatever has no meaning for it is UNKNOWN_SERVER_ERROR."""
    return Refusal(_SHARE_ERRORS.get(refusal.code, UnknownServerError), f"the share state: {refusal.message}")
