"""The broker as a foreign client meets it: `kafka-share-broker` in a process of its own."""

from __future__ import annotations

import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator

import pytest

START_TIMEOUT_S = 30


@pytest.fixture(scope="session")
def bootstrap() -> Iterator[str]:
    """The address of one broker for the whole run; tests keep apart by topic and group names."""
    command = [sys.executable, "-c", "from kafka_share.cli.broker import main; main()"]
    # a fresh group's second heartbeat of librdkafka comes after this interval; 5 s would only make the tests slow
    command += ["--config", "group.share.min.heartbeat.interval.ms=100"]
    command += ["--config", "group.share.heartbeat.interval.ms=100"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line.startswith("bootstrap: "), f"the broker did not start: {line!r}"
    yield line.removeprefix("bootstrap: ").strip()
    process.terminate()
    process.stdout.close()
    assert process.wait(START_TIMEOUT_S) == 0, "SIGTERM did not end the broker cleanly"


@pytest.fixture
def unique() -> Callable[[str], str]:
    """Names of topics and groups that no other test uses."""
    suffix = uuid.uuid4().hex[:8]
    return lambda name: f"{name}-{suffix}"
