"""Configuration of the cluster: static broker values, dynamic values of brokers, topics and groups, and what applies.

Called by the config handlers, by the coordinator and by the share machines (`group_settings`). Validates a change as a
whole, together with what is set already. Knows no group and no topic as such: a group need not exist to have values.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final

import attrs

from kafka_share.broker.changes import nobody
from kafka_share.broker.configs.config_keys import (
    BROKER_KEYS,
    CLIENT_METRICS_KEYS,
    GROUP_KEYS,
    TOPIC_KEYS,
    ConfigKey,
    ConfigType,
    items_of,
)
from kafka_share.broker.kafka_version import KAFKA_4_3
from kafka_share.broker.storage.log_settings import FOREVER, AppendSettings, LogSettings
from kafka_share.errors import ConfigurationError, InvalidConfigError, InvalidRequestError, UnknownServerError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kafka_share.broker.changes import OnChange
    from kafka_share.broker.kafka_version import Behaviour
    from kafka_share.errors import BrokerError


class ResourceType(enum.IntEnum):
    """What a configuration belongs to; the wire values."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigSource(enum.IntEnum):
    """Where an effective value comes from; the wire values of DescribeConfigs."""

    TOPIC = 1
    NODE = 2
    BROKER_DEFAULT = 3
    STATIC = 4
    DEFAULT = 5
    CLIENT_METRICS = 7
    GROUP = 8


class Operation(enum.IntEnum):
    """What IncrementalAlterConfigs does with a key; the wire values."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ConfigRefusedError(Exception):
    """A change is not allowed. `error` tells a misuse of the request from a bad value."""

    def __init__(self, message: str, *, error: type[BrokerError] = InvalidConfigError) -> None:
        super().__init__(message)
        self.error = error


@attrs.frozen
class Synonym:
    """One layer of a key's value: the effective value is that of the first layer."""

    name: str
    value: str
    source: ConfigSource


@attrs.frozen
class Change:
    """One key of an IncrementalAlterConfigs request; `operation` may be a number that means nothing."""

    name: str
    operation: int
    value: str | None


_KEYS: Final[Mapping[ResourceType, Mapping[str, ConfigKey]]] = {
    ResourceType.TOPIC: TOPIC_KEYS,
    ResourceType.BROKER: BROKER_KEYS,
    ResourceType.BROKER_LOGGER: {},
    ResourceType.CLIENT_METRICS: CLIENT_METRICS_KEYS,
    ResourceType.GROUP: GROUP_KEYS,
}
_SOURCES: Final = {
    ResourceType.TOPIC: ConfigSource.TOPIC,
    ResourceType.CLIENT_METRICS: ConfigSource.CLIENT_METRICS,
    ResourceType.GROUP: ConfigSource.GROUP,
}

_INTERVAL: Final = "assignment.interval.ms"
"""Without this key, of share groups or of consumer groups, assignments are computed without a pause."""

_MAX_CACHED_SETTINGS: Final = 1_000
"""Anybody may name any group in a request: the cache of their settings is emptied when it has grown to this."""


