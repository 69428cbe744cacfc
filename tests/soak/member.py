"""One member of a soak run, in a process of its own: consumes until SIGTERM, and writes what it saw to stdout.

A line is written in one piece before the records are processed, so that a killed member leaves no delivery untold:
`D partition offset:count …` for a delivery, `A partition TYPE error-or-dash offset:count …` for an answer.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import sys
from collections import defaultdict
from collections.abc import Mapping

from kafka_share import AcknowledgeType, KafkaShareConsumer, ShareRecord, ShareRecords
from kafka_share.errors import KafkaShareError, WakeupError
from kafka_share.records import TopicIdPartition

Consumer = KafkaShareConsumer
Said = dict[tuple[int, int], tuple[str, int]]
"""(partition, offset) -> (acknowledgement type, delivery count), until its answer came."""


def write(line: str) -> None:
    """One system call: what a killed process had written arrives whole."""
    os.write(1, (line + "\n").encode())


def tell_delivered(records: ShareRecords) -> None:
    by_partition: dict[int, list[str]] = defaultdict(list)
    for record in records:
        by_partition[record.partition].append(f"{record.offset}:{record.delivery_count}")
    for partition, seen in by_partition.items():
        write(f"D {partition} {' '.join(seen)}")


def tell_answer(said: Said, offsets: Mapping[TopicIdPartition, frozenset[int]], error: KafkaShareError | None) -> None:
    for where, numbers in offsets.items():
        by_type: dict[str, list[str]] = defaultdict(list)
        for offset in sorted(numbers):
            kind, count = said.pop((where.partition, offset), ("GAP", 0))
            by_type[kind].append(f"{offset}:{count}")
        for kind, told in by_type.items():
            write(f"A {where.partition} {kind} {type(error).__name__ if error else '-'} {' '.join(told)}")


def decide(source: random.Random, record: ShareRecord) -> AcknowledgeType:
    """Mostly accepted; some are given back while they may still be delivered again, few refused."""
    draw = source.random()
    if draw < 0.02 and record.delivery_count < 3:
        return AcknowledgeType.RELEASE
    if draw < 0.03:
        return AcknowledgeType.REJECT
    return AcknowledgeType.ACCEPT


def run(bootstrap_servers: str, topic: str, group_id: str, mode: str, seed: int) -> None:
    source = random.Random(seed)
    said: Said = {}
    consumer: Consumer
    with KafkaShareConsumer(
        topic,
        bootstrap_servers=bootstrap_servers,
        group_id=group_id,
        client_id=f"soak-{os.getpid()}",
        share_acknowledgement_mode="explicit" if mode == "explicit" else "implicit",
        max_poll_records=100,
    ) as consumer:
        stopping: list[int] = []

        def stop(number: int, _: object) -> None:
            stopping.append(number)
            consumer.wakeup()

        signal.signal(signal.SIGTERM, stop)
        consumer.set_acknowledgement_commit_callback(lambda offsets, error: tell_answer(said, offsets, error))
        write("READY")
        while not stopping:
            with contextlib.suppress(WakeupError):  # a poll or a commit that was told to stop
                take(consumer, mode, source, said)


def take(consumer: Consumer, mode: str, source: random.Random, said: Said) -> None:
    """One poll, and acknowledgements of its records; now and then a commit."""
    records = consumer.poll(timeout_ms=1_000)
    tell_delivered(records)
    for record in records:
        kind = AcknowledgeType.ACCEPT
        if mode == "explicit":
            kind = decide(source, record)
            consumer.acknowledge(record, kind)
        said[record.partition, record.offset] = (kind.name, record.delivery_count)
    if source.random() < 0.1:
        consumer.commit_sync(timeout_ms=10_000)


if __name__ == "__main__":
    _, _bootstrap_servers, _topic, _group_id, _mode, _seed = sys.argv
    run(_bootstrap_servers, _topic, _group_id, _mode, int(_seed))
