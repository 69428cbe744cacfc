"""The client's connections over virtual wires: versions first, then requests, each with its deadline.

A twin of `kafka_share.network.connection` and `connections` without sockets: the same order of events towards the core
(`RequestFailed` for all that was under way, then `ConnectionLost`), the same choice of versions, real frames.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import attrs
from simulation.network import Network, Process, Wire
from simulation.virtual_time import VirtualTime

from kafka_share._version import VERSION
from kafka_share.core.events import (
    Channel,
    ConnectionLost,
    Disconnect,
    Event,
    RequestFailed,
    ResponseReceived,
    Send,
)
from kafka_share.errors import BrokerUnreachableError, KafkaShareError
from kafka_share.protocol.classic import ApiVersionsRequest, ApiVersionsResponse
from kafka_share.protocol.messages import decode_response, encode_request
from kafka_share.protocol.versions import VersionRanges, choose_version, ranges_of
from kafka_share.records import Node

SETUP_TIMEOUT_MS = 1_500


@attrs.define
class _InFlight:
    correlation_id: int
    api_key: int
    version: int
    deadline_at_ms: int
    send_id: int | None
    """None: the request for the versions."""


class Connection:
    """One connection; it is never opened again."""

    def __init__(self, node: Node, channel: Channel, owner: Connections) -> None:
        self.node = node
        self.channel = channel
        self._owner = owner
        self._versions: VersionRanges = {}
        self._is_ready = False
        self._is_closed = False
        self._correlation_id = 0
        self._in_flight: deque[_InFlight] = deque()
        self._waiting: deque[tuple[Send, int]] = deque()
        self._timer_at_ms: int | None = None
        self._setup_ends_at_ms = owner.time.now_ms + SETUP_TIMEOUT_MS
        self._wire: Wire = owner.network.open(owner.process, int(node.host.removeprefix("node")), self)
        self._look_at(self._setup_ends_at_ms)

    def send(self, send: Send) -> None:
        deadline_at_ms = self._owner.time.now_ms + send.timeout_ms
        if self._is_ready:
            self._send(send, deadline_at_ms)
        else:
            self._waiting.append((send, deadline_at_ms))
        self._look_at(deadline_at_ms)

    def _send(self, send: Send, deadline_at_ms: int) -> None:
        try:
            version = choose_version(send.request, self._versions, send.min_version)
        except KafkaShareError as error:
            self._owner.emit(RequestFailed(send.send_id, error))
            return
        self._write(send.request, version, deadline_at_ms, send.send_id)

    def _write(self, request: Any, version: int, deadline_at_ms: int, send_id: int | None) -> None:
        self._correlation_id += 1
        frame = encode_request(request, version, self._correlation_id, self._owner.process.name)
        self._in_flight.append(_InFlight(self._correlation_id, request.API_KEY, version, deadline_at_ms, send_id))
        self._owner.network.send_up(self._wire, frame)

    # ---- called by the wire

    def opened(self) -> None:
        if not self._is_closed:
            request = ApiVersionsRequest(client_software_name="kafka-share", client_software_version=VERSION)
            self._write(request, ApiVersionsRequest.valid_versions[1] - 1, self._setup_ends_at_ms, None)

    def received(self, frame: bytes) -> None:
        if self._is_closed:
            return
        asked = self._in_flight.popleft()
        correlation_id, response = decode_response(asked.api_key, asked.version, memoryview(frame)[4:])
        assert correlation_id == asked.correlation_id, "answers came out of order"
        if asked.send_id is not None:
            self._owner.emit(ResponseReceived(asked.send_id, response))
        else:
            assert isinstance(response, ApiVersionsResponse)
            assert response.error_code == 0, "the brokers know the version that we ask in"
            self._versions = ranges_of(response)
            self._is_ready = True
            while self._waiting:
                self._send(*self._waiting.popleft())
        self._owner.step()

    def broken(self, why: str) -> None:
        self.close(BrokerUnreachableError(f"{self.node}: {why}"))

    # ---- time and the end

    def _look_at(self, at_ms: int) -> None:
        """See to it that the timer runs at this time or before; it finds out by itself what for."""
        if self._timer_at_ms is None or at_ms < self._timer_at_ms:
            self._timer_at_ms = at_ms
            self._owner.time.at(at_ms, lambda: self._owner.process.run(lambda: self._on_timer(at_ms)))

    def _on_timer(self, at_ms: int) -> None:
        if self._is_closed or self._timer_at_ms != at_ms:
            return
        self._timer_at_ms = None
        now_ms = self._owner.time.now_ms
        if not self._is_ready and self._setup_ends_at_ms <= now_ms:
            self.close(BrokerUnreachableError(f"{self.node} was not ready in time"))
        elif any(sent.deadline_at_ms <= now_ms for sent in self._in_flight):
            self.close(BrokerUnreachableError(f"{self.node} did not answer in time"))
        else:
            for late in [entry for entry in self._waiting if entry[1] <= now_ms]:
                self._waiting.remove(late)
                self._owner.emit(RequestFailed(late[0].send_id, BrokerUnreachableError(f"{self.node} was not ready")))
                self._owner.step()
            deadlines = [sent.deadline_at_ms for sent in self._in_flight] + [entry[1] for entry in self._waiting]
            if not self._is_ready:
                deadlines.append(self._setup_ends_at_ms)
            if deadlines:
                self._look_at(min(deadlines))

    def close(self, error: KafkaShareError, *, report_loss: bool = True) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        self._owner.forget(self)
        self._owner.network.close(self._wire)
        for sent in self._in_flight:
            if sent.send_id is not None:
                self._owner.emit(RequestFailed(sent.send_id, error))
        for send, _ in self._waiting:
            self._owner.emit(RequestFailed(send.send_id, error))
        if self._is_ready and report_loss:
            self._owner.emit(ConnectionLost(self.node.id, self.channel, error))
        self._owner.step()


class Connections:
    """The connections of one client, at most one per node and channel; `emit` takes events for the core."""

    def __init__(
        self,
        process: Process,
        network: Network,
        time: VirtualTime,
        emit: Callable[[Event], None],
        step: Callable[[], None],
    ) -> None:
        self.process = process
        self.network = network
        self.time = time
        self.emit = emit
        self.step = step
        self._open: dict[tuple[int, Channel], Connection] = {}

    def send(self, send: Send) -> None:
        key = (send.node.id, send.channel)
        connection = self._open.get(key)
        if connection is not None and connection.node[1:3] != send.node[1:3]:
            connection.close(BrokerUnreachableError(f"node {send.node.id} moved"))
            connection = None
        if connection is None:
            connection = self._open[key] = Connection(send.node, send.channel, self)
        connection.send(send)

    def disconnect(self, disconnect: Disconnect) -> None:
        for channel in Channel:
            connection = self._open.get((disconnect.node_id, channel))
            if connection is not None:
                connection.close(BrokerUnreachableError("closed by this client"), report_loss=False)

    def forget(self, connection: Connection) -> None:
        key = (connection.node.id, connection.channel)
        if self._open.get(key) is connection:
            del self._open[key]

    def close(self) -> None:
        for node_id, _ in list(self._open):
            self.disconnect(Disconnect(node_id))
