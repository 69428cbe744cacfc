"""What raw ShareFetch and ShareAcknowledge requests are answered: acquiring, acknowledging, and what is refused."""

from __future__ import annotations

import re
from typing import Any
from uuid import UUID

import pytest
from broker.share.probe import Probe

NOT_HELD, LIMIT_BYTES = "121:INVALID_RECORD_STATE", 10_000
UUID_MEMBER = "AAAAAAAAQACAAAAAAAAAAQ"
"""Kafka 4.1 takes nothing else for a member id."""


@pytest.fixture
def p() -> Probe:
    return Probe()


class Member:
    """A member with a connection of its own; its epochs follow one another."""

    def __init__(self, p: Probe, topic_id: UUID, name: str = "M1", group: str = "g", partitions: int = 1) -> None:
        self.p, self.t, self.name, self.group = p, topic_id, name, group
        self.connection = p.connect()
        self.epoch = 0
        self.partitions = [(topic_id, index, "") for index in range(partitions)]

    def fetch(self, acks: str | None = None, **options: Any) -> str:
        named = self.partitions if self.epoch == 0 else [] if acks is None else [(self.t, 0, acks)]
        text = self.p.fetch(self.connection, self.group, self.name, self.epoch, named, **{"wait": 0, **options})
        self.epoch += 1
        return text

    def ack(self, acks: str, topic_id: UUID | None = None, partition: int = 0, **options: Any) -> str:
        named = [(topic_id or self.t, partition, acks)]
        text = self.p.ack(self.connection, self.group, self.name, self.epoch, named, **options)
        self.epoch += 1
        found = re.search(r"\[.*?e=([^ \]]+)", text)
        assert found is not None, text
        return found[1]


def topic(p: Probe, *groups: str, partitions: int = 1, name: str = "t") -> UUID:
    """A topic whose share partitions are loaded, so that a fetch that does not wait is answered with records."""
    topic_id = p.topic(name, partitions)
    for group in groups or ("g",):
        for index in range(partitions):
            p.initialize(group, topic_id, index)
        loader = Member(p, topic_id, UUID_MEMBER[::-1], group, partitions)
        loader.fetch()
    return topic_id


def acquired(text: str) -> str:
    """The acquired ranges of the one partition that an answer has, if it has any."""
    found = re.findall(r"acq=(\S*)", text)
    assert len(found) <= 1, text
    return "".join(found)


@pytest.mark.behaviour("broker")
def test_all_records_are_acquired_at_once_and_only_new_ones_after_they_were_accepted(p: Probe) -> None:
    """A fetch acquires all records that there are, with count 1; once they are accepted only new ones come."""
    one = Member(p, topic(p))
    p.produce(one.t, 10)
    assert acquired(one.fetch()) == "0~9x1"
    assert one.ack("0~9:1") == "0"
    p.produce(one.t, 10)
    assert acquired(one.fetch()) == "10~19x1"


@pytest.mark.behaviour("broker")
def test_every_partition_is_answered_when_three_have_records(p: Probe) -> None:
    """One fetch acquires the records of all its partitions."""
    one = Member(p, topic(p, partitions=3), partitions=3)
    for index in range(3):
        p.produce(one.t, 10, index)
    assert one.fetch().count("acq=0~9x1") == 3


@pytest.mark.behaviour("broker")
def test_the_same_answer_has_result_and_next_records_when_a_fetch_carries_acknowledgements(p: Probe) -> None:
    """A fetch that accepts ten records acquires the next ten in the same answer."""
    one = Member(p, topic(p))
    p.produce(one.t, 10)
    one.fetch()
    for first in (10, 20):
        p.produce(one.t, 10)
        answer = one.fetch(f"{first - 10}~{first - 1}:1")
        assert "ae=0" in answer
        assert acquired(answer) == f"{first}~{first + 9}x1"


@pytest.mark.behaviour("broker")
@pytest.mark.parametrize("rides", [False, True])
def test_released_records_come_back_with_count_two(p: Probe, rides: bool) -> None:
    """Released records are acquired by the next fetch, or by the very fetch that releases them, with count 2."""
    one = Member(p, topic(p))
    p.produce(one.t, 10)
    one.fetch()
    if not rides:
        assert one.ack("0~9:2") == "0"
    assert acquired(one.fetch("0~9:2" if rides else None, wait=500)) == "0~9x2"


@pytest.mark.behaviour("broker")
def test_released_records_come_with_the_fetch_after_when_the_broker_is_a_4_1() -> None:
    """Up to Kafka 4.1 the fetch that releases records does not have them yet; the one after does."""
    p = Probe("4.1")
    one = Member(p, topic(p), UUID_MEMBER)
    p.produce(one.t, 10)
    one.fetch()
    assert acquired(one.fetch("0~9:2", wait=500)) == ""
    assert acquired(one.fetch()) == "0~9x2"


