"""Where one scenario plays: names of its own, consumers that are closed at its end, what their callbacks were told.

The methods are the Java program's, with its waits and limits, so that a scenario here and the one there do the same.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Self

import attrs
from conformance.our_client_probe import notation
from conformance.our_client_probe.desk import Desk
from support.waiting import happens_within, looks, wait_until

from kafka_share import (
    AcknowledgeType,
    KafkaShareAdmin,
    KafkaShareConsumer,
    KafkaShareError,
    ShareRecord,
    ShareRecords,
    TopicIdPartition,
)
from kafka_share.errors import RecordDeserializationError

ACCEPT, RELEASE, REJECT, RENEW = AcknowledgeType
CLOSE_TIMEOUT_MS: Final = 5_000
_POLL_MS: Final = 250
FIRST_RECORD_S: Final = 20
_BAD_POLL_MS: Final = 700
_BAD_POLLS_S: Final = 2
_SHARE_METRICS: Final = "consumer-share-metrics"
_OUTCOME_S: Final = 3
_WAITING: Final = "background-event-queue-size"

Consumer = KafkaShareConsumer[Any, Any]
Record = ShareRecord[Any, Any]


@attrs.frozen
class Told:
    """What a callback was told inside a call: the offsets of one partition that have ended."""

    label: str
    where: str
    offsets: frozenset[int]
    failed: str
    """Empty, or `!` and the error."""

    def goes_on_with(self, other: Told) -> bool:
        same = (self.label, self.where, self.failed) == (other.label, other.where, other.failed)
        return same and not self.offsets & other.offsets

    @property
    def anywhere(self) -> str:
        """Without the call."""
        return f"cb{{{self.where}={notation.ranges(self.offsets)}}}{self.failed}"

    def __str__(self) -> str:
        return f"cb[{self.label}]{self.anywhere.removeprefix('cb')}"


class Scene:
    """One scenario's corner of a target; use it as a context manager."""

    def __init__(self, bootstrap_servers: str, name: str) -> None:
        self.servers = bootstrap_servers
        self.prefix = f"{name}-"
        self.desk = Desk(bootstrap_servers)
        self.events: list[Told | str] = []
        self._label = "-"
        self._made: list[Consumer] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for consumer in self._made:
            with contextlib.suppress(KafkaShareError):
                consumer.close(timeout_ms=CLOSE_TIMEOUT_MS)
        self.desk.close()

    # ---- topics and groups

    def named(self, name: str) -> str:
        return self.prefix + name

    def rename(self, text: str) -> str:
        return text.replace(self.prefix, "")

    def topic(self, name: str = "t1", partitions: int = 1) -> str:
        self.desk.create_topic(self.named(name), partitions)
        return self.named(name)

    def group(self, name: str = "g", **configs: str) -> str:
        """A group that reads topics from their start; `share_isolation_level` stands for share.isolation.level."""
        wanted = {"share.auto.offset.reset": "earliest"}
        wanted.update({key.replace("_", "."): value for key, value in configs.items()})
        self.desk.configure_group(self.named(name), wanted)
        return self.named(name)

    def produce(self, count: int, topic: str = "t1", partition: int = 0, *, one_by_one: bool = False) -> None:
        """`count` records in one batch, or in a batch each."""
        records = [(b"k%d" % i, b"v%d" % i) for i in range(count)]
        for batch in [[record] for record in records] if one_by_one else [records]:
            self.desk.produce(self.named(topic), partition, batch)

    # ---- consumers

    def settings(self, group: str) -> dict[str, Any]:
        """Without the pause after releases, which Java's client does not have."""
        return {"bootstrap_servers": self.servers, "group_id": group, "client_id": "probe", "release_backoff_ms": 0}

    def made(self, config: Mapping[str, Any]) -> Consumer:
        """A consumer with these settings and no others."""
        made: Consumer = KafkaShareConsumer(**config)
        self._made.append(made)
        return made

    def consumer(self, group: str, **config: Any) -> Consumer:
        return self.made({**self.settings(group), **config})

    def explicit(self, group: str, **config: Any) -> Consumer:
        return self.consumer(group, share_acknowledgement_mode="explicit", **config)

    def admin(self) -> KafkaShareAdmin:
        """An admin client, to be used as a context manager."""
        return KafkaShareAdmin(bootstrap_servers=self.servers, client_id="probe")

    def watched(self, consumer: Consumer) -> Consumer:
        """The same, with a callback that notes what it is told, and inside which call."""

        def note(told: Mapping[TopicIdPartition, frozenset[int]], error: KafkaShareError | None) -> None:
            failed = "" if error is None else f"!{notation.error_text(error)}"
            for where, offsets in told.items():
                self._note(Told(self._label, self.rename(str(where)), offsets, failed))

        consumer.set_acknowledgement_commit_callback(note)
        return consumer

    def held(self, count: int, *, explicit: bool = False) -> Consumer:
        """A consumer of the group g that holds `count` delivered records of t1-0."""
        group = self.group()
        made = self.explicit(group) if explicit else self.consumer(group)
        self.begin(made, count)
        self.first(made)
        return made

    def begin(self, consumer: Consumer, count: int) -> Consumer:
        """Makes the topic t1 with `count` records and subscribes to it."""
        topic = self.topic()
        if count:
            self.produce(count)
        consumer.subscribe([topic])
        return consumer

    def second(self) -> Consumer:
        """Another member of the group g, subscribed to t1."""
        other = self.consumer(self.named("g"))
        other.subscribe([self.named("t1")])
        return other

    def _note(self, now: Told) -> None:
        """Into how many callbacks results are split is up to the client: neighbours are put together."""
        last = self.events[-1] if self.events else None
        if isinstance(last, Told) and last.goes_on_with(now):
            now = attrs.evolve(last, offsets=last.offsets | now.offsets)
            self.events.pop()
        self.events.append(now)

    def note_call(self) -> None:
        """For callbacks: notes that one ran, and inside which call."""
        self.events.append(f"cb[{self._label}]")

    # ---- calls

    def call(self, label: str, what: Callable[[], object]) -> str:
        """What a call returned or raised; callbacks that run meanwhile are noted with its label."""
        with self._labelled(label):
            return notation.outcome(what)

    @contextlib.contextmanager
    def _labelled(self, label: str) -> Any:
        before, self._label = self._label, label
        try:
            yield
        finally:
            self._label = before

    def poll(self, consumer: Consumer, label: str, timeout_ms: int) -> ShareRecords[Any, Any]:
        with self._labelled(label):
            return consumer.poll(timeout_ms=timeout_ms)

    def first(self, consumer: Consumer) -> ShareRecords[Any, Any]:
        """Polls until there are records."""
        end_at_s = time.monotonic() + FIRST_RECORD_S
        while True:
            found = self.poll(consumer, "first", _POLL_MS)
            if found or time.monotonic() >= end_at_s:
                return found

    def drain(self, consumer: Consumer, count: int, limit_ms: int, topic: str | None = None) -> list[Record]:
        """Polls until `count` records (if a topic is named: of that) have come or the time is over; returns all."""
        counted = None if topic is None else self.named(topic)
        found: list[Record] = []
        end_at_s = time.monotonic() + limit_ms / 1000
        while sum(counted in (None, r.topic) for r in found) < count and time.monotonic() < end_at_s:
            found.extend(self.poll(consumer, "drain", _POLL_MS))
        return found

    def poll_until_told(self, consumer: Consumer) -> None:
        """Polls until the callback of a watched consumer was told something."""
        for _ in looks("the callback was not told anything"):
            self.poll(consumer, "", _POLL_MS)
            if self.events:
                return

    def polls(self, consumer: Consumer, limit_ms: int) -> str:
        """Polls until there are records or the time is over: their number, or the first error."""
        end_at_s = time.monotonic() + limit_ms / 1000
        found = 0
        try:
            while not found and time.monotonic() < end_at_s:
                found = len(consumer.poll(timeout_ms=_POLL_MS))
        except KafkaShareError as error:
            return notation.error_text(error)
        return f"{found} records"

    def counts(self, consumer: Consumer, total: int, limit_ms: int) -> list[int]:
        """How many records each poll returned, those that returned none left out."""
        found: list[int] = []
        end_at_s = time.monotonic() + limit_ms / 1000
        while sum(found) < total and time.monotonic() < end_at_s:
            count = len(self.poll(consumer, "", 500))
            if count:
                found.append(count)
        return found

    def poll_bad(self, consumer: Consumer, *, acknowledge: bool, patience_s: int = _BAD_POLLS_S) -> str:
        """What the next poll with something to tell brings: records, or an error."""
        end_at_s = time.monotonic() + patience_s
        while True:
            try:
                found = self.poll(consumer, "poll", _BAD_POLL_MS)
                for record in found if acknowledge else ():
                    consumer.acknowledge(record)
                told = self.records(found)
            except RecordDeserializationError as error:
                told = notation.bad_record(error, self.rename)
            except KafkaShareError as error:
                told = notation.error_text(error)
            if told != "[]" or time.monotonic() >= end_at_s:
                return told

    @staticmethod
    def await_outcome(consumer: Consumer) -> None:
        """Wait until the outcome of what was sent lies ready for the next call; the last may have had it."""
        happens_within(lambda: consumer.metrics()[_SHARE_METRICS][_WAITING] > 0, _OUTCOME_S)

    def await_state(self, state: str) -> str:
        """Wait until the coordinator says that the group g is in this state, and return that."""
        group = self.named("g")
        wait_until(lambda: self.desk.share_group(group).group_state == state, f"the group does not become {state}")
        return state

    def commit(self, consumer: Consumer) -> str:
        return self.call("commit_sync", lambda: notation.results(consumer.commit_sync(), self.rename))

    def close(self, consumer: Consumer) -> str:
        return self.call("close", consumer.close)

    # ---- texts

    def records(self, found: Iterable[Record]) -> str:
        return notation.records(found, self.rename)

    def told(self) -> str:
        """What the callbacks have noted since it was last asked."""
        told, self.events = self.events, []
        return notation.listed(told)

    def told_anywhere(self) -> str:
        """The same without the calls inside which they ran."""
        told, self.events = self.events, []
        return notation.listed(event.anywhere if isinstance(event, Told) else event for event in told)


def accept_all(consumer: Consumer, found: Sequence[Record], type: AcknowledgeType = ACCEPT) -> None:  # noqa: A002
    for record in found:
        consumer.acknowledge(record, type)


def later(delay_s: float, what: Callable[[], None]) -> None:
    threading.Timer(delay_s, what).start()
