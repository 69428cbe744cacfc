"""The jars of Spark's own Kafka source, by Maven, for `spark_rate`."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from spark.maven_jars import SCALA, runtime_jars

_WANTED: Final = ("spark-sql-kafka-", "spark-token-provider-kafka-", "kafka-clients-", "commons-pool2-")
"""The others are in Spark."""


def fetch(version: str, folder: Path) -> list[Path]:
    """Copy them into `folder`. Raises `JarsMissingError` if that is impossible."""
    jars = runtime_jars("org.apache.spark", f"spark-sql-kafka-0-10_{SCALA}", version, folder)
    return [jar for jar in jars if jar.name.startswith(_WANTED)]
