"""The core lends its share session to the thread that polls, and gets it back as it has become."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from core.scripted_cluster import Harness, acknowledge_answer, batches, fetch_answer, fetch_data, said_in, tp

from kafka_share.core.events import (
    AcknowledgementsGathered,
    Channel,
    CloseRequested,
    CommitRequested,
    ConnectionLost,
    Flight,
    GatheredAcknowledgements,
    Lend,
    PollStarted,
    RequestFailed,
    ResponseReceived,
    SessionReturned,
    SessionUsed,
    Tally,
    WorkBegun,
)
from kafka_share.core.fetching.lending import LENT_MS, LONGEST_LOAN_MS, SKIPPED
from kafka_share.errors import BrokerUnreachableError, OutcomeUnknownError
from kafka_share.protocol.share_acknowledge import ShareAcknowledgeRequest
from kafka_share.protocol.share_fetch import ShareFetchRequest, ShareFetchResponse
from kafka_share.records import AcknowledgeType


def lent(leaders: Any = None, **settings: Any) -> Harness:
    """A consumer that has got a batch, so that its session is lent if it can be."""
    h = Harness(leaders, lends=True, **settings).joined()
    h.answer(h.fetch(), fetch_answer(fetch_data(tp(), (0, 9, 1))))
    return h


def returned(
    lend: Lend, *, fetches: int = 0, flight: Flight | None = None, at_ms: int | None = None
) -> SessionReturned:
    return SessionReturned(lend.lend_id, lend.epoch + fetches, flight, Tally(fetches=fetches), at_ms)


def numbered(h: Harness, number: int, where: Any = None) -> GatheredAcknowledgements:
    said = h.said((0, 9, 1), where=where or tp())
    return GatheredAcknowledgements(said.partition, said.node_id, said.session_id, said.runs, number=number)


@pytest.mark.behaviour("fetching")
def test_the_session_is_lent_when_a_poll_has_got_records() -> None:
    """While all is well, the thread that polls fetches by itself; the core does for many polls at once what is left."""
    h = lent()
    (lend,) = h.lends
    assert (lend.node.id, lend.epoch) == (1, 1)
    assert [where for where, _ in lend.partitions] == [tp()]
    assert not h.data_pending


@pytest.mark.parametrize(
    "settings",
    [{"share_acquire_mode": "record_limit"}, {"explicit_window_records": 10}],
    ids=["record_limit", "window"],
)
def test_nothing_is_lent_when_the_core_has_more_to_do_for_each_fetch(settings: dict[str, Any]) -> None:
    if "explicit_window_records" in settings:
        settings["share_acknowledgement_mode"] = "explicit"
    assert not lent(**settings).lends


def with_window(**settings: Any) -> Harness:
    window = {"share_acknowledgement_mode": "explicit", "explicit_window_records": 500}
    return Harness(lends=True, **{**window, **settings}).joined()


def test_an_open_window_is_lent_if_it_has_room_for_a_poll_when_nothing_is_in_it() -> None:
    for settings, is_lent in (
        ({}, True),
        ({"explicit_window_records": 499}, False),
        ({"explicit_window_records": 499, "max_poll_records": 499}, True),
        ({"explicit_window_bytes": 1 << 30}, False),
    ):
        h = with_window(**settings)
        h.answer(h.fetch(), fetch_answer(fetch_data(tp(), (0, 9, 1))))
        assert bool(h.lends) == is_lent, settings


def test_an_open_window_is_not_lent_after_an_answer_that_is_more_than_a_poll_returns() -> None:
    h = with_window(max_poll_records=9)
    h.answer(h.fetch(), fetch_answer(fetch_data(tp(), (0, 9, 1))))
    assert not h.lends


def test_an_open_window_is_not_lent_while_acknowledgements_wait_to_be_sent() -> None:
    """Those of records among others that are open, mostly: the next poll would be the core's."""
    h = with_window()
    h.answer(h.fetch(), fetch_answer(fetch_data(tp(), (0, 9, 1))))
    h.handle(returned(h.lends[-1], fetches=1))
    h.start_poll()
    fetch = h.fetch()
    h.handle(AcknowledgementsGathered((h.said((0, 9, 1)),), None))
    h.answer(fetch, fetch_answer(fetch_data(tp(), (10, 19, 1))))
    assert len(h.lends) == 1


