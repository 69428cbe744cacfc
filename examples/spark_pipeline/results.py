"""What the pipeline has written so far, read back: the totals, and the records that were counted.

`pipeline` calls it at the end, and gives the records to `exactly_once`. Spark does the work; the driver gets the
records themselves only where it has published them, and so has them already.
"""

from __future__ import annotations

from dataclasses import dataclass

from batches import COUNTS_SCHEMA, FILES_SCHEMA, UNPARSABLE_SCHEMA
from input_files import Place
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual name

_MOST_TWICE = 1_000


@dataclass(frozen=True)
class Results:
    """`by_construct` and `by_module` count constructs, the most frequent first."""

    files: int
    unparsable: int
    redelivered: int
    by_construct: dict[str, int]
    by_module: dict[str, int]
    twice: list[Place]
    """Records that are in the tables more than once; a thousand at most."""
    places: set[Place] | None
    """All records of the tables, if they were asked for."""


def read_results(spark: SparkSession, output: str, *, with_places: bool) -> Results:
    """All batches so far, those of earlier runs included."""
    files = _table(spark, output, "files", FILES_SCHEMA)
    unparsable = _table(spark, output, "unparsable", UNPARSABLE_SCHEMA)
    counts = _table(spark, output, "counts", COUNTS_SCHEMA)
    columns = ("topic", "partition", "offset", "deliveryCount")
    rows = files.select(*columns).union(unparsable.select(*columns))
    twice = rows.groupBy(*columns[:3]).count().where("count > 1").limit(_MOST_TWICE).collect()
    return Results(
        files=files.count(),
        unparsable=unparsable.count(),
        redelivered=rows.where("deliveryCount > 1").count(),
        by_construct=_totals(counts, "construct"),
        by_module=_totals(counts, "module"),
        twice=sorted(_place(row) for row in twice),
        places={_place(row) for row in rows.collect()} if with_places else None,
    )


def _place(row: Row) -> Place:
    return row["topic"], row["partition"], row["offset"]


def _table(spark: SparkSession, output: str, table: str, schema: str) -> DataFrame:
    try:
        return spark.read.schema(f"{schema}, batch bigint").parquet(f"{output}/{table}")
    except AnalysisException:  # no batch yet
        return spark.createDataFrame([], f"{schema}, batch bigint")


def _totals(counts: DataFrame, column: str) -> dict[str, int]:
    summed = counts.groupBy(column).agg(F.sum("number").alias("number"))
    return {row[column]: row["number"] for row in summed.orderBy(F.desc("number"), column).collect()}
