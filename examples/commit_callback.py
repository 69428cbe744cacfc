"""Know how each acknowledgement ended, without waiting for it: the acknowledgement commit callback.

    python examples/commit_callback.py                            # sample records on a broker that it starts
    python examples/commit_callback.py --bootstrap-server localhost:9092 --topic clicks --group counters

The consumer acknowledges implicitly: each poll accepts what the one before returned. `commit_async` sends that at once
instead; the callback gets the outcome inside a later call. Every offset is reported exactly once.
"""

from __future__ import annotations

import argparse
import contextlib
from collections import Counter
from collections.abc import Generator, Mapping

from kafka_share import KafkaShareConsumer, KafkaShareError, TopicIdPartition
from kafka_share.broker import ReferenceBroker
from kafka_share.errors import OutcomeUnknownError


class Outcomes:
    """The callback. It runs on the thread that polls, and must not call the consumer."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def __call__(self, offsets: Mapping[TopicIdPartition, frozenset[int]], error: KafkaShareError | None) -> None:
        if error is None:
            verdict = "accepted"
        elif isinstance(error, OutcomeUnknownError):
            verdict = "unknown"  # the answer was lost: perhaps accepted, perhaps delivered again
        else:
            verdict = "failed"  # delivered again, here or elsewhere
        for partition, these in offsets.items():
            self.counts[verdict] += len(these)
            print(f"{partition} {min(these)}-{max(these)}: {verdict}" + (f" ({error})" if error else ""))


@contextlib.contextmanager
def sample_broker(topic: str, group: str) -> Generator[str]:
    with ReferenceBroker() as broker:
        broker.create_topic(topic, partitions=2)
        broker.set_group_config(group, share_auto_offset_reset="earliest")
        for partition in (0, 1):
            broker.produce_batch(topic, [b"click"] * 50, partition=partition)
        yield broker.bootstrap_servers


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bootstrap-server", metavar="HOST:PORT", help="default: a new broker with samples")
    parser.add_argument("--topic", default="clicks")
    parser.add_argument("--group", default="counters")
    parser.add_argument("--max-records", type=int, help="end after this many records")
    options = parser.parse_args()
    outcomes = Outcomes()
    with contextlib.ExitStack() as stack:
        servers, max_records = options.bootstrap_server, options.max_records
        if servers is None:
            servers = stack.enter_context(sample_broker(options.topic, options.group))
            max_records = max_records or 100
        consumer: KafkaShareConsumer[bytes | None, bytes | None] = KafkaShareConsumer(
            options.topic, bootstrap_servers=servers, group_id=options.group
        )
        stack.enter_context(consumer)
        consumer.set_acknowledgement_commit_callback(outcomes)
        seen = 0
        while max_records is None or seen < max_records:
            seen += len(consumer.poll(timeout_ms=1_000))
            consumer.commit_async()
        consumer.commit_sync()  # waits for all outcomes that are missing; the callback gets them, too
    print(f"{seen} records: " + ", ".join(f"{count} {verdict}" for verdict, count in outcomes.counts.items()))


if __name__ == "__main__":
    main()
