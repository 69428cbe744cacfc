"""The brokers that these tests run on: `kafka-share-broker` as a process, and real Apache Kafka if it is asked for.

`bootstrap` is one reference broker for the tests of foreign clients. `kafka` and `cluster` (three nodes) are each of
the targets in turn: the reference broker always, and the versions that --kafka-versions names. `real_version` is each
of those versions, for tests that mean nothing without a real broker; `real_kafka` is one node of it.
"""

from __future__ import annotations

import contextlib
import gc
import uuid
import warnings
from collections.abc import Callable, Generator, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from conformance.admin_over_wire import Admin
from conformance.chosen_versions import chosen_versions, on_real
from conformance.conformance_matrix import ConformanceMatrix, note_row
from conformance.kafka_server import KafkaUnavailableError
from conformance.kafka_targets import REFERENCE, SETTINGS, Target, running
from conformance.our_client_probe import java, runs
from conformance.our_client_probe.page import SideBySide
from support.consumers import QUICK

from kafka_share import KafkaShareConsumer

HERE = Path(__file__).parent
MATRIX = HERE.parents[1] / "docs" / "conformance.md"
SIDE_BY_SIDE = MATRIX.with_name("client-side-by-side.md")
NONE_CHOSEN = "none"
FORGETFUL = {
    "producer.id.expiration.ms": "2000",
    "producer.id.expiration.check.interval.ms": "300",
    "transactional.id.expiration.ms": "2000",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "300",
}


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("require_kafka") and not chosen_versions(config):
        raise pytest.UsageError("--require-kafka requires that --kafka-versions names some")
    if config.getoption("write_matrix") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(ConformanceMatrix(MATRIX))
        config.pluginmanager.register(SideBySide(SIDE_BY_SIDE))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    versions = chosen_versions(metafunc.config)
    if metafunc.module.__name__.endswith("test_main_flows"):
        versions += [version for version in metafunc.config.getoption("main_flows_on") if version not in versions]
    for fixture, wanted in (("kafka", True), ("cluster", bool(metafunc.config.getoption("kafka_three_nodes")))):
        if fixture in metafunc.fixturenames:
            targets = [REFERENCE, *(on_real(version) for version in versions if wanted)]
            metafunc.parametrize(fixture, targets, indirect=True, scope="session")
    if "forgetful_kafka" in metafunc.fixturenames:
        targets = [REFERENCE, *(on_real(version) for version in versions)]
        metafunc.parametrize("forgetful_kafka", targets, indirect=True, scope="session")
    if "probed_kafka" in metafunc.fixturenames:
        targets = [REFERENCE, *(on_real(version) for version in versions if version == java.VERSION)]
        metafunc.parametrize("probed_kafka", targets, indirect=True, scope="session")
    if "real_version" in metafunc.fixturenames:
        targets = [on_real(version) for version in versions] or [NONE_CHOSEN]
        metafunc.parametrize("real_version", targets, indirect=True, scope="session")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The rows of the matrix go with the reports, so that a parallel run writes it too."""
    for item in items:
        if item.path.is_relative_to(HERE):
            note_row(item)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, object, object]:
    with _without_kafka(item):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    with _without_kafka(item):
        return (yield)


@contextlib.contextmanager
def _without_kafka(item: pytest.Item) -> Iterator[None]:
    """A test that cannot have its Kafka is skipped, with the reason, unless this run requires it."""
    try:
        yield
    except KafkaUnavailableError as error:
        if item.config.getoption("require_kafka"):
            raise
        pytest.skip(str(error))


def _started(target_id: str, nodes: int, settings: Mapping[str, str] = SETTINGS) -> Iterator[Target]:
    with running(target_id, nodes=nodes, settings=settings, starts_quickly=True) as target:
        yield target


@pytest.fixture(autouse=True)
def foreign_leaks() -> Iterator[None]:
    """A socket that a foreign client forgets is no failure of ours: collected here, where nobody is warned of it.

    What our own clients leave behind is looked for by the tests of the façade and the network.
    """
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


@pytest.fixture(scope="session")
def kafka(request: pytest.FixtureRequest) -> Iterator[Target]:
    """Each target with one node; tests keep apart by topic and group names."""
    yield from _started(request.param, 1)


@pytest.fixture(scope="session")
def cluster(request: pytest.FixtureRequest) -> Iterator[Target]:
    """Each target with three nodes."""
    yield from _started(request.param, 3)


@pytest.fixture(scope="session")
def forgetful_kafka(request: pytest.FixtureRequest) -> Iterator[Target]:
    """Each target, where producers and transactional ids that are not used are forgotten after two seconds."""
    yield from _started(request.param, 1, FORGETFUL)


@pytest.fixture(scope="session")
def probed_kafka(request: pytest.FixtureRequest) -> Iterator[Target]:
    """The reference broker, and Kafka of the version whose answers are kept, with the settings of the Java probe."""
    yield from _started(request.param, 1, runs.settings(request.param))


@pytest.fixture(scope="session")
def real_version(request: pytest.FixtureRequest) -> str:
    version: str = request.param
    if version == NONE_CHOSEN:
        pytest.skip("it needs a real Apache Kafka: choose one, as in --kafka-versions 4.3.1")
    return version


@pytest.fixture(scope="session")
def real_kafka(real_version: str) -> Iterator[Target]:
    """One node of a real Kafka; tests keep apart by topic and group names."""
    yield from _started(real_version, 1)


@pytest.fixture(scope="session")
def kafka_admin(kafka: Target) -> Iterator[Admin]:
    with Admin(kafka.bootstrap_servers) as admin:
        yield admin


@pytest.fixture(scope="session")
def cluster_admin(cluster: Target) -> Iterator[Admin]:
    with Admin(cluster.bootstrap_servers) as admin:
        yield admin


@pytest.fixture
def closing() -> Iterator[Callable[[KafkaShareConsumer[Any, Any]], KafkaShareConsumer[Any, Any]]]:
    """Takes consumers that the test makes, and closes them at its end."""
    made: list[KafkaShareConsumer[Any, Any]] = []

    def keep(consumer: KafkaShareConsumer[Any, Any]) -> KafkaShareConsumer[Any, Any]:
        made.append(consumer)
        return consumer

    yield keep
    for consumer in made:
        consumer.close(timeout_ms=10_000)


@pytest.fixture(scope="session")
def bootstrap() -> Iterator[str]:
    """The address of one reference broker for the whole run; tests keep apart by topic and group names."""
    # a fresh group's second heartbeat of librdkafka comes after this interval
    with running(REFERENCE, settings=QUICK) as target:
        yield target.bootstrap_servers


@pytest.fixture
def unique() -> Callable[[str], str]:
    """Names of topics and groups that no other test uses."""
    suffix = uuid.uuid4().hex[:8]
    return lambda name: f"{name}-{suffix}"
