"""The broker's half of share sessions: who has one, with which partitions, at which epoch, on which connection.

Owned by `ShareNode`; every node has its own. A session belongs to (group id, member id) and to the connection that
opened it, though its requests may come over any. It knows nothing of records: what its end means for them is
`ShareNode`'s business.

Source: KIP-932 and Kafka 4.3's `ShareSessionCache`, with its habit that a connection remembers only the session that
was opened on it last.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import attrs

from kafka_share.broker.refusals import Refusal
from kafka_share.errors import InvalidShareSessionEpochError, ShareSessionLimitReachedError, ShareSessionNotFoundError
from kafka_share.protocol.share_values import INITIAL_EPOCH, MAX_EPOCH, next_epoch

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from uuid import UUID


T = TypeVar("T")


class PartitionKey(NamedTuple):
    """A partition as requests name it."""

    topic_id: UUID
    partition: int


class SessionKey(NamedTuple):
    """Whose session it is."""

    group_id: str
    member_id: str


@attrs.define(eq=False)
class ShareSession:
    """One session. `epoch` is the one that the next request must have."""

    key: SessionKey
    connection_id: int
    partitions: dict[PartitionKey, bool]
    """In the order in which the next fetch serves them, and whether the next answer must list it in any case."""
    epoch: int = next_epoch(INITIAL_EPOCH)
    deleted_topics: dict[UUID, None] = attrs.Factory(dict)
    """Topics of the session's partitions that were deleted since."""

    def advance(self, epoch: int) -> None:
        """Take a request of this epoch. Raises `Refusal` (INVALID_SHARE_SESSION_EPOCH), and nothing has changed."""
        if epoch != self.epoch:
            raise Refusal(InvalidShareSessionEpochError, f"the session expects epoch {self.epoch}, not {epoch}")
        self.epoch = next_epoch(epoch)

    def update(self, named: Iterable[PartitionKey], forgotten: Iterable[PartitionKey]) -> None:
        """Add what a request names and the session lacks, then drop what it forgets."""
        for partition in named:
            self.partitions.setdefault(partition, True)
        for partition in forgotten:
            self.partitions.pop(partition, None)

    def topic_deleted(self, topic_id: UUID) -> None:
        """A topic is gone. The session's partitions stay until they are forgotten."""
        if any(partition.topic_id == topic_id for partition in self.partitions):
            self.deleted_topics[topic_id] = None

    def must_list(self, partition: PartitionKey, has_records: bool, has_error: bool) -> bool:
        """Whether an incremental answer lists the partition; to be asked once per partition and answer.

        It does if there are records or an error, or if the last answer left something open: the partition is new in
        the session, or was in error. A partition that gave records goes to the end of the order.
        """
        was_open = self.partitions.pop(partition) if has_records else self.partitions[partition]
        if has_records or was_open is not has_error:
            self.partitions[partition] = has_error
        return has_records or has_error or was_open


def rotated(partitions: Sequence[T], epoch: int) -> list[T]:
    """The order in which a request of this epoch serves the partitions: each epoch begins one further on."""
    start = epoch % len(partitions) if partitions and epoch > 0 else 0
    return [*partitions[start:], *partitions[:start]]


@attrs.define(eq=False)
class _ConnectionEntry:
    key: SessionKey
    stale: bool = False
    """The session has ended since, or another one has taken its place."""


@attrs.frozen
class ConnectionEnd:
    """What the end of a connection means: the session that ends with it, and whether its group has none left."""

    group_id: str
    session: ShareSession | None
    group_is_empty: bool


class ShareSessions:
    """All sessions of one node. `old_connections_end_sessions` is the habit of Kafka 4.1 to end a session when any
    connection ends that its member opened one on."""

    def __init__(self, *, old_connections_end_sessions: bool = False) -> None:
        self._old_connections_end_sessions = old_connections_end_sessions
        self._sessions: dict[SessionKey, ShareSession] = {}
        self._connections: dict[int, _ConnectionEntry] = {}
        self._in_group: Counter[str] = Counter()
        """How many sessions a group has."""

    def __len__(self) -> int:
        return len(self._sessions)

    def keys(self) -> list[SessionKey]:
        return list(self._sessions)

    def partition_count(self) -> int:
        """How many partitions all sessions have together."""
        return sum(len(session.partitions) for session in self._sessions.values())

    def existing(self, key: SessionKey) -> ShareSession:
        """Raises `Refusal` (SHARE_SESSION_NOT_FOUND) if there is none."""
        session = self._sessions.get(key)
        if session is None:
            raise Refusal(ShareSessionNotFoundError, "the member has no share session on this node")
        return session

    def open(self, key: SessionKey, connection_id: int, partitions: Sequence[PartitionKey], limit: int) -> ShareSession:
        """Open a session in place of the member's old one, which is gone even if this raises `Refusal` (limit)."""
        if len(self) >= limit:
            raise Refusal(ShareSessionLimitReachedError, f"the node holds {limit} share sessions already")
        session = ShareSession(key, connection_id, dict.fromkeys(partitions, False))
        self._in_group[key.group_id] += key not in self._sessions
        self._sessions[key] = session
        self._connections[connection_id] = _ConnectionEntry(key)
        return session

    def remove(self, key: SessionKey) -> ShareSession | None:
        """End the member's session if it has one; its connection must not end another one later."""
        session = self._sessions.pop(key, None)
        if session is not None:
            self._in_group[key.group_id] -= 1
            if not self._in_group[key.group_id]:
                del self._in_group[key.group_id]
        if session is not None and session.connection_id in self._connections:
            self._connections[session.connection_id].stale = True
        return session

    def topic_deleted(self, topic_id: UUID) -> None:
        """A topic is gone: the sessions that hold partitions of it remember that they knew it."""
        for session in self._sessions.values():
            session.topic_deleted(topic_id)

    def connection_closed(self, connection_id: int) -> ConnectionEnd | None:
        """The end of a connection; None if no session was ever opened on it."""
        entry = self._connections.pop(connection_id, None)
        if entry is None:
            return None
        spared = entry.stale and not self._old_connections_end_sessions
        session = None if spared else self.remove(entry.key)
        group_id = entry.key.group_id
        return ConnectionEnd(group_id, session, not self._in_group[group_id])

    def check(self) -> None:
        """Assert the invariants."""
        for key, session in self._sessions.items():
            assert session.key == key
            assert 0 < session.epoch <= MAX_EPOCH
        assert self._in_group == Counter(key.group_id for key in self._sessions)
