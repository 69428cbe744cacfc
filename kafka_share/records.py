"""The values that users hold: topic partitions, acknowledgement types, records.

Made by the consumer and the admin client; nothing here does I/O or knows the wire.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from itertools import chain
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, TypeAlias, overload

from typing_extensions import TypeVar  # typing's own has no default before Python 3.13

from kafka_share.locks import slept_s

if TYPE_CHECKING:
    from uuid import UUID

    from kafka_share.errors import KafkaShareError, RecordDeserializationError
    from kafka_share.locks import AcquisitionLock, LockState

K = TypeVar("K", default=bytes | None)
V = TypeVar("V", default=bytes | None)
"""The types of key and value: what the deserializers return, else the bytes (None for a null key or value)."""

RecordHeaders: TypeAlias = "Sequence[tuple[str, bytes | None]]"
"""(name, value) in the producer's order; names may repeat. A delivered record's are decoded by each look at them."""


class TopicPartition(NamedTuple):
    """A partition by the topic's name."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class TopicIdPartition(NamedTuple):
    """A partition by the topic's id; a topic that is deleted and created again has another id."""

    topic_id: UUID
    topic: str
    partition: int

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class Node(NamedTuple):
    """A broker's address. Bootstrap servers whose id is not known yet have ids below zero."""

    id: int
    host: str
    port: int
    rack: str | None = None

    def __str__(self) -> str:
        return f"{self.host}:{self.port} (id: {self.id})"


class AcknowledgeType(enum.IntEnum):
    """How an application acknowledges a delivered record (KIP-932; the wire values)."""

    ACCEPT = 1
    """Processed: never delivered again."""
    RELEASE = 2
    """Not processed: to be delivered again, until the delivery count reaches the group's limit."""
    REJECT = 3
    """Cannot be processed: never delivered again."""
    RENEW = 4
    """Still being processed: the acquisition lock starts again (Kafka 4.2 and later)."""


AcknowledgeTypeOrName: TypeAlias = (
    AcknowledgeType | Literal["accept", "release", "reject", "renew", "ACCEPT", "RELEASE", "REJECT", "RENEW"]
)
"""What the methods of a consumer take."""


class TimestampType(enum.IntEnum):
    """What a record's timestamp means."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class ShareRecord(NamedTuple, Generic[K, V]):
    """One delivered record. It cannot be changed; two are equal if everything that Kafka stores of them is equal.

    It is a tuple, because nothing else is made and read as fast from Python: a million records are a million of these.

    Attributes: `topic` (str), `partition` (int), `offset` (int), `timestamp` (int, milliseconds since 1970),
    `timestamp_type` (`TimestampType`), `key` and `value` (bytes or None, or what the deserializer made of them),
    `headers` (sequence of (str, bytes or None), in the producer's order, names may repeat), `leader_epoch` (int or
    None), `delivery_count` (int, 1 for the first delivery), `error` (None, or with `deserialization_errors="mark"` why
    key or value could not be deserialized: both are then the raw bytes). `lock` is what `lock_deadline`, `lock_lost`
    and `lock_remaining_ms` ask; it is None for a record that was made by hand.

    A pickled record, as it goes to a pool of processes, knows when its lock ends and whether it was lost when it was
    pickled; what ends the lock earlier is not seen there. A record that was copied in its process has the same lock.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int
    timestamp_type: TimestampType
    key: K
    value: V
    headers: RecordHeaders
    leader_epoch: int | None
    delivery_count: int
    error: RecordDeserializationError | None = None
    lock: AcquisitionLock | None = None

    @property
    def lock_deadline(self) -> float | None:
        """When this consumer's lock of the record ends, in seconds of `time.monotonic`; None if it has no lock.

        Counted from the moment when the request that acquired or renewed it was sent, so the broker's lock never ends
        earlier. A renewal moves it, and so does a sleep of the machine: the lock runs on, and that clock does not.
        """
        return None if self.lock is None else self.lock.deadline_of(self.offset) / 1000 - slept_s()

    def lock_remaining_ms(self) -> int:
        """How long this consumer still has the lock: 0 if it is lost or the record has none."""
        return 0 if self.lock is None else self.lock.remaining_ms(self.offset)

    @property
    def lock_lost(self) -> bool:
        """Whether the client knows of something that ended the lock, before the record's final acknowledgement.

        Its deadline has passed, the share session that acquired it has ended (the connection broke, or the consumer was
        closed), the partition has another leader, or a broker refused an acknowledgement of it. The record may be
        delivered to another member, and acknowledging it will most probably fail. False means that the client knows of
        no loss. After the final acknowledgement the value means nothing.
        """
        return self.lock is not None and self.lock.is_lost(self.offset)

    @property
    def is_last_delivery(self) -> bool | None:
        """Whether the record is archived, and not delivered again, if it is released or its lock is lost.

        The group's delivery count limit is looked up when the consumer joins. None if it is not known: the consumer may
        not read the configs of the group and of its broker, or the record was made by hand or unpickled.
        """
        limit = None if self.lock is None else self.lock.delivery_limit
        return None if limit is None else self.delivery_count >= limit

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickled, (tuple(self[:_LOCK]), None if self.lock is None else self.lock.for_elsewhere(self.offset))

    def __dir__(self) -> list[str]:
        """What completion offers: not what only a tuple has, nor what asks the lock for it."""
        return sorted(set(object.__dir__(self)) - {"count", "index", "lock"})

    def __copy__(self) -> ShareRecord[K, V]:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> ShareRecord[K, V]:
        return ShareRecord._make((*(deepcopy(field, memo) for field in self[:_LOCK]), self.lock))

    def __eq__(self, other: object) -> bool:
        # neither the lock, which another process does not have, nor the error, which is equal to itself only
        return self[:_STORED] == other[:_STORED] if isinstance(other, ShareRecord) else NotImplemented

    def __ne__(self, other: object) -> bool:
        return self[:_STORED] != other[:_STORED] if isinstance(other, ShareRecord) else NotImplemented

    def __hash__(self) -> int:
        # What a deserializer made need not be hashable, and a large value would be slow.
        return hash((self.topic, self.partition, self.offset))

    def __repr__(self) -> str:
        # no key, value or header: a record in a log line must not spill its payload
        return (
            f"<ShareRecord {self.topic}-{self.partition}@{self.offset} timestamp={self.timestamp} "
            f"delivery_count={self.delivery_count}>"
        )


