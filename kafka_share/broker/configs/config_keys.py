"""The configuration keys of the reference broker: name, type, default, range. Data only; `configs.py` applies it.

Bounds and defaults are those of Kafka 4.3 (KIP-932, KIP-1240). A key of Kafka that this broker would accept and then
ignore is not here on purpose: a setting that does nothing is refused instead. The one exception is the topic key
min.insync.replicas, which tools set as a matter of course, and which a broker that keeps no replicas always meets.
"""

from __future__ import annotations

import enum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import attrs

from kafka_share.protocol.durations import parse_duration_ms

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class ConfigType(enum.IntEnum):
    """The type of a value, as DescribeConfigs names it."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    LONG = 5
    LIST = 7


def _offset_reset(text: str) -> None:
    if text in ("latest", "earliest"):
        return
    prefix, _, duration = text.partition(":")
    if prefix != "by_duration" or parse_duration_ms(duration) < 0:
        raise ValueError("it must be latest, earliest or by_duration:<duration>, such as by_duration:PT1H")


_PASSWORD_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
MECHANISMS: Final = (*_PASSWORD_MECHANISMS, "OAUTHBEARER")


def _mechanisms(text: str) -> None:
    if not text or any(name.strip() not in MECHANISMS for name in text.split(",")):
        raise ValueError(f"it must be one or more of {', '.join(MECHANISMS)}")


@attrs.frozen
class ConfigKey:
    """One key: `low` and `high` bound a number, `choices` a string or the items of a list; `check` raises `ValueError`
    for anything else."""

    name: str
    type: ConfigType
    default: str
    low: int | None = None
    high: int | None = None
    choices: tuple[str, ...] = ()
    check: Callable[[str], None] | None = None
    broker_key: str | None = None
    """Group and topic keys: the broker's key that applies where the resource has no value of its own."""
    low_key: str | None = None
    """The broker's keys that bound a group's value."""
    high_key: str | None = None

    def validate(self, text: str) -> None:
        """Raises `ValueError` with the reason if `text` cannot be a value of this key."""
        if self.type in (ConfigType.INT, ConfigType.LONG):
            self._validate_number(text)
        elif self.type is ConfigType.BOOLEAN and text.lower() not in ("true", "false"):
            raise ValueError(f"{self.name} must be true or false, not {text!r}")
        elif self.choices and self.type is ConfigType.LIST:
            self._validate_list([item.strip() for item in text.split(",")])
        elif self.choices and text not in self.choices:
            raise ValueError(f"{self.name} must be one of {', '.join(self.choices)}, not {text!r}")
        elif self.check is not None:
            try:
                self.check(text)
            except ValueError as error:
                raise ValueError(f"{self.name} cannot be {text!r}: {error}") from None

    def _validate_list(self, items: list[str]) -> None:
        if len(set(items)) != len(items) or not set(items) <= set(self.choices):
            raise ValueError(f"{self.name} must name some of {', '.join(self.choices)}, each once")

    def _validate_number(self, text: str) -> None:
        try:
            number = int(text)
        except ValueError:
            raise ValueError(f"{self.name} must be a whole number, not {text!r}") from None
        if self.low is not None and number < self.low:
            raise ValueError(f"{self.name} must be at least {self.low}, not {number}")
        if self.high is not None and number > self.high:
            raise ValueError(f"{self.name} must be at most {self.high}, not {number}")


_MAX_INT: Final = 2**31 - 1
_MAX_LONG: Final = 2**63 - 1
_MIN_SEGMENT_BYTES: Final = 1_048_576
"""Since Kafka 4.0 (KIP-1030)."""


def _int(name: str, default: int, low: int, high: int = _MAX_INT) -> ConfigKey:
    return ConfigKey(name, ConfigType.INT, str(default), low, high)


def _long(name: str, default: int, low: int, broker_key: str | None = None) -> ConfigKey:
    return ConfigKey(name, ConfigType.LONG, str(default), low, _MAX_LONG, broker_key=broker_key)


def _group_int(kind: str, name: str, default: int) -> ConfigKey:
    return ConfigKey(
        f"{kind}.{name}",
        ConfigType.INT,
        str(default),
        low=0,
        broker_key=f"group.{kind}.{name}",
        low_key=f"group.{kind}.min.{name}",
        high_key=f"group.{kind}.max.{name}",
    )


def _table(*keys: ConfigKey) -> Mapping[str, ConfigKey]:
    return MappingProxyType({key.name: key for key in keys})


