"""The application half of a simulated client: the package's own calls, and what the auditor is shown of them.

The auditor hears of every record that a poll returns, of all acknowledgements when they are made and when they are
posted, and of every outcome that the commit callback would hear of.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any, Protocol, TypeAlias, TypeVar

import attrs
from simulation.driver import SimulatedDriver
from simulation.trace import ComplaintError

from kafka_share.application.calls import ConsumerCalls, Records
from kafka_share.application.calls import Steps as WaitSteps
from kafka_share.application.delivery import Record
from kafka_share.application.direct import Wait
from kafka_share.application.side import ApplicationSide
from kafka_share.core.events import (
    AcknowledgementOutcome,
    AcknowledgementsGathered,
    CommitRequested,
    Event,
    Flight,
    GatheredAcknowledgements,
    LostRecords,
    Output,
    PollEnded,
    PollStarted,
)
from kafka_share.errors import KafkaShareError
from kafka_share.records import AcknowledgeType, ShareRecord

T = TypeVar("T")


@attrs.frozen
class Sleep:
    """The application does something else until `until_ms` of the client's clock."""

    until_ms: int


Steps: TypeAlias = Generator[Wait | Sleep, None, T]


class Confidant(Protocol):
    """What the auditor is shown of an application."""

    @property
    def open_numbers(self) -> frozenset[int]: ...
    def delivered(self, records: list[ShareRecord[Any, Any]]) -> None: ...
    def polled(self, records: list[ShareRecord[Any, Any]]) -> None: ...
    def put_back(self, records: list[ShareRecord[Any, Any]]) -> None: ...
    def acknowledged(self, record: ShareRecord[Any, Any]) -> None: ...
    def gave_up(self, lost: tuple[LostRecords, ...]) -> None: ...
    def committed(self, waited_for: frozenset[int]) -> None: ...
    def posted(self, gathered: tuple[GatheredAcknowledgements, ...]) -> None: ...
    def reported(self, outcome: AcknowledgementOutcome) -> None: ...
    def closed(self) -> None: ...


class _Overheard:
    """The background half, with an ear at what is posted to it."""

    def __init__(self, driver: SimulatedDriver, side: ApplicationSide, auditor: Confidant) -> None:
        self.mailbox = driver.mailbox
        self.measurements = driver.measurements
        self.now_ms = driver.now_ms
        self._driver = driver
        self._side = side
        self._auditor = auditor
        self._shown: set[int] = set()
        """The numbers of acknowledgements that have left."""
        self._sent: set[int] = set()
        """Those that the application's thread has sent; where not all of a call can be, the core gets all of them."""
        self.has_open_poll = False
        """Whether a poll was begun that neither its records nor its end have followed."""
        self.waited_for: frozenset[int] = frozenset()
        """What the latest commit that is waited for has to wait for."""

    def show(self, acknowledgements: Sequence[GatheredAcknowledgements]) -> None:
        """They leave the application."""
        self._shown.update(g.number for g in acknowledgements)
        self._auditor.posted(tuple(acknowledgements))

    def show_sent(self, flight: Flight) -> None:
        """The application's thread sends this; what it had posted before, and has got back to send, was shown then."""
        self.show([g for g in flight.acknowledgements if g.number not in self._shown])
        self._sent.update(g.number for g in flight.acknowledgements)
        if not flight.is_fetch:
            self.waited_for = self._auditor.open_numbers

    def post(self, event: Event, *, wake: bool = True) -> None:
        self._side.check()
        self.show([g for g in getattr(event, "acknowledgements", ()) if g.number not in self._sent])
        if isinstance(event, PollStarted | PollEnded):
            self.has_open_poll = isinstance(event, PollStarted)
        elif isinstance(event, CommitRequested) and event.wait:
            self.waited_for = self._auditor.open_numbers
        self._driver.post(event, wake=wake)


