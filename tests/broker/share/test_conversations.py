"""Random conversations that were held with a real broker, held again with the share machines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from broker.share.probe import Probe

_FILE = Path(__file__).with_name("kafka_4_3_conversations.txt")


def _recorded() -> dict[str, list[str]]:
    recorded: dict[str, list[str]] = {}
    name = ""
    for line in _FILE.read_text().splitlines():
        if line.startswith("start "):
            name = line.split()[1]
            recorded[name] = []
        if name:
            recorded[name].append(line)
    return recorded


RECORDED = _recorded()


class Conversation:
    """Three members and one that loads the partition; each operation is one line of the recording."""

    def __init__(self, start: str) -> None:
        _, name, limit, locks, duration = start.split()
        self.p = Probe()
        self.g = "g" + name
        self.t = self.p.topic(name)
        self.p.initialize(self.g, self.t)
        self.loader = self.p.connect()
        self.p.fetch(self.loader, self.g, "LD", 0, [(self.t, 0, "")], wait=400)
        self.p.configure(
            self.g,
            delivery_count_limit=int(limit),
            max_record_locks=int(locks),
            record_lock_duration_ms=int(duration),
        )
        self.members = {member: self.p.connect() for member in ("M1", "M2", "M3")}

    def say(self, operation: str) -> str:
        word, *args = operation.split()
        self.p.sleep(3)
        return getattr(self, word)(*args) or ""

    def prod(self, count: str) -> None:
        self.p.produce(self.t, int(count))

    def fetch(self, member: str, epoch: str, records: str, batch: str, mode: str) -> str:
        partitions = [(self.t, 0, "")] if epoch == "0" else []
        limits: dict[str, Any] = {"records": int(records), "batch": int(batch), "mode": int(mode), "wait": 0}
        return self.p.fetch(self.members[member], self.g, member, int(epoch), partitions, **limits)

    def ack(self, member: str, epoch: str, batches: str) -> str:
        return self.p.ack(self.members[member], self.g, member, int(epoch), [(self.t, 0, batches)])

    def close(self, member: str) -> str:
        text = self.p.ack(self.members[member], self.g, member, -1)
        self.p.sleep(200)
        return text

    def sleep(self, span_ms: str) -> None:
        self.p.sleep(int(span_ms))

    def reload(self) -> str:
        for member, connection in self.members.items():
            connection.close()
            self.members[member] = self.p.connect()
        self.loader.close()
        self.loader = self.p.connect()
        self.p.sleep(400)
        fetched = self.p.fetch(self.loader, self.g, "LD", 0, [(self.t, 0, "")], wait=300, records=1)
        closed = self.p.ack(self.loader, self.g, "LD", -1)
        self.p.sleep(200)
        return f"{fetched} {closed}"

    def state(self) -> str:
        return self.p.stored(self.g, self.t)

    def offsets(self) -> str:
        return self.p.offsets(self.g, self.t)

    def __getattr__(self, name: str) -> Any:
        if name == "del":  # a word that no method can have
            return lambda offset: self.p.delete_records(self.t, int(offset))
        raise AttributeError(name)


@pytest.mark.parametrize("name", list(RECORDED))
def test_conversation_goes_as_with_kafka_when_held_again(name: str) -> None:
    start, *lines = RECORDED[name]
    conversation = Conversation(start)
    for number, line in enumerate(lines):
        operation, _, expected = line.partition(" | ")
        assert conversation.say(operation) == expected, f"step {number}: {operation}"
