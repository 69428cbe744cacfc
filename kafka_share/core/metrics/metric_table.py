"""The names of the metrics, and how each is read from `metrics.measurements`: Kafka's names, groups and meanings.

Read by the façade's `metrics()`, by the push to brokers (KIP-714), and by the test that compares the documentation.
Source: the groups and names of Apache Kafka's KafkaShareConsumer 4.3. A metric whose name ends with `-total` only
grows; all others go up and down.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias

import attrs

from kafka_share.core.metrics.measurements import BUCKETS_MS, Histogram, Measurements, Sampled, SampledTogether

Reader: TypeAlias = Callable[[Any, int], float]
"""(Measurements, or Traffic, AllTraffic or WorkerMeasurements where a metric is about these; now_ms) -> value"""

SHARE: Final = "consumer-share-metrics"
COORDINATOR: Final = "consumer-share-coordinator-metrics"
FETCH: Final = "consumer-share-fetch-manager-metrics"
GENERAL: Final = "consumer-metrics"
NODE: Final = "consumer-node-metrics"
WORKER: Final = "consumer-share-worker-metrics"
COUNT: Final = "kafka-metrics-count"

NEVER: Final = -1.0
"""Seconds since something that has not happened yet, as in Kafka's Java client."""


@attrs.frozen
class Metric:
    group: str
    name: str
    meaning: str
    read: Reader = attrs.field(repr=False)

    @property
    def is_total(self) -> bool:
        return self.name.endswith("-total")


PREFIX: Final = "org.apache.kafka."


def telemetry_name(metric: Metric) -> str:
    """The name in brokers' telemetry (KIP-714): the group without `-metrics` and the name, dots for dashes."""
    return f"{PREFIX}{metric.group.removesuffix('-metrics')}.{metric.name}".replace("-", ".")


@attrs.frozen
class Reading:
    """The value of a metric at one moment; `node_id` is set for those of the group consumer-node-metrics."""

    metric: Metric
    node_id: int | None
    value: float


# ---- readers


def _avg(field: str) -> Reader:
    return lambda source, now_ms: _series(source, field).avg(now_ms)


def _max(field: str) -> Reader:
    return lambda source, now_ms: _series(source, field).max(now_ms)


def _rate(field: str) -> Reader:
    """Of the values' sum, per second."""
    return lambda source, now_ms: _series(source, field).sum_rate(now_ms)


def _total(field: str) -> Reader:
    return lambda source, _: float(_series(source, field).sum)


def _often(field: str) -> Reader:
    """How many values per second."""
    return lambda source, now_ms: _series(source, field).count_rate(now_ms)


def _times(field: str) -> Reader:
    return lambda source, _: float(_series(source, field).count)


def _series(source: Any, field: str) -> Sampled | SampledTogether:
    found: Sampled | SampledTogether = getattr(source, field)
    return found


def _seconds_since(field: str) -> Reader:
    def read(source: Any, now_ms: int) -> float:
        at_ms: int | None = getattr(source, field)
        return NEVER if at_ms is None else max(0, now_ms - at_ms) / 1_000

    return read


def _now(field: str) -> Reader:
    """What a function says."""
    return lambda source, _: float(getattr(source, field)())


def _up_to(field: str, bound_ms: int) -> Reader:
    """How many values of a histogram are not above the bound."""

    def read(source: Any, _: int) -> float:
        histogram: Histogram = getattr(source, field)
        return float(histogram.up_to(bound_ms))

    return read


def _counted(field: str) -> Reader:
    """Of what a worker counts."""
    return lambda source, _: float(getattr(source.counts(), field))


def _longest_call(source: Any, now_ms: int) -> float:
    since_ms: int | None = source.running_since_ms()
    return 0.0 if since_ms is None else max(0, now_ms - since_ms)


def _all_nodes(read: Reader) -> Reader:
    return lambda source, now_ms: read(source.traffic, now_ms)


# ---- the tables

_TRAFFIC: Final[tuple[tuple[str, str, Reader], ...]] = (
    ("request-rate", "Requests sent per second.", _often("requests")),
    ("request-total", "Requests sent.", _times("requests")),
    ("request-size-avg", "Average size of a request, bytes.", _avg("requests")),
    ("request-size-max", "Largest request, bytes.", _max("requests")),
    ("outgoing-byte-rate", "Bytes sent per second.", _rate("requests")),
    ("outgoing-byte-total", "Bytes sent.", _total("requests")),
    ("response-rate", "Answers received per second.", _often("responses")),
    ("response-total", "Answers received.", _times("responses")),
    ("incoming-byte-rate", "Bytes received per second.", _rate("responses")),
    ("incoming-byte-total", "Bytes received.", _total("responses")),
)

