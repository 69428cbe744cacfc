"""How much a second somebody takes, as Kafka measures it, and how long a quota makes them wait.

Used by `ClientQuotas`. Knows no clock. Kafka counts in eleven samples of a second; the rate is the sum over the time
since the oldest sample began, taken for ten seconds at least. Source: Kafka's `Rate` and `SampledStat`, and the
throttle times of a broker 4.3.1."""

from __future__ import annotations

from collections import deque
from typing import Final

import attrs

LONGEST_MS: Final = 2**31 - 1
"""That an answer can say."""
SAMPLES: Final = 11
SAMPLE_MS: Final = 1_000
SHORTEST_MS: Final = (SAMPLES - 1) * SAMPLE_MS
"""The least time that a rate is computed over: whole samples that are missing are added. What a quota allows in this
time may be taken at once."""


@attrs.define
class _Sample:
    began_at_ms: int
    taken: float = 0


class Rate:
    """Of one user, client or address, or of all that share a quota."""

    def __init__(self) -> None:
        self._samples: deque[_Sample] = deque()
        """The oldest first."""

    def take(self, count: float, now_ms: int) -> None:
        """So much was taken (bytes, connections, …); a negative number takes it back."""
        if not self._samples or now_ms - self._samples[-1].began_at_ms >= SAMPLE_MS:
            self._samples.append(_Sample(now_ms))
        self._samples[-1].taken += count

    def throttle_ms(self, per_second: float, now_ms: int) -> int:
        """How long to wait until the rate is no more than this; 0 if it is not. Nobody exceeds NaN."""
        while self._samples and now_ms - self._samples[0].began_at_ms >= SAMPLES * SAMPLE_MS:
            self._samples.popleft()
        if not self._samples:
            return 0
        span_ms = now_ms - self._samples[0].began_at_ms
        span_ms += max(0, SHORTEST_MS - span_ms // SAMPLE_MS * SAMPLE_MS)
        rate = sum(sample.taken for sample in self._samples) * 1_000 / span_ms
        if not rate > per_second:
            return 0
        if per_second == 0:
            return LONGEST_MS
        return round(min((rate - per_second) / per_second * span_ms, LONGEST_MS))
