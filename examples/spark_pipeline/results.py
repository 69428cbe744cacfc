"""What the pipeline has written so far, read back: the totals, and the records that they are made of.

`pipeline` calls it at the end, and gives the records to `exactly_once`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from batches import COUNTS_SCHEMA, FILES_SCHEMA, UNPARSABLE_SCHEMA
from input_files import Place
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual name


@dataclass(frozen=True)
class Results:
    """`by_construct` and `by_module` count constructs; `places` has every record that was counted or set aside."""

    files: int
    unparsable: int
    redelivered: int
    by_construct: dict[str, int]
    by_module: dict[str, int]
    places: Counter[Place]


def read_results(spark: SparkSession, output: str) -> Results:
    """All batches so far, those of earlier runs included."""
    files = _table(spark, output, "files", FILES_SCHEMA)
    unparsable = _table(spark, output, "unparsable", UNPARSABLE_SCHEMA)
    counts = _table(spark, output, "counts", COUNTS_SCHEMA)
    columns = ("topic", "partition", "offset", "deliveryCount")
    rows = files.select(*columns).union(unparsable.select(*columns)).collect()
    return Results(
        files=files.count(),
        unparsable=unparsable.count(),
        redelivered=sum(row["deliveryCount"] > 1 for row in rows),
        by_construct=_totals(counts, "construct"),
        by_module=_totals(counts, "module"),
        places=Counter((row["topic"], row["partition"], row["offset"]) for row in rows),
    )


def _table(spark: SparkSession, output: str, table: str, schema: str) -> DataFrame:
    try:
        return spark.read.schema(f"{schema}, batch bigint").parquet(f"{output}/{table}")
    except AnalysisException:  # no batch yet
        return spark.createDataFrame([], f"{schema}, batch bigint")


def _totals(counts: DataFrame, column: str) -> dict[str, int]:
    summed = counts.groupBy(column).agg(F.sum("number").alias("number"))
    return {row[column]: row["number"] for row in summed.orderBy(F.desc("number"), column).collect()}
