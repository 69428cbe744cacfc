"""The rows of the fault table that need executors: processes apart from the driver, and two hosts.

On `local-cluster` and on a standalone cluster whose two workers have addresses of their own, which makes them two hosts
to Spark. Each test shows by what the attempts of its tasks have left that the fault took place.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import trustme
from spark.spark_driver import SparkDriver
from spark.standalone import StandaloneCluster
from spark.story import NewStory, Story
from spark.task_faults import ATTEMPTS, noted

pytestmark = pytest.mark.timeout(600)  # JVMs start, and machines are busy

EXECUTORS: Final = 2
RETRY_ELSEWHERE: Final = {
    "spark.excludeOnFailure.taskAndStage.enabled": "true",
    "spark.scheduler.excludeOnFailure.unschedulableTaskSetTimeout": "2s",
}
"""After a failure on one executor Spark has to try the task on another one, and gives up when it has failed on all."""
SPECULATION: Final = {
    "spark.speculation": "true",
    "spark.speculation.interval": "50ms",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.minTaskRuntime": "200ms",
}
QUICK_JVM: Final = {"spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
MESSAGE_MIB: Final = 16
AGENT_HOST: Final = "127.0.0.4"
LARGE: Final = 900_000
"""The bytes of a large record, of which a broker takes up to a megabyte."""


@pytest.fixture(scope="module")
def local_cluster(spark_is_there: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkDriver]:
    settings = {
        "spark.master": f"local-cluster[{EXECUTORS},1,1024]",
        "spark.rpc.message.maxSize": str(MESSAGE_MIB),
        **RETRY_ELSEWHERE,
        **QUICK_JVM,
    }
    driver = SparkDriver(tmp_path_factory.mktemp("local-cluster"), settings)
    yield driver
    driver.close()


@pytest.fixture(scope="module")
def standalone(spark_is_there: None) -> Iterator[StandaloneCluster]:
    with StandaloneCluster() as cluster:
        yield cluster


@pytest.fixture(scope="module")
def application(standalone: StandaloneCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkDriver]:
    settings = {
        "spark.master": standalone.url,
        "spark.cores.max": str(EXECUTORS),
        "spark.executor.memory": "512m",
        **RETRY_ELSEWHERE,
        **SPECULATION,
        **QUICK_JVM,
    }
    driver = SparkDriver(tmp_path_factory.mktemp("standalone"), settings)
    yield driver
    driver.close()


@pytest.fixture
def two_hosts(standalone: StandaloneCluster, application: SparkDriver) -> SparkDriver:
    """The driver of an application that has an executor on each of two hosts."""
    standalone.mend()
    return application


@pytest.fixture(params=["local_cluster", "two_hosts"])
def driver(request: pytest.FixtureRequest) -> SparkDriver:
    found: SparkDriver = request.getfixturevalue(request.param)
    return found


def attempts_of_first_task(story: Story) -> list[dict[str, Any]]:
    return [one for one in noted(story.sink.with_name(ATTEMPTS)) if one["task"] == 0]


def run_twice_somewhere(story: Story) -> None:
    """The first task was tried on one executor and then on another one, and began with the same row."""
    first, second = attempts_of_first_task(story)[:2]
    assert first["attempt"] != second["attempt"]  # the later one may be sooner at its rows
    assert first["executor"] != second["executor"]
    assert first["first"] == second["first"]


@pytest.mark.parametrize("data_plane", ["inline", "tcp"])
def test_an_executor_is_killed_in_the_middle_of_a_batch(
    driver: SparkDriver, new_story: NewStory, data_plane: str
) -> None:
    """An executor is killed in the middle of a batch."""
    story = new_story(dataPlane=data_plane)
    assert story.run(driver, fault="kill_executor", at=1, executors=EXECUTORS)["error"] == ""
    story.ends(duplicates=0, deliveries=1)
    run_twice_somewhere(story)


def test_a_host_is_lost_in_the_middle_of_a_batch(two_hosts: SparkDriver, new_story: NewStory) -> None:
    """A host is lost in the middle of a batch: its executor and what had started it are killed."""
    story = new_story()
    assert story.run(two_hosts, fault="kill_host", at=1, executors=EXECUTORS)["error"] == ""
    story.ends(duplicates=0, deliveries=1)
    run_twice_somewhere(story)


def test_a_task_that_failed_on_one_host_is_tried_on_the_other(two_hosts: SparkDriver, new_story: NewStory) -> None:
    """A task fails on one host and is tried on the other."""
    story = new_story()
    assert story.run(two_hosts, fault="fail_at_one_host", at=1, executors=EXECUTORS)["error"] == ""
    story.ends(duplicates=0, deliveries=1)
    run_twice_somewhere(story)


def test_python_workers_are_killed(driver: SparkDriver, new_story: NewStory) -> None:
    """The Python workers of executors are killed."""
    story = new_story()
    assert story.run(driver, fault="kill_workers", at=1, executors=EXECUTORS)["error"] == ""
    story.ends(duplicates=0, deliveries=1)
    assert len(attempts_of_first_task(story)) > 1


def test_a_slow_task_is_run_on_two_hosts_at_once(two_hosts: SparkDriver, new_story: NewStory) -> None:
    """A slow task runs on two hosts at once, by speculation.

    The first attempt does not end before the second one has read the same rows.
    """
    story = new_story()
    assert story.run(two_hosts, fault="outlive", at=1, executors=EXECUTORS)["error"] == ""
    story.ends(duplicates=0, deliveries=1)
    run_twice_somewhere(story)


def test_executors_on_other_hosts_fetch_large_splits_by_the_token_and_over_tls(
    two_hosts: SparkDriver, new_story: NewStory, tmp_path: Path
) -> None:
    """Executors on other hosts fetch large splits over TLS, and do not know the authority at first.

    Until they know it they have not got at the rows.
    """
    authority, certificate = tmp_path / "authority.pem", tmp_path / "agent.pem"
    right = trustme.CA()
    trustme.CA().cert_pem.write_to_path(str(authority))
    right.issue_cert(AGENT_HOST).private_key_and_cert_chain_pem.write_to_path(str(certificate))
    story = new_story(
        records=24,
        value=b"x" * LARGE,
        maxRecordsPerTrigger="12",
        minPartitions="1",
        splitBytes=str(32 << 20),
        dataPlaneHost=AGENT_HOST,
        dataPlaneCertFile=str(certificate),
        dataPlaneCaFile=str(authority),
    )
    assert "CERTIFICATE_VERIFY_FAILED" in story.run(two_hosts)["error"]
    right.cert_pem.write_to_path(str(authority))
    assert story.run(two_hosts, executors=EXECUTORS)["error"] == ""
    story.ends(duplicates=0, deliveries=1)


def test_no_task_is_larger_than_sparks_messages_may_be(local_cluster: SparkDriver, new_story: NewStory) -> None:
    """A task is larger than `spark.rpc.message.maxSize`, and then the data plane is auto."""
    records = (MESSAGE_MIB << 20) // LARGE + 2
    story = new_story(
        records=records, value=b"x" * LARGE, minPartitions="1", splitBytes=str(64 << 20), dataPlane="inline"
    )
    assert re.search(r"spark\.rpc\.message\.maxSize", story.run(local_cluster)["error"])
    story.options["dataPlane"] = "auto"
    assert story.run(local_cluster)["error"] == ""
    story.ends(duplicates=0, deliveries=2)


def test_a_query_runs_on_two_hosts_when_nothing_happens(two_hosts: SparkDriver, new_story: NewStory) -> None:
    """Nothing fails on two hosts."""
    story = new_story(minPartitions=str(EXECUTORS))
    assert story.run(two_hosts, fault="meet", executors=EXECUTORS)["error"] == ""
    story.ends(duplicates=0, deliveries=1)
    assert len({one["executor"] for one in noted(story.sink.with_name(ATTEMPTS))}) == EXECUTORS
