"""`Limits`: what clients may cost a `ReferenceBroker`, where Kafka has no setting for it.

Users make it, the server keeps to it. Limits that Kafka has names for (`max.connections`, `connections.max.idle.ms`, …)
are broker settings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs

from kafka_share.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

_MIB: Final = 1024 * 1024
_MOST: Final = 2**53
"""Any number above says the same."""


def _at_least_one(limits: Limits, attribute: attrs.Attribute[int], value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= _MOST:
        raise ConfigurationError(f"the limit {attribute.name} is a number from 1 on, not {value!r}")


def _limit(default: int, meaning: str) -> int:
    field: int = attrs.field(default=default, validator=_at_least_one, metadata={"meaning": meaning})
    return field


@attrs.frozen(kw_only=True)
class Limits:
    """Times in milliseconds of real time, sizes in bytes. Raises `ConfigurationError`."""

    handshake_ms: int = _limit(30_000, "from the connection to the end of TLS, and then to that of SASL")
    half_request_ms: int = _limit(30_000, "how long the rest of a request may be on its way")
    waiting_requests: int = _limit(64, "requests of one connection behind the one in work; then it is not read")
    waiting_bytes: int = _limit(8 * _MIB, "the same in bytes")
    requests_bytes: int = _limit(256 * _MIB, "requests of all connections that are not answered, half ones too")
    unread_bytes: int = _limit(256 * _MIB, "answers to all connections that are not read, without 64 KiB for each")
    log_lines: int = _limit(100, "lines of the log a minute about what clients do wrong")


LIMIT_MEANINGS: Final = {field.name: str(field.metadata["meaning"]) for field in attrs.fields(Limits)}
"""Name -> what is limited."""


def limits_of(texts: Mapping[str, str]) -> Limits:
    """Limits as they are written on a command line. Raises `ConfigurationError`."""
    numbers = {}
    for name, text in texts.items():
        if name not in LIMIT_MEANINGS:
            raise ConfigurationError(f"there is no limit {name!r}: the names are {', '.join(LIMIT_MEANINGS)}")
        try:
            numbers[name] = int(text)
        except ValueError:
            raise ConfigurationError(f"the limit {name} is a number, not {text!r}") from None
    return Limits(**numbers)
