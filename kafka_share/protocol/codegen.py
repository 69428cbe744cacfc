"""Writes the source of a function line by line, and compiles it: what the message encoder and decoder share.

A message is walked once, when its codec is made, instead of each time that it is sent: messages are several times
faster for it. The source is made from the declarations of messages only, never from what a peer sent.
"""

from __future__ import annotations

from typing import Any

from kafka_share.protocol.schema import Field, Struct

FIXED_FORMATS = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "int64": "q",
    "float64": "d",
}
"""The `struct` format of the types that are plain numbers."""

FIXED_SIZES = {"bool": 1, "int8": 1, "int16": 2, "uint16": 2, "int32": 4, "int64": 8, "float64": 8}


class Source:
    """Python source under construction: lines with an indentation, and the constants that they name."""

    def __init__(self, constants: dict[str, Any]) -> None:
        self._lines: list[str] = []
        self._constants = dict(constants)
        self._level = 0
        self._count = 0

    def line(self, text: str) -> None:
        self._lines.append("    " * self._level + text)

    def indent(self, text: str) -> None:
        """A line that opens a block."""
        self.line(text)
        self._level += 1

    def dedent(self) -> None:
        self._level -= 1

    def name(self, prefix: str) -> str:
        """A name that was not used yet."""
        self._count += 1
        return f"{prefix}{self._count}"

    def constant(self, prefix: str, value: Any) -> str:
        """The name of a value that the source may use."""
        name = self.name(prefix)
        self._constants[name] = value
        return name

    def compile(self, title: str, function: str) -> Any:
        """The function of that name; `title` is the file name in tracebacks."""
        exec(compile("\n".join(self._lines), f"<{title}>", "exec"), self._constants)
        return self._constants[function]


def fields_in(struct: Struct, version: int) -> tuple[list[Field], list[Field]]:
    """The fields of a version in wire order: the ordinary ones, and those in the tagged section by tag."""
    present = [field for field in struct.fields if field.in_version(version)]
    tagged = [field for field in present if field.is_tagged(version)]
    return [field for field in present if field not in tagged], sorted(tagged, key=lambda field: field.tag or 0)


def is_plain_number(field: Field) -> bool:
    return not field.is_array and field.type in FIXED_FORMATS


def runs_of_numbers(fields: list[Field]) -> list[list[Field]]:
    """The fields, with neighbours that are plain numbers put together: they are packed in one go."""
    runs: list[list[Field]] = []
    for field in fields:
        if runs and is_plain_number(field) and is_plain_number(runs[-1][-1]):
            runs[-1].append(field)
        else:
            runs.append([field])
    return runs