@attrs.frozen
class GroupSettings:
    """Effective settings of one share group: the group's own value, else the broker's (spec of Kafka 4.3, KIP-1240)."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    record_lock_duration_ms: int = 30_000
    delivery_count_limit: int = 5
    max_record_locks: int = 2_000
    renew_enabled: bool = True
    assignment_interval_ms: int = 1_000
    auto_offset_reset: str = "latest"
    """"latest", "earliest", or "by_duration:" and an ISO-8601 duration."""
    read_committed: bool = False
    dead_letter_topic: str = ""
    """Where records go that were rejected, or delivered too often (KIP-1191); "" for nowhere."""
    copies_dead_letters: bool = False


@attrs.frozen
class ConsumerGroupSettings:
    """Effective settings of one consumer group (KIP-848): the group's own value, else the broker's."""

    session_timeout_ms: int
    heartbeat_interval_ms: int
    assignment_interval_ms: int


class Configs:
    """All configuration of one cluster. Raises `ConfigurationError` if a static value is unknown or out of range.

    `only_node` is the name of the node if there is but one: its own values apply. Several nodes share their logs, so
    they cannot differ in what these heed.
    """

    def __init__(
        self, static: Mapping[str, str], behaviour: Behaviour = KAFKA_4_3, *, only_node: str | None = None
    ) -> None:
        self._behaviour = behaviour
        self._only_node = only_node
        self._has_dead_letters = False
        broker_keys = self.keys(ResourceType.BROKER)
        for name, value in static.items():
            if name not in broker_keys:
                raise ConfigurationError(f"{name!r} is not a setting of this broker")
            try:
                BROKER_KEYS[name].validate(value)
            except ValueError as error:
                raise ConfigurationError(str(error)) from None
        self._static = dict(static)
        self._dynamic: dict[tuple[ResourceType, str], dict[str, str]] = {}
        self._settings: dict[str, GroupSettings] = {}
        self._log_settings: dict[str, LogSettings] = {}
        self._append_settings: dict[str, AppendSettings] = {}
        self.on_change: OnChange = nobody
        """Called with the type and name of a resource, as in "TOPIC/orders"."""

    def keys(self, kind: ResourceType) -> Mapping[str, ConfigKey]:
        """The keys that a resource of this type has in this version of Kafka."""
        return {name: key for name, key in _KEYS[kind].items() if name not in self._behaviour.absent_config_keys}

    def allow_dead_letters(self, *, allowed: bool) -> None:
        """Whether groups may have dead-letter queues: it takes the feature share.version 2."""
        self._has_dead_letters = allowed
        self._settings.clear()

    # ---- broker values

    def broker_value(self, name: str) -> str:
        """The effective value: of the only node, else dynamic default (broker name ""), else static, else default."""
        return self._broker_layers(BROKER_KEYS[name])[0].value

    def _broker_layers(self, key: ConfigKey, node: str | None = None) -> list[Synonym]:
        """What is set for the node (the only one if none is named), for all nodes, when it started, and by Kafka."""
        node = self._only_node if node is None else node
        found = (
            (self._dynamic.get((ResourceType.BROKER, node or ""), {}) if node else {}, ConfigSource.NODE),
            (self._dynamic.get((ResourceType.BROKER, ""), {}), ConfigSource.BROKER_DEFAULT),
            (self._static, ConfigSource.STATIC),
        )
        layers = [Synonym(key.name, values[key.name], source) for values, source in found if key.name in values]
        return [*layers, Synonym(key.name, key.default, ConfigSource.DEFAULT)]

    def broker_int(self, name: str) -> int:
        return int(self.broker_value(name))

    def broker_flag(self, name: str) -> bool:
        return self.broker_value(name).strip().lower() == "true"

    # ---- any resource

    def dynamic_names(self, kind: ResourceType) -> list[str]:
        """The resources of this type that have values of their own, in order."""
        return sorted(name for resource, name in self._dynamic if resource is kind)

    def own_values(self, kind: ResourceType, name: str) -> dict[str, str]:
        """The values that the resource itself has."""
        return dict(self._dynamic.get((kind, name), {}))

    def forget(self, kind: ResourceType, name: str) -> None:
        """Drop the resource's own values (its topic was deleted)."""
        self._log_settings.pop(name, None)
        self._append_settings.pop(name, None)
        if self._dynamic.pop((kind, name), None) is not None:
            self.on_change(f"{kind.name}/{name}")

    def log_settings(self, topic: str) -> LogSettings:
        """What the logs of a topic heed."""
        settings = self._log_settings.get(topic)
        if settings is None:
            settings = self._log_settings[topic] = self._make_log_settings(topic)
        return settings

    def _make_log_settings(self, topic: str) -> LogSettings:
        def number(name: str) -> int:
            return int(self.topic_value(topic, name))

        policies = items_of(self.topic_value(topic, "cleanup.policy"))
        is_compacted, deletes = "compact" in policies, "delete" in policies
        segment_ms, max_compaction_lag_ms = number("segment.ms"), number("max.compaction.lag.ms")
        return LogSettings(
            segment_bytes=number("segment.bytes"),
            segment_ms=min(segment_ms, max_compaction_lag_ms) if is_compacted else segment_ms,
            retention_ms=number("retention.ms") if deletes else FOREVER,
            retention_bytes=number("retention.bytes") if deletes else FOREVER,
            is_compacted=is_compacted,
            delete_retention_ms=number("delete.retention.ms"),
            min_compaction_lag_ms=number("min.compaction.lag.ms"),
            max_compaction_lag_ms=max_compaction_lag_ms,
            min_cleanable_dirty_ratio=float(self.topic_value(topic, "min.cleanable.dirty.ratio")),
        )

    def append_settings(self, topic: str) -> AppendSettings:
        """What producers to a topic have to heed."""
        settings = self._append_settings.get(topic)
        if settings is None:
            settings = self._append_settings[topic] = AppendSettings(
                max_bytes=int(self.topic_value(topic, "max.message.bytes")),
                needs_keys=self.log_settings(topic).is_compacted,
                has_append_times=self.topic_value(topic, "message.timestamp.type") == "LogAppendTime",
                before_max_ms=int(self.topic_value(topic, "message.timestamp.before.max.ms")),
                after_max_ms=int(self.topic_value(topic, "message.timestamp.after.max.ms")),
            )
        return settings

    def topic_value(self, topic: str, name: str) -> str:
        """The effective value of a topic's key."""
        return self.synonyms(ResourceType.TOPIC, topic, TOPIC_KEYS[name])[0].value

    def synonyms(self, kind: ResourceType, name: str, key: ConfigKey) -> list[Synonym]:
        """The layers of a key's value, the effective one first."""
        if kind is ResourceType.BROKER:
            return self._broker_layers(key, name)
        own = self._dynamic.get((kind, name), {}).get(key.name)
        layers = [] if own is None else [Synonym(key.name, own, _SOURCES[kind])]
        if key.broker_key is None:
            return [*layers, Synonym(key.name, key.default, ConfigSource.DEFAULT)]
        return [*layers, *self._broker_layers(BROKER_KEYS[key.broker_key])]

    def described(self, kind: ResourceType, name: str, key: ConfigKey) -> list[Synonym]:
        """The layers of a key's value as DescribeConfigs shows them."""
        layers = self.synonyms(kind, name, key)
        if kind is not ResourceType.GROUP or self._behaviour.describes_broker_layers:
            return layers
        effective = layers[0]
        if effective.source is not ConfigSource.GROUP:
            effective = Synonym(key.name, effective.value, ConfigSource.DEFAULT)
        return [effective]

    def alter(
        self,
        kind: ResourceType,
        name: str,
        changes: Sequence[Change],
        *,
        validate_only: bool = False,
        takes_unknown: bool = False,
    ) -> None:
        """Apply the changes, all or none. Raises `ConfigRefusedError`.

        With `takes_unknown` keys that nobody knows are kept, too, and do nothing.
        """
        keys = self.keys(kind)
        values = dict(self._dynamic.get((kind, name), {}))
        for change in changes:
            if change.name not in keys and not takes_unknown and change.operation != Operation.DELETE:
                raise ConfigRefusedError(f"there is no setting {change.name!r} here")
            self._apply(keys.get(change.name), change, values)
        for key_name, value in values.items():
            if key_name in keys:
                self._check(kind, keys[key_name], value)
        if kind is ResourceType.GROUP:
            self._check_timeouts(values)
        if kind is ResourceType.TOPIC:
            self._check_lags(values)
        if validate_only:
            return
        self._settings.clear()
        self._log_settings.clear()
        self._append_settings.clear()
        if values:
            self._dynamic[kind, name] = values
        else:
            self._dynamic.pop((kind, name), None)
        self.on_change(f"{kind.name}/{name}")

    def restore(self, kind: ResourceType, name: str, values: Mapping[str, str]) -> None:
        """Put back what was set before the broker started; keys that this version of Kafka lacks are left out."""
        keys = self.keys(kind)
        self._dynamic[kind, name] = {key: value for key, value in values.items() if key in keys}

    def set_values(self, kind: ResourceType, name: str, values: Mapping[str, str]) -> None:
        """Set the keys, all or none. Raises `ConfigRefusedError`."""
        self.alter(kind, name, [Change(key, Operation.SET, value) for key, value in values.items()])

    def _apply(self, key: ConfigKey | None, change: Change, values: dict[str, str]) -> None:
        if change.operation == Operation.DELETE:
            values.pop(change.name, None)
            return
        if change.operation not in (Operation.SET, Operation.APPEND, Operation.SUBTRACT):
            raise ConfigRefusedError(f"operation {change.operation} does not exist", error=UnknownServerError)
        if change.value is None:
            raise ConfigRefusedError(f"{change.name} was given no value", error=InvalidRequestError)
        if change.operation == Operation.SET:
            values[change.name] = change.value
            return
        if key is None or key.type is not ConfigType.LIST:
            raise ConfigRefusedError(f"{change.name} is not a list")
        present, named = items_of(values.get(change.name, key.default)), items_of(change.value)
        if change.operation == Operation.APPEND:
            present += [item for item in named if item not in present]
        else:
            present = [item for item in present if item not in named]
        values[change.name] = ",".join(present)

    def _check(self, kind: ResourceType, key: ConfigKey, value: str) -> None:
        try:
            key.validate(value)
        except ValueError as error:
            raise ConfigRefusedError(str(error)) from None
        if kind is ResourceType.GROUP and key.low_key is not None and key.high_key is not None:
            low, high = self.broker_int(key.low_key), self.broker_int(key.high_key)
            if not low <= int(value) <= high:
                raise ConfigRefusedError(f"{key.name} must be between {low} and {high}, not {value}")

    def _check_lags(self, values: Mapping[str, str]) -> None:
        low, high = (
            int(values.get(name) or TOPIC_KEYS[name].default)
            for name in ("min.compaction.lag.ms", "max.compaction.lag.ms")
        )
        if low > high:
            raise ConfigRefusedError(f"min.compaction.lag.ms ({low}) is greater than max.compaction.lag.ms ({high})")

    def _check_timeouts(self, values: Mapping[str, str]) -> None:
        for kind in ("share", "consumer"):
            session, heartbeat = f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms"
            session_ms = int(values.get(session) or self.broker_value(f"group.{session}"))
            heartbeat_ms = int(values.get(heartbeat) or self.broker_value(f"group.{heartbeat}"))
            if session_ms <= heartbeat_ms:
                raise ConfigRefusedError(
                    f"{session} ({session_ms}) has to be greater than {heartbeat} ({heartbeat_ms})"
                )

    # ---- groups

    def group_settings(self, group: str) -> GroupSettings:
        """What applies to a share group now: its own values within the broker's bounds, else the broker's."""
        settings = self._settings.get(group)
        if settings is None:
            if len(self._settings) >= _MAX_CACHED_SETTINGS:
                self._settings.clear()
            settings = self._settings[group] = self._make_settings(group)
        return settings

    def _make_settings(self, group: str) -> GroupSettings:
        def text(name: str) -> str:
            return self.synonyms(ResourceType.GROUP, group, GROUP_KEYS[name])[0].value

        return GroupSettings(
            session_timeout_ms=self._group_int(group, "share.session.timeout.ms"),
            heartbeat_interval_ms=self._group_int(group, "share.heartbeat.interval.ms"),
            record_lock_duration_ms=self._group_int(group, "share.record.lock.duration.ms"),
            delivery_count_limit=self._group_int(group, "share.delivery.count.limit"),
            max_record_locks=self._group_int(group, "share.partition.max.record.locks"),
            renew_enabled=text("share.renew.acknowledge.enable").strip().lower() == "true",
            assignment_interval_ms=self._assignment_interval_ms(group, "share"),
            auto_offset_reset=text("share.auto.offset.reset"),
            read_committed=text("share.isolation.level") == "read_committed",
            dead_letter_topic=text("errors.deadletterqueue.topic.name") if self._has_dead_letters else "",
            copies_dead_letters=text("errors.deadletterqueue.copy.record.enable").strip().lower() == "true",
        )

    def consumer_settings(self, group: str) -> ConsumerGroupSettings:
        """What applies to a consumer group now."""
        return ConsumerGroupSettings(
            session_timeout_ms=self._group_int(group, "consumer.session.timeout.ms"),
            heartbeat_interval_ms=self._group_int(group, "consumer.heartbeat.interval.ms"),
            assignment_interval_ms=self._assignment_interval_ms(group, "consumer"),
        )

    def _assignment_interval_ms(self, group: str, kind: str) -> int:
        name = f"{kind}.{_INTERVAL}"
        return self._group_int(group, name) if name in self.keys(ResourceType.GROUP) else 0

    def _group_int(self, group: str, name: str) -> int:
        key = GROUP_KEYS[name]
        effective = self.synonyms(ResourceType.GROUP, group, key)[0]
        value = int(effective.value)
        if effective.source is ConfigSource.GROUP and key.low_key is not None and key.high_key is not None:
            # The bounds may have changed after the value was set: it is clamped when used (KIP-1240).
            value = min(max(value, self.broker_int(key.low_key)), self.broker_int(key.high_key))
        return value
