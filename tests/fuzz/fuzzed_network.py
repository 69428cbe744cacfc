"""The simulated network with a liar on it: answers of brokers arrive mutated, as long as the lying lasts.

Knows which request each answer belongs to by reading the frames on their way up, so that it can say what a mutated
answer told the client. Counts what clients ask, second by second.
"""

from __future__ import annotations

import random
from collections import Counter

import attrs
from fuzz.lies import ASKED, Lie, lasting_lies
from fuzz.mutations import Answer, draw_kind, first_message, mutated
from simulation.network import ClientEnd, Network, Process, Wire
from simulation.trace import Trace
from simulation.virtual_time import VirtualTime

from kafka_share.broker.api_keys import ApiKey
from kafka_share.protocol.messages import decode_request_header

_REMEMBERED = 8
"""Earlier answers of a connection that may be sent again."""


@attrs.define
class _Dialogue:
    """What has gone over one wire."""

    asked: dict[int, tuple[int, int]] = attrs.Factory(dict)
    """Correlation id -> (API key, version)."""
    answered: list[Answer] = attrs.Factory(list)


class FuzzedNetwork(Network):
    """Mutates one answer in `1 / probability`, at most `mutations_left` of them."""

    def __init__(self, time: VirtualTime, source: random.Random, trace: Trace, latency_ms: tuple[int, int]) -> None:
        super().__init__(time, source, trace, latency_ms)
        self.probability = 0.0
        self.mutations_left = 0
        self.lies: list[Lie] = []
        self.apis: tuple[ApiKey, ...] = ASKED
        """Those whose versions matter to the clients."""
        self.asked: Counter[tuple[str, int, int]] = Counter()
        """(client, API key, second of virtual time) -> requests."""
        self._dialogues: dict[int, _Dialogue] = {}
        self._fuzz = random.Random(source.getrandbits(64))

    def be_honest(self) -> None:
        """From now on every answer arrives as it was sent."""
        self.mutations_left = 0

    def open(self, process: Process, node_id: int, end: ClientEnd) -> Wire:
        wire = super().open(process, node_id, end)
        self._dialogues[wire.id] = _Dialogue()
        return wire

    def send_up(self, wire: Wire, frame: bytes) -> None:
        header = decode_request_header(memoryview(frame)[4:])
        self._dialogues[wire.id].asked[header.correlation_id] = (header.api_key, header.api_version)
        self.asked[wire.process.name, header.api_key, self._time.now_ms // 1_000] += 1
        super().send_up(wire, frame)

    def send_down(self, wire: Wire, frame: bytes, delay_ms: int = 0) -> None:
        super().send_down(wire, self._sent(wire, frame), delay_ms)

    def _sent(self, wire: Wire, frame: bytes) -> bytes:
        dialogue = self._dialogues[wire.id]
        correlation_id = int.from_bytes(frame[4:8], "big", signed=True)
        answer = Answer(*dialogue.asked.pop(correlation_id), correlation_id, frame)
        older = list(dialogue.answered)
        dialogue.answered = [*older, answer][-_REMEMBERED:]
        if not self.mutations_left or self._fuzz.random() >= self.probability:
            return frame
        self.mutations_left -= 1
        kind = draw_kind(self._fuzz)
        data = mutated(kind, answer, older, self._fuzz)
        self._note(wire, kind.value, answer, data)
        return data

    def _note(self, wire: Wire, what: str, answer: Answer, data: bytes) -> None:
        name, truth, told = wire.process.name, answer.message(), first_message(data, answer)
        self._trace.fault(what, name, f"<- node {wire.node_id}", f"#{answer.correlation_id}", data.hex()[:400])
        if told is not None:
            self._trace.count("mutated answer that can be read")
            self._trace.add("TOLD", name, repr(told)[:2_000])
            self.lies += lasting_lies(answer.api_key, name, wire.id, truth, told, self._time.now_ms, self.apis)
