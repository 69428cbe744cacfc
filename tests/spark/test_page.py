"""docs/spark.md: its table has every option with its default, and its blocks run."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest
from spark.spark_driver import SparkDriver
from support.documentation import ROOT, blocks_of, table_below

from kafka_share.broker import ReferenceBroker
from kafka_share.spark.options import SourceOptions
from kafka_share.spark.splits import COLUMNS

PAGE = ROOT / "docs" / "spark.md"
BLOCKS = [block for block in blocks_of(PAGE) if block.language == "python"]
INTERNAL = {"loadId"}
"""Given by `batch()` alone."""


def test_the_table_of_options_has_every_option_with_its_default() -> None:
    rows = {row[0].strip("`"): row[1] for row in table_below(PAGE, "| option |")}
    options = {
        field.metadata["option"]: field.default for field in attrs.fields(SourceOptions) if "option" in field.metadata
    }
    assert list(rows)[3:] == [name for name in options if name not in INTERNAL]
    for name, default in options.items():
        if name not in INTERNAL | {"agentDir"}:
            text = ",".join(default) if isinstance(default, tuple) else str(default)
            assert rows[name] == text.replace("True", "true").replace("False", "false"), name


def test_the_table_of_columns_has_every_column() -> None:
    named = [name for row in table_below(PAGE, "| column |") for name in row[0].replace("`", "").split(", ")]
    assert named == list(COLUMNS)


@pytest.mark.timeout(600)  # a JVM starts, and machines are busy
@pytest.mark.parametrize("block", [pytest.param(block, id=block.place) for block in BLOCKS])
def test_a_block_runs_on_spark(spark: SparkDriver, broker: ReferenceBroker, tmp_path: Path, block: object) -> None:
    assert isinstance(block, type(BLOCKS[0]))
    broker.produce_batch("orders", [b'{"id": 1}', b'{"id": 2}'])
    broker.create_topic("mixed")
    broker.produce_batch("mixed", [b'{"id": 1}', b"not JSON"])
    for group in ("order-pipeline", "order-workers", "order-batch"):
        broker.set_group_config(group, share_auto_offset_reset="earliest")
    code = block.code.replace("localhost:9092", broker.bootstrap_servers).replace("/data", str(tmp_path))
    assert spark.run(kind="code", code=code) == {"error": ""}
    assert list(tmp_path.rglob("*.parquet"))
