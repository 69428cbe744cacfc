"""A door goes on when a single connection cannot be taken."""

from __future__ import annotations

import contextlib
import errno
import socket
import ssl
from collections.abc import Iterator

import pytest

from kafka_share.spark.channel import Channel
from kafka_share.spark.door import Door

KEY = b"k" * 32


def converse(channel: Channel) -> None:
    """Say back what comes."""
    while True:
        channel.send(*channel.receive())


class Full(socket.socket):
    """Cannot accept the first time."""

    has_failed = False

    def accept(self) -> tuple[socket.socket, object]:
        if not self.has_failed:
            self.has_failed = True
            raise OSError(errno.EMFILE, "too many open files")
        return super().accept()


class Gone(ssl.SSLContext):
    """The first peer has gone before it is spoken to; the second one is not asked for TLS."""

    has_failed = False

    def wrap_socket(self, sock: socket.socket, *_: object, **__: object) -> socket.socket:  # type: ignore[override]
        if not self.has_failed:
            self.has_failed = True
            raise ssl.SSLError("it is not connected any more")
        return sock


@contextlib.contextmanager
def opened(listener: socket.socket, tls: ssl.SSLContext | None = None) -> Iterator[Door]:
    with listener:
        listener.bind(("127.0.0.1", 0))
        door = Door(listener, KEY, converse, tls)
        door.open()
        yield door


def is_answered(door: Door) -> bool:
    with socket.create_connection(("127.0.0.1", door.port)) as sock:
        channel = Channel.connected(sock, KEY)
        channel.send({"a": 1}, b"b")
        return channel.receive() == ({"a": 1}, b"b")


def test_it_goes_on_when_too_many_files_were_open() -> None:
    with opened(Full()) as door:
        assert is_answered(door)


def test_it_goes_on_when_a_peer_has_gone_before_tls_begins() -> None:
    with opened(socket.socket(), Gone(ssl.PROTOCOL_TLS_SERVER)) as door:
        with pytest.raises(EOFError):
            is_answered(door)
        assert is_answered(door)
