"""The push of metrics to brokers: what is asked and sent when, and what each answer leads to."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from core.scripted_cluster import Harness, heartbeat_answer

from kafka_share.core.events import ClientInstanceIdWanted, CloseRequested, Send
from kafka_share.core.metrics.metric_table import METRICS, telemetry_name
from kafka_share.core.metrics.telemetry import DEFAULT_INTERVAL_MS, LAST_PUSH_LIMIT_MS, State
from kafka_share.errors import UnsupportedVersionError
from kafka_share.protocol import otlp
from kafka_share.protocol.compression import decompress
from kafka_share.protocol.otlp import Batch
from kafka_share.protocol.record_format import CODEC_NAMES
from kafka_share.protocol.telemetry import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
    PushTelemetryRequest,
    PushTelemetryResponse,
)

ME = UUID(int=77)
INTERVAL_MS = 10_000
THROTTLED, UNSUPPORTED_CODEC, UNKNOWN_SUBSCRIPTION, TOO_LARGE, INVALID_RECORD = 89, 76, 117, 118, 87
CONNECTIONS = "org.apache.kafka.consumer.connection.creation.total"
HEARTBEATS = "org.apache.kafka.consumer.share.coordinator.heartbeat.total"


def subscription(*prefixes: str, **fields: Any) -> GetTelemetrySubscriptionsResponse:
    values: dict[str, Any] = {
        "throttle_time_ms": 0,
        "error_code": 0,
        "client_instance_id": ME,
        "subscription_id": 5,
        "accepted_compression_types": [4, 1],
        "push_interval_ms": INTERVAL_MS,
        "telemetry_max_bytes": 1_000_000,
        "delta_temporality": False,
        "requested_metrics": list(prefixes),
    }
    return GetTelemetrySubscriptionsResponse(**{**values, **fields})


def pushed(error: int = 0) -> PushTelemetryResponse:
    return PushTelemetryResponse(throttle_time_ms=0, error_code=error)


def started(**settings: Any) -> Harness:
    """A member that polls, with the push switched on."""
    harness = Harness(enable_metrics_push=True, max_poll_interval_ms=10**9, **settings)
    harness.joined(timeout_ms=10**9)
    return harness


def question(harness: Harness) -> Send:
    return harness.only(GetTelemetrySubscriptionsRequest)


def push(harness: Harness) -> Send:
    return harness.only(PushTelemetryRequest)


def pushing(*prefixes: str, **fields: Any) -> Harness:
    """The same, after the first question was answered and the first push was sent."""
    harness = started()
    harness.answer(question(harness), subscription(*(prefixes or ("",)), **fields))
    harness.advance(15_000)
    return harness


def content(send: Send) -> Batch:
    request = send.request
    return otlp.decode(decompress(CODEC_NAMES[request.compression_type], request.metrics))


def values(send: Send) -> dict[str, float]:
    return {point.name: point.value for point in content(send).points if not point.attributes}


# ---- asking


def test_nothing_is_asked_when_the_push_is_off() -> None:
    """Without enable_metrics_push neither of the two requests is ever sent."""
    harness = Harness()
    harness.joined()
    harness.advance(1_000_000)
    assert harness.sent_of(GetTelemetrySubscriptionsRequest) == []


def test_first_question_has_no_id_and_goes_to_a_known_broker() -> None:
    """The id is all zero until a broker gives one; nothing is asked before the first poll."""
    harness = Harness(enable_metrics_push=True)
    harness.advance(1_000)
    assert harness.sent == []
    harness.joined()
    send = question(harness)
    assert send.request.client_instance_id == UUID(int=0)
    assert send.node.id == 1


def test_id_is_asked_for_at_once_when_the_application_wants_it() -> None:
    """The application's question goes to a bootstrap address, even if nothing has been polled."""
    harness = Harness(enable_metrics_push=True)
    harness.handle(ClientInstanceIdWanted())
    assert question(harness).node.id == -1
    harness.answer(question(harness), subscription())
    assert harness.instance_ids == [ME]


def test_it_ends_when_the_broker_does_not_offer_the_api() -> None:
    """A broker without a receiver of metrics is not asked again, and the id is told to be none."""
    harness = started()
    harness.fail(question(harness), UnsupportedVersionError("not offered"))
    harness.advance(1_000_000)
    assert len(harness.sent_of(GetTelemetrySubscriptionsRequest)) == 1
    assert harness.instance_ids == [None]
    assert harness.errors == []
    harness.handle(ClientInstanceIdWanted())
    assert harness.instance_ids == [None, None]


