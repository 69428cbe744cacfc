"""The connections of one client: at most one per node and channel, opened when a request needs it.

Called by `driver.ConsumerDriver` on the loop's thread. A connection that failed is forgotten; the next request opens
another one. When to send that request is the core's business.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable

from kafka_share.config import ClientConfig
from kafka_share.core.events import Channel, Disconnect, Event, Send
from kafka_share.core.metrics.measurements import Measurements
from kafka_share.errors import AuthenticationError, BrokerUnreachableError, KafkaShareError
from kafka_share.network.connection import Connection, ConnectionOwner
from kafka_share.network.logs import log_event


class Connections:
    """Routes `Send` and `Disconnect` to connections.

    `emit` takes an event for the core, `step` runs the core (and may come back here).
    """

    def __init__(
        self,
        settings: ClientConfig,
        ssl_context: ssl.SSLContext | None,
        emit: Callable[[Event], None],
        step: Callable[[], None],
        loop: asyncio.AbstractEventLoop,
        measurements: Measurements,
    ) -> None:
        self._settings = settings
        self._ssl_context = ssl_context
        self._owner = ConnectionOwner(emit, step, self._closed, measurements)
        self._loop = loop
        self._open: dict[tuple[int, Channel], Connection] = {}
        self._complaints: dict[int, str] = {}
        """Node id -> the failure that was logged last: a broker that stays down is one warning, not one per retry."""

    def __len__(self) -> int:
        return len(self._open)

    def send(self, send: Send) -> None:
        """Send a request on the connection of its node and channel; opens it, anew if the node's address changed."""
        connection = self._open.get((send.node.id, send.channel))
        if connection is None or connection.node[1:3] != send.node[1:3]:
            if connection is not None:
                moved = BrokerUnreachableError(f"node {send.node.id} moved to {send.node.host}:{send.node.port}")
                connection.close(moved, is_failure=False)
            connection = Connection(send.node, send.channel, self._settings, self._ssl_context, self._owner, self._loop)
            self._open[send.node.id, send.channel] = connection
        connection.send(send)

    def disconnect(self, disconnect: Disconnect) -> None:
        """Close what is open to a node. The core asked for it, so no `ConnectionLost` is emitted."""
        for channel in Channel:
            connection = self._open.get((disconnect.node_id, channel))
            if connection is not None:
                asked = BrokerUnreachableError(f"the connection to {connection.node} was closed by this client")
                connection.close(asked, report_loss=False, is_failure=False)

    def close(self) -> None:
        """Close everything."""
        for node_id, _ in tuple(self._open):
            self.disconnect(Disconnect(node_id))

    def _closed(self, connection: Connection, error: KafkaShareError, asked_for: bool) -> None:
        key = (connection.node.id, connection.channel)
        if self._open.get(key) is connection:
            del self._open[key]
        repeated = self._complaints.get(key[0]) == str(error)
        name = "authentication-failed" if isinstance(error, AuthenticationError) else "connection-lost"
        fields: dict[str, str | int] = {"node_id": key[0], "channel": key[1].value, "error": str(error)}
        level = logging.DEBUG if asked_for or repeated else None
        log_event(name, fields, self._owner.measurements.labels, level=level)
        if not asked_for:
            self._complaints[key[0]] = str(error)
