"""Which answers wait until what they promise has been synced: a policy for each class of requests.

Whatever it says, bytes are handed to the operating system before an answer leaves, so the death of the broker's process
loses nothing. The policy is about the loss of power. Read by `HeldAnswers`, made by `ReferenceBroker`.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final

import attrs

from kafka_share.broker.api_keys import ApiKey
from kafka_share.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafka_share.broker.events import Message

DEFAULT_INTERVAL_MS: Final = 1_000
MAX_INTERVAL_MS: Final = 3_600_000


class RequestClass(enum.Enum):
    """What requests promise. The values are the names that users write."""

    PRODUCE = "produce"
    """Records with acks=all, transactions, ids of producers."""
    PRODUCE_ACKS_1 = "produce-acks-1"
    """Records with acks=1 or 0: the producer has said that it can do without."""
    SHARE = "share"
    """Acknowledgements of share consumers, in ShareFetch too, and the state of share groups."""
    GROUPS = "groups"
    """Committed offsets and the members of groups."""
    METADATA = "metadata"
    """All else that changes something: topics, configurations, users."""
    READ = "read"
    """What changes nothing. It waits for what others wait for, so that nobody reads what may still be lost."""


class Fsync(enum.Enum):
    """When what a request has written is synced."""

    ALWAYS = "always"
    """Before it is answered."""
    INTERVAL = "interval"
    """Within the interval."""


_CLASSES: Final[Mapping[ApiKey, RequestClass]] = {
    **dict.fromkeys(
        (
            ApiKey.PRODUCE,
            ApiKey.INIT_PRODUCER_ID,
            ApiKey.ADD_PARTITIONS_TO_TXN,
            ApiKey.ADD_OFFSETS_TO_TXN,
            ApiKey.END_TXN,
            ApiKey.WRITE_TXN_MARKERS,
        ),
        RequestClass.PRODUCE,
    ),
    **dict.fromkeys(
        (
            ApiKey.SHARE_FETCH,
            ApiKey.SHARE_ACKNOWLEDGE,
            ApiKey.INITIALIZE_SHARE_GROUP_STATE,
            ApiKey.READ_SHARE_GROUP_STATE,
            ApiKey.WRITE_SHARE_GROUP_STATE,
            ApiKey.DELETE_SHARE_GROUP_STATE,
            ApiKey.ALTER_SHARE_GROUP_OFFSETS,
            ApiKey.DELETE_SHARE_GROUP_OFFSETS,
        ),
        RequestClass.SHARE,
    ),
    **dict.fromkeys(
        (
            ApiKey.OFFSET_COMMIT,
            ApiKey.TXN_OFFSET_COMMIT,
            ApiKey.OFFSET_DELETE,
            ApiKey.JOIN_GROUP,
            ApiKey.SYNC_GROUP,
            ApiKey.LEAVE_GROUP,
            ApiKey.DELETE_GROUPS,
            ApiKey.CONSUMER_GROUP_HEARTBEAT,
            ApiKey.SHARE_GROUP_HEARTBEAT,
        ),
        RequestClass.GROUPS,
    ),
    **dict.fromkeys(
        (
            ApiKey.FETCH,
            ApiKey.LIST_OFFSETS,
            ApiKey.OFFSET_FETCH,
            ApiKey.HEARTBEAT,
            ApiKey.API_VERSIONS,
            ApiKey.SASL_HANDSHAKE,
            ApiKey.SASL_AUTHENTICATE,
            ApiKey.OFFSET_FOR_LEADER_EPOCH,
            ApiKey.GET_TELEMETRY_SUBSCRIPTIONS,
            ApiKey.PUSH_TELEMETRY,
            ApiKey.READ_SHARE_GROUP_STATE_SUMMARY,
        ),
        RequestClass.READ,
    ),
}


def class_of(api_key: int, request: Message) -> RequestClass:
    """The class of a request. An API that is not in the table changes something, unless it describes or lists."""
    key = ApiKey(api_key)
    if key is ApiKey.PRODUCE and request.acks != -1:
        return RequestClass.PRODUCE_ACKS_1
    if key.name.startswith(("DESCRIBE_", "LIST_")) or key.name.endswith("_DESCRIBE"):
        return _CLASSES.get(key, RequestClass.READ)
    return _CLASSES.get(key, RequestClass.METADATA)


@attrs.frozen
class FsyncPolicy:
    """For each class; `interval_ms` is how long synced may lag behind written."""

    modes: Mapping[RequestClass, Fsync]
    interval_ms: int = DEFAULT_INTERVAL_MS

    def awaits_sync(self, request_class: RequestClass) -> bool:
        """Whether answers of this class wait until everything written so far is synced."""
        return self.modes.get(request_class) is Fsync.ALWAYS


_DEFAULT: Final[Mapping[RequestClass, Fsync]] = {
    one: Fsync.INTERVAL if one is RequestClass.PRODUCE_ACKS_1 else Fsync.ALWAYS
    for one in RequestClass
    if one is not RequestClass.READ
}
_ALL: Final = "all"
FSYNC_CLASSES: Final = (_ALL, *(one.value for one in _DEFAULT))
"""What users may name."""


def fsync_policy(settings: Mapping[str, str], interval_ms: int = DEFAULT_INTERVAL_MS) -> FsyncPolicy:
    """The policy with what `settings` say, as in {"share": "interval"}; "all" is every class.

    By default every answer waits but those to producers with acks=1. Raises `ConfigurationError`.
    """
    if unknown := [name for name in settings if name not in FSYNC_CLASSES]:
        raise ConfigurationError(f"fsync has no class {unknown[0]!r}, only {', '.join(FSYNC_CLASSES)}")
    if not 1 <= interval_ms <= MAX_INTERVAL_MS:
        raise ConfigurationError(f"the fsync interval has to be 1 to {MAX_INTERVAL_MS} ms, not {interval_ms}")
    try:
        modes = {name: Fsync(mode) for name, mode in settings.items()}
    except ValueError as error:
        raise ConfigurationError(f"fsync is always or interval: {error}") from None
    common = modes.get(_ALL)
    return FsyncPolicy({one: modes.get(one.value, common or mode) for one, mode in _DEFAULT.items()}, interval_ms)
