"""A worker in explicit mode: done, try again, or never again; it stops cleanly on SIGTERM and Ctrl-C.

    python examples/worker.py                                     # ten sample jobs on a broker that it starts
    python examples/worker.py --bootstrap-server localhost:9092 --topic jobs --group workers

A job is JSON, such as {"job": 1}. What it shows:

- a failure that may pass is answered with a release after a while: the record comes again, here or elsewhere, and
  waiting spends none of its deliveries
- a job that can never work, and a record that is not even JSON, are answered with REJECT
- a signal sets a flag and calls `wakeup`, which ends a waiting poll; `close` then sends the acknowledgements made so
  far and releases the rest at once
"""

from __future__ import annotations

import argparse
import contextlib
import json
import signal
from collections.abc import Generator
from typing import Any

from kafka_share import AcknowledgeType, KafkaShareConsumer, ShareRecord
from kafka_share.broker import ReferenceBroker
from kafka_share.errors import WakeupError

SAMPLE_JOBS = [*(b'{"job": %d}' % number for number in range(1, 10)), b"this is not JSON"]


RETRY_AFTER_MS = 500


class PoisonError(Exception):
    """This job can never work."""


def do(job: Any, delivery_count: int) -> None:
    """The work; the sample jobs 3 and 5 are made to fail."""
    if job["job"] == 3 and delivery_count == 1:
        raise ConnectionError("the database is away")
    if job["job"] == 5:
        raise PoisonError("there is no such customer")


class Worker:
    """Polls and works until `max_records` records have been accepted or rejected, or `stop` was called."""

    def __init__(self, consumer: KafkaShareConsumer[bytes | None, Any], max_records: int | None) -> None:
        self._consumer = consumer
        self._max_records = max_records
        self._stopping = False
        self.counts = dict.fromkeys(AcknowledgeType, 0)

    def stop(self, *_: object) -> None:
        """Finish the record in hand and no other. Called by signal handlers."""
        self._stopping = True
        self._consumer.wakeup()

    def _is_done(self) -> bool:
        finished = self.counts[AcknowledgeType.ACCEPT] + self.counts[AcknowledgeType.REJECT]
        return self._stopping or (self._max_records is not None and finished >= self._max_records)

    def run(self) -> None:
        while not self._is_done():
            try:
                records = self._consumer.poll(timeout_ms=1_000)
            except WakeupError:
                continue
            for record in records:
                if self._is_done():
                    return
                self._work_on(record)

    def _work_on(self, record: ShareRecord[bytes | None, Any]) -> None:
        if record.error is not None:  # no JSON: the value is bytes, and no later delivery can mend that
            self._consumer.acknowledge(record, AcknowledgeType.REJECT)
            self._tell(f"offset {record.offset}", AcknowledgeType.REJECT, f" ({record.error.__cause__})")
            return
        kind, reason = AcknowledgeType.ACCEPT, ""
        try:
            do(record.value, record.delivery_count)
        except ConnectionError as error:
            kind, reason = AcknowledgeType.RELEASE, f" ({error})"
        except Exception as error:  # noqa: BLE001 - whatever it is, it must not stop the other jobs
            kind, reason = AcknowledgeType.REJECT, f" ({error})"
        if kind is AcknowledgeType.RELEASE:
            self._consumer.release(record, RETRY_AFTER_MS)
        else:
            self._consumer.acknowledge(record, kind)
        self._tell(f"job {record.value['job']}, delivery {record.delivery_count}", kind, reason)

    def _tell(self, what: str, kind: AcknowledgeType, reason: str) -> None:
        self.counts[kind] += 1
        print(f"{what}: {kind.name}{reason}", flush=True)


@contextlib.contextmanager
def sample_broker(topic: str, group: str) -> Generator[str]:
    with ReferenceBroker() as broker:
        broker.create_topic(topic)
        broker.set_group_config(group, share_auto_offset_reset="earliest")
        broker.produce_batch(topic, SAMPLE_JOBS)
        yield broker.bootstrap_servers


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bootstrap-server", metavar="HOST:PORT", help="default: a new broker with samples")
    parser.add_argument("--topic", default="jobs")
    parser.add_argument("--group", default="workers")
    parser.add_argument("--max-records", type=int, help="end after this many accepted or rejected records")
    options = parser.parse_args()
    with contextlib.ExitStack() as stack:
        servers, max_records = options.bootstrap_server, options.max_records
        if servers is None:
            servers = stack.enter_context(sample_broker(options.topic, options.group))
            max_records = max_records or len(SAMPLE_JOBS)
        consumer = KafkaShareConsumer(
            options.topic,
            bootstrap_servers=servers,
            group_id=options.group,
            share_acknowledgement_mode="explicit",
            value_deserializer=json.loads,
            deserialization_errors="mark",
        )
        stack.enter_context(consumer)
        worker = Worker(consumer, max_records)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, worker.stop)
        worker.run()
    print(", ".join(f"{count} {kind.name}" for kind, count in worker.counts.items() if count))


if __name__ == "__main__":
    main()
