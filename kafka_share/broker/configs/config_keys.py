"""The configuration keys of the reference broker: name, type, default, range. Data only; `configs.py` applies it.

Bounds and defaults are those of Kafka 4.3 (KIP-932, KIP-1240). All keys of topics are here, because tools set them as a
matter of course: those that say how a broker stores what it has (`has_effect` False) are checked and kept, and change
nothing. What would be missed if it had no effect is refused: recompression by the broker.
"""

from __future__ import annotations

import enum
import re
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

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
    DOUBLE = 6
    LIST = 7


def _offset_reset(text: str) -> None:
    if text in ("latest", "earliest"):
        return
    prefix, _, duration = text.partition(":")
    if prefix != "by_duration" or parse_duration_ms(duration) < 0:
        raise ValueError("it must be latest, earliest or by_duration:<duration>, such as by_duration:PT1H")


_PASSWORD_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
MECHANISMS: Final = (*_PASSWORD_MECHANISMS, "OAUTHBEARER")


def _dead_letter_topic(text: str) -> None:
    if text.startswith("__"):
        raise ValueError("the name of a dead-letter topic cannot begin with __")


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
    is_dynamic: bool = False
    """Broker keys: whether admins can change it (Kafka's update mode "cluster-wide")."""
    may_be_empty: bool = False
    """Lists with `choices`: whether it may name none of them."""
    has_effect: bool = True

    def validate(self, text: str) -> None:
        """Raises `ValueError` with the reason if `text` cannot be a value of this key."""
        if self.type in (ConfigType.INT, ConfigType.LONG) and self.check is None:
            self._validate_number(text)
        elif self.type is ConfigType.DOUBLE:
            self._validate_fraction(text)
        elif self.type is ConfigType.BOOLEAN and text.strip().lower() not in ("true", "false"):
            raise ValueError(f"{self.name} must be true or false, not {text!r}")
        elif self.choices and self.type is ConfigType.BOOLEAN and text.strip().lower() not in self.choices:
            raise ValueError(f"{self.name} can only be {self.choices[0]} here")
        elif self.choices and self.type is ConfigType.LIST:
            self._validate_list(items_of(text))
        elif self.choices and text not in self.choices:
            raise ValueError(f"{self.name} must be one of {', '.join(self.choices)}, not {text!r}")
        elif self.check is not None:
            try:
                self.check(text)
            except ValueError as error:
                raise ValueError(f"{self.name} cannot be {text!r}: {error}") from None

    def _validate_list(self, items: list[str]) -> None:
        if len(set(items)) != len(items) or not set(items) <= set(self.choices) or not (items or self.may_be_empty):
            raise ValueError(f"{self.name} must name some of {', '.join(self.choices)}, each once")

    def _validate_number(self, text: str) -> None:
        try:
            number = int(text.replace("_", "?"))  # which only Python would skip
        except ValueError:
            raise ValueError(f"{self.name} must be a whole number, not {text!r}") from None
        if self.low is not None and number < self.low:
            raise ValueError(f"{self.name} must be at least {self.low}, not {number}")
        if self.high is not None and number > self.high:
            raise ValueError(f"{self.name} must be at most {self.high}, not {number}")

    def _validate_fraction(self, text: str) -> None:
        try:
            is_fraction = 0 <= float(text) <= 1
        except ValueError:
            is_fraction = False
        if not is_fraction:
            raise ValueError(f"{self.name} must be a number from 0 to 1, not {text!r}")


def items_of(text: str) -> list[str]:
    """The items of a list's value."""
    return [item.strip() for item in text.split(",")] if text.strip() else []


_MAX_INT: Final = 2**31 - 1
_MAX_LONG: Final = 2**63 - 1
_MIN_SEGMENT_BYTES: Final = 1_048_576
"""Since Kafka 4.0 (KIP-1030)."""


