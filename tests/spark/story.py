"""Story: one streaming query with all its runs, and what the group and the sink have at the end.

For the fault tables of the Spark source. Everything goes over the wire: the reference broker and a real Kafka are the
same to it. What the group is through with is read from the broker's own answers.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import attrs
from conformance.admin_over_wire import Admin
from spark.spark_driver import SparkDriver
from support.waiting import looks, wait_until

from kafka_share import KafkaShareAdmin, KafkaShareConsumer, KafkaShareError

RECORDS: Final = 400
PER_BATCH: Final = 100
WAITING: Final = "waiting"
"""The name of a file beside the sink, for as long as a batch waits there for the test."""
_NOT_STARTED: Final = "Python worker failed to connect back"


@attrs.frozen
class Place:
    """Where a story happens: the brokers, and names that no other story has there."""

    bootstrap_servers: str
    topic: str
    group: str
    name: str = "reference broker"
    idle_ms: int = 500
    """A drained topic has nothing for this long."""


@attrs.frozen
class Figures:
    """What a story has shown, for the fault table."""

    place: str
    records: int
    lost: int
    duplicates: int
    accepted: int
    deliveries: int


FIGURES: Final = "figures of the fault table"
"""The property of a test's report that has them."""


class Story:
    """One query, with all its runs over the same checkpoint and the same sink."""

    def __init__(
        self,
        place: Place,
        folder: Path,
        agent_dir: Path,
        note: Callable[[str, object], None],
        *,
        records: int = RECORDS,
        value: bytes = b"x",
        **options: str,
    ) -> None:
        self.place = place
        self.records = 0
        self._note = note
        self.folder = folder
        self.sink = folder / "sink"
        self.options = {
            "kafka.bootstrap.servers": place.bootstrap_servers,
            "subscribe": place.topic,
            "kafka.group.id": place.group,
            "maxRecordsPerTrigger": str(PER_BATCH),
            "agentDir": str(agent_dir),
            "availableNowIdleMs": str(place.idle_ms),
            **options,
        }
        self.produce(records, value)

    def produce(self, records: int, value: bytes = b"x") -> None:
        """More records for the topic."""
        with Admin(self.place.bootstrap_servers) as admin:
            admin.produce(self.place.topic, [value] * records)
        self.records += records

    def run(self, driver: SparkDriver, **command: Any) -> dict[str, Any]:
        """One run of the query, until the topic is drained or it fails.

        Spark gives the process of the source ten seconds to start, and a busy machine may not: then nothing has run.
        """
        checkpoint, sink = str(self.folder / "checkpoint"), str(self.sink)
        for _ in looks("Spark cannot start the process of the source on this machine"):
            result = driver.run(options=self.options, checkpoint=checkpoint, sink=sink, **command)
            if _NOT_STARTED not in result["error"]:
                return result
        raise AssertionError("looks() ends by failing")

    @property
    def is_waiting(self) -> bool:
        """Whether a batch has come to the fault `wait`."""
        return self.sink.with_name(WAITING).exists()

    def let_go_on(self) -> None:
        """End that wait."""
        self.sink.with_name(WAITING).unlink()

    # ---- the sink

    def rows(self) -> list[list[Any]]:
        return [row for line in self._lines() for row in line["rows"]]

    def written(self, batch: int) -> list[list[list[Any]]]:
        """What the sink was given of a batch, each time that it was run."""
        return [line["rows"] for line in self._lines() if line["batch"] == batch]

    def _lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.sink.read_text().splitlines()] if self.sink.exists() else []

    @property
    def offsets(self) -> list[int]:
        return [row[2] for row in self.rows()]

    @property
    def duplicates(self) -> int:
        return len(self.offsets) - len(set(self.offsets))

    @property
    def most_deliveries(self) -> int:
        deliveries: list[int] = [row[3] for row in self.rows()]
        return max(deliveries)

    # ---- the group

    def lag(self) -> int | None:
        """How many records the group is not through with, as its broker tells; None while nobody can say.

        The start offset that a broker tells may be behind: it counts what is finished beyond it.
        """
        with KafkaShareAdmin(bootstrap_servers=self.place.bootstrap_servers) as admin:
            try:
                found = admin.list_share_group_offsets({self.place.group: None})[self.place.group]
            except KafkaShareError:
                return None
        if isinstance(found, KafkaShareError):
            return None
        [offset] = [offset for where, offset in found.items() if where.topic == self.place.topic] or [None]
        return None if offset is None or isinstance(offset, KafkaShareError) else offset.lag

    def finishes(self) -> None:
        """Wait until the group is through with all records; another member of it gets none meanwhile."""
        with KafkaShareConsumer(
            self.place.topic,
            bootstrap_servers=self.place.bootstrap_servers,
            group_id=self.place.group,
            share_acknowledgement_mode="explicit",
        ) as member:

            def are_finished() -> bool:
                polled = member.poll(100)
                assert not polled, f"{polled} were given back"
                return self.lag() == 0

            wait_until(are_finished, lambda: f"the group has a lag of {self.lag()}")

    def ends(self, *, duplicates: int, deliveries: int, missing: Sequence[int] = (), rejected: int = 0) -> None:
        """The group is through with all records, and all except those that were archived are in the sink."""
        self.finishes()
        absent = set(range(self.records)) - set(self.offsets)
        assert absent == set(missing), sorted(absent)
        found = (self.duplicates, self.most_deliveries)
        assert found == (duplicates, deliveries), found
        lost, accepted = len(absent - set(missing)), self.records - len(absent) - rejected
        figures = Figures(self.place.name, self.records, lost, self.duplicates, accepted, self.most_deliveries)
        self._note(FIGURES, attrs.astuple(figures))


NewStory = Callable[..., Story]
