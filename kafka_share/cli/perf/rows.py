"""The rows that `kafka-share-perf` prints: pure functions from measurements to text, and to what `json` takes.

The first seven columns are those of Kafka's own tool, in its format; ours follow.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import ROUND_HALF_UP, Decimal
from typing import Any, Final

import attrs

from kafka_share.cli.perf.measuring import Latencies

_APACHE_COLUMNS: Final = (
    "start.time",
    "end.time",
    "data.consumed.in.MB",
    "MB.sec",
    "nMsg.sec",
    "data.consumed.in.nMsg",
    "fetch.time.ms",
)
_OUR_COLUMNS: Final = (
    "latency.p50.ms",
    "latency.p95.ms",
    "latency.p99.ms",
    "latency.p99.9.ms",
    "latency.max.ms",
    "cpu.sec",
    "cpu.sec.per.million",
)
PER_MILLE: Final = (500, 950, 990, 999)
_MEGABYTE: Final = 1024 * 1024
_NOTHING: Final = "-"


@attrs.frozen(kw_only=True)
class Row:
    """What was measured from one time to another."""

    started_at_ms: int
    """Milliseconds since 1970."""
    ended_at_ms: int
    records: int
    bytes: int
    records_so_far: int
    """The same as `records` but in the row of an interval, as Kafka's tool has it: rates are those of the interval."""
    bytes_so_far: int
    latencies: Latencies
    cpu_s: float | None
    """Of the whole process; None where it is not known whose it was."""

    @property
    def elapsed_ms(self) -> int:
        return self.ended_at_ms - self.started_at_ms

    def megabytes(self) -> float:
        return self.bytes_so_far / _MEGABYTE

    def per_second(self, amount: float) -> float:
        """0 if no time went by."""
        return amount / (self.elapsed_ms / 1000) if self.elapsed_ms else 0.0

    def percentiles(self) -> list[int | None]:
        """In the order of our columns, the longest one last."""
        if not self.latencies.records:
            return [None] * (len(PER_MILLE) + 1)
        return [*self.latencies.percentiles(PER_MILLE), self.latencies.longest_ms]

    def cpu_s_per_million(self) -> float | None:
        return None if self.cpu_s is None or not self.records else self.cpu_s * 1_000_000 / self.records


def header(apache_only: bool) -> str:
    return ", ".join(_APACHE_COLUMNS if apache_only else _APACHE_COLUMNS + _OUR_COLUMNS)


def text(row: Row, time_text: Callable[[int], str], *, apache_only: bool) -> str:
    """The columns of `header`; times as `time_text` has them."""
    cells = [
        time_text(row.started_at_ms),
        time_text(row.ended_at_ms),
        _decimal(row.megabytes(), 4),
        _decimal(row.per_second(row.bytes / _MEGABYTE), 4),
        _decimal(row.per_second(row.records), 4),
        str(row.records_so_far),
        str(row.elapsed_ms),
    ]
    if not apache_only:
        cells += [_NOTHING if latency_ms is None else str(latency_ms) for latency_ms in row.percentiles()]
        cells += [_NOTHING if cpu_s is None else _decimal(cpu_s, 3) for cpu_s in (row.cpu_s, row.cpu_s_per_million())]
    return ", ".join(cells)


def document(kind: str, row: Row, **more: Any) -> dict[str, Any]:
    """The same for JSON, with times in milliseconds and numbers as they are; what is unknown is null."""
    p50_ms, p95_ms, p99_ms, p999_ms, max_ms = row.percentiles()
    return {
        "row": kind,
        **more,
        "start_ms": row.started_at_ms,
        "end_ms": row.ended_at_ms,
        "consumed_mb": row.megabytes(),
        "mb_per_second": row.per_second(row.bytes / _MEGABYTE),
        "records_per_second": row.per_second(row.records),
        "consumed_records": row.records_so_far,
        "elapsed_ms": row.elapsed_ms,
        "latency_ms": {"p50": p50_ms, "p95": p95_ms, "p99": p99_ms, "p99.9": p999_ms, "max": max_ms},
        "cpu_seconds": row.cpu_s,
        "cpu_seconds_per_million": row.cpu_s_per_million(),
    }


def interval(row: str, consumer: int) -> str:
    """The row of one consumer in one interval; the first consumer is 1."""
    return f"{row} for share consumer {consumer}"


def consumer(row: str, number: int, client_id: str) -> str:
    """The row of one consumer over the whole time."""
    return f"Share consumer {number} having client id {client_id} consumption metrics- {row}"


def metrics(client_id: str, groups: Mapping[str, Mapping[str, float]]) -> str:
    """A consumer's metrics in the order of their names, below an empty line and a header."""
    named = {}
    for group, values in groups.items():
        # The numbers of one broker have a group of their own; Java's name has the broker as a tag.
        name, _, node = group.partition(".")
        tags = f"client-id={client_id}, node-id={node}" if node else f"client-id={client_id}"
        named.update({f"{name}:{metric}:{{{tags}}}": value for metric, value in values.items()})
    width = max(map(len, named), default=0)
    lines = [f"{name:<{width}} : {_decimal(named[name], 3)}" for name in sorted(named)]
    return "\n".join(["", f"{'Metric Name':<{width + 3}}Value", *lines])


def _decimal(number: float, places: int) -> str:
    """As Java formats it: halves of the shortest decimal number that is this one are rounded up."""
    return str(Decimal(repr(number)).quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP))