BROKER_KEYS: Final = _table(
    _int("group.share.partition.max.record.locks", 2_000, 100, 10_000),
    _int("group.share.min.partition.max.record.locks", 100, 100, 2_000),
    _int("group.share.max.partition.max.record.locks", 4_000, 2_000, 10_000),
    _int("group.share.delivery.count.limit", 5, 2, 10),
    _int("group.share.min.delivery.count.limit", 2, 2, 5),
    _int("group.share.max.delivery.count.limit", 10, 5, 25),
    _int("group.share.record.lock.duration.ms", 30_000, 1_000, 3_600_000),
    _int("group.share.min.record.lock.duration.ms", 15_000, 1_000, 30_000),
    _int("group.share.max.record.lock.duration.ms", 60_000, 30_000, 3_600_000),
    _int("group.share.max.share.sessions", 2_000, 1),
    _int("group.share.max.size", 200, 1, 1_000),
    _int("group.share.session.timeout.ms", 45_000, 1),
    _int("group.share.min.session.timeout.ms", 45_000, 1),
    _int("group.share.max.session.timeout.ms", 60_000, 1),
    _int("group.share.heartbeat.interval.ms", 5_000, 1),
    _int("group.share.min.heartbeat.interval.ms", 5_000, 1),
    _int("group.share.max.heartbeat.interval.ms", 15_000, 1),
    _int("group.share.assignment.interval.ms", 1_000, 0),
    _int("group.share.min.assignment.interval.ms", 0, 0),
    _int("group.share.max.assignment.interval.ms", 15_000, 0),
    _int("group.consumer.max.size", _MAX_INT, 1),
    _int("group.consumer.session.timeout.ms", 45_000, 1),
    _int("group.consumer.min.session.timeout.ms", 45_000, 1),
    _int("group.consumer.max.session.timeout.ms", 60_000, 1),
    _int("group.consumer.heartbeat.interval.ms", 5_000, 1),
    _int("group.consumer.min.heartbeat.interval.ms", 5_000, 1),
    _int("group.consumer.max.heartbeat.interval.ms", 15_000, 1),
    _int("group.consumer.assignment.interval.ms", 1_000, 0),
    _int("group.consumer.min.assignment.interval.ms", 0, 0),
    _int("group.consumer.max.assignment.interval.ms", 15_000, 0),
    _int("group.consumer.regex.refresh.interval.ms", 600_000, 10_000),
    ConfigKey("group.consumer.assignors", ConfigType.LIST, "uniform,range", choices=("uniform", "range")),
    _int("group.initial.rebalance.delay.ms", 3_000, 0),
    _int("group.min.session.timeout.ms", 6_000, 1),
    _int("group.max.session.timeout.ms", 1_800_000, 1),
    _int("group.max.size", _MAX_INT, 1),
    _int("offset.metadata.max.bytes", 4_096, 0),
    _int("transaction.max.timeout.ms", 900_000, 1),
    ConfigKey("auto.create.topics.enable", ConfigType.BOOLEAN, "true"),
    _int("num.partitions", 1, 1, 10_000),
    _int("default.replication.factor", 1, 1, 100),
    _int("message.max.bytes", 1_048_588, 0),
    _int("fetch.max.bytes", 57_671_680, 1_024),
    _int("socket.request.max.bytes", 104_857_600, 1),
    _long("log.retention.ms", 604_800_000, -1),
    _long("log.retention.bytes", -1, -1),
    _long("log.retention.check.interval.ms", 300_000, 1),
    _int("log.segment.bytes", 1_073_741_824, _MIN_SEGMENT_BYTES),
    _long("log.roll.ms", 604_800_000, 1),
    ConfigKey("log.message.timestamp.type", ConfigType.STRING, "CreateTime", choices=("CreateTime", "LogAppendTime")),
    ConfigKey("sasl.enabled.mechanisms", ConfigType.LIST, ",".join(_PASSWORD_MECHANISMS), check=_mechanisms),
    _int("connections.max.reauth.ms", 0, 0),
    _int("connection.failed.authentication.delay.ms", 100, 0),
    _int("sasl.server.max.receive.size", 524_288, 1),
)
"""Keys of a broker (`--config`, resource type 4)."""

GROUP_KEYS: Final = _table(
    _group_int("consumer", "session.timeout.ms", 45_000),
    _group_int("consumer", "heartbeat.interval.ms", 5_000),
    _group_int("consumer", "assignment.interval.ms", 1_000),
    _group_int("share", "session.timeout.ms", 45_000),
    _group_int("share", "heartbeat.interval.ms", 5_000),
    _group_int("share", "record.lock.duration.ms", 30_000),
    _group_int("share", "delivery.count.limit", 5),
    _group_int("share", "partition.max.record.locks", 2_000),
    _group_int("share", "assignment.interval.ms", 1_000),
    ConfigKey("share.auto.offset.reset", ConfigType.STRING, "latest", check=_offset_reset),
    ConfigKey(
        "share.isolation.level",
        ConfigType.STRING,
        "read_uncommitted",
        choices=("read_uncommitted", "read_committed"),
    ),
    ConfigKey("share.renew.acknowledge.enable", ConfigType.BOOLEAN, "true"),
)
"""Keys of a group (resource type 32), which may be set before anybody knows of which type it will be."""

TOPIC_KEYS: Final = _table(
    ConfigKey("max.message.bytes", ConfigType.INT, "1048588", low=0, high=_MAX_INT, broker_key="message.max.bytes"),
    ConfigKey(
        "message.timestamp.type",
        ConfigType.STRING,
        "CreateTime",
        choices=("CreateTime", "LogAppendTime"),
        broker_key="log.message.timestamp.type",
    ),
    ConfigKey("cleanup.policy", ConfigType.LIST, "delete", choices=("delete",)),
    _long("retention.ms", 604_800_000, -1, "log.retention.ms"),
    _long("retention.bytes", -1, -1, "log.retention.bytes"),
    ConfigKey(
        "segment.bytes",
        ConfigType.INT,
        "1073741824",
        low=_MIN_SEGMENT_BYTES,
        high=_MAX_INT,
        broker_key="log.segment.bytes",
    ),
    _long("segment.ms", 604_800_000, 1, "log.roll.ms"),
    ConfigKey("min.insync.replicas", ConfigType.INT, "1", low=1, high=_MAX_INT),
    ConfigKey("compression.type", ConfigType.STRING, "producer", choices=("producer",)),
)
"""Keys of a topic (resource type 2). The log keeps batches as they came and compacts nothing: the keys that would say
otherwise take only the value that says so."""
