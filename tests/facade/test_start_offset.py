"""Where a group begins in a partition, and what becomes of its records when the log's beginning is deleted."""

from __future__ import annotations

import time
from functools import partial

import pytest
from facade.delivery_checks import counted, only_result, outcomes_of, produce_one_batch, produce_values, start_offset
from support.consumers import Consumer, MakeConsumer
from support.waiting import offsets, poll_once_more, poll_until, poll_while, wait_until

from kafka_share import AcknowledgeType
from kafka_share.broker import ReferenceBroker
from kafka_share.errors import ConfigurationError
from kafka_share.protocol.share_fetch import ShareFetchRequest

HOUR_MS = 3_600_000


@pytest.fixture
def make_consumer(make_consumer: MakeConsumer) -> MakeConsumer:
    """Consumers whose fetches wait shortly: a fetch after a deletion may be empty."""
    return partial(make_consumer, fetch_max_wait_ms=50)


def produce_aged(broker: ReferenceBroker, *hours: float) -> None:
    """One record for each age; its value is the age."""
    now_ms = int(time.time() * 1000)
    for age in hours:
        broker.produce("t", b"%g h" % age, timestamp_ms=now_ms - int(age * HOUR_MS))


def loaded(consumer: Consumer, broker: ReferenceBroker, topic: str = "t", group: str = "g") -> Consumer:
    """Poll until the broker has the group's share partition, which fixes where the group begins."""

    def is_loaded() -> bool:
        found = broker.share_partition(group, topic, 0)
        return found is not None and found.start_offset >= 0

    poll_while(consumer, lambda: not is_loaded())
    return consumer


@pytest.mark.behaviour("start offset")
def test_only_later_records_come_when_the_group_is_new(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer
) -> None:
    """Without a reset policy a group begins at the end: what was there before its first fetch is not delivered."""
    produce_values(broker, topic, 3)
    consumer = loaded(make_consumer(topic, reset=None), broker)
    produce_values(broker, topic, 1)
    assert offsets(poll_until(consumer, 1)) == [3]


@pytest.mark.behaviour("start offset")
def test_earlier_records_come_too_when_the_policy_is_earliest(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer
) -> None:
    """With the policy earliest a new group begins with the records that are there."""
    produce_values(broker, topic, 3)
    assert offsets(poll_until(make_consumer(topic), 3)) == [0, 1, 2]


@pytest.mark.behaviour("start offset")
def test_each_group_begins_where_its_own_policy_says(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer
) -> None:
    """Two groups on one topic, one earliest and one latest: the first gets old and new records, the second new ones."""
    produce_values(broker, topic, 1)
    early = make_consumer(topic, group_id="early")
    late = loaded(make_consumer(topic, group_id="late", reset="latest"), broker, group="late")
    assert offsets(poll_until(early, 1)) == [0]
    produce_values(broker, topic, 1)
    assert [offsets(poll_until(consumer, 1)) for consumer in (early, late)] == [[1], [1]]


@pytest.mark.behaviour("start offset")
def test_records_of_the_last_hours_come_when_the_policy_is_a_duration(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer
) -> None:
    """With a duration as its policy a group begins with the first record that is not older than that."""
    produce_aged(broker, 2, 0.5, 0)
    one = make_consumer(topic, group_id="one", reset="by_duration:PT1H")
    three = make_consumer(topic, group_id="three", reset="by_duration:PT3H")
    assert [r.value for r in poll_until(one, 2)] == [b"0.5 h", b"0 h"]
    assert len(poll_until(three, 3)) == 3


@pytest.mark.behaviour("fetching")
def test_consumption_begins_with_the_first_young_record_when_all_are_too_old(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer
) -> None:
    """While no record is young enough for the group's policy, polls are silent; the first new record begins."""
    produce_aged(broker, 3, 2)
    consumer = make_consumer(topic, reset="by_duration:PT1H")
    broker.clear_requests()
    assert not consumer.poll(timeout_ms=1_500)
    assert 1 <= len(broker.requests(ShareFetchRequest.API_KEY)) <= 20
    produce_aged(broker, 0)
    assert [r.value for r in poll_until(consumer, 1)] == [b"0 h"]


@pytest.mark.behaviour("start offset")
@pytest.mark.parametrize("policy", ["by_duration:1h", "by_duration:-PT1H", "sometime"])
def test_a_policy_that_means_nothing_is_refused(policy: str, broker: ReferenceBroker) -> None:
    """A duration that is not ISO 8601, or negative, and an unknown value are refused when the group is configured."""
    with pytest.raises(ConfigurationError):
        broker.set_group_config("g", share_auto_offset_reset=policy)


@pytest.mark.behaviour("start offset")
def test_deleted_records_never_come_when_the_log_start_moves_again_and_again(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer
) -> None:
    """Records deleted before they were delivered never come; the group goes on behind them."""
    produce_values(broker, topic, 10)
    broker.delete_records(topic, 0, 5)
    consumer = make_consumer(topic)
    assert offsets(poll_until(consumer, 5)) == [5, 6, 7, 8, 9]
    assert only_result(consumer.commit_sync()) is None
    produce_values(broker, topic, 5)
    broker.delete_records(topic, 0, 14)
    assert offsets(poll_until(consumer, 1)) == [14]
    assert only_result(consumer.commit_sync()) is None
    broker.delete_records(topic, 0, 15)
    assert poll_once_more(consumer) == []
    produce_values(broker, topic, 1)
    assert offsets(poll_until(consumer, 1)) == [15]


@pytest.mark.behaviour("start offset")
def test_a_new_group_begins_at_the_log_start_when_records_were_deleted(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer
) -> None:
    """With the policy earliest a new group begins with the first record that still exists."""
    produce_values(broker, topic, 10)
    broker.delete_records(topic, 0, 5)
    assert offsets(poll_until(make_consumer(topic), 5)) == [5, 6, 7, 8, 9]


@pytest.mark.behaviour("start offset")
def test_held_records_can_be_acknowledged_and_never_return_when_they_are_deleted(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer
) -> None:
    """Records that are deleted while a member holds them can be acknowledged, and never come again."""
    produce_one_batch(broker, topic, 5)
    produce_one_batch(broker, topic, 5)
    consumer = make_consumer(topic, share_acknowledgement_mode="explicit", max_poll_records=5)
    outcomes = outcomes_of(consumer)
    held = poll_until(consumer, 5)
    broker.delete_records(topic, 0, 5)
    for record in held:
        consumer.acknowledge(record, AcknowledgeType.RELEASE if record.offset > 2 else AcknowledgeType.ACCEPT)
    assert only_result(consumer.commit_sync()) is None
    assert counted(poll_until(consumer, 5, consumer.acknowledge)) == [(offset, 1) for offset in range(5, 10)]
    wait_until(lambda: start_offset(broker, topic) == 5, "the start offset does not move")
    assert outcomes.succeeded == [(topic, 0, offset) for offset in range(5)]


@pytest.mark.behaviour("start offset")
def test_what_a_member_held_below_the_log_start_is_gone_when_it_closes(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer
) -> None:
    """Deleted records that a closing member had acquired are gone: another member gets only what comes behind them."""
    produce_one_batch(broker, topic, 5)
    holder = make_consumer(topic)
    poll_until(holder, 5)
    produce_one_batch(broker, topic, 5)
    broker.delete_records(topic, 0, 5)
    holder.close()
    other = make_consumer(topic)
    assert offsets(poll_until(other, 5)) == [5, 6, 7, 8, 9]
    assert poll_once_more(other) == []
