"""Where pyspark has its Spark, and which one that is. For the tests that start more of it than a driver."""

from __future__ import annotations

import importlib.metadata
import importlib.util
from pathlib import Path


def spark_version() -> tuple[int, int]:
    """Major and minor number of pyspark's."""
    major, minor = importlib.metadata.version("pyspark").split(".")[:2]
    return int(major), int(minor)


def spark_home() -> Path:
    """The folder that SPARK_HOME names; pip's pyspark is one."""
    found = importlib.util.find_spec("pyspark")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent
