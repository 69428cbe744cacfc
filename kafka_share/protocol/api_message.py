"""The base classes of all messages and coordinator records, and how they declare their fields.

A message is a class with annotated fields::

    class ShareGroupDescribeRequest(ApiMessage, api_key=77, versions="1", flexible="0+"):
        group_ids: list[str] = field("[]string", factory=list)

Type checkers read that as they read a dataclass: constructors take keywords only. Nothing is made of a declaration but
slots when its module is imported; `schema` reads it when a message is first encoded or decoded, `messages` turns
messages into bytes and back. The modules that declare them are generated (`tools/generate_messages.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Final, dataclass_transform

Versions = tuple[int, int]
"""Lowest and highest version, both included; (0, -1) for none."""

NO_VERSIONS: Final[Versions] = (0, -1)

_NO_LIMIT: Final = 0x7FFF
_PRODUCE: Final = 0
_SECRETS: Final = frozenset(("auth_bytes", "salt", "salted_password"))
"""Fields of SASL messages and of the users of SCRAM whose values no repr shows."""


class FieldSpec:
    """What is declared about a field, in the terms of Kafka's schemas."""

    __slots__ = ("default", "factory", "has_default", "ignorable", "kind", "nullable", "tag", "tagged", "versions")

    def __init__(
        self,
        kind: str,
        versions: str,
        default: Any,
        factory: Callable[[], Any] | None,
        nullable: str,
        tag: int | None,
        tagged: str,
        ignorable: bool,
    ) -> None:
        self.kind: str = kind
        self.versions: str = versions
        self.has_default: bool = default is not ... or factory is not None
        self.default: Any | None = None if default is ... else default
        self.factory: Callable[[], Any] | None = factory
        self.nullable: str = nullable
        self.tag: int | None = tag
        self.tagged: str = tagged
        self.ignorable: bool = ignorable


def field(
    kind: str,
    versions: str = "0+",
    *,
    default: Any = ...,
    factory: Callable[[], Any] | None = None,
    nullable: str = "none",
    tag: int | None = None,
    tagged: str = "none",
    ignorable: bool = False,
) -> Any:
    """Declare a field of type `kind`: Kafka's name of the type, or of a struct inside the class; "[]" before arrays.

    "bitfield" is an int32 that is read as a set of bit numbers. Versions are ranges as "3", "1-4", "2+" or "none".
    """
    return FieldSpec(kind, versions, default, factory, nullable, tag, tagged, ignorable)


def parse_versions(text: str) -> Versions:
    """The range that a declaration names."""
    if text == "none":
        return NO_VERSIONS
    if text.endswith("+"):
        return int(text[:-1]), _NO_LIMIT
    first, _, last = text.partition("-")
    return int(first), int(last or first)


class _StructType(type):
    """Takes the declarations out of a class, and gives it slots in their place."""

    def __new__(mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **options: Any) -> _StructType:
        declared = {key: value for key, value in namespace.items() if type(value) is FieldSpec}
        members = {key: value for key, value in namespace.items() if key not in declared}
        members["declared_fields"] = declared
        members.setdefault("__slots__", tuple(declared))
        return super().__new__(mcs, name, bases, members, **options)


@dataclass_transform(kw_only_default=True, eq_default=True, field_specifiers=(field,))
class MessageStruct(metaclass=_StructType):
    """A struct: its fields are attributes.

    `unknown_tags` has the tagged fields that no schema knows, as {"_<tag>": bytes}, or None; they are encoded again,
    and are given to the constructor as keywords. Two structs are equal if their known fields are.
    """

    __slots__ = ("unknown_tags",)

    declared_fields: ClassVar[dict[str, FieldSpec]]

    if TYPE_CHECKING:
        unknown_tags: dict[str, bytes] | None
    else:

        def __init__(self, **values: Any) -> None:
            _make_constructor(type(self))(self, **values)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.declared_fields)

    __hash__: ClassVar[None]  # type: ignore[assignment]

    def __repr__(self) -> str:
        """All fields that do not have their default; records as bytes, wherever they lie. Secrets are hidden."""
        shown = []
        for name, spec in self.declared_fields.items():
            value = _owned(getattr(self, name))
            if value != (spec.factory() if spec.factory is not None else spec.default):
                shown.append(f"{name}={'<secret>' if name in _SECRETS else repr(value)}")
        return f"{type(self).__name__}({', '.join(shown)})"

    def __getstate__(self) -> tuple[None, dict[str, Any]]:
        """For pickle and copy: views of a frame become bytes."""
        names = ("unknown_tags", *self.declared_fields)
        return None, {name: _owned(getattr(self, name)) for name in names}


class VersionedMessage(MessageStruct):
    """A struct that is encoded by itself, in one of several versions."""

    __slots__ = ()

    API_KEY: ClassVar[int]
    """The API of a request or response, the type of a record's key or value."""
    valid_versions: ClassVar[Versions]
    """The lowest and the highest version that the declaration describes."""
    flexible_versions: ClassVar[Versions]

    def __init_subclass__(cls, *, api_key: int = -1, versions: str = "none", flexible: str = "none") -> None:
        cls.API_KEY = api_key
        cls.valid_versions = parse_versions(versions)
        cls.flexible_versions = parse_versions(flexible)


class RecordMessage(VersionedMessage):
    """The key or the value of a record by which a coordinator keeps its state, see `coordinator_records`."""

    __slots__ = ()


class ApiMessage(VersionedMessage):
    """A request or response."""

    __slots__ = ()

    @classmethod
    def is_request(cls) -> bool:
        return cls.__name__.endswith("Request")

    def expect_response(self) -> bool:
        """False for a Produce request with acks=0 only."""
        return self.API_KEY != _PRODUCE or bool(getattr(self, "acks", True))


def _owned(value: Any) -> Any:
    return bytes(value) if type(value) is memoryview else value


_NOT_GIVEN: Final = object()


def _make_constructor(struct: type[MessageStruct]) -> Callable[..., None]:
    """Write the `__init__` of a class when its first instance is made, and leave it there for the next ones."""
    parameters, body = [], []
    constants: dict[str, Any] = {"NOT_GIVEN": _NOT_GIVEN, "check": _check_unknown}
    for name, spec in struct.declared_fields.items():
        if spec.factory is not None:
            constants[f"make_{name}"] = spec.factory
            parameters.append(f"{name}=NOT_GIVEN")
            body.append(f"self.{name} = make_{name}() if {name} is NOT_GIVEN else {name}")
        else:
            constants[f"default_{name}"] = spec.default
            parameters.append(f"{name}=default_{name}")
            body.append(f"self.{name} = {name}")
    head = f"def __init__(self, {'*, ' if parameters else ''}{', '.join([*parameters, '**unknown'])}):"
    body.append("self.unknown_tags = check(self, unknown) if unknown else None")
    exec("\n    ".join([head, *body]), constants)
    constructor: Callable[..., None] = constants["__init__"]
    struct.__init__ = constructor  # type: ignore[method-assign]
    return constructor


def _check_unknown(struct: MessageStruct, unknown: dict[str, bytes]) -> dict[str, bytes]:
    """Keywords that are no fields have to be tagged fields."""
    wrong = [name for name in unknown if not name.startswith("_")]
    if wrong:
        raise TypeError(f"{type(struct).__name__} has no field {', '.join(wrong)}")
    return unknown
