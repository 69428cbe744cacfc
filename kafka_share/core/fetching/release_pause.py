"""When an application gives everything back: how long to wait before the next fetch, so that no delivery is wasted.

Owned by `fetching.fetcher`. A released record is available at once, so a consumer that is alone would get it again at
once, and use up its deliveries within milliseconds while whatever is broken stays broken.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Final

from kafka_share.core.backoff import Backoff
from kafka_share.core.events import GatheredAcknowledgements
from kafka_share.core.fetching.offsets import count_of
from kafka_share.records import AcknowledgeType

_GAP: Final = 0
_GROWTH: Final = 8
"""The longest pause, in first pauses."""


class ReleasePause:
    """As many releases as the latest batch had records, and no accept or reject, cost a pause; it doubles each time."""

    def __init__(self, first_ms: int, source: random.Random) -> None:
        self._backoff = Backoff(first_ms, first_ms * _GROWTH, source)
        self._brought = 0
        self._released = 0

    @property
    def ready_at_ms(self) -> int:
        """From when on records may be fetched."""
        return self._backoff.ready_at_ms

    def brought(self, records: int) -> None:
        """A batch was delivered."""
        self._brought = records

    def acknowledged(self, made: Iterable[GatheredAcknowledgements]) -> None:
        for gathered in made:
            for run in gathered.runs:
                if run.type == AcknowledgeType.RELEASE:
                    self._released += count_of([run])
                elif run.type == _GAP:
                    self._brought -= count_of([run])
                elif run.type != AcknowledgeType.RENEW:
                    if self._backoff.attempts:
                        self._backoff.succeeded()
                    self._brought, self._released = 0, 0
                    return

    def poll_started(self, now_ms: int) -> None:
        """The next fetch would follow now."""
        if self._released >= self._brought > 0:
            self._backoff.failed(now_ms)
            self._brought, self._released = 0, 0
