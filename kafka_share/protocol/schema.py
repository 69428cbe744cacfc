"""What the schema of a message says, as plain values: the one place that looks into kafka-python's schema objects.

Called by the codec (`encoder`, `decoder`) and by `generate_stubs`.
"""

from __future__ import annotations

from typing import Any

import attrs

from kafka_share.protocol.api_message import ApiMessage, MessageStruct

Versions = tuple[int, int]
"""Lowest and highest version, both included; (0, -1) for none."""

NO_VERSIONS: Versions = (0, -1)


@attrs.frozen
class Field:
    """A field of a struct.

    `type` is Kafka's name of the (element) type, such as "int32" or "records", or the class name of a struct;
    "bitfield" is kafka-python's reading of an int32 as a set of bit numbers. `default` is what stands for an attribute
    that was not given; `has_default` is False for a struct that must be given.
    """

    name: str
    type: str
    is_array: bool
    struct: Struct | None
    versions: Versions
    nullable: Versions
    tag: int | None
    tagged: Versions
    has_default: bool
    default: Any
    ignorable: bool

    def in_version(self, version: int) -> bool:
        return self.versions[0] <= version <= self.versions[1]

    def is_tagged(self, version: int) -> bool:
        return self.tagged[0] <= version <= self.tagged[1]

    def is_nullable(self, version: int) -> bool:
        return self.nullable[0] <= version <= self.nullable[1]


@attrs.frozen
class Struct:
    """A struct: the class that carries its values, and its fields in wire order."""

    data_class: type[MessageStruct]
    fields: tuple[Field, ...]


@attrs.frozen
class MessageSchema:
    """A request or response."""

    name: str
    api_key: int
    is_request: bool
    valid_versions: Versions
    flexible_versions: Versions
    struct: Struct

    def is_valid(self, version: int) -> bool:
        return self.valid_versions[0] <= version <= self.valid_versions[1]

    def is_flexible(self, version: int) -> bool:
        return self.flexible_versions[0] <= version <= self.flexible_versions[1]


def schema_of(message_class: type[ApiMessage]) -> MessageSchema:
    """The schema of a message class."""
    schema = _schemas.get(message_class)
    if schema is None:
        schema = _schemas[message_class] = _schema(message_class)
    return schema


_schemas: dict[type[ApiMessage], MessageSchema] = {}


def _schema(raw: Any) -> MessageSchema:
    return MessageSchema(
        name=raw.name,
        api_key=raw.API_KEY,
        is_request=raw.is_request(),
        valid_versions=raw.valid_versions,
        flexible_versions=raw._flexible_versions or NO_VERSIONS,
        struct=_struct(raw),
    )


def _struct(data_class: Any) -> Struct:
    return Struct(data_class, tuple(_field(raw, data_class) for raw in data_class.fields.values()))


def _field(raw: Any, owner: Any) -> Field:
    is_struct_array = raw.is_struct_array()
    is_array = raw.is_array()
    type_name = raw.type_str.removeprefix("[]")
    try:
        has_default, default = True, raw.default
    except NotImplementedError:
        has_default, default = False, None
    return Field(
        name=raw.name,
        type=type_name,
        is_array=is_array,
        struct=_struct(raw.data_class) if raw.is_struct() or is_struct_array else None,
        versions=(raw.min_version, raw.max_version),
        nullable=raw._nullable_versions or NO_VERSIONS,
        tag=raw.tag,
        tagged=(raw._tagged_versions or NO_VERSIONS) if raw.tag is not None else NO_VERSIONS,
        has_default=has_default,
        default=default,
        ignorable=bool(raw._ignorable),
    )
