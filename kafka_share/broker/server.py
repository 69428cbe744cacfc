"""The broker's sockets: listeners, connections by id, one timer, and the moment when the disk is synced.

Drives one `BrokerMachine` on one asyncio loop; everything here runs on that loop. A connection hands over its requests
one by one; the server logs them, takes planned faults, has the machine work on them, and gives each reply to its
connection. What it must not do: know what a request means.
"""

from __future__ import annotations

import asyncio
import errno
import heapq
import logging
import socket
import time
from collections import Counter
from typing import TYPE_CHECKING, Final

from kafka_share.broker.byte_budget import ByteBudget
from kafka_share.broker.connection import Connection
from kafka_share.broker.conversation import DEFAULT_LIMITS
from kafka_share.broker.durability.held_answers import Answer
from kafka_share.broker.error_answers import error_answer
from kafka_share.broker.events import ConnectionClosed, HostLookedUp, Reply, RequestWorkedOn
from kafka_share.broker.faults import FaultKind, FaultPlan
from kafka_share.broker.line_budget import LineBudget
from kafka_share.broker.resolver import address_of_host
from kafka_share.broker.security.authentication import Authentication
from kafka_share.broker.turned_away import TurnedAway
from kafka_share.harmless import excerpt

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterable, Iterator, Mapping

    from kafka_share.broker.clock import BrokerClock
    from kafka_share.broker.cluster import Cluster
    from kafka_share.broker.durability.held_answers import HeldAnswers
    from kafka_share.broker.events import RequestArrived
    from kafka_share.broker.limits import Limits
    from kafka_share.broker.machine import BrokerMachine
    from kafka_share.broker.refusals import Refusal
    from kafka_share.broker.request_log import RequestLog
    from kafka_share.broker.security.authentication import Mechanisms
    from kafka_share.broker.security.sasl import Sasl

logger: logging.Logger = logging.getLogger(__name__)

_MAX_TIMER_MS: Final = 3_600_000
_MIN_TIMER_MS: Final = 1
"""Work that is due at once leaves others some rounds of the loop: a new client needs several until it is answered."""
_BACKLOG: Final = 128
_CLOSING_ROUNDS: Final = 3
_EXHAUSTED: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
"""Errors of accept that last: the socket stays readable, so trying at once would never end."""
_ACCEPT_AGAIN_S: Final = 1.0
_ACCEPT_WARNING_EVERY_S: Final = 60.0
_LONGEST_SWEEP_S: Final = 10.0
_SWEEPS_PER_LIMIT: Final = 4
"""So a connection is idle for up to a quarter of the limit longer."""


