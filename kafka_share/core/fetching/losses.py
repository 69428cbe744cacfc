"""Says in the log which records were lost: at most once a second for each kind of loss, with their places.

Owned by `fetching.fetcher`. What is noted within the second waits for its end, so nothing is left out.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kafka_share.core.fetching.offsets import AcknowledgementRun, count_of, merged
from kafka_share.core.outputs import Outputs
from kafka_share.records import TopicIdPartition

PAUSE_MS: Final = 1_000
_NAMED: Final = 20
"""How many ranges of offsets one log line names."""

Places = dict[TopicIdPartition, list[AcknowledgementRun]]


class LossNotes:
    """One kind of loss, which is the log event `event`."""

    def __init__(self, event: str, outputs: Outputs) -> None:
        self._event = event
        self._outputs = outputs
        self.places: Places = {}
        """What has not been logged yet."""
        self._silent_until_ms = 0

    def add(self, where: TopicIdPartition, runs: Iterable[AcknowledgementRun]) -> None:
        """The types of the runs mean nothing."""
        self.places.setdefault(where, []).extend(AcknowledgementRun(run.first, run.last, 0) for run in runs)

    def poll(self, now_ms: int, *, is_last: bool = False) -> None:
        """Log what there is, unless that was done less than a second ago; `is_last`: there is no later time."""
        if not self.places or (now_ms < self._silent_until_ms and not is_last):
            return
        places, self.places = self.places, {}
        self._silent_until_ms = now_ms + PAUSE_MS
        records = sum(count_of(merged(runs)) for runs in places.values())
        self._outputs.note(self._event, records=records, places=describe(places))

    def wake_at_ms(self) -> int | None:
        return self._silent_until_ms if self.places else None


def describe(places: Places) -> str:
    """As in `orders-0@5-9, orders-1@3`; a long list is cut."""
    names = [
        f"{where}@{run.first}" + (f"-{run.last}" if run.last > run.first else "")
        for where, runs in places.items()
        for run in merged(runs)
    ]
    rest = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f", and {rest} more" if rest > 0 else "")
