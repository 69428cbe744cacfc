"""Cuts the byte stream of a connection into frames: a 4-byte length, then as many bytes.

Called by `connection.Connection`; knows nothing about sockets. Between two frames bytes are received into a staging
area, so that a small answer costs one system call. Frames that are whole there are handed out as views of it, and the
area is given up for a new one: nothing is copied, and nothing is received over what somebody still reads. Of a frame
that is larger than what the staging area got, that beginning is moved once into the frame's own buffer, and the rest
is received there.
"""

from __future__ import annotations

from typing import Final

from kafka_share.errors import AuthenticationError, RemoteProtocolError

LENGTH_BYTES: Final = 4
SMALLEST_FRAME_BYTES: Final = 4
"""A response begins with its correlation id."""
MAX_FRAME_BYTES: Final = 256 * 1024 * 1024
"""An answer that claims to be longer is refused and its connection closed."""
MAX_HANDSHAKE_FRAME_BYTES: Final = 64 * 1024
"""The same until the connection is open: what is decoded costs up to twenty times its bytes, and nobody has been asked
for a password yet."""
STAGING_BYTES: Final = 64 * 1024
_TLS_ALERT: Final = b"\x15\x03"
_TLS_HANDSHAKE: Final = b"\x16\x03"


class FrameReceiver:
    """Hands out the buffer to receive into, and the frames that have become complete.

    Not more than one frame of `max_frame_bytes` is held at a time, and `STAGING_BYTES` beside it. A frame that was
    handed out keeps up to `STAGING_BYTES` alive as long as it is read. `max_frame_bytes` may be changed between frames.
    """

    def __init__(self, max_frame_bytes: int = MAX_FRAME_BYTES) -> None:
        self.max_frame_bytes = max_frame_bytes
        self._staging = memoryview(bytearray(STAGING_BYTES))
        self._staged = 0
        self._frame: bytearray | None = None
        self._frame_view = self._staging
        self._filled = 0
        self._started = False

    @property
    def is_mid_frame(self) -> bool:
        """Has a frame begun that is not complete?"""
        return self._frame is not None or self._staged > 0

    def buffer(self) -> memoryview:
        """Where the next bytes are to be received; never empty."""
        if self._frame is not None:
            return self._frame_view[self._filled :]
        return self._staging[self._staged :]

    def received(self, count: int) -> list[memoryview]:
        """`count` bytes have been written to the start of `buffer()`; returns the frames completed by them.

        Raises `RemoteProtocolError` for a length that no answer can have, and `AuthenticationError` if the peer speaks
        TLS where we do not; the stream cannot be used after that.
        """
        if self._frame is not None:
            self._filled += count
            if self._filled < len(self._frame):
                return []
            frame, self._frame, self._frame_view = self._frame_view, None, self._staging
            return [frame]
        self._staged += count
        return self._cut()

    def _cut(self) -> list[memoryview]:
        frames: list[memoryview] = []
        start, end, staging = 0, self._staged, self._staging
        while end - start >= LENGTH_BYTES:
            length = self._length(bytes(staging[start : start + LENGTH_BYTES]))
            start += LENGTH_BYTES
            if length > end - start:
                self._begin_frame(length, staging[start:end])
                start = end
            else:
                frames.append(staging[start : start + length])
                start += length
        self._staged = end - start
        if frames:
            self._staging = memoryview(bytearray(STAGING_BYTES))
            self._staging[: self._staged] = staging[start:end]
        return frames

    def _begin_frame(self, length: int, begun: memoryview) -> None:
        self._frame = bytearray(length)
        self._frame_view = memoryview(self._frame)
        self._filled = len(begun)
        self._frame_view[: self._filled] = begun

    def _length(self, header: bytes) -> int:
        length = int.from_bytes(header, "big", signed=True)
        if not self._started and header[:2] in (_TLS_ALERT, _TLS_HANDSHAKE):
            raise AuthenticationError("the peer speaks TLS: its listener needs security_protocol SSL or SASL_SSL")
        if not self._started and header == b"HTTP":
            raise RemoteProtocolError("the peer is an HTTP server, not a Kafka broker")
        if not SMALLEST_FRAME_BYTES <= length <= self.max_frame_bytes:
            raise RemoteProtocolError(
                f"the peer announced an answer of {length} bytes; allowed are {SMALLEST_FRAME_BYTES} to "
                f"{self.max_frame_bytes}"
            )
        self._started = True
        return length
