"""What a record can do beside showing its fields; both implementations of `ShareRecord` call these.

None of it is needed for each record, so it is written once, in Python. Knows a record by its attributes alone.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from functools import cache
from importlib import import_module
from typing import Any, Final, TypeAlias, cast

Record: TypeAlias = Any
"""A `ShareRecord` of either implementation."""

FIELDS: Final = (
    "topic", "partition", "offset", "timestamp", "timestamp_type", "key", "value", "headers", "leader_epoch",
    "delivery_count", "error", "lock",
)  # fmt: skip
"""What a record is made of, in the order in which it takes its arguments."""
_STORED: Final = FIELDS[:10]
"""What Kafka stores; the rest is about this delivery."""


def lock_deadline(record: Record) -> float | None:
    return (
        None if record.lock is None else cast(int, record.lock.deadline_of(record.offset)) / 1000 - _locks().slept_s()
    )


def lock_remaining_ms(record: Record) -> int:
    return 0 if record.lock is None else cast(int, record.lock.remaining_ms(record.offset))


def lock_lost(record: Record) -> bool:
    return record.lock is not None and cast(bool, record.lock.is_lost(record.offset))


def is_last_delivery(record: Record) -> bool | None:
    limit = None if record.lock is None else record.lock.delivery_limit
    return None if limit is None else cast(bool, record.delivery_count >= limit)


def raw(part: Any) -> bytes | None:
    """A key or value that was received, or given to a record that was made by hand.

    Raises `AttributeError` for what is neither bytes nor None: nobody has the bytes that it was made of.
    """
    if part is None or isinstance(part, bytes):
        return part
    raise AttributeError("the bytes of this record are not here: it was made by hand or unpickled")


def are_equal(one: Record, other: Record) -> bool:
    """Neither the lock counts, which another process does not have, nor the error, which is equal to itself only."""
    return all(getattr(one, name) == getattr(other, name) for name in _STORED)


def completion(record: Record) -> list[str]:
    """What completion offers: not what asks the lock for it."""
    return sorted(set(object.__dir__(record)) - {"lock"})


def shown(record: Record) -> str:
    """No key, value or header: a record in a log line must not spill its payload."""
    return (
        f"<ShareRecord {record.topic}-{record.partition}@{record.offset} timestamp={record.timestamp} "
        f"delivery_count={record.delivery_count}>"
    )


def _fields(record: Record) -> dict[str, Any]:
    return {name: getattr(record, name) for name in FIELDS}


def replaced(make: Callable[..., Record], record: Record, changes: dict[str, Any]) -> Record:
    """A record that differs in these fields (`copy.replace`)."""
    return make(**{**_fields(record), **changes})


def deep_copied(make: Callable[..., Record], record: Record, memo: dict[int, Any]) -> Record:
    return make(**{**deepcopy({**_fields(record), "lock": None}, memo), "lock": record.lock})


def pickled(record: Record) -> tuple[Any, ...]:
    fields = tuple(getattr(record, name) for name in FIELDS[:-1])
    return unpickled, (fields, None if record.lock is None else record.lock.for_elsewhere(record.offset))


class _Unpickling:
    make: Callable[..., Record]


def unpickle_as(make: Callable[..., Record]) -> None:
    """Records that come from another process are made by this, whichever implementation they had there."""
    _Unpickling.make = make


def unpickled(fields: tuple[Any, ...], lock: tuple[int, bool] | None) -> Record:
    return _Unpickling.make(*fields, None if lock is None else _locks().lock_from_elsewhere(lock))


@cache
def _locks() -> Any:
    """Locks are made of what `native` chooses, which is there only when this module is."""
    return import_module("kafka_share.locks")
