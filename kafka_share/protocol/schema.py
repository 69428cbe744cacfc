"""The schemas of messages as plain values: what the codec and the broker's error answers are made from.

Called by `encoder`, `decoder`, `messages` and `versions`. A schema is read once, when it is first asked for.
"""

from __future__ import annotations

from typing import Any

import attrs

from kafka_share.protocol.api_message import FieldSpec, MessageStruct, VersionedMessage, Versions, parse_versions


@attrs.frozen
class Field:
    """A field of a struct.

    `type` is Kafka's name of the (element) type, such as "int32" or "records", or the class name of a struct;
    "bitfield" is an int32 that is read as a set of bit numbers. `default` is what stands for an attribute
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
    """A request, a response, or the key or value of a record."""

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


def schema_of(message_class: type[VersionedMessage]) -> MessageSchema:
    """The schema of a message class."""
    schema = _schemas.get(message_class)
    if schema is None:
        schema = _schemas[message_class] = _schema(message_class)
    return schema


_schemas: dict[type[VersionedMessage], MessageSchema] = {}


def _schema(message_class: type[VersionedMessage]) -> MessageSchema:
    return MessageSchema(
        name=message_class.__name__,
        api_key=message_class.API_KEY,
        is_request=message_class.__name__.endswith("Request"),
        valid_versions=message_class.valid_versions,
        flexible_versions=message_class.flexible_versions,
        struct=_struct(message_class),
    )


def _struct(data_class: type[MessageStruct]) -> Struct:
    return Struct(
        data_class, tuple(_field(name, spec, data_class) for name, spec in data_class.declared_fields.items())
    )


def _field(name: str, spec: FieldSpec, owner: type[MessageStruct]) -> Field:
    type_name = spec.kind.removeprefix("[]")
    return Field(
        name=name,
        type=type_name,
        is_array=type_name != spec.kind,
        struct=_struct(getattr(owner, type_name)) if type_name[0].isupper() else None,
        versions=parse_versions(spec.versions),
        nullable=parse_versions(spec.nullable),
        tag=spec.tag,
        tagged=parse_versions(spec.tagged),
        has_default=spec.has_default,
        default=spec.factory() if spec.factory is not None else spec.default,
        ignorable=spec.ignorable,
    )
