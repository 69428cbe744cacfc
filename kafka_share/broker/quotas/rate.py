"""How many bytes a second somebody takes, as Kafka measures it, and how long a quota makes them wait.

Used by `ClientQuotas`. Knows no clock. Kafka counts in eleven samples of a second; the rate is the sum over the time
since the oldest sample began, taken for ten seconds at least. Source: Kafka's `Rate` and `SampledStat`, and the
throttle times of a broker 4.3.1."""

from __future__ import annotations

from collections import deque
from typing import Final

SAMPLES: Final = 11
SAMPLE_MS: Final = 1_000
SHORTEST_MS: Final = (SAMPLES - 1) * SAMPLE_MS
"""The least time that a rate is computed over: whole samples that are missing are added. What a quota allows in this
time may be taken at once."""


class Rate:
    """The bytes of one user or client, or of all that share a quota."""

    def __init__(self) -> None:
        self._samples: deque[list[int]] = deque()
        """[when it began, bytes], the oldest first."""

    def take(self, size: int, now_ms: int) -> None:
        """So many bytes were taken; a negative number takes them back."""
        if not self._samples or now_ms - self._samples[-1][0] >= SAMPLE_MS:
            self._samples.append([now_ms, 0])
        self._samples[-1][1] += size

    def throttle_ms(self, bytes_per_second: float, now_ms: int) -> int:
        """How long to wait until the rate is no more than this; 0 if it is not."""
        while self._samples and now_ms - self._samples[0][0] >= SAMPLES * SAMPLE_MS:
            self._samples.popleft()
        if not self._samples:
            return 0
        span_ms = now_ms - self._samples[0][0]
        span_ms += max(0, SHORTEST_MS - span_ms // SAMPLE_MS * SAMPLE_MS)
        rate = sum(size for _, size in self._samples) * 1_000 / span_ms
        if rate <= bytes_per_second:
            return 0
        return round((rate - bytes_per_second) / bytes_per_second * span_ms)
