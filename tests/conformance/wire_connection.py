"""One connection to a broker that carries raw requests: what a client would hide is visible, and nothing is retried.

For the tests of this folder that compare brokers answer by answer. Requests may be sent before the answers to earlier
ones are taken; answers come in order.
"""

from __future__ import annotations

import select
import socket
from typing import Any, Final, Self

import attrs

from kafka_share.protocol.messages import decode_response, encode_request

PATIENCE_S: Final = 120
"""How long an answer may take: only a failing test ever uses it up."""
_CLIENT_ID: Final = "wire"


@attrs.frozen
class Awaited:
    """A request whose answer has not been taken."""

    api_key: int
    version: int
    correlation_id: int


class WireConnection:
    """Requests in, answers out, in order. Every method that reads or writes raises OSError when the connection ends."""

    def __init__(self, address: str) -> None:
        host, port = address.split(",", maxsplit=1)[0].rsplit(":", 1)
        self._socket = socket.create_connection((host, int(port)), timeout=PATIENCE_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._awaited: list[Awaited] = []
        self._next_correlation_id = 1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    def send(self, request: Any, version: int) -> None:
        """Send without waiting."""
        awaited = Awaited(request.API_KEY, version, self._next_correlation_id)
        self._next_correlation_id += 1
        self._awaited.append(awaited)
        self._socket.sendall(encode_request(request, version, awaited.correlation_id, _CLIENT_ID))

    def receive_frame(self) -> tuple[Awaited, bytes]:
        """The oldest request without an answer, and its answer as it came, without the length."""
        awaited = self._awaited.pop(0)
        return awaited, self._read(int.from_bytes(self._read(4), "big"))

    def is_answered(self) -> bool:
        """Whether something has arrived that was not taken."""
        return bool(select.select([self._socket], [], [], 0)[0])

    def receive(self) -> Any:
        awaited, frame = self.receive_frame()
        correlation_id, response = decode_response(awaited.api_key, awaited.version, frame)
        assert correlation_id == awaited.correlation_id, "the broker answered another request"
        return response

    def call(self, request: Any, version: int) -> Any:
        self.send(request, version)
        return self.receive()

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            received = self._socket.recv(size - len(data))
            if not received:
                raise ConnectionError("the broker closed the connection")
            data += received
        return data
