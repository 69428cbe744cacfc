"""What a mutated answer that a client can read says otherwise than the broker did, and how long a client believes it.

Most of it is put right by the next sane answer. What has an `Effect` is not: a client that obeys, as it has to, is
kept from its work for a time that is known, or for as long as the effect can be seen. The fuzz asks here before it
complains.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator
from typing import Any, Final

import attrs

from kafka_share.broker.api_keys import ApiKey
from kafka_share.core.outputs import MAX_THROTTLE_MS
from kafka_share.protocol.api_message import MessageStruct

FOR_GOOD_MS: Final = 1 << 60
ASKED: Final = (
    ApiKey.METADATA,
    ApiKey.FIND_COORDINATOR,
    ApiKey.SHARE_GROUP_HEARTBEAT,
    ApiKey.SHARE_FETCH,
    ApiKey.SHARE_ACKNOWLEDGE,
)
"""The APIs that a consumer uses."""


@attrs.frozen
class Difference:
    """One value that differs: the names of the fields on the way to it, without places in lists."""

    path: str
    true: Any
    told: Any


class Effect(enum.Enum):
    """What a lie brings about; the harness looks whether it still does."""

    SILENCE = "to be silent"
    """The client asks nothing on this connection until the time is over."""
    REFUSAL = "that it is refused for good"
    """The client has given up; its polls raise."""
    ASSIGNMENT = "another assignment"
    """The coordinator does not repeat the true one before it changes."""
    INTERVAL = "another heartbeat interval"
    """The next heartbeat, and all news that its answer would bring, are far away."""
    VERSIONS = "other versions of the APIs"
    """Versions are asked for once on each connection."""


@attrs.frozen
class Lie:
    """Something untrue that a client has to believe for a while: until `until_ms`, if that is known."""

    client: str
    wire_id: int
    effect: Effect
    until_ms: int
    detail: str

    def __str__(self) -> str:
        return f"{self.client} was told {self.effect.value} ({self.detail})"


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


def lasting_lies(
    api_key: int, client: str, wire_id: int, true: Any, told: Any, now_ms: int, apis: Iterable[ApiKey] = ASKED
) -> Iterator[Lie]:
    """The lies of one answer that the next sane answer does not put right; `apis` are those that the client uses."""
    if api_key == ApiKey.API_VERSIONS:
        wrong = [key.name for key in apis if _versions(true, key) != _versions(told, key)]
        if wrong:
            yield Lie(client, wire_id, Effect.VERSIONS, FOR_GOOD_MS, f"those of {', '.join(wrong)}")
    for difference in differences(true, told):
        effect = _effect(api_key, difference)
        if effect is not None:
            detail = f"{difference.path}: {_short(difference.true)} -> {_short(difference.told)}"
            yield Lie(client, wire_id, effect, _until_ms(effect, difference, now_ms), detail)


def _versions(response: Any, key: ApiKey) -> list[tuple[int, int]]:
    return [(api.min_version, api.max_version) for api in response.api_keys if api.api_key == key]


def _effect(api_key: int, difference: Difference) -> Effect | None:
    path, told = difference.path, difference.told
    if path == "throttle_time_ms":
        return Effect.SILENCE if told > 0 else None
    if api_key in (ApiKey.SHARE_GROUP_HEARTBEAT, ApiKey.FIND_COORDINATOR) and path.endswith("error_code"):
        return Effect.REFUSAL
    if api_key == ApiKey.SHARE_GROUP_HEARTBEAT and path.startswith("assignment"):
        return Effect.ASSIGNMENT
    if api_key == ApiKey.SHARE_GROUP_HEARTBEAT and path == "heartbeat_interval_ms":
        return Effect.INTERVAL
    return None


def _until_ms(effect: Effect, difference: Difference, now_ms: int) -> int:
    if effect is Effect.SILENCE:
        return now_ms + min(int(difference.told), MAX_THROTTLE_MS)
    return now_ms + max(0, int(difference.told)) if effect is Effect.INTERVAL else FOR_GOOD_MS


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:80] + "…"
