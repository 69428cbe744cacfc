"""Channel: authenticated messages over one socket, between the lease agent and those who talk to it.

Both sides prove that they know the key without sending it: each answers the other's random challenge with an HMAC.
Then a message is a JSON document with bytes behind it, each after its length. One request at a time; an end of the
other side raises `EOFError`, whatever the socket called it. Nothing here knows what the messages mean.
"""

from __future__ import annotations

import hmac
import json
import secrets
import socket
import struct
import time
from typing import Any, Final, Self

from kafka_share.spark.failures import LeaseAgentError

_LENGTHS: Final = struct.Struct(">IQ")
_CHALLENGE_BYTES: Final = 32
_PROOF_BYTES: Final = 32
MAX_DOCUMENT_BYTES: Final = 256 << 20
MAX_BLOB_BYTES: Final = 4 << 30
AUTHENTICATION_S: Final = 10.0
"""A peer that has not proved itself by then is hung up on, however much or little it has said."""
KEY_BYTES: Final = 32


class Channel:
    """Made by `accepted` on the agent's side and `connected` on the other; used by one thread at a time."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock

    @classmethod
    def connected(cls, sock: socket.socket, key: bytes, within_s: float = AUTHENTICATION_S) -> Self:
        """The side that has connected. Raises `LeaseAgentError` if the other one does not know the key.

        Raises `EOFError` if it hangs up, or has not proved itself within the limit.
        """
        return cls._authenticated(sock, key, b"client", b"agent", time.monotonic() + within_s)

    @classmethod
    def accepted(cls, sock: socket.socket, key: bytes, within_s: float = AUTHENTICATION_S) -> Self:
        """The side that was connected to. Raises as `connected` does."""
        return cls._authenticated(sock, key, b"agent", b"client", time.monotonic() + within_s)

    @classmethod
    def _authenticated(cls, sock: socket.socket, key: bytes, own: bytes, other: bytes, ends_at_s: float) -> Self:
        channel = cls(sock)
        timeout_s = sock.gettimeout()
        try:
            mine = secrets.token_bytes(_CHALLENGE_BYTES)
            sock.settimeout(max(0.0, ends_at_s - time.monotonic()))
            channel._send(mine)
            theirs = bytes(channel._receive(_CHALLENGE_BYTES, ends_at_s))
            channel._send(_proof(key, own, mine, theirs))
            if not hmac.compare_digest(channel._receive(_PROOF_BYTES, ends_at_s), _proof(key, other, theirs, mine)):
                raise LeaseAgentError("the other side does not know the key of this lease agent")
        except (OSError, EOFError) as error:
            sock.close()
            raise EOFError("the other side hung up before it had proved itself") from error
        except LeaseAgentError:
            sock.close()
            raise
        sock.settimeout(timeout_s)
        return channel

    def send(self, document: dict[str, Any], blob: bytes = b"") -> None:
        """Raises `EOFError` if the other side is gone."""
        text = json.dumps(document).encode()
        self._send(_LENGTHS.pack(len(text), len(blob)) + text)
        if blob:
            self._send(blob)

    def receive(self) -> tuple[dict[str, Any], bytes]:
        """Wait for a message. Raises `EOFError` if the other side is gone or talks nonsense."""
        text_bytes, blob_bytes = _LENGTHS.unpack(self._receive(_LENGTHS.size))
        if text_bytes > MAX_DOCUMENT_BYTES or blob_bytes > MAX_BLOB_BYTES:
            raise EOFError("the other side announced a message beyond all bounds")
        document = json.loads(bytes(self._receive(text_bytes)))
        return document, bytes(self._receive(blob_bytes))

    def close(self) -> None:
        """Hang up; whoever waits on this socket, on any thread, sees its end."""
        try:
            self._sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # it has ended already
        self._sock.close()

    def _send(self, data: bytes) -> None:
        try:
            self._sock.sendall(data)
        except OSError as error:
            raise EOFError("the other side has hung up") from error

    def _receive(self, size: int, ends_at_s: float | None = None) -> bytearray:
        data = bytearray(size)
        view, filled = memoryview(data), 0
        while filled < size:
            try:
                if ends_at_s is not None:
                    self._sock.settimeout(max(0.0, ends_at_s - time.monotonic()))
                count = self._sock.recv_into(view[filled:])
            except OSError as error:
                raise EOFError("the connection broke") from error
            if not count:
                raise EOFError("the other side has hung up")
            filled += count
        return data


def _proof(key: bytes, who: bytes, own: bytes, other: bytes) -> bytes:
    """Knowing the key, for these two challenges. `who` keeps a proof from being sent back as one's own."""
    return hmac.digest(key, who + own + other, "sha256")