_STORED = 10
"""How many fields of a record describe what Kafka stores; the rest is about this delivery."""
_LOCK = 11
"""Where its lock stands."""


def _unpickled(fields: tuple[Any, ...], lock: LockState | None) -> ShareRecord[Any, Any]:
    from kafka_share.locks import lock_from_elsewhere

    return ShareRecord._make((*fields, None if lock is None else lock_from_elsewhere(lock)))


class ShareRecords(Sequence[ShareRecord[K, V]]):
    """The records that one poll returned: a sequence, in offset order within each partition."""

    __slots__ = ("_by_partition", "_records")

    def __init__(self, by_partition: Mapping[TopicPartition, list[ShareRecord[K, V]]]) -> None:
        self._by_partition = by_partition
        if len(by_partition) == 1:
            (self._records,) = by_partition.values()  # no second list for what is most often one partition
        else:
            self._records = list(chain.from_iterable(by_partition.values()))

    def partitions(self) -> frozenset[TopicPartition]:
        """The partitions that have records here."""
        return frozenset(self._by_partition)

    def records(self, topic_partition: TopicPartition) -> list[ShareRecord[K, V]]:
        """The records of one partition; an empty list if it has none here."""
        return list(self._by_partition.get(topic_partition, ()))

    def without_first(self, count: int) -> ShareRecords[K, V]:
        """The same records without the first `count`."""
        rest: dict[TopicPartition, list[ShareRecord[K, V]]] = {}
        for record in self._records[count:]:
            rest.setdefault(TopicPartition(record.topic, record.partition), []).append(record)
        return ShareRecords(rest)

    @overload
    def __getitem__(self, index: int) -> ShareRecord[K, V]: ...
    @overload
    def __getitem__(self, index: slice) -> list[ShareRecord[K, V]]: ...
    def __getitem__(self, index: int | slice) -> ShareRecord[K, V] | list[ShareRecord[K, V]]:
        return self._records[index]

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[ShareRecord[K, V]]:
        return iter(self._records)

    def __repr__(self) -> str:
        records, partitions = len(self._records), len(self._by_partition)
        return (
            f"<ShareRecords: {records} record{'' if records == 1 else 's'} of "
            f"{partitions} partition{'' if partitions == 1 else 's'}>"
        )


AcknowledgementCommitCallback = Callable[[Mapping[TopicIdPartition, frozenset[int]], "KafkaShareError | None"], None]
"""Called with the offsets of a partition whose acknowledgements have an outcome, and the error if they failed."""