def test_what_an_open_window_was_brought_directly_has_its_locks_looked_at_in_time() -> None:
    """Renewals wait behind fetches there, so a sixth of the lock's time has passed, not a third."""
    h = with_window()
    h.answer(h.fetch(), fetch_answer(fetch_data(tp(), (0, 9, 1)), lock_ms=6_000))
    h.handle(returned(h.lends[-1], fetches=1, at_ms=h.now_ms))
    h.advance(999)
    assert not h.gathers
    h.advance(1)
    assert h.gathers


def of_two_nodes(*answers: ShareFetchResponse) -> Harness:
    """A consumer that has asked two nodes, which have answered this."""
    h = Harness({tp(): 1, tp(1): 2}, lends=True).joined()
    for node_id, answer in enumerate(answers, 1):
        h.answer(h.fetch(node_id), answer)
    return h


FROM_FIRST, FROM_SECOND = (fetch_answer(fetch_data(tp(number), (0, 9, 1))) for number in (0, 1))


def test_of_two_nodes_each_is_lent_when_it_has_answered() -> None:
    """The other has a fetch in flight then; its records come by the core, and wake the poll."""
    h = of_two_nodes(FROM_FIRST)
    assert [lend.node.id for lend in h.lends] == [1]
    h.advance(20)
    h.answer(h.fetch(2), FROM_SECOND)
    assert [lend.node.id for lend in h.lends] == [1, 2]
    assert h.lends[0].ends_at_ms == h.lends[1].ends_at_ms
    h.advance(LENT_MS)
    assert h.recalls == [1, 2]


def test_all_are_recalled_when_a_node_has_brought_nothing_and_is_to_be_asked_again() -> None:
    """The thread that polls does not know it, and nobody else would ask it."""
    h = of_two_nodes(FROM_FIRST, fetch_answer())
    assert [lend.node.id for lend in h.lends] == [1]
    assert h.recalls == [1]


def test_nothing_is_lent_while_a_node_cannot_be_asked() -> None:
    h = Harness({tp(): 1, tp(1): 2}, lends=True).joined()
    h.fail(h.fetch(2), BrokerUnreachableError("gone"))
    h.answer(h.fetch(1), FROM_FIRST)
    assert not h.lends


def test_nothing_is_lent_again_before_all_that_was_recalled_has_come_back() -> None:
    h = of_two_nodes(FROM_FIRST, FROM_SECOND)
    first, second = h.lends
    h.start_poll()
    assert h.recalls == [1, 2]
    h.handle(returned(first, fetches=1, at_ms=h.now_ms))
    h.answer(h.fetch(1), fetch_answer(fetch_data(tp(), (10, 19, 1))))
    assert len(h.lends) == 2
    h.start_poll()
    h.handle(returned(second, fetches=1, at_ms=h.now_ms))
    h.answer(h.fetch(2), fetch_answer(fetch_data(tp(1), (10, 19, 1))))
    assert len(h.lends) == 3


def test_nothing_is_lent_when_nobody_waits_for_the_records() -> None:
    h = Harness(lends=True).joined(timeout_ms=10)
    h.advance(20)
    h.answer(h.fetch(), fetch_answer(fetch_data(tp(), (0, 9, 1))))
    assert not h.lends


def test_the_session_is_recalled_once_when_its_time_is_over() -> None:
    h = lent()
    h.advance(LENT_MS - 1)
    assert not h.recalls
    h.advance(LENT_MS)
    assert h.recalls == [1]


