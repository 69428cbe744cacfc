"""Metrics in the format of OpenTelemetry (OTLP, protobuf), as brokers take them from clients (KIP-714).

Called by the client core to push and by the reference broker to look at what arrived. The messages are those of the
package opentelemetry-proto, which is imported by the first call: it comes with the extra `metrics-push`, and without it
`encode` and `decode` raise ImportError.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import attrs

from kafka_share.errors import RemoteProtocolError

SCOPE: Final = "kafka_share"
_NS_PER_MS: Final = 1_000_000


@attrs.frozen
class Point:
    """One value of a metric. One that is `monotonic` is a total, or what it has grown by; others are gauges."""

    name: str
    value: float
    is_monotonic: bool = False
    attributes: Mapping[str, str] = attrs.field(factory=dict)


@attrs.frozen
class Batch:
    """What one push carries. Times are milliseconds since 1970; totals are counted from `began_at_ms` on."""

    points: tuple[Point, ...]
    began_at_ms: int
    at_ms: int
    is_delta: bool
    resource: Mapping[str, str] = attrs.field(factory=dict)


def _messages() -> Any:
    from opentelemetry.proto.metrics.v1 import metrics_pb2

    return metrics_pb2


def _attributes(message: Any, values: Mapping[str, str]) -> None:
    for key, value in values.items():
        message.attributes.add(key=key).value.string_value = value


def encode(batch: Batch) -> bytes:
    """A MetricsData message. Raises ImportError without opentelemetry-proto."""
    messages = _messages()
    data = messages.MetricsData()
    found = data.resource_metrics.add()
    _attributes(found.resource, batch.resource)
    scope = found.scope_metrics.add()
    scope.scope.name = SCOPE
    metrics: dict[str, Any] = {}
    for point in batch.points:
        metric = metrics.get(point.name)
        if metric is None:
            metric = metrics[point.name] = scope.metrics.add(name=point.name)
        if point.is_monotonic:
            metric.sum.is_monotonic = True
            metric.sum.aggregation_temporality = (
                messages.AGGREGATION_TEMPORALITY_DELTA
                if batch.is_delta
                else messages.AGGREGATION_TEMPORALITY_CUMULATIVE
            )
            value = metric.sum.data_points.add(as_double=point.value)
            value.start_time_unix_nano = batch.began_at_ms * _NS_PER_MS
        else:
            value = metric.gauge.data_points.add(as_double=point.value)
        value.time_unix_nano = batch.at_ms * _NS_PER_MS
        _attributes(value, point.attributes)
    encoded: bytes = data.SerializeToString()
    return encoded


def decode(data: bytes) -> Batch:
    """The opposite, for one resource. Raises `RemoteProtocolError` for anything else than a MetricsData message."""
    from google.protobuf.message import DecodeError

    messages = _messages()
    message = messages.MetricsData()
    try:
        message.ParseFromString(data)
    except DecodeError as error:
        raise RemoteProtocolError(f"pushed metrics are not OTLP: {error}") from None
    points: list[Point] = []
    began_at_ms = at_ms = 0
    is_delta = False
    resource: dict[str, str] = {}
    for found in message.resource_metrics:
        resource.update(_values(found.resource.attributes))
        for metric in (metric for scope in found.scope_metrics for metric in scope.metrics):
            is_sum = metric.WhichOneof("data") == "sum"
            is_delta = is_delta or metric.sum.aggregation_temporality == messages.AGGREGATION_TEMPORALITY_DELTA
            for value in metric.sum.data_points if is_sum else metric.gauge.data_points:
                at_ms = max(at_ms, value.time_unix_nano // _NS_PER_MS)
                began_at_ms = max(began_at_ms, value.start_time_unix_nano // _NS_PER_MS)
                number = value.as_double if value.WhichOneof("value") == "as_double" else float(value.as_int)
                points.append(Point(metric.name, number, is_sum, _values(value.attributes)))
    return Batch(tuple(points), began_at_ms, at_ms, is_delta, resource)


def _values(attributes: Iterable[Any]) -> dict[str, str]:
    return {attribute.key: attribute.value.string_value for attribute in attributes}