METRICS: Final[tuple[Metric, ...]] = (
    Metric(SHARE, "last-poll-seconds-ago", "Seconds since the last poll began; -1 before the first.",
           _seconds_since("last_poll_at_ms")),
    Metric(SHARE, "time-between-poll-avg", "Average time between the beginnings of two polls, ms.", _avg("polls")),
    Metric(SHARE, "time-between-poll-max", "Longest such time, ms.", _max("polls")),
    Metric(SHARE, "poll-idle-ratio-avg", "Part of the time that the application spends inside poll, 0 to 1.",
           _avg("poll_idle_ratio")),
    Metric(SHARE, "application-event-queue-size", "Commands of the application that wait for the network thread.",
           _now("events_waiting")),
    Metric(SHARE, "application-event-queue-time-avg", "Average time that a command waits so, ms.",
           _avg("event_waits")),
    Metric(SHARE, "application-event-queue-time-max", "Longest such time, ms.", _max("event_waits")),
    Metric(SHARE, "application-event-queue-processing-time-avg",
           "Average time of a turn of the network thread with commands, ms.", _avg("event_processing")),
    Metric(SHARE, "application-event-queue-processing-time-max", "Longest such turn, ms.", _max("event_processing")),
    Metric(SHARE, "application-events-expired-count", "Commits whose time ran out.",
           lambda m, _: float(m.events_expired)),
    Metric(SHARE, "background-event-queue-size", "Results that wait for the application to take them.",
           _now("mail_waiting")),
    Metric(SHARE, "background-event-queue-time-avg", "Average time that the oldest of them waits, ms.",
           _avg("mail_waits")),
    Metric(SHARE, "background-event-queue-time-max", "Longest such time, ms.", _max("mail_waits")),
    Metric(SHARE, "time-between-network-thread-poll-avg", "Average time between two turns of the network thread, ms.",
           _avg("steps")),
    Metric(SHARE, "time-between-network-thread-poll-max", "Longest such time, ms.", _max("steps")),
    Metric(SHARE, "unsent-requests-queue-size", "Requests that wait for a connection.",
           lambda m, _: float(m.unsent_count)),
    Metric(SHARE, "unsent-requests-queue-time-avg", "Average time that a request waits for a connection, ms.",
           _avg("unsent_waits")),
    Metric(SHARE, "unsent-requests-queue-time-max", "Longest such time, ms.", _max("unsent_waits")),
    Metric(SHARE, "window-records", "Records of the open window that have no final acknowledgement.",
           _now("window_records")),
    Metric(SHARE, "held-records", "Records that wait for their release.", _now("held_records")),
    Metric(COORDINATOR, "heartbeat-rate", "Heartbeats answered per second.", _often("heartbeats")),
    Metric(COORDINATOR, "heartbeat-total", "Heartbeats answered.", _times("heartbeats")),
    Metric(COORDINATOR, "heartbeat-response-time-max", "Longest time until the answer to a heartbeat, ms.",
           _max("heartbeats")),
    Metric(COORDINATOR, "last-heartbeat-seconds-ago", "Seconds since a heartbeat was sent; -1 before the first.",
           _seconds_since("last_heartbeat_at_ms")),
    Metric(COORDINATOR, "rebalance-total", "New assignments taken over.", _times("rebalances")),
    Metric(COORDINATOR, "rebalance-rate-per-hour", "New assignments per hour.",
           lambda m, now_ms: m.rebalances.count_rate(now_ms) * 3_600),
    Metric(FETCH, "fetch-latency-avg", "Average time until the answer to a ShareFetch (not ShareAcknowledge), ms.",
           _avg("fetch_latency")),
    Metric(FETCH, "fetch-latency-max", "Longest such time, ms.", _max("fetch_latency")),
    Metric(FETCH, "fetch-rate", "ShareFetch requests answered per second.", _often("fetch_latency")),
    Metric(FETCH, "fetch-total", "ShareFetch requests answered.", _times("fetch_latency")),
    Metric(FETCH, "fetch-size-avg", "Average size of the records of an answer that acquired some, bytes.",
           _avg("fetch_bytes")),
    Metric(FETCH, "fetch-size-max", "Largest such size, bytes.", _max("fetch_bytes")),
    Metric(FETCH, "bytes-consumed-rate", "Bytes of records fetched per second.", _rate("fetch_bytes")),
    Metric(FETCH, "bytes-consumed-total", "Bytes of records fetched.", _total("fetch_bytes")),
    Metric(FETCH, "records-per-request-avg", "Average number of offsets acquired by an answer that acquired some.",
           _avg("fetch_records")),
    Metric(FETCH, "records-per-request-max", "Most offsets acquired by one answer.", _max("fetch_records")),
    Metric(FETCH, "records-consumed-rate", "Records that poll returned, per second.", _rate("consumed")),
    Metric(FETCH, "records-consumed-total", "Records that poll returned.", _total("consumed")),
    Metric(FETCH, "acknowledgements-send-rate", "Acknowledgements of records sent per second, gaps included.",
           _rate("acknowledgements_sent")),
    Metric(FETCH, "acknowledgements-send-total", "Acknowledgements of records sent.",
           _total("acknowledgements_sent")),
    Metric(FETCH, "acknowledgements-error-rate", "Acknowledgements of records that failed, per second.",
           _rate("acknowledgements_failed")),
    Metric(FETCH, "acknowledgements-error-total", "Acknowledgements of records that failed.",
           _total("acknowledgements_failed")),
    Metric(FETCH, "records-lost-rate", "Delivered records given up because their lock was lost, per second.",
           _rate("lost")),
    Metric(FETCH, "records-lost-total", "Delivered records given up because their lock was lost.", _total("lost")),
    Metric(FETCH, "fetch-throttle-time-avg", "Average time for which a broker's quota held a ShareFetch back, ms.",
           _avg("fetch_throttle")),
    Metric(FETCH, "fetch-throttle-time-max", "Longest such time, ms.", _max("fetch_throttle")),
    Metric(GENERAL, "connection-count", "Connections that are open and ready.",
           lambda m, _: float(m.connection_count)),
    Metric(GENERAL, "connection-creation-rate", "Connections opened per second.", _often("connections_made")),
    Metric(GENERAL, "connection-creation-total", "Connections opened.", _times("connections_made")),
    Metric(GENERAL, "connection-close-rate", "Connections closed per second.", _often("connections_closed")),
    Metric(GENERAL, "connection-close-total", "Connections closed.", _times("connections_closed")),
    Metric(GENERAL, "successful-authentication-rate", "SASL authentications that succeeded, per second.",
           _often("authentications")),
    Metric(GENERAL, "successful-authentication-total", "SASL authentications that succeeded.",
           _times("authentications")),
    Metric(GENERAL, "failed-authentication-rate", "Connections that could not be authenticated, per second.",
           _often("failed_authentications")),
    Metric(GENERAL, "failed-authentication-total", "Connections that could not be authenticated (SASL or TLS).",
           _times("failed_authentications")),
    Metric(GENERAL, "successful-reauthentication-rate", "Renewals of an authentication per second.",
           _often("reauthentications")),
    Metric(GENERAL, "successful-reauthentication-total", "Renewals of an authentication.",
           _times("reauthentications")),
    Metric(GENERAL, "failed-reauthentication-rate", "Renewals that failed, per second.",
           _often("failed_reauthentications")),
    Metric(GENERAL, "failed-reauthentication-total", "Renewals that failed.", _times("failed_reauthentications")),
    Metric(GENERAL, "reauthentication-latency-avg", "Average time of a renewal, ms.", _avg("reauthentications")),
    Metric(GENERAL, "reauthentication-latency-max", "Longest renewal, ms.", _max("reauthentications")),
    *(Metric(GENERAL, name, meaning, _all_nodes(read)) for name, meaning, read in _TRAFFIC),
)  # fmt: skip
"""The metrics of a client as a whole."""

