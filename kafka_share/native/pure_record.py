"""`ShareRecord` in Python: what `_compiled.pyx` has under this name, for where nothing was compiled.

Here a record holds its fields; the block of records that the compiled one looks into does not exist. What users and
type checkers are told of a record stands in `_compiled.pyi`.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any, Generic, NoReturn, cast

from typing_extensions import TypeVar  # typing's own has no default before Python 3.13

from kafka_share.native import record_methods

if TYPE_CHECKING:
    from kafka_share.errors import RecordDeserializationError


K = TypeVar("K", default=bytes | None)
V = TypeVar("V", default=bytes | None)


def _field(name: str, documentation: str | None = None) -> Any:
    """An attribute that can be read and not set. Reading it runs no Python function."""
    return property(attrgetter(f"_{name}"), doc=documentation)


class ShareRecord(Generic[K, V]):
    __slots__ = ("_raw", *(f"_{name}" for name in record_methods.FIELDS))
    __match_args__ = record_methods.FIELDS

    def __init__(
        self,
        topic: str,
        partition: int,
        offset: int,
        timestamp: int,
        timestamp_type: Any,
        key: K,
        value: V,
        headers: Any,
        leader_epoch: int | None,
        delivery_count: int,
        error: RecordDeserializationError | None = None,
        lock: Any = None,
    ) -> None:
        self._topic = topic
        self._partition = partition
        self._offset = offset
        self._timestamp = timestamp
        self._timestamp_type = timestamp_type
        self._key = key
        self._value = value
        self._headers = headers
        self._leader_epoch = leader_epoch
        self._delivery_count = delivery_count
        self._error = error
        self._lock = lock
        self._raw: tuple[Any, Any] | None = None

    topic: Any = _field("topic")
    partition: Any = _field("partition")
    offset: Any = _field("offset")
    timestamp: Any = _field("timestamp", "In milliseconds since 1970.")
    timestamp_type: Any = _field("timestamp_type")
    key: Any = _field("key")
    value: Any = _field("value")
    headers: Any = _field("headers", "A sequence of (str, bytes or None), in the producer's order; names may repeat.")
    leader_epoch: Any = _field("leader_epoch", "Of the leader that took the record; None if that is not known.")
    delivery_count: Any = _field("delivery_count", "1 for the first delivery.")
    error: Any = _field("error", 'Why key or value could not be deserialized, with `deserialization_errors="mark"`.')
    lock: Any = _field("lock", "What asks for the lock's state; None for a record that was made by hand.")
    raw_key: Any = property(lambda record: record_methods.raw(_raw_of(record)[0]))
    raw_value: Any = property(lambda record: record_methods.raw(_raw_of(record)[1]))

    def __init_subclass__(cls) -> NoReturn:
        raise TypeError("ShareRecord has no subclasses")

    lock_deadline: Any = property(record_methods.lock_deadline)
    lock_lost: Any = property(record_methods.lock_lost)
    is_last_delivery: Any = property(record_methods.is_last_delivery)

    def lock_remaining_ms(self) -> int:
        return record_methods.lock_remaining_ms(self)

    def __replace__(self, **changes: Any) -> ShareRecord[Any, Any]:
        return cast(ShareRecord[Any, Any], record_methods.replaced(ShareRecord, self, changes))

    def __reduce__(self) -> tuple[Any, ...]:
        return record_methods.pickled(self)

    def __dir__(self) -> list[str]:
        return record_methods.completion(self)

    def __copy__(self) -> ShareRecord[K, V]:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> ShareRecord[K, V]:
        return cast(ShareRecord[K, V], record_methods.deep_copied(ShareRecord, self, memo))

    def __eq__(self, other: object) -> bool:
        return record_methods.are_equal(self, other) if isinstance(other, ShareRecord) else NotImplemented

    def __hash__(self) -> int:
        return hash((self._topic, self._partition, self._offset))

    def __repr__(self) -> str:
        return record_methods.shown(self)


def _raw_of(record: ShareRecord[Any, Any]) -> tuple[Any, Any]:
    """Key and value before deserializers made something of them."""
    return record._raw or (record._key, record._value)


def with_values(record: ShareRecord[Any, Any], key: Any, value: Any, error: Any) -> ShareRecord[Any, Any]:
    """The same record with the key and value that deserializers made, or with the error that one of them raised."""
    made = ShareRecord.__new__(ShareRecord)
    for name in record_methods.FIELDS:
        setattr(made, f"_{name}", getattr(record, name))
    made._key, made._value, made._error, made._raw = key, value, error, _raw_of(record)
    return made