def test_the_loan_lasts_as_long_as_the_application_tells_of_progress_and_no_longer_than_ten_seconds() -> None:
    h = lent()
    began_at_ms = h.now_ms
    for after_ms in range(60, LONGEST_LOAN_MS, 60):
        h.advance(began_at_ms + after_ms - h.now_ms)
        h.handle(SessionUsed(h.lends[-1].lend_id, Tally(fetches=1), h.now_ms))
    assert not h.recalls
    h.advance(began_at_ms + LONGEST_LOAN_MS + LENT_MS - 1 - h.now_ms)
    h.handle(SessionUsed(h.lends[-1].lend_id, Tally(fetches=1), h.now_ms))
    h.advance(1)
    assert h.recalls == [1]


def test_progress_of_what_has_come_back_changes_nothing() -> None:
    h = lent()
    h.handle(returned(h.lends[-1]), SessionUsed(h.lends[-1].lend_id, Tally(fetches=9), h.now_ms))
    assert not h.recalls
    assert h.core.measurements.fetch_latency.count == 1


def test_the_core_goes_on_with_the_epoch_that_comes_back() -> None:
    h = lent()
    h.handle(returned(h.lends[-1], fetches=3, at_ms=h.now_ms))
    assert h.resumed[-1].send_id is None
    h.start_poll()
    assert h.fetch().request.share_session_epoch == 4


def test_what_comes_back_twice_changes_nothing_the_second_time() -> None:
    h = lent()
    event = returned(h.lends[-1], fetches=3)
    h.handle(event, event)
    assert len(h.resumed) == 1


def test_a_fetch_in_flight_is_the_cores_own_from_then_on() -> None:
    h = lent()
    said = numbered(h, 1)
    h.handle(returned(h.lends[-1], fetches=1, flight=Flight((said,), h.now_ms, 500)))
    h.start_poll()
    assert not h.data_pending, "one request at a time"
    send_id = h.resumed[-1].send_id
    assert send_id is not None
    h.handle(ResponseReceived(send_id, fetch_answer(fetch_data(tp(), (10, 19, 1)))))
    assert [o.error for o in h.outcomes] == [None]
    assert h.outcomes[-1].ended[0].number == 1
    assert h.delivered[-1].partitions[0].acquired[0].first == 10
    assert h.lends[-1].epoch == 3


def test_acknowledgements_that_were_sent_are_not_sent_again_when_they_are_posted_again() -> None:
    """An interrupt may strike between sending a fetch and noting that its acknowledgements have left."""
    h = lent()
    said = numbered(h, 1)
    h.handle(returned(h.lends[-1], flight=Flight((said,), h.now_ms, 500)), PollStarted(h.now_ms + 1_000, (said,)))
    send_id = h.resumed[-1].send_id
    assert send_id is not None
    h.handle(ResponseReceived(send_id, fetch_answer(fetch_data(tp()))))
    assert len(h.outcomes) == 1
    assert said_in(h.fetch().request) == {}


@pytest.mark.parametrize("sent", [[1], [2], [1, 2]], ids=["the first", "the second", "both"])
def test_of_two_nodes_what_was_not_sent_is_sent_whatever_its_number(sent: list[int]) -> None:
    """A poll is interrupted between its fetches to two nodes, and the next call posts what both were to carry."""
    h = of_two_nodes(FROM_FIRST, FROM_SECOND)
    loans = {lend.node.id: lend for lend in h.lends}
    made = [numbered(h, number, tp(2 - number)) for number in (1, 2)]  # the second node has the lower number
    flights = {one.node_id: Flight((one,), h.now_ms, 500) for one in made if one.number in sent}
    h.handle(*(returned(loan, flight=flights.get(node_id)) for node_id, loan in loans.items()))
    h.handle(PollStarted(h.now_ms + 1_000, tuple(made)))
    carried = [said_in(send.request) for send in h.data_pending if isinstance(send.request, ShareFetchRequest)]
    missing = [one for one in made if one.number not in sent]
    assert [said for said in carried if said] == [
        {(tp().topic_id, 2 - one.number): batches((0, 9, [1]))} for one in missing
    ]


