"""One lease: the records that one micro-batch (or one batch read) was given, and how it stands with them.

A value of `lease_book`, which alone changes it. It has no records, only their number: the agent keeps those.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final, TypeAlias

import attrs

from kafka_share.records import AcknowledgeType

Place: TypeAlias = "tuple[str, int, int]"
"""Topic, partition, offset."""


class LeaseState(enum.Enum):
    """How a lease stands; the arrows between them are `TRANSITIONS`."""

    OPEN = "open"
    """Its records are acquired, and renewed while they are."""
    DONE = "done"
    """The batch is committed, and the acknowledgements have been sent."""
    LOST = "lost"
    """All of its locks ended before that."""
    RELEASED = "released"
    """Given back: its batch has failed, or nobody came for it in time."""


TRANSITIONS: Final[Mapping[LeaseState, frozenset[LeaseState]]] = {
    LeaseState.OPEN: frozenset({LeaseState.DONE, LeaseState.LOST, LeaseState.RELEASED}),
    LeaseState.DONE: frozenset(),
    LeaseState.LOST: frozenset(),
    LeaseState.RELEASED: frozenset(),
}
"""A lease ends once. Only while it is OPEN may its rows be handed to a query that replays the batch."""


@attrs.define
class Lease:
    """`number` counts the leases of one agent from 1, `session` is the runner that it was last handed to."""

    number: int
    session: str
    records: int
    lock_ms: int
    acquired_at_ms: int
    renew_at_ms: int | None
    """None: its locks are not renewed (any more)."""
    state: LeaseState = LeaseState.OPEN
    replays: int = 0
    """How many later runners it was handed to."""
    renewals: int = 0
    """How often its locks were renewed."""
    lost_records: int = 0
    decisions: dict[Place, AcknowledgeType] = attrs.field(factory=dict)
    """What is to be sent for single records when the batch is committed; the others are accepted."""

    @property
    def is_open(self) -> bool:
        return self.state is LeaseState.OPEN

    def end(self, state: LeaseState) -> None:
        assert state in TRANSITIONS[self.state], f"lease {self.number} cannot become {state} after {self.state}"
        self.state = state
        self.renew_at_ms = None


class Plan(enum.Enum):
    """What a runner that asks for the rows of a lease gets."""

    SAME = "the rows, as this runner was given them before"
    ADOPTED = "the rows: this runner replays the batch of an earlier one"
    GONE = "nothing: the lease has ended, or was replayed too often"


# ---- what the book wants done


@attrs.frozen
class Renew:
    """Renew the locks of a lease's records."""

    lease: int


@attrs.frozen
class Settle:
    """Acknowledge a lease's records for good: by its decisions, and the others as `rest`. Forget the lease after it."""

    lease: int
    decisions: Mapping[Place, AcknowledgeType]
    rest: AcknowledgeType


@attrs.frozen
class Stop:
    """End the agent, for this reason."""

    reason: str


LeaseOutput: TypeAlias = "Renew | Settle | Stop"


@attrs.frozen
class LeaseTerms:
    """The rules of one agent. Times are milliseconds."""

    grace_ms: int = 30_000
    """How long leases are kept for a later runner when none is attached any more."""
    max_replays: int = 1
    """How many later runners a lease is handed to before it is released."""
    max_lease_ms: int = 0
    """After this long locks are not renewed any more; 0: no limit."""
    ttl_ms: int | None = None
    """Batch reads: a lease that is not settled by then is released. None: the leases of a streaming query."""
    renews: bool = True
    renew_fraction: float = 1 / 3
    """After this part of the lock time locks are renewed."""
    first_attach_ms: int = 60_000
    """An agent to which nobody attaches ends after this long."""

    @property
    def is_batch(self) -> bool:
        return self.ttl_ms is not None
