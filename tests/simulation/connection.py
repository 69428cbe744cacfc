"""A connection over a virtual wire: the package's own `Dialogue`, with a wire where the product has a socket.

Interprets the dialogue's outputs and carries frames both ways; what is sent when, what an answer means and when time is
up is decided by `kafka_share.network.wire`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simulation.network import Network
from simulation.virtual_time import VirtualTime

from kafka_share.core.events import Channel, Send
from kafka_share.errors import KafkaShareError
from kafka_share.network.connections import ConnectionOwner
from kafka_share.network.framing import LENGTH_BYTES
from kafka_share.network.handshake import Challenge
from kafka_share.network.wire import Close, Dialogue, Opened, Served, Write
from kafka_share.records import Node

if TYPE_CHECKING:
    from simulation.driver import SimulatedDriver


class SimulatedConnection:
    """One connection of a simulated client; it is never opened again."""

    def __init__(
        self,
        node: Node,
        channel: Channel,
        owner: ConnectionOwner,
        process: SimulatedDriver,
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
        self._timer_at_ms: int | None = None
        self._wire = network.open(process, int(node.host.removeprefix("node")), self)
        self._run()

    def send(self, send: Send) -> None:
        self._dialogue.send(send, self._process.now_ms())
        self._run()

    def close(self, error: KafkaShareError, *, report_loss: bool = True, is_failure: bool = True) -> None:
        self._dialogue.close(error, self._process.now_ms(), report_loss=report_loss, is_failure=is_failure)
        self._run()

    # ---- called by the wire

    def opened(self) -> None:
        self._dialogue.dialled()
        self._dialogue.connected(self._process.now_ms())
        self._run_all()

    def received(self, frame: bytes) -> None:
        self._dialogue.received(memoryview(frame)[LENGTH_BYTES:], self._process.now_ms())
        self._run_all()

    def broken(self, why: str) -> None:
        self._dialogue.lost(ConnectionError(why), self._process.now_ms())
        self._run_all()

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
