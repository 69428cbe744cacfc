"""An open window whose records are all acknowledged before the next poll: its answers are held as a whole."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from facade.scripted_background import ScriptedBackground

from kafka_share import AcknowledgeType, KafkaShareConsumer, ShareRecord
from kafka_share.application.whole_answers import NEXT_POLL_MS, WholeAnswers
from kafka_share.core.events import AcknowledgementsGathered, AcknowledgementsMade, Event, PollStarted
from kafka_share.core.fetching.waits import ANSWER_MS
from kafka_share.errors import IllegalStateError
from kafka_share.native import IS_COMPILED
from kafka_share.network.clock import clock_ms

pytestmark = pytest.mark.skipif(not IS_COMPILED, reason="answers are held as a whole in the compiled module only")

ACCEPT, REJECT, RENEW = AcknowledgeType.ACCEPT, AcknowledgeType.REJECT, AcknowledgeType.RENEW
PER_POLL = 8


class Application:
    """A consumer with an open window, lent sessions, and an answer that it holds as a whole."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **settings: Any) -> None:
        self.now_ms = clock_ms()
        monkeypatch.setattr("kafka_share.application.facade.ConsumerBackground", ScriptedBackground)
        monkeypatch.setattr("kafka_share.application.facade.clock_ms", lambda: self.now_ms)
        config: dict[str, Any] = {
            "bootstrap_servers": "broker:9092",
            "group_id": "g",
            "share_acknowledgement_mode": "explicit",
            "explicit_window_records": 1_000,
            **settings,
        }
        self.consumer: KafkaShareConsumer[Any, Any] = KafkaShareConsumer("t", **config)
        background: Any = self.consumer._driver
        self.background: ScriptedBackground = background
        background.lends, background.has_gaps = True, False
        self.posted: list[tuple[Event, bool]] = []
        post = background.post

        def overheard(event: Any, *, wake: bool = True) -> None:
            self.posted.append((event, wake))
            if not isinstance(event, AcknowledgementsMade):  # the core gathers later
                post(event, wake=wake)

        monkeypatch.setattr(background, "post", overheard)
        self.records: list[ShareRecord[Any, Any]] = []
        for _ in range(2):
            self.acknowledge()
            self.poll()
        self.posted.clear()

    @property
    def holds_whole(self) -> bool:
        answers = self.consumer._application.wholes.all
        return bool(answers) and not any(answer.is_filed for answer in answers)

    def poll(self, timeout_ms: int = 1_000) -> None:
        self.background.produce()
        self.records = list(self.consumer.poll(timeout_ms))
        assert len(self.records) == PER_POLL
        self.background.ledger.seen += [(record.partition, record.offset) for record in self.records]

    def acknowledge(self, kind: AcknowledgeType = ACCEPT) -> None:
        for record in self.records:
            self.consumer.acknowledge(record, kind)

    def ended(self, records: list[ShareRecord[Any, Any]]) -> list[int | None]:
        return [self.background.ledger.ended.get((record.partition, record.offset)) for record in records]

    def polls_of_the_core(self) -> int:
        return sum(isinstance(event, PollStarted) for event, _ in self.posted)

    def gather(self) -> AcknowledgementsGathered | None:
        """What the background thread does when it is time."""
        gathered: list[AcknowledgementsGathered] = []
        self.consumer._application.post_acknowledgements(gathered.append)
        for event in gathered:
            self.background.post(event)
        return gathered[0] if gathered else None

    def close(self) -> None:
        self.acknowledge_rest()
        self.consumer.commit_sync()
        self.consumer.close()

    def acknowledge_rest(self) -> None:
        for record in self.records:
            try:
                self.consumer.acknowledge(record)
            except IllegalStateError:
                pass


def test_no_poll_makes_entries_in_the_books_or_asks_the_core(monkeypatch: pytest.MonkeyPatch) -> None:
    application = Application(monkeypatch)
    assert application.holds_whole
    with monkeypatch.context() as patch:
        patch.setattr(WholeAnswers, "file", forbidden)
        for kind in (ACCEPT, REJECT, ACCEPT):
            before = application.records
            application.acknowledge(kind)
            application.poll()
            assert application.ended(before) == [kind] * PER_POLL
    assert application.polls_of_the_core() == 0
    application.close()


def forbidden(_: WholeAnswers) -> None:
    raise AssertionError("the books are looked into")


def test_many_at_once_make_none_either(monkeypatch: pytest.MonkeyPatch) -> None:
    application = Application(monkeypatch)
    before = application.records
    with monkeypatch.context() as patch:
        patch.setattr(WholeAnswers, "file", forbidden)
        application.consumer.acknowledge_all(before[:3], REJECT)
        application.consumer.acknowledge_all(before[3:])
        application.poll()
    assert application.ended(before) == [REJECT] * 3 + [ACCEPT] * (PER_POLL - 3)
    application.close()


def test_the_core_is_told_once_and_not_woken_while_the_session_is_lent(monkeypatch: pytest.MonkeyPatch) -> None:
    """It looks when the loan has ended, at the latest."""
    application = Application(monkeypatch)
    application.acknowledge()
    application.poll()
    application.acknowledge()
    told = [wake for event, wake in application.posted if isinstance(event, AcknowledgementsMade)]
    assert told == []  # since the first acknowledgement of all
    assert application.gather() is not None
    application.close()


