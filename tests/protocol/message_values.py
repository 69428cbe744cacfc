"""Hypothesis strategies for messages, made from their schemas, and a way to compare messages field by field."""

from __future__ import annotations

import functools
import uuid
from typing import Any

from hypothesis import strategies as st

from kafka_share.protocol.messages import MESSAGES
from kafka_share.protocol.schema import Field, Struct, schema_of

ALL_CLASSES = [message_class for pair in MESSAGES.values() for message_class in pair]
SHARE_KEYS = [76, 77, 78, 79, 83, 84, 85, 86, 87, 90, 91, 92]
ALL_VERSIONS = [
    (message_class, version)
    for message_class in ALL_CLASSES
    for version in range(schema_of(message_class).valid_versions[0], schema_of(message_class).valid_versions[1] + 1)
]

_INTEGERS = {"int8": 7, "int16": 15, "int32": 31, "int64": 63}
# By its codec the same characters would take two seconds to find.
_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=6) | st.just("x" * 200)
_SCALARS: dict[str, st.SearchStrategy[Any]] = {
    "bool": st.booleans(),
    "uint16": st.integers(0, 0xFFFF),
    "float64": st.floats(allow_nan=False),
    "string": _TEXT,
    "bytes": st.binary(max_size=200),
    "records": st.binary(max_size=200),
    "uuid": st.none() | st.uuids().filter(lambda value: value != uuid.UUID(int=0)),
    "bitfield": st.none() | st.sets(st.integers(0, 30)),
    **{name: st.integers(-(1 << bits), (1 << bits) - 1) for name, bits in _INTEGERS.items()},
}


@functools.cache
def messages(message_class: Any, version: int, *, unknown_tags: bool = False) -> st.SearchStrategy[Any]:
    """Values of a message with every field of the version set. One strategy: Hypothesis examines each at length."""
    schema = schema_of(message_class)
    return _structs(schema.struct, version, unknown_tags and schema.is_flexible(version))


def _structs(struct: Struct, version: int, unknown_tags: bool) -> st.SearchStrategy[Any]:
    fields = {f.name: _values(f, version, unknown_tags) for f in struct.fields if f.in_version(version)}
    if unknown_tags:
        fields["_unknown"] = st.dictionaries(st.integers(100, 2**32 - 1), st.binary(max_size=140), max_size=2)

    def make(values: dict[str, Any]) -> Any:
        tags = values.pop("_unknown", {})
        return struct.data_class(**values, **{f"_{tag}": content for tag, content in sorted(tags.items())})

    return st.fixed_dictionaries(fields).map(make)


def _values(field: Field, version: int, unknown_tags: bool) -> st.SearchStrategy[Any]:
    one = _structs(field.struct, version, unknown_tags) if field.struct is not None else _SCALARS[field.type]
    values = st.lists(one, max_size=2) if field.is_array else one
    if field.is_nullable(version):
        values = st.none() | values
    if field.is_tagged(version):
        values = st.just(field.default) | values
    return values


def comparable(message: Any, version: int) -> Any:
    """A message as plain values, unknown tagged fields included."""
    return _plain(schema_of(type(message)).struct, message, version)


def _plain(struct: Struct, value: Any, version: int) -> Any:
    if value is None:
        return None
    plain: dict[str, Any] = {"unknown_tags": value.unknown_tags}
    for field in struct.fields:
        if field.in_version(version):
            content = getattr(value, field.name)
            if field.struct is not None and field.is_array and content is not None:
                content = [_plain(field.struct, item, version) for item in content]
            elif field.struct is not None and not field.is_array:
                content = _plain(field.struct, content, version)
            plain[field.name] = content
    return plain
