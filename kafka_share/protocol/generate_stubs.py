"""Write the type stubs of the message modules from their schemas.

    python -m kafka_share.protocol.generate_stubs            write
    python -m kafka_share.protocol.generate_stubs --check    exit 1 if a stub is not what would be written

Run by developers after a change of a schema; a test runs the check. Not used at run time.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from kafka_share.protocol import (
    classic,
    share_acknowledge,
    share_fetch,
    share_group,
    share_offsets,
    share_state,
    telemetry,
)
from kafka_share.protocol.schema import schema_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafka_share.protocol.schema import Field, Struct

MODULES = (classic, share_acknowledge, share_fetch, share_group, share_offsets, share_state, telemetry)

PYTHON_TYPES = {
    "bool": "bool",
    "int8": "int",
    "int16": "int",
    "uint16": "int",
    "int32": "int",
    "int64": "int",
    "float64": "float",
    "string": "str",
    "uuid": "uuid.UUID",
    "bytes": "bytes",
    "records": "bytes | memoryview",
    "bitfield": "set[int]",
}

HEADER = '''\
"""Generated from the schemas by kafka_share.protocol.generate_stubs: do not edit."""

import uuid

from kafka_share.protocol.api_message import ApiMessage, MessageStruct

__all__ = [
'''


def stub_of(module: ModuleType) -> str:
    """The text of the stub of a message module."""
    exported = "".join(f'    "{name}",\n' for name in module.__all__)
    classes = [
        "\n".join(_class_lines(name, "ApiMessage", schema_of(getattr(module, name)).struct, ""))
        for name in module.__all__
    ]
    return HEADER + exported + "]\n\n" + "\n\n".join(classes) + "\n"


def python_type(field: Field) -> str:
    """The annotation of a field. A UUID of zeros is None, and None is a set of operations that was not sent."""
    element = field.type if field.struct is not None else PYTHON_TYPES[field.type]
    if field.is_array:
        if field.type == "uuid":
            element += " | None"
        element = f"list[{element}]"
    elif field.type in ("uuid", "bitfield"):
        return element + " | None"
    return element + " | None" if field.nullable[0] <= field.nullable[1] or _is_tagged_struct(field) else element


def _is_tagged_struct(field: Field) -> bool:
    """A tagged struct that was not sent is None."""
    return field.tag is not None and field.struct is not None and not field.is_array


def _class_lines(name: str, base: str, struct: Struct, indent: str) -> Iterator[str]:
    yield f"{indent}class {name}({base}):"
    inner = indent + "    "
    seen: list[str] = []
    for field in struct.fields:
        if field.struct is not None and field.type not in seen:
            seen.append(field.type)
            yield from _class_lines(field.type, "MessageStruct", field.struct, inner)
    for field in struct.fields:
        yield f"{inner}{field.name}: {python_type(field)}"
    yield f"{inner}def __init__("
    yield f"{inner}    self,"
    yield f"{inner}    *,"
    for field in struct.fields:
        yield f"{inner}    {field.name}: {python_type(field)}{' = ...' if field.has_default else ''},"
    yield f"{inner}    version: int | None = None,"
    yield f"{inner}) -> None: ..."


def stub_path(module: ModuleType) -> Path:
    """Where the stub of a module lies."""
    if module.__file__ is None:
        raise ValueError(f"{module.__name__} has no file")
    return Path(module.__file__).with_suffix(".pyi")


def outdated() -> list[Path]:
    """The stubs that are missing or differ from what the schemas say."""
    return [
        path
        for module in MODULES
        if not (path := stub_path(module)).exists() or path.read_text(encoding="utf-8") != stub_of(module)
    ]


def main(arguments: list[str]) -> int:
    """Write the stubs, or with --check only compare them. Answers the exit code."""
    if arguments == ["--check"]:
        wrong = outdated()
        for path in wrong:
            sys.stderr.write(f"out of date: {path}\n")
        return 1 if wrong else 0
    if arguments:
        sys.stderr.write("usage: python -m kafka_share.protocol.generate_stubs [--check]\n")
        return 2
    for module in MODULES:
        stub_path(module).write_text(stub_of(module), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
