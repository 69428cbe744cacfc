"""Writes dead letters back as the records that they are copies of, and notes that in their topic.

A letter that a broker wrote has none of the record's headers, and perhaps neither key nor value: the record itself is
taken, if it is still where it was. Letters are written and noted in portions. Called by `actions`.
"""

from __future__ import annotations

import enum
import queue
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import islice
from typing import Any, Final, TypeAlias

import attrs

from kafka_share.cli.dlq.letters import Letter, note
from kafka_share.cli.dlq.reading import Reader
from kafka_share.cli.endings import ToolFailedError
from kafka_share.config import ShareAdminConfig
from kafka_share.producing.kafka_python import OwnKafkaPythonProducer
from kafka_share.producing.producer import OutgoingRecord
from kafka_share.records import TopicPartition

_PORTION: Final = 500
"""What may be written twice if the tool is killed."""
_CLOSE_MS: Final = 5_000


class Fate(enum.Enum):
    """Why nothing is written for a letter."""

    REPLAYED = "written back before"
    DUPLICATE = "another letter of the same record came before: of another group, or since a worker wrote it twice"
    LOST = "it has no copy, and the record is not there any more"


Decision: TypeAlias = tuple[Letter, OutgoingRecord | Fate]
"""A letter, and the record that is to be written for it."""


@attrs.define
class Plan:
    """What a replay is about to do."""

    to_topic: str | None
    """None: each record to its own topic."""
    records: dict[str, int] = attrs.field(factory=dict)
    """How many go to each topic."""
    duplicates: int = 0
    """How many are letters of a record that is among these already."""
    replayed: int = 0
    """How many are left out, since they were written back before."""
    lost: list[Letter] = attrs.field(factory=list)
    """Those without a copy, whose records are not there any more."""

    def target(self, letter: Letter) -> str:
        return self.to_topic or letter.origin.topic

    @property
    def total(self) -> int:
        return sum(self.records.values())


class Replay:
    """One run. `originals` makes a reader for records that brokers have not copied, when it is needed."""

    def __init__(self, plan: Plan, originals: Callable[[], Reader], *, with_replayed: bool) -> None:
        self.plan = plan
        self._make_originals = originals
        self._with_replayed = with_replayed
        self._originals: Reader | None = None

    def close(self) -> None:
        if self._originals is not None:
            self._originals.close()

    def look(self, letters: Iterable[Letter]) -> None:
        """Fill the plan."""
        plan = self.plan
        for letter, fate in self._decided(letters):
            if isinstance(fate, OutgoingRecord):
                plan.records[fate.topic] = plan.records.get(fate.topic, 0) + 1
            elif fate is Fate.LOST:
                plan.lost.append(letter)
            else:
                plan.replayed += fate is Fate.REPLAYED
                plan.duplicates += fate is Fate.DUPLICATE

    def run(self, letters: Iterable[Letter], settings: Mapping[str, Any]) -> int:
        """Write them; how many were written. Raises `ToolFailedError` if some were not, when the others are noted."""
        producer = OwnKafkaPythonProducer(ShareAdminConfig.from_mapping(settings))
        written = 0
        try:
            for portion in self._portions(letters):
                done, error = _write(producer, portion)
                again = [letter for letter, fate in portion if fate is Fate.DUPLICATE and error is None]
                _note(producer, [*done, *again], written + len(done))
                written += len(done)
                if error is not None:
                    raise ToolFailedError(f"{error}. {written} records were written before", code="NOT_WRITTEN")
        finally:
            producer.close(_CLOSE_MS)
        return written

    def _portions(self, letters: Iterable[Letter]) -> Iterator[list[Decision]]:
        decisions = (one for one in self._decided(letters) if one[1] not in (Fate.REPLAYED, Fate.LOST))
        while portion := list(islice(decisions, _PORTION)):
            yield portion

    def _decided(self, letters: Iterable[Letter]) -> Iterator[Decision]:
        seen: set[tuple[str, int, int]] = set()
        for letter in letters:
            place = _place_of(letter)
            fate: OutgoingRecord | Fate
            if letter.is_replayed and not self._with_replayed:
                fate = Fate.REPLAYED
            elif place in seen:
                fate = Fate.DUPLICATE
            else:
                fate = self._record(letter) or Fate.LOST
            if place is not None and fate is not Fate.LOST:
                seen.add(place)
            yield letter, fate

    def _record(self, letter: Letter) -> OutgoingRecord | None:
        """What is to be written for a letter; None if nobody has it any more."""
        topic = self.plan.target(letter)
        if letter.is_from_worker:
            return letter.as_record(topic)
        if self._originals is None:
            self._originals = self._make_originals()
        original = self._originals.original(letter)
        if original is not None:
            return OutgoingRecord(topic, original.key, original.value, tuple(original.headers))
        return letter.as_record(topic) if letter.has_copy else None


def _place_of(letter: Letter) -> tuple[str, int, int] | None:
    """Of the record."""
    origin = letter.origin
    if origin.partition is None or origin.offset is None:
        return None
    return origin.topic, origin.partition, origin.offset


def _write(producer: OwnKafkaPythonProducer, portion: list[Decision]) -> tuple[list[Letter], Exception | None]:
    """Whose records were written, of a portion, and why not all were."""
    answers: queue.SimpleQueue[tuple[Letter, Exception | None]] = queue.SimpleQueue()
    pairs = [(letter, record) for letter, record in portion if isinstance(record, OutgoingRecord)]
    for letter, record in pairs:
        producer.produce(record, partial(_answer, answers, letter))
    told = [answers.get() for _ in pairs]
    errors = [error for _, error in told if error is not None]
    return [letter for letter, error in told if error is None], errors[0] if errors else None


def _answer(answers: queue.SimpleQueue[Any], letter: Letter | None, error: Exception | None) -> None:
    answers.put((letter, error))


def _note(producer: OwnKafkaPythonProducer, letters: Iterable[Letter], written: int) -> None:
    """Write down in the dead-letter topics which letters were written back. Raises `ToolFailedError`."""
    offsets: dict[TopicPartition, list[int]] = {}
    for letter in letters:
        offsets.setdefault(letter.place, []).append(letter.offset)
    answers: queue.SimpleQueue[tuple[None, Exception | None]] = queue.SimpleQueue()
    for place, found in offsets.items():
        producer.produce(note(place, found), partial(_answer, answers, None))
    errors = [error for _, error in (answers.get() for _ in offsets) if error is not None]
    if errors:
        raise ToolFailedError(
            f"{written} records were written, but of some of them that could not be noted beside their dead letters: "
            f"the next run would write these again. {errors[0]}",
            code="NOT_NOTED",
        )
