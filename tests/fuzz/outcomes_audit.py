"""What is demanded of an application's books while brokers lie: each acknowledgement has its outcomes, and once.

Less than the simulation's audit: which records are delivered, and whether an outcome is true, is the liar's business.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from simulation.trace import ComplaintError

from kafka_share.core.events import AcknowledgementOutcome, GatheredAcknowledgements, LostRecords
from kafka_share.records import ShareRecord


class OutcomesAudit:
    """One application's books (the `Confidant` of its façade)."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._open: Counter[int] = Counter()
        """How many runs of each number that was posted have had no outcome."""

    @property
    def open_numbers(self) -> frozenset[int]:
        return frozenset(number for number, runs in self._open.items() if runs)

    def delivered(self, records: list[ShareRecord[Any, Any]]) -> None:
        """Any record may come."""

    def polled(self, records: list[ShareRecord[Any, Any]]) -> None:
        """Any record may come."""

    def put_back(self, records: list[ShareRecord[Any, Any]]) -> None:
        """They come again."""

    def acknowledged(self, record: ShareRecord[Any, Any]) -> None:
        """The application may acknowledge whatever has come."""

    def gave_up(self, lost: tuple[LostRecords, ...]) -> None:
        """Any lock may be lost."""

    def committed(self, waited_for: frozenset[int]) -> None:
        early = waited_for & self.open_numbers
        if early:
            raise ComplaintError(f"commit_sync of {self._name} returned before the outcome of {sorted(early)}")

    def posted(self, gathered: tuple[GatheredAcknowledgements, ...]) -> None:
        for one in gathered:
            if one.is_own:  # locks that the client keeps by itself: nobody is told
                continue
            self._open[one.number] = len(one.runs)

    def reported(self, outcome: AcknowledgementOutcome) -> None:
        for ended in outcome.ended:
            self._open[ended.number] -= len(ended.runs)
            if self._open[ended.number] < 0:
                raise ComplaintError(f"{self._name} is told the outcome of {ended.number} once too often")

    def closed(self) -> None:
        if self.open_numbers:
            raise ComplaintError(f"{self._name} is never told what became of {sorted(self.open_numbers)}")
