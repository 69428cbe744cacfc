"""A scripted broker on loopback, and a scripted core, for the tests of `kafka_share.network`.

A script is a function of one accepted connection, written with blocking calls; it runs on a thread of its own. What a
script raises comes out of `Peer.close`, so a wrong request fails the test.
"""

from __future__ import annotations

import contextlib
import os
import queue
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from typing import Any

import attrs

from kafka_share.config import ClientConfig
from kafka_share.core.events import Channel, Event, Output, PollEnded, Send
from kafka_share.core.metrics.measurements import Measurements
from kafka_share.network.driver import CoreDriver
from kafka_share.network.mailbox import ConsumerPort, Mailbox
from kafka_share.protocol.cluster import MetadataRequest, MetadataResponse
from kafka_share.protocol.handshake import ApiVersionsRequest, ApiVersionsResponse
from kafka_share.protocol.messages import decode_request, encode_response
from kafka_share.records import Node

WAIT_S = 20
"""Longer than anything here takes on a busy machine; only a failing test waits for it."""

RANGES = {3: (0, 12), 17: (0, 1), 18: (0, 4), 36: (0, 2)}
"""Metadata, SaslHandshake, ApiVersions, SaslAuthenticate."""

HIDDEN_CONNECTION_ENDS = (ConnectionError, ssl.SSLError, EOFError)


@attrs.frozen
class Request:
    api_key: int
    version: int
    correlation_id: int
    client_id: str | None
    body: bytes
    message: Any


class Accepted:
    """One connection as its script sees it."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock

    def read(self) -> Request:
        """The next request. Raises EOFError at the end."""
        data = self._exactly(struct.unpack(">i", self._exactly(4))[0])
        header, message = decode_request(data)
        return Request(
            header.api_key, header.api_version, header.correlation_id, header.client_id, data[header.body_at :], message
        )

    def _exactly(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            piece = self.sock.recv(count - len(data))
            if not piece:
                raise EOFError
            data += piece
        return data

    def write(self, data: bytes) -> None:
        self.sock.sendall(data)

    def answer(self, request: Request, response: Any, version: int | None = None) -> None:
        self.write(frame(request, response, version))

    def negotiate(self, ranges: dict[int, tuple[int, int]] = RANGES) -> Request:
        """Answer ApiVersions."""
        request = self.read()
        assert request.api_key == ApiVersionsRequest.API_KEY
        keys = [
            ApiVersionsResponse.ApiVersion(api_key=key, min_version=low, max_version=high)
            for key, (low, high) in ranges.items()
        ]
        self.answer(request, ApiVersionsResponse(error_code=0, api_keys=keys))
        return request

    def answer_metadata(self, cluster_id: str = "a cluster") -> None:
        self.answer(self.read(), metadata(cluster_id))

    def answer_metadata_of(self, request: Request) -> None:
        self.answer(request, metadata("a cluster"))

    def expect_end(self) -> None:
        """The client closes, perhaps with a reset."""
        with contextlib.suppress(*HIDDEN_CONNECTION_ENDS):
            data = self.sock.recv(1)
            assert data == b"", "the client sends where it has to close"

    def ignore_all(self) -> None:
        """Read to the end without looking."""
        with contextlib.suppress(*HIDDEN_CONNECTION_ENDS):
            while self.sock.recv(65_536):
                pass


def metadata(cluster_id: str) -> Any:
    return MetadataResponse(cluster_id=cluster_id, brokers=[], topics=[], controller_id=1)


def frame(request: Request, response: Any, version: int | None = None) -> bytes:
    return encode_response(request.correlation_id, response, request.version if version is None else version)


Script = Callable[[Accepted], None]


class Peer:
    """Listens on loopback and runs the n-th script on the n-th connection."""

    def __init__(self, *scripts: Script, context: ssl.SSLContext | None = None) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)  # so that a test can fill it
        self.port: int = self._listener.getsockname()[1]
        self._context = context
        self._failures: list[BaseException] = []
        self._threads = [threading.Thread(target=self._accept, args=(scripts,), name="peer")]
        self._threads[0].start()

    def node(self, node_id: int = 1, host: str = "127.0.0.1") -> Node:
        return Node(node_id, host, self.port)

    def _accept(self, scripts: tuple[Script, ...]) -> None:
        for script in scripts:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            thread = threading.Thread(target=self._serve, args=(script, sock), name="peer connection")
            self._threads.append(thread)
            thread.start()

    def _serve(self, script: Script, raw: socket.socket) -> None:
        raw.settimeout(WAIT_S)
        sock = raw
        try:
            if self._context is not None:
                sock = self._context.wrap_socket(raw, server_side=True, do_handshake_on_connect=False)
                self._shake_hands(sock)
            script(Accepted(sock))
        except HIDDEN_CONNECTION_ENDS:
            pass  # the client went away; the test looks at what the client says about it
        except BaseException as error:  # noqa: BLE001 - it is raised again by close
            self._failures.append(error)
        finally:
            sock.close()
            raw.close()

    def _shake_hands(self, sock: ssl.SSLSocket) -> None:
        try:
            sock.do_handshake()
        except ssl.SSLError:
            # Closing with unread bytes would reset the connection, and the alert that says why could get lost.
            with socket.socket(fileno=os.dup(sock.fileno())) as plain, contextlib.suppress(OSError):
                plain.settimeout(WAIT_S)
                plain.shutdown(socket.SHUT_WR)
                Accepted(plain).ignore_all()
            raise

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join(WAIT_S)
            assert not thread.is_alive(), "a script did not come to its end"
        if self._failures:
            raise self._failures[0]


class ScriptedCore:
    """Shows every event to the test, and polls out what `react` returned for it and what the test puts into it."""

    def __init__(self, react: Callable[[Event], list[Output]] | None = None) -> None:
        self.events: queue.Queue[Event] = queue.Queue()
        self.measurements = Measurements()
        self.times: list[int] = []
        self.outputs: list[Output] = []
        self.wake_at: int | None = None
        self.polls = 0
        self._react = react

    def handle(self, event: Event, now_ms: int) -> None:
        self.times.append(now_ms)
        if isinstance(event, Do):
            self.outputs += event.outputs
        else:
            self.events.put(event)
            if self._react is not None:
                self.outputs += self._react(event)

    def poll(self, now_ms: int) -> list[Output]:
        self.polls += 1
        outputs, self.outputs = self.outputs, []
        return outputs

    def wake_at_ms(self) -> int | None:
        return self.wake_at

    def next_event(self) -> Event:
        return self.events.get(timeout=WAIT_S)


@attrs.frozen
class Do:
    """An event of the tests: the core shall poll these outputs out."""

    outputs: tuple[Output, ...]


def config(**settings: Any) -> ClientConfig:
    """The driver does not look at the bootstrap servers: every request names its node."""
    return ClientConfig(**{"bootstrap_servers": "unused:9092", **settings})


def driver_of(core: ScriptedCore, mailbox: Mailbox | None = None, **settings: Any) -> CoreDriver:
    """A driver that has not been started."""
    return CoreDriver(core, config(**settings), name="tested", application=ConsumerPort(mailbox or Mailbox()))


class Client:
    """A driver with a scripted core, and a consumer's mailbox."""

    def __init__(self, react: Callable[[Event], list[Output]] | None = None, **settings: Any) -> None:
        self.core = ScriptedCore(react)
        self.mailbox = Mailbox()
        self.driver = driver_of(self.core, self.mailbox, client_id="tester", **settings)
        self.driver.start()

    def do(self, *outputs: Output) -> None:
        self.driver.post(Do(outputs))

    def next_event(self) -> Any:
        return self.core.next_event()

    def come_to_rest(self) -> None:
        """Wait until the loop sleeps. What a step puts into the mailbox can be taken before that step has ended."""
        is_over = threading.Event()
        loop = self.driver._loop
        assert loop is not None
        # The turn of the loop that runs a callback may hear of an event behind it; the next one comes after both.
        loop.call_soon_threadsafe(loop.call_soon, is_over.set)
        assert is_over.wait(WAIT_S)


