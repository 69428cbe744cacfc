"""Makes the decoders of message bodies, for the bytes of a peer, which may be anything.

Asked by `messages`. The decoders are made from the declarations of the messages, and refuse whatever Kafka's own
readers refuse: null where the schema forbids it, strings that reach beyond the message, endless numbers. Every array is
measured against the bytes left before its first element is made, and all that a message lists against what its
elements cost in memory: `MAX_LISTED_BYTES`.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable
from typing import Any, Final, NoReturn, TypeAlias

from kafka_share.errors import RemoteProtocolError
from kafka_share.protocol.api_message import VersionedMessage
from kafka_share.protocol.codegen import FIXED_FORMATS, FIXED_SIZES, Source, fields_in, is_plain_number, runs_of_numbers
from kafka_share.protocol.schema import Field, Struct, schema_of
from kafka_share.protocol.uuids import uuid_of
from kafka_share.protocol.varint import read_unsigned

MAX_TAGGED_FIELDS: Final = 1_000
"""In one section. Kafka's messages have less than ten; an unknown one costs many times its bytes."""

_NO_OPERATIONS = -(2**31)
"""What a broker sends if it was not asked for the authorized operations."""


MAX_LISTED_BYTES: Final = 256 * 1024 * 1024
"""What the elements of all arrays, and the unknown tagged fields, of one message may cost in memory, by estimate. A
topic of 18 bytes on the wire costs 240; Metadata of 300,000 partitions with three replicas each is within it."""
_STRUCT_COST: Final = 48
"""And what its fields cost; a number counts as one that is not small."""
_NUMBER_COST: Final = 40
_UUID_COST: Final = 160
_OTHER_COST: Final = 64
_TAG_COST: Final = 160

Budget: TypeAlias = "list[int]"
"""One number, which the functions of one message share: the bytes that are left of `MAX_LISTED_BYTES`."""
Decoder: TypeAlias = "Callable[[bytes | memoryview, int, Budget], tuple[VersionedMessage, int]]"
"""Takes the bytes, where the message begins, and a new budget; returns the message, and where it ends."""


@functools.cache
def decoder_of(message_class: type[VersionedMessage], version: int) -> Decoder:
    """The decoder of a version that the schema describes, made when it is first asked for.

    Fields of type "records" are views of the bytes, which must not be changed from then on; all else is copied.
    It raises `IndexError` or `struct.error` for bytes that end too early, `UnicodeDecodeError`, `RemoteProtocolError`.
    """
    schema = schema_of(message_class)
    source = Source(_CONSTANTS)
    function = _DecoderWriter(source, version, schema.is_flexible(version)).struct(schema.struct)
    decoder: Decoder = source.compile(f"decoder of {schema.name} v{version}", function)
    return decoder


def new_budget() -> Budget:
    """For one message."""
    return [MAX_LISTED_BYTES]


def skip_tags(data: bytes | memoryview, position: int) -> int:
    """The position behind a section of tagged fields that nobody needs. Raises `RemoteProtocolError`, `IndexError`."""
    return _read_tags(data, position, new_budget(), {}, None)[1]


