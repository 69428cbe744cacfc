"""What a broker's answer to ShareFetch or ShareAcknowledge says: errors sorted into what is done about them.

Pure functions and one small memory; used by `core.node_exchange`. Answers may be hostile: whatever cannot be is
left out, never an exception.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from kafka_share.core.metadata import usable_node
from kafka_share.errors import BrokerError, TopicAuthorizationFailedError, error_for_code
from kafka_share.records import Node, TopicIdPartition

if TYPE_CHECKING:
    from kafka_share.protocol.share_acknowledge import ShareAcknowledgeResponse
    from kafka_share.protocol.share_fetch import ShareFetchResponse


class Reaction(enum.Enum):
    SILENT = "nothing but another try"
    REFRESH = "refresh the metadata, and say nothing"
    RAISE = "have poll raise it, once until it has passed"


LEADER_CHANGES: Final = (6, 74)
"""NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH: only then CurrentLeader means anything."""

PARTITION_REACTIONS: Final[Mapping[int, Reaction]] = {
    6: Reaction.REFRESH,  # NOT_LEADER_OR_FOLLOWER
    74: Reaction.REFRESH,  # FENCED_LEADER_EPOCH
    5: Reaction.REFRESH,  # LEADER_NOT_AVAILABLE
    9: Reaction.REFRESH,  # REPLICA_NOT_AVAILABLE
    56: Reaction.REFRESH,  # KAFKA_STORAGE_ERROR
    78: Reaction.REFRESH,  # OFFSET_NOT_AVAILABLE
    3: Reaction.REFRESH,  # UNKNOWN_TOPIC_OR_PARTITION
    100: Reaction.REFRESH,  # UNKNOWN_TOPIC_ID
    103: Reaction.REFRESH,  # INCONSISTENT_TOPIC_ID
    75: Reaction.SILENT,  # UNKNOWN_LEADER_EPOCH
    -1: Reaction.SILENT,  # UNKNOWN_SERVER_ERROR
}
"""The error of one fetched partition → reaction; all others are raised (Java: ShareCompletedFetch)."""

SESSION_ERRORS: Final = (122, 123)
"""SHARE_SESSION_NOT_FOUND, INVALID_SHARE_SESSION_EPOCH: begin a new session."""
SESSION_LIMIT_REACHED: Final = 133

TOP_LEVEL_REACTIONS: Final[Mapping[int, Reaction]] = {
    122: Reaction.SILENT,
    123: Reaction.SILENT,
    133: Reaction.SILENT,
    -1: Reaction.REFRESH,  # brokers up to 4.3 answer so when a topic of the session has been deleted
    100: Reaction.REFRESH,  # UNKNOWN_TOPIC_ID
}
"""The error of a whole answer → reaction; retriable ones are silent, all others are raised."""


def top_level_reaction(error: BrokerError) -> Reaction:
    return TOP_LEVEL_REACTIONS.get(error.code, Reaction.SILENT if error.retriable else Reaction.RAISE)


def partition_reaction(code: int) -> Reaction:
    return PARTITION_REACTIONS.get(code, Reaction.RAISE)


def node_endpoints(response: ShareFetchResponse | ShareAcknowledgeResponse) -> list[Node]:
    """The addresses that an answer brings along for new leaders."""
    nodes = [usable_node(e.node_id, e.host, e.port, e.rack) for e in response.node_endpoints]
    return [node for node in nodes if node is not None]


class ReportedErrors:
    """Which errors of one broker's partitions have been raised: each is raised once until it has passed."""

    def __init__(self) -> None:
        self._partitions: dict[TopicIdPartition, int] = {}
        self._whole: int | None = None

    def new_whole(self, error: BrokerError) -> bool:
        """Whether the error of a whole answer has not been raised yet."""
        is_new = self._whole != error.code
        self._whole = error.code
        return is_new

    def take(self, codes: Mapping[TopicIdPartition, tuple[int, str | None]]) -> list[BrokerError]:
        """The partition errors of an answer that succeeded as a whole → what has to be raised now."""
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