def test_the_session_is_recalled_when_a_commit_wants_to_be_sent() -> None:
    h = lent()
    said = numbered(h, 1)
    h.handle(CommitRequested(1, (said,), h.now_ms + 1_000, wait=True))
    assert h.recalls == [1]
    assert not h.data_pending
    h.handle(returned(h.lends[-1]))
    assert said_in(h.only(ShareAcknowledgeRequest).request) == {(tp().topic_id, 0): batches((0, 9, [1]))}


def test_the_session_is_recalled_and_ended_when_the_consumer_closes() -> None:
    h = lent()
    h.handle(CloseRequested((), h.now_ms + 1_000))
    assert h.recalls == [1]
    h.handle(returned(h.lends[-1], fetches=2))
    assert h.only(ShareAcknowledgeRequest).request.share_session_epoch == -1


def test_the_session_is_recalled_when_a_poll_asks_the_core() -> None:
    h = lent()
    h.start_poll()
    assert h.recalls == [1]
    h.handle(returned(h.lends[-1]))
    assert len(h.sent_of(ShareFetchRequest)) == 2


def test_the_session_begins_anew_when_its_connection_broke_while_it_was_lent() -> None:
    h = lent()
    h.handle(ConnectionLost(1, Channel.DATA, BrokerUnreachableError("gone")), returned(h.lends[-1]))
    h.start_poll()
    assert h.fetch().request.share_session_epoch == 0
    assert h.delivered[-1].partitions[0].locks.has_ended


def test_what_was_done_meanwhile_is_counted() -> None:
    h = lent()
    measured = h.core.measurements
    before = measured.fetch_records.sum
    tally = Tally(
        requests=7,
        request_bytes=700,
        acknowledging=5,
        acknowledged=2_000,
        fetches=4,
        latency_ms=40,
        highest_latency_ms=20,
        records=2_000,
        record_bytes=200_000,
        commits=2,
        commit_latency_ms=60,
        highest_commit_latency_ms=50,
        response_bytes=210_000,
    )
    h.handle(SessionReturned(h.lends[-1].lend_id, 7, None, tally, h.now_ms))
    assert measured.fetch_records.sum == before + 2_000
    assert measured.fetch_latency.max(h.now_ms) == 20
    assert (measured.acknowledgements_sent.sum, measured.acknowledgements_sent.count) == (2_000, 5)
    traffic = measured.nodes[1]
    assert (traffic.requests.sum, traffic.requests.count) == (700, 7)
    assert (traffic.responses.sum, traffic.responses.count) == (210_000, 6)
    assert (traffic.latency.sum, traffic.latency.count, traffic.latency.max(h.now_ms)) == (100, 6, 50)


# ---- commits of the application's thread


def with_commit_in_flight(**settings: Any) -> Harness:
    """Acknowledgements that were sent directly are in flight, the session has come back, and a commit waits for 5 s."""
    h = lent(**settings)
    flight = Flight((numbered(h, 1),), h.now_ms, 0, is_fetch=False, retry_until_ms=h.now_ms + 5_000)
    h.handle(returned(h.lends[-1], flight=flight), CommitRequested(1, (), h.now_ms + 5_000, wait=True))
    return h


def test_acknowledgements_in_flight_are_the_cores_own_from_then_on() -> None:
    h = with_commit_in_flight()
    resumed = h.resumed[-1]
    assert (resumed.is_fetch, resumed.timeout_ms) == (False, h.config.request_timeout_ms)
    assert not h.commits
    h.handle(ResponseReceived(resumed.send_id or 0, acknowledge_answer((tp(), 0), lock_ms=9_000)))
    (outcome,) = h.outcomes
    assert (outcome.ended[0].number, outcome.error) == (1, None)
    assert (outcome.acquisition_lock_timeout_ms, outcome.sent_at_ms) == (9_000, h.now_ms)
    assert [(done.request_id, done.timed_out) for done in h.commits] == [(1, False)]
    h.start_poll()
    assert h.fetch().request.share_session_epoch == 2


