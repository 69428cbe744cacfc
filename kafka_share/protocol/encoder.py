"""Makes the encoders of message bodies, which refuse what the schema or the version cannot carry.

Asked by `messages`. The encoders are made from the declarations of the messages: tagged fields that nobody knows are
written again, null where the schema forbids it and values that the version has no field for are refused.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable
from typing import Any, Final, NoReturn, TypeAlias

from kafka_share.errors import LocalProtocolError
from kafka_share.protocol.api_message import VersionedMessage
from kafka_share.protocol.codegen import FIXED_FORMATS, Source, fields_in, is_plain_number, runs_of_numbers
from kafka_share.protocol.schema import Field, Struct, schema_of
from kafka_share.protocol.varint import unsigned

_LONGEST_STRING = 0x7FFF
_NO_OPERATIONS = -(2**31)


Encoder: TypeAlias = "Callable[[VersionedMessage, Callable[[bytes], None]], None]"
"""Takes the message and what its pieces are appended with; large bytes are one piece, without a copy."""


@functools.cache
def encoder_of(message_class: type[VersionedMessage], version: int) -> Encoder:
    """The encoder of a version, made when it is first asked for. Raises `LocalProtocolError` for an unknown version.

    It raises the same for null where the schema forbids it, and for fields with a value that this version does not
    have and that must not be left out; whatever Python raises, for values of a wrong type or range.
    """
    schema = schema_of(message_class)
    if not schema.is_valid(version):
        raise LocalProtocolError(f"known versions are {schema.valid_versions[0]} to {schema.valid_versions[1]}")
    source = Source(_CONSTANTS)
    function = _EncoderWriter(source, version, schema.is_flexible(version)).struct(schema.struct)
    encoder: Encoder = source.compile(f"encoder of {schema.name} v{version}", function)
    return encoder


class _EncoderWriter:
    """Writes one function for each struct: (value, append)."""

    def __init__(self, source: Source, version: int, flexible: bool) -> None:
        self._source = source
        self._version = version
        self._flexible = flexible

    def struct(self, struct: Struct) -> str:
        """Write the function of a struct, after those of the structs in it; returns its name."""
        ordinary, tagged = fields_in(struct, self._version)
        functions = {f.name: self.struct(f.struct) for f in (*ordinary, *tagged) if f.struct is not None}
        source = self._source
        name = source.name("struct")
        source.indent(f"def {name}(value, append):")
        for field in struct.fields:
            if not field.in_version(self._version) and not field.ignorable:
                self._refuse(field)
        for run in runs_of_numbers(ordinary):
            if is_plain_number(run[0]):
                self._numbers(run)
            else:
                source.line(f"content = value.{run[0].name}")
                self._field(run[0], functions.get(run[0].name))
        if self._flexible:
            self._tags(tagged, functions)
        else:
            source.line("pass")
        source.dedent()
        return name

    def _refuse(self, field: Field) -> None:
        """A field that this version does not have may only have its default."""
        source = self._source
        source.line(f"content = value.{field.name}")
        if field.is_array or not field.has_default:
            source.indent("if content:")
        else:
            source.indent(f"if content != {source.constant('DEFAULT', field.default)}:")
        source.line(f"fail('this version cannot carry {field.name}')")
        source.dedent()

    def _numbers(self, run: list[Field]) -> None:
        layout = struct.Struct(">" + "".join(FIXED_FORMATS[field.type] for field in run))
        values = ", ".join(f"value.{field.name}" for field in run)
        self._source.line(f"append({self._source.constant('pack', layout.pack)}({values}))")

    def _tags(self, tagged: list[Field], functions: dict[str, str]) -> None:
        source = self._source
        if not tagged:
            source.indent("if value.unknown_tags:")
            source.line("write_tags(append, [], value.unknown_tags)")
            source.dedent()
            source.indent("else:")
            source.line("append(b'\\0')")
            source.dedent()
            return
        source.line("tags = []")
        source.line("outer = append")
        for field in tagged:
            source.line(f"content = value.{field.name}")
            source.indent(f"if content != {source.constant('DEFAULT', field.default)}:")
            source.line("inner = []")
            source.line("append = inner.append")
            self._field(field, functions.get(field.name))
            source.line(f"tags.append(({field.tag}, b''.join(inner)))")
            source.dedent()
        source.line("write_tags(outer, tags, value.unknown_tags)")

    def _field(self, field: Field, function: str | None) -> None:
        """Write the value in `content`."""
        source = self._source
        if is_plain_number(field):
            source.line(f"append(pack('>{FIXED_FORMATS[field.type]}', content))")
        elif field.type == "uuid" and not field.is_array:
            source.line("append(ZERO if content is None else content.bytes)")
        elif field.type == "bitfield":
            source.line("append(pack('>I', bits(content)))")
        else:
            self._null(field)
            if field.is_array:
                self._array(field, function)
            elif field.struct is not None:
                if field.is_nullable(self._version):
                    source.line("append(b'\\x01')")
                source.line(f"{function}(content, append)")
            else:
                self._text(field)
            source.dedent()

    def _null(self, field: Field) -> None:
        """What None means, and the opening of the block for everything else."""
        source = self._source
        source.indent("if content is None:")
        if not field.is_nullable(self._version):
            source.line(f"fail('{field.name} must not be None')")
        elif field.struct is not None and not field.is_array:
            source.line("append(b'\\xff')")
        elif self._flexible:
            source.line("append(b'\\0')")
        elif field.type == "string" and not field.is_array:
            source.line("append(b'\\xff\\xff')")
        else:
            source.line("append(b'\\xff\\xff\\xff\\xff')")
        source.dedent()
        source.indent("else:")

    def _length(self, expression: str, plain_format: str) -> None:
        if self._flexible:
            self._source.line(f"append(unsigned({expression} + 1))")
        else:
            self._source.line(f"append(pack('>{plain_format}', {expression}))")

    def _text(self, field: Field) -> None:
        source = self._source
        if field.type == "string":
            source.line("content = content.encode()")
            source.indent(f"if len(content) > {_LONGEST_STRING}:")
            source.line(f"fail('{field.name} is longer than {_LONGEST_STRING} bytes')")
            source.dedent()
            self._length("len(content)", "h")
        else:
            source.indent("if not isinstance(content, (bytes, bytearray, memoryview)):")
            source.line(f"fail('{field.name} must be bytes')")
            source.dedent()
            self._length("len(content)", "i")
        source.line("append(content)")

    def _array(self, field: Field, function: str | None) -> None:
        source = self._source
        self._length("len(content)", "i")
        if field.type in FIXED_FORMATS:
            source.line(f"append(pack('>%d{FIXED_FORMATS[field.type]}' % len(content), *content))")
            return
        source.indent("for content in content:")
        if function is not None:
            source.line(f"{function}(content, append)")
        elif field.type == "uuid":
            source.line("append(ZERO if content is None else content.bytes)")
        else:
            self._text(field)
        source.dedent()


def _write_tags(append: Any, known: list[tuple[int, bytes]], unknown: dict[str, bytes] | None) -> None:
    """Write a section of tagged fields (KIP-482): in the order of the tags, each at most once."""
    fields = known + [(int(name.removeprefix("_")), content) for name, content in (unknown or {}).items()]
    fields.sort()
    if len({tag for tag, _ in fields}) != len(fields):
        _fail("a tagged field is given twice")
    append(unsigned(len(fields)))
    for tag, content in fields:
        append(unsigned(tag))
        append(unsigned(len(content)))
        append(content)


def _bits(operations: set[int] | None) -> int:
    """The bit field of a set of operation codes, unsigned."""
    if operations is None:
        return _NO_OPERATIONS & 0xFFFF_FFFF
    if any(not 0 <= operation < 32 for operation in operations):
        _fail("an operation code is out of range")
    return sum(1 << operation for operation in operations)


def _fail(what: str) -> NoReturn:
    raise LocalProtocolError(what)


_CONSTANTS: Final = {
    "pack": struct.pack,
    "unsigned": unsigned,
    "write_tags": _write_tags,
    "fail": _fail,
    "bits": _bits,
    "ZERO": bytes(16),
}
