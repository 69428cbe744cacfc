"""Defects to be put into the product, one at a time: what the auditor is worth shows in what it finds.

`MUTATIONS` maps a name to the defect. `Mutation.applied()` puts it in for the length of a `with` block; `complaint` is
a pattern of what the auditor has to say. Used by `test_auditor.py` only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any
from unittest.mock import patch

import attrs

from kafka_share.application.calls import ConsumerCalls
from kafka_share.application.delivery import Delivery
from kafka_share.application.direct import DirectPolls
from kafka_share.application.reading import Reading
from kafka_share.application.reports import Reports
from kafka_share.application.side import ApplicationSide
from kafka_share.application.whole_answers import WholeAnswers
from kafka_share.broker.refusals import Refusal
from kafka_share.broker.share import acquisition
from kafka_share.broker.share.acknowledging import Acknowledging
from kafka_share.broker.share.partition import SharePartition
from kafka_share.broker.share.record_state import InFlightState, RecordState
from kafka_share.broker.share.share_coordinator import ShareCoordinator
from kafka_share.broker.share.window import InFlightWindow
from kafka_share.core.coordinator import Coordinator
from kafka_share.core.events import RequestFailed
from kafka_share.core.fetching import answers
from kafka_share.core.fetching.acknowledgements import Acknowledgements
from kafka_share.core.fetching.node_exchange import NodeExchange
from kafka_share.core.fetching.wanted_partitions import WantedPartitions
from kafka_share.core.membership import Membership
from kafka_share.errors import InvalidRecordStateError, error_for_code
from kafka_share.network.direct import Brought, DirectSession
from kafka_share.network.wire import Dialogue
from kafka_share.protocol.share_values import AcquiredRange
from kafka_share.records import ShareRecords

Original = Callable[..., Any]
NEVER_ENOUGH = 1_000_000


@attrs.frozen
class Mutation:
    """`make` is given the original and answers what stands in its place."""

    owner: Any
    name: str
    make: Callable[[Original], Any]
    complaint: str
    first_seed: int = 0
    """Where the histories begin that meet it soon; it saves the test time, nothing else."""
    is_direct: bool = False
    """It shows on sessions that are lent, which are only where the extension is compiled."""

    @contextmanager
    def applied(self) -> Iterator[None]:
        with patch.object(self.owner, self.name, self.make(getattr(self.owner, self.name))):
            yield


# ---- the client


def _gathers_twice(gather: Original) -> Original:
    return lambda side: gather(side) * 2


def _forgets_partition_0(by_leader: Original) -> Original:
    def mutant(wanted: WantedPartitions, assignment: Any, topics: Any) -> Any:
        return by_leader(wanted, tuple(one for one in assignment if one[1] != 0), topics)

    return mutant


def _drops_failed_outcomes(resolve: Original) -> Original:
    def mutant(acknowledgements: Acknowledgements, units: Any, error: Any, *rest: Any) -> None:
        for unit in units:
            unit.is_internal |= error is not None
        resolve(acknowledgements, units, error, *rest)

    return mutant


def _reports_twice(drop: Original) -> Original:
    calls = count()

    def mutant(reports: Reports) -> None:
        if next(calls) % 2:
            drop(reports)

    return mutant


def _never_rejoins(_: Original) -> Original:
    def mutant(membership: Membership, *news: Any) -> None:
        membership._sent_names = membership.subscription
        membership._back_off(news[-1])

    return mutant


def _leaves_without_a_word(_: Original) -> Original:
    return lambda membership: membership._left() if membership.state.value == "leaving" else None


def _never_looks_for_the_coordinator(_: Original) -> Original:
    return lambda coordinator: None


def _keeps_a_dead_session(_: Original) -> Original:
    return lambda exchange: None


def _forgets_requests_of_a_lost_connection(close: Original) -> Original:
    def mutant(dialogue: Dialogue, *arguments: Any, **options: Any) -> None:
        close(dialogue, *arguments, **options)
        dialogue._outputs = [output for output in dialogue._outputs if not isinstance(output, RequestFailed)]

    return mutant


def _takes_one_offset_more(clean_acquired: Original) -> Original:
    def mutant(ranges: Any) -> Any:
        cleaned, impossible = clean_acquired(ranges)
        return tuple(AcquiredRange(max(0, r.first - 1), r.last, r.delivery_count) for r in cleaned[:1]), impossible

    return mutant


def _takes_refusals_for_success(_: Original) -> Original:
    def mutant(code: int, message: str | None = None) -> Any:
        return None if code == InvalidRecordStateError.code else error_for_code(code, message)

    return mutant


# ---- the calls


def _commits_nothing(_: Original) -> Original:
    """Gathered, and cleared without being posted."""

    def mutant(calls: ConsumerCalls, acknowledgements: Any, deadline_at_ms: int, *, wait: bool) -> int:
        calls._application.posted()
        return 0

    return mutant


def _polls_without_acknowledgements(ask: Original) -> Original:
    def mutant(calls: ConsumerCalls, deadline_at_ms: int, _: Any = None) -> None:
        calls._application.gather()
        calls._application.posted()
        ask(calls, deadline_at_ms)

    return mutant


def _keeps_what_was_gathered(_: Original) -> Original:
    """Posted, and not cleared: it is posted again, under another number."""
    return lambda delivery, leaving, *, has_window: None


def _forgets_what_it_has_posted(_: Original) -> Original:
    """Posted, and not noted: it is posted again under the same number, by every event to come."""
    return lambda side: None


def _leaves_its_poll_open(_: Original) -> Original:
    return lambda calls: None


def _does_not_wait_for_outcomes(_: Original) -> Original:
    def mutant(calls: ConsumerCalls, request_id: int, deadline_at_ms: int) -> Any:
        return False
        yield

    return mutant


def _leaves_a_commit_in_flight(_: Original) -> Original:
    """The commit returns as if its answer had come."""

    def mutant(polls: DirectPolls, held: Any, *_: Any) -> Any:
        polls._leave(held)
        return True
        yield

    return mutant


def _loses_the_outcomes_of_a_commit(_: Original) -> Original:
    return lambda session, flight, answer: Brought(flight.sent_at_ms, ())


def _returns_a_session_without_its_commit(returned: Original) -> Original:
    """The core does not hear of the acknowledgements that are in flight."""

    def mutant(session: DirectSession) -> Any:
        event = returned(session)
        return attrs.evolve(event, flight=None) if session.is_committing else event

    return mutant


def _closes_without_the_last_acknowledgements(_: Original) -> Original:
    return lambda side: ()


def _reports_nothing_once_it_has_closed(report: Original) -> Original:
    return lambda calls: None if calls._application.closed else report(calls)


def _drops_mail_unseen(take: Original) -> Original:
    def mutant(calls: ConsumerCalls, *, with_records: bool = False) -> None:
        mailbox = calls._background.mailbox
        for output in mailbox.arrived(with_records=with_records)[1:]:
            mailbox.drop(output)
        take(calls, with_records=with_records)

    return mutant


def _accepts_what_a_loop_has_not_come_to(_: Original) -> Original:
    def mutant(reading: Reading) -> Any:
        before, reading._passed = reading._passed, len(reading._records)
        return reading._records[before:]

    return mutant


def _hands_out_what_is_lost(_: Original) -> Original:
    return lambda side, record: True


def _reports_its_own_renewals(resolve: Original) -> Original:
    def mutant(acknowledgements: Acknowledgements, units: Any, *rest: Any) -> None:
        resolve(acknowledgements, units, *rest)
        outcomes = acknowledgements._outcomes
        outcomes[:] = [attrs.evolve(outcome, is_own=False) for outcome in outcomes]

    return mutant


# ---- the broker


def _hands_out_locked_records(_: Original) -> Any:
    return property(
        lambda state: state.state in (RecordState.AVAILABLE, RecordState.ACQUIRED) and state.pending_from is None
    )


def _answers_before_it_is_stored(complete: Original) -> Original:
    def mutant(acknowledging: Acknowledging, begun: Any, outcomes: Any, now_ms: int, then: Any) -> None:
        told: list[int] = []

        def once(at_ms: int) -> None:
            if not told:
                told.append(at_ms)
                then(at_ms)

        complete(acknowledging, begun, outcomes, now_ms, once)
        once(now_ms)

    return mutant


def _lets_others_acknowledge(_: Original) -> Any:
    def mutant(state: InFlightState, member: str) -> None:
        if state.state is not RecordState.ACQUIRED or state.pending_from is not None:
            raise Refusal(InvalidRecordStateError, "the record is not acquired")

    return staticmethod(mutant)


def _redelivers_what_was_accepted(commit: Original) -> Original:
    def mutant(state: InFlightState) -> None:
        commit(state)
        if state.state is RecordState.ACKNOWLEDGED:
            state.state = RecordState.AVAILABLE

    return mutant


def _ignores_the_delivery_limit(settle: Original) -> Original:
    return lambda state, target, limit, *spent: settle(state, target, NEVER_ENOUGH, *spent)


def _moves_the_start_back(drop_finished: Original) -> Original:
    def mutant(window: InFlightWindow) -> Any:
        moved = drop_finished(window)
        if moved and not window.batches and window.start_offset > 1:
            window.start_offset -= 2
        return moved

    return mutant


def _skips_an_offset(drop_finished: Original) -> Original:
    def mutant(window: InFlightWindow) -> Any:
        moved = drop_finished(window)
        if moved and window.batches:
            window.start_offset += 1
        return moved

    return mutant


def _has_no_window_limit(_: Original) -> Original:
    def mutant(acquisition: Any, max_records: int) -> None:
        acquisition.budget = max_records

    return mutant


def _stores_no_ends(write: Original) -> Original:
    def mutant(coordinator: ShareCoordinator, key: Any, *, batches: Any, start_offset: int, **rest: Any) -> None:
        available = [batch for batch in batches if batch.state == RecordState.AVAILABLE]
        write(coordinator, key, batches=available, start_offset=-1, **rest)

    return mutant


def _keeps_records_for_itself(poll: Original) -> Original:
    """What a poll has fetched by itself counts as returned."""

    def mutant(calls: ConsumerCalls, deadline_at_ms: int, *, makes_objects: bool) -> Any:
        records = yield from poll(calls, deadline_at_ms, makes_objects=makes_objects)
        return None if records is None else ShareRecords({})

    return mutant


def _takes_a_commit_for_answered(_: Original) -> Original:
    def mutant(calls: ConsumerCalls, deadline_at_ms: int) -> Any:
        held = None if calls.plain is None else calls.plain.begin_commit(deadline_at_ms)
        return None if held is None else {}
        yield

    return mutant


def _makes_no_entries(_: Original) -> Any:
    return lambda self: None


MUTATIONS = {
    "accept twice": Mutation(ApplicationSide, "gather", _gathers_twice, "which its application does not hold", 1),
    "forget a partition": Mutation(WantedPartitions, "_by_leader", _forgets_partition_0, "not ended", 5),
    "drop the result of a failed acknowledgement": Mutation(
        Acknowledgements,
        "resolve",
        _drops_failed_outcomes,
        "is never told what became of|returned before the outcome",
    ),
    "report an outcome twice": Mutation(Reports, "drop_outcome", _reports_twice, "once too often"),
    "never rejoin after fencing": Mutation(Membership, "_fenced", _never_rejoins, "is no member of its group", 6),
    "leave without a word": Mutation(
        Membership, "_skip_pointless_leave", _leaves_without_a_word, "has closed and is still a member"
    ),
    "never look for another coordinator": Mutation(
        Coordinator, "forget", _never_looks_for_the_coordinator, "is no member of its group", 20
    ),
    "keep a dead share session": Mutation(NodeExchange, "reset", _keeps_a_dead_session, "not ended"),
    "forget the requests of a lost connection": Mutation(
        Dialogue, "close", _forgets_requests_of_a_lost_connection, "is no member of its group|not ended|ms to close"
    ),
    "take one offset more than was acquired": Mutation(
        answers, "clean_acquired", _takes_one_offset_more, "which it was not handed out", 1
    ),
    "take refusals for success": Mutation(
        answers, "error_for_code", _takes_refusals_for_success, "was accepted; it was not stored", 9
    ),
    "gather and not post": Mutation(ConsumerCalls, "_commit", _commits_nothing, "never posted"),
    "poll without the acknowledgements": Mutation(
        ConsumerCalls, "_ask", _polls_without_acknowledgements, "never posted"
    ),
    "keep what was gathered": Mutation(Delivery, "leave", _keeps_what_was_gathered, "does not hold"),
    "forget what was posted": Mutation(ApplicationSide, "posted", _forgets_what_it_has_posted, "does not hold"),
    "leave a poll open when it raises": Mutation(
        ConsumerCalls, "_end_poll", _leaves_its_poll_open, "was not told that it ended"
    ),
    "return from commit_sync before the outcomes": Mutation(
        ConsumerCalls, "_wait_for_commit", _does_not_wait_for_outcomes, "returned before the outcome"
    ),
    "return from commit_sync while its own request is in flight": Mutation(
        DirectPolls, "outcomes", _leaves_a_commit_in_flight, "returned before the outcome", is_direct=True
    ),
    "lose the outcomes that a commit has read by itself": Mutation(
        DirectSession,
        "_read_acknowledge",
        _loses_the_outcomes_of_a_commit,
        "returned before the outcome",
        is_direct=True,
    ),
    "return a session without the commit that is in flight": Mutation(
        DirectSession,
        "_returned",
        _returns_a_session_without_its_commit,
        "returned before the outcome",
        60,
        is_direct=True,
    ),
    "keep records that a poll has fetched by itself": Mutation(
        ConsumerCalls, "_poll_plainly", _keeps_records_for_itself, "which its application does not hold", is_direct=True
    ),
    "return from a plain commit before its answer": Mutation(
        ConsumerCalls, "_commit_plainly", _takes_a_commit_for_answered, "returned before the outcome", is_direct=True
    ),
    "forget an answer held as a whole when somebody looks into the books": Mutation(
        WholeAnswers, "file", _makes_no_entries, "no more outcomes to come", 39, is_direct=True
    ),
    "close without the last acknowledgements": Mutation(
        ApplicationSide,
        "gather_last",
        _closes_without_the_last_acknowledgements,
        "never posted the acknowledgements",
        57,
    ),
    "report nothing after the end": Mutation(
        ConsumerCalls, "_report_outcomes", _reports_nothing_once_it_has_closed, "is never told what became of", 22
    ),
    "accept what a loop has not come to": Mutation(
        Reading, "take_passed", _accepts_what_a_loop_has_not_come_to, "which its application does not hold"
    ),
    "hand out what is lost": Mutation(ApplicationSide, "_step", _hands_out_what_is_lost, "whose lock is lost"),
    "report the client's own renewals": Mutation(
        Acknowledgements, "resolve", _reports_its_own_renewals, "once too often"
    ),
    "drop mail unseen": Mutation(
        ConsumerCalls, "_take", _drops_mail_unseen, "is never told what became of|close has returned before", 31
    ),
    "hand out locked records": Mutation(
        InFlightState, "acquirable", _hands_out_locked_records, "is handed out to (two members at once|its holder)", 1
    ),
    "answer before it is stored": Mutation(
        Acknowledging, "complete", _answers_before_it_is_stored, "was accepted; it was not stored", 31
    ),
    "let others acknowledge": Mutation(
        SharePartition, "_require_held", _lets_others_acknowledge, "is not held by the member that acknowledged it", 80
    ),
    "deliver again what was accepted": Mutation(
        InFlightState, "commit", _redelivers_what_was_accepted, "is delivered after its end was stored"
    ),
    "ignore the delivery limit": Mutation(
        InFlightState, "leave_acquired", _ignores_the_delivery_limit, r"is delivered for the \d+th time"
    ),
    "move the start offset back": Mutation(
        InFlightWindow, "drop_finished", _moves_the_start_back, "start offset of .* moved back"
    ),
    "move the start offset past a record": Mutation(
        InFlightWindow, "drop_finished", _skips_an_offset, "moved past .* which has not ended"
    ),
    "acquire beyond the window": Mutation(
        acquisition._Acquisition, "_set_budget", _has_no_window_limit, "offsets in flight", 4
    ),
    "store no ends": Mutation(ShareCoordinator, "write", _stores_no_ends, "is delivered after its end was stored"),
}
