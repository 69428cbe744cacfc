"""The fault table of the Spark source, row by row, on the reference broker.

Nothing may be lost: a record that the group is through with is in the sink. Duplicates come only where at-least-once
has to allow them.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from spark.agent_hosts import HOSTS, AgentHosts
from spark.spark_driver import DriverDiedError, SparkDriver
from spark.spark_home import spark_version
from spark.story import PER_BATCH, RECORDS, NewStory
from support.waiting import poll_until, wait_until

from kafka_share import KafkaShareConsumer
from kafka_share.broker import ReferenceBroker

pytestmark = pytest.mark.timeout(600)  # a JVM starts, and machines are busy


def test_a_batch_has_the_same_rows_in_each_action(spark: SparkDriver, new_story: NewStory) -> None:
    """Each batch is read by two actions."""
    story = new_story()
    assert story.run(spark, actions=True)["error"] == ""
    story.ends(duplicates=0, deliveries=1)


def test_splits_that_are_fetched_over_tcp_have_the_same_rows(spark: SparkDriver, new_story: NewStory) -> None:
    """All rows are fetched over TCP."""
    story = new_story(dataPlane="tcp")
    assert story.run(spark, actions=True)["error"] == ""
    story.ends(duplicates=0, deliveries=1)


@pytest.mark.parametrize("fault", ["fail_tasks", "kill_workers"])
def test_a_task_that_failed_gets_the_same_rows_again(spark: SparkDriver, new_story: NewStory, fault: str) -> None:
    """Each task fails at its first attempt."""
    story = new_story()
    assert story.run(spark, fault=fault, at=1)["error"] == ""
    story.ends(duplicates=0, deliveries=1)


@pytest.mark.usefixtures("short_locks")
def test_slow_batches_are_delivered_again_when_locks_are_not_renewed(spark: SparkDriver, new_story: NewStory) -> None:
    """A batch takes longer than its locks, which are not renewed."""
    story = new_story(renew="false")
    assert story.run(spark, fault="slow", at=1, renewals=1)["error"] == ""
    story.ends(duplicates=PER_BATCH, deliveries=2)


@pytest.mark.usefixtures("short_locks")
def test_a_write_fails_instead_of_making_duplicates_when_it_asserts_that_the_records_are_held(
    spark: SparkDriver, new_story: NewStory
) -> None:
    """The same, and the write asserts that the records are held."""
    story = new_story(renew="false")
    assert "not acquired any more" in story.run(spark, fault="assert_held", at=1, renewals=1)["error"]
    assert story.run(spark)["error"] == ""
    story.ends(duplicates=0, deliveries=2)


def test_a_batch_whose_records_others_have_now_is_replayed_without_rows(
    spark: SparkDriver, new_story: NewStory, broker: ReferenceBroker
) -> None:
    """A sink that has the batch already would skip other rows."""
    story = new_story()
    assert story.run(spark, fault="kill_agent_and_fail", at=2, when="after")["error"] != ""
    with KafkaShareConsumer(
        "orders",
        bootstrap_servers=broker.bootstrap_servers,
        group_id="g",
        share_acquire_mode="record_limit",
        max_poll_records=PER_BATCH,
    ) as member:
        taken = wait_until(lambda: member.poll(100))
        assert [record.offset for record in taken] == list(range(200, 300))
        assert story.run(spark)["error"] == ""
        assert [len(rows) for rows in story.written(batch=2)] == [PER_BATCH, 0]
        assert set(story.offsets) == set(range(RECORDS))
    assert story.run(spark)["error"] == ""
    story.finishes()
    assert story.duplicates == PER_BATCH


def test_a_poison_record_takes_others_with_it_without_bisection(spark: SparkDriver, new_story: NewStory) -> None:
    """A record fails each batch that has it; neither bisection nor grace.

    The broker hands out fewer records at once when they have been delivered often, which saves some of its batch.
    """
    story = new_story(orphanGraceMs="0", failOnDataLoss="false", bisectAfterFailure="false")
    results = [story.run(spark, fault="poison", poison=250)["error"] for _ in range(6)]
    assert all("a poison record" in error for error in results[:5])
    assert results[5] == ""
    story.finishes()
    archived = set(range(RECORDS)) - set(story.offsets)
    assert 250 in archived
    assert 1 < len(archived) <= PER_BATCH
    assert archived <= set(range(200, 300))
    story.ends(duplicates=0, deliveries=story.most_deliveries, missing=sorted(archived))


def test_decisions_about_single_records_leave_with_the_commit(spark: SparkDriver, new_story: NewStory) -> None:
    """40 of 400 records are rejected, and 40 released once."""
    story = new_story()
    assert story.run(spark, fault="decide")["error"] == ""
    story.ends(duplicates=40, deliveries=2, rejected=40)


def test_a_whole_query_may_end_in_decisions(spark: SparkDriver, new_story: NewStory) -> None:
    story = new_story()
    assert "write when=commit" in story.run(spark, into_acks=True, when="now")["error"]
    result = story.run(spark, into_acks=True, when="commit")
    assert result["error"] == ""
    story.finishes()
    if spark_version() >= (4, 2):
        assert result["counts"]["records_rejected"] == 40
        assert result["counts"]["records_redelivered"] >= 40


def test_a_batch_is_accepted_when_it_is_reported_though_no_other_batch_is_asked_for(
    spark: SparkDriver, new_story: NewStory
) -> None:
    """Nothing fails, and there is one batch only."""
    story = new_story(maxRecordsPerTrigger=str(RECORDS), maxWaitMs="30000", orphanGraceMs="0")
    result = story.run(spark, until_rows=RECORDS, until_accepted=True, trigger="1 hour")
    assert result["error"] == ""
    story.ends(duplicates=0, deliveries=1)


def test_a_query_with_other_options_starts_anew(spark: SparkDriver, new_story: NewStory) -> None:
    """The sink fails, and the query is started again with other options.

    What the agent of the earlier run held is released, though its grace is long.
    """
    story = new_story(orphanGraceMs="120000")
    assert "the sink fails" in story.run(spark, fault="fail", at=2)["error"]
    story.options["maxRecordsPerTrigger"] = "70"
    assert story.run(spark)["error"] == ""
    story.ends(duplicates=0, deliveries=2)


def test_the_agent_is_part_of_the_runner(spark: SparkDriver, new_story: NewStory) -> None:
    """The sink fails, and the lease agent is embedded: there is no grace."""
    story = new_story(agentMode="embedded")
    assert "the sink fails" in story.run(spark, fault="fail", at=2)["error"]
    assert story.run(spark)["error"] == ""
    story.ends(duplicates=0, deliveries=2)


def test_agents_on_two_hosts_lease_to_one_query(spark: SparkDriver, new_story: NewStory) -> None:
    """Nothing fails, with agents on two hosts."""
    with AgentHosts() as hosts:
        story = new_story(**hosts.options())
        assert story.run(spark)["error"] == ""
        story.ends(duplicates=0, deliveries=1)
        assert len({row[4].rpartition("-")[0] for row in story.rows()}) == len(HOSTS)


def test_one_of_two_agents_is_killed(spark: SparkDriver, new_story: NewStory) -> None:
    """One of the agents on two hosts is killed before the write.

    What is in the sink twice is what that one had leased to the batch.
    """
    with AgentHosts() as hosts, ThreadPoolExecutor(1) as aside:
        story = new_story(**hosts.options(), orphanGraceMs="120000", dataPlane="inline")
        run = aside.submit(story.run, spark, fault="wait", at=2)
        wait_until(lambda: story.is_waiting, "the batch does not begin")
        names = hosts.names(HOSTS[0])
        hosts.kill_agents(HOSTS[0])
        story.let_go_on()
        assert run.result()["error"] != ""
        [rows] = story.written(batch=2)
        leased = sum(row[4].rpartition("-")[0] in names for row in rows)
        assert story.run(spark)["error"] == ""
        # The other agent may have leased what comes next when the run fails: that has one delivery more.
        assert story.most_deliveries <= 3
        story.ends(duplicates=leased, deliveries=story.most_deliveries)


# ---- batch reads


def test_a_batch_read_is_accepted_at_the_end_of_the_block(spark: SparkDriver, new_story: NewStory) -> None:
    story = new_story()
    result = spark.run(kind="batch", options=story.options)
    assert result["error"] == ""
    first, second = result["read"]
    assert sorted(first) == sorted(second) == [[0, offset] for offset in range(PER_BATCH)]
    again = spark.run(kind="batch", options=story.options)
    assert sorted(again["read"][0])[0] == [0, PER_BATCH]


def test_a_batch_read_is_released_when_the_block_raises(spark: SparkDriver, new_story: NewStory) -> None:
    story = new_story()
    assert "the block raises" in spark.run(kind="batch", options=story.options, raises=True)["error"]
    again = spark.run(kind="batch", options=story.options)
    assert sorted(again["read"][0])[0] == [0, 0]


def test_a_batch_read_ends_by_decisions_and_the_rest_is_released(spark: SparkDriver, new_story: NewStory) -> None:
    story = new_story()
    assert spark.run(kind="batch", options=story.options, decide=True)["error"] == ""
    again = spark.run(kind="batch", options={**story.options, "maxRecordsPerTrigger": "10"})
    assert sorted(offset for _, offset in again["read"][0]) == list(range(2, PER_BATCH, 10))


def test_records_of_a_batch_read_are_free_again_when_the_driver_is_killed(
    drivers: list[SparkDriver], new_story: NewStory, tmp_path: Path, broker: ReferenceBroker
) -> None:
    """Its session has not called `register`: Spark finds the format by itself."""
    story = new_story()
    drivers.append(SparkDriver(tmp_path, registers=False))
    with pytest.raises(DriverDiedError):
        drivers[0].run(kind="batch", options=story.options, kills=True)
    with KafkaShareConsumer("orders", bootstrap_servers=broker.bootstrap_servers, group_id="g") as member:
        deliveries = {record.offset: record.delivery_count for record in poll_until(member, RECORDS)}
    assert deliveries == {offset: 2 if offset < PER_BATCH else 1 for offset in range(RECORDS)}


def test_a_batch_read_of_nothing_is_empty(spark: SparkDriver, new_story: NewStory) -> None:
    story = new_story(records=1)
    assert spark.run(kind="batch", options=story.options)["error"] == ""
    assert spark.run(kind="batch", options=story.options) == {"error": "", "read": [[], []]}


# ---- options and schemas


def test_rows_are_those_of_the_kafka_source_and_what_a_share_group_adds(
    spark: SparkDriver, new_story: NewStory, broker: ReferenceBroker
) -> None:
    story = new_story(records=1)
    spark.run(kind="batch", options=story.options)
    broker.produce("orders", "v", "k", headers={"h": b"1"}, timestamp_ms=1_700_000_000_123)
    result = spark.run(kind="load", options={**story.options, "includeHeaders": "true"})
    assert result["schema"] == (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,timestampType:int,"
        "headers:array<struct<key:string,value:binary>>,deliveryCount:int,leaseId:string>"
    )
    (row,) = result["rows"]
    assert (row["key"], row["value"], row["topic"], row["offset"]) == ("k", "v", "orders", "1")
    assert row["timestamp"].endswith(":20.123")


def test_a_schema_may_have_fewer_columns_and_no_others(spark: SparkDriver, new_story: NewStory) -> None:
    story = new_story(records=1)
    result = spark.run(kind="load", options=story.options, schema="Offset bigint, value binary")
    assert result["rows"] == [{"Offset": "0", "value": "x"}]
    assert "does not have" in spark.run(kind="load", options=story.options, schema="price double")["error"]
    assert "bigint" in spark.run(kind="load", options=story.options, schema="offset int")["error"]


def test_spark_shows_why_an_option_is_refused(spark: SparkDriver, new_story: NewStory) -> None:
    story = new_story(records=1)
    error = spark.run(kind="load", options={**story.options, "startingOffsets": "earliest"})["error"]
    assert "share.auto.offset.reset" in error
