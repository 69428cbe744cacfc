"""Windows of samples, and what a consumer's polls, fetches, heartbeats and acknowledgements leave in the metrics."""

from __future__ import annotations

import math
from typing import Any

import pytest
from core.scripted_cluster import Harness, fetch_answer, fetch_data, heartbeat_answer, runs, tp
from hypothesis import given
from hypothesis import strategies as st

from kafka_share.core.events import CommitRequested, GatheredAcknowledgements, PollStarted, SubscriptionChanged
from kafka_share.core.metrics.measurements import MAX_NODES, Measurements, Sampled
from kafka_share.core.metrics.metric_table import METRICS, NODE_METRICS, as_mapping, readings, telemetry_name
from kafka_share.protocol.share_acknowledge import ShareAcknowledgeRequest
from kafka_share.protocol.share_fetch import ShareFetchRequest

WINDOW_MS = 1_000
FETCH = "consumer-share-fetch-manager-metrics"
COORDINATOR = "consumer-share-coordinator-metrics"
SHARE = "consumer-share-metrics"


def sampled(*values: tuple[float, int], num_samples: int = 2) -> Sampled:
    series = Sampled(num_samples, WINDOW_MS)
    for value, at_ms in values:
        series.record(value, at_ms)
    return series


# ---- windows


def test_every_answer_is_zero_when_nothing_was_recorded() -> None:
    """A series without values has average, maximum and rates of 0, and never divides by zero."""
    series = sampled()
    assert (series.avg(5), series.max(5), series.sum_rate(5), series.count_rate(5), series.sum, series.count) == (
        0,
    ) * 6


def test_average_and_maximum_are_of_all_living_windows() -> None:
    """Values of the present and the previous window count together."""
    series = sampled((1, 0), (3, 10), (8, 1_200))
    assert series.avg(1_300) == 4
    assert series.max(1_300) == 8


def test_values_are_forgotten_when_their_windows_have_passed() -> None:
    """After as many windows as there are samples a value counts in the totals only."""
    series = sampled((7, 0))
    assert series.max(1_999) == 7
    assert (series.max(2_000), series.avg(2_000), series.count_rate(2_000)) == (0, 0, 0)
    assert (series.sum, series.count) == (7, 1)


def test_rate_takes_windows_not_lived_through_as_empty() -> None:
    """One event right after the start is not a burst: it is spread over all windows but the present one."""
    series = sampled((6, 0))
    assert series.sum_rate(0) == 6
    assert series.sum_rate(500) == 6 / 1.5
    assert sampled((6, 0), num_samples=1).sum_rate(0) == 6


def test_rate_is_the_sum_over_the_time_since_the_oldest_window() -> None:
    """Over two full windows the rate is what was recorded per second of them."""
    series = sampled((10, 0), (20, 1_000))
    assert series.sum_rate(1_500) == 30 / 1.5
    assert series.count_rate(1_500) == 2 / 1.5


@given(
    st.lists(st.tuples(st.integers(0, 10**9), st.integers(0, 3_000)), max_size=60),
    st.integers(1, 4),
    st.integers(0, 10_000),
)
def test_windows_answer_like_a_list_of_all_values(
    steps: list[tuple[int, int]], num_samples: int, later_ms: int
) -> None:
    """Whatever is recorded when: totals are exact, nothing is NaN, and only recent values make average and maximum."""
    series = Sampled(num_samples, WINDOW_MS)
    now_ms = 0
    values: list[tuple[int, int]] = []
    for value, pause_ms in steps:
        now_ms += pause_ms
        series.record(value, now_ms)
        values.append((value, now_ms))
    now_ms += later_ms
    span_ms = num_samples * WINDOW_MS
    recent = [value for value, at_ms in values if now_ms - at_ms < span_ms]
    certain = [value for value, at_ms in values if now_ms - at_ms < span_ms - WINDOW_MS]
    assert series.count == len(values)
    assert series.sum == sum(value for value, _ in values)
    assert max(certain, default=0) <= series.max(now_ms) <= max(recent, default=0)
    assert min(recent, default=0) <= series.avg(now_ms) <= max(recent, default=0) or not certain
    for answer in (series.avg(now_ms), series.sum_rate(now_ms), series.count_rate(now_ms)):
        assert math.isfinite(answer)
        assert answer >= 0


# ---- the table


