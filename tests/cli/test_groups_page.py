"""What docs/command-line.md shows as printed by `kafka-share-groups` is printed, on a cluster like the page's."""

from __future__ import annotations

import re
import shlex

import pytest
from cli.groups_situation import consumer, run
from support.documentation import ROOT, blocks_of
from support.waiting import poll_until

from kafka_share.broker import ReferenceBroker

PAGE = ROOT / "docs" / "command-line.md"


def comparable(text: str) -> str:
    """Ids and ports differ from run to run, and columns with the length of a port."""
    text = re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:PORT", text)
    text = re.sub(r"(?<= )[A-Za-z0-9_-]{22} (?=/127)", "MEMBERID ", text)
    text = re.sub(r"(?<=  )\d(?=  +orders:)", "EPOCH", text)
    return re.sub(r" +", " ", text).strip("\n")


def test_the_page_shows_what_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """Every command of the page's example is run in its order, and prints what stands below it."""
    [block] = [block for block in blocks_of(PAGE) if block.language == "console" and block.mark == "printed"]
    with ReferenceBroker() as broker:
        broker.create_topic("orders", partitions=2)
        for _ in range(10):
            broker.produce("orders", b"x")
        broker.set_group_config("order-workers", share_auto_offset_reset="earliest")
        with consumer(broker, "order-workers", "orders") as worker:
            poll_until(worker, 1)
            worker.commit_sync()
            broker.produce("orders", b"y")
            for text in re.split(r"^\$ ", block.code, flags=re.M)[1:]:
                command, _, expected = text.partition("\n")
                words = shlex.split(command.replace("localhost:9092", broker.bootstrap_servers))
                assert words[0] == "kafka-share-groups"
                result = run(capsys, *words[1:])
                assert comparable(result.stdout) == comparable(expected.replace("worker-1", "cli-client")), command
                assert result.stderr == "", command
