"""The brokers that one suite runs on: the reference broker, and Apache Kafka of several versions.

Used by the fixtures of this directory and by the tools beside them. All targets have the same settings, and everything
that a test prepares goes over the wire, so that no test can tell them apart but by `Target.speaks_v2`.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

import attrs
from kafka_server import KafkaServer

REFERENCE: Final = "reference"
SETTINGS: Final[Mapping[str, str]] = MappingProxyType({"group.share.min.record.lock.duration.ms": "1000"})
"""A group may then have a lock short enough to wait for. Everything else is as Kafka comes."""

_STOP_TIMEOUT_S: Final = 30


@attrs.frozen
class Target:
    """A running broker or cluster. `version`: of Apache Kafka; None is the reference broker."""

    bootstrap_servers: str
    version: str | None
    nodes: int

    @property
    def speaks_v2(self) -> bool:
        """Whether RENEW and the strict record limit exist (ShareFetch version 2, Kafka 4.2)."""
        return self.version is None or _numbers(self.version) >= (4, 2)

    @property
    def counts_released_on_close(self) -> bool:
        """Whether a delivery that ends with its session stays counted (Kafka 4.2, KAFKA-19972)."""
        return self.speaks_v2


def target_name(target_id: str) -> str:
    return "reference broker" if target_id == REFERENCE else f"Apache Kafka {target_id}"


@contextlib.contextmanager
def running(target_id: str, *, nodes: int = 1, settings: Mapping[str, str] = SETTINGS) -> Iterator[Target]:
    """Start the reference broker, or this version of Apache Kafka."""
    if target_id == REFERENCE:
        with _reference_broker(nodes, settings) as bootstrap_servers:
            yield Target(bootstrap_servers, None, nodes)
    else:
        with KafkaServer(target_id, nodes=nodes, settings=settings) as kafka:
            yield Target(kafka.bootstrap_servers, target_id, nodes)


@contextlib.contextmanager
def _reference_broker(nodes: int, settings: Mapping[str, str]) -> Iterator[str]:
    command = [sys.executable, "-c", "from kafka_share.cli.broker import main; main()", "--nodes", str(nodes)]
    for name, value in settings.items():
        command += ["--config", f"{name}={value}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            assert line.startswith("bootstrap: "), f"the reference broker did not start: {line!r}"
            yield line.removeprefix("bootstrap: ").strip()
        finally:
            process.terminate()
            code = process.wait(_STOP_TIMEOUT_S)
    assert code == 0, f"SIGTERM ended the reference broker with exit code {code}"


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
