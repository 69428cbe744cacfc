"""The socket of a simulated connection while it is lent: what `DirectLine` is for a real one, on a virtual wire."""

from __future__ import annotations

from collections.abc import Callable

from kafka_share.network.framing import LENGTH_BYTES


class SimulatedLine:
    """`send_up` puts a frame on the wire, and is told what it is; `has_news` is called for whatever comes."""

    def __init__(self, send_up: Callable[[bytes, object], None], has_news: Callable[[], None]) -> None:
        self.awaits = False
        self.is_broken = False
        self.request: object = None
        self.answer: bytes | None = None
        self.unsent = b""
        self.answered = 0
        self._send_up = send_up
        self._has_news = has_news
        self._received = b""

    def send(self, frame: bytes, request: object) -> None:
        assert not self.awaits, "one request at a time"
        self.awaits, self.request = True, request
        self._send_up(frame, request)

    def receive_all(self) -> bool:
        """Whether there is an answer."""
        length = int.from_bytes(self._received[:LENGTH_BYTES], "big")
        if self.awaits and len(self._received) > LENGTH_BYTES and len(self._received) == LENGTH_BYTES + length:
            self.answer = self._received[LENGTH_BYTES:]
        return self.answer is not None

    @property
    def is_ready(self) -> bool:
        """Whether somebody who waits for it would go on."""
        return self.is_broken or (self.awaits and bool(self._received))

    @property
    def leftover(self) -> bytes:
        return self._received

    def done(self) -> None:
        self.awaits, self.request, self.answer, self._received = False, None, None, b""
        self.answered += 1

    def close(self) -> None:
        """There is no socket that others could have."""

    def shut(self) -> None:
        self.broken()

    # ---- called by the connection

    def received(self, data: bytes) -> None:
        self._received += data
        self._has_news()

    def broken(self) -> None:
        self.is_broken = True
        self._has_news()
