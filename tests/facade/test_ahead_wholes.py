"""send_ahead: the answers of polls that fetch by themselves are held as a whole, and what they carry ends once."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from facade.scripted_background import ScriptedBackground

from kafka_share import AcknowledgeType, KafkaShareConsumer, ShareRecord
from kafka_share.application.whole_answers import WholeAnswers
from kafka_share.core.events import PollStarted, SessionReturned, WorkBegun
from kafka_share.errors import IllegalStateError
from kafka_share.native import IS_COMPILED
from kafka_share.network.direct import DirectSession

pytestmark = pytest.mark.skipif(not IS_COMPILED, reason="answers are held as a whole in the compiled module only")

ACCEPT, REJECT = AcknowledgeType.ACCEPT, AcknowledgeType.REJECT
MODES = pytest.mark.parametrize("mode", ["implicit", "explicit"])
Place = tuple[int, int]
Mode = Literal["implicit", "explicit"]


def forbidden(_: WholeAnswers) -> None:
    raise AssertionError("the books are looked into")


def places_of(records: list[ShareRecord[Any, Any]]) -> list[Place]:
    return [(record.partition, record.offset) for record in records]


class Application:
    """A consumer that sends ahead, with a session that was lent, and the answer of its latest poll held as a whole."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, mode: Mode, *, batches: int = 9, polls: int = 3) -> None:
        monkeypatch.setattr("kafka_share.application.facade.ConsumerBackground", ScriptedBackground)
        self.is_explicit = mode == "explicit"
        self.consumer: KafkaShareConsumer[Any, Any] = KafkaShareConsumer(
            "t", bootstrap_servers="broker:9092", group_id="g", share_acknowledgement_mode=mode, send_ahead=True
        )
        background: Any = self.consumer._driver
        self.background: ScriptedBackground = background
        background.lends, background.has_gaps = True, False
        background.produce(batches)
        self.posted: list[object] = []
        post = background.post

        def overheard(event: Any, *, wake: bool = True) -> None:
            self.posted.append(event)
            post(event, wake=wake)

        monkeypatch.setattr(background, "post", overheard)
        self.outcomes: list[Place] = []
        self.consumer.set_acknowledgement_commit_callback(self._hear)
        self.records: list[ShareRecord[Any, Any]] = []
        for _ in range(polls):
            self.acknowledge()
            self.poll()
        self.posted.clear()

    def _hear(self, offsets: Any, error: Any) -> None:
        assert error is None
        self.outcomes += [(where.partition, offset) for where, those in offsets.items() for offset in sorted(those)]

    def poll(self, timeout_ms: int = 1_000) -> None:
        self.records = list(self.consumer.poll(timeout_ms))
        self.background.ledger.seen += places_of(self.records)

    def acknowledge(self, kind: AcknowledgeType = ACCEPT) -> None:
        for record in self.records if self.is_explicit else ():
            self.consumer.acknowledge(record, kind)

    def ended(self, places: list[Place]) -> list[int | None]:
        return [self.background.ledger.ended.get(place) for place in places]


@MODES
def test_a_poll_takes_what_was_fetched_and_sends_the_next_fetch_and_no_book_knows(
    mode: Mode, monkeypatch: pytest.MonkeyPatch
) -> None:
    application = Application(monkeypatch, mode)
    monkeypatch.setattr(WholeAnswers, "file", forbidden)
    for _ in range(4):
        before = places_of(application.records)
        application.acknowledge(REJECT)
        application.poll()
        assert len(application.records) == 8
        assert set(application.ended(before)) == {REJECT if application.is_explicit else ACCEPT}
        assert set(application.ended(places_of(application.records))) == {None}
    assert application.posted == [], "the core was asked"
    monkeypatch.undo()
    application.acknowledge()
    application.consumer.commit_sync()
    assert set(application.ended(places_of(application.records))) == {ACCEPT}
    application.consumer.close()


@MODES
def test_each_outcome_is_reported_once_also_of_what_the_books_had_sent(
    mode: Mode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first poll of a loan leaves its acknowledgements in the books; the answer comes to a poll that has none."""
    application = Application(monkeypatch, mode, polls=2)
    side = application.consumer._application
    assert side._deliveries.awaits_outcomes, "the fetch in flight carries what the books know"
    for _ in range(3):
        application.acknowledge()
        application.poll()
    assert side.wholes.all
    assert not side._deliveries.awaits_outcomes
    application.acknowledge()
    application.consumer.commit_sync()
    assert sorted(application.outcomes) == sorted(application.background.ledger.seen)
    application.consumer.close()


def test_a_record_without_acknowledgement_is_complained_of_and_nothing_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    application = Application(monkeypatch, "explicit")
    records = application.records
    for record in records[1:]:
        application.consumer.acknowledge(record)
    with pytest.raises(IllegalStateError, match=r"1 record of the last poll has not been acknowledged"):
        application.poll()
    assert set(application.ended(places_of(records))) == {None}
    application.consumer.acknowledge(records[0])
    application.poll()
    application.acknowledge()
    application.consumer.commit_sync()
    assert sorted(application.outcomes) == sorted(application.background.ledger.seen)
    application.consumer.close()


@pytest.mark.parametrize("reports", [True, False])
def test_what_was_polled_before_an_interrupted_poll_counts_as_accepted(
    reports: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The poll that waits has accepted it, though its acknowledgements are to leave with what it has not sent yet."""
    application = Application(monkeypatch, "implicit")
    before = places_of(application.records)

    if not reports:
        application.consumer.set_acknowledgement_commit_callback(None)

    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(application.background.mailbox, "wait_on" if reports else "hear", interrupted)
        with pytest.raises(KeyboardInterrupt):
            application.poll()
    assert set(application.ended(before)) == {None}
    application.consumer.close()
    assert set(application.ended(before)) == {ACCEPT}


def test_an_old_loan_ends_and_its_poll_is_the_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    application = Application(monkeypatch, "implicit")
    before = places_of(application.records)
    with monkeypatch.context() as patch:
        patch.setattr(DirectSession, "is_late", True)
        application.poll()
    assert len(application.records) == 8
    assert [type(event) for event in application.posted] == [SessionReturned, PollStarted, WorkBegun]
    assert set(application.ended(before)) == {ACCEPT}
    seen = application.background.ledger.seen
    assert len(set(seen)) == len(seen)
    application.consumer.commit_sync()
    application.consumer.close()


def test_a_poll_in_which_nothing_comes_gives_the_session_back(monkeypatch: pytest.MonkeyPatch) -> None:
    application = Application(monkeypatch, "implicit", batches=3)
    before = places_of(application.records)
    application.poll(0)
    assert application.records == []
    assert isinstance(application.posted[0], SessionReturned)
    assert set(application.ended(before)) == {ACCEPT}
    application.consumer.commit_sync()
    assert sorted(application.outcomes) == sorted(application.background.ledger.seen)
    application.consumer.close()
