"""What the contestants consume from: the stub, the reference broker, a fake broker of others, or a real Apache Kafka.

Used by `runs`. A target prepares a fresh share group for each run, and says how much CPU it has used if it knows. Where
a target cannot be had, `KafkaUnavailableError` or `BrokerMissingError` says why in one line.
"""

from __future__ import annotations

import contextlib
import itertools
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from typing import Final, Protocol

import attrs
from conformance.kafka_targets import REFERENCE, running
from performance.filling import PARTITIONS, fill
from performance.machine import cpu_s
from performance.other_brokers import KFAKE, MOCK, Mock, kfake, mock
from performance.stub_broker import Settings
from performance.stub_process import StubProcess
from support.documentation import environment

from kafka_share.cli.demo.cluster import Cluster

STUB: Final = "stub"
KAFKA: Final = "4.3.1"
"""A target besides the stub and `REFERENCE`: the version of Kafka that is started."""

_PREPARATION_S: Final = 300


@attrs.frozen
class Place:
    """Where one contestant finds its records. `pace`: what makes records while it runs, to be run at its first one."""

    bootstrap: str
    topic: str
    group: str
    pace: list[str] | None = None


class Target(Protocol):
    def place(self, settings: Settings, records: int, consumers: int) -> Place:
        """For so many consumers together."""

    def checked_cpu_s(self, place: Place) -> float | None:
        """CPU seconds that the broker has used so far, if it knows; fails if it saw a wrong acknowledgement."""


class StubTarget:
    """A stub for one row. What it replays is fixed when it starts."""

    def __init__(self, stub: StubProcess) -> None:
        self._stub = stub
        self._numbers = itertools.count()

    def place(self, settings: Settings, records: int, consumers: int) -> Place:
        group = f"group-{next(self._numbers)}"
        self._stub.open_group(group, records, consumers)
        return Place(self._stub.bootstrap, self._stub.topic, group)

    def checked_cpu_s(self, place: Place) -> float | None:
        account = self._stub.account(place.group)
        assert account["wrong"] == 0, f"acknowledged, but not acquired, or twice: {account}"
        cpu_s: float = account["cpu_s"]
        return cpu_s


class FilledTarget:
    """A broker with a log. Each size of values has a topic, which all rows share."""

    def __init__(self, bootstrap: str, pid: int | None = None) -> None:
        self._bootstrap = bootstrap
        self._pid = pid
        self._run = uuid.uuid4().hex[:6]
        self._numbers = itertools.count()
        self._filled: dict[int, int] = {}
        """Value size -> records."""

    def place(self, settings: Settings, records: int, consumers: int) -> Place:
        number = next(self._numbers)
        group = f"group-{self._run}-{number}"
        with Cluster(self._bootstrap, time.monotonic() + _PREPARATION_S) as cluster:
            cluster.start_group_at_earliest(group)
            if settings.every_ms:
                return self._paced(cluster, group, settings, records)
            size = settings.shape.value_bytes
            topic = f"bench-{self._run}-{size}"
            if size not in self._filled:
                cluster.create_topic(topic, PARTITIONS)
        missing = records - self._filled.get(size, 0)
        if missing > 0:
            fill(self._bootstrap, topic, missing, size)
            self._filled[size] = records
        return Place(self._bootstrap, topic, group)

    def _paced(self, cluster: Cluster, group: str, settings: Settings, records: int) -> Place:
        """A topic of its own, with a first record in it: the others come when the contestant has that one."""
        topic = f"paced-{group}"
        cluster.create_topic(topic, 1)
        size = settings.shape.value_bytes
        fill(self._bootstrap, topic, 1, size, partitions=1)
        words = [self._bootstrap, topic, str(records - 1), str(settings.every_ms), str(size)]
        pace = [sys.executable, "-P", "-m", "performance.filling", *words]
        return Place(self._bootstrap, topic, group, pace)

    def checked_cpu_s(self, place: Place) -> float | None:
        return None if self._pid is None else cpu_s(self._pid)


class MockTarget:
    """librdkafka's mock, with a topic of its own for each run: a partition keeps 5 MB."""

    def __init__(self, broker: Mock) -> None:
        self._broker = broker
        self._numbers = itertools.count()

    def place(self, settings: Settings, records: int, consumers: int) -> Place:
        name = f"bench-{next(self._numbers)}"
        self._broker.create_topic(name, PARTITIONS)
        fill(self._broker.bootstrap, name, records, settings.shape.value_bytes)
        return Place(self._broker.bootstrap, name, name)

    def checked_cpu_s(self, place: Place) -> float | None:
        return cpu_s(self._broker.pid)


@contextlib.contextmanager
def stub(settings: Settings) -> Iterator[Target]:
    with StubProcess(settings) as process:
        yield StubTarget(process)


@contextlib.contextmanager
def broker(name: str) -> Iterator[Target]:
    """`REFERENCE`, `KFAKE`, `MOCK` or a version of Kafka, with its default settings."""
    if name == KFAKE:
        with kfake() as (bootstrap, pid):
            yield FilledTarget(bootstrap, pid)
        return
    if name == MOCK:
        with mock() as started:
            yield MockTarget(started)
        return
    with running(name, settings={}) as target:
        yield FilledTarget(target.bootstrap_servers, target.pid)


@contextlib.contextmanager
def pacing(place: Place) -> Iterator[None]:
    """What makes records while the block runs."""
    if place.pace is None:
        yield
        return
    with subprocess.Popen(place.pace, env=environment()) as process:
        try:
            yield
        finally:
            process.kill()


__all__ = ["KAFKA", "KFAKE", "MOCK", "REFERENCE", "STUB", "Place", "Target", "broker", "pacing", "stub"]