class BrokerServer:
    """Listeners for the nodes of a machine's cluster. `advertised_host` is what clients are told to connect to."""

    def __init__(
        self,
        machine: BrokerMachine,
        clock: BrokerClock,
        requests: RequestLog,
        *,
        host: str,
        advertised_host: str,
        limits: Limits = DEFAULT_LIMITS,
        tls: ssl.SSLContext | None = None,
        sasl: Sasl | None = None,
    ) -> None:
        self.machine: BrokerMachine = machine
        self.cluster: Cluster = machine.cluster
        self.clock = clock
        self.faults: FaultPlan = FaultPlan()
        self._arm_faults()
        self.requests = requests
        self.host: str = host
        self._advertised_host = advertised_host
        self.limits: Limits = limits
        self._requests_held = ByteBudget(limits.requests_bytes)
        self._answers_unread = ByteBudget(limits.unread_bytes)
        self._complaints = LineBudget(limits.log_lines)
        self._tls = tls
        self._sasl = sasl
        self._listeners: dict[int, socket.socket] = {}
        self._accepting: dict[int, set[asyncio.Task[None]]] = {}
        """Clients that have been accepted and have no connection object yet, by node."""
        self._accepts_again: asyncio.TimerHandle | None = None
        """Set while nobody is accepted, since there is no room for another socket."""
        self._may_warn_from_s = 0.0
        self._present: Counter[str] = Counter()
        """How many are connected, or about to be, by address."""
        self._turned_away = TurnedAway()
        self._has_room = True
        self._sweep: asyncio.TimerHandle | None = None
        """Set while there are connections, which may become idle."""
        self._connections: dict[int, Connection] = {}
        self._next_connection_id = 0
        self._delayed: list[tuple[int, int, int, bytes | None]] = []
        """Answers held back, and ends of silence (no frame): (due at, order, connection id, frame)."""
        self._delayed_count = 0
        self._timer: asyncio.TimerHandle | None = None
        self._lookups: set[asyncio.Task[None]] = set()
        self._running = False
        self._has_news = False
        """Something has happened since the machine was last polled."""
        self._held: HeldAnswers | None = None
        """Of a broker with a data directory."""
        self._commit_handle: asyncio.Handle | None = None

    # ---- life

    async def start_node(self, node_id: int, port: int) -> None:
        """Start a node, unless it runs, on `port` (0: any free one). Raises `OSError`."""
        if self.is_running(node_id):
            return
        self._listen(node_id, port)
        self.cluster.start_node(node_id, self.clock.now_ms())
        self.run()

    def _listen(self, node_id: int, port: int) -> None:
        # asyncio's own server loses a client that it accepts while it closes (it asserts and leaks the socket).
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        listener = socket.create_server((self.host, port), family=family, backlog=_BACKLOG)
        listener.setblocking(False)
        self._listeners[node_id] = listener
        self._accepting[node_id] = set()
        self.cluster.set_address(node_id, self._advertised_host, listener.getsockname()[1])
        self._watch(node_id)

    def _watch(self, node_id: int) -> None:
        """Accept clients, if that is possible now."""
        if self._accepts_again is None and self._has_room:
            listener = self._listeners[node_id]
            asyncio.get_running_loop().add_reader(listener, self._accept, node_id, listener)

    def _watch_nobody(self) -> None:
        for listener in self._listeners.values():
            asyncio.get_running_loop().remove_reader(listener)

    def _accept(self, node_id: int, listener: socket.socket) -> None:
        most = self.cluster.configs.broker_int("max.connections")
        if self._present.total() + len(self._turned_away) >= most:
            self._warn("%d clients are connected: others wait until one of them goes", most)
            self._has_room = False
            self._watch_nobody()
            return
        try:
            client, address = listener.accept()
        except OSError as error:
            if error.errno in _EXHAUSTED:
                self._pause_accepting(error)
            elif not isinstance(error, BlockingIOError | ConnectionAbortedError):
                logger.warning("node %d cannot accept a client: %s", node_id, error)
            return
        host, now_ms = address[0], self.clock.now_ms()
        wait_ms = self.cluster.client_quotas.connect(host, now_ms)
        if wait_ms:
            self._turned_away.add(client, node_id, now_ms + wait_ms)
            self._arm_timer()
            return
        most = self.cluster.configs.broker_int("max.connections.per.ip")
        if self._present[host] >= most:
            self._warn("%d clients of %s are connected: others are turned away", most, host)
            client.close()
            return
        self._present[host] += 1
        client.setblocking(False)
        task = asyncio.get_running_loop().create_task(self._connect(node_id, client, host))
        self._accepting[node_id].add(task)
        task.add_done_callback(self._accepting[node_id].discard)

    def _pause_accepting(self, error: OSError) -> None:
        """For a second; clients wait in the queue of the listener meanwhile."""
        if self._accepts_again is not None:  # two listeners were ready at once
            return
        self._warn("no client can be accepted for now: %s", error)
        self._watch_nobody()
        self._accepts_again = asyncio.get_running_loop().call_later(_ACCEPT_AGAIN_S, self._resume_accepting)

    def _warn(self, text: str, *values: object) -> None:
        """About clients that are not accepted; once a minute, since there may be thousands."""
        now_s = asyncio.get_running_loop().time()
        if now_s >= self._may_warn_from_s:
            logger.warning(text, *values)
            self._may_warn_from_s = now_s + _ACCEPT_WARNING_EVERY_S

    def _resume_accepting(self) -> None:
        self._accepts_again = None
        for node_id in self._listeners:
            self._watch(node_id)

    async def _connect(self, node_id: int, client: socket.socket, host: str) -> None:
        limit_s = None if self._tls is None else self.limits.handshake_ms / 1_000
        connection = Connection(self, node_id)
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: connection, client, ssl=self._tls, ssl_handshake_timeout=limit_s
            )
        except OSError as error:  # of TLS too: what the client sent is no handshake, or its certificate is not good
            if self.may_complain():
                logger.warning("a client of node %d could not be connected: %s", node_id, excerpt(str(error)))
        finally:
            if not connection.was_opened:
                self._left(host)

    def _left(self, host: str) -> None:
        """A client has gone, and left its place to others."""
        self._present[host] -= 1
        if not self._present[host]:
            del self._present[host]
        self._made_room()

    def _close_turned_away(self, node_id: int | None = None) -> None:
        """Of a node, or all."""
        self._turned_away.close_all(node_id)
        self._made_room()

    def _made_room(self) -> None:
        if not self._has_room:
            self._has_room = True
            for node_id in self._listeners:
                self._watch(node_id)

    def _arm_faults(self) -> None:
        self.cluster.append_fault = self.faults.take_log_fault
        self.cluster.persister_fault = self.faults.take_persister_fault

    def install(self, machine: BrokerMachine, held: HeldAnswers) -> None:
        """Go on with the machine of a cluster that was read from disk, at the addresses of the one before.

        Nothing runs when this is called.
        """
        addresses = list(self.cluster.nodes.values())
        self.machine, self.cluster, self._held = machine, machine.cluster, held
        self._arm_faults()
        for node in addresses:
            self.cluster.set_address(node.id, node.host, node.port)

    async def renew(self, machine: BrokerMachine) -> None:
        """Go on with another machine and without connections, faults and requests; every node runs, where it was.

        Raises `OSError` if one that was stopped cannot; then nothing has changed."""
        addresses = list(self.cluster.nodes.values())
        await self._listen_everywhere()
        self.drop_connections()
        self._close_turned_away()
        self._delayed.clear()
        self.faults.clear()
        self.requests.clear()
        self.machine = machine
        self.cluster = machine.cluster
        self._arm_faults()
        self.clock.start_again()
        for node in addresses:
            self.cluster.set_address(node.id, node.host, node.port)
        self.run()
        await self._let_transports_go()

    async def _listen_everywhere(self) -> None:
        """All nodes listen, or none more than before. Raises `OSError`."""
        begun = []
        try:
            for node in self.cluster.nodes.values():
                if not self.is_running(node.id):
                    self._listen(node.id, node.port)
                    begun.append(node.id)
        except OSError:
            for node_id in begun:
                await self._close_listener(node_id)
            raise

    async def close(self) -> None:
        """Stop all nodes."""
        for node_id in list(self._listeners):
            await self.stop_node(node_id)
        for lookup in self._lookups:
            lookup.cancel()
        await asyncio.gather(*self._lookups, return_exceptions=True)
        self._stop_timer()
        self.commit()
        for handle in (self._accepts_again, self._sweep):
            if handle is not None:
                handle.cancel()
        self._accepts_again = self._sweep = None

    async def _close_listener(self, node_id: int) -> None:
        listener = self._listeners.pop(node_id)
        asyncio.get_running_loop().remove_reader(listener)
        listener.close()
        await asyncio.gather(*self._accepting.pop(node_id), return_exceptions=True)
        self.drop_connections(node_id)
        self._close_turned_away(node_id)
        await self._let_transports_go()

    async def _let_transports_go(self) -> None:
        """Closed transports need some rounds of the loop to be gone."""
        for _ in range(_CLOSING_ROUNDS):
            await asyncio.sleep(0)

    async def stop_node(self, node_id: int) -> None:
        """Stop a node: its port is closed, its memory is lost, its partitions and groups go to others."""
        await self._close_listener(node_id)
        self.cluster.stop_node(node_id, self.clock.now_ms())
        self.run()

    def is_running(self, node_id: int) -> bool:
        return node_id in self._listeners

    def drop_connections(self, node_id: int | None = None) -> None:
        """Close the connections to a node, or all, silently."""
        for connection in list(self._connections.values()):
            if node_id in (None, connection.node_id):
                connection.abort()

    def connections(self) -> list[Connection]:
        """Everybody who is connected, to look at."""
        return list(self._connections.values())

    # ---- for the connections

    def connection_opened(self, connection: Connection) -> int:
        connection_id = self._next_connection_id
        self._next_connection_id += 1
        self._connections[connection_id] = connection
        if self._sweep is None:
            self._plan_sweep()
        return connection_id

    def connection_closed(self, connection: Connection) -> None:
        self._requests_held.note(connection.id, 0)
        self._answers_unread.note(connection.id, 0)
        if self._connections.pop(connection.id, None) is not None:
            self._left(connection.client_host)
            self.machine.handle(ConnectionClosed(connection.id), self.clock.now_ms())
            self.run()

    def offered_versions(self) -> Mapping[int, tuple[int, int]]:
        return self.cluster.api_versions

    def new_authentication(self) -> Authentication | None:
        return None if self._sasl is None else Authentication(self._mechanisms)

    def _mechanisms(self) -> Mechanisms:
        assert self._sasl is not None
        return self._sasl.mechanisms(self.cluster.configs, self.cluster.scram_users)

    def now_ms(self) -> int:
        return self.clock.now_ms()

    def max_frame_bytes(self, *, is_authenticated: bool) -> int:
        key = "socket.request.max.bytes" if is_authenticated else "sasl.server.max.receive.size"
        return self.cluster.configs.broker_int(key)

    def refusal_delay_s(self) -> float:
        return self.cluster.configs.broker_int("connection.failed.authentication.delay.ms") / 1_000

    def requests_held(self, connection: Connection, size: int) -> None:
        self._note(self._requests_held, connection, size, "requests without an answer take too much memory")

    def answers_unread(self, connection: Connection, size: int) -> None:
        self._note(self._answers_unread, connection, size, "answers that nobody reads take too much memory")

    def _note(self, budget: ByteBudget, connection: Connection, size: int, why: str) -> None:
        while connection.id in self._connections:
            largest = budget.note(connection.id, size)
            if largest is None:
                return
            self._connections[largest].refuse(why)

    def may_complain(self) -> bool:
        may, left_out = self._complaints.take(asyncio.get_running_loop().time())
        if left_out:
            logger.warning("%d more lines about clients were left out", left_out)
        return may

    def _plan_sweep(self) -> None:
        limit_s = self._idle_limit_s()
        wait_s = _LONGEST_SWEEP_S if limit_s < 0 else min(limit_s / _SWEEPS_PER_LIMIT, _LONGEST_SWEEP_S)
        self._sweep = asyncio.get_running_loop().call_later(wait_s, self._close_idle)

    def _idle_limit_s(self) -> float:
        return self.cluster.configs.broker_int("connections.max.idle.ms") / 1_000

    def _close_idle(self) -> None:
        self._sweep = None
        limit_s = self._idle_limit_s()
        for connection in [one for one in self._connections.values() if one.is_idle(limit_s)]:
            logger.info("closing the connection of %s, which is idle", connection.client_host)
            connection.abort()
        if self._connections:
            self._plan_sweep()

    def request_arrived(self, connection: Connection, arrived: RequestArrived, size: int) -> None:
        context, request = arrived.context, arrived.request
        self.requests.add(context, request, size)
        connection.fault = fault = self.faults.take(context)
        if fault is not None and fault.kind is FaultKind.DROP_BEFORE:
            connection.abort()
        elif fault is not None and fault.kind is FaultKind.ERROR:
            connection.answer(Reply(context, error_answer(request, context.api_version, fault.error_code)))
        else:
            now_ms, is_timed = self.clock.now_ms(), self.cluster.client_quotas.limit_time
            began_ns = time.thread_time_ns() if is_timed else 0
            self.machine.handle(arrived, now_ms)
            if is_timed:
                self.machine.handle(RequestWorkedOn(context, time.thread_time_ns() - began_ns), now_ms)
            self.run()

    def answer_later(self, connection: Connection, frame: bytes, delay_ms: int) -> None:
        self._delay(connection, frame, delay_ms)

    def unmute_later(self, connection: Connection, delay_ms: int) -> None:
        self._delay(connection, None, delay_ms)

    def _delay(self, connection: Connection, frame: bytes | None, delay_ms: int) -> None:
        self._delayed_count += 1
        heapq.heappush(self._delayed, (self.clock.now_ms() + delay_ms, self._delayed_count, connection.id, frame))

    # ---- outputs and time

    def run(self) -> None:
        """Let the machine do what is due, send what it puts out, and set the timer anew."""
        self._has_news = True
        if self._running:
            return
        self._running = True
        try:
            while self._has_news:
                self._has_news = False
                self._run_once(self.clock.now_ms())
        finally:
            self._running = False
        self._arm_timer()

    def _run_once(self, now_ms: int) -> None:
        """One round. An answer may let the next request of its connection in, which is news again."""
        while self._delayed and self._delayed[0][0] <= now_ms:
            _, _, connection_id, frame = heapq.heappop(self._delayed)
            connection = self._connections.get(connection_id)
            if connection is None:
                continue
            if frame is None:
                connection.unmute()
            else:
                connection.finish(frame)
        if self._turned_away.close_due(now_ms):
            self._made_room()
        replies = self.machine.poll(now_ms)
        if self._held is not None:
            replies = self._held.polled(list(self._answers(replies)), now_ms)
            self._plan_commit(self._held)
        self._send(replies)
        for host in self.machine.take_lookups():
            task = asyncio.get_running_loop().create_task(self._look_up(self.machine, host))
            self._lookups.add(task)
            task.add_done_callback(self._lookups.discard)

    async def _look_up(self, machine: BrokerMachine, host: str) -> None:
        """On a thread of the loop's own. A machine that has been replaced meanwhile is told, too, and tells nobody."""
        address = None
        try:
            address = await asyncio.get_running_loop().run_in_executor(None, address_of_host, host)
        finally:
            machine.handle(HostLookedUp(host, address), self.clock.now_ms())
        self.run()

    def _send(self, replies: Iterable[Reply]) -> None:
        for reply in replies:
            if reply.context.connection_id in self._connections:
                self._connections[reply.context.connection_id].answer(reply)

    # ---- the disk

    def _answers(self, replies: Iterable[Reply]) -> Iterator[Answer]:
        for reply in replies:
            connection = self._connections.get(reply.context.connection_id)
            if connection is not None and connection.request is not None:
                yield Answer(reply, connection.request)

    def _plan_commit(self, held: HeldAnswers) -> None:
        """Answers wait until all connections with something to read have had their turn; all else for the interval."""
        loop = asyncio.get_running_loop()
        if held.is_waiting and (self._commit_handle is None or isinstance(self._commit_handle, asyncio.TimerHandle)):
            self._cancel_commit()
            self._commit_handle = loop.call_soon(self.commit)
        elif held.is_behind and self._commit_handle is None:
            self._commit_handle = loop.call_later(held.interval_ms / 1_000, self.commit)

    def _cancel_commit(self) -> None:
        if self._commit_handle is not None:
            self._commit_handle.cancel()
            self._commit_handle = None

    def commit(self) -> Refusal | None:
        """Sync what was written, and send the answers that wait for that; returns why it failed, if it did."""
        self._cancel_commit()
        if self._held is None:
            return None
        replies, problem = self._held.commit()
        self._send(replies)
        return problem

    def _arm_timer(self) -> None:
        times = [self.machine.wake_at_ms(), self._turned_away.wake_at_ms()]
        times += [self._delayed[0][0] if self._delayed else None]
        at_ms = min((one for one in times if one is not None), default=None)
        now_ms = self.clock.now_ms()
        if at_ms is None or (self.clock.manual and at_ms > now_ms):
            self._stop_timer()
            return
        wait_s = min(max(at_ms - now_ms, _MIN_TIMER_MS), _MAX_TIMER_MS) / 1_000
        loop = asyncio.get_running_loop()
        if self._timer is not None and self._timer.when() <= loop.time() + wait_s:
            return  # it fires in time, and is armed anew then: most of what is waited for never comes to its end
        self._stop_timer()
        self._timer = loop.call_later(wait_s, self._timer_fired)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _timer_fired(self) -> None:
        self._timer = None
        self.run()
