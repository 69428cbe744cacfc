"""What a line of `kafka-share-console --produce` says: key, value and headers of a record. Pure functions."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import attrs

Header: TypeAlias = tuple[str, bytes]

_WRITTEN: Final = ("key", "value", "headers")
_PRINTED: Final = ("topic", "partition", "offset", "timestamp_ms", "timestamp_type", "delivery_count")
"""Fields that the console prints, and that a new record gets anew."""


class BadLineError(ValueError):
    """A line is no record; the message says what it lacks."""


@attrs.frozen
class Line:
    """One record to write; a value of None is a tombstone."""

    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()


Parse: TypeAlias = Callable[[bytes], Line]
"""Takes a line without its end. Raises `BadLineError`."""


@attrs.frozen
class TextLines:
    """A line is a value, or with a separator a key and a value; the null marker stands for none."""

    separator: bytes | None = None
    null_marker: bytes | None = None
    headers: tuple[Header, ...] = ()

    def __call__(self, line: bytes) -> Line:
        key: bytes | None = None
        value: bytes | None = line
        if self.separator is not None:
            key, found, value = line.partition(self.separator)
            if not found:
                separator = self.separator.decode("utf-8", "backslashreplace")
                raise BadLineError(f"there is no separator {separator!r} in it, which ends the key (--key-separator)")
            key = None if key == self.null_marker else key
        return _checked(Line(key, None if value == self.null_marker else value, self.headers))


@attrs.frozen
class JsonLines:
    """A line is an object as `--format json` prints it: key, value and headers count, where it was read does not."""

    headers: tuple[Header, ...] = ()

    def __call__(self, line: bytes) -> Line:
        try:
            document = json.loads(line)
        except ValueError as error:
            raise BadLineError(f"it is not JSON: {error}") from None
        if not isinstance(document, dict) or "value" not in document:
            raise BadLineError('it is not an object with a "value", which may be null')
        unknown = sorted(set(document) - {*_WRITTEN, *_PRINTED})
        if unknown:
            raise BadLineError(f"there is no field {unknown[0]!r}; a record has {', '.join(_WRITTEN)}")
        own = document.get("headers") or []
        if not isinstance(own, list):
            raise BadLineError('"headers" is a list of [name, value]')
        key, value = _bytes("key", document.get("key")), _bytes("value", document["value"])
        return _checked(Line(key, value, (*map(_header, own), *self.headers)))


def _checked(line: Line) -> Line:
    if line.key is None and line.value is None:
        raise BadLineError("it has neither a key nor a value")
    return line


def _header(pair: Any) -> Header:
    if not isinstance(pair, list) or len(pair) != 2 or not isinstance(pair[0], str):
        raise BadLineError('"headers" is a list of [name, value]')
    value = _bytes("headers", pair[1])
    if value is None:
        raise BadLineError(f"header {pair[0]!r} is null, which kafka-python's producer cannot write")
    return pair[0], value


def _bytes(field: str, value: Any) -> bytes | None:
    if value is None:
        return None
    if isinstance(value, str):
        try:
            return value.encode()
        except UnicodeEncodeError:
            raise BadLineError(f'"{field}" holds half of a character, which no UTF-8 can') from None
    if isinstance(value, dict) and list(value) == ["base64"] and isinstance(value["base64"], str):
        try:
            return base64.b64decode(value["base64"], validate=True)
        except binascii.Error as error:
            raise BadLineError(f'"{field}" is not base64: {error}') from None
    raise BadLineError(f'"{field}" is text, null or {{"base64": …}}; write numbers and objects as text')
