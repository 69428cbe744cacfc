"""A driver without a network for tests of the admin core: virtual time, and answers that the test scripts.

`run` plays the driver for one operation on three nodes. What the operation asks is answered by the script: a function
of (request, node id) that returns a response, an exception (no answer), or None (silence). Metadata and FindCoordinator
have answers of their own, which a script may replace by answering first.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any
from uuid import UUID

from kafka_share.config import ShareAdminConfig
from kafka_share.core.admin.conversation import Operation
from kafka_share.core.admin.events import CallStarted, CompleteCall
from kafka_share.core.admin.machine import AdminCore
from kafka_share.core.events import RequestFailed, ResponseReceived, Send
from kafka_share.errors import KafkaShareError
from kafka_share.protocol.api_message import ApiMessage
from kafka_share.protocol.cluster import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    MetadataRequest,
    MetadataResponse,
)
from kafka_share.records import Node

BOOTSTRAP = Node(-1, "boot", 9092)
NODES = {n: Node(n, f"node{n}", 9092) for n in (1, 2, 3)}
TOPICS = {"t": 3, "u": 1}
"""Topic -> partitions; partition p is led by node p % 3 + 1."""

Script = Callable[[Any, int], Any]
_Topic = MetadataResponse.MetadataResponseTopic
_Partition = _Topic.MetadataResponsePartition


class Cluster:
    """The answers that every operation needs; attributes may be changed by a test, also between two requests."""

    def __init__(self, coordinators: Mapping[str, int] | None = None) -> None:
        self.coordinators: dict[str, int] = dict(coordinators or {})
        """Group -> node id; others are coordinated by node 1. A negative number is an error code, negated."""
        self.leaders: dict[tuple[str, int], int] = {
            (topic, index): index % 3 + 1 for topic, count in TOPICS.items() for index in range(count)
        }
        self.sent: list[tuple[Any, int]] = []
        """(request, node id) in the order of sending."""
        self.took_ms = 0
        """Virtual time from start to end."""

    def requests(self, kind: type[ApiMessage]) -> list[tuple[Any, int]]:
        return [(request, node) for request, node in self.sent if isinstance(request, kind)]

    def answer(self, request: Any, node_id: int) -> Any:
        if isinstance(request, MetadataRequest):
            return self._metadata(request)
        if isinstance(request, FindCoordinatorRequest):
            return FindCoordinatorResponse(coordinators=[self._found(key) for key in request.coordinator_keys])
        raise AssertionError(f"the script has no answer to {request!r}")

    def _found(self, key: str) -> FindCoordinatorResponse.Coordinator:
        number = self.coordinators.get(key, 1)
        if number < 0:
            return FindCoordinatorResponse.Coordinator(
                key=key, node_id=-1, host="", port=-1, error_code=-number, error_message="said the script"
            )
        node = NODES[number]
        return FindCoordinatorResponse.Coordinator(
            key=key, node_id=node.id, host=node.host, port=node.port, error_code=0, error_message=None
        )

    def _metadata(self, request: MetadataRequest) -> MetadataResponse:
        names = list(TOPICS) if request.topics is None else [topic.name or "" for topic in request.topics]
        brokers = [
            MetadataResponse.MetadataResponseBroker(node_id=n.id, host=n.host, port=n.port, rack=None)
            for n in NODES.values()
        ]
        return MetadataResponse(
            brokers=brokers, controller_id=2, cluster_id="c", topics=[self._topic(n) for n in names]
        )

    def _topic(self, name: str) -> _Topic:
        count = TOPICS.get(name)
        if count is None:
            return _Topic(error_code=3, name=name, topic_id=None, partitions=[])
        partitions = [
            _Partition(partition_index=i, leader_id=self.leaders[name, i], leader_epoch=4, replica_nodes=[1, 2])
            for i in range(count)
        ]
        return _Topic(error_code=0, name=name, topic_id=UUID(int=7), partitions=partitions)


def run(operation: Operation[Any], script: Script, cluster: Cluster | None = None, *, timeout_ms: int = 10_000) -> Any:
    """What the operation returns; raises what it raises. Fails if it goes on past its deadline."""
    cluster = cluster or Cluster()
    core = AdminCore(ShareAdminConfig(bootstrap_servers=f"{BOOTSTRAP.host}:{BOOTSTRAP.port}"), random.Random(1))
    now_ms = 1_000
    core.handle(CallStarted(1, operation, timeout_ms), now_ms)
    while True:
        core.check()
        outputs = core.poll(now_ms)
        core.check()
        for output in outputs:
            if isinstance(output, CompleteCall):
                cluster.took_ms = now_ms - 1_000
                if output.error is not None:
                    raise output.error
                return output.value
            assert isinstance(output, Send), output
            _answer(core, output, script, cluster, now_ms)
        if not outputs:
            wake_at_ms = core.wake_at_ms()
            assert wake_at_ms is not None, "the core sleeps with a call under way"
            now_ms = max(now_ms, wake_at_ms)
        assert now_ms <= 1_000 + timeout_ms, "the call goes on past its deadline"


def _answer(core: AdminCore, send: Send, script: Script, cluster: Cluster, now_ms: int) -> None:
    cluster.sent.append((send.request, send.node.id))
    reply = script(send.request, send.node.id)
    if reply is PASS:
        reply = cluster.answer(send.request, send.node.id)
    if isinstance(reply, KafkaShareError):
        core.handle(RequestFailed(send.send_id, reply), now_ms)
    elif reply is not None:
        core.handle(ResponseReceived(send.send_id, reply), now_ms)


PASS = object()
"""A script's answer: let the cluster answer."""


def script(*pairs: tuple[type[ApiMessage], Callable[[Any, int], Any]]) -> Script:
    """A script from (request class, its answer) pairs; everything else is left to the cluster."""
    table = dict(pairs)

    def answer(request: Any, node_id: int) -> Any:
        found = table.get(type(request))
        return PASS if found is None else found(request, node_id)

    return answer


def in_turn(*answers: Any) -> Callable[[Any, int], Any]:
    """The answers one after the other, the last one for ever; callables are called with (request, node id)."""
    left = list(answers)

    def answer(request: Any, node_id: int) -> Any:
        current = left.pop(0) if len(left) > 1 else left[0]
        return current(request, node_id) if callable(current) else current

    return answer
