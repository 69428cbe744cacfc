"""A connection over a virtual wire: the package's own `Dialogue`, with a wire where the product has a socket.

Interprets the dialogue's outputs and carries frames both ways; what is sent when, what an answer means and when time is
up is decided by `kafka_share.network.wire`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from simulation.line import SimulatedLine
from simulation.network import Network
from simulation.virtual_time import VirtualTime

from kafka_share.core.events import Channel, Flight, Lend, RequestFailed, Resume, Send
from kafka_share.errors import AuthenticationError, BrokerUnreachableError, KafkaShareError, RemoteProtocolError
from kafka_share.network.connections import ConnectionOwner
from kafka_share.network.direct import CarryingFlight, DirectSession
from kafka_share.network.framing import FrameReceiver
from kafka_share.network.handshake import Challenge
from kafka_share.network.wire import Close, Dialogue, Opened, Served, Write
from kafka_share.records import Node

if TYPE_CHECKING:
    from simulation.driver import SimulatedProcess


PORT: Final = 9092
"""Every simulated broker listens there."""
NOBODY: Final = -1


def number_of(node: Node) -> int:
    """The simulated broker at this address; `NOBODY` for an address that no broker has."""
    number = node.host.removeprefix("node")
    return int(number) if node.port == PORT and number.isascii() and number.isdecimal() else NOBODY


class SimulatedConnection:
    """One connection of a simulated client; it is never opened again."""

    def __init__(
        self,
        node: Node,
        channel: Channel,
        owner: ConnectionOwner,
        process: SimulatedProcess,
        network: Network,
        time: VirtualTime,
    ) -> None:
        self.node = node
        self.channel = channel
        self._owner = owner
        self._process = process
        self._network = network
        self._time = time
        self._dialogue = Dialogue(node, channel, process.config, owner.measurements, process.now_ms())
        self._receiver = FrameReceiver()
        self._timer_at_ms: int | None = None
        self._direct: DirectSession | None = None
        self._line: SimulatedLine | None = None
        self._wire = network.open(process, number_of(node), self)
        self._run()

    def send(self, send: Send) -> None:
        self._dialogue.send(send, self._process.now_ms())
        self._run()

    def close(self, error: KafkaShareError, *, report_loss: bool = True, is_failure: bool = True) -> None:
        self._dialogue.close(error, self._process.now_ms(), report_loss=report_loss, is_failure=is_failure)
        self._run()

    # ---- a session that is lent

    def lend(self, lend: Lend) -> DirectSession | None:
        lent = None if self._receiver.is_mid_frame else self._dialogue.lend()
        if lent is None:
            return None
        line = self._line = SimulatedLine(self._send_directly, self._process.line_has_news)
        self._direct = DirectSession(lend, line, lent, self._process.config.client_id, self._process.now_ms)
        return self._direct

    def _send_directly(self, frame: bytes, flight: object) -> None:
        if isinstance(flight, CarryingFlight):
            self._process.count("acknowledged as a whole")
            flight = flight.listed()
        assert isinstance(flight, Flight)
        self._process.count(
            "fetched by the application's thread" if flight.is_fetch else "acknowledged by the application's thread"
        )
        self._process.sends_directly(flight)
        self._network.send_up(self._wire, frame)

    def recall(self) -> bool:
        return self._direct is None or self._direct.recall(self._owner.emit)

    def resume(self, resume: Resume) -> None:
        if resume.send_id is not None:
            kind = "a fetch" if resume.is_fetch else "an acknowledgement"
            self._process.count(f"taken back with {kind} in flight")
        direct, line = self._direct, self._line
        assert direct is not None
        assert line is not None
        self._direct = self._line = None
        if self._dialogue.is_closed:
            if resume.send_id is not None:
                self._owner.emit(RequestFailed(resume.send_id, BrokerUnreachableError("closed while it was lent")))
            return
        self._dialogue.take_back(direct.correlation_id, resume, self._process.now_ms())
        if line.leftover:
            self._take(line.leftover)
        if line.is_broken:
            self._lose("the connection broke while it was lent")
        self._run()

    # ---- called by the wire

    def opened(self) -> None:
        self._dialogue.dialled()
        self._dialogue.connected(self._process.now_ms())
        self._run_all()

    def received(self, data: bytes) -> None:
        if self._line is not None:
            self._line.received(data)
            return
        self._take(data)
        self._run_all()

    def _take(self, data: bytes) -> None:
        try:
            for frame in self._frames(data):
                self._dialogue.received(frame, self._process.now_ms())
        except (RemoteProtocolError, AuthenticationError) as error:
            self._dialogue.received_nonsense(error, self._process.now_ms())

    def _frames(self, data: bytes) -> Iterator[memoryview]:
        """The frames that these bytes complete, cut as the product cuts them."""
        rest = memoryview(data)
        while rest and not self._dialogue.is_closed:
            buffer = self._receiver.buffer()
            count = min(len(buffer), len(rest))
            buffer[:count], rest = rest[:count], rest[count:]
            yield from self._receiver.received(count)

    def broken(self, why: str) -> None:
        if self._line is not None:
            self._line.broken()  # nobody reads on the connection who would notice
            return
        self._lose(why)
        self._run_all()

    def _lose(self, why: str) -> None:
        is_mid_frame = self._receiver.is_mid_frame
        self._dialogue.lost(ConnectionError(why), self._process.now_ms(), is_mid_frame=is_mid_frame)

    # ---- the dialogue's outputs

    def _run_all(self) -> None:
        self._run()
        self._owner.step()

    def _run(self) -> None:
        while outputs := self._dialogue.poll(self._process.now_ms()):
            for output in outputs:
                if isinstance(output, Write):
                    self._network.send_up(self._wire, output.data)
                elif isinstance(output, Opened):
                    self._owner.opened(self)
                elif isinstance(output, Served):
                    self._owner.served(self)
                elif isinstance(output, Close):
                    self._owner.closed(self, output)
                    self._network.close(self._wire)
                    if self._line is not None:
                        self._line.shut()
                else:
                    assert not isinstance(output, Challenge), "simulated clients do not authenticate"
                    self._owner.emit(output)
        self._dialogue.check()
        self._arm()

    def _arm(self) -> None:
        wake_at_ms = self._dialogue.wake_at_ms()
        if wake_at_ms is not None and (self._timer_at_ms is None or wake_at_ms < self._timer_at_ms):
            self._timer_at_ms = wake_at_ms
            at_ms = self._process.virtual_ms(wake_at_ms)
            self._time.at(at_ms, lambda: self._process.run(lambda: self._on_timer(wake_at_ms)))

    def _on_timer(self, wake_at_ms: int) -> None:
        if self._timer_at_ms == wake_at_ms:
            self._timer_at_ms = None
            self._run_all()