def test_acknowledgements_that_were_in_flight_are_sent_again_after_a_passing_error() -> None:
    h = with_commit_in_flight()
    h.handle(ResponseReceived(h.resumed[-1].send_id or 0, acknowledge_answer((tp(), 14))))
    assert not h.outcomes
    h.advance(1_000)
    sent = h.acknowledge()
    assert said_in(sent.request) == {(tp().topic_id, 0): batches((0, 9, [1]))}
    h.answer(sent, acknowledge_answer((tp(), 0)))
    assert [outcome.error for outcome in h.outcomes] == [None]
    assert h.commits


def test_acknowledgements_that_were_in_flight_end_with_their_connection() -> None:
    h = with_commit_in_flight()
    h.handle(RequestFailed(h.resumed[-1].send_id or 0, BrokerUnreachableError("gone")))
    (outcome,) = h.outcomes
    assert isinstance(outcome.error, OutcomeUnknownError)
    assert h.commits


def test_what_was_sent_directly_is_taken_once_when_the_commit_names_it_again() -> None:
    """Of two nodes the first got its acknowledgements, and the second cannot: then the core is asked for all."""
    h = of_two_nodes(FROM_FIRST, FROM_SECOND)
    sent, queued = numbered(h, 1), numbered(h, 2, tp(1))
    flight = Flight((sent,), h.now_ms, 0, is_fetch=False, retry_until_ms=h.now_ms + 5_000)
    commit = CommitRequested(1, (sent, queued), h.now_ms + 5_000, wait=True)
    h.handle(returned(h.lends[0], flight=flight), returned(h.lends[1]), commit)
    h.handle(ResponseReceived(h.resumed[0].send_id or 0, acknowledge_answer((tp(), 0))))
    assert not h.commits
    h.answer(h.acknowledge(2), acknowledge_answer((tp(1), 0)))
    assert [outcome.ended[0].number for outcome in h.outcomes] == [1, 2]
    assert h.commits


def test_with_send_ahead_acknowledgements_in_flight_are_no_fetch_for_what_comes_next() -> None:
    h = with_commit_in_flight(send_ahead=True)
    h.handle(ResponseReceived(h.resumed[-1].send_id or 0, acknowledge_answer((tp(), 0))))
    assert h.fetch().request.share_session_epoch == 2


# ---- send_ahead


def test_with_send_ahead_the_application_sends_ahead_itself() -> None:
    """The session is lent instead of a fetch of the core's, and goes on as one when it comes back."""
    h = lent(send_ahead=True)
    (lend,) = h.lends
    assert not h.data_pending
    h.handle(returned(lend, fetches=1, flight=Flight((), h.now_ms, 500), at_ms=h.now_ms))
    assert not h.data_pending, "it was asked for what comes next"
    h.handle(ResponseReceived(h.resumed[-1].send_id or 0, fetch_answer(fetch_data(tp(), (10, 19, 1)))))
    assert len(h.delivered) == 2
    assert not h.data_pending, "one batch waits"


def test_with_send_ahead_the_core_sends_the_fetch_when_the_session_comes_back_while_the_application_works() -> None:
    h = lent(send_ahead=True)
    h.handle(returned(h.lends[-1], fetches=1, at_ms=h.now_ms))
    assert h.fetch().request.share_session_epoch == 2


def test_with_send_ahead_the_session_is_lent_again_when_work_begins_and_nothing_else_is_due() -> None:
    h = lent(send_ahead=True)
    h.start_poll(1_000)
    h.handle(returned(h.lends[-1], fetches=3, at_ms=h.now_ms))
    h.advance(1_500)
    h.answer(h.fetch(), fetch_answer(fetch_data(tp(), (10, 19, 1))))  # when no poll waits for it
    assert len(h.lends) == 1
    said = numbered(h, 1)
    h.handle(PollStarted(h.now_ms, (said,), wants_records=False), WorkBegun(h.delivered[-1].batch_id, has_more=False))
    assert [lend.epoch for lend in h.lends] == [1, 5]
    assert h.lends[-1].acknowledgements == (said,)


