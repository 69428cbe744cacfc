"""A broker that replays: one process, one thread, one node, one topic, and next to no work per record.

    python -m performance.stub_broker '{"partitions": 4, "shape": {"value_bytes": 100}}'

Started by `stub_process`. It serves share groups (versions 1 and 2 of ShareFetch and ShareAcknowledge) from batches
that were encoded once, waits with an answer as long as there is nothing to give, and keeps an account of every
acknowledgement. It has no log, no locks and no limit of records in flight: whatever is measured is the client.

Standard output says where it listens. Lines of standard input are commands, each answered by a line of JSON:
`{"open": GROUP, "records": N, "members": M}` makes a group, which gets its first record when M members have a session;
`{"account": GROUP}` is what happened in it, with the CPU seconds of this process. The end of input ends the broker.
"""

from __future__ import annotations

import contextlib
import heapq
import itertools
import json
import os
import selectors
import socket
import sys
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Final

import attrs
from performance.replayed_batches import ReplayedBatches, Shape, StampedBatches
from performance.replayed_group import ReplayedGroup, Session
from performance.share_wire import Names, ShareRequest, acknowledge_answer, fetch_answer, read_share_request
from performance.stub_answers import HOST, SHARE_ACKNOWLEDGE, SHARE_FETCH, TOPIC, Answers

_RECEIVE_BYTES: Final = 1 << 18
_COMMAND_BYTES: Final = 1 << 16


@attrs.frozen
class Settings:
    """`delay_ms`: before each answer to a fetch. `every_ms`: a record comes into being so often, stamped; otherwise
    all are there from the beginning."""

    partitions: int = 1
    shape: Shape = attrs.field(factory=Shape)
    delay_ms: float = 0
    every_ms: float = 0

    @classmethod
    def from_json(cls, text: str) -> Settings:
        given = json.loads(text)
        return cls(**{**given, "shape": Shape(**given.get("shape", {}))})


@attrs.define
class _Fetch:
    """A fetch that waits for records, or for its delay."""

    connection: _Connection
    correlation_id: int
    request: ShareRequest
    waits: bool = True


@attrs.define
class _Group:
    state: ReplayedGroup
    members: int
    stamped: StampedBatches | None
    to_come: int = 0
    parked: deque[_Fetch] = attrs.field(factory=deque)

    @property
    def is_complete(self) -> bool:
        return len(self.state.sessions) >= self.members


class _Connection:
    """Requests are answered in their order: while one waits, those behind it are left unread."""

    def __init__(self, broker: StubBroker, peer: socket.socket) -> None:
        peer.setblocking(False)
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket = peer
        self.sessions: set[tuple[str, str]] = set()
        """(group, member) of each that was opened here: they end with the connection."""
        self.is_busy = False
        self.names: dict[bytes, Names] = {}
        """How its requests begin."""
        self._broker = broker
        self._received = bytearray()
        self._unsent: deque[memoryview] = deque()

    def receive(self) -> None:
        data = self._broker.receive(self.socket)
        if not data:
            self._broker.disconnected(self)
        elif self._received or self.is_busy or len(data) - 4 != int.from_bytes(data[:4], "big"):
            self._received += data
            self.go_on()
        else:  # one whole request, as nearly always
            self._broker.handle(self, data[4:])

    def go_on(self) -> None:
        """Handle the requests that are here whole, up to one that has to wait. Nothing keeps a part of a frame."""
        while not self.is_busy and len(self._received) >= 4:
            end = 4 + int.from_bytes(self._received[:4], "big")
            if len(self._received) < end:
                return
            frame = bytes(self._received[4:end])
            del self._received[:end]
            self._broker.handle(self, memoryview(frame))

    def send(self, parts: list[bytes | memoryview]) -> None:
        """What the kernel does not take at once is copied, since the parts may change behind our back."""
        sent = 0 if self._unsent else self._try(parts)
        for part in parts:
            if sent < len(part):
                self._unsent.append(memoryview(bytes(part[sent:])))
            sent = max(0, sent - len(part))
        if self._unsent:
            self._broker.watch(self, writing=True)

    def _try(self, parts: list[bytes | memoryview]) -> int:
        try:
            return self.socket.sendmsg(parts)
        except BlockingIOError:
            return 0
        except OSError:  # gone: reading will tell
            return sum(map(len, parts))

    def flush(self) -> None:
        while self._unsent:
            part = self._unsent.popleft()
            sent = self._try([part])
            if sent < len(part):
                self._unsent.appendleft(part[sent:])
                return
        self._broker.watch(self, writing=False)


