"""A reference broker without sockets that a fuzz can send bytes to: connections, clock and answers by hand.

An attacker may send anything on its connections. Demanded is that nothing comes out but the two errors that end its own
connection, that the broker's invariants hold, and that another client is served.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

from kafka_share.broker.cluster import Cluster
from kafka_share.broker.conversation import Conversation
from kafka_share.broker.events import ConnectionClosed, HostLookedUp, RequestArrived
from kafka_share.broker.machine import BrokerMachine
from kafka_share.broker.security.acls import Acl
from kafka_share.broker.security.authentication import Authentication, AuthenticationStep
from kafka_share.broker.security.authorizer import Authorizer
from kafka_share.broker.security.passwords import Passwords
from kafka_share.broker.security.sasl import Sasl
from kafka_share.broker.security.scram import ScramCredential, ScramMechanism
from kafka_share.broker.security.tokens import UnsecuredTokens
from kafka_share.errors import LocalProtocolError, RemoteProtocolError
from kafka_share.protocol.cluster import MetadataRequest
from kafka_share.protocol.messages import decode_response, encode_request, encode_response
from kafka_share.protocol.record_batches import encode_batch

START_MS = 1_800_000_000_000
USER, PASSWORD = "alice", "a secret"
ALICE = f"User:{USER}"
GROUPS = ("g", "h")
TOPICS = ("a", "b")
MAX_FRAME_BYTES = 1 << 20
_CONTROL = -1
"""The connection of the client that has to be served."""


class BrokerWorld:
    """One node. With `is_secured` clients need SASL, and alice has rights on one topic and one group only."""

    def __init__(self, *, is_secured: bool) -> None:
        self.now_ms = START_MS
        self.happened: Counter[str] = Counter()
        random = Random(7)
        self.cluster = Cluster([1], config={}, cluster_id="fuzzed", random=random)
        self.cluster.set_address(1, "127.0.0.1", 9092)
        self.machine = BrokerMachine(self.cluster)
        self._sasl: Sasl | None = None
        if is_secured:
            self._secure()
        for topic in TOPICS:
            partition = self.cluster.create_topic(topic, [[1], [1]]).partitions[0]
            self.cluster.append(partition, encode_batch([(0, START_MS, None, b"x", ())]), START_MS)
        self._conversations: dict[int, Conversation] = {}
        self._unseen: dict[int, list[bytes]] = {}

    def _secure(self) -> None:
        numbers = iter(range(10**9))
        self._sasl = Sasl(Passwords({USER: PASSWORD}), UnsecuredTokens(), lambda: f"nonce{next(numbers)}")
        for mechanism in ScramMechanism:
            credential = ScramCredential.of_password(mechanism, PASSWORD, b"salt")
            self.cluster.scram_users.put(USER, mechanism, credential)
        self.cluster.authorizer = Authorizer(self.cluster.acls, ["User:ANONYMOUS"])
        for resource, name in (("topic", TOPICS[0]), ("group", GROUPS[0]), ("transactional_id", "t")):
            self.cluster.acls.add(Acl(ALICE, "all", resource, name))

    # ---- what the attacker does

    def received(self, connection: int, data: bytes) -> list[bytes]:
        """Bytes on a connection, which is opened if need be; returns the answers that came on it, length included."""
        conversation = self._conversations.get(connection)
        if conversation is None:
            sasl = self._sasl
            authentication = None
            if sasl is not None and connection != _CONTROL:
                cluster = self.cluster
                authentication = Authentication(lambda: sasl.mechanisms(cluster.configs, cluster.scram_users))
            conversation = Conversation(connection, 1, "127.0.0.1", authentication=authentication)
            self._conversations[connection] = conversation
        self._unseen.setdefault(connection, [])
        try:
            conversation.received(data, MAX_FRAME_BYTES)
            self._work(connection, conversation)
        except RemoteProtocolError:
            self.close(connection)
        return self._unseen.pop(connection, [])

    def close(self, connection: int) -> None:
        """The connection ends, from whichever side."""
        if self._conversations.pop(connection, None) is not None:
            self.happened["connections that ended"] += 1
            self.machine.handle(ConnectionClosed(connection), self.now_ms)

    def advance(self, span_ms: int) -> None:
        """Let time pass."""
        self.now_ms += span_ms
        self._take_answers()
        for connection, conversation in list(self._conversations.items()):
            try:
                self._work(connection, conversation)
            except RemoteProtocolError:
                self.close(connection)

    def is_open(self, connection: int) -> bool:
        return connection in self._conversations

    # ---- what has to hold

    def check(self) -> None:
        """Another client is served, and nothing is broken inside. Raises AssertionError."""
        self.machine.check()
        frames = self.received(_CONTROL, encode_request(MetadataRequest(topics=[]), 12, 1, "control"))
        assert len(frames) == 1, "another client is not served"
        answer: Any
        _, answer = decode_response(MetadataRequest.API_KEY, 12, frames[0][4:])
        assert [node.host for node in answer.brokers] == ["127.0.0.1"]

    # ---- inside

    def _work(self, connection: int, conversation: Conversation) -> None:
        """Work on what waits. Raises `RemoteProtocolError` for what ends the connection."""
        while (arrived := conversation.next_request(self.cluster.api_versions, self.now_ms)) is not None:
            if isinstance(arrived, RequestArrived):
                self.happened["requests"] += 1
                self.machine.handle(arrived, self.now_ms)
                self._take_answers()
            else:
                frame = arrived.answer if isinstance(arrived, AuthenticationStep) else arrived
                self._unseen.setdefault(connection, []).append(frame)
                if isinstance(arrived, AuthenticationStep) and arrived.failure is not None:
                    raise RemoteProtocolError(arrived.failure)

    def _take_answers(self) -> None:
        replies = self.machine.poll(self.now_ms)
        for host in self.machine.take_lookups():
            self.machine.handle(HostLookedUp(host, "10.0.0.1" if len(host) % 2 else None), self.now_ms)
        for reply in [*replies, *self.machine.poll(self.now_ms)]:
            context = reply.context
            conversation = self._conversations.get(context.connection_id)
            if conversation is None or not conversation.awaits(context):
                continue
            try:
                frame = encode_response(context.correlation_id, reply.response, context.api_version)
            except LocalProtocolError:
                self.happened["answers that are too long"] += 1
                self.close(context.connection_id)
                continue
            if conversation.wants_answer:
                self.happened["answers"] += 1
                self._unseen.setdefault(context.connection_id, []).append(frame)
            conversation.ended()