def _int(name: str, default: int, low: int, high: int = _MAX_INT, **fields: Any) -> ConfigKey:
    return ConfigKey(name, ConfigType.INT, str(default), low, high, **fields)


def _long(name: str, default: int, low: int, broker_key: str | None = None, **fields: Any) -> ConfigKey:
    return ConfigKey(name, ConfigType.LONG, str(default), low, _MAX_LONG, broker_key=broker_key, **fields)


def _flag(name: str, default: str = "false", **fields: Any) -> ConfigKey:
    return ConfigKey(name, ConfigType.BOOLEAN, default, **fields)


def _group_int(kind: str, name: str, default: int, low: int = 1) -> ConfigKey:
    return ConfigKey(
        f"{kind}.{name}",
        ConfigType.INT,
        str(default),
        low=low,
        broker_key=f"group.{kind}.{name}",
        low_key=f"group.{kind}.min.{name}",
        high_key=f"group.{kind}.max.{name}",
    )


def _table(*keys: ConfigKey) -> Mapping[str, ConfigKey]:
    return MappingProxyType({key.name: key for key in keys})


_POLICIES: Final = ("compact", "delete")

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
    ConfigKey(
        "group.consumer.migration.policy",
        ConfigType.STRING,
        "bidirectional",
        choices=("disabled", "upgrade", "downgrade", "bidirectional"),
    ),
    _int("group.initial.rebalance.delay.ms", 3_000, 0),
    _int("group.min.session.timeout.ms", 6_000, 1),
    _int("group.max.session.timeout.ms", 1_800_000, 1),
    _int("group.max.size", _MAX_INT, 1),
    _int("offset.metadata.max.bytes", 4_096, 0),
    _int("transaction.max.timeout.ms", 900_000, 1),
    _int("transactional.id.expiration.ms", 604_800_000, 1),
    _int("transaction.remove.expired.transaction.cleanup.interval.ms", 3_600_000, 1),
    _int("producer.id.expiration.ms", 86_400_000, 1, is_dynamic=True),
    _int("producer.id.expiration.check.interval.ms", 600_000, 1),
    _int("offsets.topic.num.partitions", 50, 1, 1_000),
    _int("share.coordinator.state.topic.num.partitions", 50, 1, 1_000),
    _int("share.coordinator.snapshot.update.records.per.snapshot", 500, 0, 500),
    _int("share.coordinator.state.topic.prune.interval.ms", 300_000, 1),
    _int("share.coordinator.cold.partition.snapshot.interval.ms", 300_000, 1),
    _flag("auto.create.topics.enable", "true"),
    _int("num.partitions", 1, 1, 10_000),
    _int("default.replication.factor", 1, 1, 100),
    _int("message.max.bytes", 1_048_588, 0, is_dynamic=True),
    _int("fetch.max.bytes", 57_671_680, 1_024),
    _int("socket.request.max.bytes", 104_857_600, 1),
    _int("max.connections", _MAX_INT, 0, is_dynamic=True),
    _int("max.connections.per.ip", _MAX_INT, 0, is_dynamic=True),
    _long("connections.max.idle.ms", 600_000, -1),
    _long("log.retention.ms", 604_800_000, -1, is_dynamic=True),
    _long("log.retention.bytes", -1, -1, is_dynamic=True),
    _long("log.retention.check.interval.ms", 300_000, 1),
    _int("log.segment.bytes", 1_073_741_824, _MIN_SEGMENT_BYTES, is_dynamic=True),
    _long("log.roll.ms", 604_800_000, 1, is_dynamic=True),
    ConfigKey(
        "log.message.timestamp.type",
        ConfigType.STRING,
        "CreateTime",
        choices=("CreateTime", "LogAppendTime"),
        is_dynamic=True,
    ),
    _long("log.message.timestamp.before.max.ms", _MAX_LONG, 0, is_dynamic=True),
    _long("log.message.timestamp.after.max.ms", 3_600_000, 0, is_dynamic=True),
    ConfigKey("log.cleanup.policy", ConfigType.LIST, "delete", choices=_POLICIES, may_be_empty=True, is_dynamic=True),
    _long("log.cleaner.backoff.ms", 15_000, 0, is_dynamic=True),
    _long("log.cleaner.delete.retention.ms", 86_400_000, 0, is_dynamic=True),
    _long("log.cleaner.min.compaction.lag.ms", 0, 0, is_dynamic=True),
    _long("log.cleaner.max.compaction.lag.ms", _MAX_LONG, 1, is_dynamic=True),
    ConfigKey("log.cleaner.min.cleanable.ratio", ConfigType.DOUBLE, "0.5", is_dynamic=True),
    ConfigKey("sasl.enabled.mechanisms", ConfigType.LIST, ",".join(_PASSWORD_MECHANISMS), check=_mechanisms),
    _int("connections.max.reauth.ms", 0, 0),
    _int("connection.failed.authentication.delay.ms", 100, 0),
    _int("sasl.server.max.receive.size", 524_288, 1),
    _flag("errors.deadletterqueue.auto.create.topics.enable", is_dynamic=True),
    ConfigKey("errors.deadletterqueue.topic.name.prefix", ConfigType.STRING, "dlq.", is_dynamic=True),
)
"""Keys of a broker (`--config`, resource type 4)."""

