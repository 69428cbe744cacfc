"""Polls and commits of which each step is plain, in compiled code: what `native.PlainCalls` is made of.

Used by `ConsumerCalls`. What such a call does is what the long way does, where nothing but the usual happens: the
application holds one answer as a whole (`whole_answers`), or nothing; all of it is acknowledged; the sessions are lent;
there is no news. As soon as one of these is not so, the call goes the long way, from its beginning: its first step
gives back what is held (`DirectPolls.recover`), and the core knows what is in flight.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from kafka_share.application.side import ApplicationSide, Call
from kafka_share.core.events import Flight
from kafka_share.core.fetching.answers import MAX_ACQUIRED_OFFSETS
from kafka_share.core.fetching.waits import window_wait_ms
from kafka_share.native import PlainCalls
from kafka_share.network import direct
from kafka_share.protocol.share_values import DEFAULT_LOCK_MS, AcquiredRange
from kafka_share.records import ShareRecords

if TYPE_CHECKING:
    from kafka_share.core.events import Event
    from kafka_share.core.metrics.measurements import Measurements


class Calls(Protocol):
    """What of the calls is needed here."""

    is_closing: bool
    has_open_poll: bool
    posted_topics: frozenset[str] | None


class Background(Protocol):
    """What of the background side is needed here."""

    @property
    def mailbox(self) -> object: ...
    @property
    def measurements(self) -> Measurements: ...
    def post(self, event: Event, *, wake: bool = True) -> None: ...
    def now_ms(self) -> int: ...


def plain_calls(side: ApplicationSide, calls: Calls, background: Background, *, sends_ahead: bool) -> PlainCalls | None:
    """None where there are none: with deserializers, which may fail at each record, and with a small open window."""
    maker, deliveries = side.wholes.maker, side.deliveries
    if maker is None:
        return None
    made = PlainCalls(
        side=side,
        calls=calls,
        wholes=side.wholes,
        deliveries=deliveries,
        reports=side.reports,
        numbers=deliveries.numbers,
        measurements=background.measurements,
        mailbox=background.mailbox,
        post=background.post,
        now_ms=background.now_ms,
        log=direct.log,
        maker=maker,
        in_order=Call.ENDED,
        is_open=Call.OPEN,
        is_returned=Call.RETURNED,
        flight_type=Flight,
        carrying_type=direct.CarryingFlight,
        range_type=AcquiredRange,
        part_type=direct.AcquiredRecords,
        records_type=ShareRecords,
        ended_well=direct.ended_well,
        ledgers=deliveries.short_way.ledgers,
        most_offsets=MAX_ACQUIRED_OFFSETS,
        default_lock_ms=DEFAULT_LOCK_MS,
        window_poll=side.max_poll_records if side.has_window else 0,
        window_wait_of=window_wait_ms,
        sends_ahead=sends_ahead,
        awaited=deliveries.awaited.by_number,
        unreported=deliveries.awaited.unreported,
    )
    background.measurements.settle = made.settle
    return made
