"""Options of the whole run. They stand here because pytest reads no other conftest before it reads the command line."""

from __future__ import annotations

import contextlib
import gc
import signal
from collections.abc import Generator

import hypothesis
import pytest
from support import waiting
from support.measuring import measured_as_needed, unmeasured
from support.scheduling import BrokersTogether, long_ones_first

pytest_plugins = ("kafka_share.pytest_plugin", "pytester")

hypothesis.settings.register_profile("kafka_share", deadline=None)  # how long an example takes is the machine's affair
hypothesis.settings.load_profile("kafka_share")


def pytest_configure() -> None:
    """A run in the background of a shell ignores Ctrl-C, and so would the programs that tests interrupt."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    conformance = parser.getgroup("conformance", "real Apache Kafka")
    conformance.addoption(
        "--kafka-versions",
        metavar="VERSIONS",
        help="run tests/conformance on these Apache Kafka versions too, for example 4.3.1,4.1.2, or all "
        "[default: $KAFKA_SHARE_KAFKA_VERSIONS, or none]",
    )
    conformance.addoption(
        "--main-flows-on",
        action="append",
        default=[],
        metavar="VERSION",
        help="run tests/conformance/test_main_flows.py, and nothing else, on this Apache Kafka version too",
    )
    conformance.addoption(
        "--require-kafka",
        action="store_true",
        help="let tests fail, not be skipped, when the Kafka that they need cannot be had",
    )
    conformance.addoption(
        "--kafka-three-nodes",
        action="store_true",
        help="run the tests of a cluster on those versions too: three brokers each",
    )
    conformance.addoption(
        "--differential-examples",
        type=int,
        default=40,
        metavar="N",
        help="how many random scripts are played on a real Kafka and the reference broker at once "
        "[default: %(default)s, about a minute]",
    )
    conformance.addoption(
        "--write-matrix", action="store_true", help="write what was shown on which broker to docs/conformance.md"
    )
    conformance.addoption(
        "--write-fault-table", action="store_true", help="write what tests/spark has measured to docs/spark.md"
    )


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """All workers import the same modules, so what coverage sees of that in the first one is enough.

    Modules and tests are there to stay: the garbage collector need not look at a million objects again and again.
    """
    worker = getattr(session.config, "workerinput", {}).get("workerid", "gw0")
    gc.disable()
    try:
        with contextlib.nullcontext() if worker == "gw0" else unmeasured():
            return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(trylast=True)  # after pytest-randomly
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    long_ones_first(items)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    with measured_as_needed(item.nodeid):
        return (yield)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """What a test waits for has nearly as long as the test."""
    marker = item.get_closest_marker("timeout")
    limit_s = marker.args[0] if marker is not None and marker.args else item.config.getini("timeout")
    waiting.follow_time_limit(float(limit_s))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> BrokersTogether:
    return BrokersTogether(config, log)
