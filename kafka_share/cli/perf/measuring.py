"""What `kafka-share-perf` counts: records, bytes of keys and values, and latencies from produce to delivery.

Pure and of bounded size, whatever is measured; the caller brings the time and does the locking.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

import attrs

from kafka_share.records import ShareRecord

EXACT_BELOW_MS: Final = 1 << 16
"""Latencies up to a minute are counted by the millisecond."""
_KEPT_BITS: Final = 12
"""How many leading bits of longer ones are kept; that is better than 0.05 %."""
_LONGEST_MS: Final = (1 << 48) - 1
"""Of thousands of years, which only a wrong timestamp has; it bounds the number of counters to some 130,000."""


@attrs.define
class Latencies:
    """How often each latency occurred."""

    records: int = 0
    longest_ms: int = 0
    ahead: int = 0
    """Records that were produced after their delivery by their timestamp; they are counted as 0 ms."""
    _counts: Counter[int] = attrs.field(factory=Counter)

    def count(self, latency_ms: int, times: int = 1) -> None:
        if latency_ms < 0:
            self.ahead += times
            latency_ms = 0
        self.records += times
        self.longest_ms = max(self.longest_ms, latency_ms)
        self._counts[_counted_as(min(latency_ms, _LONGEST_MS))] += times

    def merge(self, other: Latencies) -> None:
        self.records += other.records
        self.longest_ms = max(self.longest_ms, other.longest_ms)
        self.ahead += other.ahead
        self._counts.update(other._counts)

    def percentiles(self, per_mille: Sequence[int]) -> list[int]:
        """For each share, in ascending order: the least latency, in ms, that this many of a thousand do not exceed.

        Raises ValueError if nothing was counted.
        """
        if not self.records:
            raise ValueError("there are no percentiles of nothing")
        found: list[int] = []
        seen, ranks = 0, [max(1, -(-self.records * share // 1000)) for share in per_mille]
        assert ranks == sorted(ranks)
        for latency_ms in sorted(self._counts):
            seen += self._counts[latency_ms]
            while len(found) < len(ranks) and seen >= ranks[len(found)]:
                found.append(min(latency_ms, self.longest_ms))
        assert len(found) == len(ranks)
        return found


def _counted_as(latency_ms: int) -> int:
    """The latency itself, or the largest one that shares its counter: what is shown is never too short."""
    if latency_ms < EXACT_BELOW_MS:
        return latency_ms
    dropped = latency_ms.bit_length() - _KEPT_BITS
    return latency_ms | ((1 << dropped) - 1)


@attrs.define
class Tally:
    """What was delivered in some span of time to some consumers."""

    records: int = 0
    bytes: int = 0
    latencies: Latencies = attrs.field(factory=Latencies)

    def merge(self, other: Tally) -> None:
        self.records += other.records
        self.bytes += other.bytes
        self.latencies.merge(other.latencies)


def tally_of(records: Iterable[ShareRecord[bytes | None, bytes | None]], delivered_at_ms: int) -> Tally:
    """Of what one poll returned at this time, in ms since 1970. Records without a timestamp have no latency."""
    tally = Tally()
    timestamps: Counter[int] = Counter()
    for record in records:
        tally.records += 1
        tally.bytes += len(record.key or b"") + len(record.value or b"")
        timestamps[record.timestamp] += 1
    for timestamp_ms, times in timestamps.items():
        if timestamp_ms >= 0:
            tally.latencies.count(delivered_at_ms - timestamp_ms, times)
    return tally
