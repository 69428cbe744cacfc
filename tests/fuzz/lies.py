"""What a mutated answer that a client can read says otherwise than the broker did, and how long a client believes it.

Most of it is put right by the next sane answer. What is listed in `LASTING` is not: a client that obeys, as it has to,
may be kept from its work until then. The harness of the fuzz asks here before it complains.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import attrs

from kafka_share.broker.api_keys import ApiKey
from kafka_share.core.outputs import MAX_THROTTLE_MS
from kafka_share.errors import BrokerError, error_for_code
from kafka_share.protocol.api_message import MessageStruct

FOR_GOOD_MS: Final = 1 << 60


@attrs.frozen
class Difference:
    """One value that differs: the names of the fields on the way to it, without places in lists."""

    path: str
    true: Any
    told: Any


@attrs.frozen
class Lie:
    """Something untrue that a client has to believe until `until_ms` of virtual time."""

    client: str
    what: str
    until_ms: int

    def __str__(self) -> str:
        return f"{self.client} was told {self.what}"


def differences(true: Any, told: Any, path: str = "") -> Iterator[Difference]:
    """Where two values of the same type of message differ. Lists of other lengths differ as a whole."""
    if isinstance(true, MessageStruct) and type(told) is type(true):
        for name in true.declared_fields:
            inner = f"{path}.{name}" if path else name
            yield from differences(getattr(true, name), getattr(told, name), inner)
    elif isinstance(true, list) and isinstance(told, list) and len(true) == len(told):
        for one, other in zip(true, told, strict=True):
            yield from differences(one, other, path)
    elif true != told:
        yield Difference(path, true, told)


def lasting_lies(api_key: int, client: str, true: Any, told: Any, now_ms: int) -> Iterator[Lie]:
    """The lies of one answer that the next sane answer does not put right."""
    found = list(differences(true, told))
    if told.throttle_time_ms > 0 if hasattr(told, "throttle_time_ms") else False:
        span_ms = min(told.throttle_time_ms, MAX_THROTTLE_MS)
        yield Lie(client, f"to be silent for {span_ms} ms", now_ms + span_ms)
    for difference in found:
        what = _what_lasts(api_key, difference)
        if what is not None:
            yield Lie(client, f"{what} ({difference.path}: {_short(difference.true)} -> {_short(difference.told)})", _until(difference, now_ms))


def _what_lasts(api_key: int, difference: Difference) -> str | None:
    path, told = difference.path, difference.told
    if api_key == ApiKey.SHARE_GROUP_HEARTBEAT:
        if path == "error_code" and _is_fatal(error_for_code(told)):
            return "that the group refuses it for good"
        if path.startswith("assignment"):
            return "another assignment, which is not sent again until it changes"
        if path == "heartbeat_interval_ms":
            return "another heartbeat interval, until the next heartbeat"
    if api_key == ApiKey.FIND_COORDINATOR and path.endswith("error_code") and _is_fatal(error_for_code(told)):
        return "that the group refuses it for good"
    if api_key == ApiKey.API_VERSIONS and path.startswith("api_keys"):
        return "other versions, for the life of the connection"
    return None


def _is_fatal(error: BrokerError | None) -> bool:
    return error is not None and not error.retriable


def _until(difference: Difference, now_ms: int) -> int:
    if difference.path == "heartbeat_interval_ms":
        return now_ms + int(difference.told)
    return FOR_GOOD_MS


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:80] + "…"
