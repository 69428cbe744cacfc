"""What the value of a setting may be: each check passes a value on, or refuses it with a `ConfigurationError`.

Called by `config` for each setting when its class is made. A refusal names the setting and says what to write. It never
shows the value: what stands in the wrong place, or has the wrong type, may be a password. Only a whole number where a
number belongs is shown, and the path of a file. No error of another library is chained to it, which might show more.
"""

from __future__ import annotations

import difflib
import os
import re
import ssl
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import attrs

from kafka_share.deserializers import Deserializer, as_deserializer
from kafka_share.errors import ConfigurationError, InvalidGroupIdError
from kafka_share.records import Node

Check = Callable[[Any, "attrs.Attribute[Any]", Any], None]

_INT32_MAX: Final = 2**31 - 1
_HOST: Final = re.compile(r"[\w.-]+|\[[0-9A-Fa-f:.]+(%\w+)?\]")
_PEM: Final = "-----BEGIN"


def _kind(value: object) -> str:
    return value.__class__.__name__


# ---- attrs validators


def whole_number(low: int, high: int = _INT32_MAX) -> Check:
    def check(_: Any, attribute: attrs.Attribute[int], value: Any) -> None:
        if isinstance(value, bool) or not isinstance(value, int):
            hint = ": write it without quotes" if isinstance(value, str) else ""
            raise ConfigurationError(f"{attribute.name} is a whole number, not {_kind(value)}{hint}")
        if not low <= value <= high:
            raise ConfigurationError(f"{attribute.name} is {value}; allowed are {low} to {high}")

    return check


def one_of(*choices: str) -> Check:
    def check(_: Any, attribute: attrs.Attribute[str], value: Any) -> None:
        if not isinstance(value, str):
            raise ConfigurationError(f"{attribute.name} is text, one of {', '.join(choices)}; not {_kind(value)}")
        if value not in choices:
            spelling = {choice.lower(): choice for choice in choices}
            close = difflib.get_close_matches(value.lower(), spelling, n=1)
            hint = f"; did you mean {spelling[close[0]]}?" if close else ""
            raise ConfigurationError(f"{attribute.name} is one of {', '.join(choices)}{hint}")

    return check


def boolean(_: Any, attribute: attrs.Attribute[bool], value: Any) -> None:
    if not isinstance(value, bool):
        raise ConfigurationError(f"{attribute.name} is True or False, not {_kind(value)}")


def text(_: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
    if value is not None and not isinstance(value, str):
        hint = ": decode it" if isinstance(value, bytes | bytearray) else ""
        raise ConfigurationError(f"{attribute.name} is text, not {_kind(value)}{hint}")
    if value is not None and any("\ud800" <= character <= "\udfff" for character in value):
        raise ConfigurationError(f"{attribute.name} has a character that has no UTF-8 form (half of a surrogate pair)")


def file_path(_: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
    if value is not None and not isinstance(value, str):
        raise ConfigurationError(f"{attribute.name} is the path of a file as text or Path, not {_kind(value)}")
    if value is not None and _PEM in value:
        raise ConfigurationError(f"{attribute.name} is the path of a PEM file, not what stands in it")


def tls_context(_: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
    if value is not None and not isinstance(value, ssl.SSLContext):
        raise ConfigurationError(f"{attribute.name} is an ssl.SSLContext, not {_kind(value)}")


def group_id(_: Any, __: attrs.Attribute[str], value: Any) -> None:
    if value is not None and not isinstance(value, str):
        raise ConfigurationError(f"group_id is text, not {_kind(value)}") from InvalidGroupIdError()
    if value is None or not value.strip():
        raise ConfigurationError("group_id is required: the share group to be a member of") from InvalidGroupIdError()


# ---- attrs converters


def upper(value: Any) -> Any:
    return value.upper() if isinstance(value, str) else value


def lower(value: Any) -> Any:
    return value.lower() if isinstance(value, str) else value


def none_if_empty(value: Any) -> Any:
    return None if value == "" else value


def path_text(value: Any) -> Any:
    return os.fspath(value) if isinstance(value, os.PathLike) else value


def deserializer(value: Any) -> Deserializer | None:
    try:
        return as_deserializer(value)
    except TypeError as error:
        refusal = str(error)
    raise ConfigurationError(refusal)


def servers(value: object) -> tuple[Node, ...]:
    """The bootstrap addresses as nodes -1, -2, … : "host:port,host:port" or an iterable of "host:port"."""
    if isinstance(value, bytes | Mapping) or not isinstance(value, Iterable):
        raise ConfigurationError(
            f'bootstrap_servers is "host:port,host:port" or a list of "host:port", not {_kind(value)}'
        )
    texts: list[Any] = value.split(",") if isinstance(value, str) else list(value)
    texts = [t.strip() if isinstance(t, str) else t for t in texts if t]
    if not texts:
        raise ConfigurationError("bootstrap_servers is required: one or more host:port")
    return tuple(_node(i, address, len(texts)) for i, address in enumerate(texts))


def _node(index: int, address: Any, count: int) -> Node:
    """One address; a refusal tells which one by its position, since a URL with a password is no rare mistake."""
    where = "bootstrap_servers" if count == 1 else f"bootstrap_servers, address {index + 1} of {count},"
    if not isinstance(address, str):
        raise ConfigurationError(f'{where} is not host:port: it is {_kind(address)}, write "host:port"')
    if "@" in address:
        raise ConfigurationError(
            f"{where} is not host:port: there is an @ in it; user and password are "
            "sasl_plain_username and sasl_plain_password"
        )
    if "/" in address:
        raise ConfigurationError(f"{where} is not host:port: write it without a scheme and without slashes")
    host, _, port = address.rpartition(":")
    if not _HOST.fullmatch(host) or not (port.isascii() and port.isdecimal()) or not 0 < int(port[:6]) < 65536:
        raise ConfigurationError(f"{where} is not host:port (IPv6: [address]:port)")
    return Node(-1 - index, host.strip("[]"), int(port))
