"""What tests write as records, made into bytes: text, pairs and mappings where they mean one thing only.

Called by `ReferenceBroker.produce` and `produce_batch`. Everything else raises `InvalidArgumentError`, which says what
to write instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

import attrs

from kafka_share.errors import InvalidArgumentError

Data: TypeAlias = bytes | bytearray | memoryview | str | None
"""A key, a value or the value of a header; text is written as UTF-8."""
HeadersInput: TypeAlias = Mapping[str, Data] | Iterable[tuple[str, Data]]
"""Headers as a mapping, or as pairs where a name occurs twice."""
RecordInput: TypeAlias = "Data | tuple[Data, Data] | tuple[Data, Data, HeadersInput]"
"""A record of a batch: a value, (key, value), or (key, value, headers)."""

_KEY_AND_VALUE: Final = 2
_WITH_HEADERS: Final = 3


@attrs.frozen
class Written:
    """One record as it goes into a batch."""

    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]


def record_of(key: Any, value: Any, headers: Any) -> Written:
    """A record of its three parts."""
    return Written(_bytes_of("key", key), _bytes_of("value", value), _headers_of(headers))


def records_of(records: Iterable[RecordInput]) -> list[Written]:
    """The records of a batch."""
    if isinstance(records, (bytes, bytearray, memoryview, str, Mapping)):
        raise InvalidArgumentError(f"a batch is a list of records, not {_kind(records)}: write [value, …]")
    written = [_record_of(one) for one in records]
    if not written:
        raise InvalidArgumentError("a batch has at least one record")
    return written


def _record_of(record: Any) -> Written:
    if not isinstance(record, tuple):
        return record_of(None, record, ())
    if len(record) == _KEY_AND_VALUE:
        return record_of(*record, ())
    if len(record) == _WITH_HEADERS:
        return record_of(*record)
    raise InvalidArgumentError(
        f"a tuple of {len(record)} is no record: write a value, (key, value) or (key, value, headers)"
    )


def _bytes_of(part: str, data: Any) -> bytes | None:
    if data is None or isinstance(data, bytes):
        return data
    if isinstance(data, str):
        return data.encode()
    if isinstance(data, (bytearray, memoryview)):
        return bytes(data)
    raise InvalidArgumentError(
        f"the {part} of a record is bytes, text or None, not {_kind(data)}: {_advice(part, data)}"
    )


def _advice(part: str, data: Any) -> str:
    if isinstance(data, tuple):
        return "write key=… and headers=…, or give tuples of (key, value) or (key, value, headers) to produce_batch"
    if isinstance(data, (Mapping, list)):
        return f"write json.dumps({part})"
    return f"write str({part}).encode(), or what your serializer makes of it"


def _headers_of(headers: Any) -> list[tuple[str, bytes | None]]:
    pairs = list(headers.items() if isinstance(headers, Mapping) else headers)
    for pair in pairs:
        if not (isinstance(pair, tuple) and len(pair) == _KEY_AND_VALUE and isinstance(pair[0], str)):
            raise InvalidArgumentError(
                f"headers are a mapping or pairs of name (text) and value; {pair!r} is none: write "
                '{"name": b"value"} or [("name", b"value")]'
            )
    return [(name, _bytes_of(f"header {name!r}", value)) for name, value in pairs]


def _kind(data: Any) -> str:
    name = type(data).__name__
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"
