"""What the tests of the Spark source share: a broker with short locks, a driver program with Spark."""

from __future__ import annotations

import contextlib
import importlib.util
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from conformance.admin_over_wire import Admin
from conformance.chosen_versions import chosen_versions, on_real
from conformance.kafka_jars import KafkaUnavailableError
from conformance.kafka_server import KafkaServer
from conformance.kafka_targets import REFERENCE, SETTINGS, controlled
from spark.fault_table import FaultTable, note_row
from spark.spark_driver import SparkDriver
from spark.story import NewStory, Place, Story
from support.documentation import ROOT

from kafka_share.broker import ReferenceBroker

LOCKS = {"group.share.record.lock.duration.ms": 3_000, "group.share.min.record.lock.duration.ms": 1_000}


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("write_fault_table") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(FaultTable(ROOT / "docs" / "spark.md"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Each test that tells a story is a row of the fault table, if it says which."""
    for item in items:
        if "new_story" in getattr(item, "fixturenames", ()):
            note_row(item)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """`target`: the reference broker, and the versions of Apache Kafka that the run was asked for."""
    if "target" in metafunc.fixturenames:
        versions = [on_real(version) for version in chosen_versions(metafunc.config)]
        metafunc.parametrize("target", [REFERENCE, *versions], scope="session")


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


@pytest.fixture
def place(broker: ReferenceBroker) -> Place:
    """Where stories happen. Locks are long: no story that does not ask for it loses one on a busy machine."""
    broker.set_group_config("g", share_record_lock_duration_ms=60_000)
    return Place(broker.bootstrap_servers, "orders", "g")


@pytest.fixture
def short_locks(place: Place) -> None:
    """For the stories of locks."""
    with Admin(place.bootstrap_servers) as admin:
        admin.set_group_config(place.group, {"share.record.lock.duration.ms": "3000"})


@pytest.fixture
def new_story(
    place: Place, tmp_path: Path, agent_dir: Path, record_property: Callable[[str, object], None]
) -> NewStory:
    """Makes a story with these options."""
    return partial(Story, place, tmp_path, agent_dir, record_property)


@pytest.fixture(scope="session")
def real_kafka(pytestconfig: pytest.Config) -> Iterator[Callable[[str], KafkaServer]]:
    """Each version, started when it is first asked for; the test is skipped, with the reason, where it cannot be."""
    nodes = 3 if pytestconfig.getoption("kafka_three_nodes") else 1
    started: dict[str, KafkaServer] = {}
    with contextlib.ExitStack() as running:

        def get(version: str) -> KafkaServer:
            if version not in started:
                try:
                    started[version] = running.enter_context(controlled(version, nodes=nodes, settings=SETTINGS))
                except KafkaUnavailableError as error:
                    if pytestconfig.getoption("require_kafka"):
                        raise
                    pytest.skip(str(error))
            return started[version]

        yield get


def why_no_spark() -> str | None:
    """What is missing for a Spark on this machine."""
    if sys.platform == "win32":
        return "the lease agent needs Unix sockets"
    missing = [name for name in ("pyspark", "pyarrow") if importlib.util.find_spec(name) is None]
    if missing:
        return f"{' and '.join(missing)} not installed: pip install 'kafka-share[spark]'"
    return None if shutil.which("java") else "Spark needs Java 17, and there is no java on the PATH"


@pytest.fixture(scope="session")
def spark_is_there() -> None:
    """The test is skipped, with the reason, where Spark cannot run."""
    reason = why_no_spark()
    if reason is not None:
        pytest.skip(reason)


@pytest.fixture(scope="session")
def spark(spark_is_there: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkDriver]:
    """One program with one JVM for all tests that do not kill it."""
    driver = SparkDriver(tmp_path_factory.mktemp("driver"))
    yield driver
    driver.close()


@pytest.fixture
def drivers(spark_is_there: None) -> Iterator[list[SparkDriver]]:
    """For tests that kill their drivers: what they put here is closed."""
    started: list[SparkDriver] = []
    yield started
    for driver in started:
        driver.close()
