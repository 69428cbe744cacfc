"""The brokers that one suite runs on: the reference broker, and Apache Kafka of several versions.

Used by the fixtures of this directory and by the tools beside them. All targets have the same settings, and everything
that a test prepares goes over the wire, so that no test can tell them apart but by `Target.speaks_v2`.

Here alone is decided what a real Kafka runs from: its jars, where there are Java and Maven or cached jars; else a
container, where a Docker engine answers, for tests that one unsecured node is enough for; else `KafkaUnavailableError`,
with one line that says why neither.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

import attrs
from conformance.kafka_container import KafkaContainer, engine_problem
from conformance.kafka_jars import KafkaUnavailableError
from conformance.kafka_server import KafkaServer
from conformance.kafka_settings import Security

REFERENCE: Final = "reference"
SETTINGS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "group.share.min.record.lock.duration.ms": "1000",
        "group.consumer.min.heartbeat.interval.ms": "500",
        "log.cleaner.backoff.ms": "1000",
    }
)
"""A group may then have a lock short enough to wait for, members learn of each other soon, and logs are compacted soon.
Everything else is as Kafka comes."""

_NO_SETTINGS: Final[Mapping[str, str]] = MappingProxyType({})
_STOP_TIMEOUT_S: Final = 30


@attrs.frozen
class Target:
    """A running broker or cluster. `version`: of Apache Kafka; None is the reference broker. `pid`: of its process, if
    there is one and it is known."""

    bootstrap_servers: str
    version: str | None
    nodes: int
    pid: int | None = None

    @property
    def speaks_v2(self) -> bool:
        """Whether RENEW and the strict record limit exist (ShareFetch version 2, Kafka 4.2)."""
        return self.version is None or _numbers(self.version) >= (4, 2)

    @property
    def demands_finite_quotas(self) -> bool:
        """Whether NaN and infinity are refused as quotas (Kafka 4.4)."""
        return self.version is not None and _numbers(self.version) >= (4, 4)

    @property
    def counts_released_on_close(self) -> bool:
        """Whether a delivery that ends with its session stays counted (Kafka 4.2, KAFKA-19972)."""
        return self.speaks_v2


def target_name(target_id: str) -> str:
    return "reference broker" if target_id == REFERENCE else f"Apache Kafka {target_id}"


@contextlib.contextmanager
def running(
    target_id: str, *, nodes: int = 1, settings: Mapping[str, str] = SETTINGS, starts_quickly: bool = False
) -> Iterator[Target]:
    """Start the reference broker, or this version of Apache Kafka; `starts_quickly` as for `KafkaServer`."""
    if target_id == REFERENCE:
        with _reference_broker(nodes, settings) as (bootstrap_servers, pid):
            yield Target(bootstrap_servers, None, nodes, pid)
    else:
        with _from_jars_or_docker(target_id, nodes, settings, starts_quickly) as kafka:
            yield Target(kafka.bootstrap_servers, target_id, nodes)


def controlled(
    version: str, *, nodes: int = 1, settings: Mapping[str, str] = _NO_SETTINGS, security: Security | None = None
) -> KafkaServer:
    """Start a real Kafka that can be secured, and whose nodes can be killed and restarted: from jars only."""
    try:
        return KafkaServer(version, nodes=nodes, settings=settings, security=security)
    except KafkaUnavailableError as error:
        raise _without_jars(error, "the test kills nodes or logs in") from error


def _from_jars_or_docker(
    version: str, nodes: int, settings: Mapping[str, str], starts_quickly: bool
) -> KafkaServer | KafkaContainer:
    try:
        return KafkaServer(version, nodes=nodes, settings=settings, starts_quickly=starts_quickly)
    except KafkaUnavailableError as error:
        no_jars = error
    if nodes > 1:
        raise _without_jars(no_jars, f"the test needs {nodes} nodes")
    try:
        return KafkaContainer(version, settings=settings)
    except KafkaUnavailableError as no_container:
        raise KafkaUnavailableError(f"{no_jars}; and {no_container}") from no_container


def _without_jars(no_jars: KafkaUnavailableError, needs: str) -> KafkaUnavailableError:
    """The reason of a test that a container is not enough for."""
    no_container = engine_problem() or f"a Docker container is one node, without security and without kill: {needs}"
    return KafkaUnavailableError(f"{no_jars}; and {no_container}")


@contextlib.contextmanager
def _reference_broker(nodes: int, settings: Mapping[str, str]) -> Iterator[tuple[str, int]]:
    command = [sys.executable, "-c", "from kafka_share.cli.broker import main; main()", "--nodes", str(nodes)]
    for name, value in settings.items():
        command += ["--config", f"{name}={value}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            assert line.startswith("bootstrap: "), f"the reference broker did not start: {line!r}"
            yield line.removeprefix("bootstrap: ").strip(), process.pid
        finally:
            process.terminate()
            code = process.wait(_STOP_TIMEOUT_S)
    assert code == 0, f"SIGTERM ended the reference broker with exit code {code}"


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
