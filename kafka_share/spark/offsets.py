"""SourceOffset: what the streaming source writes into a query's checkpoint, and how it grows from batch to batch.

Pure values for `stream_reader`. An offset names leases, so it is opaque and unique; it has no secrets. What bisection
knows rides in it, because it is all that survives a crash of everything: when a batch has failed and its lease is gone,
the next leases are an eighth of it until as many records have passed. So one poison record costs deliveries to ever
fewer others: of 500, the next failed batches have 62, 7 and 1 records, which fits into five deliveries.
"""

from __future__ import annotations

from typing import Any, Final, Self

import attrs

BITE_DIVISOR: Final = 8


@attrs.frozen
class SourceOffset:
    """The end of one micro-batch. The first offset of a query names no lease."""

    agents: tuple[str, ...] = ()
    """The folders of the agents that have the leases."""
    leases: tuple[int, ...] = ()
    """The lease of each; 0: it has none of this batch."""
    records: int = 0
    bite: int = 0
    """The most records of one lease while a failed batch is taken apart; 0: as the options say."""
    suspects: int = 0
    """How many records, those of this lease included, are still to be taken in bites."""

    @classmethod
    def of(cls, document: dict[str, Any]) -> Self:
        """Raises ValueError for what this source has not written."""
        try:
            return cls(
                tuple(map(str, document["agents"])),
                tuple(map(int, document["leases"])),
                int(document["records"]),
                int(document["bite"]),
                int(document["suspects"]),
            )
        except (KeyError, TypeError) as error:
            raise ValueError(
                "the checkpoint has an offset of another source: give this query a checkpoint of its own"
            ) from error

    def document(self) -> dict[str, Any]:
        """As JSON, for Spark."""
        return {**attrs.asdict(self), "agents": [*self.agents], "leases": [*self.leases]}

    @property
    def is_start(self) -> bool:
        return not self.agents

    def wanted(self, most: int, *, has_failed: bool) -> Bite:
        """How much the next batch takes, if this one was committed, or has failed and was replayed empty."""
        if has_failed:
            bite, suspects = max(1, self.records // BITE_DIVISOR), max(self.records, self.suspects)
        else:
            bite, suspects = self.bite, self.suspects - self.records
        return Bite(min(bite, most), suspects) if bite and suspects > 0 else Bite(most, 0)


@attrs.frozen
class Bite:
    """How many records the next lease may have, and how many suspects there are before it is taken."""

    most: int
    suspects: int

    def taken(self, agents: tuple[str, ...], leases: tuple[int, ...], records: int) -> SourceOffset:
        """The offset of the batch that took these leases."""
        return SourceOffset(agents, leases, records, self.most if self.suspects else 0, self.suspects)
