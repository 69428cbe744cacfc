"""A cluster on a virtual clock for tests: requests in, answers out, no sockets."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

from kafka_share.broker.cluster import Cluster
from kafka_share.broker.events import (
    ANONYMOUS,
    ConnectionClosed,
    HostLookedUp,
    RequestArrived,
    RequestContext,
    RequestWorkedOn,
)
from kafka_share.broker.kafka_version import DEFAULT_VERSION, behaviour_of
from kafka_share.broker.machine import BrokerMachine
from kafka_share.protocol.messages import MESSAGES, decode_response, encode_response
from kafka_share.protocol.record_batches import encode_batch

START_MS = 1_800_000_000_000


class World:
    """One cluster; `ask` sends a request and gives the answer, after a round through its bytes, or None."""

    def __init__(
        self,
        nodes: int = 1,
        config: Mapping[str, str] | None = None,
        share_version: int = 1,
        kafka_version: str = DEFAULT_VERSION,
    ) -> None:
        self.cluster = Cluster(
            range(1, nodes + 1),
            config=config or {},
            cluster_id="world",
            random=Random(1),
            share_version=share_version,
            behaviour=behaviour_of(kafka_version),
        )
        self.machine = BrokerMachine(self.cluster)
        self.now_ms = START_MS
        self.hosts: dict[str, str] | None = {"localhost": "127.0.0.1"}
        """What the resolver knows; None: the test answers lookups itself."""
        self.late: dict[int, Any] = {}
        """Answers that came later, by correlation id."""
        self._correlation_id = 0

    def ask(
        self,
        request: Any,
        version: int | None = None,
        *,
        node: int = 1,
        connection: int = 1,
        principal: str = ANONYMOUS,
        spent_ns: int | None = None,
    ) -> Any:
        """The answer, or None if it is still to come (then `late` gets it under `last_id`).

        `spent_ns` is what the request took of the driver's thread, if that was measured."""
        if version is None:
            version = self.cluster.api_versions[request.API_KEY][1]
        self._correlation_id += 1
        context = RequestContext(
            connection, node, "127.0.0.1", request.API_KEY, version, self._correlation_id, "test", principal
        )
        self.machine.handle(RequestArrived(context, request), self.now_ms)
        if spent_ns is not None:
            self.machine.handle(RequestWorkedOn(context, spent_ns), self.now_ms)
        self.take_answers()
        answer = self.late.pop(self._correlation_id, None)
        return answer if request.expect_response() else None

    @property
    def last_id(self) -> int:
        return self._correlation_id

    def take_answers(self) -> None:
        """Take what the machine answers now, and when its lookups have been answered."""
        outputs = self.machine.poll(self.now_ms)
        if self.hosts is not None:
            for host in self.machine.take_lookups():
                self.machine.handle(HostLookedUp(host, self.hosts.get(host.lower())), self.now_ms)
            outputs += self.machine.poll(self.now_ms)
        for output in outputs:
            context = output.context
            frame = encode_response(context.correlation_id, output.response, context.api_version)
            _, response = decode_response(context.api_key, context.api_version, frame[4:])
            assert type(response) is MESSAGES[context.api_key][1]
            self.late[context.correlation_id] = response
        self.machine.check()

    def advance(self, span_ms: int) -> None:
        """Let time pass, stopping wherever the machine wants to be woken."""
        end_ms = self.now_ms + span_ms
        while (at_ms := self.machine.wake_at_ms()) is not None and at_ms <= end_ms:
            self.now_ms = max(self.now_ms, at_ms)
            before = self.machine.wake_at_ms()
            self.take_answers()
            assert self.machine.wake_at_ms() != before, "the machine asks to be woken for nothing"
        self.now_ms = end_ms
        self.take_answers()

    def disconnect(self, connection: int) -> None:
        self.machine.handle(ConnectionClosed(connection), self.now_ms)
        self.take_answers()

    def topic(self, name: str, partitions: int = 1, replication_factor: int = 1) -> Any:
        topics = self.cluster.topics
        return self.cluster.create_topic(name, topics.place(partitions, replication_factor))


def batch(count: int = 1, timestamp: int = START_MS, **fields: Any) -> bytes:
    """A record batch of `count` small records."""
    return encode_batch([(i, timestamp + i, b"k", b"value %d" % i, []) for i in range(count)], **fields)
