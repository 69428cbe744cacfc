"""A transport of kombu, and so of Celery: a queue is a topic, and those who consume it are members of a share group.

Needs the extra `celery`, or kombu alone. Importing this module makes URLs such as `kafka-share://localhost:9092` known
to kombu. Each message is acknowledged, requeued or rejected by itself; docs/bridges.md has the rest.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from queue import Empty
from typing import Any, Final

try:
    from kombu.transport import TRANSPORT_ALIASES, virtual
    from kombu.utils.json import dumps, loads
except ModuleNotFoundError as _missing:
    raise ImportError("the bridge to Celery needs kombu: pip install 'kafka-share[celery]'") from _missing

from kafka_share._version import VERSION
from kafka_share.bridges.held import HeldRecords, Record
from kafka_share.bridges.settings import bridge_settings
from kafka_share.bridges.trouble import Trouble
from kafka_share.config import ShareConsumerConfig
from kafka_share.errors import KafkaShareError, OperationTimeoutError, ProduceError
from kafka_share.handling.leasing import LeasingConsumer
from kafka_share.producing.kafka_python import OwnKafkaPythonProducer
from kafka_share.producing.producer import OutgoingRecord, RecordProducer, checked_producer
from kafka_share.records import AcknowledgeType

SCHEME: Final = "kafka-share"
WAIT_S: Final = 1.0
"""How long a look for messages takes, after which Celery looks at its own affairs."""
CLOSE_TIMEOUT_MS: Final = 10_000
WINDOW_RECORDS: Final = 100
"""If neither the option nor a prefetch count says something else."""
MAX_LEASE_MS: Final = 3_600_000

TRANSPORT_ALIASES[SCHEME] = f"{__name__}:Transport"


class QoS(virtual.QoS):
    """What was delivered and is not acknowledged. Any thread may acknowledge."""

    channel: Channel

    def ack(self, delivery_tag: str) -> None:
        """The record is accepted."""
        self.channel.settle(delivery_tag, AcknowledgeType.ACCEPT)
        super().ack(delivery_tag)
        self.channel.found_room()

    def reject(self, delivery_tag: str, requeue: bool = False) -> None:
        """The record is released, which spends a delivery, or rejected for good."""
        self.channel.settle(delivery_tag, AcknowledgeType.RELEASE if requeue else AcknowledgeType.REJECT)
        super().ack(delivery_tag)
        self.channel.found_room()

    def restore_unacked(self) -> list[Any]:
        """Release what is not acknowledged."""
        self._flush()
        for delivery_tag in list(self._delivered):
            self.reject(delivery_tag, requeue=True)
        return []


class Channel(virtual.Channel):
    """One consumer with an open window, made when something is consumed."""

    QoS = QoS
    do_restore = False  # the group does it: what a closed consumer had is released
    connection: Transport

    def __init__(self, connection: Transport, **kwargs: Any) -> None:
        super().__init__(connection, **kwargs)
        self._consumer: LeasingConsumer | None = None
        self._held: HeldRecords | None = None
        self._arrived: deque[Record] = deque()
        self._in_work: dict[str, Record] = {}
        """By delivery tag."""
        self._unacknowledged: set[str] = set()
        """Queues whose consumers acknowledge nothing (no_ack)."""
        self._topics: frozenset[str] = frozenset()
        self._has_room = threading.Event()
        self._trouble = Trouble()

    # ---- sending

    def _put(self, queue: str, message: dict[str, Any], **_: Any) -> None:
        self.connection.write(OutgoingRecord(queue, None, dumps(message).encode()))

    # ---- receiving

    def basic_consume(
        self, queue: str, no_ack: bool, callback: Callable[[Any], Any], consumer_tag: str, **kwargs: Any
    ) -> None:
        """Deliver the messages of a queue to the callback."""
        (self._unacknowledged.add if no_ack else self._unacknowledged.discard)(queue)
        super().basic_consume(queue, no_ack, callback, consumer_tag, **kwargs)

    def basic_get(self, queue: str, no_ack: bool = False, **kwargs: Any) -> Any:
        """One message, or None if there is none within a second."""
        message = super().basic_get(queue, no_ack, **kwargs)
        if message is not None and no_ack:
            self.settle(message.delivery_tag, AcknowledgeType.ACCEPT)
        return message

    def drain_events(self, timeout: float | None = None, callback: Callable[[Any, str], Any] | None = None) -> None:
        """Deliver one message. Raises `queue.Empty` if none comes within the time, or a second."""
        if not self._consumers:
            raise Empty
        wait_s = min(WAIT_S, WAIT_S if timeout is None else timeout) / self.connection.consuming_channels
        self._has_room.clear()
        if not self.qos.can_consume():
            self._has_room.wait(wait_s)
            raise Empty
        payload, queue = self._take(self._active_queues, wait_s)
        if queue in self._unacknowledged:
            self.settle(payload["properties"]["delivery_tag"], AcknowledgeType.ACCEPT)
        (callback or self.connection._deliver)(payload, queue)

    def _get(self, queue: str, timeout: float | None = None) -> dict[str, Any]:
        return self._take([queue], WAIT_S if timeout is None else timeout)[0]

    def _take(self, queues: Sequence[str], wait_s: float) -> tuple[dict[str, Any], str]:
        """The payload of the next record of these queues, and its queue. Raises `queue.Empty`."""
        consumer, held = self._opened(queues)
        if not any(record.topic in queues for record in self._arrived):
            for record in self._polled(consumer, round(wait_s * 1_000)):
                held.hold(record)
                self._arrived.append(record)
        for record in [record for record in self._arrived if record.topic in queues]:
            self._arrived.remove(record)
            payload = _payload(record)
            if payload is not None:
                self._in_work[payload["properties"]["delivery_tag"]] = record
                return payload, record.topic
            held.refuse(record, "it is no message of kombu")
        raise Empty

    def _opened(self, queues: Sequence[str]) -> tuple[LeasingConsumer, HeldRecords]:
        topics = frozenset([*self._active_queues, *queues])
        if self._consumer is None or self._held is None:
            consumer = self._consumer = LeasingConsumer(
                *topics, **self.connection.settings_for(self.qos.prefetch_count)
            )
            self._held, self._topics = HeldRecords(consumer, self.connection.max_lease_ms), topics
        elif topics != self._topics:
            self._consumer.subscribe(topics)
            self._topics = topics
        return self._consumer, self._held

    def _polled(self, consumer: LeasingConsumer, wait_ms: int) -> list[Record]:
        try:
            records = list(consumer.poll(wait_ms))
        except KafkaShareError as error:
            self._trouble.met(consumer, error)
            return []
        if records:
            self._trouble.is_over()
        return records

    # ---- acknowledging

    def settle(self, delivery_tag: str, kind: AcknowledgeType) -> None:
        """Acknowledge what was delivered under this tag; any thread. An unknown tag is nobody's record any more."""
        record = self._in_work.pop(delivery_tag, None)
        if record is not None and self._held is not None:
            self._held.settle(record, kind)

    def found_room(self) -> None:
        """Something was acknowledged: what waits for that goes on. Any thread."""
        self._has_room.set()

    # ---- what a topic cannot do

    def _size(self, queue: str) -> int:
        """A member does not know how long a queue is: `kafka-share-groups --describe` does."""
        return 0

    def _delete(self, queue: str, *_: Any, **__: Any) -> None:
        """Topics are not deleted: they belong to those who made them."""

    def _purge(self, queue: str) -> int:
        raise NotImplementedError(
            "a member cannot purge a topic: kafka-share-groups --reset-offsets --to-latest does it"
        )

    def close(self) -> None:
        """Acknowledgements are sent; what has none is released."""
        super().close()
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            consumer.close(CLOSE_TIMEOUT_MS)


