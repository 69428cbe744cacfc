"""Runs the operations of one admin client: their questions become requests, the answers go back to them.

Owned by the driver, like the consumer's core, and with the same contract (`core.events`). It decides three things only:
which broker gets a question that names none, when a broker that failed may be asked again, and when a call is over.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from kafka_share.config import ShareAdminConfig
from kafka_share.core.admin.conversation import Ask, Call, Conversation, Pause, Question, Reply, Step
from kafka_share.core.admin.events import AdminEvent, AdminOutput, CallCancelled, CallStarted, CompleteCall
from kafka_share.core.admin.nodes import Nodes
from kafka_share.core.events import (
    Channel,
    CloseRequested,
    FinishClose,
    Message,
    RequestFailed,
    ResponseReceived,
)
from kafka_share.core.metadata import usable_node
from kafka_share.core.metrics.measurements import Measurements
from kafka_share.core.outputs import Requests
from kafka_share.errors import (
    IllegalStateError,
    InternalError,
    KafkaShareError,
    RebootstrapRequiredError,
)
from kafka_share.protocol.cluster import MetadataResponse
from kafka_share.records import Node

_STEPS_AFTER_THE_END = 100
"""An operation that still asks this often after its deadline does not look at the time."""


class _Run:
    """One call: its generator, and the step that it waits for."""

    def __init__(self, call_id: int, call: Call, conversation: Conversation[Any]) -> None:
        self.call_id = call_id
        self.call = call
        self.conversation = conversation
        self.steps_after_the_end = 0
        self.pause_until_ms: int | None = None
        self.unsent: dict[int, Question] = {}
        """Position of the question in its `Ask` -> question."""
        self.replies: list[Reply | None] = []

    def take(self, step: Step) -> None:
        if isinstance(step, Pause):
            self.pause_until_ms = step.until_ms
            self.unsent, self.replies = {}, []
        else:
            assert isinstance(step, Ask), f"an operation yields Ask or Pause, not {step!r}"
            self.pause_until_ms = None
            self.unsent = dict(enumerate(step.questions))
            self.replies = [None] * len(step.questions)

    def is_ready(self, now_ms: int) -> bool:
        if self.pause_until_ms is not None:
            return now_ms >= min(self.pause_until_ms, self.call.deadline_at_ms)
        return all(reply is not None for reply in self.replies)


class AdminCore:
    """See the module's docstring. `source` makes the jitter of the back-offs."""

    def __init__(self, config: ShareAdminConfig, source: random.Random) -> None:
        self._config = config
        self._source = source
        self.measurements: Measurements = Measurements()
        """The network side records into it, as it does for a consumer; nobody reads an admin client's numbers."""
        self._requests = Requests(config, self._put, source)
        self._nodes = Nodes(config.bootstrap_servers, self._requests)
        self._runs: dict[int, _Run] = {}
        self._outputs: list[AdminOutput] = []
        self._wake_at_ms: int | None = None
        self._is_closed = False

    # ---- the contract of a machine

    def handle(self, event: AdminEvent, now_ms: int) -> None:
        if isinstance(event, ResponseReceived):
            self._requests.answered(event.send_id, event.response, now_ms)
        elif isinstance(event, RequestFailed):
            self._requests.failed(event.send_id, event.error, now_ms)
        elif isinstance(event, CallStarted):
            self._start(event, now_ms)
        elif isinstance(event, CallCancelled):
            run = self._runs.pop(event.call_id, None)
            if run is not None:
                run.conversation.close()
        elif isinstance(event, CloseRequested):
            self._close()

    def poll(self, now_ms: int) -> list[AdminOutput]:
        self._wake_at_ms = None
        for run in tuple(self._runs.values()):
            self._advance(run, now_ms)
        outputs, self._outputs = self._outputs, []
        return outputs

    def _put(self, output: AdminOutput) -> None:
        self._outputs.append(output)

    def wake_at_ms(self) -> int | None:
        return self._wake_at_ms

    def check(self) -> None:
        self._requests.check()
        assert not (self._is_closed and self._runs), "a call goes on after the end"
        for run in self._runs.values():
            assert all(0 <= index < len(run.replies) for index in run.unsent), (
                "a question without a place for its reply"
            )
            assert all(run.replies[index] is None for index in run.unsent), "a reply to a question that was not sent"

    # ---- calls

    def _start(self, event: CallStarted, now_ms: int) -> None:
        assert event.call_id not in self._runs, f"two calls have the id {event.call_id}"
        if self._is_closed:
            self._finish_with(event.call_id, IllegalStateError("The admin client has been closed."))
            return
        config = self._config
        call = Call.begin(now_ms, event.timeout_ms, config.retry_backoff_ms, config.retry_backoff_max_ms, self._source)
        run = _Run(event.call_id, call, event.operation(call))
        self._runs[event.call_id] = run
        self._resume(run, None)

    def _close(self) -> None:
        self._is_closed = True
        for call_id, run in tuple(self._runs.items()):
            run.conversation.close()
            self._finish_with(call_id, IllegalStateError("The admin client was closed while this call was under way."))
        self._outputs.append(FinishClose())

    def _finish_with(self, call_id: int, error: KafkaShareError) -> None:
        self._runs.pop(call_id, None)
        self._outputs.append(CompleteCall(call_id, None, error))

    def _advance(self, run: _Run, now_ms: int) -> None:
        run.call.now_ms = now_ms
        while run.call_id in self._runs:
            if run.call.is_over():
                self._time_out(run)
            else:
                self._send_what_can_be_sent(run, now_ms)
            if not run.is_ready(now_ms):
                self._wake(run.call.deadline_at_ms)
                if run.pause_until_ms is not None:
                    self._wake(run.pause_until_ms)
                return
            replies = [reply for reply in run.replies if reply is not None]
            self._resume(run, replies)

    def _resume(self, run: _Run, replies: Sequence[Reply] | None) -> None:
        try:
            run.take(next(run.conversation) if replies is None else run.conversation.send(replies))
        except StopIteration as end:
            del self._runs[run.call_id]
            self._outputs.append(CompleteCall(run.call_id, end.value, None))
        except KafkaShareError as error:
            self._finish_with(run.call_id, error)
        except Exception as error:  # noqa: BLE001 - a defect of one operation must not end the others
            defect = InternalError(f"an admin operation failed: {error!r}")
            defect.__cause__ = error
            self._finish_with(run.call_id, defect)

    def _time_out(self, run: _Run) -> None:
        """Nothing more is sent, and answers that are still awaited find nobody."""
        run.steps_after_the_end += 1
        assert run.steps_after_the_end <= _STEPS_AFTER_THE_END, "an operation goes on and on after its deadline"
        run.unsent = {}
        run.replies = [run.call.timed_out() if reply is None else reply for reply in run.replies]

    # ---- requests

    def _send_what_can_be_sent(self, run: _Run, now_ms: int) -> None:
        for index, question in tuple(run.unsent.items()):
            node, ready_at_ms = self._node_for(question, now_ms)
            if node is None:
                self._wake(ready_at_ms)
                continue
            del run.unsent[index]
            self._send(run, index, question, node, now_ms)

    def _node_for(self, question: Question, now_ms: int) -> tuple[Node | None, int]:
        if question.node is None:
            return self._nodes.some(now_ms)
        ready_at_ms = self._nodes.ready_at_ms(question.node.id)
        return (question.node if ready_at_ms <= now_ms else None), ready_at_ms

    def _send(self, run: _Run, index: int, question: Question, node: Node, now_ms: int) -> None:
        def answered(response: Message, _: int) -> None:
            self._nodes.answered(node.id)
            if isinstance(response, MetadataResponse):
                self._learn(response)
            self._reply(run, index, response)

        def failed(error: KafkaShareError, _: int) -> None:
            self._reply(run, index, error)

        timeout_ms = min(self._config.request_timeout_ms, run.call.deadline_at_ms - now_ms)
        self._requests.send(node, Channel.CONTROL, question.request, timeout_ms, answered, failed, question.min_version)

    def _reply(self, run: _Run, index: int, reply: Reply) -> None:
        if run.call_id in self._runs:  # otherwise its time is up, and nobody waits for this any more
            assert run.replies[index] is None, "two answers to one question"
            run.replies[index] = reply

    def _learn(self, response: MetadataResponse) -> None:
        nodes = [usable_node(b.node_id, b.host, b.port, b.rack) for b in response.brokers]
        if response.error_code == RebootstrapRequiredError.code:
            self._nodes.learned(())
        elif any(nodes):
            self._nodes.learned([node for node in nodes if node is not None])

    def _wake(self, at_ms: int) -> None:
        self._wake_at_ms = at_ms if self._wake_at_ms is None else min(self._wake_at_ms, at_ms)
