"""confluent-kafka's producer for a worker. confluent-kafka is no dependency: the application has made the producer."""

from __future__ import annotations

import queue
import threading
from typing import Any, Final

from kafka_share.producing.one_thread import OnOneThread
from kafka_share.producing.producer import FORBIDDEN, MISSING, OutgoingRecord, Told, not_written

_SERVE_S: Final = 0.05
"""How long a look for delivery reports takes, while the next record may be waiting."""
_REMEDIES: Final = {
    "UNKNOWN_TOPIC_OR_PART": MISSING,
    "_UNKNOWN_TOPIC": MISSING,
    "_MSG_TIMED_OUT": MISSING,
    "TOPIC_AUTHORIZATION_FAILED": FORBIDDEN,
}
"""By librdkafka's names of errors."""


class ConfluentProducer(OnOneThread):
    """Writes with a `confluent_kafka.Producer` of the application, which keeps its settings and closes it.

    Its `acks` has to be "all", which is its default.
    """

    def __init__(self, client: Any) -> None:
        super().__init__()
        self._client = client
        self._lock = threading.Lock()
        self._in_flight = 0

    def _next(self) -> tuple[OutgoingRecord, Told] | None:
        while self._in_flight:
            try:
                return self._queue.get_nowait()
            except queue.Empty:
                self._client.poll(_SERVE_S)
        return self._queue.get()

    def _send(self, record: OutgoingRecord, told: Told) -> None:
        def delivered(error: Any, _message: Any) -> None:
            with self._lock:  # a thread of the application may serve the client, too
                self._in_flight -= 1
            told(None if error is None else _reason_of(record.topic, error))

        with self._lock:
            self._in_flight += 1
        try:
            self._client.produce(
                record.topic,
                value=record.value,
                key=record.key,
                headers=list(record.headers),
                partition=-1 if record.partition is None else record.partition,
                on_delivery=delivered,
            )
        except BaseException:
            with self._lock:
                self._in_flight -= 1
            raise

    def _end(self, timeout_ms: int) -> None:
        if self._in_flight:
            self._client.flush(timeout_ms / 1_000)


def _reason_of(topic: str, error: Any) -> Exception:
    return not_written(topic, f"{error.name()}: {error.str()}", _REMEDIES.get(error.name(), ""))
