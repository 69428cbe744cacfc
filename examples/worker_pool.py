"""A pool of threads behind one consumer: the open window.

    python examples/worker_pool.py                                # sample jobs on a broker that it starts
    python examples/worker_pool.py --bootstrap-server localhost:9092 --topic jobs --group pool --threads 8

One thread polls and gives records to the pool; the workers acknowledge them in any order. At most `--window`
records are processed at a time, so a slow job blocks only its own thread. A worker skips a record whose lock is lost
(`lock_lost`): another member has it, or will.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import random
import time
from collections.abc import Generator
from concurrent.futures import Future, ThreadPoolExecutor

from kafka_share import KafkaShareConsumer, ShareRecord
from kafka_share.broker import ReferenceBroker

Consumer = KafkaShareConsumer[bytes | None, bytes]
SAMPLES = 60


class Pool:
    """What the workers do, and how many records ended in which way."""

    def __init__(self, consumer: Consumer, threads: int) -> None:
        self.ended: collections.Counter[str] = collections.Counter()
        self._consumer = consumer
        self._executor = ThreadPoolExecutor(threads)
        self._futures: collections.deque[Future[str]] = collections.deque()

    def submit(self, record: ShareRecord[bytes | None, bytes]) -> None:
        self._futures.append(self._executor.submit(self._work, record))
        while self._futures and self._futures[0].done():
            self.ended[self._futures.popleft().result()] += 1

    def _work(self, record: ShareRecord[bytes | None, bytes]) -> str:
        if record.lock_lost:
            return "lost"  # it makes room by itself, and comes again
        time.sleep(random.uniform(0, 0.02))  # the work
        outcome = self._consumer.acknowledge_with_result(record)
        return "done" if outcome.exception() is None else "lost"

    def finish(self) -> None:
        """Wait for the work that has begun; the consumer must not be closed before."""
        self._executor.shutdown()
        while self._futures:
            self.ended[self._futures.popleft().result()] += 1


@contextlib.contextmanager
def sample_broker(topic: str, group: str) -> Generator[str]:
    with ReferenceBroker() as broker:
        broker.create_topic(topic, partitions=2)
        broker.set_group_config(group, share_auto_offset_reset="earliest")
        for number in range(SAMPLES):
            broker.produce(topic, b"job %d" % number, partition=number % 2)
        yield broker.bootstrap_servers


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bootstrap-server", metavar="HOST:PORT", help="default: a new broker with samples")
    parser.add_argument("--topic", default="jobs")
    parser.add_argument("--group", default="pool")
    parser.add_argument("--threads", type=int, default=4)
    parser.add_argument("--window", type=int, default=20, help="how many records are in work at a time")
    options = parser.parse_args()
    with contextlib.ExitStack() as stack:
        servers, max_records = options.bootstrap_server, None
        if servers is None:
            servers, max_records = stack.enter_context(sample_broker(options.topic, options.group)), SAMPLES
        consumer: Consumer = KafkaShareConsumer(
            options.topic,
            bootstrap_servers=servers,
            group_id=options.group,
            share_acknowledgement_mode="explicit",
            share_acquire_mode="record_limit",
            explicit_window_records=options.window,
        )
        stack.enter_context(consumer)
        pool = Pool(consumer, options.threads)
        stack.callback(pool.finish)
        taken = 0
        while max_records is None or taken < max_records:
            for record in consumer.poll(timeout_ms=1_000):
                pool.submit(record)
                taken += 1
        pool.finish()
        print(", ".join(f"{count} {how}" for how, count in sorted(pool.ended.items())))


if __name__ == "__main__":
    main()
