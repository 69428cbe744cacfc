"""One connection to a broker that carries raw requests: what a client would hide is visible, and nothing is retried.

Requests may be sent before the answers to earlier ones are taken; answers come in order.
"""

from __future__ import annotations

import select
import socket
from typing import Any, Final, Self

import attrs
from support.waiting import patience_s

from kafka_share.protocol.messages import decode_response, encode_request

CLIENT_ID: Final = "wire"


@attrs.frozen
class Awaited:
    """A request whose answer has not been taken."""

    api_key: int
    version: int
    correlation_id: int


class WireConnection:
    """Requests in, answers out, in order. Every method that reads or writes raises OSError when the connection ends."""

    def __init__(self, address: str, *, answer_within_s: float | None = None, client_id: str = CLIENT_ID) -> None:
        """To the first of the addresses; raises OSError when nobody listens there."""
        host, port = address.split(",", maxsplit=1)[0].rsplit(":", 1)
        limit_s = patience_s() if answer_within_s is None else answer_within_s
        self._socket = socket.create_connection((host, int(port)), timeout=limit_s)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._client_id = client_id
        self._awaited: list[Awaited] = []
        self._next_correlation_id = 1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    def fileno(self) -> int:
        """For `select`."""
        return self._socket.fileno()

    def send(self, request: Any, version: int) -> None:
        """Send without waiting."""
        awaited = Awaited(request.API_KEY, version, self._next_correlation_id)
        self._next_correlation_id += 1
        self.send_bytes(encode_request(request, version, awaited.correlation_id, self._client_id), awaited)

    def send_bytes(self, data: bytes, *awaited: Awaited) -> None:
        """Send bytes as they are; `awaited` is as what their answers will be read."""
        self._awaited.extend(awaited)
        self._socket.sendall(data)

    def receive_frame(self) -> tuple[Awaited, bytes]:
        """The oldest request without an answer, and its answer as it came, without the length."""
        awaited = self._awaited.pop(0)
        return awaited, self._read(int.from_bytes(self._read(4), "big"))

    def is_answered(self) -> bool:
        """Whether something has arrived that was not taken."""
        return bool(select.select([self._socket], [], [], 0)[0])

    def is_closed_by_broker(self) -> bool:
        """Wait for the broker to close; False: it has sent something instead."""
        try:
            return self._socket.recv(1) == b""
        except ConnectionResetError:
            return True

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
                raise ConnectionError(f"the broker closed the connection after {len(data)} of {size} bytes")
            data += received
        return data
