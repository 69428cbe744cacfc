"""The connections of one client: at most one per node and channel, opened when a request needs it.

Called by the driver on the loop's thread, and by the simulation of the tests, which opens connections of another kind.
A connection that failed is forgotten; the next request opens another one. When to send that request is the core's
business.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Protocol

import attrs

from kafka_share.core.events import (
    Channel,
    ConnectionLost,
    Disconnect,
    Lend,
    Recall,
    RequestFailed,
    ResponseReceived,
    Resume,
    Send,
    SessionReturned,
)
from kafka_share.core.metrics.measurements import Measurements
from kafka_share.errors import AuthenticationError, BrokerUnreachableError, KafkaShareError
from kafka_share.network.direct import DirectSession
from kafka_share.network.logs import log_event
from kafka_share.network.wire import Close
from kafka_share.records import Node


class AnyConnection(Protocol):
    """What `Connections` needs of a connection; it has begun to open when it is made."""

    node: Node
    channel: Channel

    def send(self, send: Send) -> None: ...
    def close(self, error: KafkaShareError, *, report_loss: bool = True, is_failure: bool = True) -> None: ...
    def lend(self, lend: Lend) -> DirectSession | None: ...
    def recall(self) -> bool: ...
    def resume(self, resume: Resume) -> None: ...


@attrs.frozen
class ConnectionOwner:
    """What a connection reports to."""

    emit: Callable[[ResponseReceived | RequestFailed | ConnectionLost | SessionReturned], None]
    step: Callable[[], None]
    """Run the core: called at the end of each callback that emitted something."""
    opened: Callable[[AnyConnection], None]
    """Called once, when the connection can take its first request."""
    served: Callable[[AnyConnection], None]
    """Called once, with the first answer to a request of the core."""
    exposed: Callable[[AnyConnection, str], None]
    """Called when a secret is about to be sent unencrypted to this address."""
    closed: Callable[[AnyConnection, Close], None]
    """Called once, before the events of its end."""
    measurements: Measurements


class Connections:
    """Finds and closes connections, which `open` makes.

    `emit` takes an event for the core, `step` runs the core (and may come back here), `log` is called as
    `logs.log_event` is.
    """

    def __init__(
        self,
        open: Callable[[Node, Channel, ConnectionOwner], AnyConnection],  # noqa: A002
        emit: Callable[[ResponseReceived | RequestFailed | ConnectionLost | SessionReturned], None],
        step: Callable[[], None],
        measurements: Measurements,
        log: Callable[..., None] = log_event,
    ) -> None:
        self._open_connection = open
        self._log = log
        self._owner = ConnectionOwner(emit, step, self._opened, self._served, self._exposed, self._closed, measurements)
        self._open: dict[tuple[int, Channel], AnyConnection] = {}
        self._lent: dict[int, AnyConnection] = {}
        """By node; perhaps closed meanwhile."""
        self._is_exposed = False
        self._failing: dict[tuple[str, int], None] = {}
        """Addresses that have failed and not served us since: one that stays down is one warning, whatever it says."""

    def to(self, node: Node, channel: Channel) -> AnyConnection:
        """The connection to a node, opened if there is none, and anew if the node's address changed."""
        connection = self._open.get((node.id, channel))
        if connection is None or connection.node[1:3] != node[1:3]:
            if connection is not None:
                moved = BrokerUnreachableError(f"node {node.id} moved to {node.host}:{node.port}")
                connection.close(moved, is_failure=False)
            connection = self._open[node.id, channel] = self._open_connection(node, channel, self._owner)
        return connection

    def disconnect(self, disconnect: Disconnect) -> None:
        """Close what is open to a node. The core asked for it, so no `ConnectionLost` is emitted."""
        for channel in Channel:
            connection = self._open.get((disconnect.node_id, channel))
            if connection is not None:
                asked = BrokerUnreachableError(f"the connection to {connection.node} was closed by this client")
                connection.close(asked, report_loss=False, is_failure=False)

    def lend(self, lend: Lend) -> DirectSession | None:
        """None where that cannot be."""
        connection = self._open.get((lend.node.id, Channel.DATA))
        direct = None if connection is None else connection.lend(lend)
        if connection is not None and direct is not None:
            self._lent[lend.node.id] = connection
        return direct

    def recall(self, recall: Recall) -> bool:
        """False if the application's thread has to be woken for it."""
        connection = self._lent.get(recall.node_id)
        return connection is None or connection.recall()

    def resume(self, resume: Resume) -> None:
        """A connection that was lent serves the core again, or says that it was closed meanwhile."""
        connection = self._lent.pop(resume.node.id, None)
        if connection is not None:
            connection.resume(resume)

    def close(self) -> None:
        """Close everything."""
        for node_id, _ in tuple(self._open):
            self.disconnect(Disconnect(node_id))

    def _opened(self, connection: AnyConnection) -> None:
        fields: dict[str, str | int] = {"node_id": connection.node.id, "channel": connection.channel.value}
        self._log("connection-made", fields, self._owner.measurements.labels)

    def _served(self, connection: AnyConnection) -> None:
        address = (connection.node.host, connection.node.port)
        if address in self._failing:
            del self._failing[address]
            fields: dict[str, str | int] = {"node_id": connection.node.id, "channel": connection.channel.value}
            self._log("connection-restored", fields, self._owner.measurements.labels)

    def _exposed(self, connection: AnyConnection, address: str) -> None:
        if not self._is_exposed:
            self._is_exposed = True
            fields: dict[str, str | int] = {"node_id": connection.node.id, "address": address}
            self._log("secret-exposed", fields, self._owner.measurements.labels)

    def _closed(self, connection: AnyConnection, close: Close) -> None:
        key = (connection.node.id, connection.channel)
        if self._open.get(key) is connection:
            del self._open[key]
        address = (connection.node.host, connection.node.port)
        text = str(close.error)
        name = "authentication-failed" if isinstance(close.error, AuthenticationError) else "connection-lost"
        fields: dict[str, str | int] = {"node_id": key[0], "channel": key[1].value, "error": text}
        level = logging.DEBUG if address in self._failing or not close.is_failure else None
        self._log(name, fields, self._owner.measurements.labels, level=level)
        if close.is_failure:
            self._failing[address] = None
