"""The metrics of share consumers and workers as OpenTelemetry instruments.

It reads their `metrics()` when a reader collects; it measures and sends nothing itself.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias

from opentelemetry.metrics import CallbackOptions, MeterProvider, Observation, get_meter_provider

from kafka_share._version import VERSION
from kafka_share.application.metrics import labels_of
from kafka_share.async_consumer import AsyncShareConsumer
from kafka_share.consumer import KafkaShareConsumer
from kafka_share.core.metrics.metric_table import METRICS, NODE_METRICS, WORKER_METRICS, Metric, telemetry_name
from kafka_share.worker import ShareWorker, consumer_of

Observed: TypeAlias = KafkaShareConsumer[Any, Any] | AsyncShareConsumer[Any, Any] | ShareWorker[Any, Any]

_READ_AGAIN_S: Final = 0.1
"""One collection asks for many metrics: they are read once for all of them."""


class ShareConsumerInstruments:
    """Instruments for any number of consumers and workers.

    The instruments have the names of Kafka's telemetry (`org.apache.kafka.consumer.share.fetch.manager.fetch.total`).
    Names that end with `.total` are counters, all others gauges. Each value has the attributes `client_id` and
    `group_id`, and `node_id` if it is about one broker. Consumers and workers are referenced weakly. Make one object of
    this class per meter provider: OpenTelemetry does not allow two instruments of the same name.
    """

    def __init__(self, meter_provider: MeterProvider | None = None) -> None:
        meter = (meter_provider or get_meter_provider()).get_meter("kafka_share", VERSION)
        self._lock = threading.Lock()
        self._consumers: weakref.WeakSet[Observed] = weakref.WeakSet()
        self._read_at = -_READ_AGAIN_S
        self._read: list[tuple[dict[str, str], Mapping[str, Mapping[str, float]]]] = []
        for metric in (*METRICS, *NODE_METRICS, *WORKER_METRICS):
            create = meter.create_observable_counter if metric.is_total else meter.create_observable_gauge
            create(telemetry_name(metric), [self._callback(metric)], description=metric.meaning)

    def observe(self, consumer: Observed) -> None:
        """Report the metrics of this consumer or worker from now on; those of a worker from its start on."""
        with self._lock:
            self._consumers.add(consumer)

    def forget(self, consumer: Observed) -> None:
        """Stop reporting them."""
        with self._lock:
            self._consumers.discard(consumer)

    def _readings(self) -> list[tuple[dict[str, str], Mapping[str, Mapping[str, float]]]]:
        with self._lock:
            now = time.monotonic()
            if now - self._read_at >= _READ_AGAIN_S:
                consumers = [
                    consumer_of(one) if isinstance(one, ShareWorker) else one for one in tuple(self._consumers)
                ]
                self._read = [(labels_of(one), one.metrics()) for one in consumers if one is not None]
                self._read_at = now
            return self._read

    def _callback(self, metric: Metric) -> Callable[[CallbackOptions], Iterable[Observation]]:
        def observe(_: CallbackOptions) -> Iterable[Observation]:
            for labels, groups in self._readings():
                for group, values in groups.items():
                    name, dot, node = group.partition(".")
                    if name == metric.group and metric.name in values:
                        attributes = {**labels, "node_id": node} if dot else labels
                        yield Observation(values[metric.name], attributes)

        return observe
