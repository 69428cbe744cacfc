"""What is raised when brokers do not answer, or not in Kafka's language."""

from __future__ import annotations

import pytest
from core.scripted_cluster import Harness

from kafka_share.config import ShareConsumerConfig
from kafka_share.core.condition import Troubles
from kafka_share.core.events import RaiseError
from kafka_share.core.outage import Outage
from kafka_share.core.outputs import Outputs
from kafka_share.errors import AuthenticationError, BrokerUnreachableError, KafkaShareError, RemoteProtocolError

CONFIG = ShareConsumerConfig(
    bootstrap_servers="a:9092",
    group_id="g",
    default_api_timeout_ms=1_000,
    request_timeout_ms=500,
    reconnect_backoff_max_ms=100,
)
LOST = BrokerUnreachableError("a:9092 closed the connection")


class Asker:
    """Sends requests, which end as the test says; `raised` is what poll would raise."""

    def __init__(self) -> None:
        self._outputs = Outputs()
        self.troubles = Troubles()
        self._outage = Outage(CONFIG, self._outputs, self.troubles)
        self.raised: list[KafkaShareError] = []

    def fails(self, error: KafkaShareError, now_ms: int) -> None:
        self._outage.failed(error, now_ms)
        self.raised += [output.error for output in self._outputs.take() if isinstance(output, RaiseError)]

    def is_answered(self) -> None:
        self._outage.answered()


def test_an_outage_is_raised_once_when_nobody_has_answered_for_the_api_timeout() -> None:
    asker = Asker()
    for now_ms in range(0, 3_001, 200):
        asker.fails(LOST, now_ms)
    (error,) = asker.raised
    assert isinstance(error, BrokerUnreachableError)
    assert "No broker has answered for 1000 ms" in str(error)
    assert str(LOST) in str(error)


def test_no_outage_is_raised_when_another_broker_answers_in_between() -> None:
    asker = Asker()
    for now_ms in range(0, 3_001, 200):
        asker.fails(LOST, now_ms)
        if now_ms % 800 == 0:
            asker.is_answered()
    assert asker.raised == []


def test_a_second_outage_is_raised_when_a_broker_had_answered_after_the_first() -> None:
    asker = Asker()
    for start_ms in (0, 5_000):
        for now_ms in range(start_ms, start_ms + 1_401, 200):
            asker.fails(LOST, now_ms)
        asker.is_answered()
    assert len(asker.raised) == 2


def test_no_outage_is_raised_when_nothing_was_asked_between_two_failures() -> None:
    asker = Asker()
    asker.fails(LOST, 0)
    asker.fails(LOST, 600_000)
    asker.fails(LOST, 600_400)
    assert asker.raised == []


@pytest.mark.parametrize("kind", [AuthenticationError, RemoteProtocolError])
def test_what_no_retry_mends_is_raised_at_once_and_again_after_an_answer(kind: type[KafkaShareError]) -> None:
    asker = Asker()
    for now_ms in range(0, 3_001, 200):
        asker.fails(kind("nonsense"), now_ms)
    assert [str(error) for error in asker.raised] == ["nonsense"]
    asker.is_answered()
    asker.fails(kind("nonsense"), 4_100)
    assert len(asker.raised) == 2


# ---- silence at the start


def lines(h: Harness) -> list[object]:
    return [log.fields["error"] for log in h.logs if log.event == "no-answer"]


def test_silence_is_logged_once_when_nobody_has_answered_the_first_poll() -> None:
    h = Harness()
    h.serves_metadata = False
    h.subscribe()
    h.start_poll(60_000)
    h.advance(10_000)
    assert lines(h) == []
    h.advance(1_000)
    (error,) = lines(h)
    assert "boot:9092" in str(error)
    h.advance(60_000)
    h.start_poll(60_000)
    h.advance(60_000)
    assert len(lines(h)) == 1


def test_silence_is_not_logged_when_there_was_an_answer_or_a_failure_which_is_logged_by_itself() -> None:
    answered = Harness().joined(timeout_ms=60_000)
    answered.advance(60_000)
    failed = Harness()
    failed.serves_metadata = False
    failed.subscribe()
    failed.start_poll(60_000)
    failed.advance(5_000)
    failed.fail(failed.pending[0], LOST)
    failed.advance(60_000)
    assert lines(answered) == lines(failed) == []
