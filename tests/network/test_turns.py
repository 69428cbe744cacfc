"""Turns of a core without a loop, a thread or a clock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from network.peer import Do, ScriptedCore

from kafka_share.core.events import (
    BatchReclaimed,
    Channel,
    CompleteUnsubscribe,
    Deliver,
    Disconnect,
    FetchedBatch,
    FinishClose,
    GatherAcknowledgements,
    Log,
    Output,
    PollEnded,
    Reclaim,
    Send,
)
from kafka_share.network.mailbox import ConsumerPort, Mailbox
from kafka_share.network.turns import Turns
from kafka_share.protocol.cluster import MetadataRequest
from kafka_share.records import Node

SEND = Send(1, Node(1, "broker.example", 9092), Channel.CONTROL, MetadataRequest(topics=[]), 1_000)


class World:
    """Notes what the turns do, in its order: connections, log and application in one."""

    def __init__(self, react: Callable[[Any], list[Output]] | None = None) -> None:
        self.done: list[Any] = []
        self.now_ms = 0
        self.core = ScriptedCore(react)
        self.turns = Turns(self.core, self, lambda: self.now_ms, lambda name, *_: self.done.append(name))
        self.turns.connections = self  # type: ignore[assignment]  # all that the turns call of them is here

    def run(self, *outputs: Output) -> list[Any]:
        self.turns.post(Do(outputs))
        assert self.turns.step()
        done, self.done = self.done, []
        return done

    def to(self, node: Node, channel: Channel) -> World:
        assert (node, channel) == (SEND.node, SEND.channel)
        return self

    def send(self, send: Send) -> None:
        self.done.append(send)
        assert not self.turns.step(), "a step inside of a step"

    def disconnect(self, disconnect: Disconnect) -> None:
        self.done.append(disconnect)

    def take(self, output: Any, post: Callable[[Any], None]) -> None:
        self.done.append(output)
        if isinstance(output, Reclaim):
            post(BatchReclaimed(output.batch_id))

    def flush(self) -> None:
        self.done.append("flush")

    def failed(self, error: BaseException) -> None:
        raise AssertionError

    def ended(self) -> None:
        raise AssertionError


def test_outputs_go_where_they_belong_in_their_order() -> None:
    """Requests leave before the application is handed what was taken for it."""
    outputs: list[Output] = [Log("group-joined", {}), CompleteUnsubscribe(1), SEND, Disconnect(2)]
    assert World().run(*outputs) == ["group-joined", *outputs[1:], "flush"]


def test_another_round_follows_when_the_application_answers_at_once() -> None:
    world = World(react=lambda event: [CompleteUnsubscribe(event.batch_id)])
    assert world.run(Reclaim(7)) == [Reclaim(7), "flush", CompleteUnsubscribe(7), "flush"]


def test_nothing_more_is_done_when_the_core_has_finished() -> None:
    world = World()
    world.core.wake_at = 5
    assert world.turns.wake_at_ms() == 5
    assert world.run(FinishClose()) == [FinishClose(), "flush"]
    assert world.turns.is_finished
    world.turns.post(PollEnded())
    assert not world.turns.step()
    assert world.core.events.empty()
    assert world.turns.wake_at_ms() is None


def test_commands_are_measured_when_they_wait() -> None:
    world = World()
    world.turns.post(PollEnded())
    assert world.core.measurements.events_waiting() == 1
    world.now_ms += 30
    world.turns.step()
    measured = world.core.measurements
    assert (measured.events_waiting(), measured.event_waits.count, measured.event_waits.sum) == (0, 1, 30)
    world.now_ms += 12
    world.turns.step()
    assert (measured.steps.count, measured.steps.sum, measured.event_waits.count) == (1, 12, 1)


def test_the_next_step_works_when_one_has_raised() -> None:
    world = World()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(world.core, "handle", _broken)
        with pytest.raises(ZeroDivisionError):
            world.run()
    assert world.run(SEND) == [SEND, "flush"]


def _broken(*_: object) -> None:
    raise ZeroDivisionError


class Window:
    def __init__(self, mailbox: Mailbox) -> None:
        self.seen: list[Any] = []
        self._mailbox = mailbox

    def tell_outcomes(self, outputs: Any) -> None:
        assert self._mailbox.take(0) == [], "the mailbox has them already"
        self.seen += outputs

    def post_acknowledgements(self, post: Callable[[Any], None]) -> None:
        post(PollEnded())

    def ended(self) -> None:
        self.seen.append("ended")


def deliver(batch_id: int) -> Deliver:
    return Deliver(FetchedBatch(batch_id, (), acquired_at_ms=0, acquisition_lock_timeout_ms=30_000))


def test_the_open_window_sees_outputs_before_the_mailbox_has_them() -> None:
    mailbox = Mailbox()
    window = Window(mailbox)
    port = ConsumerPort(mailbox, window)
    posted: list[Any] = []
    port.take(deliver(1), posted.append)
    assert mailbox.take(0) == []
    port.flush()
    assert window.seen == mailbox.take(0) == [deliver(1)]
    port.take(GatherAcknowledgements(), posted.append)
    assert posted == [PollEnded()]
    port.ended()
    assert window.seen[-1] == "ended"
    assert mailbox.is_stopped


def test_a_batch_can_be_reclaimed_in_the_round_that_delivered_it() -> None:
    mailbox = Mailbox()
    port = ConsumerPort(mailbox)
    posted: list[Any] = []
    for output in (deliver(1), Reclaim(1), Reclaim(2)):
        port.take(output, posted.append)
    assert posted == [BatchReclaimed(1)]
    assert mailbox.take(0) == []
