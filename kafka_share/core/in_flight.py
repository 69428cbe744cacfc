"""The records that the application holds, and what it has said about each: one `InFlightPartition` per delivery.

Owned by the application's side of the consumer (`core.application`). Encodes nothing and sends nothing: `gather`
hands over what has been said, as runs.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kafka_share.core.events import FetchedPartition, GatheredAcknowledgements
from kafka_share.core.offsets import AcknowledgementRun
from kafka_share.records import AcknowledgeType, ShareRecord


def runs_of(types: Iterable[tuple[int, int]]) -> list[AcknowledgementRun]:
    """(offset, type) pairs with ascending offsets → runs of neighbouring offsets of one type."""
    runs: list[AcknowledgementRun] = []
    first = last = kind = -1
    for offset, this in types:
        if offset == last + 1 and this == kind and first >= 0:
            last = offset
            continue
        if first >= 0:
            runs.append(AcknowledgementRun(first, last, kind))
        first = last = offset
        kind = this
    if first >= 0:
        runs.append(AcknowledgementRun(first, last, kind))
    return runs


class InFlightPartition:
    """What was delivered from one fetched partition and is not acknowledged yet.

    An offset is in one of three states: delivered without a word (`unacknowledged` counts these), said (its type may
    still be changed), or gone after `gather`. `fail` adds offsets that could not be turned into records: their type is
    preset and may be overridden.
    """

    def __init__(self, fetched: FetchedPartition) -> None:
        self.partition = fetched.partition
        self.node_id = fetched.node_id
        self.session_id = fetched.session_id
        self._records: dict[int, ShareRecord[Any, Any]] = {}
        self._types: dict[int, int] = {}
        self._settled: list[AcknowledgementRun] = []
        self._failed: set[int] = set()

    def deliver(self, records: list[ShareRecord[Any, Any]]) -> None:
        for record in records:
            self._records[record.offset] = record

    def settle(self, runs: Iterable[AcknowledgementRun]) -> None:
        """Take over what the application has no word in: gaps, and what is given back unseen."""
        self._settled.extend(runs)

    def fail(self, runs: Iterable[AcknowledgementRun]) -> None:
        """Take over offsets that could not be delivered, with the types they have unless the application overrides."""
        for run in runs:
            for offset in range(run.first, run.last + 1):
                self._types[offset] = run.type
                self._failed.add(offset)

    def take_back(self, offsets: Iterable[int]) -> dict[int, ShareRecord[Any, Any]]:
        """Take out records that did not reach the application after all, to be delivered again; others stay."""
        taken = {offset: self._records.pop(offset) for offset in offsets if offset in self._records}
        for offset in taken:
            self._types.pop(offset, None)
        return taken

    @property
    def unacknowledged(self) -> int:
        return len(self._records) + len(self._failed) - len(self._types)

    @property
    def is_done(self) -> bool:
        return not self._records and not self._types and not self._settled

    def acknowledge(self, offset: int, kind: AcknowledgeType) -> bool:
        """Say something about a delivered record; False if it is not in flight here."""
        if offset not in self._records:
            return False
        self._types[offset] = kind
        return True

    def override(self, offset: int, kind: AcknowledgeType) -> bool:
        """Change what was preset for an offset that could not be delivered; False if it is none."""
        if offset not in self._failed:
            return False
        self._types[offset] = kind
        return True

    def accept_rest(self) -> None:
        """Implicit acknowledgement: ACCEPT for every delivered record without a word."""
        if not self._types:
            self._types = dict.fromkeys(self._records, int(AcknowledgeType.ACCEPT))
            return
        for offset in self._records:
            self._types.setdefault(offset, int(AcknowledgeType.ACCEPT))

    def gather(self) -> tuple[GatheredAcknowledgements | None, dict[int, ShareRecord[Any, Any]]]:
        """Take out all that has been said; the second value holds the records under renewal, by offset."""
        if not self._types and not self._settled:
            return None, {}
        renewing = {
            offset: self._records[offset]
            for offset, kind in self._types.items()
            if kind == AcknowledgeType.RENEW and offset in self._records
        }
        runs = self._said()
        for offset in self._types:
            self._records.pop(offset, None)
        self._types = {}
        self._failed = set()
        self._settled = []
        return GatheredAcknowledgements(self.partition, self.node_id, self.session_id, tuple(runs)), renewing

    def _said(self) -> list[AcknowledgementRun]:
        runs = runs_of(sorted(self._types.items()))
        if self._settled:
            runs = sorted(runs + self._settled)
        return runs

    def check(self) -> None:
        """Invariants: every type belongs to something delivered or failed."""
        for offset in self._types:
            assert offset in self._records or offset in self._failed, f"{self.partition}@{offset} was never delivered"