def test_it_is_asked_again_after_the_interval_when_nothing_is_wanted() -> None:
    """An empty list of metrics means no push; the next question names the id that was given."""
    harness = started()
    harness.answer(question(harness), subscription())
    harness.advance(INTERVAL_MS - 1)
    assert harness.asked(GetTelemetrySubscriptionsRequest) == []
    harness.advance(1)
    assert question(harness).request.client_instance_id == ME


def test_default_interval_is_taken_when_the_broker_names_none() -> None:
    """An interval of 0 would be a hot loop."""
    harness = started()
    harness.answer(question(harness), subscription(push_interval_ms=0))
    harness.advance(DEFAULT_INTERVAL_MS - 1)
    assert harness.asked(GetTelemetrySubscriptionsRequest) == []
    harness.advance(1)
    question(harness)


def test_question_is_repeated_with_back_off_when_the_connection_breaks() -> None:
    """A lost answer is no error of poll, and the next question comes after a second or so."""
    harness = started()
    harness.fail(question(harness))
    assert harness.asked(GetTelemetrySubscriptionsRequest) == []
    harness.advance(1_300)
    question(harness)
    assert harness.errors == []


def test_question_waits_until_a_broker_can_be_asked() -> None:
    """While every broker is in its back-off nothing is asked, and nobody looks all the time."""
    harness = started()
    push_machine, now_ms = harness.core._telemetry, harness.now_ms
    harness.fail(question(harness))
    harness.core._requests.ready_at_ms = lambda node_id, channel: now_ms + 60_000  # type: ignore[method-assign]
    push_machine.poll(now_ms + 2_000)
    assert push_machine.wake_at_ms() == now_ms + 60_000
    push_machine.poll(now_ms + 60_000)
    assert push_machine.wake_at_ms() is None
    assert push_machine.state is State.ASKING


@pytest.mark.parametrize(("code", "asks_again"), [(THROTTLED, True), (42, False)])
def test_question_is_repeated_after_the_interval_only_when_its_error_may_pass(code: int, asks_again: bool) -> None:
    """A question that was refused for now comes again; one that is wrong does not."""
    harness = started()
    harness.answer(question(harness), subscription("", error_code=code))
    harness.advance(DEFAULT_INTERVAL_MS)
    assert bool(harness.asked(GetTelemetrySubscriptionsRequest)) == asks_again
    assert harness.errors == []


def test_it_ends_when_the_broker_gives_no_id() -> None:
    """A client without an id cannot push."""
    harness = started()
    harness.answer(question(harness), subscription("", client_instance_id=None))
    harness.advance(1_000_000)
    assert len(harness.sent_of(GetTelemetrySubscriptionsRequest)) == 1
    assert harness.instance_ids == [None]


# ---- pushing


