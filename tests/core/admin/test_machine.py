"""The machine that runs admin operations: which broker is asked, when one that failed is asked again, how calls end."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest
from core.admin.scripted_admin import BOOTSTRAP, NODES, Cluster, in_turn, run, script

from kafka_share.config import ShareAdminConfig
from kafka_share.core.admin import configs, groups
from kafka_share.core.admin.conversation import Ask, Call, Conversation, Question
from kafka_share.core.admin.events import AdminOutput, CallCancelled, CallStarted, CompleteCall
from kafka_share.core.admin.machine import AdminCore
from kafka_share.core.events import (
    Channel,
    CloseRequested,
    ConnectionLost,
    FinishClose,
    RequestFailed,
    ResponseReceived,
    Send,
)
from kafka_share.errors import (
    BrokerUnreachableError,
    IllegalStateError,
    InternalError,
    KafkaShareError,
    OperationTimeoutError,
    RebootstrapRequiredError,
    UnsupportedVersionError,
)
from kafka_share.protocol.cluster import MetadataRequest, MetadataResponse
from kafka_share.protocol.groups import ListGroupsRequest, ListGroupsResponse

OTHER = BOOTSTRAP._replace(id=-2, host="boot2")
LOST = BrokerUnreachableError("it broke")


def core(*bootstrap: Any, **settings: Any) -> AdminCore:
    return AdminCore(
        ShareAdminConfig(
            bootstrap_servers=[f"{node.host}:{node.port}" for node in bootstrap or (BOOTSTRAP,)], **settings
        ),
        random.Random(1),
    )


def ask_once(call: Call) -> Conversation[Any]:
    """An operation of one question to any broker, which returns what came."""
    (reply,) = yield Ask((Question(MetadataRequest(topics=[])),))
    return reply


def sends(outputs: Sequence[AdminOutput]) -> list[Send]:
    return [output for output in outputs if isinstance(output, Send)]


def started(machine: AdminCore, operation: Any = ask_once, *, call_id: int = 1, timeout_ms: int = 5_000) -> list[Send]:
    machine.handle(CallStarted(call_id, operation, timeout_ms), 0)
    machine.check()
    return sends(machine.poll(0))


# ---- which broker


def test_brokers_are_asked_instead_of_bootstrap_addresses_when_they_are_known() -> None:
    """Once the cluster has been described, questions go to its brokers by their own ids."""
    machine, cluster = core(), Cluster()
    (first,) = started(machine)
    assert first.node == BOOTSTRAP
    machine.handle(ResponseReceived(first.send_id, cluster.answer(first.request, -1)), 1)
    machine.poll(1)
    (second,) = started(machine, call_id=2)
    assert second.node == NODES[1]


def test_a_broker_that_owes_an_answer_is_not_asked_when_another_one_is_free() -> None:
    """Answers come in order on a connection, so a question goes where none is awaited."""
    machine, cluster = core(), Cluster()
    (first,) = started(machine)
    machine.handle(ResponseReceived(first.send_id, cluster.answer(first.request, -1)), 0)
    machine.poll(0)
    asked = [started(machine, call_id=call_id)[0].node.id for call_id in range(2, 6)]
    assert asked == [1, 2, 3, -1]


def test_several_questions_at_once_avoid_the_connection_whose_answer_hangs() -> None:
    """When answers are awaited on every connection, a question goes where the oldest of them is youngest."""
    machine, cluster = core(), Cluster()
    (first,) = started(machine)
    machine.handle(ResponseReceived(first.send_id, cluster.answer(first.request, -1)), 0)
    machine.poll(0)
    hanging = [started(machine, call_id=call_id)[0].node.id for call_id in (2, 3, 4)]
    assert hanging == [1, 2, 3]
    assert [started(machine, call_id=call_id)[0].node.id for call_id in range(5, 10)] == [-1] * 5


def test_the_next_address_is_asked_when_one_fails() -> None:
    """A bootstrap address that cannot be reached is left alone for a while; the next one is asked at once."""
    machine = core(BOOTSTRAP, OTHER)
    (first,) = started(machine, lambda call: _until_answered(call))
    machine.handle(RequestFailed(first.send_id, LOST), 10)
    (second,) = sends(machine.poll(10))
    assert (first.node, second.node) == (BOOTSTRAP, OTHER)


def _until_answered(call: Call) -> Conversation[Any]:
    while True:
        (reply,) = yield Ask((Question(MetadataRequest(topics=[])),))
        if not isinstance(reply, KafkaShareError) or call.is_over():
            return reply


def test_a_broker_is_not_asked_in_a_hot_loop_when_it_is_the_only_one() -> None:
    """After each failure the pause before the next attempt grows, up to its limit."""
    machine = core(reconnect_backoff_ms=50, reconnect_backoff_max_ms=400)
    (send,) = started(machine, _until_answered, timeout_ms=60_000)
    pauses, now_ms = [], 0
    for _ in range(6):
        machine.handle(RequestFailed(send.send_id, LOST), now_ms)
        assert sends(machine.poll(now_ms)) == []
        wake_at_ms = machine.wake_at_ms()
        assert wake_at_ms is not None
        pauses.append(wake_at_ms - now_ms)
        now_ms = wake_at_ms
        (send,) = sends(machine.poll(now_ms))
    for pause, span in zip(pauses, (50, 100, 200, 400, 400, 400), strict=True):
        assert 0.8 * span <= pause <= 1.2 * span


def test_a_broker_that_throttles_is_left_alone_for_as_long() -> None:
    """The silence that an answer asks for is kept; other brokers are asked meanwhile."""
    machine, cluster = core(), Cluster()
    (first,) = started(machine)
    answer = cluster.answer(first.request, -1)
    machine.handle(ResponseReceived(first.send_id, answer), 0)
    machine.poll(0)
    (second,) = started(machine, call_id=2)
    again = cluster.answer(second.request, 1)
    again.throttle_time_ms = 500
    machine.handle(ResponseReceived(second.send_id, again), 0)
    machine.poll(0)
    (third,) = started(machine, call_id=3)
    assert (second.node.id, third.node.id) == (1, 2)


def test_the_bootstrap_addresses_are_used_again_when_a_broker_says_so() -> None:
    """REBOOTSTRAP_REQUIRED makes the client forget the brokers that it knew."""
    cluster = Cluster()
    refusal = MetadataResponse(error_code=RebootstrapRequiredError.code, brokers=[], topics=[])
    listed = ListGroupsResponse(error_code=0, groups=[])
    answers = script((MetadataRequest, in_turn(refusal, cluster.answer)), (ListGroupsRequest, lambda *_: listed))
    assert run(groups.list_groups(None, None), answers, cluster).groups == ()
    assert [node for _, node in cluster.requests(MetadataRequest)] == [-1, -1]


def test_a_version_that_a_broker_lacks_says_nothing_against_its_connection() -> None:
    """UnsupportedVersionError is the answer to the question; the broker may be asked the next one at once."""
    machine = core()
    (send,) = started(machine)
    machine.handle(RequestFailed(send.send_id, UnsupportedVersionError("no")), 3)
    (done,) = machine.poll(3)
    assert isinstance(done, CompleteCall)
    assert isinstance(done.value, UnsupportedVersionError)
    assert len(started(machine, call_id=2)) == 1


# ---- time


def test_requests_end_with_the_call_when_that_is_sooner() -> None:
    """A request may take the request timeout, but not longer than what is left of the call."""
    assert started(core(request_timeout_ms=700), timeout_ms=5_000)[0].timeout_ms == 700
    assert started(core(request_timeout_ms=7_000), timeout_ms=5_000)[0].timeout_ms == 5_000


def test_a_call_ends_at_its_deadline_and_late_answers_find_nobody() -> None:
    """Silence is answered with OperationTimeoutError at the deadline; what comes later is dropped."""
    machine, cluster = core(), Cluster()
    (send,) = started(machine, timeout_ms=1_000)
    assert machine.wake_at_ms() == 1_000
    assert machine.poll(999) == []
    (done,) = machine.poll(1_000)
    assert isinstance(done, CompleteCall)
    assert isinstance(done.value, OperationTimeoutError)
    machine.handle(ResponseReceived(send.send_id, cluster.answer(send.request, -1)), 1_001)
    assert machine.poll(1_001) == []
    machine.check()


def test_a_call_without_time_asks_nobody() -> None:
    """A timeout of 0 ends at once, without a request."""
    machine = core()
    machine.handle(CallStarted(1, configs.describe_group_configs(["g"]), 0), 0)
    (done,) = machine.poll(0)
    assert isinstance(done, CompleteCall)
    assert isinstance(done.error, OperationTimeoutError)


# ---- several calls, and their ends


def test_calls_run_side_by_side() -> None:
    """A call that waits does not hold up another one, and answers find their own call."""
    machine, cluster = core(), Cluster()
    (first,) = started(machine)
    (second,) = started(machine, call_id=2)
    machine.handle(ResponseReceived(second.send_id, cluster.answer(second.request, -1)), 1)
    (done,) = machine.poll(1)
    assert isinstance(done, CompleteCall)
    assert done.call_id == 2
    machine.handle(RequestFailed(first.send_id, LOST), 2)
    (done,) = machine.poll(2)
    assert isinstance(done, CompleteCall)
    assert (done.call_id, done.value) == (1, LOST)


def test_a_cancelled_call_is_forgotten() -> None:
    """Nobody waits any more: its generator is closed, and its answer is dropped."""
    machine, cluster = core(), Cluster()
    closed = []

    def watched(call: Call) -> Conversation[Any]:
        try:
            return (yield from ask_once(call))
        finally:
            closed.append(True)

    (send,) = started(machine, watched)
    machine.handle(CallCancelled(1), 1)
    machine.handle(CallCancelled(1), 1)
    assert closed == [True]
    machine.handle(ResponseReceived(send.send_id, cluster.answer(send.request, -1)), 2)
    assert machine.poll(2) == []
    assert machine.wake_at_ms() is None


def test_every_call_fails_when_the_client_is_closed() -> None:
    """Closing ends the calls under way with IllegalStateError, then the driver may stop; later calls fail at once."""
    machine = core()
    started(machine)
    machine.handle(CloseRequested((), 0), 5)
    done, finish = machine.poll(5)
    assert isinstance(done, CompleteCall)
    assert isinstance(done.error, IllegalStateError)
    assert finish == FinishClose()
    machine.handle(CallStarted(2, ask_once, 100), 6)
    (done,) = machine.poll(6)
    assert isinstance(done, CompleteCall)
    assert isinstance(done.error, IllegalStateError)
    machine.check()


def test_a_defect_of_one_operation_does_not_end_the_others() -> None:
    """An exception that is none of ours becomes InternalError of its own call."""

    def broken(call: Call) -> Conversation[Any]:
        yield from ask_once(call)
        raise KeyError("a defect")

    machine, cluster = core(), Cluster()
    (send,) = started(machine, broken)
    started(machine, call_id=2)
    machine.handle(ResponseReceived(send.send_id, cluster.answer(send.request, -1)), 1)
    (done,) = machine.poll(1)
    assert isinstance(done, CompleteCall)
    assert isinstance(done.error, InternalError)
    assert isinstance(done.error.__cause__, KeyError)
    assert machine.wake_at_ms() == 5_000


def test_a_lost_idle_connection_changes_nothing() -> None:
    """The next question opens another one."""
    machine = core()
    machine.handle(ConnectionLost(1, Channel.CONTROL, LOST), 1)
    assert machine.poll(1) == []
    assert len(started(machine)) == 1


def test_an_operation_that_ignores_its_deadline_is_a_defect() -> None:
    """A generator that asks on and on after the end is stopped by an assertion instead of spinning."""

    def endless(call: Call) -> Conversation[Any]:
        while True:
            yield call.pause()

    machine = core()
    machine.handle(CallStarted(1, endless, 0), 0)
    with pytest.raises(AssertionError, match="after its deadline"):
        machine.poll(0)
