"""The main rows of the fault table of the Spark source, on the reference broker and, if it is chosen, real Kafka.

Nothing may be lost: a record that the group is through with is in the sink. Duplicates come only where at-least-once
has to allow them. The first sentence of a test's docstring is its row in docs/spark.md, which `--write-fault-table`
writes.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from conformance.admin_over_wire import Admin
from conformance.kafka_server import KafkaServer
from conformance.kafka_targets import REFERENCE, target_name
from kafka import KafkaAdminClient
from spark.spark_driver import DriverDiedError, SparkDriver
from spark.spark_home import spark_version
from spark.story import PER_BATCH, RECORDS, NewStory, Place, Story
from support.waiting import wait_until

from kafka_share import KafkaShareAdmin, KafkaShareError

pytestmark = pytest.mark.timeout(900)  # a JVM starts, or several, and machines are busy

GRACE = "120000"
"""Longer than any restart here."""


@pytest.fixture(name="place")
def place_fixture(target: str, request: pytest.FixtureRequest, real_kafka: Callable[[str], KafkaServer]) -> Place:
    """On each target. Locks are long: no story that does not ask for it loses one on a busy machine."""
    name = f"{request.function.__name__.removeprefix('test_')}-{uuid.uuid4().hex[:8]}"
    is_real = target != REFERENCE
    servers = (real_kafka(target) if is_real else request.getfixturevalue("broker")).bootstrap_servers
    _create_topic(servers, name)
    with Admin(servers) as admin:
        lock = {"share.record.lock.duration.ms": "60000", "share.auto.offset.reset": "earliest"}
        admin.set_group_config(name, lock)
    # Kafka 4.3 hands out the first records a second after the group was joined.
    return Place(servers, name, name, target_name(target), idle_ms=3_000 if is_real else 500)


def _create_topic(servers: str, name: str) -> None:
    """With a replica on each node."""
    client = KafkaAdminClient(bootstrap_servers=servers.split(","))
    replicas = len(servers.split(","))
    client.create_topics({name: {"num_partitions": 1, "replication_factor": replicas}}, wait_for_metadata=True)
    client.close()


@pytest.fixture
def three_nodes(target: str, real_kafka: Callable[[str], KafkaServer]) -> KafkaServer:
    if target == REFERENCE:
        pytest.skip("it kills a node of a real Apache Kafka: choose one, as in --kafka-versions 4.3.1")
    kafka = real_kafka(target)
    if kafka.nodes < 3:
        pytest.skip("it needs three nodes: give --kafka-three-nodes")
    return kafka


def test_nothing_happens(spark: SparkDriver, new_story: NewStory) -> None:
    """Nothing fails."""
    story = new_story()
    result = story.run(spark)
    assert result["error"] == ""
    story.ends(duplicates=0, deliveries=1)
    if spark_version() >= (4, 2):
        assert result["counts"]["records"] == RECORDS  # in the progress of the query


def test_the_sink_fails_and_the_query_is_back_within_the_grace(spark: SparkDriver, new_story: NewStory) -> None:
    """The sink fails before it writes; the query is back within the grace."""
    story = new_story(orphanGraceMs=GRACE)
    assert "the sink fails" in story.run(spark, fault="fail", at=2)["error"]
    assert story.run(spark)["error"] == ""
    story.ends(duplicates=0, deliveries=1)


def test_the_sink_fails_and_there_is_no_grace(spark: SparkDriver, new_story: NewStory) -> None:
    """The sink fails before it writes; there is no grace."""
    story = new_story(orphanGraceMs="0")
    assert "the sink fails" in story.run(spark, fault="fail", at=2)["error"]
    assert story.run(spark)["error"] == ""
    story.ends(duplicates=0, deliveries=2)


@pytest.mark.usefixtures("short_locks")
def test_a_batch_takes_several_lock_times(spark: SparkDriver, new_story: NewStory) -> None:
    """A batch takes several lock times."""
    story = new_story()
    assert story.run(spark, fault="slow", at=1, renewals=7 * PER_BATCH)["error"] == ""  # two lock times and more
    story.ends(duplicates=0, deliveries=1)


def test_the_agent_is_killed(spark: SparkDriver, new_story: NewStory) -> None:
    """The lease agent is killed after the write."""
    story = new_story()
    assert "lease agent" in story.run(spark, fault="kill_agent", at=2, when="after")["error"]
    assert story.run(spark)["error"] == ""
    story.ends(duplicates=PER_BATCH, deliveries=2)


def test_the_runner_is_killed_and_there_is_no_grace(spark: SparkDriver, new_story: NewStory) -> None:
    """The process in which Spark runs the source is killed after the write into an idempotent sink; no grace.

    The batch is replayed empty, and its records come again in later ones; whether Spark had written to its log that
    the batch is committed when it noticed that the runner is gone does not matter.
    """
    story = new_story(orphanGraceMs="0")
    assert story.run(spark, fault="kill_runner", at=2, when="after", idempotent=True)["error"] != ""
    assert story.run(spark, idempotent=True)["error"] == ""
    story.ends(duplicates=PER_BATCH, deliveries=2)


def test_the_runner_is_killed_and_the_query_is_back_within_the_grace(spark: SparkDriver, new_story: NewStory) -> None:
    """The process in which Spark runs the source is killed after the write into an idempotent sink; with grace."""
    story = new_story(orphanGraceMs=GRACE)
    assert story.run(spark, fault="kill_runner", at=2, when="after", idempotent=True)["error"] != ""
    assert story.run(spark, idempotent=True)["error"] == ""
    story.ends(duplicates=0, deliveries=1)


@pytest.fixture
def mortal(spark_is_there: None, tmp_path: Path) -> Iterator[SparkDriver]:
    """A driver for one test, which kills it."""
    driver = SparkDriver(tmp_path)
    yield driver
    driver.close()


def dies(story: Story, mortal: SparkDriver, fault: str, when: str) -> None:
    with pytest.raises(DriverDiedError):
        story.run(mortal, fault=fault, at=2, when=when, idempotent=True)
    assert len(story.offsets) == (2 if when == "before" else 3) * PER_BATCH


def test_the_driver_is_killed_before_the_write_and_there_is_no_grace(
    mortal: SparkDriver, spark: SparkDriver, new_story: NewStory
) -> None:
    """The driver is killed before the write; there is no grace."""
    story = new_story(orphanGraceMs="0")
    dies(story, mortal, "kill_driver", "before")
    assert story.run(spark, idempotent=True)["error"] == ""
    story.ends(duplicates=0, deliveries=2)


def test_the_driver_is_killed_before_the_write_and_another_one_goes_on_within_the_grace(
    mortal: SparkDriver, spark: SparkDriver, new_story: NewStory
) -> None:
    """The driver is killed before the write; another one is there within the grace."""
    story = new_story(orphanGraceMs=GRACE)
    dies(story, mortal, "kill_driver", "before")
    assert story.run(spark, idempotent=True)["error"] == ""
    story.ends(duplicates=0, deliveries=1)


def test_the_driver_is_killed_after_the_write_and_there_is_no_grace(
    mortal: SparkDriver, spark: SparkDriver, new_story: NewStory
) -> None:
    """The driver is killed after the write; there is no grace."""
    story = new_story(orphanGraceMs="0")
    dies(story, mortal, "kill_driver", "after")
    assert story.run(spark, idempotent=True)["error"] == ""
    story.ends(duplicates=PER_BATCH, deliveries=2)


def test_the_driver_is_killed_after_the_write_and_another_one_goes_on_within_the_grace(
    mortal: SparkDriver, spark: SparkDriver, new_story: NewStory
) -> None:
    """The driver is killed after the write into an idempotent sink; another one is there within the grace."""
    story = new_story(orphanGraceMs=GRACE)
    dies(story, mortal, "kill_driver", "after")
    assert story.run(spark, idempotent=True)["error"] == ""
    story.ends(duplicates=0, deliveries=1)


def test_the_jvm_of_the_driver_is_killed(mortal: SparkDriver, spark: SparkDriver, new_story: NewStory) -> None:
    """The driver's JVM alone is killed, before the write; another driver is there within the grace."""
    story = new_story(orphanGraceMs=GRACE)
    dies(story, mortal, "kill_jvm", "before")
    assert story.run(spark, idempotent=True)["error"] == ""
    story.ends(duplicates=0, deliveries=1)


