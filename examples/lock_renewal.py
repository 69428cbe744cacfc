"""Work that takes longer than the acquisition lock: renew the lock with RENEW and go on.

    python examples/lock_renewal.py                             # sample jobs on a broker that it starts, lock time 3 s
    python examples/lock_renewal.py --bootstrap-server localhost:9092 --topic films --group encoders

Needs Apache Kafka 4.2 or later. The work is done in slices of a third of the lock time. A record that is not ready
after a slice is acknowledged with RENEW; the next poll sends that and returns the record again, with the same delivery
count and a new lock. Only one record is acquired at a time: the locks of others would run out in the meantime.
"""

from __future__ import annotations

import argparse
import contextlib
import time
from collections.abc import Generator, Mapping

from kafka_share import AcknowledgeType, KafkaShareConsumer, KafkaShareError, ShareRecord, TopicIdPartition
from kafka_share.broker import ReferenceBroker

STEP_MS = 50


def work(left_ms: int, slice_ms: int) -> int:
    """Work for `slice_ms`, or for what is left if that is less; answers what is left then."""
    until = time.monotonic() + min(left_ms, slice_ms) / 1000
    while time.monotonic() < until:
        time.sleep(STEP_MS / 1000)  # the work
    return max(0, left_ms - slice_ms)


def encode(consumer: KafkaShareConsumer[bytes | None, bytes], work_ms: int, max_records: int | None) -> None:
    left_ms: dict[tuple[str, int, int], int] = {}
    ended = 0
    while max_records is None or ended < max_records:
        for record in consumer.poll(timeout_ms=1_000):
            place = (record.topic, record.partition, record.offset)
            lock_ms = consumer.acquisition_lock_timeout_ms or 30_000
            rest_ms = work(left_ms.get(place, work_ms), lock_ms // 3)
            if rest_ms:
                left_ms[place] = rest_ms
                consumer.acknowledge(record, AcknowledgeType.RENEW)
                show(record, f"{rest_ms} ms of work left, renewed")
            else:
                left_ms.pop(place, None)
                consumer.acknowledge(record)
                ended += 1
                show(record, "done")


def show(record: ShareRecord[bytes | None, bytes], what: str) -> None:
    print(f"{record.value.decode()}, delivery {record.delivery_count}: {what}", flush=True)


def report_failure(offsets: Mapping[TopicIdPartition, frozenset[int]], error: KafkaShareError | None) -> None:
    """The callback: a renewal that failed was too late. The record is delivered again, here or elsewhere."""
    if error is not None:
        for partition, these in offsets.items():
            print(f"{partition} {sorted(these)}: {error}")


@contextlib.contextmanager
def sample_broker(topic: str, group: str) -> Generator[str]:
    # Kafka's brokers do not allow a lock time below 15 s unless they are configured to.
    with ReferenceBroker(config={"group.share.min.record.lock.duration.ms": 1_000}) as broker:
        broker.create_topic(topic)
        broker.set_group_config(group, share_auto_offset_reset="earliest", share_record_lock_duration_ms=3_000)
        broker.produce_batch(topic, [b"film 1", b"film 2"])
        yield broker.bootstrap_servers


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bootstrap-server", metavar="HOST:PORT", help="default: a new broker with samples")
    parser.add_argument("--topic", default="films")
    parser.add_argument("--group", default="encoders")
    parser.add_argument("--work-ms", type=int, default=4_000, help="how long the work on a record takes")
    parser.add_argument("--max-records", type=int, help="end after this many records")
    options = parser.parse_args()
    with contextlib.ExitStack() as stack:
        servers, max_records = options.bootstrap_server, options.max_records
        if servers is None:
            servers = stack.enter_context(sample_broker(options.topic, options.group))
            max_records = max_records or 2
        consumer: KafkaShareConsumer[bytes | None, bytes] = KafkaShareConsumer(
            options.topic,
            bootstrap_servers=servers,
            group_id=options.group,
            share_acknowledgement_mode="explicit",
            share_acquire_mode="record_limit",
            max_poll_records=1,
        )
        stack.enter_context(consumer)
        consumer.set_acknowledgement_commit_callback(report_failure)
        encode(consumer, options.work_ms, max_records)


if __name__ == "__main__":
    main()
