"""What a share group's own settings and the log's history do to its records, on the reference broker and real Kafka."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest
from conformance.admin_over_wire import Admin
from conformance.kafka_targets import Target
from conformance.share_flow import Flow, Keep, begin, outcomes_of, values
from support.waiting import poll_until, wait_until

from kafka_share import AcknowledgeType
from kafka_share.errors import InvalidRecordStateError

# isort: split
from kafka import KafkaAdminClient, KafkaProducer, TopicPartition

Names = Callable[[str], str]
HOUR_MS = 3_600_000
TIMEOUT_S = 30


@pytest.fixture
def flow(kafka: Target, kafka_admin: Admin, unique: Names, closing: Keep) -> Flow:
    return begin(kafka, kafka_admin, unique, closing)


@pytest.fixture
def history(flow: Flow, unique: Names) -> Iterator[Flow]:
    """A topic with transactions: two records committed, two aborted, two committed; offsets 0 to 8 with the markers."""
    producer = KafkaProducer(bootstrap_servers=flow.target.bootstrap_servers.split(","), transactional_id=unique("tx"))
    producer.init_transactions()
    for committed in (True, False, True):
        producer.begin_transaction()
        for _ in range(2):
            producer.send(flow.topic, b"committed" if committed else b"aborted", partition=0).get(TIMEOUT_S)
        if committed:
            producer.commit_transaction()
        else:
            producer.abort_transaction()
    yield flow
    producer.close(timeout=TIMEOUT_S)


@pytest.mark.behaviour("transactions")
@pytest.mark.parametrize(
    ("level", "seen", "settled"),
    [
        ("read_committed", [0, 1, 6, 7], [0, 1, 2, 5, 6, 7, 8]),
        ("read_uncommitted", [0, 1, 3, 4, 6, 7], list(range(9))),
    ],
)
def test_the_isolation_level_decides_about_aborted_records(
    level: str, seen: list[int], settled: list[int], history: Flow
) -> None:
    """Aborted records come with read_uncommitted only; markers never come, they are acknowledged as gaps."""
    configs = {"share.auto.offset.reset": "earliest", "share.isolation.level": level}
    history.admin.set_group_config(history.group, configs)
    consumer = history.member()
    told = outcomes_of(consumer)
    assert [record.offset for record in poll_until(consumer, len(seen))] == seen
    wait_until(lambda: not consumer.poll(timeout_ms=100) and len(told) >= len(settled))
    assert sorted(told) == [(offset, None) for offset in settled]


@pytest.mark.behaviour("transactions")
def test_an_open_transaction_holds_back_what_is_behind_it(flow: Flow, unique: Names) -> None:
    """A read_committed group gets nothing behind an open transaction until it is committed."""
    configs = {"share.auto.offset.reset": "earliest", "share.isolation.level": "read_committed"}
    flow.admin.set_group_config(flow.group, configs)
    producer = KafkaProducer(bootstrap_servers=flow.target.bootstrap_servers.split(","), transactional_id=unique("tx"))
    producer.init_transactions()
    flow.produce(b"before")
    producer.begin_transaction()
    producer.send(flow.topic, b"open", partition=0).get(TIMEOUT_S)
    flow.produce(b"behind")
    consumer = flow.member()
    assert values(poll_until(consumer, 1)) == [b"before"]
    assert not consumer.poll(timeout_ms=1_000)
    producer.commit_transaction()
    assert values(poll_until(consumer, 2)) == [b"open", b"behind"]
    producer.close(timeout=TIMEOUT_S)


@pytest.mark.behaviour("start offset")
def test_deleted_records_never_come_and_held_ones_can_be_accepted(flow: Flow) -> None:
    """Records are deleted while some are acquired: accepting those succeeds, deleted ones never come, the rest does."""
    flow.produce(*(b"%d" % number for number in range(3)))
    consumer = flow.explicit()
    held = poll_until(consumer, 3)
    flow.produce(*(b"%d" % number for number in range(3, 8)))
    admin = KafkaAdminClient(bootstrap_servers=flow.target.bootstrap_servers.split(","))
    admin.delete_records({TopicPartition(flow.topic, 0): 6})
    admin.close()
    for record in held:
        consumer.acknowledge(record)
    assert set(consumer.commit_sync().values()) == {None}
    found = poll_until(consumer, 2, consumer.acknowledge)
    assert [record.offset for record in found] == [6, 7]


@pytest.mark.behaviour("fetching")
def test_a_group_begins_with_the_first_record_that_is_young_enough(flow: Flow, unique: Names) -> None:
    """A group may begin with the first record of the last hours; while there is none it waits for one, silently."""
    producer = KafkaProducer(bootstrap_servers=flow.target.bootstrap_servers.split(","))

    def produce(*hours: float) -> None:
        for age in hours:
            at_ms = int(time.time() * 1000 - age * HOUR_MS)
            producer.send(flow.topic, b"%g h" % age, partition=0, timestamp_ms=at_ms).get(TIMEOUT_S)

    produce(5, 2)
    consumers = {}
    for policy in ("PT1H", "PT3H"):
        group = unique(policy.lower())
        flow.admin.set_group_config(group, {"share.auto.offset.reset": f"by_duration:{policy}"})
        consumers[policy] = Flow(flow.target, flow.admin, flow.topic, group, flow.keep).member()
    assert values(poll_until(consumers["PT3H"], 1)) == [b"2 h"]
    assert not consumers["PT1H"].poll(timeout_ms=1_500)
    produce(0)
    assert values(poll_until(consumers["PT1H"], 1)) == [b"0 h"]
    assert values(poll_until(consumers["PT3H"], 1)) == [b"0 h"]
    producer.close(timeout=TIMEOUT_S)


@pytest.mark.behaviour("delivery counts")
def test_a_renewal_fails_when_the_group_forbids_it(flow: Flow) -> None:
    """Where the group forbids renewals (Kafka 4.3 and later), one fails, and the record needs nothing more."""
    if flow.target.version is not None and flow.target.version < "4.3":
        pytest.skip("the setting exists from Kafka 4.3 on")
    configs = {"share.auto.offset.reset": "earliest", "share.renew.acknowledge.enable": "false"}
    flow.admin.set_group_config(flow.group, configs)
    flow.produce(b"1")
    consumer = flow.explicit()
    [record] = poll_until(consumer, 1)
    consumer.acknowledge(record, AcknowledgeType.RENEW)
    [error] = consumer.commit_sync().values()
    assert isinstance(error, InvalidRecordStateError)
    assert not consumer.poll(timeout_ms=100)
