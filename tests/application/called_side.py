"""An application side as the calls of a consumer use it, without the calls: for tests of what it keeps and gives."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kafka_share.application.side import ApplicationSide
from kafka_share.core.events import AcknowledgementOutcome, GatheredAcknowledgements, Output
from kafka_share.records import ShareRecord, ShareRecords


class CalledSide(ApplicationSide):
    """Each method here is a call from its beginning to its end; `taken` is what was gathered, as the core has it."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.taken: list[GatheredAcknowledgements] = []

    def collect(self) -> ShareRecords[object, object] | None:
        self.begin_call()
        records = super().collect()
        self.end_call(is_returned=records is not None)
        return records

    def put_back(self, records: Iterable[ShareRecord[Any, Any]]) -> None:
        self.begin_call()
        super().put_back(records)
        self.end_call()

    def gather(self) -> tuple[GatheredAcknowledgements, ...]:
        gathered = super().gather()
        self.posted()
        self.taken += gathered
        return gathered

    def take_all(self, outputs: Iterable[Output]) -> None:
        self.begin_call()
        for output in outputs:
            self.take(output)
        self.end_call()

    def next_outcome(self) -> AcknowledgementOutcome | None:
        outcome = self.reports.first_outcome()
        if outcome is not None:
            self.reports.drop_outcome()
        return outcome
