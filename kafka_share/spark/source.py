"""ShareGroupSource: `spark.read.format("kafka_share")` and `spark.readStream.format("kafka_share")`.

Spark makes it in several processes of the driver and sends it to the executors, so it opens nothing, and what it holds
has no secrets. The readers do the work: `stream_reader` and `batch_reader`.
"""

from __future__ import annotations

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from kafka_share.errors import ConfigurationError
from kafka_share.spark.batch_reader import ShareBatchReader
from kafka_share.spark.options import SourceOptions
from kafka_share.spark.splits import COLUMNS, column_names, schema_text
from kafka_share.spark.stream_reader import ShareStreamReader


class ShareGroupSource(DataSource):
    """A share group as a source; docs/spark.md has its options."""

    @classmethod
    def name(cls) -> str:
        return "kafka_share"

    def schema(self) -> str:
        return schema_text(include_headers=self._checked().include_headers)

    def reader(self, schema: StructType) -> ShareBatchReader:
        options = self._checked()
        return ShareBatchReader(options, _columns(schema, options))

    def streamReader(self, schema: StructType) -> ShareStreamReader:  # noqa: N802
        options = self._checked()
        return ShareStreamReader(options, _columns(schema, options))

    def _checked(self) -> SourceOptions:
        return SourceOptions.of(dict(self.options))


def _columns(schema: StructType, options: SourceOptions) -> list[str]:
    """The columns that a task has to yield, in their order and spelling; a schema of the user's may have fewer.

    Raises `ConfigurationError` for a column that rows do not have, or have with another type.
    """
    offered = {name.lower(): name for name in column_names(include_headers=options.include_headers)}
    for field in schema.fields:
        name = offered.get(field.name.lower())
        if name is None:
            hint = ": set includeHeaders to true" if field.name.lower() == "headers" else ""
            raise ConfigurationError(
                f"the schema has a column {field.name}, which the source kafka_share does not have{hint}; its columns "
                f"are {', '.join(offered.values())}"
            )
        if field.dataType.simpleString() != COLUMNS[name][0]:
            raise ConfigurationError(
                f"the schema has {field.name} as {field.dataType.simpleString()}; here it is {COLUMNS[name][0]}"
            )
    return [field.name for field in schema.fields]
