"""Scripts of share group operations, and hypothesis' way of making them.

A script is a value whose repr is Python again: what a failure prints can be pasted into a test. What a member
acknowledges is mostly relative to what it holds (`HELD`), so that a script stays meaningful while it is made shorter.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import attrs
from hypothesis import strategies as st
from support.share_requests import Limits

HELD: Final = "held"
FIRST: Final = "first"
LAST: Final = "last"
Span: TypeAlias = "str | tuple[int, int]"
"""Everything the member holds in the partition, its first or last record of that, or the offsets themselves."""

NEXT: Final = "next"
ZERO: Final = "zero"
WRONG: Final = "wrong"

PARKED_MS: Final = 400
SHORT_LOCK_MS: Final = 1_000
LONG_LOCK_MS: Final = 30_000
MEMBERS: Final = ("A", "B", "C")


@attrs.frozen
class Said:
    """Acknowledgement of a span with one type (0 gap, 1 accept, 2 release, 3 reject, 4 renew)."""

    partition: int
    span: Span
    kind: int


@attrs.frozen
class Produce:
    partition: int
    batches: tuple[int, ...]
    """How many records each record batch has."""


@attrs.frozen
class Fetch:
    """`parked`: the answer is taken when the member does something again, and others act while it waits."""

    member: str
    limits: Limits = attrs.field(factory=Limits)
    said: tuple[Said, ...] = ()
    epoch: str = NEXT
    parked: bool = False


@attrs.frozen
class Acknowledge:
    member: str
    said: tuple[Said, ...] = ()
    renew: bool = False


@attrs.frozen
class Close:
    """End the session; the connection stays."""

    member: str


@attrs.frozen
class Drop:
    """End the connection; the member's next request comes on a new one and goes on with its epoch."""

    member: str


@attrs.frozen
class Wait:
    """Let every lock of now end."""


@attrs.frozen
class Alter:
    partition: int
    start: int


@attrs.frozen
class Describe:
    """DescribeShareGroupOffsets of all partitions."""


@attrs.frozen
class Reload:
    """End all connections, so that the share partitions are forgotten, and have them loaded again."""


Step: TypeAlias = "Produce | Fetch | Acknowledge | Close | Drop | Wait | Alter | Describe | Reload"


@attrs.frozen
class Script:
    partitions: int
    lock_ms: int
    delivery_count_limit: int
    steps: tuple[Step, ...]


# ---- made by hypothesis

_spans: Final = st.sampled_from([HELD, HELD, HELD, FIRST, LAST]) | st.tuples(st.integers(0, 6), st.integers(0, 3)).map(
    lambda pair: (pair[0], pair[0] + pair[1])
)


def _said(partitions: int, kinds: tuple[int, ...]) -> st.SearchStrategy[tuple[Said, ...]]:
    one = st.builds(Said, st.integers(0, partitions - 1), _spans, st.sampled_from(kinds))
    return st.lists(one, min_size=1, max_size=2, unique_by=lambda said: said.partition).map(tuple)


_limits: Final = st.builds(
    Limits,
    max_wait_ms=st.sampled_from([0, 0, 0, 40]),
    max_records=st.sampled_from([500, 500, 1, 2, 4, 0]),
    batch_size=st.sampled_from([500, 1, 2]),
    min_bytes=st.sampled_from([1, 1, 1, 0, 200]),
    max_bytes=st.sampled_from([1 << 20, 1 << 20, 1 << 20, 90, 1]),
    share_acquire_mode=st.sampled_from([0, 1]),
)
_plain_limits: Final = st.builds(
    Limits, max_records=st.sampled_from([500, 2]), share_acquire_mode=st.sampled_from([0, 1])
)
_parked_limits: Final = st.builds(Limits, max_wait_ms=st.just(PARKED_MS), max_records=st.sampled_from([500, 2]))
_KINDS: Final = (1, 1, 2, 2, 3, 0)


def _steps(partitions: int, *, short: bool, may_reload: bool) -> st.SearchStrategy[Step]:
    members = st.sampled_from(MEMBERS[:2] if short else MEMBERS)
    partition = st.integers(0, partitions - 1)
    said = _said(partitions, _KINDS)
    epochs = st.sampled_from([NEXT] * 9 + [ZERO, ZERO, WRONG])
    found: list[st.SearchStrategy[Step]] = [
        st.builds(Produce, partition, st.lists(st.integers(1, 3), min_size=1, max_size=3).map(tuple)),
        st.builds(Produce, partition, st.just((2,))),
        st.builds(Fetch, members, _plain_limits),
        st.builds(Fetch, members, _plain_limits),
        st.builds(Fetch, members, _limits, st.just(()) | said, epochs),
        st.builds(Fetch, members, _limits, said),
        st.builds(Fetch, members, _parked_limits, st.just(()) | said, st.just(NEXT), st.just(True)),
        st.builds(Acknowledge, members, said),
        st.builds(Acknowledge, members, said),
        st.builds(
            Acknowledge,
            members,
            st.builds(Said, partition, st.sampled_from([FIRST, LAST]), st.just(2)).map(lambda one: (one,)),
        ),
        st.builds(Acknowledge, members, _said(partitions, (4, 4, 2, 1)), st.just(True)),
        st.builds(Close, members),
        st.builds(Drop, members),
        st.builds(Alter, partition, st.integers(0, 6)),
        st.just(Describe()),
    ]
    if short:
        found += [st.just(Wait())] * 3
    if may_reload:
        found.append(st.just(Reload()))
    return st.one_of(found)


def _scenes(partitions: int) -> st.SearchStrategy[tuple[Step, ...]]:
    """Steps in a row that chance would rarely put there: one member holds records that another one waits for."""
    partition, kinds = st.integers(0, partitions - 1), st.sampled_from((2, 2, 1, 3))

    def scene(index: int, batches: tuple[int, ...], first: int, last: int, limits: Limits) -> tuple[Step, ...]:
        return (
            Produce(index, batches),
            Fetch("A"),
            Fetch("B"),
            Fetch("B", limits, parked=True),
            Acknowledge("A", (Said(index, FIRST, first),)),
            Acknowledge("A", (Said(index, LAST, last),)),
        )

    batches = st.lists(st.integers(1, 3), min_size=1, max_size=3).map(tuple)
    return st.builds(scene, partition, batches, kinds, kinds, _parked_limits)


@st.composite
def scripts(draw: st.DrawFn) -> Script:
    """Scripts that a broker plays in a second or two: those that wait for a lock's end are short."""
    partitions = draw(st.sampled_from([1, 1, 2]))
    short = draw(st.sampled_from([False, False, False, True]))
    # With two partitions it is left to chance which of them is loaded first.
    one = _steps(partitions, short=short, may_reload=partitions == 1 and not short)
    beginning = draw(_scenes(partitions)) if not short and draw(st.booleans()) else ()
    steps = [*beginning, *draw(st.lists(one, min_size=4, max_size=9 if short else 18))]
    return Script(partitions, SHORT_LOCK_MS if short else LONG_LOCK_MS, draw(st.sampled_from([2, 5])), tuple(steps))
