"""The benchmarks run: a tiny row of each kind, and the page that is made of them. The numbers are no matter here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import attrs
import pytest
from performance import bench, members, page, targets
from performance import costs as costs_module
from performance.costs import PARTS, costs
from performance.figures import Spread, figures_of, is_behind, percentile
from performance.other_brokers import KFAKE
from performance.profiling import top
from performance.rows import CAUSES, CONFLUENT, OURS, RAW, ROWS
from performance.runs import Runner
from performance.stub_process import NOT_ON_WINDOWS
from support.documentation import ROOT, environment

pytestmark = [
    pytest.mark.one_python,
    pytest.mark.timeout(120),  # each run starts a Python or two
    pytest.mark.skipif(os.name == "nt", reason=NOT_ON_WINDOWS),
]

STUB_ROWS = (
    "stub-100-implicit",
    "stub-100-window",
    "handlers-stub-wait",
    "latency-handlers-stub",
    "latency-stub",
    "consumers-2",
)
BROKER_ROWS = ("reference-100-explicit", "latency-reference")
BY_ID = {row.id: row for row in ROWS}


def run(folder: Path, rows: tuple[str, ...]) -> list[dict[str, Any]]:
    pytest.importorskip("confluent_kafka")
    words = [word for row in rows for word in ("--rows", row)]
    command = [sys.executable, "-m", "performance.bench", "--rounds", "1", "--size", "0.01", *words]
    done = subprocess.run(
        [*command, "--json", str(folder / "kept.json")],
        env={**environment(), "PATH": ""},  # no Java: it would take longer than all the rest
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    kept = json.loads((folder / "kept.json").read_text())
    assert set(kept["why_not"]) <= {"java"}
    found: list[dict[str, Any]] = kept["results"]
    for one in found:
        assert one["rate"] > 0
        assert one["cpu"] > 0
        assert f"{one['row']} " in done.stdout
    return found


@pytest.mark.foreign
def test_every_kind_of_row_runs_on_the_stub(tmp_path: Path) -> None:
    results = run(tmp_path, STUB_ROWS)
    assert {one["row"] for one in results} == set(STUB_ROWS)
    assert {one["contestant"] for one in results} == {"ours", "ours-asyncio", "worker", "worker-tasks", "confluent"}
    for one in results:
        assert one["broker_cpu"] > 0
        assert bool(one["latencies_us"]) == BY_ID[one["row"]].is_latency
    text = page.page({"machine": {"date": "today"}, "why_not": {"java": "no"}, "results": results}, minutes=1)
    for row in STUB_ROWS:
        assert f"| {BY_ID[row].title} | kafka_share |" in text
    assert "| not measured | Java: no |" in text


@pytest.mark.foreign
def test_rows_on_the_reference_broker_run(tmp_path: Path) -> None:
    results = run(tmp_path, BROKER_ROWS)
    assert {(one["row"], one["contestant"]) for one in results} == {
        (row, contestant) for row in BROKER_ROWS for contestant in ("ours", "confluent")
    }


@pytest.mark.foreign
def test_rows_of_the_reference_broker_alone_say_what_it_costs(tmp_path: Path) -> None:
    results = run(tmp_path, ("reference-alone-*", "mock-alone-*"))
    assert {one["row"] for one in results} == {
        row.id for row in ROWS if row.contestants == (RAW,) and row.target != KFAKE
    }
    for one in results:
        assert (one["broker_cpu"] is not None) == Path("/proc/self/stat").exists()


def test_members_are_kept_and_counted() -> None:
    found = members.measure(members.Load(members=6, groups=3, partitions=4, seconds=0.5, fetch=True))
    assert found["members"] == 6
    assert found["heartbeats"] > 0
    assert 0 < found["p50_ms"] <= found["p99_ms"] <= found["longest_ms"]


def test_what_each_part_costs_is_measured_of_two_consumers_in_turns() -> None:
    found = list(costs(list(PARTS), pairs=3, size=0.01))
    assert [cost.name for cost in found] == list(PARTS)
    for cost in found:
        assert cost.with_it > 0
        assert cost.without > 0
        assert cost.more.low <= cost.more.median <= cost.more.high
        assert f"{cost}".startswith(f"{cost.name} ")


def test_the_consumer_without_metrics_records_none(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[tuple[float, ...]] = []

    def turn(consumer: Any, *_: Any) -> float:
        consumer.poll(timeout_ms=5_000)
        groups = consumer.metrics()
        read.append(tuple(sum(values.values()) for name, values in groups.items() if "node" in name or "fetch" in name))
        return 1.0

    monkeypatch.setattr(costs_module, "_turn", turn)
    list(costs(["metrics"], pairs=2, size=0.01))
    assert sum(map(any, read)) == len(read) // 2


def test_a_contestant_that_fails_ends_the_run_with_what_it_said(tmp_path: Path) -> None:
    row = attrs.evolve(BY_ID["stub-100-implicit"], max_poll_records=-1)
    said = r"a contestant ended with 1: (.|\n)*max_poll_records"
    with targets.stub(row.settings) as target, pytest.raises(RuntimeError, match=said):
        Runner(tmp_path, size=0.01).run(row, target, OURS)


# ---- figures


def result(contestant: str, number: int, cpu: float, rate: float = 10.0, latencies: tuple[float, ...] = ()) -> Any:
    kept = {"row": "stub-100-implicit", "contestant": contestant, "round": number, "cpu": cpu, "rate": rate}
    return {**kept, "rss_mb": 30.0, "broker_cpu": None, "latencies_us": list(latencies), "load": 1.0}


def test_ratios_are_those_within_a_round() -> None:
    """Not the ratio of the medians: the machine may be slower in one round for all."""
    row = BY_ID["stub-100-implicit"]
    results = [result(OURS, 0, 2.0), result(CONFLUENT, 0, 1.0), result(OURS, 1, 8.0), result(CONFLUENT, 1, 2.0)]
    results += [result(OURS, 2, 3.0), result(CONFLUENT, 2, 1.0)]
    ours, theirs = figures_of(row, results)
    assert ours.cpu == Spread(3.0, 2.0, 8.0)
    assert ours.cpu_ratio == Spread(3.0, 2.0, 4.0)
    assert theirs.cpu_ratio is None
    assert is_behind(row, [ours, theirs])
    assert not is_behind(row, figures_of(row, [result(OURS, 0, 1.0, 20.0), result(CONFLUENT, 0, 1.5)]))


def test_a_percentile_is_a_value_that_was_measured() -> None:
    values = list(range(1_000))
    assert [percentile(values, percent) for percent in (50, 99, 99.9)] == [500, 990, 999]


def test_a_profile_is_read_by_thread_and_by_what_runs_itself() -> None:
    raw = "thread A;main;decode 30\nthread A;main 10\nthread B;loop;decode 10\n"
    text = "\n".join(top(raw))
    assert "thread A: 80.0 % of the samples\n   75.0 %  decode\n   25.0 %  main" in text
    assert "thread B: 20.0 % of the samples\n  100.0 %  decode" in text


def test_results_of_several_files_make_one_page(tmp_path: Path) -> None:
    for name, cpu in (("old", 1.0), ("new", 2.0)):
        kept = {"machine": {"date": name}, "why_not": {}, "results": [result(OURS, 0, cpu)]}
        (tmp_path / name).write_text(json.dumps(kept))
    assert bench.merged([tmp_path / "old", tmp_path / "new"])["results"] == [result(OURS, 0, 2.0)]


def test_every_row_has_a_name_and_known_causes() -> None:
    assert len(BY_ID) == len(ROWS)
    assert {cause for row in ROWS for cause in row.causes} == set(CAUSES)


def test_the_plot_has_a_bar_for_each_contestant(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    from performance.plot import draw

    draw([result(OURS, 0, 2.0), result(CONFLUENT, 0, 1.0)], tmp_path / "plot.svg")
    drawn = (tmp_path / "plot.svg").read_text()
    assert "kafka_share" in drawn
    assert "confluent-kafka" in drawn
