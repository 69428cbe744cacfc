"""A poll that fetches by itself: when it gives the session back, and whether the core is woken for it."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from simulation.line import SimulatedLine

from kafka_share.application.direct import DirectPolls, Wait
from kafka_share.core.events import Lend, SessionReturned
from kafka_share.errors import WakeupError
from kafka_share.locks import LockGeneration
from kafka_share.network.direct import DirectSession
from kafka_share.protocol.direct_fetch import FetchTemplate
from kafka_share.records import Node, TopicIdPartition

LIMITS = (500, 1, 1_000_000, 500)
WHERE = TopicIdPartition(uuid.UUID(int=5), "t", 0)


class Surroundings:
    """All that a poll needs: an application that subscribes to "t", a mailbox with a session, and a core."""

    def __init__(self) -> None:
        self.topics = frozenset({"t"})
        self.posted: list[tuple[SessionReturned, bool]] = []
        """With whether the core was woken."""
        lend = Lend(1, Node(1, "h", 9092), 7, 3, ((WHERE, LockGeneration()),), self.topics, 100, "g", "m", LIMITS)
        self.line = SimulatedLine(lambda *_: None, lambda: None)
        template = FetchTemplate(2, "c", "g", "m", LIMITS)
        self.direct: DirectSession | None = DirectSession(lend, self.line, template, 0, lambda: 0)
        application: Any = self
        self.polls = DirectPolls(application, self, self)

    def post(self, event: Any, *, wake: bool = True) -> None:
        self.posted.append((event, wake))

    def waiting(self) -> Any:
        """A poll that has sent its fetch, and waits."""
        direct = self.polls.fetch([])
        assert direct is not None
        wait = self.polls.wait(direct, 1_000)
        assert next(wait) == Wait(1_000, with_records=True, direct=direct)
        return wait


def ended(wait: Any) -> bool:
    with pytest.raises(StopIteration) as end:
        next(wait)
    return bool(end.value.value)


def test_the_session_goes_back_with_its_fetch_when_no_answer_comes_in_time() -> None:
    """The poll asks the core right after that, which wakes it."""
    around = Surroundings()
    assert not ended(around.waiting())
    ((event, is_woken),) = around.posted
    assert event.flight is not None
    assert not is_woken
    assert around.direct is None
    assert around.polls.fetch([]) is None


def test_the_core_is_woken_when_the_poll_ends_by_an_error() -> None:
    """Nobody reads the answer before the core knows of it."""
    around = Surroundings()
    wait = around.waiting()
    with pytest.raises(WakeupError):
        wait.throw(WakeupError("wakeup() was called"))
    ((event, is_woken),) = around.posted
    assert event.flight is not None
    assert is_woken


def test_what_an_interrupted_poll_holds_goes_back_with_the_next_call() -> None:
    around = Surroundings()
    around.waiting()
    around.polls.recover()
    assert [is_woken for _, is_woken in around.posted] == [True]
    around.polls.recover()
    assert len(around.posted) == 1
