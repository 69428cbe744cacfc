"""confluent-kafka's share consumer for a contestant."""

from __future__ import annotations

from typing import Any

from performance.meter import IMPLICIT, Task


def confluent_consumer(task: Task) -> Any:
    from confluent_kafka import ShareConsumer

    consumer: Any = ShareConsumer(
        {
            "bootstrap.servers": task.bootstrap,
            "group.id": task.group,
            "max.poll.records": task.max_poll_records,
            "share.acknowledgement.mode": "implicit" if task.mode in IMPLICIT else "explicit",
        }
    )
    consumer.subscribe([task.topic])
    return consumer