class _DecoderWriter:
    """Writes one function for each struct: (data, position, budget) -> (value, position behind it)."""

    def __init__(self, source: Source, version: int, flexible: bool) -> None:
        self._source = source
        self._version = version
        self._flexible = flexible

    def struct(self, struct: Struct) -> str:
        """Write the function of a struct, after those of the structs in it; returns its name."""
        ordinary, tagged = fields_in(struct, self._version)
        functions = {f.name: self.struct(f.struct) for f in ordinary if f.struct is not None}
        readers = {f.tag: (f.name, self._value_function(f)) for f in tagged} if self._flexible else {}
        source = self._source
        name = source.name("struct")
        source.indent(f"def {name}(data, position, budget):")
        source.line("end = len(data)")
        source.line(f"value = new({source.constant('Class', struct.data_class)})")
        source.line("value.unknown_tags = None")
        for field in struct.fields:
            if field not in ordinary:
                self._default(field)
        for run in runs_of_numbers(ordinary):
            if is_plain_number(run[0]):
                self._numbers(run)
            else:
                self._field(run[0], f"value.{run[0].name}", functions.get(run[0].name))
        if self._flexible:
            source.indent("if data[position]:")
            tags = source.constant("TAGS", readers)
            source.line(f"value.unknown_tags, position = read_tags(data, position, budget, {tags}, value)")
            source.dedent()
            source.indent("else:")
            source.line("position += 1")
            source.dedent()
        source.line("return value, position")
        source.dedent()
        return name

    def _default(self, field: Field) -> None:
        # Every value gets a new list.
        default = "[]" if field.default == [] else self._source.constant("DEFAULT", field.default)
        self._source.line(f"value.{field.name} = {default}")

    def _value_function(self, field: Field) -> Any:
        """The function that reads the value of a tagged field."""
        source = Source(_CONSTANTS)
        writer = _DecoderWriter(source, self._version, self._flexible)
        function = writer.struct(field.struct) if field.struct is not None else None
        source.indent("def read(data, position, budget):")
        source.line("end = len(data)")
        if is_plain_number(field):
            source.line(f"(result,) = unpack_from('>{FIXED_FORMATS[field.type]}', data, position)")
            source.line(f"position += {FIXED_SIZES[field.type]}")
        else:
            writer._field(field, "result", function)
        source.line("return result, position")
        return source.compile(f"decoder of tagged field {field.name}", "read")

    def _numbers(self, run: list[Field]) -> None:
        layout = struct.Struct(">" + "".join(FIXED_FORMATS[field.type] for field in run))
        unpack = self._source.constant("unpack", layout.unpack_from)
        targets = "".join(f"value.{field.name}, " for field in run)
        self._source.line(f"{targets}= {unpack}(data, position)")
        self._source.line(f"position += {layout.size}")

    def _field(self, field: Field, target: str, function: str | None) -> None:
        """A field that is no plain number."""
        source = self._source
        if not field.is_array and field.struct is not None:
            if field.is_nullable(self._version):
                source.indent("if data[position] > 127:")
                source.line(f"{target} = None")
                source.line("position += 1")
                source.dedent()
                source.indent("else:")
                source.line(f"{target}, position = {function}(data, position + 1, budget)")
                source.dedent()
            else:
                source.line(f"{target}, position = {function}(data, position, budget)")
        elif field.is_array:
            self._length("int32")
            self._nullable(field, target)
            self._array(field, target, function)
            source.dedent()
        elif field.type in ("string", "bytes", "records"):
            self._length("int16" if field.type == "string" else "int32")
            self._nullable(field, target)
            self._text(field, target)
            source.dedent()
        else:
            self._scalar(field, target)

    def _length(self, plain_type: str) -> None:
        """Read a length into `n`; -1 for null."""
        source = self._source
        if self._flexible:
            source.line("n = data[position]")
            source.line("position += 1")
            source.indent("if n > 127:")
            source.line("n, position = read_unsigned(data, position - 1)")
            source.dedent()
            source.line("n -= 1")
        else:
            source.line(f"n = unpack_from('>{FIXED_FORMATS[plain_type]}', data, position)[0]")
            source.line(f"position += {FIXED_SIZES[plain_type]}")

    def _nullable(self, field: Field, target: str) -> None:
        """What a negative length means, and the opening of the block for the others."""
        source = self._source
        source.indent("if n < 0:")
        if field.is_nullable(self._version):
            source.indent("if n != -1:")
            source.line(f"fail('{field.name} has a negative length')")
            source.dedent()
            source.line(f"{target} = None")
        else:
            source.line(f"fail('{field.name} is null or has a negative length')")
        source.dedent()
        source.indent("else:")

    def _text(self, field: Field, target: str) -> None:
        source = self._source
        source.line("stop = position + n")
        source.indent("if stop > end:")
        source.line(f"fail('{field.name} is longer than the message')")
        source.dedent()
        source.line(f"{target} = {_TEXT_FORMS[field.type]}")
        source.line("position = stop")

    def _array(self, field: Field, target: str, function: str | None) -> None:
        source = self._source
        source.indent(f"if n * {self._smallest_element(field)} > end - position:")
        source.line(f"fail('{field.name} has more elements than the message has bytes for')")
        source.dedent()
        source.line(f"spend(budget, n * {self._cost_of_element(field)})")
        if field.type in FIXED_FORMATS:
            source.line(f"{target} = list(unpack_from('>%d{FIXED_FORMATS[field.type]}' % n, data, position))")
            source.line(f"position += n * {FIXED_SIZES[field.type]}")
            return
        source.line("items = []")
        source.indent("for _ in range(n):")
        if function is not None:
            source.line(f"item, position = {function}(data, position, budget)")
        elif field.type == "string":
            self._length("int16")
            source.indent("if n < 0:")
            source.line(f"fail('{field.name} has a null element')")
            source.dedent()
            self._text(field, "item")
        else:
            self._scalar(field, "item")
        source.line("items.append(item)")
        source.dedent()
        source.line(f"{target} = items")

    def _scalar(self, field: Field, target: str) -> None:
        source = self._source
        if field.type == "bitfield":
            source.line(f"{target} = operations(unpack_from('>i', data, position)[0])")
            source.line("position += 4")
            return
        assert field.type == "uuid", field
        source.line("stop = position + 16")
        source.indent("if stop > end:")
        source.line("raise IndexError")
        source.dedent()
        source.line(f"{target} = uuid_of(bytes(data[position:stop]))")
        source.line("position = stop")

    def _smallest_element(self, field: Field) -> int:
        if field.struct is not None:
            ordinary, _ = fields_in(field.struct, self._version)
            return max(1, sum(map(self._smallest, ordinary)) + self._flexible)
        return self._smallest_scalar(field.type)

    def _smallest(self, field: Field) -> int:
        """The fewest bytes that a field can have."""
        if field.is_array:
            return 1 if self._flexible else 4
        if field.struct is not None:
            return 1 if field.is_nullable(self._version) else self._smallest_element(field)
        return self._smallest_scalar(field.type)

    def _cost_of_element(self, field: Field) -> int:
        """The bytes of memory that an element takes, without what its own arrays hold."""
        if field.struct is None:
            return _UUID_COST if field.type == "uuid" else _NUMBER_COST if field.type in FIXED_FORMATS else _OTHER_COST
        return _STRUCT_COST + sum(
            _OTHER_COST if inner.is_array else self._cost_of_element(inner) for inner in field.struct.fields
        )

    def _smallest_scalar(self, type_name: str) -> int:
        if type_name in FIXED_SIZES:
            return FIXED_SIZES[type_name]
        if type_name == "uuid":
            return 16
        if type_name == "bitfield":
            return 4
        if self._flexible:
            return 1
        return 2 if type_name == "string" else 4


