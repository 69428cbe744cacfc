"""close: what it sends, what it gives back, how it ends when brokers are slow or gone, and who forgets to call it."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable

import pytest
from facade.delivery_checks import counted, left_for_others, outcomes_of, produce_values
from support.consumers import Consumer, MakeConsumer
from support.waiting import offsets, patience_s, poll_until, wait_until

from kafka_share import KafkaShareConsumer
from kafka_share.broker import ReferenceBroker
from kafka_share.errors import (
    ConfigurationError,
    ConsumerClosedError,
    GroupAuthorizationFailedError,
    IllegalStateError,
)
from kafka_share.protocol.share_acknowledge import ShareAcknowledgeRequest
from kafka_share.protocol.share_group import ShareGroupHeartbeatRequest

SHARE_ACKNOWLEDGE = ShareAcknowledgeRequest.API_KEY
HEARTBEAT = ShareGroupHeartbeatRequest.API_KEY
LATE_MS = 20_000


@pytest.mark.behaviour("misuse and close")
@pytest.mark.parametrize("commit", ["commit_sync", "commit_async", None])
@pytest.mark.parametrize(("topics", "partitions"), [(1, 1), (1, 3), (3, 1), (2, 2)])
def test_acknowledged_records_stay_away_when_the_consumer_closes(
    broker: ReferenceBroker, make_consumer: MakeConsumer, topics: int, partitions: int, commit: str | None
) -> None:
    """What was acknowledged before close is sent, by a commit or by close itself; nobody gets it again."""
    names = [f"topic-{number}" for number in range(topics)]
    for name in names:
        broker.create_topic(name, partitions=partitions)
        produce_values(broker, name, 3, partitions=range(partitions))
    consumer = make_consumer(*names, share_acknowledgement_mode="explicit")
    outcomes = outcomes_of(consumer)
    poll_until(consumer, 3 * topics * partitions, consumer.acknowledge)
    if commit is not None:
        getattr(consumer, commit)()
    consumer.close()
    assert len(outcomes.succeeded) == len(set(outcomes.succeeded)) == 3 * topics * partitions
    assert left_for_others(broker, make_consumer, *names, partitions=partitions) == []


@pytest.mark.behaviour("misuse and close")
def test_held_records_come_to_others_at_once_when_the_consumer_closes(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer, explicit_consumer: Consumer
) -> None:
    """Unacknowledged records of a closing consumer go to another member at once, before any lock has run out."""
    produce_values(broker, topic, 5)
    poll_until(explicit_consumer, 5)
    explicit_consumer.close()
    assert counted(left_for_others(broker, make_consumer, topic)) == [(offset, 2) for offset in range(5)]


@pytest.mark.behaviour("misuse and close")
def test_only_the_other_half_comes_back_when_half_was_acknowledged(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer, explicit_consumer: Consumer
) -> None:
    """When half of a batch was acknowledged before close, that half stays away and the other is released."""
    produce_values(broker, topic, 10)
    for record in poll_until(explicit_consumer, 10)[:5]:
        explicit_consumer.acknowledge(record)
    explicit_consumer.close()
    assert offsets(left_for_others(broker, make_consumer, topic)) == [5, 6, 7, 8, 9]


@pytest.mark.behaviour("misuse and close")
def test_last_batch_is_released_when_an_implicit_consumer_closes(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer, caplog: pytest.LogCaptureFixture
) -> None:
    """In implicit mode close accepts nothing, and says so: the next member gets the records of the last poll."""
    produce_values(broker, topic, 300)
    consumer = make_consumer(topic, max_poll_records=70)
    last: list[int] = []
    seen = 0
    while seen < 300:
        last = offsets(poll_until(consumer, 1))
        seen += len(last)
    consumer.close()
    assert 0 < len(last) < 300
    (warning,) = [record for record in caplog.records if "commit_sync" in record.getMessage()]
    assert (warning.levelname, warning.args) == ("WARNING", (f"{len(last)} records",))
    assert offsets(left_for_others(broker, make_consumer, topic)) == last


@pytest.mark.behaviour("misuse and close")
def test_every_method_raises_when_the_consumer_is_closed(
    broker: ReferenceBroker, topic: str, explicit_consumer: Consumer
) -> None:
    """close can be repeated and wakeup stays harmless; everything else is an illegal state."""
    produce_values(broker, topic, 1)
    (record,) = poll_until(explicit_consumer, 1)
    explicit_consumer.close()
    explicit_consumer.close()
    explicit_consumer.wakeup()
    calls: list[Callable[[], object]] = [
        lambda: explicit_consumer.poll(timeout_ms=0),
        lambda: explicit_consumer.subscribe([topic]),
        explicit_consumer.subscription,
        explicit_consumer.unsubscribe,
        lambda: explicit_consumer.acknowledge(record),
        lambda: explicit_consumer.acknowledge_offset(topic, 0, 0, 1),  # type: ignore[arg-type]
        explicit_consumer.commit_sync,
        explicit_consumer.commit_async,
        lambda: explicit_consumer.set_acknowledgement_commit_callback(None),
        lambda: explicit_consumer.acquisition_lock_timeout_ms,
    ]
    for call in calls:
        with pytest.raises(ConsumerClosedError, match="already been closed"):
            call()
    assert list(explicit_consumer) == []


@pytest.mark.behaviour("misuse and close")
def test_close_refuses_a_timeout_that_makes_no_sense(make_consumer: MakeConsumer) -> None:
    """A negative timeout is an argument error even on a closed consumer, and close(0) ends at once."""
    consumer = make_consumer("t")
    with pytest.raises(ValueError, match="negative"):
        consumer.close(timeout_ms=-1)
    consumer.close(timeout_ms=0)
    with pytest.raises(ValueError, match="negative"):
        consumer.close(timeout_ms=-1)


@pytest.mark.behaviour("share sessions")
@pytest.mark.parametrize("slow", [1, 2, 3])
def test_close_waits_and_succeeds_when_brokers_answer_late(slow: int) -> None:
    """One, two and all three brokers answer the end of their session late: close waits for them."""
    with ReferenceBroker(nodes=3) as broker:
        broker.set_group_config("g", share_auto_offset_reset="earliest")
        broker.create_topic("t", partitions=3)
        produce_values(broker, "t", 2, partitions=range(3))
        consumer: Consumer = KafkaShareConsumer(
            "t",
            bootstrap_servers=broker.bootstrap_servers,
            group_id="g",
            share_acknowledgement_mode="explicit",
        )
        outcomes = outcomes_of(consumer)
        poll_until(consumer, 6, consumer.acknowledge)
        consumer.commit_sync()
        for node_id in range(1, slow + 1):
            broker.faults.delay(SHARE_ACKNOWLEDGE, LATE_MS, node_id=node_id)

        def let_the_answers_come() -> None:
            wait_until(lambda: broker.faults.pending() == 0)
            broker.advance(LATE_MS)

        other = threading.Thread(target=let_the_answers_come)
        other.start()
        consumer.close()
        other.join()
        assert broker.faults.pending() == 0, "close asked every broker"
        assert len(outcomes.succeeded) == 6
        group = broker.share_group("g")
        assert group is not None
        assert not group.members


@pytest.mark.behaviour("misuse and close")
def test_close_ends_at_the_request_timeout_when_no_answer_comes(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer
) -> None:
    """The end of the session is never answered: close gives that up after request_timeout_ms and leaves the group."""
    produce_values(broker, topic, 1)
    consumer = make_consumer(topic, request_timeout_ms=2_000)
    poll_until(consumer, 1)
    broker.faults.lose_reply(SHARE_ACKNOWLEDGE)
    consumer.close()
    group = broker.share_group("g")
    assert group is not None
    assert not group.members


@pytest.mark.behaviour("share sessions")
def test_close_ends_at_its_own_timeout_when_no_answer_comes(
    broker: ReferenceBroker, topic: str, explicit_consumer: Consumer
) -> None:
    """close returns at its own timeout without an error when no answer comes, and reports what it gave up."""
    produce_values(broker, topic, 1)
    outcomes = outcomes_of(explicit_consumer)
    poll_until(explicit_consumer, 1, explicit_consumer.acknowledge)
    broker.faults.lose_reply(SHARE_ACKNOWLEDGE)
    explicit_consumer.close(timeout_ms=100)
    assert [offset for offset, _ in outcomes.failed] == [0]


@pytest.mark.behaviour("misuse and close")
def test_close_completes_without_a_retry_when_the_sessions_end_is_refused(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer
) -> None:
    """A broker refuses the end of a session with a retriable error: close goes on, and does not ask again."""
    produce_values(broker, topic, 1)
    consumer = make_consumer(topic)
    poll_until(consumer, 1)
    broker.faults.fail(SHARE_ACKNOWLEDGE, 5)
    consumer.close()
    assert [request.share_session_epoch for _, request in broker.requests(SHARE_ACKNOWLEDGE)] == [-1]
    group = broker.share_group("g")
    assert group is not None
    assert not group.members


@pytest.mark.better_than_java("close-without-errors")
@pytest.mark.behaviour("share sessions")
def test_close_returns_without_an_error_when_the_broker_is_down(
    broker: ReferenceBroker, topic: str, explicit_consumer: Consumer
) -> None:
    """The only broker has stopped: close ends at the latest with its timeout, and reports each outcome."""
    produce_values(broker, topic, 1)
    outcomes = outcomes_of(explicit_consumer)
    poll_until(explicit_consumer, 1, explicit_consumer.acknowledge)
    broker.stop_node(1)
    explicit_consumer.close(timeout_ms=500)
    assert [offset for offset, _ in outcomes.failed] == [0]


@pytest.mark.better_than_java("close-without-errors")
@pytest.mark.behaviour("misuse and close")
@pytest.mark.parametrize("polls", [0, 1])
def test_close_returns_without_an_error_when_no_broker_ever_answered(make_consumer: MakeConsumer, polls: int) -> None:
    """close returns without an error when no broker has ever answered."""
    consumer = make_consumer("t", bootstrap_servers="127.0.0.1:1")
    for _ in range(polls):
        assert not consumer.poll(timeout_ms=50)
    consumer.close(timeout_ms=500)


@pytest.mark.behaviour("membership")
def test_close_is_clean_when_nothing_was_polled(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer
) -> None:
    """Straight after subscribe there is no member to leave: close sends no heartbeat at all."""
    make_consumer(topic).close()
    assert not broker.requests(HEARTBEAT)


@pytest.mark.behaviour("misuse and close")
def test_close_is_clean_when_unsubscribed(broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer) -> None:
    """After unsubscribe the group has been left: close leaves no second time."""
    produce_values(broker, topic, 1)
    consumer = make_consumer(topic)
    poll_until(consumer, 1)
    consumer.commit_sync()
    consumer.unsubscribe()
    consumer.close()
    assert [r.member_epoch for _, r in broker.requests(HEARTBEAT)].count(-1) == 1
    assert left_for_others(broker, make_consumer, topic) == []


@pytest.mark.behaviour("membership")
def test_close_sends_acknowledgements_but_no_leave_when_a_fatal_error_was_raised(make_consumer: MakeConsumer) -> None:
    """After GROUP_AUTHORIZATION_FAILED on a heartbeat the pending acknowledgements still go out; no leave does."""
    fast = {"group.share.heartbeat.interval.ms": 50, "group.share.min.heartbeat.interval.ms": 50}
    with ReferenceBroker(config=fast) as broker:
        broker.set_group_config("g", share_auto_offset_reset="earliest")
        broker.create_topic("t")
        produce_values(broker, "t", 2)
        consumer = make_consumer(
            "t",
            bootstrap_servers=broker.bootstrap_servers,
            share_acknowledgement_mode="explicit",
        )
        outcomes = outcomes_of(consumer)
        records = poll_until(consumer, 2)
        broker.faults.fail(HEARTBEAT, GroupAuthorizationFailedError.code)
        wait_until(lambda: broker.faults.pending() == 0 and raises_from_poll(consumer, GroupAuthorizationFailedError))
        for record in records:
            consumer.acknowledge(record)
        broker.clear_requests()
        consumer.close()
        assert outcomes.succeeded == [("t", 0, 0), ("t", 0, 1)]
        assert not broker.requests(HEARTBEAT)


def raises_from_poll(consumer: Consumer, kind: type[Exception]) -> bool:
    """Whether a poll raises this; records are held, and what the background met comes before the demand for them."""
    with pytest.raises((kind, IllegalStateError)) as raised:
        consumer.poll(timeout_ms=0)
    return isinstance(raised.value, kind)


@pytest.mark.behaviour("misuse and close")
def test_records_come_back_when_the_consumer_is_forgotten(broker: ReferenceBroker, make_consumer: MakeConsumer) -> None:
    """Dropping the last reference warns, leaves the group, gives the records back and ends the thread."""
    broker.set_group_config("g", share_auto_offset_reset="earliest")
    broker.create_topic("t")
    produce_values(broker, "t", 2)
    before = set(threading.enumerate())
    consumer: Consumer | None = KafkaShareConsumer("t", bootstrap_servers=broker.bootstrap_servers, group_id="g")
    assert consumer is not None
    poll_until(consumer, 2)
    (thread,) = set(threading.enumerate()) - before
    with pytest.warns(ResourceWarning, match="not closed"):  # noqa: PT031 - the reference and the collection belong together
        consumer = None
        gc.collect()
    thread.join(patience_s())
    assert not thread.is_alive()
    group = broker.share_group("g")
    assert group is not None
    assert not group.members
    assert counted(left_for_others(broker, make_consumer, "t")) == [(0, 2), (1, 2)]


@pytest.mark.behaviour("misuse and close")
def test_nothing_happens_when_a_consumer_that_was_never_made_is_collected() -> None:
    """A constructor that failed leaves nothing behind: no thread, no warning, no crash at collection."""
    before = set(threading.enumerate())
    with pytest.raises(ConfigurationError):
        KafkaShareConsumer("t", bootstrap_servers="127.0.0.1:1", group_id="")
    gc.collect()
    assert set(threading.enumerate()) <= before


@pytest.mark.behaviour("misuse and close")
def test_with_block_closes_and_passes_the_exception_on_when_its_body_raises(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer
) -> None:
    """When the body of a with block raises, its exception comes out unchanged, and its records are released."""
    produce_values(broker, topic, 1)
    consumer = make_consumer(topic)

    def work() -> None:
        with consumer:
            poll_until(consumer, 1)
            raise KeyError("of the application")

    with pytest.raises(KeyError, match="of the application"):
        work()
    with pytest.raises(ConsumerClosedError):
        consumer.poll(timeout_ms=0)
    assert counted(left_for_others(broker, make_consumer, topic)) == [(0, 2)]


@pytest.mark.behaviour("misuse and close")
def test_closing_inside_a_with_block_is_fine(make_consumer: MakeConsumer) -> None:
    """A consumer may be closed inside its with block; the end of the block then does nothing."""
    with make_consumer("t") as consumer:
        consumer.close()


@pytest.mark.behaviour("misuse and close")
def test_close_ends_when_fetches_of_several_brokers_are_under_way() -> None:
    """close ends although three brokers still hold an answer to a fetch back."""
    with ReferenceBroker(nodes=3) as broker:
        broker.set_group_config("g", share_auto_offset_reset="earliest")
        broker.create_topic("t", partitions=3)
        for partition in range(3):
            broker.produce("t", b"primer", partition=partition)
        consumer: Consumer = KafkaShareConsumer("t", bootstrap_servers=broker.bootstrap_servers, group_id="g")
        poll_until(consumer, 3)
        consumer.poll(timeout_ms=0)
        consumer.close()
        group = broker.share_group("g")
        assert group is not None
        assert not group.members
        ends = [context.node_id for context, request in broker.requests(79) if request.share_session_epoch == -1]
        assert sorted(ends) == [1, 2, 3]


@pytest.mark.behaviour("misuse and close")
def test_result_of_the_commit_is_known_when_close_follows_a_commit_that_timed_out(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer
) -> None:
    """Acknowledgements that a commit_sync gave up waiting for are still drained and reported by close."""
    produce_values(broker, topic, 1)
    consumer = make_consumer(topic)
    outcomes = outcomes_of(consumer)
    poll_until(consumer, 1)
    with pytest.raises(TimeoutError):
        consumer.commit_sync(timeout_ms=0)
    consumer.close()
    assert outcomes.succeeded == [(topic, 0, 0)]
    assert left_for_others(broker, make_consumer, topic) == []