def test_a_stopped_query_goes_on_where_it_was(spark: SparkDriver, new_story: NewStory) -> None:
    """The query is stopped between two batches and started again from its checkpoint; there is no grace."""
    story = new_story(orphanGraceMs="0")
    assert story.run(spark, until_rows=RECORDS)["error"] == ""
    story.finishes()
    story.produce(50)
    assert story.run(spark)["error"] == ""
    story.ends(duplicates=0, deliveries=1)


def test_a_query_is_stopped_in_the_middle_of_a_batch(spark: SparkDriver, new_story: NewStory) -> None:
    """The query is stopped in the middle of a batch, before the write; it is back within the grace."""
    story = new_story(orphanGraceMs=GRACE)
    story.run(spark, fault="stop", at=2, until_rows=RECORDS)
    assert story.written(batch=1)
    assert not story.written(batch=2)
    assert story.run(spark)["error"] == ""
    story.ends(duplicates=0, deliveries=1)


def test_one_poison_record_costs_only_itself(spark: SparkDriver, new_story: NewStory) -> None:
    """A record fails each batch that has it; bisection, no grace."""
    story = new_story(orphanGraceMs="0", failOnDataLoss="false")
    results = [story.run(spark, fault="poison", poison=250)["error"] for _ in range(6)]
    assert all("a poison record" in error for error in results[:5])
    assert results[5] == ""
    story.ends(duplicates=0, deliveries=3, missing=[250])  # 100, 12 and 1 records have failed together with it


def leader_of(place: Place) -> int | None:
    """The node that leads the partition; None if none does."""
    with KafkaShareAdmin(bootstrap_servers=place.bootstrap_servers) as admin:
        described = admin.describe_topics([place.topic])[place.topic]
    assert not isinstance(described, KafkaShareError)
    [partition] = described.partitions
    return None if partition.leader is None else partition.leader.id


def test_the_leader_is_killed_in_the_middle_of_a_lease(
    spark: SparkDriver, new_story: NewStory, place: Place, three_nodes: KafkaServer
) -> None:
    """The broker that leads the partition is killed while a batch is under way, and starts again later."""
    story = new_story()
    with ThreadPoolExecutor(1) as aside:
        run = aside.submit(story.run, spark, fault="wait", at=2)
        wait_until(lambda: story.is_waiting, "the batch does not begin")
        wait_until(lambda: story.lag() == RECORDS - 2 * PER_BATCH, "the batches before it are not accepted")
        leader = wait_until(lambda: leader_of(place), "nobody leads the partition")
        three_nodes.kill(leader)
        try:
            wait_until(lambda: leader_of(place) not in (leader, None), "there is no other leader")
            story.let_go_on()
            assert run.result()["error"] == ""
        finally:
            three_nodes.restart(leader)
    while story.lag() != 0:  # a run is drained when nothing has come for a while, and a new leader may take longer
        assert story.run(spark)["error"] == ""
    # A leader keeps in its memory alone what it has handed out: the new one counts from the start.
    story.ends(duplicates=PER_BATCH, deliveries=1)