def _read_tags(
    data: bytes | memoryview, position: int, budget: Budget, readers: dict[int, tuple[str, Any]], value: Any
) -> tuple[dict[str, bytes] | None, int]:
    """Read a section of tagged fields (KIP-482): known ones become attributes, the others are returned as bytes."""
    count, position = read_unsigned(data, position)
    unknown: dict[str, bytes] = {}
    previous = -1
    if 2 * count > len(data) - position or count > MAX_TAGGED_FIELDS:
        _fail(f"there are {count} tagged fields, which are too many")
    for _ in range(count):
        tag, position = read_unsigned(data, position)
        size, position = read_unsigned(data, position)
        stop = position + size
        if tag <= previous:
            _fail(f"tagged field {tag} comes after {previous}")
        if stop > len(data):
            _fail(f"tagged field {tag} is longer than the message")
        previous = tag
        if tag in readers:
            name, read = readers[tag]
            content, position = read(data, position, budget)
            if position != stop:
                _fail(f"tagged field {tag} does not have the length that it claims")
            setattr(value, name, content)
        else:
            _spend(budget, _TAG_COST)
            unknown[f"_{tag}"] = bytes(data[position:stop])
            position = stop
    return unknown or None, position


def _spend(budget: Budget, cost: int) -> None:
    budget[0] -= cost
    if budget[0] < 0:
        _fail(f"what it lists would take more than {MAX_LISTED_BYTES} bytes of memory")


def _operations(bits: int) -> set[int] | None:
    """The operation codes that a bit field of authorized operations names."""
    if bits == _NO_OPERATIONS:
        return None
    return {bit for bit in range(32) if bits >> bit & 1}


def _fail(what: str) -> NoReturn:
    raise RemoteProtocolError(what)


_TEXT_FORMS: Final = {
    "string": "str(data[position:stop], 'utf-8')",
    "bytes": "bytes(data[position:stop])",
    # The one large field stays where it is: nobody has to copy it before it is decoded, on another thread.
    "records": "view(data)[position:stop].toreadonly()",
}
"""What is made of the bytes from `position` to `stop`."""

_CONSTANTS: Final = {
    "view": memoryview,
    "uuid_of": uuid_of,
    "new": object.__new__,
    "unpack_from": struct.unpack_from,
    "read_unsigned": read_unsigned,
    "read_tags": _read_tags,
    "fail": _fail,
    "spend": _spend,
    "operations": _operations,
    "ZERO": bytes(16),
}