@pytest.mark.behaviour("metrics")
def test_no_metric_is_nan_when_nothing_has_happened() -> None:
    """A consumer that has done nothing answers 0 for every metric, and -1 for seconds since what never happened."""
    values = [reading.value for reading in readings(Measurements(), 0)]
    assert sorted(set(values)) == [-1.0, 0.0]
    groups = as_mapping(Measurements(), 0)
    assert groups[SHARE]["last-poll-seconds-ago"] == groups[COORDINATOR]["last-heartbeat-seconds-ago"] == -1


def test_names_are_unique_and_the_count_is_right() -> None:
    """No metric hides another one, and kafka-metrics-count counts itself too, as in Java."""
    measurements = Measurements()
    measurements.request_sent(1, 10, 0)
    groups = as_mapping(measurements, 0)
    assert len({(m.group, m.name) for m in (*METRICS, *NODE_METRICS)}) == len(METRICS) + len(NODE_METRICS)
    assert groups["kafka-metrics-count"]["count"] == sum(map(len, groups.values()))
    assert len(groups["consumer-node-metrics.node-1"]) == len(NODE_METRICS)


def test_telemetry_name_has_dots_for_dashes_and_no_word_metrics() -> None:
    """Brokers know a metric by its group without the last word and its name, joined by dots."""
    names = [telemetry_name(metric) for metric in METRICS]
    assert "org.apache.kafka.consumer.share.fetch.manager.fetch.latency.avg" in names
    assert "org.apache.kafka.consumer.share.poll.idle.ratio.avg" in names


def test_nodes_are_counted_in_the_sums_only_when_there_are_too_many() -> None:
    """The table of nodes is bounded; requests to further nodes count in the sums of the client."""
    measurements = Measurements()
    for node_id in range(MAX_NODES + 5):
        measurements.request_sent(node_id, 1, 0)
        measurements.response_received(node_id, 2, 0.5, 0)
    assert len(measurements.nodes) == MAX_NODES
    assert measurements.traffic.requests.count == MAX_NODES + 5
    assert measurements.traffic.responses.sum == 2 * (MAX_NODES + 5)


def test_the_numbers_of_all_nodes_are_those_of_each_together() -> None:
    """Sums, counts and rates add up, the highest is of all, and an average counts each request once."""
    measurements = Measurements(num_samples=2, window_ms=WINDOW_MS)
    for node_id, size, at_ms in ((1, 10, 0), (1, 20, 500), (2, 90, 1_500), (1, 40, 1_600)):
        measurements.request_sent(node_id, size, at_ms)
    of_all, nodes = measurements.traffic.requests, [node.requests for node in measurements.nodes.values()]
    assert (of_all.sum, of_all.count, of_all.max(1_700), of_all.avg(1_700)) == (160, 4, 90, 40)
    assert of_all.sum_rate(1_700) == sum(node.sum_rate(1_700) for node in nodes) > 0
    assert of_all.count_rate(1_700) == sum(node.count_rate(1_700) for node in nodes) > 0
    assert (of_all.max(60_000), of_all.sum_rate(60_000), of_all.sum) == (0, 0, 160)


# ---- polls


def test_idle_ratio_is_the_part_of_the_time_inside_poll() -> None:
    """Three seconds inside poll after one second of work are 75 %; polls without a duration say nothing."""
    measurements = Measurements()
    measurements.poll_started(0)
    measurements.poll_ended(0, 0)
    assert measurements.poll_idle_ratio.count == 0
    measurements.poll_started(1_000)
    measurements.poll_ended(5, 4_000)
    assert measurements.poll_idle_ratio.avg(4_000) == 0.75
    values = as_mapping(measurements, 6_000)
    assert values[SHARE]["last-poll-seconds-ago"] == 5
    assert values[SHARE]["time-between-poll-max"] == 1_000
    assert values[FETCH]["records-consumed-total"] == 5


# ---- the core


def polling(**settings: Any) -> Harness:
    """A member with partition 0 of t on node 1 and a fetch under way."""
    harness = Harness(**settings)
    harness.heartbeat = lambda request: heartbeat_answer(1, [tp()])
    harness.handle(SubscriptionChanged(frozenset({"t"})), PollStarted(harness.now_ms + 60_000))
    harness.advance(100)
    return harness


def metrics_of(harness: Harness) -> dict[str, dict[str, float]]:
    return as_mapping(harness.core.measurements, harness.now_ms)