class SimulatedFacade:
    """See the module's docstring; timeouts in milliseconds. Also what the background half asks in an open window."""

    def __init__(
        self,
        driver: SimulatedDriver,
        side: ApplicationSide,
        auditor: Confidant,
        api_timeout_ms: int,
        *,
        sends_ahead: bool,
    ) -> None:
        self.side = side
        self.is_closed = False
        self._driver = driver
        self._auditor = auditor
        self._background = _Overheard(driver, side, auditor)
        self._calls = ConsumerCalls(side, self._background, api_timeout_ms=api_timeout_ms, sends_ahead=sends_ahead)
        self._calls.report = auditor.reported
        driver.sends_directly = self._background.show_sent
        self.subscribe = self._calls.subscribe
        self.unsubscribe = self._calls.unsubscribe
        self.commit_async = self._calls.commit_async

    def sleep(self, span_ms: int) -> Steps[None]:
        yield Sleep(self._driver.now_ms() + span_ms)

    def poll(self, timeout_ms: int) -> Steps[Records]:
        records = yield from self._polled(self._calls.poll(timeout_ms))
        self._auditor.delivered(list(records))
        return records

    def _polled(self, call: WaitSteps[T]) -> Steps[T]:
        try:
            return (yield from call)
        except KafkaShareError:
            if self._background.has_open_poll:
                raise ComplaintError("a poll has raised, and the core was not told that it ended") from None
            raise
        finally:
            self._background.has_open_poll = False

    def read(self, timeout_ms: int, work: Callable[[Record], Steps[bool]]) -> Steps[int]:
        """One turn of a loop over the consumer: how many records it got. `work` says whether to go on."""
        is_over: list[bool] = []
        reading = yield from self._polled(self._calls.read(timeout_ms, lambda: bool(is_over)))
        self._auditor.polled(reading.rest)
        count = 0
        for record in reading:
            count += 1
            if record.lock_lost:
                raise ComplaintError(f"a loop gets {record!r}, whose lock is lost")
            self._auditor.delivered([record])
            if not (yield from work(record)):
                is_over.append(True)
                self._auditor.put_back(reading.rest)
                self._calls.stop_reading()
                break
        return count

    def acknowledge(self, record: ShareRecord[Any, Any], kind: AcknowledgeType) -> None:
        self._acknowledged(record)
        if self.side.has_window:
            self._calls.acknowledge_delivery(record, kind, None)
        else:
            self.side.acknowledge(record.topic, record.partition, record.offset, kind, record.lock)

    def release(self, record: ShareRecord[Any, Any], delay_ms: int) -> None:
        self._acknowledged(record)
        self.side.deliveries.hold(record, delay_ms)

    def _acknowledged(self, record: ShareRecord[Any, Any]) -> None:
        if not record.lock_lost:  # otherwise it may have been given up, and nothing is posted
            self._auditor.acknowledged(record)

    def commit_sync(self, timeout_ms: int) -> Steps[None]:
        self._background.waited_for = frozenset()
        yield from self._calls.commit_sync(timeout_ms)
        self._auditor.committed(self._background.waited_for)

    def close(self, timeout_ms: int) -> Steps[None]:
        yield from self._calls.close(timeout_ms)
        assert self.side.closed, "close got no answer from the core"
        self.is_closed = True
        self._auditor.closed()
        if self.side.awaits_outcomes:
            raise ComplaintError("close has returned before all outcomes, or acknowledgements were never posted")

    # ---- called by the background half

    def tell_outcomes(self, outputs: Sequence[Output]) -> None:
        self.side.tell_outcomes(outputs)

    def post_acknowledgements(self, post: Callable[[AcknowledgementsGathered], None]) -> None:
        def overheard(gathered: AcknowledgementsGathered) -> None:
            self._auditor.gave_up(gathered.lost)
            self._background.show(gathered.acknowledgements)
            post(gathered)

        self.side.post_acknowledgements(overheard)

    def ended(self) -> None:
        self.side.ended()
