"""The records of the share coordinator: what changes a share state, as values and as bytes.

Made by `ShareCoordinator`, replayed by `ShareStates`. A snapshot has all of a state, an update what a write has
changed since the snapshot of the same epoch, and a tombstone ends the state. The bytes are those that Kafka 4.3 writes
for the same change. Source: KIP-932, Kafka 4.3's `ShareCoordinatorRecordHelpers`.
"""

from __future__ import annotations

from functools import lru_cache
from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from kafka_share.broker.share.state_batches import StateBatch
from kafka_share.broker.storage.topics import NO_TOPIC_ID
from kafka_share.protocol.coordinator_records import RecordTypes, decode_key, decode_value, encode_key, encode_value
from kafka_share.protocol.share_state_records import (
    ShareSnapshotKey,
    ShareSnapshotValue,
    ShareUpdateKey,
    ShareUpdateValue,
)
from kafka_share.protocol.varint import unsigned

if TYPE_CHECKING:
    from uuid import UUID

TYPES: Final[RecordTypes] = {
    ShareSnapshotKey.API_KEY: (ShareSnapshotKey, ShareSnapshotValue),
    ShareUpdateKey.API_KEY: (ShareUpdateKey, ShareUpdateValue),
}
_VALUE_VERSION: Final = 0
_UPDATE: Final = Struct(">hiiq")
_UPDATED_BATCH: Final = Struct(">qqbhB")
"""With the number of its tagged fields, which is 0."""
_DEFAULT_COUNT: Final = -1
_TAGGED_COUNT: Final = Struct(">BBBi")
"""One tagged field, whose number is 0, of four bytes."""
_NO_TAGS: Final = b"\0"
_MAX_CACHED_KEYS: Final = 1_000
"""Every acknowledgement writes a record: the keys of the busiest states are not encoded each time."""


class StateKey(NamedTuple):
    """What one stored value belongs to."""

    group_id: str
    topic_id: UUID
    partition: int


class Snapshot(NamedTuple):
    """A whole state. `written_at_ms` is later than `created_at_ms` where an idle state was written again."""

    key: StateKey
    snapshot_epoch: int
    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    created_at_ms: int
    written_at_ms: int
    batches: tuple[StateBatch, ...]


class Update(NamedTuple):
    """A write. `start_offset` -1 leaves the start where it is; `batches` go over those that are stored."""

    key: StateKey
    snapshot_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    batches: tuple[StateBatch, ...]


class Tombstone(NamedTuple):
    """The state is gone."""

    key: StateKey


StateRecord: TypeAlias = Snapshot | Update | Tombstone


def encode(record: StateRecord) -> tuple[bytes, bytes | None]:
    """Key and value of a record."""
    if isinstance(record, Tombstone):
        return _encoded_key(ShareSnapshotKey, record.key), None
    value: ShareSnapshotValue | ShareUpdateValue
    if isinstance(record, Update):
        return _encoded_key(ShareUpdateKey, record.key), _encoded_update(record)
    value = ShareSnapshotValue(
        snapshot_epoch=record.snapshot_epoch,
        state_epoch=record.state_epoch,
        leader_epoch=record.leader_epoch,
        start_offset=record.start_offset,
        delivery_complete_count=record.delivery_complete_count,
        create_timestamp=record.created_at_ms,
        write_timestamp=record.written_at_ms,
        state_batches=[
            ShareSnapshotValue.StateBatch(
                first_offset=first, last_offset=last, delivery_state=state, delivery_count=count
            )
            for first, last, state, count in record.batches
        ],
    )
    return _encoded_key(ShareSnapshotKey, record.key), encode_value(value, _VALUE_VERSION)


def _encoded_update(record: Update) -> bytes:
    """A `ShareUpdateValue` from what the record has, with no objects of messages: one for each acknowledgement."""
    count = record.delivery_complete_count
    return b"".join(
        (
            _UPDATE.pack(_VALUE_VERSION, record.snapshot_epoch, record.leader_epoch, record.start_offset),
            unsigned(len(record.batches) + 1),
            *[_UPDATED_BATCH.pack(first, last, state, times, 0) for first, last, state, times in record.batches],
            _NO_TAGS if count == _DEFAULT_COUNT else _TAGGED_COUNT.pack(1, 0, 4, count),
        )
    )


@lru_cache(maxsize=_MAX_CACHED_KEYS)
def _encoded_key(key_class: type[ShareSnapshotKey | ShareUpdateKey], key: StateKey) -> bytes:
    return encode_key(key_class(group_id=key.group_id, topic_id=key.topic_id, partition=key.partition))


def decode(key: bytes, value: bytes | None) -> StateRecord:
    """The record of these bytes. Raises `RemoteProtocolError`."""
    read_key = decode_key(key, TYPES)
    assert isinstance(read_key, ShareSnapshotKey | ShareUpdateKey)
    state_key = StateKey(read_key.group_id, read_key.topic_id or NO_TOPIC_ID, read_key.partition)
    if value is None:
        return Tombstone(state_key)
    read = decode_value(read_key.API_KEY, value, TYPES)
    assert isinstance(read, ShareSnapshotValue | ShareUpdateValue)
    batches = tuple(
        StateBatch(batch.first_offset, batch.last_offset, batch.delivery_state, batch.delivery_count)
        for batch in read.state_batches
    )
    if isinstance(read, ShareUpdateValue):
        return Update(
            state_key,
            read.snapshot_epoch,
            read.leader_epoch,
            read.start_offset,
            read.delivery_complete_count,
            batches,
        )
    return Snapshot(
        state_key,
        read.snapshot_epoch,
        read.state_epoch,
        read.leader_epoch,
        read.start_offset,
        read.delivery_complete_count,
        read.create_timestamp,
        read.write_timestamp,
        batches,
    )
