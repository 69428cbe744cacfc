"""What the share coordinator's log says became of a group's records: archived ones, and those that come again.

Kafka keeps the state of share partitions in the topic `__share_group_state`. Its records are read here as Kafka 4.1 to
4.4 write them (`ShareSnapshotKey`, `ShareUpdateKey` and their values, of Kafka's share coordinator). `state_log` brings
them, the rules of `diagnosis` look at the result. Pure.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple
from uuid import UUID

import attrs

from kafka_share.errors import RemoteProtocolError
from kafka_share.protocol.decoder import skip_tags
from kafka_share.protocol.varint import read_unsigned

_SNAPSHOT, _UPDATE = 0, 1
"""The version of a key says what its value is."""
_AVAILABLE, _ARCHIVED = 0, 4
_VALUE_VERSION: Final = 0
_SNAPSHOT_HEAD: Final = struct.Struct(">iiiqqq")
_UPDATE_HEAD: Final = struct.Struct(">iiq")
_BATCH: Final = struct.Struct(">qqbh")
_NO_OFFSET: Final = -1


class StateKey(NamedTuple):
    """Whose state a record of the log is about."""

    group_id: str
    topic_id: UUID
    partition: int


@attrs.frozen
class Deliveries:
    """Neighbouring offsets, `last` included, that have been delivered equally often."""

    first: int
    last: int
    delivery_count: int

    @property
    def record_count(self) -> int:
        return self.last - self.first + 1


@attrs.frozen
class StateChange:
    """One record of the log."""

    written_ms: int
    """Milliseconds since 1970."""
    is_snapshot: bool
    state_epoch: int | None
    """It rises when an operator sets the offsets; only snapshots tell it."""
    start_offset: int
    """-1: the one before stays."""
    batches: tuple[tuple[int, Deliveries], ...]
    """The state of each, and what it is of."""


@attrs.frozen
class PartitionHistory:
    """What is known of one share partition, for as long as the log reaches back."""

    since_ms: int
    """When the oldest record that was read was written, in milliseconds since 1970."""
    last_ms: int | None
    """When something was finished or released for the last time; None if nothing was."""
    archived: tuple[Deliveries, ...]
    """Ended without having been accepted; ordered."""
    released: tuple[Deliveries, ...]
    """Waiting to be delivered again; ordered."""


def parse_key(key: bytes) -> tuple[StateKey, bool] | None:
    """Whose record it is, and whether it is a snapshot; None for a key that is not known."""
    try:
        kind, length = struct.unpack_from(">hh", key)
        end = 4 + length
        if kind not in (_SNAPSHOT, _UPDATE) or length < 0 or len(key) != end + 20:
            return None
        [partition] = struct.unpack_from(">i", key, end + 16)
        return StateKey(key[4:end].decode(), UUID(bytes=key[end : end + 16]), partition), kind == _SNAPSHOT
    except (struct.error, UnicodeDecodeError):
        return None


def parse_value(value: bytes, written_ms: int, *, is_snapshot: bool) -> StateChange | None:
    """None for a value of a version that is not known, or that cannot be read."""
    try:
        [version] = struct.unpack_from(">h", value)
        if version != _VALUE_VERSION:
            return None
        if is_snapshot:
            _, state_epoch, _, start, _, _ = _SNAPSHOT_HEAD.unpack_from(value, 2)
            position = 2 + _SNAPSHOT_HEAD.size
        else:
            state_epoch = None
            _, _, start = _UPDATE_HEAD.unpack_from(value, 2)
            position = 2 + _UPDATE_HEAD.size
        count, position = read_unsigned(value, position)
        batches = []
        for _ in range(count - 1):
            first, last, state, delivery_count = _BATCH.unpack_from(value, position)
            position = skip_tags(value, position + _BATCH.size)
            batches.append((state, Deliveries(first, last, delivery_count)))
        return StateChange(written_ms, is_snapshot, state_epoch, start, tuple(batches))
    except (struct.error, IndexError, RemoteProtocolError):
        return None


def replay(changes: Sequence[StateChange]) -> PartitionHistory | None:
    """What a share partition has come to by these changes, in the order of the log; None without one.

    An operator's reset forgets what was before it.
    """
    if not changes:
        return None
    archived: list[Deliveries] = []
    state: list[tuple[int, Deliveries]] = []
    epoch: int | None = None
    start = _NO_OFFSET
    for change in changes:
        if change.is_snapshot:
            if epoch is not None and change.state_epoch != epoch:
                archived.clear()
                start = _NO_OFFSET
            epoch = change.state_epoch
            state.clear()
        start = max(start, change.start_offset)
        for one in change.batches:
            state = [*_without(state, one[1]), one]
            if one[0] == _ARCHIVED:
                archived.append(one[1])
        state = [(kind, what) for kind, what in state if what.last >= start]
    last_ms = max((change.written_ms for change in changes if change.batches), default=None)
    released = [what for kind, what in state if kind == _AVAILABLE]
    return PartitionHistory(changes[0].written_ms, last_ms, _united(archived), _united(released))


def _without(state: Iterable[tuple[int, Deliveries]], taken: Deliveries) -> list[tuple[int, Deliveries]]:
    """The state without the offsets of `taken`."""
    left = []
    for kind, what in state:
        if what.first < taken.first:
            left.append((kind, attrs.evolve(what, last=min(what.last, taken.first - 1))))
        if what.last > taken.last:
            left.append((kind, attrs.evolve(what, first=max(what.first, taken.last + 1))))
    return left


def _united(found: Iterable[Deliveries]) -> tuple[Deliveries, ...]:
    """Ordered, each offset once, neighbours of the same count joined: snapshots repeat what updates have told."""
    united: list[Deliveries] = []
    for one in sorted(found, key=lambda one: (one.first, one.last)):
        if united and one.first <= united[-1].last:
            if one.last <= united[-1].last:
                continue
            one = attrs.evolve(one, first=united[-1].last + 1)
        if united and one.first == united[-1].last + 1 and one.delivery_count == united[-1].delivery_count:
            united[-1] = attrs.evolve(united[-1], last=one.last)
        else:
            united.append(one)
    return tuple(united)
