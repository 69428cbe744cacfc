"""A scene for the recorded conversations: one `ShareNode`, one topic, one group, and the answers so far.

A scenario is a function that plays one conversation of `kafka_4_3_answers.txt`, step by step; `Scene.answered` notes
what came. Waits and limits are those that the real broker was asked with.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

from broker.share.probe import Connection, Probe

M1, M2, M3, LOADER = "M1", "M2", "M3", "LD"
NO_ID = UUID(int=2**90)

SCENARIOS: dict[str, Callable[[Scene], None]] = {}


def scenario(play: Callable[[Scene], None]) -> Callable[[Scene], None]:
    """Mark a function as the scenario of its name."""
    SCENARIOS[play.__name__] = play
    return play


class Scene:
    """A broker, one topic, one group and one connection at a time; and the answers so far, as (step, text)."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.probe = Probe()
        self.answers: list[tuple[str, str]] = []
        self.topic_id = UUID(int=0)
        self.group = ""
        self.connection = self.probe.connect()

    def answered(self, step: str, text: str) -> None:
        self.answers.append((step, text))

    def loaded_topic(self, *batches: int, suffix: str = "", partitions: int = 1) -> None:
        """A topic whose share partitions are loaded while it is empty, then record batches in partition 0."""
        self.topic_id = self.probe.topic(self.name + suffix, partitions)
        self.group = "g" + self.name + suffix
        for index in range(partitions):
            self.probe.initialize(self.group, self.topic_id, index)
        named = [(self.topic_id, index, "") for index in range(partitions)]
        self.probe.fetch(self.probe.connect(), self.group, LOADER, 0, named, wait=400)
        for count in batches:
            self.probe.produce(self.topic_id, count)
        self.connection = self.probe.connect()

    def unloaded_topic(self, partitions: int = 1, start: int = 0) -> None:
        """A topic whose share state is initialised but not loaded."""
        self.topic_id = self.probe.topic(self.name, partitions)
        self.group = "g" + self.name
        for index in range(partitions):
            self.probe.initialize(self.group, self.topic_id, index, start)
        self.connection = self.probe.connect()

    def fetch(
        self, member: str | None, epoch: int, *acks: str | None, connection: Connection | None = None, **limits: Any
    ) -> str:
        """A ShareFetch; with `acks` (such as `0~4:1`, accept 0 to 4) it names partition 0, once per text."""
        limits.setdefault("partitions", [(self.topic_id, 0, text or "") for text in acks])
        group = limits.pop("group", self.group)
        text = self.probe.fetch(connection or self.connection, group, member, epoch, **limits)
        if epoch == -1:
            self.probe.sleep(200)
        return text

    def send_fetch(
        self, member: str, epoch: int, *acks: str, connection: Connection | None = None, **limits: Any
    ) -> None:
        """A ShareFetch whose answer is taken later, by `probe.receive`."""
        named = [(self.topic_id, 0, text) for text in acks]
        self.probe.send_fetch(connection or self.connection, self.group, member, epoch, named, **limits)

    def acknowledge(
        self, member: str | None, epoch: int, *acks: str, connection: Connection | None = None, **options: Any
    ) -> str:
        """A ShareAcknowledge; with `acks` it names partition 0, once per text."""
        options.setdefault("partitions", [(self.topic_id, 0, text) for text in acks])
        group = options.pop("group", self.group)
        text = self.probe.ack(connection or self.connection, group, member, epoch, **options)
        if epoch == -1:
            self.probe.sleep(200)
        return text

    def offsets(self) -> str:
        return self.probe.offsets(self.group, self.topic_id)

    def stored(self) -> str:
        return self.probe.stored(self.group, self.topic_id)
