"""docs/spark-pipeline.md: its walk-through runs from first to last block, and it names metrics that there are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from spark.spark_driver import SparkDriver
from support.documentation import ROOT, blocks_of, table_below

PAGE = ROOT / "docs" / "spark-pipeline.md"
WALK = [block for block in blocks_of(PAGE) if block.mark.startswith("not run: by tests/spark/test_pipeline_page.py")]


@pytest.mark.timeout(900)  # a JVM starts, and machines are busy
def test_the_walk_through_runs(spark: SparkDriver, tmp_path: Path) -> None:
    """In one program, as the cells of a notebook. Its own assertions say what must come out."""
    assert len(WALK) == 7
    assert spark.run(kind="code", code="\n".join(block.code for block in WALK).replace("/data", str(tmp_path))) == {
        "error": ""
    }
    assert list((tmp_path / "good").rglob("*.parquet"))


def test_metrics_to_watch_are_metrics_of_the_agent() -> None:
    pytest.importorskip("prometheus_client", reason="metricsPort needs the extra prometheus")
    from kafka_share.spark.metrics import COUNTERS, GAUGES

    named = {name for row in table_below(PAGE, "| metric |") for name in re.findall(r"kafka_share_spark_(\w+)", row[0])}
    assert named <= GAUGES.keys() | {f"{counter}_total" for counter in COUNTERS}
    assert len(named) == 8
