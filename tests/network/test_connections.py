"""What is logged of connections: one line when a broker begins to fail, one when it answers again."""

from __future__ import annotations

import logging
from typing import Any

from kafka_share.core.events import Channel
from kafka_share.core.metrics.measurements import Measurements
from kafka_share.errors import AuthenticationError, BrokerUnreachableError, KafkaShareError
from kafka_share.network.connections import ConnectionOwner, Connections
from kafka_share.network.wire import Close
from kafka_share.records import Node

BOOTSTRAP, ONE, TWO = Node(-1, "a", 9092), Node(1, "a", 9092), Node(2, "b", 9092)


class Opened:
    """A connection that ends and answers as the test says."""

    def __init__(self, node: Node, channel: Channel, owner: ConnectionOwner) -> None:
        self.node = node
        self.channel = channel
        self._owner = owner

    def send(self, send: Any) -> None: ...

    def close(self, error: KafkaShareError, *, report_loss: bool = True, is_failure: bool = True) -> None:
        self._owner.closed(self, Close(error, is_failure))

    def lend(self, lend: Any) -> None: ...

    def recall(self) -> bool:
        return True

    def resume(self, resume: Any) -> None: ...

    def serve(self) -> None:
        self._owner.served(self)

    def expose(self) -> None:
        self._owner.exposed(self, "192.0.2.1")


class Client:
    """`lines` are the events at WARNING and INFO."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, int]] = []
        self._made: dict[tuple[int, Channel], Opened] = {}
        self._connections = Connections(self._open, lambda event: None, lambda: None, Measurements(), self._log)

    def _open(self, node: Node, channel: Channel, owner: ConnectionOwner) -> Opened:
        return Opened(node, channel, owner)

    def _log(self, name: str, fields: Any, client: Any, *, level: int | None = None) -> None:
        if level != logging.DEBUG:
            self.lines.append((name, fields["node_id"]))

    def to(self, node: Node, channel: Channel = Channel.CONTROL) -> Opened:
        found = self._connections.to(node, channel)
        assert isinstance(found, Opened)
        return found

    def fails(self, node: Node, text: str, channel: Channel = Channel.CONTROL) -> None:
        self.to(node, channel).close(BrokerUnreachableError(text))


def test_an_outage_is_one_line_whatever_its_failures_say_and_one_when_it_is_over() -> None:
    client = Client()
    for number in range(20):
        client.fails(ONE, ("reset by peer", "closed the connection", f"attempt {number}")[number % 3])
        client.fails(ONE, "reset by peer", Channel.DATA)
        client.to(ONE).close(AuthenticationError("who are you?"))
    assert client.lines == [("connection-lost", 1)]
    client.to(ONE).serve()
    client.to(ONE, Channel.DATA).serve()
    assert client.lines == [("connection-lost", 1), ("connection-restored", 1)]


def test_a_second_outage_is_logged_with_the_same_text_when_the_broker_had_answered_in_between() -> None:
    client = Client()
    for _ in range(2):
        client.fails(ONE, "reset by peer")
        client.to(ONE).serve()
    assert client.lines == [("connection-lost", 1), ("connection-restored", 1)] * 2


def test_each_broker_has_its_own_lines_and_an_address_is_one_broker_under_all_its_ids() -> None:
    client = Client()
    client.fails(BOOTSTRAP, "refused")
    client.fails(ONE, "refused")
    client.fails(TWO, "refused")
    client.to(TWO).serve()
    assert client.lines == [("connection-lost", -1), ("connection-lost", 2), ("connection-restored", 2)]


def test_a_connection_that_was_closed_on_purpose_is_no_outage() -> None:
    client = Client()
    client.to(ONE).close(BrokerUnreachableError("idle"), is_failure=False)
    client.to(ONE).serve()
    assert client.lines == []


def test_a_secret_that_is_exposed_is_logged_once_for_all_connections_of_a_client() -> None:
    client = Client()
    for node in (ONE, TWO, ONE):
        client.to(node).expose()
    assert client.lines == [("secret-exposed", 1)]
