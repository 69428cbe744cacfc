"""The metrics of the reference broker for Prometheus, which prometheus-client writes (the extra `prometheus`).

`kafka-share-broker --metrics-port` serves them. The names are those that Prometheus' JMX exporter gives Kafka's metrics
by its usual rules: domain, type and name in small letters, `_total` for what Kafka calls `PerSec`.
"""

from __future__ import annotations

import asyncio

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric, SummaryMetricFamily
from prometheus_client.registry import Collector

from kafka_share.broker import metrics as broker_metrics
from kafka_share.broker.reference_broker import ReferenceBroker
from kafka_share.cli.http_server import Answer, HttpServer

_NODE = "node"
"""The label that tells the nodes apart: a real cluster has an endpoint for each."""


def metrics_server(broker: ReferenceBroker, host: str, port: int) -> HttpServer:
    """Serves /metrics; the broker has to run when it is asked."""

    async def scraped() -> Answer:
        return Answer(exposition(await asyncio.to_thread(broker.metrics)), CONTENT_TYPE_LATEST)

    return HttpServer({"/metrics": scraped}, host, port)


def prometheus_name(metric: broker_metrics.Metric) -> str:
    """The name of the family; counters and summaries have endings of their own besides."""
    name = f"{metric.domain}_{metric.type}_{metric.name.removesuffix('PerSec')}"
    return name.replace(".", "_").replace("-", "_").lower()


def exposition(found: broker_metrics.BrokerMetrics) -> bytes:
    """The metrics as Prometheus reads them."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collected(found))
    return generate_latest(registry)


class _Collected(Collector):
    def __init__(self, found: broker_metrics.BrokerMetrics) -> None:
        self._families = [
            _family(metric, samples)
            for metric in broker_metrics.METRICS.values()
            if (samples := found.samples(metric.name))
        ]

    def describe(self) -> list[Metric]:
        return []

    def collect(self) -> list[Metric]:
        return self._families


def _family(metric: broker_metrics.Metric, samples: list[broker_metrics.Sample]) -> Metric:
    """One family. What Kafka counts for a topic and for all topics together differs by its label, empty for all."""
    tags = list(dict.fromkeys(tag for sample in samples for tag in sample.tags))
    nodes = [_NODE] if samples[0].node_id is not None else []
    name, labels = prometheus_name(metric), [*nodes, *tags]
    family: SummaryMetricFamily | CounterMetricFamily | GaugeMetricFamily
    if samples[0].count is not None:
        family = SummaryMetricFamily(name, metric.text, labels=labels)
    elif metric.is_counter:
        family = CounterMetricFamily(name, metric.text, labels=labels)
    else:
        family = GaugeMetricFamily(name, metric.text, labels=labels)
    for sample in samples:
        values = [*([str(sample.node_id)] if nodes else []), *(sample.tags.get(tag, "") for tag in tags)]
        if isinstance(family, SummaryMetricFamily):
            family.add_metric(values, sample.count or 0, sample.value)
        else:
            family.add_metric(values, sample.value)
    return family
