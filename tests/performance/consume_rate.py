"""How fast a share consumer takes records, and what it costs: ours, and confluent-kafka's beside it if installed.

A script, not a test: `python tests/performance/consume_rate.py --help`. It fills a topic of a broker (by default the
bundled one, in a process of its own), lets each client consume all of it in a fresh process and share group, one
after the other and round after round, and prints the medians. Only the processes' own CPU time is compared across
runs: on a busy machine the rate says as much about the neighbours. Needs an installed `kafka_share`, or the
repository in PYTHONPATH.
"""

# ruff: noqa: T201 - a command line of its own

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import resource
import statistics
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from kafka import KafkaProducer

from kafka_share import KafkaShareConsumer, ShareRecords
from kafka_share.cli.demo.cluster import Cluster

PARTITIONS: Final = 4
RECORDS_IN_BATCH: Final = 500
RECORD_OVERHEAD_BYTES: Final = 12
_PREPARATION_S: Final = 120
_ROUND_TIMEOUT_S: Final = 600
_BROKER: Final = "from kafka_share.cli.broker import main; main()"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=100_000, help="records in the topic (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="runs of each client (default: %(default)s)")
    parser.add_argument("--max-poll-records", type=int, default=500, help="both clients' (default: %(default)s)")
    parser.add_argument("--value-bytes", type=int, default=100, help="size of a value (default: %(default)s)")
    parser.add_argument("--explicit", action="store_true", help="acknowledge each record by a call of its own")
    parser.add_argument("--bootstrap-server", help="a running broker to use (default: start the bundled one)")
    parser.add_argument("--consume", nargs=2, metavar=("CLIENT", "GROUP"), help=argparse.SUPPRESS)
    parser.add_argument("--topic", help=argparse.SUPPRESS)
    return parser.parse_args()


# ---- in a process of its own: one client consumes


class Meter:
    """Time and CPU from the first records on: joining the group is not what is measured."""

    def __init__(self) -> None:
        self._begun: tuple[int, float, float] | None = None
        self.count = 0

    @staticmethod
    def _cpu_s() -> float:
        usage = resource.getrusage(resource.RUSAGE_SELF)
        return usage.ru_utime + usage.ru_stime

    def add(self, count: int) -> None:
        self.count += count
        if count and self._begun is None:
            self._begun = (self.count, time.perf_counter(), self._cpu_s())

    def result(self) -> dict[str, float]:
        assert self._begun is not None
        count, started, cpu_s = self._begun
        records = self.count - count
        return {
            "rate": records / (time.perf_counter() - started),
            "cpu": (self._cpu_s() - cpu_s) / records * 1e6,
        }


def consume_ours(options: argparse.Namespace, group: str) -> dict[str, float]:
    meter = Meter()
    consumer: KafkaShareConsumer
    with KafkaShareConsumer(
        options.topic,
        bootstrap_servers=options.bootstrap_server,
        group_id=group,
        max_poll_records=options.max_poll_records,
        share_acknowledgement_mode="explicit" if options.explicit else "implicit",
    ) as consumer:
        while meter.count < options.records:
            records: ShareRecords = consumer.poll(timeout_ms=1_000)
            for record in records:
                assert record.value is not None
                if options.explicit:
                    consumer.acknowledge(record)
            meter.add(len(records))
        return meter.result()


def consume_confluent(options: argparse.Namespace, group: str) -> dict[str, float]:
    from confluent_kafka import ShareConsumer

    consumer: Any = ShareConsumer(
        {
            "bootstrap.servers": options.bootstrap_server,
            "group.id": group,
            "max.poll.records": options.max_poll_records,
            "share.acknowledgement.mode": "explicit" if options.explicit else "implicit",
        }
    )
    consumer.subscribe([options.topic])
    meter = Meter()
    while meter.count < options.records:
        records = consumer.poll(1.0)
        for record in records:
            assert record.value() is not None
            if options.explicit:
                consumer.acknowledge(record)
        meter.add(len(records))
    result = meter.result()
    consumer.close()
    return result


