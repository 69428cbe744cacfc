"""The metrics of a lease agent for Prometheus, by prometheus-client (the extra `prometheus`).

The agent serves them if the option metricsPort is set. Each scrape asks the desk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

COUNTERS: Final = {
    "leases": "Leases that were handed to queries.",
    "leases_done": "Leases whose batch was committed.",
    "leases_lost": "Leases all of whose locks were lost.",
    "leases_released": "Leases that were given back.",
    "leases_adopted": "Leases that a restarted query has replayed.",
    "records": "Records that were acquired.",
    "records_redelivered": "Records among them that had been delivered before.",
    "records_accepted": "Records that were accepted.",
    "records_rejected": "Records that were rejected.",
    "records_released": "Records that were given back.",
    "records_lost": "Records whose lock ended before their acknowledgement.",
    "records_refused": "Records whose acknowledgement a broker has refused.",
    "records_rejected_for_deliveries": "Records that were rejected because of rejectAfterDeliveries.",
    "renewals": "Locks that were renewed.",
}
GAUGES: Final = {
    "open_leases": "Leases whose batch is not committed yet.",
    "open_records": "Records of those leases.",
    "oldest_lease_ms": "How long ago the oldest of them was acquired, in milliseconds.",
    "lag": "Records that the group has not finished, as last seen; not there until it has finished some.",
}


class AgentCollector(Collector):
    """Turns what the desk counts into metric families."""

    def __init__(self, counts: Callable[[], dict[str, int]], group_id: str) -> None:
        self._counts = counts
        self._group_id = group_id

    def describe(self) -> list[Metric]:
        return []

    def collect(self) -> Iterator[Metric]:
        counts = self._counts()
        for name, text in COUNTERS.items():
            counter = CounterMetricFamily(f"kafka_share_spark_{name}", text, labels=("group",))
            counter.add_metric((self._group_id,), counts[name])
            yield counter
        for name, text in GAUGES.items():
            gauge = GaugeMetricFamily(f"kafka_share_spark_{name}", text, labels=("group",))
            if name in counts:
                gauge.add_metric((self._group_id,), counts[name])
            yield gauge


def serve_metrics(counts: Callable[[], dict[str, int]], host: str, port: int, group_id: str) -> None:
    """Answer scrapes on a daemon thread. Raises OSError if it cannot listen there."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(AgentCollector(counts, group_id))
    start_http_server(port, host, registry)