class Transport(virtual.Transport):
    """What kombu makes of a URL `kafka-share://host:port`.

    `transport_options`:

    - `group_id`: the share group, "celery" by default.
    - `window_records`: how many messages may be here at a time; by default the prefetch count, or 100 without one.
    - `max_lease_ms`: how long the lock of a message is renewed, one hour by default.
    - `producer`: a `RecordProducer`; by default kafka-python's, with the connection and security settings.
    - `settings`: a dict of settings of `KafkaShareConsumer`, such as `bootstrap_servers` for several brokers.
    """

    Channel = Channel
    default_port = 9092
    driver_type = "kafka"
    driver_name = SCHEME
    polling_interval: float = 0.01  # channels wait by themselves
    connection_errors: Any = (*virtual.Transport.connection_errors, ProduceError, OperationTimeoutError)  # may pass

    def __init__(self, client: Any, **kwargs: Any) -> None:
        super().__init__(client, **kwargs)
        options = client.transport_options
        self.max_lease_ms: int = options.get("max_lease_ms", MAX_LEASE_MS)
        self._window_records: int | None = options.get("window_records")
        self._given: dict[str, Any] = {
            "bootstrap_servers": f"{client.hostname or 'localhost'}:{client.port or self.default_port}",
            "group_id": options.get("group_id", "celery"),
            **(options.get("settings") or {}),
        }
        given = options.get("producer")
        self._given_producer: RecordProducer | None = None if given is None else checked_producer(given)
        self._producer: RecordProducer | None = None
        self._lock = threading.Lock()
        self.settings_for(0)  # says now what would be wrong later

    def settings_for(self, prefetch_count: int) -> dict[str, Any]:
        """The settings of a channel's consumer. Raises `ConfigurationError`."""
        window_records = self._window_records
        if window_records is None:
            window_records = prefetch_count or WINDOW_RECORDS
        return bridge_settings(self._given, window_records, self.max_lease_ms)

    @property
    def consuming_channels(self) -> int:
        """How many channels take turns at waiting."""
        return max(1, sum(bool(channel._consumers) for channel in self.channels))

    def write(self, record: OutgoingRecord) -> None:
        """Write the record, and wait until all in-sync replicas have it. Raises what the producer tells."""
        done, told = threading.Event(), list[Exception | None]()

        def tell(error: Exception | None) -> None:
            told.append(error)
            done.set()

        config = ShareConsumerConfig.from_mapping(self.settings_for(0))
        with self._lock:
            if self._producer is None:
                self._producer = self._given_producer or OwnKafkaPythonProducer(config)
            self._producer.produce(record, tell)
        if not done.wait(config.default_api_timeout_ms / 1_000):
            raise OperationTimeoutError(
                f"topic '{record.topic}' has not taken the message in time: it may all the same"
            )
        if told[0] is not None:
            raise told[0]

    def close_connection(self, connection: Any) -> None:
        """Close the channels and the producer."""
        super().close_connection(connection)
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.close(CLOSE_TIMEOUT_MS)

    def driver_version(self) -> str:
        return VERSION


def _payload(record: Record) -> dict[str, Any] | None:
    """What kombu wrote, with a tag for this delivery; None if it is something else."""
    try:
        payload: dict[str, Any] = loads(record.value)
        properties = payload["properties"]
        properties["delivery_tag"] = f"{record.topic}-{record.partition}@{record.offset}#{record.delivery_count}"
        properties["delivery_info"]["redelivered"] = record.delivery_count > 1
    except Exception:  # noqa: BLE001 - anybody may write to a topic
        return None
    return payload
