"""The state of all groups and their offsets as records of `__consumer_offsets`.

Shared by the coordinators of share groups, consumer groups and classic groups, and by the committed offsets. Each says
what its records are, as pairs of messages (a key and a value); here they are written, those that differ from before, as
one batch, in the partition that Kafka keeps the group in. What the records mean is not known here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

from kafka_share.protocol import group_records
from kafka_share.protocol.coordinator_records import RecordTypes, decode_key, decode_value, encode_key, encode_value

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kafka_share.broker.storage.record_table import RecordTable
    from kafka_share.protocol.api_message import RecordMessage

Record: TypeAlias = "tuple[RecordMessage, RecordMessage | None]"
"""Key and value, None where the key has none any more."""
Held: TypeAlias = "list[tuple[RecordMessage, RecordMessage]]"
"""What is held of a group."""

_KINDS: Final = sorted({name.removesuffix("Key") for name in group_records.__all__ if name.endswith("Key")})
TYPES: Final[RecordTypes] = {
    getattr(group_records, f"{kind}Key").API_KEY: (
        getattr(group_records, f"{kind}Key"),
        getattr(group_records, f"{kind}Value"),
    )
    for kind in _KINDS
}
_VERSIONS: Final = {group_records.GroupMetadataValue.API_KEY: 3, group_records.OffsetCommitValue.API_KEY: 4}
"""Of the values that have more than one: those that Kafka 4.3 writes."""


class GroupJournal:
    """Records are written first, and hold then."""

    def __init__(self, table: RecordTable) -> None:
        self._table = table

    def home_of(self, group_id: str) -> int:
        """The partition of the log that the group is kept in."""
        return self._table.home_of(group_id)

    def write(self, group_id: str, records: Iterable[Record], now_ms: int) -> None:
        """Write what differs from before, all or nothing. Raises `Refusal`, if the log does."""
        changes = [(encode_key(key), None if value is None else _encoded(value)) for key, value in records]
        self._table.write(self.home_of(group_id), changes, now_ms)

    def forget(
        self, group_id: str, kinds: Iterable[type[RecordMessage]], now_ms: int, *, instead: Iterable[Record] = ()
    ) -> None:
        """Write that nothing is held any more of the group under these types of keys, but something else `instead`.

        Raises `Refusal`.
        """
        unwanted = tuple(kinds)
        gone = [(key, None) for key, _ in self.held(group_id) if isinstance(key, unwanted)]
        self.write(group_id, [*gone, *instead], now_ms)

    def held(self, group_id: str) -> Held:
        """What is held of a group."""
        found = (self._decoded(key, value) for key, value in self._table.rows(self.home_of(group_id)))
        return [(key, value) for key, value in found if group_of(key) == group_id]

    def all(self) -> Mapping[str, Held]:
        """What is held of all groups; nothing of those that only a transaction has written to that is still open."""
        groups: dict[str, Held] = {group_of(key): [] for _, key, _ in self.pending()}
        for key, value in self._table.rows():
            decoded = self._decoded(key, value)
            groups.setdefault(group_of(decoded[0]), []).append(decoded)
        return groups

    def _decoded(self, key: bytes, value: bytes) -> tuple[RecordMessage, RecordMessage]:
        decoded = decode_key(key, TYPES)
        return decoded, decode_value(decoded.API_KEY, value, TYPES)

    # ---- transactions

    def write_pending(
        self,
        group_id: str,
        producer: tuple[int, int],
        records: Iterable[tuple[RecordMessage, RecordMessage]],
        now_ms: int,
    ) -> None:
        """Write what holds once the producer's (id, epoch) transaction is committed. Raises `Refusal`."""
        rows = {encode_key(key): _encoded(value) for key, value in records}
        self._table.write_pending(self.home_of(group_id), producer, rows, now_ms)

    def end_transaction(self, group_id: str, producer: tuple[int, int], *, committed: bool, now_ms: int) -> Held:
        """The producer's transaction has ended, for all groups that lie beside this one; returns what holds by that.

        Raises `Refusal`.
        """
        found = self._table.end_transaction(self.home_of(group_id), producer, committed=committed, now_ms=now_ms)
        return [self._decoded(key, value) for key, value in found]

    def marker_written(self, home: int, producer_id: int, *, committed: bool) -> Held:
        """As `end_transaction`, for a marker that is in this partition of the log already."""
        found = self._table.marker_written(home, producer_id, committed=committed)
        return [self._decoded(key, value) for key, value in found]

    def pending(self) -> list[tuple[int, RecordMessage, RecordMessage]]:
        """What open transactions have written, with the producers' ids."""
        return [(producer_id, *self._decoded(key, value)) for producer_id, key, value in self._table.pending()]


def group_of(key: Any) -> str:
    """The group that a record belongs to."""
    group_id: str = key.group if hasattr(key, "group") else key.group_id
    return group_id


def _encoded(value: RecordMessage) -> bytes:
    return encode_value(value, _VERSIONS.get(value.API_KEY, 0))
