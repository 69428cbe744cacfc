"""The fault table of the Spark source, row by row, on the reference broker.

Nothing may be lost: a record that the group is through with is in the sink. Duplicates come only where at-least-once
has to allow them. `Story` runs a query again and again over the same checkpoint and sink, and counts at the end.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from spark.spark_driver import DriverDiedError, SparkDriver
from support.waiting import poll_until, wait_until

from kafka_share import KafkaShareConsumer
from kafka_share.broker import ReferenceBroker

pytestmark = pytest.mark.timeout(600)  # a JVM starts, and machines are busy

RECORDS = 400
PER_BATCH = 100


class Story:
    """One query, with all its runs."""

    def __init__(
        self, broker: ReferenceBroker, folder: Path, agent_dir: Path, *, records: int = RECORDS, **options: str
    ) -> None:
        self.broker = broker
        self.records = records
        self.sink = folder / "sink"
        self.folder = folder
        self.options = {
            "kafka.bootstrap.servers": broker.bootstrap_servers,
            "subscribe": "orders",
            "kafka.group.id": "g",
            "maxRecordsPerTrigger": str(PER_BATCH),
            "agentDir": str(agent_dir),
            "availableNowIdleMs": "500",
            **options,
        }
        broker.produce_batch("orders", [b"x"] * records)

    def run(self, driver: SparkDriver, **command: Any) -> dict[str, Any]:
        """One run of the query, until the topic is drained or it fails."""
        return driver.run(
            options=self.options, checkpoint=str(self.folder / "checkpoint"), sink=str(self.sink), **command
        )

    def rows(self) -> list[list[Any]]:
        return [row for line in self._lines() for row in line["rows"]]

    def written(self, batch: int) -> list[list[list[Any]]]:
        """What the sink was given of a batch, each time that it was run."""
        return [line["rows"] for line in self._lines() if line["batch"] == batch]

    def _lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.sink.read_text().splitlines()] if self.sink.exists() else []

    @property
    def offsets(self) -> list[int]:
        return [row[2] for row in self.rows()]

    @property
    def duplicates(self) -> int:
        return len(self.offsets) - len(set(self.offsets))

    @property
    def most_deliveries(self) -> int:
        deliveries: list[int] = [row[3] for row in self.rows()]
        return max(deliveries)

    def finishes(self, records: int) -> None:
        """Wait until the group is through with so many records, as another member of it sees it, and gets nothing."""
        address = self.broker.bootstrap_servers
        with KafkaShareConsumer(
            "orders", bootstrap_servers=address, group_id="g", share_acknowledgement_mode="explicit"
        ) as member:

            def are_finished() -> bool:
                polled = member.poll(100)
                assert not polled, f"{polled} were given back"
                partition = self.broker.share_partition("g", "orders")
                return partition is not None and partition.start_offset == records

            wait_until(are_finished, "the group is not through with its records")

    def ends(self, *, duplicates: int, deliveries: int, missing: Sequence[int] = ()) -> None:
        """The group is through with all records, and all but those that were archived are in the sink."""
        self.finishes(self.records)
        assert set(range(self.records)) - set(self.offsets) == set(missing)
        assert (self.duplicates, self.most_deliveries) == (duplicates, deliveries)


NewStory = Callable[..., Story]


@pytest.fixture
def new_story(broker: ReferenceBroker, tmp_path: Path, agent_dir: Path) -> NewStory:
    """Makes a story with these options."""
    return partial(Story, broker, tmp_path, agent_dir)


def test_every_record_is_in_the_sink_once_when_nothing_happens(spark: SparkDriver, new_story: NewStory) -> None:
    story = new_story()
    result = story.run(spark)
    assert result["error"] == ""
    story.ends(duplicates=0, deliveries=1)
    assert result["counts"]["records"] == RECORDS  # in the progress of the query


def test_a_batch_has_the_same_rows_in_each_action(spark: SparkDriver, new_story: NewStory) -> None:
    story = new_story()
    assert story.run(spark, actions=True)["error"] == ""
    story.ends(duplicates=0, deliveries=1)


def test_splits_that_are_fetched_over_tcp_have_the_same_rows(spark: SparkDriver, new_story: NewStory) -> None:
    story = new_story(dataPlane="tcp")
    assert story.run(spark, actions=True)["error"] == ""
    story.ends(duplicates=0, deliveries=1)


@pytest.mark.parametrize("fault", ["fail_tasks", "kill_workers"])
def test_a_task_that_failed_gets_the_same_rows_again(spark: SparkDriver, new_story: NewStory, fault: str) -> None:
    story = new_story()
    assert story.run(spark, fault=fault, at=1)["error"] == ""
    story.ends(duplicates=0, deliveries=1)


def test_a_failed_batch_is_replayed_with_the_same_rows_when_the_query_is_back_within_the_grace(
    spark: SparkDriver, new_story: NewStory
) -> None:
    story = new_story()
    assert "the sink fails" in story.run(spark, fault="fail", at=2)["error"]
    assert story.run(spark)["error"] == ""
    story.ends(duplicates=0, deliveries=1)


def test_a_failed_batch_comes_again_as_later_batches_when_there_is_no_grace(
    spark: SparkDriver, new_story: NewStory
) -> None:
    story = new_story(orphanGraceMs="0")
    assert "the sink fails" in story.run(spark, fault="fail", at=2)["error"]
    assert story.run(spark)["error"] == ""
    story.ends(duplicates=0, deliveries=2)


def test_locks_are_renewed_while_a_batch_takes_several_lock_times(spark: SparkDriver, new_story: NewStory) -> None:
    story = new_story()
    assert story.run(spark, fault="slow", at=1, renewals=7 * PER_BATCH)["error"] == ""  # two lock times and more
    story.ends(duplicates=0, deliveries=1)


def test_slow_batches_are_delivered_again_when_locks_are_not_renewed(spark: SparkDriver, new_story: NewStory) -> None:
    story = new_story(renew="false")
    assert story.run(spark, fault="slow", at=1, renewals=1)["error"] == ""
    story.ends(duplicates=PER_BATCH, deliveries=2)


def test_a_write_fails_instead_of_making_duplicates_when_it_asserts_that_the_records_are_held(
    spark: SparkDriver, new_story: NewStory
) -> None:
    story = new_story(renew="false")
    assert "not acquired any more" in story.run(spark, fault="assert_held", at=1, renewals=1)["error"]
    assert story.run(spark)["error"] == ""
    story.ends(duplicates=0, deliveries=2)


def test_records_come_again_when_the_agent_is_killed_after_the_write(spark: SparkDriver, new_story: NewStory) -> None:
    story = new_story()
    assert "lease agent" in story.run(spark, fault="kill_agent", at=2, when="after")["error"]
    assert story.run(spark)["error"] == ""
    story.ends(duplicates=PER_BATCH, deliveries=2)


def test_a_batch_whose_records_others_have_now_is_replayed_without_rows(
    spark: SparkDriver, new_story: NewStory, broker: ReferenceBroker
) -> None:
    """A sink that has the batch already would skip other rows."""
    story = new_story()
    broker.set_group_config("g", share_record_lock_duration_ms=60_000)
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
    story.finishes(RECORDS)
    assert story.duplicates == PER_BATCH


@pytest.mark.parametrize(("grace", "duplicates", "deliveries"), [("0", PER_BATCH, 2), ("30000", 0, 1)])
def test_the_runner_is_killed_after_the_write_into_an_idempotent_sink(
    spark: SparkDriver,
    new_story: NewStory,
    grace: str,
    duplicates: int,
    deliveries: int,
) -> None:
    story = new_story(orphanGraceMs=grace)
    assert story.run(spark, fault="kill_runner", at=2, when="after", idempotent=True)["error"] != ""
    assert story.run(spark, idempotent=True)["error"] == ""
    # Without the grace the batch is replayed empty, and its records come again in later ones; whether Spark had
    # written to its log that the batch is committed when it noticed that the runner is gone does not matter.
    story.ends(duplicates=duplicates, deliveries=deliveries)


def test_one_poison_record_costs_only_itself(spark: SparkDriver, new_story: NewStory) -> None:
    story = new_story(orphanGraceMs="0", failOnDataLoss="false")
    results = [story.run(spark, fault="poison", poison=250)["error"] for _ in range(6)]
    assert all("a poison record" in error for error in results[:5])
    assert results[5] == ""
    story.ends(duplicates=0, deliveries=3, missing=[250])  # 100, 12 and 1 records have failed together with it


def test_a_poison_record_takes_its_whole_batch_with_it_without_bisection(
    spark: SparkDriver, new_story: NewStory
) -> None:
    story = new_story(orphanGraceMs="0", failOnDataLoss="false", bisectAfterFailure="false")
    results = [story.run(spark, fault="poison", poison=250)["error"] for _ in range(6)]
    assert all("a poison record" in error for error in results[:5])
    assert results[5] == ""
    story.ends(duplicates=0, deliveries=1, missing=range(200, 300))


def test_decisions_about_single_records_leave_with_the_commit(spark: SparkDriver, new_story: NewStory) -> None:
    """40 records are rejected; 40 are released, and come again in later batches."""
    story = new_story()
    assert story.run(spark, fault="decide")["error"] == ""
    story.ends(duplicates=40, deliveries=2)


def test_a_whole_query_may_end_in_decisions(spark: SparkDriver, new_story: NewStory) -> None:
    story = new_story()
    assert "write when=commit" in story.run(spark, into_acks=True, when="now")["error"]
    result = story.run(spark, into_acks=True, when="commit")
    assert result["error"] == ""
    story.finishes(RECORDS)
    assert result["counts"]["records_rejected"] == 40
    assert result["counts"]["records_redelivered"] >= 40


def test_a_batch_is_accepted_when_it_is_reported_though_no_other_batch_is_asked_for(
    spark: SparkDriver, new_story: NewStory
) -> None:
    story = new_story(maxRecordsPerTrigger=str(RECORDS), maxWaitMs="30000", orphanGraceMs="0")
    result = story.run(spark, until_rows=RECORDS, until_accepted=True, trigger="1 hour")
    assert result["error"] == ""
    story.ends(duplicates=0, deliveries=1)


def test_a_stopped_query_goes_on_where_it_was(spark: SparkDriver, new_story: NewStory, broker: ReferenceBroker) -> None:
    story = new_story(orphanGraceMs="0")
    assert story.run(spark, until_rows=RECORDS)["error"] == ""
    story.finishes(RECORDS)
    broker.produce_batch("orders", [b"x"] * 50)
    story.records += 50
    assert story.run(spark)["error"] == ""
    story.ends(duplicates=0, deliveries=1)


@pytest.mark.parametrize(
    ("when", "grace", "duplicates", "deliveries"),
    [("before", "0", 0, 2), ("before", "120000", 0, 1), ("after", "0", PER_BATCH, 2), ("after", "120000", 0, 1)],
)
def test_the_driver_is_killed_around_the_write_into_an_idempotent_sink(
    drivers: list[SparkDriver],
    spark: SparkDriver,
    new_story: NewStory,
    tmp_path: Path,
    when: str,
    grace: str,
    duplicates: int,
    deliveries: int,
) -> None:
    """The grace is longer than a restart here: the JVM of the second run runs already."""
    story = new_story(orphanGraceMs=grace)
    drivers.append(SparkDriver(tmp_path))
    with pytest.raises(DriverDiedError):
        story.run(drivers[0], fault="kill_driver", at=2, when=when, idempotent=True)
    assert story.run(spark, idempotent=True)["error"] == ""
    story.ends(duplicates=duplicates, deliveries=deliveries)


def test_a_query_with_other_options_starts_anew(spark: SparkDriver, new_story: NewStory) -> None:
    """What the agent of the earlier run held is released, though its grace is long."""
    story = new_story(orphanGraceMs="120000")
    assert "the sink fails" in story.run(spark, fault="fail", at=2)["error"]
    story.options["maxRecordsPerTrigger"] = "70"
    assert story.run(spark)["error"] == ""
    story.ends(duplicates=0, deliveries=2)


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
