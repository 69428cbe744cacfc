"""The rules of share sessions as raw requests meet them: epochs, whose session it is, what is in it, how it ends."""

from __future__ import annotations

import re
from typing import Any
from uuid import UUID

import pytest
from broker.share.probe import Connection, Probe

M1, M2 = "M1", "M2"
NOT_FOUND, WRONG_EPOCH, INVALID = "122:SHARE_SESSION_NOT_FOUND", "123:INVALID_SHARE_SESSION_EPOCH", "42:INVALID_REQUEST"


class Broker:
    """A broker with one topic whose partitions are loaded and have ten records each, and a connection to it."""

    def __init__(self, partitions: int = 1) -> None:
        self.probe = Probe()
        self.topic_id: UUID = self.probe.topic("t", partitions)
        self.connection: Connection = self.probe.connect()
        for index in range(partitions):
            self.probe.initialize("g", self.topic_id, index)
        everything = [(self.topic_id, index, "") for index in range(partitions)]
        self.probe.fetch(self.probe.connect(), "g", "loader", 0, everything, wait=0)
        for index in range(partitions):
            self.probe.produce(self.topic_id, 10, index)

    def fetch(self, member: str, epoch: int, acks: str | None = None, *, partitions: int = 0, **options: Any) -> str:
        """The answer to a ShareFetch that names the first `partitions`, or partition 0 with acknowledgements."""
        named = [(self.topic_id, index, "") for index in range(partitions)]
        if acks is not None:
            named = [(self.topic_id, 0, acks)]
        return self.probe.fetch(self.connection, "g", member, epoch, named, **{"wait": 0, **options})

    def ack(self, member: str, epoch: int, acks: str | None = None) -> str:
        named = [] if acks is None else [(self.topic_id, 0, acks)]
        return self.probe.ack(self.connection, "g", member, epoch, named)


def error(answer: str) -> str:
    """The error of the answer as a whole; "0" if there is none."""
    return answer.split(maxsplit=1)[0].removeprefix("e=")


def listed(answer: str) -> list[int]:
    """The partitions that an answer lists."""
    return [int(index) for index in re.findall(r"\[\S*-(\d+) e=", answer)]


def acquired(answer: str) -> list[str]:
    return re.findall(r"acq=(\S+)", answer)


@pytest.mark.behaviour("share sessions")
def test_each_request_needs_the_next_epoch_when_a_session_is_open() -> None:
    """The epochs of a share session count 0, 1, 2 and so on; a wrong one is refused and changes nothing, -1 ends it."""
    broker = Broker()
    assert error(broker.fetch(M1, 0, partitions=1)) == "0"
    assert error(broker.fetch(M1, 2)) == WRONG_EPOCH
    assert error(broker.ack(M1, 2, "0~9:1")) == WRONG_EPOCH
    assert [error(broker.fetch(M1, 1)), error(broker.ack(M1, 2, "0~0:1")), error(broker.fetch(M1, 3))] == ["0"] * 3
    assert error(broker.fetch(M1, 3)) == WRONG_EPOCH
    assert error(broker.ack(M1, -1)) == "0"
    assert error(broker.fetch(M1, 4)) == NOT_FOUND


@pytest.mark.behaviour("share sessions")
def test_a_first_fetch_is_refused_and_the_session_stays_when_it_has_acknowledgements() -> None:
    """A session's first fetch may not acknowledge: it is refused, and a session that is open goes on as before."""
    broker = Broker()
    broker.fetch(M1, 0, partitions=1)
    assert error(broker.fetch(M1, 0, "0~9:1")) == INVALID
    assert error(broker.fetch(M1, 1)) == "0"
    assert error(broker.ack(M1, 2, "0~9:1")) == "0"


@pytest.mark.behaviour("share sessions")
def test_an_acknowledgement_is_refused_when_its_epoch_is_0() -> None:
    """No share session begins with an acknowledgement: it is refused with a wrong session epoch."""
    broker = Broker()
    assert error(broker.ack(M1, 0, "0~9:1")) == WRONG_EPOCH
    broker.fetch(M1, 0, partitions=1)
    assert error(broker.ack(M1, 0, "0~9:1")) == WRONG_EPOCH


@pytest.mark.behaviour("share sessions")
def test_a_session_is_known_by_its_member_only() -> None:
    """A share session belongs to one member: another member's request finds no session, whatever its epoch."""
    broker = Broker()
    broker.fetch(M1, 0, partitions=1)
    assert error(broker.fetch(M2, 1)) == error(broker.ack(M2, 1, "0~9:1")) == NOT_FOUND
    assert error(broker.fetch(M2, -1)) == error(broker.ack(M2, -1)) == NOT_FOUND


@pytest.mark.behaviour("share sessions")
def test_held_records_stay_held_when_their_session_is_replaced() -> None:
    """Replacing a share session releases nothing: acquired records can be acknowledged in the new one."""
    broker = Broker()
    assert acquired(broker.fetch(M1, 0, partitions=1)) == ["0~9x1"]
    assert acquired(broker.fetch(M1, 0, partitions=1)) == []
    assert acquired(broker.fetch(M2, 0, partitions=1)) == []
    assert broker.ack(M1, 1, "0~9:1").endswith("e=0]")


@pytest.mark.behaviour("share sessions")
def test_only_what_is_left_is_answered_when_a_partition_is_forgotten() -> None:
    """A forgotten partition is not fetched any more; naming it for an acknowledgement brings it back."""
    broker = Broker(partitions=2)
    assert listed(broker.fetch(M1, 0, partitions=2)) == [0, 1]
    for partition in range(2):
        broker.probe.produce(broker.topic_id, 10, partition)
    answer = broker.fetch(M1, 1, forget=[(broker.topic_id, [0])])
    assert (listed(answer), acquired(answer)) == ([1], ["10~19x1"])
    again = broker.fetch(M1, 2, "0~9:1")
    assert (listed(again), acquired(again)) == ([0], ["10~19x1"])


@pytest.mark.behaviour("share sessions")
def test_only_partitions_with_news_are_listed_when_a_session_goes_on() -> None:
    """Later answers of a session list only new partitions and those with records, results or an error."""
    broker = Broker(partitions=2)
    broker.fetch(M1, 0, partitions=2)
    assert listed(broker.fetch(M1, 1)) == []
    broker.probe.produce(broker.topic_id, 1, 1)
    assert listed(broker.fetch(M1, 2)) == [1]
    assert listed(broker.fetch(M1, 3, "0~9:1")) == [0]
    unknown = broker.probe.fetch(broker.connection, "g", M1, 4, [(broker.topic_id, 9, "")], wait=0)
    assert (listed(unknown), listed(broker.fetch(M1, 5))) == ([9], [9])


def test_a_fetch_that_waits_gets_what_is_free_when_its_session_ends_on_another_connection() -> None:
    """A session that ends while a fetch of its own waits answers that fetch, whatever it gets out of that."""
    broker = Broker(partitions=2)
    broker.fetch(M2, 0, partitions=2)
    broker.fetch(M1, 0, partitions=2)
    waiting = broker.probe.connect()
    broker.probe.send_fetch(waiting, "g", M1, 1, wait=5_000)
    broker.ack(M2, 1, "0~9:2")
    assert not waiting.replies
    assert error(broker.ack(M1, -1)) == "0"
    assert acquired(broker.probe.receive(waiting)) == ["0~9x2"]
