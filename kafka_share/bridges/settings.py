"""What a bridge asks of its consumer: the settings that are the bridge's own, beside those of the user."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kafka_share.config import ShareConsumerConfig
from kafka_share.errors import ConfigurationError
from kafka_share.handling.leasing import leasing_settings

_POLL_INTERVAL_MS: Final = 300_000
"""The default of max_poll_interval_ms. The library that a bridge serves asks for nothing while all its workers are
busy, which is no reason to leave the group."""


def bridge_settings(given: Mapping[str, Any], window_records: int, max_lease_ms: int) -> dict[str, Any]:
    """The settings for an open window of this many records. Raises `ConfigurationError` for what cannot be.

    A name that is given dotted and in snake_case counts as it came last: users overrule what a bridge has filled in.
    """
    for name, value in (("window_records", window_records), ("max_lease_ms", max_lease_ms)):
        if type(value) is not int or value < 1:
            raise ConfigurationError(f"{name} is {value!r}: write a whole number from 1")
    own = {"explicit_window_records": window_records, "key_deserializer": None, "value_deserializer": None}
    named = {name.replace(".", "_"): value for name, value in given.items()}
    if max_lease_ms > _POLL_INTERVAL_MS:
        named.setdefault("max_poll_interval_ms", max_lease_ms)
    settings = leasing_settings(named, own, "a bridge", {"explicit_window_records": "window_records"})
    ShareConsumerConfig.from_mapping(settings)  # says now what would be wrong later
    return settings
