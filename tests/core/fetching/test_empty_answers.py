"""How the core goes on after ShareFetch answers that bring nothing long before their time is over."""

from __future__ import annotations

from itertools import pairwise

import pytest
from core.scripted_cluster import Harness, fetch_answer, fetch_data, said_in, tp

from kafka_share.protocol.share_fetch import ShareFetchRequest


def fetch_times(h: Harness) -> list[int]:
    return [at_ms for at_ms, s in h.sent if isinstance(s.request, ShareFetchRequest)]


def answer_all_at_once(h: Harness, span_ms: int) -> None:
    """A broker that answers each fetch with nothing, in the millisecond in which it comes."""
    for _ in range(span_ms):
        for _ in range(20):
            for send in list(h.data_pending):
                h.answer(send, fetch_answer())
        h.advance(1)


@pytest.mark.parametrize("record_limit", [False, True])
def test_pauses_grow_when_a_broker_answers_every_fetch_with_nothing_at_once(record_limit: bool) -> None:
    """Fetches that a broker answers empty at once are repeated with growing pauses, never in a tight loop."""
    h = Harness(share_acquire_mode="record_limit" if record_limit else "batch_optimized").joined(timeout_ms=60_000)
    answer_all_at_once(h, 5_000)
    gaps = [b - a for a, b in pairwise(fetch_times(h))]
    assert gaps[:3] == [0, 0, 0], "the answer to the first fetch of a session and two more cost no pause"
    assert all(80 <= gap <= 120 for gap in gaps[3:4])
    assert all(160 <= gap <= 240 for gap in gaps[4:5])
    assert all(800 <= gap <= 1_200 for gap in gaps[7:])
    assert len(gaps) <= 12


def test_the_next_fetch_goes_at_once_when_few_answers_were_empty() -> None:
    """One or two early answers without records delay nothing: a healthy broker gives them, too."""
    h = Harness().joined(timeout_ms=60_000)
    for _ in range(3):
        h.answer(h.fetch(), fetch_answer())
    h.fetch()


@pytest.mark.parametrize("with_records", [False, True])
def test_pauses_begin_anew_when_an_answer_brought_records_or_took_its_time(with_records: bool) -> None:
    """After an answer that brought records, or that came when its wait was over, early answers are free again."""
    h = Harness().joined(timeout_ms=60_000)
    for _ in range(4):
        h.answer(h.fetch(), fetch_answer())
    assert not h.data_pending
    h.advance(130)
    send = h.fetch()
    if with_records:
        h.answer(send, fetch_answer(fetch_data(tp(), (0, 0, 1))))
        h.start_poll()
    else:
        h.advance(500)
        h.answer(send, fetch_answer())
    for _ in range(2):
        h.answer(h.fetch(), fetch_answer())
    h.fetch()


@pytest.mark.parametrize("by_commit", [False, True])
def test_an_acknowledgement_goes_at_once_when_fetches_pause(by_commit: bool) -> None:
    """What was acknowledged does not wait for the end of a pause between fetches."""
    h = Harness().joined(timeout_ms=60_000)
    h.delivering()
    h.start_poll(60_000)
    for _ in range(3):
        h.answer(h.fetch(), fetch_answer())
    assert not h.data_pending
    if by_commit:
        h.commit(1, h.said((0, 9, 1)))
    else:
        h.start_poll(60_000, h.said((0, 9, 1)))
    (send,) = h.data_pending
    assert said_in(send.request)