GROUP_KEYS: Final = _table(
    _group_int("consumer", "session.timeout.ms", 45_000),
    _group_int("consumer", "heartbeat.interval.ms", 5_000),
    _group_int("consumer", "assignment.interval.ms", 1_000, low=0),
    _group_int("share", "session.timeout.ms", 45_000),
    _group_int("share", "heartbeat.interval.ms", 5_000),
    _group_int("share", "record.lock.duration.ms", 30_000),
    _group_int("share", "delivery.count.limit", 5, low=2),
    _group_int("share", "partition.max.record.locks", 2_000, low=100),
    _group_int("share", "assignment.interval.ms", 1_000, low=0),
    ConfigKey("share.auto.offset.reset", ConfigType.STRING, "latest", check=_offset_reset),
    ConfigKey(
        "share.isolation.level",
        ConfigType.STRING,
        "read_uncommitted",
        choices=("read_uncommitted", "read_committed"),
    ),
    _flag("share.renew.acknowledge.enable", "true"),
    ConfigKey("errors.deadletterqueue.topic.name", ConfigType.STRING, "", check=_dead_letter_topic),
    _flag("errors.deadletterqueue.copy.record.enable"),
)
"""Keys of a group (resource type 32), which may be set before anybody knows of which type it will be."""

_REPLICA: Final = re.compile(r"\d+:\d+")
_CLIENT_PATTERN: Final = re.compile(
    r"(?:client_instance_id|client_id|client_software_name|client_software_version|client_source_address"
    r"|client_source_port)=(.+)"
)


def _client_patterns(text: str) -> None:
    for item in items_of(text):
        found = _CLIENT_PATTERN.fullmatch(item)
        try:
            usable = found is not None and re.compile(found[1]) is not None
        except re.error:
            usable = False
        if not usable:
            raise ValueError(f"{item!r} does not say what to match, as client_id=REGEX does")


def _replicas(text: str) -> None:
    if text.strip() != "*" and any(not _REPLICA.fullmatch(item) for item in items_of(text)):
        raise ValueError("it must be * or a list of PARTITION:NODE")


def _unused_long(name: str, default: int, low: int) -> ConfigKey:
    return _long(name, default, low, has_effect=False)


def _unused_int(name: str, default: int, low: int, high: int = _MAX_INT) -> ConfigKey:
    return _int(name, default, low, high, has_effect=False)


def _gzip_level(text: str) -> None:
    if text.strip() not in ("-1", *map(str, range(1, 10))):
        raise ValueError("it must be between 1 and 9, or -1")


