"""What a bridge asks of its consumer: the settings that are the bridge's own, beside those of the user."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from kafka_share.config import ShareConsumerConfig
from kafka_share.errors import ConfigurationError

_OWN: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "share_acknowledgement_mode": "explicit",
        "protect_locks": True,
        "send_ahead": False,
    }
)


def bridge_settings(given: Mapping[str, Any], window_records: int, max_lease_ms: int) -> dict[str, Any]:
    """The settings for an open window of this many records. Raises `ConfigurationError` for what cannot be."""
    for name, value in (("window_records", window_records), ("max_lease_ms", max_lease_ms)):
        if type(value) is not int or value < 1:
            raise ConfigurationError(f"{name} is {value!r}: write a whole number from 1")
    settings = {name.replace(".", "_"): value for name, value in given.items()}
    for name in (*_OWN, "explicit_window_records", "key_deserializer", "value_deserializer"):
        if name in settings:
            raise ConfigurationError(f"{name} cannot be set on a bridge, which sets it itself")
    settings.setdefault("share_acquire_mode", "record_limit")
    settings |= {**_OWN, "explicit_window_records": window_records}
    ShareConsumerConfig.from_mapping(settings)  # says now what would be wrong later
    return settings
