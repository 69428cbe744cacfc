"""Lines and documents of the command-line tools on standard output and standard error, made harmless.

Tables and records have their own ways (`groups.tables`, `console`); everything else that holds text from a cluster is
printed here.
"""

from __future__ import annotations

import base64
import json
import sys
from typing import Any

import click

from kafka_share.harmless import UNSAFE, harmless


def print_line(text: str, *, err: bool = False, spaced: bool = False) -> None:
    """One line; `spaced`: after an empty one."""
    click.echo(("\n" if spaced else "") + harmless(text), err=err)


def print_document(document: Any, *, indent: int | None = None, err: bool = False) -> None:
    """One JSON document."""
    click.echo(json_text(document, indent=indent), err=err)


def json_text(document: Any, *, indent: int | None = None, ascii_only: bool = True) -> str:
    """The document as JSON, without a line end; nothing in it controls a terminal, and nothing of it is lost."""
    lines = json.dumps(document, indent=indent, ensure_ascii=ascii_only).split("\n")  # these come from `indent` alone
    return "\n".join(UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", line) for line in lines)


def json_bytes(data: bytes | None) -> str | dict[str, str] | None:
    """Bytes in a document: as text, or as {"base64": …} where they are not UTF-8, so that nothing of them is lost."""
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def accept_every_character() -> None:
    """Have characters that the locale's encoding lacks written as escapes, instead of ending the tool."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")
