"""The requests of one connection, as a machine without I/O: bytes in, one request in work at a time.

Owned by the connection of `server.py` or by the simulation's broker. Requests are worked on one after the other, as in
Kafka, so that answers keep their order and effects too; while one is in work the next ones wait here as bytes. A
request that is not offered ends the connection, and so does one that has no answer; only ApiVersions is answered
whatever its version is.

What it must not do: know what a request means, or who answers it.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from kafka_share.broker.events import ANONYMOUS, RequestArrived, RequestContext
from kafka_share.broker.handlers.api_versions import unsupported
from kafka_share.broker.handlers.unanswerable import require_answerable
from kafka_share.broker.limits import Limits
from kafka_share.errors import RemoteProtocolError
from kafka_share.protocol.messages import (
    API_VERSIONS,
    decode_request_body,
    decode_request_header,
    encode_response,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafka_share.broker.security.authentication import Authentication, AuthenticationStep

_LENGTH_BYTES: Final = 4
DEFAULT_LIMITS: Final = Limits()


class Conversation:
    """What has arrived on one connection and has not been answered."""

    def __init__(
        self,
        connection_id: int,
        node_id: int,
        client_host: str,
        *,
        principal: str = ANONYMOUS,
        authentication: Authentication | None = None,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        """`principal` is who the client is where it needs no `authentication` by SASL."""
        self.connection_id = connection_id
        self.node_id = node_id
        self.client_host = client_host
        self._principal = principal
        self._authentication = authentication
        self._limits = limits
        self.in_work: RequestArrived | None = None
        self.in_work_bytes: int = 0
        """The size of the request in work."""
        self._buffer = bytearray()
        self._waiting: deque[bytes] = deque()
        self._waiting_bytes = 0
        self.whole_frames: int = 0
        """How many have arrived so far."""

    @property
    def is_authenticated(self) -> bool:
        """Whether any request may come: the client has said who it is, or need not."""
        return self._authentication is None or self._authentication.is_done

    @property
    def principal(self) -> str:
        """Who the client is, as far as is known."""
        return (self._authentication and self._authentication.principal) or self._principal

    @property
    def half_sent_bytes(self) -> int:
        """What is here of a request that has begun to arrive and is not complete; 0 if there is none."""
        return len(self._buffer)

    @property
    def is_full(self) -> bool:
        """Whether nothing more should be read for now."""
        limits = self._limits
        return len(self._waiting) >= limits.waiting_requests or self._waiting_bytes >= limits.waiting_bytes

    @property
    def held_bytes(self) -> int:
        """What is here of requests that have no answer, half ones too."""
        return len(self._buffer) + self._waiting_bytes + (self.in_work_bytes if self.in_work is not None else 0)

    def received(self, data: bytes, max_frame_bytes: int) -> None:
        """Take bytes. Raises `RemoteProtocolError` for a frame of an impossible length."""
        view, position = memoryview(data), 0
        while position < len(view):
            if not self._buffer and len(view) - position >= _LENGTH_BYTES:
                stop = position + _LENGTH_BYTES + _size(view[position : position + _LENGTH_BYTES], max_frame_bytes)
                if stop <= len(view):
                    self._arrived(bytes(view[position + _LENGTH_BYTES : stop]))
                    position = stop
                    continue
            position = self._fill_buffer(view, position, max_frame_bytes)

    def _fill_buffer(self, view: memoryview, position: int, max_frame_bytes: int) -> int:
        """Add what belongs to the request that has begun to arrive; returns the position behind that."""
        buffer = self._buffer
        for _ in range(2):  # its length, and what that says
            whole = _LENGTH_BYTES
            if len(buffer) >= _LENGTH_BYTES:
                whole += _size(buffer[:_LENGTH_BYTES], max_frame_bytes)
            piece = view[position : position + whole - len(buffer)]
            buffer += piece
            position += len(piece)
        if len(buffer) > _LENGTH_BYTES and len(buffer) == whole:
            self._arrived(bytes(memoryview(buffer)[_LENGTH_BYTES:]))
            self._buffer = bytearray()
        return position

    def _arrived(self, frame: bytes) -> None:
        self._waiting.append(frame)
        self._waiting_bytes += len(frame)
        self.whole_frames += 1

    def next_request(
        self, offered: Mapping[int, tuple[int, int]], now_ms: int
    ) -> RequestArrived | AuthenticationStep | bytes | None:
        """The next request, in work until `ended`; None while there is nothing to do.

        Or bytes to be sent in place of a request: as a step, if the frame belonged to the client's authentication.
        Raises `RemoteProtocolError` for what is no request, or one that is not offered.
        """
        if self.in_work is not None or not self._waiting:
            return None
        frame = self._waiting.popleft()
        self._waiting_bytes -= len(frame)
        if self._authentication is not None:
            step = self._authentication.received(frame, offered, now_ms)
            if step is not None:
                return step
        arrived = self.read(frame, offered)
        if isinstance(arrived, RequestArrived):
            self.in_work, self.in_work_bytes = arrived, len(frame)
        return arrived

    def read(self, frame: bytes, offered: Mapping[int, tuple[int, int]]) -> RequestArrived | bytes:
        """The request in a frame, or the answer to an ApiVersions request of an unknown version."""
        header = decode_request_header(frame)
        low, high = offered.get(header.api_key, (0, -1))
        if not low <= header.api_version <= high:
            if header.api_key == API_VERSIONS:
                return encode_response(header.correlation_id, unsupported(offered), 0)
            raise RemoteProtocolError(f"API {header.api_key} version {header.api_version} is not offered")
        context = RequestContext(
            connection_id=self.connection_id,
            node_id=self.node_id,
            client_host=self.client_host,
            api_key=header.api_key,
            api_version=header.api_version,
            correlation_id=header.correlation_id,
            client_id=header.client_id or "",
            principal=self.principal,
        )
        request = decode_request_body(header, frame)
        require_answerable(request)
        return RequestArrived(context, request)

    def awaits(self, context: RequestContext) -> bool:
        """Whether this is the request in work."""
        return self.in_work is not None and self.in_work.context is context

    @property
    def wants_answer(self) -> bool:
        """Whether the request in work is to be answered: a Produce request may say no."""
        return self.in_work is not None and bool(self.in_work.request.expect_response())

    def ended(self) -> None:
        """The request in work has its answer, or gets none."""
        self.in_work = None

    def clear(self) -> None:
        """Nothing that waits will be worked on."""
        self._waiting.clear()
        self._waiting_bytes = 0
        self._buffer.clear()


def _size(length: bytes | bytearray | memoryview, max_frame_bytes: int) -> int:
    """Of the frame behind the length. Raises `RemoteProtocolError`."""
    size = int.from_bytes(length, "big", signed=True)
    if not 0 < size <= max_frame_bytes:
        raise RemoteProtocolError(f"a frame of {size} bytes")
    return size