class StubBroker:
    """All connections, groups and timers of the process."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._selector = selectors.DefaultSelector()
        self._listener = socket.create_server((HOST, 0), backlog=64)
        self._answers = Answers(self._listener.getsockname()[1], settings.partitions)
        self._groups: dict[str, _Group] = {}
        self._replayed = ReplayedBatches(settings.shape)
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self._buffer = bytearray(_RECEIVE_BYTES)
        self._selector.register(self._listener, selectors.EVENT_READ, self._accept)

    @property
    def bootstrap(self) -> str:
        return f"{HOST}:{self._answers.port}"

    def run(self, commands: int, answer: Callable[[str], None]) -> None:
        """Until the file descriptor `commands` ends."""
        open_ended = True
        unread = b""

        def obey() -> None:
            nonlocal open_ended, unread
            data = os.read(commands, _COMMAND_BYTES)
            open_ended = bool(data)
            *lines, unread = (unread + data).split(b"\n")
            for line in lines:
                answer(json.dumps(self._obey(json.loads(line))))

        self._selector.register(commands, selectors.EVENT_READ, obey)
        while open_ended:
            for key, events in self._selector.select(self._until_next_timer()):
                if isinstance(key.data, _Connection):
                    self._serve(key.data, events)
                else:
                    key.data()
            self._fire()

    # ---- for connections

    def receive(self, peer: socket.socket) -> memoryview:
        """What has arrived; empty if the peer is gone."""
        try:
            return memoryview(self._buffer)[: peer.recv_into(self._buffer)]
        except OSError:
            return memoryview(b"")

    def watch(self, connection: _Connection, *, writing: bool) -> None:
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if writing else 0)
        with contextlib.suppress(KeyError):  # it is gone
            self._selector.modify(connection.socket, events, connection)

    def disconnected(self, connection: _Connection) -> None:
        self._selector.unregister(connection.socket)
        connection.socket.close()
        for group_id, member_id in connection.sessions:
            group = self._groups[group_id]
            group.parked = deque(one for one in group.parked if one.connection is not connection)
            group.state.close(member_id)
            self._serve_parked(group)

    def handle(self, connection: _Connection, frame: memoryview) -> None:
        api_key = int.from_bytes(frame[:2], "big")
        correlation_id = int.from_bytes(frame[4:8], "big", signed=True)
        if api_key == SHARE_FETCH:
            self._fetch(connection, correlation_id, read_share_request(frame, connection.names, is_fetch=True))
        elif api_key == SHARE_ACKNOWLEDGE:
            request = read_share_request(frame, connection.names, is_fetch=False)
            self._update_session(connection, request)
            version = int.from_bytes(frame[2:4], "big")
            connection.send(acknowledge_answer(correlation_id, version, self._answers.topic_id, request.named))
        else:
            connection.send([self._answers.answer(frame)])

    # ---- fetching

    def _fetch(self, connection: _Connection, correlation_id: int, request: ShareRequest) -> None:
        group = self._update_session(connection, request)
        fetch = _Fetch(connection, correlation_id, request)
        if self._settings.delay_ms:
            connection.is_busy = True
            self._after(self._settings.delay_ms, lambda: self._give_or_park(group, fetch))
        else:
            self._give_or_park(group, fetch)

    def _update_session(self, connection: _Connection, request: ShareRequest) -> _Group:
        """Take note of what a request says about its session, acknowledgements included."""
        group = self._groups[request.group_id]
        session = group.state.sessions.get(request.member_id)
        if request.epoch == 0 or session is None:
            session = group.state.open(request.member_id)
            connection.sessions.add((request.group_id, request.member_id))
        session.turns += [number for number in request.named if number not in session.turns]
        for number in request.forgotten:
            session.turns.remove(number)
        group.state.acknowledge(session, request.acknowledgements)
        if request.epoch == -1:
            group.state.close(request.member_id)
        if group.parked:
            self._serve_parked(group)
        return group

    def _give_or_park(self, group: _Group, fetch: _Fetch) -> None:
        request = fetch.request
        if self._give(group, fetch):
            return
        if request.epoch == -1 or request.max_records == 0 or request.max_wait_ms == 0:
            self._answer(fetch, None)
            return
        fetch.connection.is_busy = True
        group.parked.append(fetch)
        self._after(request.max_wait_ms, lambda: self._give_up(group, fetch))

    def _give(self, group: _Group, fetch: _Fetch) -> bool:
        session = group.state.sessions.get(fetch.request.member_id)
        if session is None or not group.is_complete or fetch.request.epoch == -1:
            return False
        if group.stamped is not None and group.to_come:
            self._begin_producing(group)
        return self._answer(fetch, (group, session))

    def _answer(self, fetch: _Fetch, source: tuple[_Group, Session] | None) -> bool:
        """With what the source has; returns False, and sends nothing, if it has nothing."""
        request = fetch.request
        acquired = []
        if source is not None:
            group, session = source
            acquired = group.state.acquire(session, request.max_records, request.max_bytes)
            if not acquired:
                return False
        named = {partition for partition, *_ in request.acknowledgements}
        fetch.waits = False
        fetch.connection.send(fetch_answer(fetch.correlation_id, self._answers.topic_id, named, acquired))
        if fetch.connection.is_busy:
            fetch.connection.is_busy = False
            self._after(0, fetch.connection.go_on)
        return True

    def _serve_parked(self, group: _Group) -> None:
        for _ in range(len(group.parked)):
            fetch = group.parked.popleft()
            if not self._give(group, fetch):
                group.parked.append(fetch)

    def _give_up(self, group: _Group, fetch: _Fetch) -> None:
        if fetch.waits and fetch in group.parked:
            group.parked.remove(fetch)
            self._answer(fetch, None)

    # ---- records that come into being

    def _begin_producing(self, group: _Group) -> None:
        count, group.to_come = group.to_come, 0
        began_at_s = time.monotonic()
        for number in range(count):
            self._at(began_at_s + number * self._settings.every_ms / 1_000, lambda: self._produce(group))

    def _produce(self, group: _Group) -> None:
        assert group.stamped is not None
        group.stamped.stamps.append(time.time_ns())
        group.state.let_out(1)
        self._serve_parked(group)

    # ---- commands, sockets, timers

    def _obey(self, command: dict[str, Any]) -> dict[str, Any]:
        if "open" in command:
            self._open(command["open"], command["records"], command.get("members", 1))
            return {}
        return {**self._groups[command["account"]].state.account(), "cpu_s": time.process_time()}

    def _open(self, group_id: str, records: int, members: int) -> None:
        settings = self._settings
        if settings.every_ms:
            stamped = StampedBatches(settings.shape.value_bytes)
            self._groups[group_id] = _Group(ReplayedGroup(stamped, 1, 0), members, stamped, to_come=records)
        else:
            state = ReplayedGroup(self._replayed, settings.partitions, records)
            self._groups[group_id] = _Group(state, members, None)

    def _accept(self) -> None:
        connection = _Connection(self, self._listener.accept()[0])
        self._selector.register(connection.socket, selectors.EVENT_READ, connection)

    def _serve(self, connection: _Connection, events: int) -> None:
        if events & selectors.EVENT_WRITE:
            connection.flush()
        if events & selectors.EVENT_READ:
            connection.receive()

    def _after(self, delay_ms: float, action: Callable[[], None]) -> None:
        self._at(time.monotonic() + delay_ms / 1_000, action)

    def _at(self, at_s: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._timers, (at_s, next(self._numbers), action))

    def _until_next_timer(self) -> float | None:
        return max(0.0, self._timers[0][0] - time.monotonic()) if self._timers else None

    def _fire(self) -> None:
        while self._timers and self._timers[0][0] <= time.monotonic():
            heapq.heappop(self._timers)[2]()


def main() -> None:
    def say(line: str) -> None:
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()

    broker = StubBroker(Settings.from_json(sys.argv[1]))
    say(json.dumps({"bootstrap": broker.bootstrap, "topic": TOPIC}))
    broker.run(sys.stdin.fileno(), say)


if __name__ == "__main__":
    main()
