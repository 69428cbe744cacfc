"""What the core tells of the consumer as a whole: membership, assignment, missing topics, and what is wrong now."""

from __future__ import annotations

import pytest
from core.scripted_cluster import Harness, fetch_answer, fetch_data, heartbeat_answer, tp

from kafka_share.core.condition import Condition, Troubles
from kafka_share.core.events import Unsubscribed
from kafka_share.errors import (
    AuthenticationError,
    BrokerUnreachableError,
    GroupAuthorizationFailedError,
    KafkaShareError,
    RemoteProtocolError,
    TopicAuthorizationFailedError,
    UnsupportedVersionError,
)
from kafka_share.protocol.cluster import MetadataRequest
from kafka_share.records import TopicPartition

LOST = BrokerUnreachableError("no route")
REFUSED = AuthenticationError("wrong password")
NONSENSE = RemoteProtocolError("not Kafka")


def trouble(h: Harness) -> tuple[type[KafkaShareError], bool, bool] | None:
    """The kind of the worst trouble, whether polls raise it, and whether it is fatal."""
    worst = h.condition.trouble
    return None if worst is None else (type(worst.error), worst.is_raised, worst.is_fatal)


def logged_topics(h: Harness, event: str) -> list[object]:
    return [log.fields["topic"] for log in h.logs if log.event == event]


# ---- membership and assignment


def test_the_consumer_is_joined_and_has_its_partitions_from_the_answer_of_the_coordinator_until_it_leaves() -> None:
    h = Harness({tp(): 1, tp(1): 1})
    assert h.condition == Condition()
    h.joined(tp(), tp(1))
    assert h.condition.is_joined
    assert h.condition.assigned == (TopicPartition("t", 0), TopicPartition("t", 1))
    h.handle(Unsubscribed(1, h.now_ms + 1_000))
    assert not h.condition.is_joined
    assert not h.condition.assigned


def test_the_consumer_is_not_joined_when_it_has_been_fenced_until_it_has_joined_again() -> None:
    h = Harness().joined(timeout_ms=60_000)
    h.heartbeat = None
    h.advance(1_000)
    h.answer(h.beat(), heartbeat_answer(error=25))
    assert (h.condition.is_joined, h.condition.assigned) == (False, ())
    h.answer(h.beat(), heartbeat_answer(2, [tp()]))
    assert h.condition.is_joined


# ---- missing topics


def test_a_missing_topic_is_logged_once_after_ten_seconds_and_again_when_it_exists() -> None:
    h = Harness({})
    h.heartbeat = lambda request: heartbeat_answer(1, [])
    h.subscribe()
    h.start_poll(600_000)
    assert h.condition.missing_topics == ("t",)
    h.advance(9_000)
    assert logged_topics(h, "topic-missing") == []
    h.advance(1_000)
    assert logged_topics(h, "topic-missing") == ["t"]
    h.advance(290_000)
    assert logged_topics(h, "topic-missing") == ["t"]
    assert len(h.sent_of(MetadataRequest)) < 5
    h.leaders = {tp(): 1}
    h.heartbeat = lambda request: heartbeat_answer(2, [tp()])
    h.advance(10_000)
    assert logged_topics(h, "topic-found") == ["t"]
    assert not h.condition.missing_topics


def test_nothing_is_logged_when_a_missing_topic_is_created_within_ten_seconds_or_left() -> None:
    h = Harness({})
    h.heartbeat = lambda request: heartbeat_answer(1, [])
    h.subscribe("t", "u")
    h.start_poll(600_000)
    assert h.condition.missing_topics == ("t", "u")
    h.advance(5_000)
    h.leaders = {tp(): 1}
    h.heartbeat = lambda request: heartbeat_answer(2, [tp()])
    h.subscribe("t")
    h.start_poll(600_000)
    h.advance(60_000)
    assert not [log for log in h.logs if log.event.startswith("topic-")]
    assert not h.condition.missing_topics


# ---- troubles


def test_a_refusal_of_the_group_lasts_and_is_fatal() -> None:
    h = Harness().joined()
    h.heartbeat = lambda request: heartbeat_answer(error=30)
    h.advance(1_000)
    assert trouble(h) == (GroupAuthorizationFailedError, True, True)
    h.handle(Unsubscribed(1, h.now_ms + 1_000))
    assert trouble(h) == (GroupAuthorizationFailedError, True, True), "leaving the topics does not mend it"


