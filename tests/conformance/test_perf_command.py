"""`kafka-share-perf` on the reference broker and on real Apache Kafka."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import pytest
from click.testing import CliRunner, Result
from conformance.admin_over_wire import Admin
from conformance.kafka_targets import Target
from conformance.share_flow import Flow, Keep, begin

from kafka_share.cli.perf.command import main


@pytest.fixture
def flow(kafka: Target, kafka_admin: Admin, unique: Callable[[str], str], closing: Keep) -> Flow:
    return begin(kafka, kafka_admin, unique, closing)


def measure(flow: Flow, *words: str) -> Result:
    servers = flow.target.bootstrap_servers
    command = ["--bootstrap-server", servers, "--topic", flow.topic, "--group", flow.group, *words]
    return CliRunner().invoke(main, command)


def test_it_measures_a_group_and_leaves_nothing_behind(flow: Flow) -> None:
    """A batch of ten counts as a whole where five are asked for; they are accepted, so that a second run gets none."""
    flow.produce(*(b"v%d" % number for number in range(10)))
    result = measure(flow, "--num-records", "5", "--timeout", "30000", "--apache-columns")
    asking = f"Asking {flow.target.bootstrap_servers} …\n"  # of a broker that takes its time
    assert (result.exit_code, result.stderr.removeprefix(asking)) == (0, "")
    header, row = result.stdout.splitlines()
    assert header == "start.time, end.time, data.consumed.in.MB, MB.sec, nMsg.sec, data.consumed.in.nMsg, fetch.time.ms"
    time = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d:\d{3}"
    cells = re.fullmatch(rf"{time}, {time}, 0\.0000, 0\.000\d, (\d+\.\d{{4}}), 10, (\d+)", row)
    assert cells is not None, row
    assert float(cells[1]) == pytest.approx(10_000 / int(cells[2]), abs=0.0001)

    flow.produce(b"late")
    more = measure(flow, "--num-records", "1", "--timeout", "30000", "--acknowledge", "explicit", "--format", "json")
    total = json.loads(more.stdout)
    assert (more.exit_code, total["consumed_records"], total["complete"]) == (0, 1, True)
    assert total["latency_ms"]["p50"] == total["latency_ms"]["max"] >= 0
    assert total["cpu_seconds"] > 0

    nothing = measure(flow, "--num-records", "1", "--timeout", "3000", "--hide-header")
    assert nothing.exit_code == 1
    assert nothing.stdout.splitlines()[-1].split(", ")[2:6] == ["0.0000", "0.0000", "0.0000", "0"]
