"""The value of `sasl.jaas.config` in a Java property file: a login module and its options.

`command_config` calls it. Passwords never get into a message.
"""

from __future__ import annotations

import re
from typing import Final

import attrs

from kafka_share.errors import ConfigurationError

PLAIN: Final = "PlainLoginModule"
SCRAM: Final = "ScramLoginModule"

_FLAGS: Final = "required|requisite|sufficient|optional"
_OPTION: Final = re.compile(r"""\s*([\w.]+)\s*=\s*("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[^\s;"'=]+)""", re.DOTALL)
_ENTRY: Final = re.compile(rf"\s*([\w.$]+)\s+(?:{_FLAGS})\b(?P<options>.*);\s*", re.DOTALL | re.IGNORECASE)
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)
_SHAPE: Final = 'a login module, "required", options such as username="…" password="…", and a semicolon at the end'


@attrs.frozen
class LoginModule:
    """`name` is the class without its package; `options` are the texts without quotes."""

    name: str
    options: dict[str, str] = attrs.field(repr=False)


def parse_jaas(text: str) -> LoginModule:
    """Read one login module, as Kafka's clients take it: exactly one, with its semicolon.

    Raises `ConfigurationError` if the text has another shape; the message has nothing of the options' values.
    """
    entry = _ENTRY.fullmatch(text)
    if entry is None:
        raise ConfigurationError(f"sasl.jaas.config cannot be read: it is {_SHAPE}")
    options: dict[str, str] = {}
    rest, position = entry["options"], 0
    while rest[position:].strip():
        option = _OPTION.match(rest, position)
        if option is None:
            last = list(options)[-1] if options else ""
            known = f" behind {last}" if last in ("username", "password") else ""
            raise ConfigurationError(f"sasl.jaas.config cannot be read{known}: it is {_SHAPE}")
        options[option[1]] = _unquoted(option[2])
        position = option.end()
    return LoginModule(entry[1].rpartition(".")[2], options)


def _unquoted(value: str) -> str:
    return _ESCAPED.sub(r"\1", value[1:-1]) if value[0] in "\"'" else value