@pytest.mark.behaviour("metrics")
def test_fetches_are_measured_when_they_are_answered() -> None:
    """The metrics have number, time and throttling of fetches, and the size of those that acquired something."""
    harness = polling()
    (send,) = harness.asked(ShareFetchRequest)
    sent_ms = next(at_ms for at_ms, sent in harness.sent if sent is send)
    harness.advance(40)
    harness.answer(send, fetch_answer(fetch_data(tp(), (0, 9, 1)), throttle_ms=7))
    found = metrics_of(harness)[FETCH]
    latency_ms = harness.now_ms - sent_ms
    assert latency_ms >= 40
    assert (found["fetch-total"], found["fetch-latency-avg"], found["fetch-latency-max"]) == (1, latency_ms, latency_ms)
    assert (found["fetch-throttle-time-avg"], found["fetch-throttle-time-max"]) == (7, 7)
    assert (found["fetch-size-avg"], found["bytes-consumed-total"]) == (len(b"records"), len(b"records"))
    assert (found["records-per-request-avg"], found["records-per-request-max"]) == (10, 10)
    assert found["fetch-rate"] > 0
    assert found["bytes-consumed-rate"] > 0


@pytest.mark.behaviour("metrics")
def test_acknowledging_is_no_fetch_when_times_are_measured() -> None:
    """A ShareAcknowledge counts in the acknowledgements that were sent, not in number and time of the fetches."""
    harness = polling()
    (send,) = harness.asked(ShareFetchRequest)
    harness.answer(send, fetch_answer(fetch_data(tp(), (0, 9, 1))))
    before = metrics_of(harness)[FETCH]
    said = GatheredAcknowledgements(tp(), 1, harness.delivered[0].partitions[0].session_id, runs((0, 7, 1), (8, 9, 0)))
    harness.handle(CommitRequested(1, (said,), harness.now_ms + 5_000, True))
    (send,) = harness.asked(ShareAcknowledgeRequest)
    harness.advance(3_000)
    after = metrics_of(harness)[FETCH]
    assert after["acknowledgements-send-total"] == 10
    assert after["acknowledgements-error-total"] == 0
    assert [after[name] for name in ("fetch-total", "fetch-latency-max")] == [
        before[name] for name in ("fetch-total", "fetch-latency-max")
    ]


@pytest.mark.behaviour("metrics")
def test_failed_acknowledgements_are_counted_and_logged() -> None:
    """Records whose acknowledgement was refused count one by one; the log names the partition and the error."""
    harness = polling()
    (send,) = harness.asked(ShareFetchRequest)
    harness.answer(send, fetch_answer(fetch_data(tp(), (0, 4, 1))))
    said = GatheredAcknowledgements(tp(), 1, harness.delivered[0].partitions[0].session_id, runs((0, 4, 1)))
    harness.handle(PollStarted(harness.now_ms + 60_000, (said,)))
    (send,) = harness.asked(ShareFetchRequest)
    harness.answer(send, fetch_answer(fetch_data(tp(), acknowledge_error=121)))
    found = metrics_of(harness)[FETCH]
    assert (found["acknowledgements-send-total"], found["acknowledgements-error-total"]) == (5, 5)
    assert found["acknowledgements-error-rate"] > 0
    (log,) = [log for log in harness.logs if log.event == "acknowledgement-failed"]
    assert (log.fields["topic"], log.fields["partition"], log.fields["records"]) == ("t", 0, 5)
    assert "INVALID_RECORD_STATE" in str(log.fields["error"])


@pytest.mark.behaviour("metrics")
def test_heartbeats_and_assignments_are_measured() -> None:
    """Heartbeats count with their time, new assignments as rebalances; the seconds since the last one run."""
    harness = polling()
    found = metrics_of(harness)[COORDINATOR]
    assert found["heartbeat-total"] >= 2
    assert found["heartbeat-rate"] > 0
    assert found["rebalance-total"] == 1
    assert found["rebalance-rate-per-hour"] == pytest.approx(3_600 / 30, rel=0.01)
    harness.heartbeat = None
    harness.advance(10_000)
    assert metrics_of(harness)[COORDINATOR]["last-heartbeat-seconds-ago"] >= 9


def test_expired_commits_are_counted() -> None:
    """A commit that gets no answer in time counts as an expired event."""
    harness = polling()
    (send,) = harness.asked(ShareFetchRequest)
    harness.answer(send, fetch_answer(fetch_data(tp(), (0, 4, 1))))
    said = GatheredAcknowledgements(tp(), 1, harness.delivered[0].partitions[0].session_id, runs((0, 4, 1)))
    harness.handle(CommitRequested(1, (said,), harness.now_ms + 500, True))
    harness.advance(1_000)
    assert metrics_of(harness)[SHARE]["application-events-expired-count"] == 1
