"""Fills topics with records, and produces stamped ones at a steady pace.

Used by the benchmarks. `python -m performance.filling BOOTSTRAP TOPIC COUNT EVERY_MS VALUE_BYTES` is the steady pace,
in a process apart from the consumer: its clock is what latency is measured from.
"""

from __future__ import annotations

import struct
import sys
import time
from typing import Any, Final

PARTITIONS: Final = 4
RECORDS_IN_BATCH: Final = 500
_RECORD_OVERHEAD_BYTES: Final = 16
_BATCH_OVERHEAD_BYTES: Final = 64
_PREPARATION_S: Final = 120
_STAMP: Final = struct.Struct(">q")


def fill(bootstrap_server: str, topic: str, records: int, value_bytes: int, partitions: int = PARTITIONS) -> None:
    """Values of `value_bytes`, without key and headers, in batches of `RECORDS_IN_BATCH`."""
    from confluent_kafka import Producer

    value = b"x" * value_bytes
    batch_bytes = RECORDS_IN_BATCH * (value_bytes + _RECORD_OVERHEAD_BYTES) + _BATCH_OVERHEAD_BYTES
    producer: Any = Producer(
        {
            "bootstrap.servers": bootstrap_server,
            "batch.num.messages": RECORDS_IN_BATCH,
            "batch.size": batch_bytes,
            "linger.ms": 1_000,
            "queue.buffering.max.messages": 20 * RECORDS_IN_BATCH,
        }
    )
    failures: list[Any] = []

    def delivered(error: Any, _: Any) -> None:
        if error is not None:
            failures.append(error)

    for number in range(records):
        partition = number // RECORDS_IN_BATCH % partitions
        while True:
            try:
                producer.produce(topic, value, partition=partition, on_delivery=delivered)
                break
            except BufferError:
                producer.poll(0.1)
    if producer.flush(_PREPARATION_S) or failures:
        raise RuntimeError(f"{topic} could not be filled: {failures[:1]}")


def produce_steadily(bootstrap_server: str, topic: str, count: int, every_ms: float, value_bytes: int) -> None:
    """Values begin with the time at which they were handed to the producer, in ns since 1970."""
    from confluent_kafka import Producer

    producer: Any = Producer({"bootstrap.servers": bootstrap_server, "linger.ms": 0, "acks": "1"})
    rest = bytes(max(0, value_bytes - _STAMP.size))
    begun_at_s = time.monotonic()
    for number in range(count):
        time.sleep(max(0.0, begun_at_s + number * every_ms / 1_000 - time.monotonic()))
        producer.produce(topic, _STAMP.pack(time.time_ns()) + rest, partition=0)
        producer.poll(0)
    if producer.flush(_PREPARATION_S):
        raise RuntimeError(f"nobody took the records of {topic}")


if __name__ == "__main__":
    produce_steadily(sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4]), int(sys.argv[5]))
