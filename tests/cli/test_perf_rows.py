"""The rows of `kafka-share-perf`, compared byte for byte with what Kafka's own tool printed for the same numbers."""

from __future__ import annotations

import attrs
import pytest

from kafka_share.cli.perf import rows
from kafka_share.cli.perf.measuring import Latencies
from kafka_share.cli.perf.rows import Row

APACHE_HEADER = (
    "start.time, end.time, data.consumed.in.MB, MB.sec, nMsg.sec, data.consumed.in.nMsg, fetch.time.ms"
)  # fmt: skip
OUR_COLUMNS = (
    "latency.p50.ms, latency.p95.ms, latency.p99.ms, latency.p99.9.ms, latency.max.ms, cpu.sec, cpu.sec.per.million"
)


def row(records: int, elapsed_ms: int, bytes_each: int = 2, before: int = 0, cpu_s: float | None = None) -> Row:
    so_far = before + records
    return Row(
        started_at_ms=1_000,
        ended_at_ms=1_000 + elapsed_ms,
        records=records,
        bytes=records * bytes_each,
        records_so_far=so_far,
        bytes_so_far=so_far * bytes_each,
        latencies=Latencies(),
        cpu_s=cpu_s,
    )


def printed(one: Row, apache_only: bool = True) -> str:
    return rows.text(one, lambda _: "TIME", apache_only=apache_only)


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        # printed by the tool of Kafka 4.3.1
        (row(10, 1125), "TIME, TIME, 0.0000, 0.0000, 8.8889, 10, 1125"),
        (row(0, 3015), "TIME, TIME, 0.0000, 0.0000, 0.0000, 0, 3015"),
        (row(8_828, 11_487, 300), "TIME, TIME, 2.5257, 0.2199, 768.5209, 8828, 11487"),
        (row(18_754, 11_497, 300), "TIME, TIME, 5.3656, 0.4667, 1631.2081, 18754, 11497"),
        (row(520, 260, 300, before=1), "TIME, TIME, 0.1491, 0.5722, 2000.0000, 521, 260"),
        (row(508, 264, 300, before=521), "TIME, TIME, 0.2944, 0.5505, 1924.2424, 1029, 264"),
        # 4.2.1
        (row(10, 1033), "TIME, TIME, 0.0000, 0.0000, 9.6805, 10, 1033"),
        # 4.1.2
        (row(10, 1067), "TIME, TIME, 0.0000, 0.0000, 9.3721, 10, 1067"),
    ],
)
def test_a_row_is_that_of_kafkas_own_tool(one: Row, expected: str) -> None:
    """Seven columns; the rates of an interval are its own, its amounts are those since the start."""
    assert printed(one) == expected


def test_rows_of_consumers_and_intervals_are_those_of_kafkas_own_tool() -> None:
    """A row of one consumer says whose it is, before or behind the columns."""
    assert rows.interval(printed(row(1, 1035)), 1) == (
        "TIME, TIME, 0.0000, 0.0000, 0.9662, 1, 1035 for share consumer 1"
    )
    assert rows.consumer(printed(row(9_926, 11_487, 300)), 2, "perf-share-consumer-client-2") == (
        "Share consumer 2 having client id perf-share-consumer-client-2 consumption metrics- "
        "TIME, TIME, 2.8399, 0.2472, 864.1073, 9926, 11487"
    )


def test_halves_are_rounded_up_as_java_does() -> None:
    """1/32 of a megabyte is 0.03125: Python would print 0.0312."""
    assert printed(row(1, 1_000, 32 * 1024)).split(", ")[2] == "0.0313"


def test_a_row_has_no_rates_when_no_time_went_by() -> None:
    """Nothing is divided by zero."""
    assert printed(row(5, 0)) == "TIME, TIME, 0.0000, 0.0000, 0.0000, 5, 0"


def test_our_columns_follow_those_of_kafkas_own_tool() -> None:
    """Percentiles and the longest latency in ms, CPU in seconds and per million records; what is unknown is a dash."""
    assert rows.header(apache_only=True) == APACHE_HEADER
    assert rows.header(apache_only=False) == f"{APACHE_HEADER}, {OUR_COLUMNS}"
    one = row(1_000, 1_000, cpu_s=0.01)
    for latency_ms in range(1_000):
        one.latencies.count(latency_ms)
    apache = printed(one)
    assert printed(one, apache_only=False) == f"{apache}, 499, 949, 989, 998, 999, 0.010, 10.000"
    assert printed(row(0, 5), apache_only=False).endswith(", 0, 5, -, -, -, -, -, -, -")
    assert printed(row(0, 5, cpu_s=0.5), apache_only=False).endswith(", -, -, -, -, -, 0.500, -")


def test_a_document_has_the_numbers_as_they_are() -> None:
    """JSON: times in ms since 1970, nothing rounded, null for what is unknown."""
    one = attrs.evolve(row(4, 2_000, bytes_each=1024 * 256, before=4), cpu_s=0.25)
    assert rows.document("interval", one, consumer=1) == {
        "row": "interval",
        "consumer": 1,
        "start_ms": 1_000,
        "end_ms": 3_000,
        "consumed_mb": 2.0,
        "mb_per_second": 0.5,
        "records_per_second": 2.0,
        "consumed_records": 8,
        "elapsed_ms": 2_000,
        "latency_ms": {"p50": None, "p95": None, "p99": None, "p99.9": None, "max": None},
        "cpu_seconds": 0.25,
        "cpu_seconds_per_million": 62_500.0,
    }


def test_metrics_are_printed_as_kafkas_own_tool_prints_them() -> None:
    """Sorted by name, values below each other with three places; a broker's number has the broker as a tag."""
    groups = {
        "consumer-node-metrics.node-2147483646": {"outgoing-byte-total": 216.0},
        "consumer-node-metrics.node-1": {"incoming-byte-rate": 28.1789},
        "consumer-metrics": {"io-ratio": 0.0055, "connection-count": 3.0},
    }
    tag = "client-id=perf-share-consumer-client"
    assert rows.metrics("perf-share-consumer-client", groups).splitlines() == [
        "",
        f"Metric Name{'':97}Value",
        f"consumer-metrics:connection-count:{{{tag}}}{'':33} : 3.000",
        f"consumer-metrics:io-ratio:{{{tag}}}{'':41} : 0.006",
        f"consumer-node-metrics:incoming-byte-rate:{{{tag}, node-id=node-1}}{'':10} : 28.179",
        f"consumer-node-metrics:outgoing-byte-total:{{{tag}, node-id=node-2147483646}} : 216.000",
    ]