CLIENTS: Final[dict[str, Callable[[argparse.Namespace, str], dict[str, float]]]] = {
    "kafka_share": consume_ours,
    "confluent-kafka": consume_confluent,
}


# ---- the process that was started: broker, topic, rounds, table


@contextlib.contextmanager
def broker(bootstrap_server: str | None) -> Iterator[str]:
    """The given broker, or the bundled one for as long as the block runs."""
    if bootstrap_server is not None:
        yield bootstrap_server
        return
    with subprocess.Popen([sys.executable, "-c", _BROKER], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().removeprefix("bootstrap: ").strip()
        finally:
            process.terminate()


def fill(bootstrap_server: str, topic: str, records: int, value_bytes: int) -> None:
    """Values of `value_bytes`, without key and headers, in batches of about `RECORDS_IN_BATCH`."""
    value = b"x" * value_bytes
    producer = KafkaProducer(
        bootstrap_servers=bootstrap_server.split(","),
        batch_size=RECORDS_IN_BATCH * (value_bytes + RECORD_OVERHEAD_BYTES),
        linger_ms=50,
    )
    try:
        for i in range(records):
            producer.send(topic, value, partition=i // RECORDS_IN_BATCH % PARTITIONS)
        producer.flush(timeout=_PREPARATION_S)
    finally:
        producer.close(timeout=10)


def measure(options: argparse.Namespace, bootstrap_server: str, topic: str, client: str, group: str) -> dict[str, Any]:
    command = [sys.executable, str(Path(__file__).resolve()), "--consume", client, group, "--topic", topic]
    command += ["--bootstrap-server", bootstrap_server, "--records", str(options.records)]
    command += ["--max-poll-records", str(options.max_poll_records), *(["--explicit"] if options.explicit else [])]
    done = subprocess.run(command, check=True, timeout=_ROUND_TIMEOUT_S, stdout=subprocess.PIPE, text=True)
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def main() -> None:
    options = arguments()
    if options.consume is not None:
        client, group = options.consume
        print(json.dumps(CLIENTS[client](options, group)))
        return
    clients = [name for name in CLIENTS if name != "confluent-kafka" or importlib.util.find_spec("confluent_kafka")]
    run = uuid.uuid4().hex[:8]
    results: dict[str, list[dict[str, Any]]] = {client: [] for client in clients}
    with broker(options.bootstrap_server) as bootstrap_server:
        topic = f"consume-rate-{run}"
        with Cluster(bootstrap_server, time.monotonic() + _PREPARATION_S) as cluster:
            cluster.create_topic(topic, PARTITIONS)
            fill(bootstrap_server, topic, options.records, options.value_bytes)
            for number in range(options.rounds):
                for client in clients:
                    cluster.start_group_at_earliest(f"{run}-{client}-{number}")
        for number in range(options.rounds):
            for client in clients:
                group = f"{run}-{client}-{number}"
                results[client].append(measure(options, bootstrap_server, topic, client, group))
    show(options, results)


def show(options: argparse.Namespace, results: dict[str, list[dict[str, Any]]]) -> None:
    mode = "explicit" if options.explicit else "implicit"
    print(
        f"{options.records} records of {options.value_bytes} bytes, max_poll_records {options.max_poll_records}, "
        f"{mode}, medians of {options.rounds} rounds"
    )
    print(f"{'client':<18}{'records/s':>12}{'CPU s per million':>20}")
    for client, measured in results.items():
        rate, cpu = (statistics.median(m[name] for m in measured) for name in ("rate", "cpu"))
        print(f"{client:<18}{rate:>12,.0f}{cpu:>20.2f}")
    if len(results) == 2:
        ours, theirs = results.values()
        pairs = list(zip(ours, theirs, strict=True))
        rate, cpu = (statistics.median(a[name] / b[name] for a, b in pairs) for name in ("rate", "cpu"))
        print(f"{'ratio':<18}{rate:>12.2f}{cpu:>20.2f}")


if __name__ == "__main__":
    main()
