"""docs/spark-pipeline.md, "Sinks that count once": its blocks have each record once when a batch is written again.

Each test lets a run fail behind the first write, so that the next one writes the same batch.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from spark.maven_jars import SCALA, JarsMissingError, runtime_jars
from spark.postgres import PostgresMissingError, a_database
from spark.spark_driver import LOCAL, SparkDriver
from spark.spark_home import spark_version
from support.documentation import ROOT, blocks_of

from kafka_share.broker import ReferenceBroker

PAGE: Final = ROOT / "docs" / "spark-pipeline.md"
BLOCKS: Final = [block.code for block in blocks_of(PAGE) if "tests/spark/test_sinks.py" in block.mark]
RECORDS: Final = 20
DELTA_VERSION: Final = "4.4.0"
DELTA: Final = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}

pytestmark = pytest.mark.timeout(600)  # a JVM starts, and machines are busy

HEAD: Final = """
from collections.abc import Iterator
from pathlib import Path

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, Row, SparkSession, functions as F

import kafka_share.spark

spark = SparkSession.builder.getOrCreate()
kafka_share.spark.register(spark)
folder = Path({folder!r})
orders = (
    spark.readStream.format("kafka_share")
    .option("kafka.bootstrap.servers", {servers!r})
    .option("kafka.group.id", "g")
    .option("subscribe", "orders")
    .load()
)
"""
RUN_TWICE: Final = """
written = folder / "written"


def write_and_fail(batch: DataFrame, batch_id: int) -> None:
    write(batch, batch_id)
    if not written.exists():
        written.write_text(str(batch.count()))
        raise RuntimeError("behind the write")


for attempt in range(2):
    query = (
        orders.writeStream.foreachBatch(write_and_fail)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    try:
        query.awaitTermination()
        assert attempt == 1
    except StreamingQueryException:
        assert attempt == 0
assert int(written.read_text()) == {records}
"""
NEW_TABLE: Final = """
spark.sql("DROP TABLE IF EXISTS orders")
empty = spark.createDataFrame([], orders.schema)
empty.write.format("delta").option("path", str(folder / "orders")).saveAsTable("orders")
"""
LOOK: Final = """
rows = spark.read.format("delta").load(str(folder / "orders")).collect()
assert sorted(int(bytes(row["value"])) for row in rows) == list(range({records})), rows
"""


def story(block: str, folder: Path, broker: ReferenceBroker, before: str = "", after: str = "") -> str:
    """A program that writes with this block."""
    head = HEAD.format(folder=str(folder), servers=broker.bootstrap_servers)
    parts = (head, before, block.replace("/data", str(folder)), RUN_TWICE.format(records=RECORDS))
    return "\n".join((*parts, after.format(records=RECORDS)))


@pytest.fixture
def orders(broker: ReferenceBroker) -> ReferenceBroker:
    broker.produce_batch("orders", [b"%d" % number for number in range(RECORDS)])
    return broker


def test_the_page_has_these_sinks() -> None:
    assert ["replaceWhere" in BLOCKS[0], "MERGE" in BLOCKS[1], "psycopg" in BLOCKS[2]] == [True] * 3
    assert len(BLOCKS) == 3


@pytest.mark.skipif(importlib.util.find_spec("psycopg") is None, reason="psycopg is not installed")
def test_a_database_has_each_record_once_when_a_batch_is_written_again(
    spark: SparkDriver, orders: ReferenceBroker, tmp_path: Path
) -> None:
    import psycopg

    try:
        with a_database() as address, psycopg.connect(address, autocommit=True) as connection:
            connection.execute(
                "CREATE TABLE orders (topic text, part int, at bigint, value bytea, PRIMARY KEY (topic, part, at))"
            )
            block = BLOCKS[2].replace("host=db", address)
            assert spark.run(kind="code", code=story(block, tmp_path, orders, "import psycopg")) == {"error": ""}
            found = connection.execute("SELECT value FROM orders").fetchall()
    except PostgresMissingError as error:
        pytest.skip(str(error))
    assert sorted(int(value) for (value,) in found) == list(range(RECORDS))


@pytest.fixture(scope="module")
def delta(spark_is_there: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkDriver]:
    """A Spark with Delta Lake; the test is skipped, with the reason, where there is none for this Spark."""
    artifact = f"delta-spark_{'.'.join(map(str, spark_version()))}_{SCALA}"
    folder = tmp_path_factory.mktemp("delta")
    try:
        jars = runtime_jars("io.delta", artifact, DELTA_VERSION, folder)
    except JarsMissingError as error:
        pytest.skip(str(error))
    own = [str(jar) for jar in jars if jar.name.startswith("delta-")]
    driver = SparkDriver(folder, {**LOCAL, **DELTA, "spark.jars": ",".join(own)})
    yield driver
    driver.close()


def test_a_delta_table_has_each_record_once_when_a_batch_overwrites_itself(
    delta: SparkDriver, orders: ReferenceBroker, tmp_path: Path
) -> None:
    assert delta.run(kind="code", code=story(BLOCKS[0], tmp_path, orders, after=LOOK)) == {"error": ""}


def test_a_delta_table_has_each_record_once_when_batches_are_merged(
    delta: SparkDriver, orders: ReferenceBroker, tmp_path: Path
) -> None:
    assert delta.run(kind="code", code=story(BLOCKS[1], tmp_path, orders, NEW_TABLE, LOOK)) == {"error": ""}