def test_it_is_woken_when_somebody_waits_for_the_outcome(monkeypatch: pytest.MonkeyPatch) -> None:
    application = Application(monkeypatch)
    future = application.consumer.acknowledge_with_result(application.records[0], REJECT)
    assert (AcknowledgementsMade(), True) in application.posted
    application.gather()
    assert future.result(0) is None
    assert application.ended(application.records[:1]) == [REJECT]
    application.close()


def test_what_is_open_when_a_poll_begins_stays_with_the_application(monkeypatch: pytest.MonkeyPatch) -> None:
    application = Application(monkeypatch)
    first, *rest = application.records
    for record in rest:
        application.consumer.acknowledge(record)
    application.poll()
    assert not application.holds_whole
    assert application.ended(rest) == [ACCEPT] * len(rest)
    assert application.ended([first]) == [None]
    application.consumer.acknowledge(first, REJECT)
    application.acknowledge()
    application.poll()
    assert application.ended([first]) == [REJECT]
    application.close()


def test_acknowledgements_leave_without_a_poll_when_none_has_come(monkeypatch: pytest.MonkeyPatch) -> None:
    application = Application(monkeypatch)
    application.acknowledge()
    waits = application.gather()
    assert waits is not None
    assert waits.acknowledgements == ()
    assert waits.again_at_ms is not None
    assert application.ended(application.records) == [None] * PER_POLL
    application.now_ms += NEXT_POLL_MS
    application.gather()
    assert application.ended(application.records) == [ACCEPT] * PER_POLL
    application.close()


def test_an_acknowledgement_is_final(monkeypatch: pytest.MonkeyPatch) -> None:
    application = Application(monkeypatch)
    first, second = application.records[:2]
    application.consumer.acknowledge(first)
    application.consumer.acknowledge_all([second], REJECT)
    for record in (first, second):
        with pytest.raises(IllegalStateError, match="not in flight"):
            application.consumer.acknowledge(record, REJECT)
        with pytest.raises(IllegalStateError, match="not in flight"):
            application.consumer.acknowledge_all([record])
    application.close()
    assert application.ended([first, second]) == [ACCEPT, REJECT]


def test_a_renewal_is_not_and_goes_through_the_books(monkeypatch: pytest.MonkeyPatch) -> None:
    application = Application(monkeypatch)
    first = application.records[0]
    application.consumer.acknowledge(first, RENEW)
    application.acknowledge()
    application.poll()
    assert application.ended([first]) == [ACCEPT]
    application.close()


def test_any_thread_acknowledges(monkeypatch: pytest.MonkeyPatch) -> None:
    application = Application(monkeypatch)
    before = application.records
    threads = [threading.Thread(target=application.consumer.acknowledge, args=(record, REJECT)) for record in before]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    application.poll()
    assert application.ended(before) == [REJECT] * PER_POLL
    application.close()


def test_what_is_open_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    application = Application(monkeypatch)
    counted = application.background.measurements.window_records
    assert counted() == PER_POLL
    application.consumer.acknowledge(application.records[0])
    application.consumer.acknowledge(application.records[1], RENEW)
    assert counted() == PER_POLL - 1
    application.acknowledge_rest()
    assert counted() == 0
    application.close()


@pytest.mark.parametrize(
    "settings",
    [{"max_poll_records": PER_POLL - 1}, {"explicit_window_records": 499}, {"explicit_window_bytes": 1 << 30}],
    ids=["a poll brings more than it may", "the window is smaller than a poll", "bytes are counted"],
)
def test_other_windows_are_the_core_s(settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    application = Application(monkeypatch, **{"fetch_max_bytes": 1 << 20, **settings} if settings else {})
    assert not application.holds_whole
    application.acknowledge()
    application.consumer.commit_sync()
    application.consumer.close()


def test_a_poll_without_time_is_the_core_s(monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer would come after its end, and nobody would hold the records while their locks run."""
    application = Application(monkeypatch)
    application.acknowledge()
    application.consumer.poll(ANSWER_MS)
    assert application.polls_of_the_core() == 1
    application.close()


def test_a_callback_hears_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    application = Application(monkeypatch)
    heard: list[Any] = []
    application.consumer.set_acknowledgement_commit_callback(lambda offsets, error: heard.append((offsets, error)))
    places = {(record.partition, record.offset) for record in application.records}
    application.acknowledge()
    application.poll()
    assert application.polls_of_the_core() == 0
    assert [error for _, error in heard] == [None, None]
    assert {(where.partition, o) for offsets, _ in heard for where, these in offsets.items() for o in these} == places
    application.close()


def test_outcomes_that_were_not_heard_of_take_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """So the core is asked, for what there is room for."""
    application = Application(monkeypatch)
    monkeypatch.setattr(application.consumer._application._deliveries, "behind", lambda: 1)
    application.acknowledge()
    application.poll()
    assert application.polls_of_the_core() == 1
    application.close()
