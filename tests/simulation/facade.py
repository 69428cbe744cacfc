"""The application half of a simulated client: the façade's methods as generators that yield what they wait for.

A twin of `kafka_share.consumer` on one real `ApplicationSide`: the same steps in the same order, but where the façade
blocks in the mailbox these yield a `Wait`. The auditor hears of every record that a poll returns, of everything that is
said about records, and of every outcome.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any, Protocol, TypeVar

import attrs
from simulation.driver import SimulatedDriver

from kafka_share.application.side import ApplicationSide
from kafka_share.core.events import (
    AcknowledgementOutcome,
    AcknowledgementsGathered,
    AcknowledgementsMade,
    CloseRequested,
    CommitRequested,
    Event,
    GatheredAcknowledgements,
    Output,
    PollEnded,
    PollStarted,
    SubscriptionChanged,
    Unsubscribed,
)
from kafka_share.errors import OperationTimeoutError, WakeupError
from kafka_share.records import AcknowledgeType, ShareRecord, ShareRecords

Records = ShareRecords[Any, Any]
T = TypeVar("T")


@attrs.frozen
class Wait:
    """Go on at `deadline_at_ms` of the client's clock, or earlier if the mailbox has news (`for_news`)."""

    deadline_at_ms: int
    for_news: bool = True
    with_records: bool = False


Steps = Generator[Wait, None, T]


class Confidant(Protocol):
    """What the auditor is shown of an application."""

    def delivered(self, records: list[ShareRecord[Any, Any]]) -> None: ...
    def said(self, gathered: tuple[GatheredAcknowledgements, ...]) -> None: ...
    def reported(self, outcome: AcknowledgementOutcome) -> None: ...
    def closed(self) -> None: ...