def test_first_push_comes_after_half_to_one_and_a_half_intervals() -> None:
    """Clients that were started together do not push together; later pushes keep to the interval."""
    harness = started()
    harness.answer(question(harness), subscription(""))
    harness.advance(INTERVAL_MS // 2 - 1)
    assert harness.asked(PushTelemetryRequest) == []
    harness.advance(INTERVAL_MS + 1)
    harness.answer(push(harness), pushed())
    harness.advance(INTERVAL_MS - 1)
    assert harness.asked(PushTelemetryRequest) == []
    harness.advance(1)
    push(harness)


@pytest.mark.behaviour("metrics")
def test_push_has_the_metrics_whose_names_begin_as_asked() -> None:
    """Only the metrics that a broker subscribed to are pushed, compressed with the codec that it prefers."""
    harness = pushing("org.apache.kafka.consumer.share.coordinator.")
    request = push(harness).request
    assert (request.client_instance_id, request.subscription_id, request.terminating) == (ME, 5, False)
    assert CODEC_NAMES[request.compression_type] == "zstd"
    found = values(push(harness))
    assert len(found) == 6
    assert all(name.startswith("org.apache.kafka.consumer.share.coordinator.") for name in found)
    assert found[HEARTBEATS] >= 2
    assert content(push(harness)).resource["group_id"] == "g"


@pytest.mark.parametrize("everything", ["", "*"])
def test_all_metrics_are_pushed_when_the_broker_wants_everything(everything: str) -> None:
    """Brokers write "everything" as an empty beginning or as a star; nodes are told apart by an attribute."""
    found = content(push(pushing(everything)))
    assert {point.name for point in found.points} == {telemetry_name(metric) for metric in METRICS}
    assert {"node_id": "node-1"} in [point.attributes for point in found.points] or not any(
        point.attributes for point in found.points
    )


def test_push_is_not_compressed_when_no_codec_is_accepted() -> None:
    """An empty list of codecs, or unknown ones, mean bytes as they are."""
    assert push(pushing(accepted_compression_types=[])).request.compression_type == 0
    assert push(pushing(accepted_compression_types=[9, -1])).request.compression_type == 0


def connect(harness: Harness, times: int) -> None:
    for _ in range(times):
        harness.core.measurements.connection_opened(harness.now_ms)


def test_totals_are_differences_when_the_broker_wants_them() -> None:
    """With delta temporality each push has what was added since the last one that the broker took."""
    harness = pushing(CONNECTIONS, delta_temporality=True)
    assert content(push(harness)).is_delta
    assert values(push(harness)) == {CONNECTIONS: 0}
    before = content(push(harness))
    harness.answer(push(harness), pushed())
    for times in (5, 0, 2):
        connect(harness, times)
        harness.advance(INTERVAL_MS)
        assert values(push(harness)) == {CONNECTIONS: times}
        assert content(push(harness)).began_at_ms == before.at_ms
        before = content(push(harness))
        harness.answer(push(harness), pushed())


def test_difference_is_kept_when_a_push_was_refused() -> None:
    """What a broker did not take is part of the next push."""
    harness = started()
    connect(harness, 3)
    harness.answer(question(harness), subscription(CONNECTIONS, delta_temporality=True))
    harness.advance(15_000)
    assert values(push(harness)) == {CONNECTIONS: 3}
    harness.answer(push(harness), pushed(UNKNOWN_SUBSCRIPTION))
    connect(harness, 4)
    harness.answer(question(harness), subscription(CONNECTIONS, delta_temporality=True, subscription_id=6))
    harness.advance(15_000)
    assert values(push(harness)) == {CONNECTIONS: 7}


def test_totals_are_whole_when_the_broker_wants_them_cumulative() -> None:
    """With cumulative temporality each push counts from the beginning."""
    harness = pushing(CONNECTIONS)
    for whole in (3, 6):
        connect(harness, 3)
        harness.answer(push(harness), pushed())
        harness.advance(INTERVAL_MS)
        assert values(push(harness)) == {CONNECTIONS: whole}
        assert not content(push(harness)).is_delta


def test_metrics_of_single_nodes_are_left_out_when_a_push_would_be_too_large() -> None:
    """A push that is too large goes without the nodes' metrics; one that still is waits, with one warning."""
    harness = started()
    for node_id in range(50):
        harness.core.measurements.request_sent(node_id, 10, harness.now_ms)
    harness.answer(question(harness), subscription("", accepted_compression_types=[], telemetry_max_bytes=20_000))
    harness.advance(15_000)
    assert not any(point.attributes for point in content(push(harness)).points)
    assert len(push(harness).request.metrics) <= 20_000
    small = pushing(telemetry_max_bytes=10)
    small.advance(5 * INTERVAL_MS)
    assert small.sent_of(PushTelemetryRequest) == []
    assert [log.event for log in small.logs].count("telemetry-too-large") == 1


def test_metrics_of_the_application_are_pushed_when_they_are_asked_for() -> None:
    """A registered function is called for each push; one that raises is left out and logged once."""
    harness = started()
    own = harness.core.measurements.application_metrics
    own["org.example.backlog"] = lambda: 3
    own["org.example.broken"] = lambda: 1 / 0
    own["org.example.unknown"] = lambda: float("nan")
    own["com.example.other"] = lambda: 4
    harness.answer(question(harness), subscription("org.example."))
    harness.advance(15_000)
    assert values(push(harness)) == {"org.example.backlog": 3}
    harness.answer(push(harness), pushed())
    harness.advance(INTERVAL_MS)
    (log,) = [log for log in harness.logs if log.event == "application-metric-failed"]
    assert log.fields["metric"] == "org.example.broken"


def test_one_warning_tells_what_to_install_when_the_encoder_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without opentelemetry-proto a consumer that is asked for metrics says so once and pushes nothing."""

    def missing(batch: Batch) -> bytes:
        raise ImportError("No module named 'opentelemetry'")

    monkeypatch.setattr("kafka_share.core.metrics.telemetry.otlp.encode", missing)
    harness = pushing()
    harness.advance(100 * INTERVAL_MS)
    assert harness.sent_of(PushTelemetryRequest) == []
    (log,) = [log for log in harness.logs if log.event == "telemetry-unavailable"]
    assert "kafka-share[metrics-push]" in str(log.fields["error"])


def test_the_rack_is_named_when_the_client_has_one() -> None:
    """Metrics carry the client's rack, its group and its member id."""
    harness = started(client_rack="r1")
    harness.answer(question(harness), subscription(""))
    harness.advance(15_000)
    resource = content(push(harness)).resource
    assert resource["client_rack"] == "r1"
    assert set(resource) == {"client_rack", "group_id", "group_member_id"}


def test_a_subscription_is_logged_once_when_the_broker_names_it_again() -> None:
    """The same subscription id with another temporality begins new differences, and no new line."""
    harness = started()
    connect(harness, 3)
    harness.answer(question(harness), subscription(CONNECTIONS, delta_temporality=True))
    harness.advance(15_000)
    harness.answer(push(harness), pushed(UNKNOWN_SUBSCRIPTION))
    harness.answer(question(harness), subscription(CONNECTIONS, delta_temporality=False))
    harness.advance(15_000)
    assert values(push(harness)) == {CONNECTIONS: 3}
    assert [log.event for log in harness.logs].count("telemetry-subscribed") == 1


# ---- refusals


@pytest.mark.parametrize("code", [UNKNOWN_SUBSCRIPTION, UNSUPPORTED_CODEC])
def test_it_is_asked_anew_at_once_when_the_subscription_has_changed(code: int) -> None:
    """A refused subscription id or codec leads to a new question; a second one in a row waits for the interval."""
    harness = pushing()
    harness.answer(push(harness), pushed(code))
    harness.answer(question(harness), subscription("", subscription_id=6))
    harness.advance(15_000)
    assert push(harness).request.subscription_id == 6
    harness.answer(push(harness), pushed(code))
    assert harness.asked(GetTelemetrySubscriptionsRequest) == []
    harness.advance(INTERVAL_MS)
    question(harness)


@pytest.mark.parametrize("code", [0, UNKNOWN_SUBSCRIPTION, THROTTLED, TOO_LARGE])
def test_a_broker_gets_no_torrent_when_it_asks_for_one(code: int) -> None:
    """Kafka allows no interval below 100 ms; after an error a second passes."""
    harness = pushing("", push_interval_ms=1)
    sent = 0
    for _ in range(2_000):
        for send in harness.asked(PushTelemetryRequest):
            sent += 1
            harness.answer(send, pushed(code))
        for send in harness.asked(GetTelemetrySubscriptionsRequest):
            sent += 1
            harness.answer(send, subscription("", push_interval_ms=1))
        harness.advance(5)
    assert sent <= (101 if code == 0 else 50)


@pytest.mark.parametrize("code", [THROTTLED, TOO_LARGE])
def test_it_is_asked_anew_after_the_interval_when_a_push_was_too_much(code: int) -> None:
    """Throttled and oversized pushes wait for an interval, and nothing is raised."""
    harness = pushing()
    harness.answer(push(harness), pushed(code))
    harness.advance(INTERVAL_MS - 1)
    assert harness.asked(GetTelemetrySubscriptionsRequest) == []
    harness.advance(1)
    question(harness)
    assert harness.errors == []


@pytest.mark.parametrize("code", [42, INVALID_RECORD, 31])
def test_it_ends_when_an_error_will_not_pass(code: int) -> None:
    """An invalid request or record, and missing rights, end the push; the consumer goes on."""
    harness = pushing()
    harness.answer(push(harness), pushed(code))
    harness.advance(1_000_000)
    assert len(harness.sent_of(PushTelemetryRequest)) == 1
    assert len(harness.sent_of(GetTelemetrySubscriptionsRequest)) == 1
    assert harness.errors == []


# ---- the end


def closing(harness: Harness, timeout_ms: int = 30_000) -> Harness:
    harness.heartbeat = lambda request: heartbeat_answer(max(1, request.member_epoch))
    harness.handle(CloseRequested((), harness.now_ms + timeout_ms))
    return harness


def test_last_push_says_so_when_the_consumer_closes() -> None:
    """Closing sends one more push, marked as the last, and ends when it is answered."""
    harness = pushing()
    harness.answer(push(harness), pushed())
    for send in harness.data_pending:
        harness.fail(send)
    closing(harness)
    assert push(harness).request.terminating
    assert not harness.is_finished
    harness.answer(push(harness), pushed())
    assert harness.is_finished


def test_last_push_is_sent_when_another_one_is_under_way() -> None:
    """Closing does not wait for the answer to the push before, and counts that one as taken."""
    harness = started()
    connect(harness, 3)
    harness.answer(question(harness), subscription(CONNECTIONS, delta_temporality=True))
    harness.advance(15_000)
    first = push(harness)
    for send in harness.data_pending:
        harness.fail(send)
    closing(harness)
    _, last = harness.asked(PushTelemetryRequest)
    assert values(last) == {CONNECTIONS: 0}
    harness.answer(first, pushed())
    assert not harness.is_finished
    harness.answer(last, pushed())
    assert harness.is_finished


def test_close_waits_a_second_at_most_for_the_last_push() -> None:
    """The last push has a timeout of a second, whatever the timeout of close is; its failure ends close."""
    harness = pushing()
    harness.answer(push(harness), pushed())
    for send in harness.data_pending:
        harness.fail(send)
    closing(harness)
    assert push(harness).timeout_ms == LAST_PUSH_LIMIT_MS
    harness.fail(push(harness))
    assert harness.is_finished


def test_close_does_not_push_when_nothing_is_wanted() -> None:
    """Without a subscription there is no last push."""
    harness = started()
    harness.answer(question(harness), subscription())
    for send in harness.data_pending:
        harness.fail(send)
    closing(harness)
    assert harness.is_finished
    assert harness.sent_of(PushTelemetryRequest) == []


def test_close_ends_without_a_push_when_the_metrics_are_too_large_or_no_broker_is_left() -> None:
    """A last push that cannot be sent is left out."""
    small = pushing(telemetry_max_bytes=10)
    lonely = pushing()
    lonely.answer(push(lonely), pushed())
    for harness in (small, lonely):
        for send in harness.data_pending:
            harness.fail(send)
    lonely.core._requests.ready_at_ms = lambda node_id, channel: 10**12  # type: ignore[method-assign]
    for harness in (small, lonely):
        pushes = len(harness.sent_of(PushTelemetryRequest))
        harness.core._telemetry.close(harness.now_ms + 30_000)
        harness.core._telemetry.poll(harness.now_ms)
        assert harness.core._telemetry.is_closed
        assert len(harness.sent_of(PushTelemetryRequest)) == pushes


def test_close_ends_without_a_push_when_the_encoder_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last push may be the first one: that nothing can be encoded does not hold up close."""
    harness = started()
    harness.answer(question(harness), subscription(""))
    for send in harness.data_pending:
        harness.fail(send)

    def missing(batch: Batch) -> bytes:
        raise ImportError("No module named 'opentelemetry'")

    monkeypatch.setattr("kafka_share.core.metrics.telemetry.otlp.encode", missing)
    closing(harness)
    assert harness.is_finished
    assert harness.sent_of(PushTelemetryRequest) == []


def test_answers_are_ignored_when_they_come_after_close_has_begun() -> None:
    """A question under way when close begins changes nothing any more, however it ends."""
    for late in (subscription(""), None):
        harness = started()
        send = question(harness)
        for other in harness.data_pending:
            harness.fail(other)
        closing(harness)
        assert harness.is_finished
        assert send in harness.pending
        if late is None:
            harness.fail(send)
        else:
            harness.answer(send, late)
        harness.advance(1_000_000)
        assert harness.sent_of(PushTelemetryRequest) == []
        assert len(harness.sent_of(GetTelemetrySubscriptionsRequest)) == 1
