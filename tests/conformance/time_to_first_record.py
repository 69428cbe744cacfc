"""Measures the time from making a consumer to its first record, for a new group on an existing topic.

    PYTHONPATH=tests python tests/conformance/time_to_first_record.py reference 4.1.2 4.3.1 --runs 7 --foreign 2 --trace

A tool, not a test. The brokers have their default settings. Each run is a new group that reads from the start of a
topic with records; the topic, the group's config and a first, uncounted group (it makes Kafka create its internal
topics) come before the clock starts. --foreign measures confluent-kafka's share consumer too; --trace prints what the
first group and the last one sent, and when.
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final
from unittest import mock

from conformance.admin_over_wire import Admin
from conformance.kafka_targets import REFERENCE, Target, running, target_name

from kafka_share import KafkaShareConsumer
from kafka_share.core.consumer import ShareConsumerCore
from kafka_share.core.events import Event, Output, RequestFailed, ResponseReceived, Send

TOPIC: Final = "first-record"
PATIENCE_S: Final = 30


def ours(target: Target, group: str) -> float:
    began_at_s = time.perf_counter()
    consumer: KafkaShareConsumer[Any, Any]
    with KafkaShareConsumer(TOPIC, bootstrap_servers=target.bootstrap_servers, group_id=group) as consumer:
        while time.perf_counter() - began_at_s < PATIENCE_S:
            if consumer.poll(timeout_ms=1_000):
                return time.perf_counter() - began_at_s
    raise TimeoutError("no record came")


def foreign(target: Target, group: str) -> float:
    from confluent_kafka import ShareConsumer  # type: ignore[import-untyped, unused-ignore]

    began_at_s = time.perf_counter()
    consumer = ShareConsumer({"bootstrap.servers": target.bootstrap_servers, "group.id": group})
    try:
        consumer.subscribe([TOPIC])
        while time.perf_counter() - began_at_s < PATIENCE_S:
            if consumer.poll(1.0):
                return time.perf_counter() - began_at_s
    finally:
        consumer.close()
    return math.inf  # on Kafka 4.1 some of its member ids never get a record


def measure(target: Target, admin: Admin, run: Callable[[Target, str], float], runs: int) -> list[float]:
    spans = []
    for _ in range(runs):
        group = f"g-{uuid.uuid4().hex[:8]}"
        admin.set_group_config(group, {"share.auto.offset.reset": "earliest"})
        spans.append(run(target, group))
    return spans


def line(name: str, spans: list[float]) -> str:
    middle, low, high = statistics.median(spans), min(spans), max(spans)
    return f"{name}: median {middle:.3f} s, {low:.3f} to {high:.3f} s, {len(spans)} runs"


@contextmanager
def traced() -> Iterator[list[str]]:
    """Collects what the consumer cores send and receive, with milliseconds since the first event."""
    lines: list[str] = []
    began_at_ms: list[int] = []
    handle, poll = ShareConsumerCore.handle, ShareConsumerCore.poll

    def note(now_ms: int, text: str) -> None:
        began_at_ms[:] = began_at_ms or [now_ms]
        lines.append(f"{now_ms - began_at_ms[0]:6} ms  {text}")

    def noting_handle(core: ShareConsumerCore, event: Event, now_ms: int) -> None:
        if isinstance(event, ResponseReceived | RequestFailed):
            note(now_ms, f"<- {str(event)[:600]}")
        else:
            note(now_ms, f"   {type(event).__name__}")
        handle(core, event, now_ms)

    def noting_poll(core: ShareConsumerCore, now_ms: int) -> list[Output]:
        outputs = poll(core, now_ms)
        for output in outputs:
            if isinstance(output, Send):
                note(now_ms, f"-> {output.node.id} {output.channel.value} #{output.send_id} {output.request}"[:600])
        return outputs

    with (
        mock.patch.object(ShareConsumerCore, "handle", noting_handle),
        mock.patch.object(ShareConsumerCore, "poll", noting_poll),
    ):
        yield lines


def report(target_id: str, runs: int, foreign_runs: int, trace: bool) -> Iterator[str]:
    with running(target_id, settings={}) as target, Admin(target.bootstrap_servers) as admin:
        admin.create_topic(TOPIC)
        admin.produce(TOPIC, [b"value"] * 10)
        with traced() as lines:
            [first] = measure(target, admin, ours, 1)
        name = target_name(target_id)
        yield f"{name}: very first group of the cluster {first:.3f} s"
        if trace:
            yield from lines
        yield line(name, measure(target, admin, ours, runs))
        if foreign_runs:
            yield line(f"{name}, confluent-kafka", measure(target, admin, foreign, foreign_runs))
        if trace:
            with traced() as lines:
                measure(target, admin, ours, 1)
            yield from lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="+", help=f"{REFERENCE}, or a version of Apache Kafka")
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--foreign", type=int, default=0, metavar="RUNS")
    parser.add_argument("--trace", action="store_true")
    given = parser.parse_args()
    for target_id in given.targets:
        for text in report(target_id, given.runs, given.foreign, given.trace):
            print(text, flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
