"""The values that users hold: topic partitions, acknowledgement types, records.

Made by the consumer and the admin client; nothing here does I/O or knows the wire.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from itertools import accumulate, chain, pairwise, starmap
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, overload

from typing_extensions import TypeVar  # typing's own has no default before Python 3.13

from kafka_share.native import ShareRecord, listed, places

if TYPE_CHECKING:
    from uuid import UUID

    import pyarrow

    from kafka_share.errors import KafkaShareError
    from kafka_share.native import Run

__all__ = [
    "AcknowledgeType",
    "AcknowledgeTypeOrName",
    "AcknowledgementCommitCallback",
    "ArrowRecords",
    "K",
    "Node",
    "RecordHeaders",
    "ShareRecord",
    "ShareRecords",
    "TimestampType",
    "TopicIdPartition",
    "TopicPartition",
    "V",
]

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


class ShareRecords(Sequence[ShareRecord[K, V]]):
    """The records that one poll returned: a sequence, in offset order within each partition."""

    # `native.PlainCalls` makes them as `_take` does.
    __slots__ = ("_are_made", "_by_partition", "_count", "_records", "_runs", "_spans")

    def __init__(self, by_partition: Mapping[TopicPartition, Sequence[ShareRecord[K, V]]]) -> None:
        self._take({where: [records] for where, records in by_partition.items()})

    @classmethod
    def of_runs(cls, by_partition: Mapping[TopicPartition, list[Run]]) -> ShareRecords[Any, Any]:
        """Of runs, as they are decoded: no record is made before one is looked at."""
        made = cls.__new__(cls)
        made._take(by_partition)
        return made

    def _take(self, by_partition: Mapping[TopicPartition, list[Run]]) -> None:
        self._by_partition = by_partition
        self._runs: list[Run] = [*chain.from_iterable(by_partition.values())]
        self._count = sum(map(len, self._runs))
        self._records: list[ShareRecord[K, V]] = []
        self._are_made = False
        self._spans: dict[TopicPartition, slice] | None = None

    def _span_of(self, topic_partition: TopicPartition) -> slice:
        """Where the records of a partition stand."""
        if self._spans is None:
            stops = [*accumulate([sum(map(len, runs)) for runs in self._by_partition.values()], initial=0)]
            self._spans = dict(zip(self._by_partition, starmap(slice, pairwise(stops)), strict=True))
        return self._spans.get(topic_partition, slice(0))

    def make_objects(self) -> None:
        """Make the records, which are the same objects from then on. Poll does it before it returns them."""
        self._records = listed(self._runs)
        self._are_made = True

    def partitions(self) -> frozenset[TopicPartition]:
        """The partitions that have records here."""
        return frozenset(self._by_partition)

    def records(self, topic_partition: TopicPartition) -> list[ShareRecord[K, V]]:
        """The records of one partition; an empty list if it has none here."""
        return self[self._span_of(topic_partition)]

    def to_arrow(self, *, copy: bool = True) -> pyarrow.RecordBatch:
        """The records as columns; needs pyarrow (extra `arrow`), and makes no Python object per record but for headers.

        Columns: `topic` (dictionary of string), `partition` (int32), `offset` (int64), `timestamp` (timestamp of
        milliseconds, UTC), `key` and `value` (binary, null where there is none), `headers` (list of structs of `name`,
        string, and `value`, binary), `delivery_count` (int32). Rows are in the order of the records, so that a mask
        over the columns says which to acknowledge: `acknowledge_all(records, rows=mask)`. A timestamp out of pyarrow's
        range stays what it is.

        `copy=False`: keys and values are binary_view, and stay in what the broker sent (or what was decompressed),
        which lives as long as the columns. That pays from about a kilobyte per value on; pyarrow computes little with
        the type, and has to be 20 or later.

        Raises ImportError without such a pyarrow, and TypeError if keys or values were made by deserializers and are
        neither bytes nor None: let Arrow do what they did.
        """
        return columns_of(copy)(self._runs)

    def without_first(self, count: int) -> ShareRecords[K, V]:
        """The same records without the first `count`."""
        rest: dict[TopicPartition, list[ShareRecord[K, V]]] = {}
        for record in self[count:]:
            rest.setdefault(TopicPartition(record.topic, record.partition), []).append(record)
        return ShareRecords(rest)

    @overload
    def __getitem__(self, index: int) -> ShareRecord[K, V]: ...
    @overload
    def __getitem__(self, index: slice) -> list[ShareRecord[K, V]]: ...
    def __getitem__(self, index: int | slice) -> ShareRecord[K, V] | list[ShareRecord[K, V]]:
        if not self._are_made:
            self.make_objects()
        return self._records[index]

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[ShareRecord[K, V]]:
        if not self._are_made:
            self.make_objects()
        return iter(self._records)

    def __reduce__(self) -> tuple[Any, ...]:
        return ShareRecords, ({where: self.records(where) for where in self._by_partition},)

    def __repr__(self) -> str:
        records, partitions = len(self), len(self._by_partition)
        return (
            f"<ShareRecords: {records} record{'' if records == 1 else 's'} of "
            f"{partitions} partition{'' if partitions == 1 else 's'}>"
        )


class ArrowRecords:
    """The records that one `poll_arrow` returned, as columns.

    `batch` has a row for each record, in the order and with the columns of `ShareRecords.to_arrow`. Tools that take
    Arrow's C data interface take this object for it. `records` are the same records as objects, which are made when
    they are looked at. `acknowledge_all` takes the whole, or some rows.
    """

    __slots__ = ("batch", "records")

    def __init__(self, records: ShareRecords[bytes | None, bytes | None], *, copy: bool = True) -> None:
        """As `ShareRecords.to_arrow` has it."""
        self.records: ShareRecords[bytes | None, bytes | None] = records
        self.batch: pyarrow.RecordBatch = records.to_arrow(copy=copy)

    def lock_remaining_ms(self) -> int:
        """How long this consumer still has the locks of all rows: 0 if one is lost, or there are no rows."""
        found = places(self.records._runs, None)
        return min(
            (0 if lock is None else lock.least_remaining_ms(offsets) for lock, _, _, offsets in found), default=0
        )

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]:
        """The PyCapsule protocol of Arrow: pyarrow, polars, DuckDB and others read `batch` through it."""
        capsules: tuple[object, object] = self.batch.__arrow_c_array__(requested_schema)
        return capsules

    def __len__(self) -> int:
        return len(self.records)

    def __repr__(self) -> str:
        return repr(self.records).replace("ShareRecords", "ArrowRecords", 1)


@cache
def columns_of(copy: bool) -> Callable[[list[Run]], pyarrow.RecordBatch]:
    """What makes columns of records. Raises ImportError, which says what to install, if (like this) nothing can."""
    try:
        import pyarrow
    except ModuleNotFoundError as error:
        raise ImportError("columns need pyarrow: pip install 'kafka-share[arrow]'") from error
    if not copy and int(pyarrow.__version__.split(".")[0]) < 20:
        raise ImportError(f"copy=False needs pyarrow 20 or later, and this is {pyarrow.__version__}: upgrade it")
    from kafka_share.columns import to_arrow

    return partial(to_arrow, copy=copy)


AcknowledgementCommitCallback = Callable[[Mapping[TopicIdPartition, frozenset[int]], "KafkaShareError | None"], None]
"""Called with the offsets of a partition whose acknowledgements have an outcome, and the error if they failed."""
