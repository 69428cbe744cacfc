"""Validators and converters of settings: what a value may be, and the sentence that says so when it is not.

Used by the classes of `kafka_share.config`; every refusal is a `ConfigurationError` with the setting's name in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

import attrs

from kafka_share.deserializers import Deserializer, as_deserializer
from kafka_share.errors import ConfigurationError, InvalidGroupIdError
from kafka_share.records import Node

INT32_MAX: Final = 2**31 - 1


def integer(low: int, high: int = INT32_MAX) -> Callable[[Any, attrs.Attribute[int], Any], None]:
    def check(_: Any, attribute: attrs.Attribute[int], value: Any) -> None:
        if isinstance(value, bool) or not isinstance(value, int):
            raise ConfigurationError(f"{attribute.name} is a whole number, not {value!r}")
        if not low <= value <= high:
            raise ConfigurationError(f"{attribute.name} is {value}; allowed are {low} to {high}")

    return check


def one_of(*choices: str) -> Callable[[Any, attrs.Attribute[str], Any], None]:
    def check(_: Any, attribute: attrs.Attribute[str], value: Any) -> None:
        if value not in choices:
            raise ConfigurationError(f"{attribute.name} is {value!r}; allowed are {', '.join(choices)}")

    return check


def boolean(_: Any, attribute: attrs.Attribute[bool], value: Any) -> None:
    if not isinstance(value, bool):
        raise ConfigurationError(f"{attribute.name} is True or False, not {value!r}")


def text(_: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
    if value is not None and not isinstance(value, str):
        raise ConfigurationError(f"{attribute.name} is text, not {value!r}")


def check_group_id(_: Any, __: attrs.Attribute[str], value: Any) -> None:
    if not isinstance(value, str) or not value.strip():
        raise ConfigurationError("group_id is required: the share group to be a member of") from InvalidGroupIdError()


def deserializer(value: Any) -> Deserializer | None:
    try:
        return as_deserializer(value)
    except TypeError as error:
        raise ConfigurationError(str(error)) from None


def upper(value: Any) -> Any:
    return value.upper() if isinstance(value, str) else value


def lower(value: Any) -> Any:
    return value.lower() if isinstance(value, str) else value


def servers(value: str | Iterable[str]) -> tuple[Node, ...]:
    """The bootstrap addresses as nodes -1, -2, … : "host:port,host:port" or an iterable of "host:port"."""
    texts: list[Any] = value.split(",") if isinstance(value, str) else list(value)
    texts = [t.strip() if isinstance(t, str) else t for t in texts if t]
    if not texts:
        raise ConfigurationError("bootstrap_servers is required: one or more host:port")
    nodes = []
    for i, text in enumerate(texts):
        host, _, port = text.rpartition(":") if isinstance(text, str) else ("", "", "")
        if not host or not port.isdecimal() or not 0 < int(port) < 65536 or (":" in host and host[0] != "["):
            raise ConfigurationError(f"bootstrap_servers has {text!r}, which is not host:port (IPv6: [address]:port)")
        nodes.append(Node(-1 - i, host.strip("[]"), int(port)))
    return tuple(nodes)