TOPIC_KEYS: Final = _table(
    _int("max.message.bytes", 1_048_588, 0, broker_key="message.max.bytes"),
    ConfigKey(
        "message.timestamp.type",
        ConfigType.STRING,
        "CreateTime",
        choices=("CreateTime", "LogAppendTime"),
        broker_key="log.message.timestamp.type",
    ),
    _long("message.timestamp.before.max.ms", _MAX_LONG, 0, "log.message.timestamp.before.max.ms"),
    _long("message.timestamp.after.max.ms", 3_600_000, 0, "log.message.timestamp.after.max.ms"),
    ConfigKey(
        "cleanup.policy",
        ConfigType.LIST,
        "delete",
        choices=_POLICIES,
        broker_key="log.cleanup.policy",
        may_be_empty=True,
    ),
    _long("retention.ms", 604_800_000, -1, "log.retention.ms"),
    _long("retention.bytes", -1, -1, "log.retention.bytes"),
    _int("segment.bytes", 1_073_741_824, _MIN_SEGMENT_BYTES, broker_key="log.segment.bytes"),
    _long("segment.ms", 604_800_000, 1, "log.roll.ms"),
    _long("delete.retention.ms", 86_400_000, 0, "log.cleaner.delete.retention.ms"),
    _long("min.compaction.lag.ms", 0, 0, "log.cleaner.min.compaction.lag.ms"),
    _long("max.compaction.lag.ms", _MAX_LONG, 1, "log.cleaner.max.compaction.lag.ms"),
    ConfigKey("min.cleanable.dirty.ratio", ConfigType.DOUBLE, "0.5", broker_key="log.cleaner.min.cleanable.ratio"),
    ConfigKey("compression.type", ConfigType.STRING, "producer", choices=("producer",)),
    ConfigKey("remote.storage.enable", ConfigType.BOOLEAN, "false", choices=("false",)),
    _flag("errors.deadletterqueue.group.enable"),
    _int("min.insync.replicas", 1, 1, has_effect=False),
    ConfigKey("compression.gzip.level", ConfigType.INT, "-1", check=_gzip_level, has_effect=False),
    _unused_int("compression.lz4.level", 9, 1, 17),
    _unused_int("compression.zstd.level", 3, -131_072, 22),
    _unused_long("file.delete.delay.ms", 60_000, 0),
    _unused_long("flush.messages", _MAX_LONG, 1),
    _unused_long("flush.ms", _MAX_LONG, 0),
    ConfigKey("follower.replication.throttled.replicas", ConfigType.LIST, "", check=_replicas, has_effect=False),
    _unused_int("index.interval.bytes", 4_096, 0),
    ConfigKey("leader.replication.throttled.replicas", ConfigType.LIST, "", check=_replicas, has_effect=False),
    _unused_long("local.retention.bytes", -2, -2),
    _unused_long("local.retention.ms", -2, -2),
    _flag("preallocate", has_effect=False),
    _flag("remote.log.copy.disable", has_effect=False),
    _flag("remote.log.delete.on.disable", has_effect=False),
    _unused_int("segment.index.bytes", 10_485_760, 4),
    _unused_long("segment.jitter.ms", 0, 0),
    _flag("unclean.leader.election.enable", has_effect=False),
)
"""Keys of a topic (resource type 2): first those that do something here."""

CLIENT_METRICS_KEYS: Final = _table(
    ConfigKey("metrics", ConfigType.LIST, "", has_effect=False),
    _int("interval.ms", 300_000, 100, 3_600_000, has_effect=False),
    ConfigKey("match", ConfigType.LIST, "", check=_client_patterns, has_effect=False),
)
"""Keys of a subscription to clients' metrics (resource type 16). Without a plug-in that receives metrics a Kafka keeps
them, and does nothing; this broker has `subscribe_to_client_metrics` for that."""
