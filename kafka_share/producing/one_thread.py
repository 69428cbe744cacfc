"""A thread for a producer whose calls may block: it sends one record after the other, in the order of their coming.

`kafka_python` and `confluent` derive from it. The thread begins with the first record and ends with `close`. It is a
daemon: a client that hangs does not keep the process from ending.
"""

from __future__ import annotations

import abc
import queue
import threading

from kafka_share.producing.producer import OutgoingRecord, Told, not_written


class OnOneThread(abc.ABC):
    """A `RecordProducer` that may block in `_send`, `_next` and `_end`, which only its thread calls."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[tuple[OutgoingRecord, Told] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._close_timeout_ms = 0

    def produce(self, record: OutgoingRecord, told: Told) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="kafka-share producer", daemon=True)
            self._thread.start()
        self._queue.put((record, told))

    def close(self, timeout_ms: int) -> None:
        self._close_timeout_ms = timeout_ms
        self._queue.put(None)
        if self._thread is not None:
            self._thread.join(timeout_ms / 1_000)

    def _run(self) -> None:
        while (found := self._next()) is not None:
            record, told = found
            try:
                self._send(record, told)
            except Exception as error:  # noqa: BLE001 - whatever the client raises is why it was not sent
                told(self._reason(record.topic, error))
        self._end(self._close_timeout_ms)

    def _next(self) -> tuple[OutgoingRecord, Told] | None:
        """Wait for the next record; None: there are no more."""
        return self._queue.get()

    @abc.abstractmethod
    def _send(self, record: OutgoingRecord, told: Told) -> None:
        """Give the record to the client. If this raises, the record was not sent, and `told` is called with that."""

    def _reason(self, topic: str, error: Exception) -> Exception:
        return not_written(topic, error)

    @abc.abstractmethod
    def _end(self, timeout_ms: int) -> None:
        """No more records come; what is on its way may take this long."""