class SimulatedFacade:
    """See the module's docstring; timeouts in milliseconds."""

    def __init__(self, driver: SimulatedDriver, side: ApplicationSide, auditor: Confidant, api_timeout_ms: int) -> None:
        self.side = side
        self.is_closed = False
        self._driver = driver
        self._auditor = auditor
        self._api_timeout_ms = api_timeout_ms
        self._last_request_id = 0

    def sleep(self, span_ms: int) -> Steps[None]:
        """The application does something else."""
        yield Wait(self._driver.now_ms() + span_ms, for_news=False)

    def subscribe(self, topics: frozenset[str]) -> None:
        self.side.topics = topics
        self._driver.post(SubscriptionChanged(topics), wake=False)

    def unsubscribe(self) -> Steps[None]:
        if not self.side.topics:
            return
        self.side.topics = frozenset()
        request_id = self._new_request_id()
        deadline_at_ms = self._driver.now_ms() + self._api_timeout_ms
        self._driver.post(Unsubscribed(request_id, deadline_at_ms))
        yield from self._wait(deadline_at_ms, lambda: self.side.pop_completion(request_id) is not None)

    # ---- records

    def poll(self, timeout_ms: int) -> Steps[Records]:
        deadline_at_ms = self._driver.now_ms() + timeout_ms
        self._take(with_records=self.side.has_room)
        self._raise_pending()
        self._report()
        self.side.demand_all_acknowledged()
        self._raise_wakeup()
        self.side.accept_delivered()
        self._start_poll(deadline_at_ms)
        try:
            try:
                records = yield from self._wait_for_records(deadline_at_ms)
            finally:
                self._report()
        except Exception:
            self._driver.post(PollEnded(), wake=False)
            raise
        self._auditor.delivered(list(records))
        return records

    def _start_poll(self, deadline_at_ms: int) -> None:
        self.side.begin_poll()
        acknowledgements = self._gather()
        if not self.side.has_ready:
            self._ask(deadline_at_ms, acknowledgements)
            return
        if acknowledgements:
            self._commit(acknowledgements, self._driver.now_ms() + self._api_timeout_ms, wait=False)
        self._driver.post(PollStarted(self._driver.now_ms(), wants_records=False), wake=False)

    def _ask(self, deadline_at_ms: int, acknowledgements: tuple[GatheredAcknowledgements, ...] = ()) -> None:
        asked = self.side.next_ask()
        if asked is not None:
            said = acknowledgements + self._gather()
            self._driver.post(PollStarted(deadline_at_ms, said, wants_records=asked > 0, max_records=asked))

    def _wait_for_records(self, deadline_at_ms: int) -> Steps[Records]:
        while True:
            records = self.side.collect()
            if records is not None:
                if self.side.has_window:
                    self._driver.post(PollEnded(), wake=False)
                return records
            self._raise_pending()
            self._ask(deadline_at_ms)
            if self._driver.now_ms() >= deadline_at_ms:
                return ShareRecords({})
            had_room = self.side.has_room
            yield Wait(deadline_at_ms, with_records=had_room)
            self._take(with_records=had_room)
            self._raise_wakeup()
            if not had_room:
                self._take(with_records=self.side.has_room)

    # ---- acknowledgements

    def acknowledge(self, record: ShareRecord[Any, Any], kind: AcknowledgeType) -> None:
        if not self.side.has_window:
            self.side.acknowledge(record.topic, record.partition, record.offset, kind)
            return
        must_announce, makes_room = self.side.in_flight.say(record, kind, None)
        if must_announce:
            self._driver.post(AcknowledgementsMade())
        if makes_room:
            self._driver.mailbox.interrupt()

    def commit_sync(self, timeout_ms: int) -> Steps[None]:
        deadline_at_ms = self._driver.now_ms() + timeout_ms
        self._take()
        self.side.accept_delivered()
        acknowledgements = self._gather()
        timed_out = False
        if acknowledgements or self.side.has_unsettled:
            request_id = self._commit(acknowledgements, deadline_at_ms, wait=True)
            timed_out = yield from self._wait_for_commit(request_id, deadline_at_ms)
        self._report()
        if timed_out:
            raise OperationTimeoutError("no answer in time")

    def _wait_for_commit(self, request_id: int, deadline_at_ms: int) -> Steps[bool]:
        completion: list[bool] = []

        def ended() -> bool:
            self._raise_wakeup()
            timed_out = self.side.pop_completion(request_id)
            if timed_out is not None:
                completion.append(timed_out)
            return timed_out is not None

        yield from self._wait(deadline_at_ms, ended)
        return not completion or completion[0]

    def commit_async(self) -> None:
        self._take()
        self._report()
        self.side.accept_delivered()
        acknowledgements = self._gather()
        if acknowledgements:
            self._commit(acknowledgements, self._driver.now_ms() + self._api_timeout_ms, wait=False)

    def _gather(self, *, is_last: bool = False) -> tuple[GatheredAcknowledgements, ...]:
        gathered = self.side.gather_last() if is_last else self.side.gather()
        self.side.check()
        if gathered:
            self._auditor.said(gathered)
        return gathered

    def _commit(
        self, acknowledgements: tuple[GatheredAcknowledgements, ...], deadline_at_ms: int, *, wait: bool
    ) -> int:
        request_id = self._new_request_id()
        self._driver.post(CommitRequested(request_id, acknowledgements, deadline_at_ms, wait))
        return request_id

    # ---- the end

    def close(self, timeout_ms: int) -> Steps[None]:
        deadline_at_ms = self._driver.now_ms() + timeout_ms
        self._driver.post(CloseRequested(self._gather(is_last=True), deadline_at_ms))
        yield from self._wait(deadline_at_ms + 1_000, lambda: self.side.closed)
        assert self.side.closed, "close got no answer from the core"
        self._report()
        self.is_closed = True
        self._auditor.closed()

    # ---- called by the background half, in an open window

    def observe(self, outputs: Sequence[Output]) -> None:
        """See outputs before the mailbox has them."""
        if self.side.has_window:
            self.side.observe(outputs)

    def hand_over(self, post: Callable[[Event], None]) -> None:
        """Post what was said, as the core has asked for it."""

        def told(gathered: AcknowledgementsGathered) -> None:
            self._auditor.said(gathered.acknowledgements)
            post(gathered)

        self.side.hand_over(told)

    # ---- waiting

    def _new_request_id(self) -> int:
        self._last_request_id += 1
        return self._last_request_id

    def _take(self, *, with_records: bool = False) -> None:
        self.side.take(self._driver.mailbox.take(0, with_records=with_records))

    def _report(self) -> None:
        self._take()
        for outcome in iter(self.side.pop_outcome, None):
            self._auditor.reported(outcome)

    def _wait(self, deadline_at_ms: int, ended: Callable[[], bool]) -> Steps[None]:
        while not ended():
            if self._driver.now_ms() >= deadline_at_ms:
                return
            yield Wait(deadline_at_ms)
            self._take()

    def _raise_pending(self) -> None:
        error = self.side.pop_error()
        if error is not None:
            raise error

    def _raise_wakeup(self) -> None:
        if self._driver.mailbox.consume_wakeup():
            raise WakeupError("wakeup() was called")
