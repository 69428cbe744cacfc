"""What the demo needs of a cluster besides consuming: a topic, the group's config, published records, a clean end.

Called by the job, for the embedded broker and for a real cluster alike: all of it goes over the wire, by kafka-python's
admin client and producer.
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
from kafka import KafkaAdminClient, KafkaProducer, codec
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.errors import KafkaError

from kafka_share.cli.demo.worker import CHECKSUM_HEADER
from kafka_share.errors import KafkaShareError

log = logging.getLogger(__name__)

DEFAULT_DELIVERY_COUNT_LIMIT: Final = 5
"""Kafka's own default of `group.share.delivery.count.limit`, for a broker that does not tell."""

_MAX_RECORDS_UNDER_WAY: Final = 256
_CONFIG_CHECK_INTERVAL_S: Final = 0.05

_CODECS: Final[Mapping[str, tuple[Callable[[], bool], str]]] = MappingProxyType(
    {
        "none": (lambda: True, ""),
        "gzip": (codec.has_gzip, ""),
        "snappy": (codec.has_snappy, "python-snappy"),
        "lz4": (codec.has_lz4, "lz4"),
        "zstd": (codec.has_zstd, "zstandard"),
    }
)
CODECS: Final = tuple(_CODECS)


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


class Cluster:
    """A connection for preparing one run. Use it as a context manager.

    `deadline_at_s` is a point of `time.monotonic`; nothing here waits longer. Raises `ClusterError`.
    """

    def __init__(self, bootstrap_servers: str, deadline_at_s: float) -> None:
        self._bootstrap_servers = bootstrap_servers
        self._deadline_at_s = deadline_at_s
        with _errors_as_ours(f"no broker answers at {bootstrap_servers}"):
            self._admin = KafkaAdminClient(
                bootstrap_servers=bootstrap_servers.split(","),
                client_id="kafka-share-demo",
                bootstrap_timeout_ms=min(10_000, self._left_ms()),
            )

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        self._admin.close()

    def _left_ms(self) -> int:
        return max(1, int((self._deadline_at_s - time.monotonic()) * 1000))

    # ---- topic and group

    def create_topic(self, topic: str, partitions: int) -> None:
        with _errors_as_ours(f"topic {topic} could not be created"):
            self._admin.create_topics({topic: {"num_partitions": partitions}}, wait_for_metadata=True)

    def start_group_at_earliest(self, group: str) -> int:
        """Let the share group read its topics from their beginning; returns its delivery count limit.

        Brokers apply a group's config a moment after they have accepted it, and a member that came before would start
        at the end: hence the wait until it can be read back.
        """
        name = "share.auto.offset.reset"
        resource = ConfigResource(ConfigResourceType.GROUP, group, {name: "earliest"})
        with _errors_as_ours(f"the config of group {group} could not be set"):
            result = self._admin.alter_configs([resource], raise_on_unknown=False, incremental=True)
            if result["group"][group] != "OK":
                raise ClusterError(f"the config of group {group} could not be set: {result['group'][group]}")
            while (configs := self._describe(ConfigResourceType.GROUP, group)).get(name) != "earliest":
                if time.monotonic() >= self._deadline_at_s:
                    raise ClusterError(f"the broker did not apply {name} to group {group} in time")
                time.sleep(_CONFIG_CHECK_INTERVAL_S)
            return self._delivery_count_limit(configs)

    def _delivery_count_limit(self, group_configs: Mapping[str, str | None]) -> int:
        """The group's own since Kafka 4.3 (KIP-1240), the broker's before."""
        value = group_configs.get("share.delivery.count.limit")
        if value is None:
            broker_id = self._admin.describe_cluster()["brokers"][0]["broker_id"]
            value = self._describe(ConfigResourceType.BROKER, str(broker_id)).get("group.share.delivery.count.limit")
        return DEFAULT_DELIVERY_COUNT_LIMIT if value is None else int(value)

    def _describe(self, kind: ConfigResourceType, name: str) -> dict[str, str | None]:
        found = self._admin.describe_configs([ConfigResource(kind, name)], config_filter="all")
        return {key: config["value"] for key, config in found[kind.name.lower()].get(name, {}).items()}

    def remove(self, topic: str, group: str) -> None:
        """Leave the cluster as it was found. A failure is logged: the run's result stands without it."""
        config = ConfigResource(ConfigResourceType.GROUP, group, ["share.auto.offset.reset"])
        self._try_to_remove(f"group {group}", lambda: self._admin.delete_groups([group])[group])
        self._try_to_remove(
            f"the config of group {group}",
            lambda: self._admin.reset_configs([config], raise_on_unknown=False, incremental=True)["group"][group],
        )
        self._try_to_remove(f"topic {topic}", lambda: self._admin.delete_topics([topic]) and "OK")

    @staticmethod
    def _try_to_remove(what: str, remove: Callable[[], str]) -> None:
        try:
            answer = remove()
        except KafkaError as error:
            answer = str(error)
        # A run that failed early has no group: nobody had joined it.
        if answer not in ("OK", "GroupIdNotFoundError"):
            log.warning("%s could not be removed: %s", what, answer)

    # ---- records

    def publish(self, topic: str, files: Iterable[tuple[str, bytes]], codec_name: str) -> Iterator[Published]:
        """Send each (name, bytes) as a record; yields where it is once the broker has confirmed it, in order."""
        with _errors_as_ours(f"the files could not be published to {topic}"):
            producer = KafkaProducer(
                bootstrap_servers=self._bootstrap_servers.split(","),
                client_id="kafka-share-demo",
                compression_type=None if codec_name == "none" else codec_name,
                linger_ms=5,
                bootstrap_timeout_ms=min(10_000, self._left_ms()),
            )
            try:
                under_way: deque[tuple[str, int, Any]] = deque()
                for name, data in files:
                    headers = [(CHECKSUM_HEADER, hashlib.sha256(data).digest())]
                    key = name.encode("utf-8", "surrogateescape")
                    future = producer.send(topic, key=key, value=data, headers=headers)
                    under_way.append((name, len(data), future))
                    if len(under_way) > _MAX_RECORDS_UNDER_WAY:
                        yield self._confirmed(*under_way.popleft())
                while under_way:
                    yield self._confirmed(*under_way.popleft())
            finally:
                producer.close(timeout=5)

    def _confirmed(self, name: str, size_bytes: int, future: Any) -> Published:
        metadata = future.get(timeout=self._left_ms() / 1000)
        return Published(name, metadata.partition, metadata.offset, size_bytes)