NODE_METRICS: Final[tuple[Metric, ...]] = (
    *(Metric(NODE, name, meaning, read) for name, meaning, read in _TRAFFIC),
    Metric(NODE, "request-latency-avg", "Average time until the answer to a request, ms.", _avg("latency")),
    Metric(NODE, "request-latency-max", "Longest such time, ms.", _max("latency")),
)
"""The metrics of each node; a bootstrap address has a negative id."""

WORKER_METRICS: Final[tuple[Metric, ...]] = (
    Metric(WORKER, "records-ready", "Records that wait for their turn.", _now("ready")),
    Metric(WORKER, "records-running", "Records whose handlers run.", _now("running")),
    Metric(WORKER, "records-waiting", "Records that wait to be tried again.", _now("waiting")),
    Metric(WORKER, "records-producing", "Records whose copy is being written to another topic.", _now("producing")),
    Metric(WORKER, "handler-time-avg", "Average time of a call of the handler, ms.", _avg("handler_times")),
    Metric(WORKER, "handler-time-max", "Longest call that has ended, ms.", _max("handler_times")),
    Metric(WORKER, "handler-running-max", "How long the longest call that has not ended takes so far, ms.",
           _longest_call),
    Metric(WORKER, "handler-calls-rate", "Calls of the handler that ended, per second.", _often("handler_times")),
    Metric(WORKER, "handler-calls-total", "Calls of the handler that ended.", _times("handler_times")),
    Metric(WORKER, "handler-time-total", "Time of all of them, ms.", _total("handler_times")),
    Metric(WORKER, "lock-age-avg", "Average time from the receipt of a record to the end of a call with it, ms.",
           _avg("lock_ages")),
    Metric(WORKER, "lock-age-max", "Longest such time, ms.", _max("lock_ages")),
    *(Metric(WORKER, f"handler-time-le-{bound_ms}-ms-total", f"Calls that took {bound_ms} ms or less.",
             _up_to("handler_time_buckets", bound_ms)) for bound_ms in BUCKETS_MS),
    *(Metric(WORKER, f"lock-age-le-{bound_ms}-ms-total", f"Calls that ended {bound_ms} ms or less after the receipt.",
             _up_to("lock_age_buckets", bound_ms)) for bound_ms in BUCKETS_MS),
    Metric(WORKER, "received-total", "Records delivered to the worker.", _counted("received")),
    Metric(WORKER, "redelivered-total", "Of these, on their second or a later delivery.", _counted("redelivered")),
    Metric(WORKER, "accepted-total", "Records accepted.", _counted("accepted")),
    Metric(WORKER, "released-total", "Records released.", _counted("released")),
    Metric(WORKER, "rejected-total", "Records rejected.", _counted("rejected")),
    Metric(WORKER, "dead-lettered-total", "Records accepted after a copy was written to a dead-letter topic.",
           _counted("dead_lettered")),
    Metric(WORKER, "deferred-total", "Records accepted after a copy was written to a retry topic.",
           _counted("deferred")),
    Metric(WORKER, "failed-total", "How often a handler raised, or a value could not be deserialized.",
           _counted("failed")),
    Metric(WORKER, "retried-total", "How often a handler was to be called again under the same lock.",
           _counted("retried")),
    Metric(WORKER, "lost-total", "Records whose lock was lost before they were settled.", _counted("lost")),
    Metric(WORKER, "late-total", "Records whose handler succeeded after the lock was lost.", _counted("late")),
    Metric(WORKER, "unknown-total", "Acknowledgements that failed, or whose outcome is not known.",
           _counted("unknown")),
)  # fmt: skip
"""The metrics of a worker; a client without one has none of them."""


def readings(measurements: Measurements, now_ms: int) -> Iterator[Reading]:
    """All metrics as they are now."""
    measurements.settle(now_ms)
    for metric in METRICS:
        yield Reading(metric, None, metric.read(measurements, now_ms))
    for node_id, traffic in tuple(measurements.nodes.items()):
        for metric in NODE_METRICS:
            yield Reading(metric, node_id, metric.read(traffic, now_ms))
    if measurements.worker is not None:
        for metric in WORKER_METRICS:
            yield Reading(metric, None, metric.read(measurements.worker, now_ms))


def as_mapping(measurements: Measurements, now_ms: int) -> dict[str, dict[str, float]]:
    """Group → name → value. A node's group is `consumer-node-metrics.node-<id>`."""
    groups: dict[str, dict[str, float]] = {}
    for reading in readings(measurements, now_ms):
        group = reading.metric.group
        if reading.node_id is not None:
            group = f"{group}.node-{reading.node_id}"
        groups.setdefault(group, {})[reading.metric.name] = reading.value
    groups[COUNT] = {"count": float(1 + sum(map(len, groups.values())))}
    return groups