def with_fetch_ahead() -> Harness:
    """The core has sent a fetch ahead, which no poll has sent by itself."""
    h = lent(send_ahead=True)
    h.handle(returned(h.lends[-1], fetches=1, at_ms=h.now_ms))
    return h


def test_what_was_queued_goes_with_the_loan_and_comes_back_with_it_if_nobody_has_sent_it() -> None:
    """While a poll waits for what was sent ahead, its acknowledgements are queued; the answer lends the session."""
    h = with_fetch_ahead()
    said = numbered(h, 1)
    h.start_poll(1_000, said)
    h.answer(h.fetch(), fetch_answer(fetch_data(tp(), (10, 19, 1))))
    assert h.lends[-1].acknowledgements == (said,)
    h.handle(attrs.evolve(returned(h.lends[-1]), unsent=(said,)))
    assert said_in(h.fetch().request) == {(tp().topic_id, 0): batches((0, 9, [1]))}


@pytest.mark.parametrize("kind", [AcknowledgeType.RELEASE, AcknowledgeType.RENEW])
def test_nothing_is_lent_while_acknowledgements_wait_of_which_the_core_has_to_know_more(kind: AcknowledgeType) -> None:
    h = with_fetch_ahead()
    h.start_poll(1_000, h.said((0, 9, kind)))
    h.answer(h.fetch(), fetch_answer(fetch_data(tp(), (10, 19, 1))))
    assert len(h.lends) == 1


def test_nothing_is_lent_while_records_are_on_their_last_delivery() -> None:
    """Else nobody would hear that they were acknowledged in time."""
    h = Harness(lends=True).joined()
    h.answer(h.fetch(), fetch_answer(fetch_data(tp(), (0, 9, 5))))
    assert not h.lends


def test_with_send_ahead_nothing_is_lent_while_the_application_takes_too_long_for_a_batch() -> None:
    """Else what waits would lose too much of its lock."""
    h = Harness(lends=True, send_ahead=True).joined()
    h.answer(h.fetch(), fetch_answer(fetch_data(tp(), (0, 9, 1))))
    h.handle(returned(h.lends[-1], fetches=0))
    h.advance(25_000)
    h.start_poll(10_000)
    h.answer(h.fetch(), fetch_answer(fetch_data(tp(), (10, 19, 1))))
    assert len(h.lends) == 1


def test_with_send_ahead_nothing_is_lent_when_two_nodes_are_asked() -> None:
    """What is in flight to one of them would hold its acknowledgements up."""
    h = Harness({tp(): 1, tp(1): 2}, lends=True, send_ahead=True).joined()
    h.answer(h.fetch(1), FROM_FIRST)
    assert not h.lends


# ---- loans that nobody uses


def test_nothing_is_lent_for_a_while_when_a_loan_was_of_no_use() -> None:
    """An application that commits without waiting after each poll would have every session called back before it polls
    again."""
    h = lent()
    for number in range(SKIPPED + 1):
        assert len(h.lends) == 1
        h.handle(CommitRequested(number + 1, (numbered(h, number + 1),), h.now_ms + 1_000, wait=False))
        if number == 0:
            h.handle(returned(h.lends[-1]))
        h.answer(h.acknowledge(), acknowledge_answer((tp(), 0)))
        h.start_poll()
        h.answer(h.fetch(), fetch_answer(fetch_data(tp(), (0, 9, 1))))
    assert len(h.lends) == 2


@pytest.mark.parametrize("brought_records", [False, True], ids=["a commit", "a fetch"])
def test_loans_go_on_when_the_last_one_was_of_use(*, brought_records: bool) -> None:
    h = lent()
    h.handle(returned(h.lends[-1], fetches=1, at_ms=h.now_ms if brought_records else None))
    h.start_poll()
    h.answer(h.fetch(), fetch_answer(fetch_data(tp(), (10, 19, 1))))
    assert len(h.lends) == 2