def test_missing_rights_on_a_topic_last_until_the_coordinator_takes_the_heartbeat() -> None:
    h = Harness().joined(timeout_ms=60_000)
    h.heartbeat = lambda request: heartbeat_answer(error=29, message="no DESCRIBE on t")
    h.advance(1_000)
    began = h.condition.trouble
    assert trouble(h) == (TopicAuthorizationFailedError, True, False)
    h.advance(3_000)
    assert h.condition.trouble == began, "it is the same trouble, and has lasted since then"
    h.heartbeat = lambda request: heartbeat_answer(2, [tp()])
    h.advance(1_000)
    assert trouble(h) is None


@pytest.mark.parametrize("of_whole", [False, True])
def test_an_error_of_a_fetch_lasts_until_the_node_answers_without_it(of_whole: bool) -> None:
    h = Harness().joined(timeout_ms=60_000)
    code = 30 if of_whole else 29
    kind = GroupAuthorizationFailedError if of_whole else TopicAuthorizationFailedError
    refused = fetch_answer(error=code) if of_whole else fetch_answer(fetch_data(tp(), error=code))
    for _ in range(2):
        h.answer(h.fetch(), refused)
        assert trouble(h) == (kind, True, False)
        h.advance(5_000)
    h.answer(h.fetch(), fetch_answer())
    assert trouble(h) is None


def test_a_wrong_password_lasts_until_a_broker_answers() -> None:
    h = Harness()
    h.serves_metadata = False
    h.subscribe()
    h.start_poll(60_000)
    for _ in range(3):
        h.fail(h.pending[0], REFUSED)
        h.advance(2_000)
        assert trouble(h) == (AuthenticationError, True, False)
    h.serves_metadata = True
    h.fail(h.pending[0], REFUSED)
    h.advance(2_000)
    assert trouble(h) is None


def test_nonsense_is_raised_again_when_it_was_not_a_single_answer() -> None:
    h = Harness()
    h.serves_metadata = False
    h.subscribe()
    h.start_poll(60_000)
    h.fail(h.pending[0], NONSENSE)
    assert trouble(h) == (RemoteProtocolError, False, False)
    h.advance(2_000)
    h.fail(h.pending[0], NONSENSE)
    assert trouble(h) == (RemoteProtocolError, True, False)


def test_a_listener_that_does_not_know_metadata_is_fatal_and_the_error_guesses_at_a_controller() -> None:
    h = Harness()
    h.serves_metadata = False
    h.subscribe()
    h.start_poll()
    h.fail(h.only(MetadataRequest), UnsupportedVersionError("the broker does not offer Metadata (API 3)"))
    assert trouble(h) == (UnsupportedVersionError, True, True)
    (raised,) = h.errors
    assert str(raised.error).startswith(
        "UNSUPPORTED_VERSION: the broker does not offer Metadata (API 3); if this is the"
    )
    assert "controller" in str(raised.error)


def test_silence_of_the_brokers_is_a_trouble_from_the_first_failure_and_not_raised_by_every_poll() -> None:
    h = Harness()
    h.serves_metadata = False
    h.subscribe()
    h.start_poll(60_000)
    began_ms = h.now_ms
    for _ in range(3):
        h.fail(h.pending[0], LOST)
        h.advance(2_000)
    assert trouble(h) == (BrokerUnreachableError, False, False)
    assert h.condition.trouble is not None
    assert h.condition.trouble.since_ms == began_ms


def test_the_worst_trouble_is_the_fatal_one_then_what_is_raised_then_the_oldest() -> None:
    troubles = Troubles()
    for number, (raised, fatal) in enumerate([(False, False), (True, False), (True, False), (True, True)]):
        troubles.begin(number, KafkaShareError(str(number)), now_ms=number, is_raised=raised, is_fatal=fatal)
    order = []
    for _ in range(4):
        worst = troubles.worst
        assert worst is not None
        order.append(str(worst.error))
        troubles.end(int(str(worst.error)))
    assert order == ["3", "1", "2", "0"]
    assert troubles.worst is None
