"""What is done about the errors in a broker's answers to ShareFetch and ShareAcknowledge: the tables, and one memory.

Used by `fetching.node_exchange`, and `ENDS_LOCK` by whoever keeps acquisition locks. No error class stands for two
things in one table; what no table names is raised by poll.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from typing import Final

from kafka_share.errors import (
    BrokerError,
    FencedLeaderEpochError,
    InconsistentTopicIdError,
    InvalidRecordStateError,
    InvalidShareSessionEpochError,
    KafkaShareError,
    KafkaStorageError,
    LeaderNotAvailableError,
    NotLeaderOrFollowerError,
    OffsetNotAvailableError,
    OutcomeUnknownError,
    ReplicaNotAvailableError,
    ShareSessionLimitReachedError,
    ShareSessionNotFoundError,
    TopicAuthorizationFailedError,
    UnknownLeaderEpochError,
    UnknownServerError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
    error_for_code,
)
from kafka_share.records import TopicIdPartition


class Reaction(enum.Enum):
    SILENT = "nothing but another try"
    REFRESH = "refresh the metadata, and raise nothing"
    RAISE = "have poll raise it, once until it has passed"


LEADER_CHANGES: Final = (NotLeaderOrFollowerError, FencedLeaderEpochError)
"""Only with these does an answer's CurrentLeader mean anything."""

SESSION_ENDS: Final = (ShareSessionNotFoundError, InvalidShareSessionEpochError, ShareSessionLimitReachedError)
"""Errors of a whole answer after which a new share session begins."""

ENDS_LOCK: Final[tuple[type[KafkaShareError], ...]] = (
    *LEADER_CHANGES,
    UnknownTopicOrPartitionError,
    UnknownTopicIdError,
    ShareSessionNotFoundError,
    InvalidShareSessionEpochError,
    InvalidRecordStateError,
    OutcomeUnknownError,
)
"""Outcomes of an acknowledgement after which this consumer has no lock of the records, so that no retry can help.

They are another member's, or the session that had them has ended; a new leader, or a new topic of the same name, does
not know the lock (KAFKA-20052). Some of these codes are retriable for other requests.
"""

_OF_A_PARTITION: Final[Mapping[type[BrokerError], Reaction]] = {
    NotLeaderOrFollowerError: Reaction.REFRESH,
    FencedLeaderEpochError: Reaction.REFRESH,
    LeaderNotAvailableError: Reaction.REFRESH,
    ReplicaNotAvailableError: Reaction.REFRESH,
    KafkaStorageError: Reaction.REFRESH,
    OffsetNotAvailableError: Reaction.REFRESH,
    UnknownTopicOrPartitionError: Reaction.REFRESH,
    UnknownTopicIdError: Reaction.REFRESH,
    InconsistentTopicIdError: Reaction.REFRESH,
    UnknownLeaderEpochError: Reaction.SILENT,
    UnknownServerError: Reaction.SILENT,
}
"""The error of one fetched partition (Java: ShareCompletedFetch)."""

_OF_THE_WHOLE: Final[Mapping[type[BrokerError], Reaction]] = {
    ShareSessionNotFoundError: Reaction.SILENT,
    InvalidShareSessionEpochError: Reaction.SILENT,
    ShareSessionLimitReachedError: Reaction.SILENT,
    UnknownServerError: Reaction.REFRESH,  # brokers up to 4.3 answer so when a topic of the session has been deleted
    UnknownTopicIdError: Reaction.REFRESH,
}
"""The error of a whole answer; other retriable ones are silent."""


def partition_reaction(error: BrokerError) -> Reaction:
    return _OF_A_PARTITION.get(type(error), Reaction.RAISE)


def top_level_reaction(error: BrokerError) -> Reaction:
    return _OF_THE_WHOLE.get(type(error), Reaction.SILENT if error.retriable else Reaction.RAISE)


class ReportedErrors:
    """Which errors of one broker have been raised: each is raised once until it has passed."""

    def __init__(self) -> None:
        self._partitions: dict[TopicIdPartition, int] = {}
        self._whole: int | None = None

    @property
    def has_any(self) -> bool:
        return bool(self._partitions) or self._whole is not None

    def new_whole(self, error: BrokerError) -> bool:
        """Whether the error of a whole answer has not been raised yet."""
        is_new = self._whole != error.code
        self._whole = error.code
        return is_new

    def take(self, codes: Mapping[TopicIdPartition, tuple[int, str | None]]) -> list[BrokerError]:
        """(code, message) of each partition, in an answer that succeeded as a whole → what has to be raised now."""
        self._whole = None
        new = {p: code for p, code in codes.items() if self._partitions.get(p) != code[0]}
        self._partitions = {p: code for p, (code, _) in codes.items()}
        return _errors(new)


def _errors(codes: Mapping[TopicIdPartition, tuple[int, str | None]]) -> list[BrokerError]:
    by_code: dict[int, list[tuple[TopicIdPartition, str | None]]] = {}
    for where, (code, message) in codes.items():
        by_code.setdefault(code, []).append((where, message))
    errors = [error_for_code(code, _describe(code, found)) for code, found in by_code.items()]
    return [error for error in errors if error is not None]


def _describe(code: int, found: list[tuple[TopicIdPartition, str | None]]) -> str:
    if code == TopicAuthorizationFailedError.code:
        return f"Not authorized to read from: {_names(dict.fromkeys(where.topic for where, _ in found))}"
    message = next((message for _, message in found if message), None)
    where = _names(str(where) for where, _ in found)
    return f"Fetching {where} failed{f': {message}' if message else ''}"


def _names(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))