@pytest.mark.behaviour("broker")
@pytest.mark.parametrize("rides", [False, True])
def test_rejected_records_never_come_back(p: Probe, rides: bool) -> None:
    """Rejected records are gone for good, whichever request rejects them."""
    one = Member(p, topic(p))
    p.produce(one.t, 10)
    one.fetch()
    p.produce(one.t, 10)
    if not rides:
        assert one.ack("0~9:3") == "0"
    assert acquired(one.fetch("0~9:3" if rides else None)) == "10~19x1"


@pytest.mark.behaviour("broker")
def test_a_fetch_ends_with_the_batch_that_would_pass_its_bytes(p: Probe) -> None:
    """A fetch returns the record batches that fit into its limit of bytes; the others come with the next fetch."""
    one = Member(p, topic(p))
    for _ in range(10):
        p.produce(one.t, 1, size=1)
    for _ in range(3):
        p.produce(one.t, 1, size=LIMIT_BYTES // 3)
    assert acquired(one.fetch(max_bytes=LIMIT_BYTES)) == "0~11x1"
    assert acquired(one.fetch(max_bytes=LIMIT_BYTES)) == "12~12x1"


@pytest.mark.behaviour("broker")
def test_offsets_that_were_never_acquired_are_refused_according_to_where_they_lie(p: Probe) -> None:
    """Acknowledging records that were never acquired is refused, with an error that depends on where they lie."""
    unloaded = p.topic("u")
    p.initialize("g", unloaded)
    one = Member(p, topic(p))
    one.fetch()
    assert one.ack("0~0:1") == NOT_HELD
    assert one.ack("0~0:1", unloaded) == "3:UNKNOWN_TOPIC_OR_PARTITION"
    p.produce(one.t, 10)
    one.fetch()
    assert one.ack("5~10:1") == "42:INVALID_REQUEST"
    assert one.ack("0~9:1") == "0"


@pytest.mark.behaviour("broker")
def test_records_of_another_member_cannot_be_acknowledged(p: Probe) -> None:
    """Records that another member holds cannot be acknowledged, neither alone nor among a member's own."""
    t = topic(p)
    holder, other = Member(p, t, "M1"), Member(p, t, "M2")
    p.produce(t, 10)
    holder.fetch()
    other.fetch()
    assert other.ack("0~9:1") == NOT_HELD
    assert other.ack("3~4:1") == NOT_HELD
    assert holder.ack("0~9:1") == "0"


@pytest.mark.behaviour("broker")
def test_an_acknowledgement_counts_once(p: Probe) -> None:
    """What was released or rejected is not acquired any more: a second acknowledgement is refused."""
    one = Member(p, topic(p))
    p.produce(one.t, 10)
    one.fetch()
    assert one.ack("5~9:2") == "0"
    assert one.ack("5~9:1") == NOT_HELD
    assert acquired(one.fetch()) == "5~9x2"
    assert one.ack("6~8:3") == "0"
    assert one.ack("6~8:3") == NOT_HELD


@pytest.mark.behaviour("explicit acknowledgement")
def test_a_repeated_acceptance_succeeds_at_the_head_and_fails_in_the_middle(p: Probe) -> None:
    """Accepting records again succeeds if the group's start has moved past them, and is refused if not."""
    one = Member(p, topic(p))
    p.produce(one.t, 10)
    one.fetch()
    assert [one.ack("0~2:1"), one.ack("0~2:1")] == ["0", "0"]
    assert [one.ack("5~6:1"), one.ack("5~6:1")] == ["0", NOT_HELD]


@pytest.mark.behaviour("broker")
@pytest.mark.parametrize(("version", "fetched"), [("4.3", "-1:UNKNOWN_SERVER_ERROR"), ("4.4", "100:UNKNOWN_TOPIC_ID")])
def test_what_the_broker_does_not_know_is_named_by_its_own_error(version: str, fetched: str) -> None:
    """An unknown topic id fails the whole fetch up to 4.3, its partition from 4.4; unknown partitions fail alone."""
    p = Probe(version)
    one = Member(p, topic(p))
    one.fetch()
    assert one.ack("0~0:1", UUID(int=99)) == "100:UNKNOWN_TOPIC_ID"
    assert one.ack("0~0:1", partition=7) == "3:UNKNOWN_TOPIC_OR_PARTITION"
    c = p.connect()
    assert f"e={fetched}" in p.fetch(c, "g", "M2", 0, [(UUID(int=99), 0, "")], wait=0)
    assert "[t-7 e=3:UNKNOWN_TOPIC_OR_PARTITION" in p.fetch(c, "g", "M3", 0, [(one.t, 7, "")], wait=0)


@pytest.mark.behaviour("broker")
def test_leader_and_records_are_there_but_empty_when_a_partition_has_only_a_result(p: Probe) -> None:
    """A partition that is answered only for its acknowledgements has empty records, not null."""
    one = Member(p, topic(p))
    p.produce(one.t, 10)
    one.fetch()
    p.send_fetch(one.connection, "g", "M1", 1, [(one.t, 0, "0~9:1")], wait=0)
    (_, response) = one.connection.replies.pop()
    (entry,) = response.responses[0].partitions
    assert (entry.current_leader.leader_id, entry.current_leader.leader_epoch) == (0, 0)
    assert entry.records == b""
    assert entry.acknowledge_error_code == 0


@pytest.mark.behaviour("broker")
def test_only_the_released_middle_comes_back_when_the_rest_of_the_batch_is_held(p: Probe) -> None:
    """Records released from the middle of an acquired batch come with the next fetch, with count 2; others do not."""
    one = Member(p, topic(p))
    p.produce(one.t, 10)
    p.produce(one.t, 5)
    one.fetch()
    assert one.ack("12~13:2") == "0"
    p.produce(one.t, 1)
    assert acquired(one.fetch()) == "12~13x2,15~15x1"


@pytest.mark.behaviour("several members")
def test_three_members_acquire_records_one_behind_the_other(p: Probe) -> None:
    """Members of one group that fetch from one partition acquire records behind each other's, never the same."""
    t = topic(p)
    for _ in range(100):
        p.produce(t, 10)
    found = [acquired(Member(p, t, name).fetch(records=300, batch=1000)) for name in ("M1", "M2", "M3")]
    assert found == ["0~299x1", "300~599x1", "600~899x1"]


@pytest.mark.behaviour("several members")
def test_members_of_different_groups_acquire_the_same_records(p: Probe) -> None:
    """Each group has its own state: three groups acquire the same ten records."""
    t = topic(p, "g1", "g2", "g3")
    p.produce(t, 10)
    assert [acquired(Member(p, t, "M1", group).fetch()) for group in ("g1", "g2", "g3")] == ["0~9x1"] * 3


@pytest.mark.behaviour("several members")
def test_every_partition_has_its_turn_when_a_fetch_may_take_one_record(p: Probe) -> None:
    """Fetches of one record each begin with another partition each time, so that none starves."""
    one = Member(p, topic(p, partitions=3), partitions=3)
    for index in range(3):
        for _ in range(9):
            p.produce(one.t, 1, index)
    turns = [answer.split("[t-")[1:] for answer in (one.fetch(records=1) for _ in range(9))]
    with_records = [entry[0] for entries in turns for entry in entries if "acq= " not in entry]
    assert {index: with_records.count(index) >= 2 for index in "012"} == dict.fromkeys("012", True)


@pytest.mark.behaviour("start offset")
def test_the_state_begins_at_the_log_start_when_records_were_deleted_before_it_was_loaded(p: Probe) -> None:
    """A group whose start was deleted from the log goes on at the log's start, with its second fetch."""
    t = p.topic("t")
    p.initialize("g", t)
    p.produce(t, 10)
    p.log(t).delete_records(5)
    one = Member(p, t)
    assert acquired(one.fetch(wait=500)) == ""
    assert acquired(one.fetch(wait=500)) == "5~9x1"
    assert " so=0 " in p.offsets("g", t)
    assert one.ack("5~6:1") == "0"
    assert " so=5 " in p.offsets("g", t)


@pytest.mark.behaviour("commits")
@pytest.mark.parametrize(
    ("said", "code"),
    [
        ("0~2:1,1", "42"),
        ("0~2:", "42"),
        ("3~2:1", "42"),
        ("0~2:5", "42"),
        ("0~3:1;2~4:1", "42"),
        ("0~1:1;1~2:1", "121"),
    ],
)
def test_only_its_partition_fails_when_acknowledgement_batches_cannot_be(p: Probe, said: str, code: str) -> None:
    """A malformed acknowledgement fails for its own partition; those of other partitions in the request count."""
    one = Member(p, topic(p, partitions=2), partitions=2)
    for index in range(2):
        p.produce(one.t, 5, index)
    one.fetch()
    answer = p.ack(one.connection, "g", "M1", 1, [(one.t, 0, said), (one.t, 1, "0~4:1")])
    assert f"[t-0 e={code}:" in answer
    assert "[t-1 e=0]" in answer
    assert p.ack(one.connection, "g", "M1", 2, [(one.t, 0, "0~4:1")]).endswith("[t-0 e=0]")
