"""What an acquisition lock knows, in Python. The compiled twin is in `locks.pxi`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class LockFacts:
    """The lock of the records of one delivery: when it ends, and which records part from that.

    `generation` is a `LockGeneration`. `renewed` (offset → when its lock ends) and `lost` are None until there are any:
    most locks never have one.
    """

    __slots__ = ("deadline_at_ms", "generation", "lost", "lost_spans", "now_ms", "renewed")

    def __init__(self, deadline_at_ms: int, generation: Any, now_ms: Callable[[], int]) -> None:
        self.deadline_at_ms: int = deadline_at_ms
        self.generation: Any = generation
        self.now_ms: Callable[[], int] = now_ms
        self.renewed: dict[int, int] | None = None
        self.lost: set[int] | None = None
        self.lost_spans: tuple[range, ...] = ()

    def renewals(self) -> dict[int, int]:
        """`renewed`, to write into."""
        if self.renewed is None:
            self.renewed = {}
        return self.renewed

    def losses(self) -> set[int]:
        """`lost`, to write into."""
        if self.lost is None:
            self.lost = set()
        return self.lost

    def lose_span(self, span: range) -> None:
        """All of these are lost."""
        self.lost_spans += (span,)

    @property
    def is_whole(self) -> bool:
        """Whether all records share one end, but for what ends their generation."""
        return not (self.renewed or self.lost or self.lost_spans)

    @property
    def may_be_lost(self) -> bool:
        """False if no record's lock is lost, which is known without a look at each."""
        return not self.is_whole or bool(self.generation.has_ended) or self.now_ms() >= self.deadline_at_ms
