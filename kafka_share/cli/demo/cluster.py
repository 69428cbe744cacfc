"""What the demo needs of a cluster besides consuming: a topic, the group's config, published records, a clean end.

Called by the job, for the embedded broker and for a real cluster alike. What concerns the share group goes through
`KafkaShareAdmin`; topics, brokers' configs (`topics`) and records through kafka-python: our clients have no such calls.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

import attrs
from kafka import KafkaProducer, codec
from kafka.errors import KafkaError

from kafka_share.admin import KafkaShareAdmin
from kafka_share.admin_values import ConfigEntry
from kafka_share.cli.demo.worker import CHECKSUM_HEADER
from kafka_share.cli.foreign import client_settings
from kafka_share.cli.topics import Topics
from kafka_share.errors import GroupIdNotFoundError, KafkaShareError

log: logging.Logger = logging.getLogger(__name__)

DEFAULT_DELIVERY_COUNT_LIMIT: Final = 5
"""Kafka's own default of `group.share.delivery.count.limit`, for a broker that does not tell."""

_CLIENT_ID: Final = "kafka-share-demo"
_OFFSET_RESET: Final = "share.auto.offset.reset"
_MAX_RECORDS_IN_FLIGHT: Final = 256
_CONNECTING_TIMEOUT_MS: Final = 10_000
_CLEANING_TIMEOUT_MS: Final = 10_000

_CODECS: Final[Mapping[str, tuple[Callable[[], bool], str]]] = MappingProxyType(
    {
        "none": (lambda: True, ""),
        "gzip": (codec.has_gzip, ""),
        "snappy": (codec.has_snappy, "python-snappy"),
        "lz4": (codec.has_lz4, "lz4"),
        "zstd": (codec.has_zstd, "zstandard"),
    }
)


class ClusterError(KafkaShareError):
    """The cluster could not be prepared, or a record could not be published."""


def missing_package(codec_name: str) -> str | None:
    """The package that kafka-python's producer lacks for this compression codec; None: it can be used."""
    is_there, package = _CODECS[codec_name]
    return None if is_there() else package


@attrs.frozen
class Published:
    """Where a file ended up."""

    name: str
    partition: int
    offset: int
    size_bytes: int


@contextlib.contextmanager
def _errors_as_ours(what: str) -> Iterator[None]:
    try:
        yield
    except KafkaError as error:
        raise ClusterError(f"{what}: {error}") from error


@contextlib.contextmanager
def _failure_logged(what: str) -> Iterator[None]:
    try:
        with _errors_as_ours("kafka-python failed"):
            yield
    except KafkaShareError as error:
        log.warning("%s could not be removed: %s", what, error)


class Cluster:
    """Connections for preparing one run. Use it as a context manager.

    `deadline_at_s` is a point of `time.monotonic`; nothing here waits longer. Raises `KafkaShareError`.
    """

    def __init__(self, bootstrap_servers: str, deadline_at_s: float) -> None:
        self._bootstrap_servers = bootstrap_servers
        self._deadline_at_s = deadline_at_s
        with _errors_as_ours(f"no broker answers at {bootstrap_servers}"):
            self._topics = Topics(self._client_settings())
        self._groups = KafkaShareAdmin(bootstrap_servers=bootstrap_servers, client_id=_CLIENT_ID)

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        self._groups.close()
        self._topics.close()

    def _left_ms(self) -> int:
        return max(1, int((self._deadline_at_s - time.monotonic()) * 1000))

    def _client_settings(self) -> dict[str, Any]:
        settings = {"bootstrap_servers": self._bootstrap_servers, "client_id": _CLIENT_ID}
        return client_settings(settings, min(_CONNECTING_TIMEOUT_MS, self._left_ms()))

    # ---- topic and group

    def create_topic(self, topic: str, partitions: int) -> None:
        with _errors_as_ours(f"topic {topic} could not be created"):
            self._topics.create(topic, partitions)

    def start_group_at_earliest(self, group: str) -> int:
        """Let the share group read its topics from their beginning; returns its delivery count limit.

        A member that joins before all brokers show the config would start at the end: the admin client waits for them.
        """
        self._groups.ensure_group_config(group, {_OFFSET_RESET: "earliest"}, timeout_ms=self._left_ms())
        configs = self._groups.describe_group_configs([group], timeout_ms=self._left_ms())[group]
        if isinstance(configs, KafkaShareError):
            raise configs
        return self._delivery_count_limit(configs)

    def _delivery_count_limit(self, group_configs: Mapping[str, ConfigEntry]) -> int:
        """The group's own since Kafka 4.3 (KIP-1240), the broker's before."""
        config = group_configs.get("share.delivery.count.limit")
        value = self._limit_of_brokers() if config is None else config.value
        return DEFAULT_DELIVERY_COUNT_LIMIT if value is None else int(value)

    def _limit_of_brokers(self) -> str | None:
        """As one of them tells it."""
        node = self._groups.describe_cluster(timeout_ms=self._left_ms()).nodes[0]
        with _errors_as_ours(f"the configs of broker {node.id} could not be read"):
            return self._topics.broker_config(node.id, "group.share.delivery.count.limit")

    def remove(self, topic: str, group: str) -> None:
        """Leave the cluster as it was found. A failure is logged: the run's result stands without it."""
        with _failure_logged(f"group {group}"):
            error = self._groups.delete_share_groups([group], timeout_ms=_CLEANING_TIMEOUT_MS)[group]
            # A run that failed early has no group: nobody had joined it.
            if error is not None and not isinstance(error, GroupIdNotFoundError):
                raise error
        with _failure_logged(f"the config of group {group}"):
            self._groups.alter_group_configs(group, {_OFFSET_RESET: None}, timeout_ms=_CLEANING_TIMEOUT_MS)
        with _failure_logged(f"topic {topic}"):
            self._topics.delete(topic)

    # ---- records

    def publish(self, topic: str, files: Iterable[tuple[str, bytes]], codec_name: str) -> Iterator[Published]:
        """Send each (name, bytes) as a record; yields where it is once the broker has confirmed it, in order."""
        with _errors_as_ours(f"the files could not be published to {topic}"):
            producer = KafkaProducer(
                **self._client_settings(),
                compression_type=None if codec_name == "none" else codec_name,
                linger_ms=5,
            )
            try:
                in_flight: deque[tuple[str, int, Any]] = deque()
                for name, data in files:
                    headers = [(CHECKSUM_HEADER, hashlib.sha256(data).digest())]
                    key = name.encode("utf-8", "surrogateescape")
                    future = producer.send(topic, key=key, value=data, headers=headers)
                    in_flight.append((name, len(data), future))
                    if len(in_flight) > _MAX_RECORDS_IN_FLIGHT:
                        yield self._confirmed(*in_flight.popleft())
                while in_flight:
                    yield self._confirmed(*in_flight.popleft())
            finally:
                producer.close(timeout=5)

    def _confirmed(self, name: str, size_bytes: int, future: Any) -> Published:
        metadata = future.get(timeout=self._left_ms() / 1000)
        return Published(name, metadata.partition, metadata.offset, size_bytes)
