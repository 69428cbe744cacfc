"""Door: a listening socket, and a thread for each connection that has proved the key.

For the lease agent and for the host of agents. Who has not proved the key gets no answer, has to prove it soon, and is
one of a bounded number. What is said afterwards is not the door's business.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import ssl
import threading
from collections.abc import Callable
from typing import Final

import attrs

from kafka_share.spark.channel import AUTHENTICATION_S, Channel
from kafka_share.spark.failures import LeaseAgentError
from kafka_share.spark.waiting_room import WaitingRoom

log: logging.Logger = logging.getLogger(__name__)

BACKLOG: Final = 128
UNPROVED_CONNECTIONS: Final = 256
"""Of each door. More tasks than that hardly knock in the same millisecond."""
_PAUSE_S: Final = 0.1


@attrs.frozen
class Door:
    """`converse` talks to whom the door has let in, and returns or raises EOFError when that is over."""

    listener: socket.socket
    key: bytes = attrs.field(repr=False)
    converse: Callable[[Channel], None]
    tls: ssl.SSLContext | None
    room: WaitingRoom = attrs.field(factory=lambda: WaitingRoom(UNPROVED_CONNECTIONS))

    def open(self) -> None:
        """Begin to accept connections."""
        self.listener.listen(BACKLOG)
        threading.Thread(target=self._accept, name="lease-door", daemon=True).start()

    def close(self) -> None:
        """Take no further connections; those that are open stay."""
        self.listener.close()

    @property
    def port(self) -> int:
        """Of a door on TCP."""
        port: int = self.listener.getsockname()[1]
        return port

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self.listener.accept()
            except OSError as error:
                if self.listener.fileno() < 0:
                    return  # closed
                log.warning("no connection can be accepted just now: %s", error)  # too many files are open, say
                threading.Event().wait(_PAUSE_S)
                continue
            self._receive(sock)

    def _receive(self, sock: socket.socket) -> None:
        try:
            keep_alive(sock)
            if self.tls is not None:
                sock = self.tls.wrap_socket(sock, server_side=True, do_handshake_on_connect=False)
        except OSError as error:  # it has gone already
            log.warning("a connection was refused: %s", error)
            sock.close()
            return
        self.room.enter(sock)
        threading.Thread(target=self._serve, args=(sock,), name="lease-client", daemon=True).start()

    def _serve(self, sock: socket.socket) -> None:
        try:
            channel = self._entered(sock)
            try:
                self.converse(channel)
            finally:
                channel.close()
        except (LeaseAgentError, OSError) as error:
            log.warning("a connection was refused: %s", error)
        except EOFError:
            pass

    def _entered(self, sock: socket.socket) -> Channel:
        try:
            if isinstance(sock, ssl.SSLSocket):
                sock.settimeout(AUTHENTICATION_S)
                sock.do_handshake()
                sock.settimeout(None)
            return Channel.accepted(sock, self.key)
        except BaseException:
            sock.close()
            raise
        finally:
            self.room.leave(sock)


def keep_alive(sock: socket.socket) -> None:
    """Have the end of a peer's host noticed within half a minute, which sends no word of it."""
    if sock.family == socket.AF_UNIX:
        return
    with contextlib.suppress(AttributeError, OSError):  # not every system has all of them
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 10)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 5)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3)


def server_tls(cert_file: str, key_file: str) -> ssl.SSLContext | None:
    """What a door needs for TLS; None without a certificate. Raises OSError for files that are none."""
    if not cert_file:
        return None
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(cert_file, key_file or None)
    return tls


def connected(host: str, port: int, ca_file: str, timeout_s: float | None) -> socket.socket:
    """The other side of a door: a connection, by TLS if there is an authority. Raises OSError."""
    sock = socket.create_connection((host, port), timeout=timeout_s)
    keep_alive(sock)
    if not ca_file:
        return sock
    with contextlib.ExitStack() as on_failure:
        on_failure.callback(sock.close)
        wrapped = ssl.create_default_context(cafile=ca_file).wrap_socket(sock, server_hostname=host)
        on_failure.pop_all()
        return wrapped
    raise AssertionError("an ExitStack of closes swallows nothing")
