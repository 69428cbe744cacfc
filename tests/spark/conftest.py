"""What the tests of the Spark source share: a broker with short locks, a driver program with Spark."""

from __future__ import annotations

import importlib.util
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from spark.spark_driver import SparkDriver

from kafka_share.broker import ReferenceBroker

LOCKS = {"group.share.record.lock.duration.ms": 3_000, "group.share.min.record.lock.duration.ms": 1_000}


@pytest.fixture(name="broker")
def broker_fixture() -> Iterator[ReferenceBroker]:
    with ReferenceBroker(config=LOCKS) as broker:
        broker.create_topic("orders")
        broker.set_group_config("g", share_auto_offset_reset="earliest")
        yield broker


@pytest.fixture
def agent_dir() -> Iterator[Path]:
    """For the agents of a test. The path of a socket is short, and those of `tmp_path` are not."""
    with tempfile.TemporaryDirectory(prefix="ks-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def why_no_spark() -> str | None:
    """What is missing for a Spark on this machine."""
    if sys.platform == "win32":
        return "the lease agent needs Unix sockets"
    missing = [name for name in ("pyspark", "pyarrow") if importlib.util.find_spec(name) is None]
    if missing:
        return f"{' and '.join(missing)} not installed: pip install 'kafka-share[spark]'"
    return None if shutil.which("java") else "Spark needs Java 17, and there is no java on the PATH"


@pytest.fixture(scope="session")
def spark_session_driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkDriver]:
    """One program with one JVM for all tests that do not kill it."""
    driver = SparkDriver(tmp_path_factory.mktemp("driver"))
    yield driver
    driver.close()


@pytest.fixture
def spark(request: pytest.FixtureRequest) -> SparkDriver:
    """A running driver program; the test is skipped, with the reason, where Spark cannot run."""
    reason = why_no_spark()
    if reason is not None:
        pytest.skip(reason)
    driver: SparkDriver = request.getfixturevalue("spark_session_driver")
    return driver


@pytest.fixture
def drivers(tmp_path: Path) -> Iterator[list[SparkDriver]]:
    """For tests that kill their drivers: what they put here is closed."""
    reason = why_no_spark()
    if reason is not None:
        pytest.skip(reason)
    started: list[SparkDriver] = []
    yield started
    for driver in started:
        driver.close()