@contextlib.contextmanager
def talking(*scripts: Script, context: ssl.SSLContext | None = None, **settings: Any) -> Iterator[tuple[Client, Peer]]:
    """A client and a peer; both have ended well, and left nothing behind, after the block."""
    threads = set(threading.enumerate())
    peer = Peer(*scripts, context=context)
    try:
        client = Client(**settings)
        try:
            yield client, peer
        finally:
            client.driver.stop()
            assert client.driver._loop is not None
            assert client.driver._loop.is_closed()
    finally:
        peer.close()
    left = [thread.name for thread in threading.enumerate() if thread not in threads]
    assert [name for name in left if not name.startswith("peer")] == [], left  # a test may have a second peer


@contextlib.contextmanager
def held_up() -> Iterator[tuple[Client, threading.Event]]:
    """A client whose thread works on an event until the test sets this one."""
    works, go_on = threading.Event(), threading.Event()

    def react(event: Event) -> list[Output]:
        works.set()
        assert go_on.wait(WAIT_S)
        return []

    with talking(react=react) as (client, _):
        client.driver.post(PollEnded())
        assert works.wait(WAIT_S)
        yield client, go_on


def ask(
    peer: Peer, send_id: int = 1, *, channel: Channel = Channel.CONTROL, timeout_ms: int = 60_000, min_version: int = 0
) -> Send:
    """A request for metadata."""
    return Send(send_id, peer.node(), channel, MetadataRequest(topics=[]), timeout_ms, min_version)
