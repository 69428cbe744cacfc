"""The virtual network: connections that carry frames both ways, late, in order, and sometimes not at all.

Joins the clients' connections to the brokers' listeners. A `Wire` is one TCP connection; what it
loses it loses for good, as TCP does: behind a lost frame nothing else arrives. Latencies come from a seeded source.
"""

from __future__ import annotations

import random
from collections import deque
from typing import Protocol

import attrs
from simulation.trace import Trace
from simulation.virtual_time import Action, VirtualTime

NEVER = 1 << 60


class ClientEnd(Protocol):
    """What a wire calls on the client's side."""

    def opened(self) -> None: ...
    def received(self, frame: bytes) -> None: ...
    def broken(self, why: str) -> None: ...


class Process(Protocol):
    """The client's process, which may be paused or dead."""

    name: str

    def run(self, action: Action) -> None:
        """Do this once the process runs; never if it has died."""


class Listeners(Protocol):
    """The side of the brokers."""

    def accepts(self, node_id: int) -> bool: ...
    def opened(self, wire: Wire) -> None: ...
    def received(self, wire: Wire, frame: bytes) -> None: ...
    def closed(self, wire: Wire) -> None: ...


@attrs.define(eq=False)
class Wire:
    """One connection. `lost_up` and `lost_down`: nothing more arrives at the broker, at the client."""

    id: int
    process: Process
    node_id: int
    end: ClientEnd
    is_open: bool = True
    is_accepted: bool = False
    lost_up: bool = False
    lost_down: bool = False
    up: deque[bytes] = attrs.Factory(deque)
    down: deque[bytes] = attrs.Factory(deque)
    up_at_ms: int = 0
    down_at_ms: int = 0


class Network:
    """All wires. `slow` and `unreachable` map to the time until which they hold."""

    def __init__(self, time: VirtualTime, source: random.Random, trace: Trace, latency_ms: tuple[int, int]) -> None:
        self.listeners: Listeners
        self.slow: dict[int, tuple[int, int]] = {}
        """Node -> (until, further latency of its answers)."""
        self.unreachable: dict[tuple[str, int], int] = {}
        """(client, node) -> until when nothing gets through."""
        self._time = time
        self._source = source
        self._trace = trace
        self._latency_ms = latency_ms
        self._wires: dict[int, Wire] = {}
        self._last_id = 0

    def _latency(self) -> int:
        low, high = self._latency_ms
        return self._source.randint(low, high)

    def _is_unreachable(self, wire: Wire) -> bool:
        return self.unreachable.get((wire.process.name, wire.node_id), 0) > self._time.now_ms

    def wires_of(self, name: str | None = None, node_id: int | None = None) -> list[Wire]:
        """The open wires of a client, to a node, or all."""
        return [
            wire
            for wire in self._wires.values()
            if name in (None, wire.process.name) and node_id in (None, wire.node_id)
        ]

    # ---- opening

    def open(self, process: Process, node_id: int, end: ClientEnd) -> Wire:
        """Begin to connect; `end.opened` or `end.broken` follows, or nothing at all."""
        self._last_id += 1
        wire = self._wires[self._last_id] = Wire(self._last_id, process, node_id, end)
        self._time.after(self._latency(), lambda: self._arrive(wire))
        return wire

    def _arrive(self, wire: Wire) -> None:
        if not wire.is_open or self._is_unreachable(wire):
            return
        if not self.listeners.accepts(wire.node_id):
            self._break(wire, "connection refused")
            return
        wire.is_accepted = True
        self.listeners.opened(wire)
        self._time.after(self._latency(), lambda: wire.process.run(lambda: self._opened(wire)))

    def _opened(self, wire: Wire) -> None:
        if wire.is_open:
            wire.end.opened()

    # ---- frames

    def send_up(self, wire: Wire, frame: bytes) -> None:
        """From the client to the broker."""
        if not wire.is_open:
            return
        wire.lost_up |= self._is_unreachable(wire)
        if wire.lost_up:
            return
        wire.up.append(frame)
        wire.up_at_ms = max(wire.up_at_ms, self._time.now_ms + self._latency())
        self._time.at(wire.up_at_ms, lambda: self._deliver_up(wire))

    def _deliver_up(self, wire: Wire) -> None:
        if wire.is_open and wire.up:
            self.listeners.received(wire, wire.up.popleft())

    def send_down(self, wire: Wire, frame: bytes, delay_ms: int = 0) -> None:
        """From the broker to the client; what follows waits behind a delayed frame."""
        if not wire.is_open:
            return
        wire.lost_down |= self._is_unreachable(wire)
        if wire.lost_down:
            return
        until_ms, slow_ms = self.slow.get(wire.node_id, (0, 0))
        if until_ms > self._time.now_ms:
            delay_ms += slow_ms
            self._trace.count("answer of a slow node")
        wire.down.append(frame)
        wire.down_at_ms = max(wire.down_at_ms, self._time.now_ms + self._latency() + delay_ms)
        self._time.at(wire.down_at_ms, lambda: wire.process.run(lambda: self._deliver_down(wire)))

    def _deliver_down(self, wire: Wire) -> None:
        if wire.is_open and wire.down:
            wire.end.received(wire.down.popleft())

    # ---- ends

    def _break(self, wire: Wire, why: str) -> None:
        """The wire is gone; the client hears of it a moment later."""
        wire.is_open = False
        del self._wires[wire.id]
        wire.up.clear()
        wire.down.clear()
        self._time.after(self._latency(), lambda: wire.process.run(lambda: wire.end.broken(why)))

    def cut(self, wire: Wire, why: str = "cut") -> None:
        """Neither end wanted it; what was on its way is lost."""
        if wire.is_open:
            self._break(wire, why)
            if wire.is_accepted:
                self.listeners.closed(wire)

    def cut_dead_wires(self) -> None:
        """What TCP finds out in the end: connections on which something was lost, or is stuck."""
        for wire in list(self._wires.values()):
            if wire.lost_up or wire.lost_down or wire.down_at_ms > self._time.now_ms + self._latency_ms[1]:
                self.cut(wire)

    def crash(self, wire: Wire) -> None:
        """The broker's end is gone with the broker itself."""
        if wire.is_open:
            self._break(wire, "connection reset")

    def close(self, wire: Wire, *, notice_ms: int = 0) -> None:
        """The client closed it, or died: the broker notices later, for `NEVER` not at all."""
        if not wire.is_open:
            return
        wire.is_open = False
        del self._wires[wire.id]
        if wire.is_accepted and notice_ms < NEVER:
            lost_ms = max(0, self.unreachable.get((wire.process.name, wire.node_id), 0) - self._time.now_ms)
            self._time.after(self._latency() + notice_ms + lost_ms, lambda: self.listeners.closed(wire))
