"""The broker settings that a `ReferenceBroker` begins with: what its maker wrote, and where it differs from Kafka.

`reference_broker` asks for them; the command line lists the defaults.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafka_share.broker.configs.config_keys import BROKER_KEYS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafka_share.broker.kafka_version import Behaviour

EMBEDDED_DEFAULTS: Final = {
    "group.share.assignment.interval.ms": "0",
    "group.consumer.assignment.interval.ms": "0",
    "group.initial.rebalance.delay.ms": "0",
    "log.retention.ms": "-1",
    "max.connections": "10000",
}
"""Where this broker differs from Kafka unless it is configured otherwise: a member gets its assignment as soon as it
can be computed, also when another one joined its share or consumer group within the same second, the first member of a
classic group does not wait three seconds for others, records stay, whatever their timestamps are, and the number of
connections has a limit."""


def broker_settings(nodes: int, config: Mapping[str, str | int | bool], behaviour: Behaviour) -> dict[str, str]:
    """The static broker settings. Kafka's own default, asked for by name, counts as not set, as it would in Kafka."""
    defaults = {name: value for name, value in EMBEDDED_DEFAULTS.items() if name not in behaviour.absent_config_keys}
    settings = {**defaults, "default.replication.factor": str(min(nodes, 3))}
    settings.update({name: config_text(value) for name, value in config.items()})
    for name in defaults:
        if settings[name] == BROKER_KEYS[name].default:
            del settings[name]
    return settings


def config_text(value: str | int | bool) -> str:
    """A configuration value as Kafka writes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
