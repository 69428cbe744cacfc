"""What is to go wrong, and what is produced, in one history: plain values drawn from the seed before it begins.

A planned event names no target that may not exist by then: it carries a `pick`, a number that chooses among what is
there at its time.
"""

from __future__ import annotations

import enum
import random
from typing import Final

import attrs
from simulation.fates import FateKind

LARGEST_BATCH: Final = 20


class FaultKind(enum.Enum):
    FATE = "fate"
    """The next request of some API meets a `FateKind`."""
    CUT = "connections cut"
    SLOW_NODE = "slow node"
    UNREACHABLE = "node unreachable for a client"
    PAUSE = "client paused"
    KILL = "client killed"
    JOIN = "client joined"
    LEAVE = "client left"
    WAKEUP = "wakeup"
    RESTART = "broker restarted"
    CRASH = "broker crashed"
    OUTAGE = "all brokers down"
    MOVE_LEADER = "leader moved"
    MOVE_COORDINATOR = "coordinator moved"
    EVICT_SESSION = "share session evicted"
    FENCE = "member fenced"
    DELETE_TOPIC = "topic deleted"
    GROW_TOPIC = "partition added"
    DELETE_RECORDS = "records deleted"
    SLOW_PERSISTER = "slow persister"
    """Share state is stored, read or initialised late, or not at all."""


_WEIGHTS: Final = {
    FaultKind.FATE: 12,
    FaultKind.CUT: 3,
    FaultKind.SLOW_NODE: 2,
    FaultKind.UNREACHABLE: 2,
    FaultKind.PAUSE: 4,
    FaultKind.KILL: 3,
    FaultKind.JOIN: 2,
    FaultKind.LEAVE: 2,
    FaultKind.WAKEUP: 2,
    FaultKind.RESTART: 2,
    FaultKind.CRASH: 2,
    FaultKind.OUTAGE: 1,
    FaultKind.MOVE_LEADER: 4,
    FaultKind.MOVE_COORDINATOR: 2,
    FaultKind.EVICT_SESSION: 2,
    FaultKind.FENCE: 2,
    FaultKind.DELETE_TOPIC: 1,
    FaultKind.GROW_TOPIC: 1,
    FaultKind.DELETE_RECORDS: 1,
}

METADATA, FIND_COORDINATOR, HEARTBEAT, SHARE_FETCH, SHARE_ACKNOWLEDGE = 3, 10, 76, 78, 79
_ERRORS: Final = {
    METADATA: (-1, 5),
    FIND_COORDINATOR: (14, 15),
    HEARTBEAT: (14, 15, 16, 25, 110),
    SHARE_FETCH: (-1, 14, 122, 123),
    SHARE_ACKNOWLEDGE: (-1, 122, 123),
}
"""Codes that a client has to live with, by API."""
INITIALIZE_STATE, READ_STATE, WRITE_STATE = 83, 84, 85
_ERRORS_OF_STATE: Final = (14, 16, 56)
"""Codes that a share partition may get from the share coordinator."""


@attrs.frozen
class PlannedFault:
    """`span_ms` is how long it lasts, where it does."""

    at_ms: int
    kind: FaultKind
    pick: int
    span_ms: int
    fate: FateKind | None = None
    api_key: int = 0
    number: int = 0
    times: int = 1


class Flavour(enum.Enum):
    PLAIN = "plain"
    COMPRESSED = "compressed"
    POISON = "undeserializable record produced"
    CORRUPT = "corrupt batch produced"
    CONTROL = "control batch produced"


@attrs.frozen
class PlannedBatch:
    at_ms: int
    pick: int
    records: int
    flavour: Flavour


@attrs.frozen
class Plan:
    """One history."""

    active_ms: int
    faults: tuple[PlannedFault, ...]
    batches: tuple[PlannedBatch, ...]


def draw_plan(source: random.Random) -> Plan:
    active_ms = source.choice((2_000, 4_000, 7_000))
    faults = [_fault(source, active_ms) for _ in range(source.choice((0, 3, 6, 12)))]
    batches: list[PlannedBatch] = []
    at_ms = 0
    for _ in range(source.choice((5, 15, 30))):
        batches.append(_batch(source, at_ms))
        at_ms += source.randint(0, 2 * active_ms // 30)
    if source.random() < 0.25:  # more than a window can hold
        at_ms = source.randint(0, active_ms)
        pick = source.getrandbits(16)
        batches += [PlannedBatch(at_ms, pick, LARGEST_BATCH, Flavour.PLAIN)] * 10
    faults += _slowness(random.Random(f"slow persister {faults!r} {active_ms}"), active_ms, len(faults))
    # By a chance of its own: the rest of a history does not depend on it.
    stream = random.Random(f"streams {batches!r}")
    if stream.random() < 0.3:  # so many that polls follow each other without a wait
        at_ms = stream.randint(0, active_ms)
        batches += [PlannedBatch(at_ms + 10 * i, stream.getrandbits(16), 3, Flavour.PLAIN) for i in range(60)]
    return Plan(
        active_ms,
        tuple(sorted(faults, key=lambda fault: fault.at_ms)),
        tuple(sorted(batches, key=lambda batch: batch.at_ms)),
    )


def steady_plan(drawn: Plan, source: random.Random) -> Plan:
    """The same with so many records that polls find some, one after the other, and with few faults."""
    stream = [PlannedBatch(at_ms, source.getrandbits(16), 1, Flavour.PLAIN) for at_ms in range(200, drawn.active_ms, 3)]
    batches = sorted([*drawn.batches, *stream], key=lambda batch: batch.at_ms)
    return attrs.evolve(drawn, faults=drawn.faults[::3], batches=tuple(batches))


def _slowness(source: random.Random, active_ms: int, faults: int) -> list[PlannedFault]:
    """From a source of its own: the histories without it are what they were before there was this."""
    if not faults or source.random() < 0.7:
        return []
    return [
        PlannedFault(
            source.randint(0, active_ms),
            FaultKind.SLOW_PERSISTER,
            source.getrandbits(16),
            source.choice((20, 200, 1_000, 3_000)),
            api_key=source.choices((READ_STATE, WRITE_STATE, INITIALIZE_STATE), (2, 7, 1))[0],
            number=source.choice((0, 0, *_ERRORS_OF_STATE)),
            times=source.choice((1, 1, 2, 5, 20)),
        )
        for _ in range(source.choice((1, 2, 4)))
    ]


def _fault(source: random.Random, active_ms: int) -> PlannedFault:
    kind = source.choices(list(_WEIGHTS), list(_WEIGHTS.values()))[0]
    at_ms, pick = source.randint(0, active_ms), source.getrandbits(16)
    span_ms = source.choice((20, 200, 1_000, 4_000))
    if kind is not FaultKind.FATE:
        return PlannedFault(at_ms, kind, pick, span_ms)
    fate = source.choice(list(FateKind))
    api_key = source.choices(list(_ERRORS), (1, 1, 3, 5, 4))[0]
    number = source.choice(_ERRORS[api_key]) if fate is FateKind.ERROR else span_ms
    return PlannedFault(at_ms, kind, pick, span_ms, fate, api_key, number, source.choice((1, 1, 1, 2, 5)))


def _batch(source: random.Random, at_ms: int) -> PlannedBatch:
    flavour = source.choices(list(Flavour), (40, 3, 2, 1, 2))[0]
    return PlannedBatch(at_ms, source.getrandbits(16), source.choice((1, 1, 3, 10, LARGEST_BATCH)), flavour)
