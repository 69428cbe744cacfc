"""Answers that are held as a whole: what an application does with them goes the ways that it went before."""

from __future__ import annotations

from typing import Any

import pytest
from facade.scripted_background import ScriptedBackground

from kafka_share import AcknowledgeType, KafkaShareConsumer, TopicPartition
from kafka_share.application.whole_answers import WholeAnswers
from kafka_share.core.events import CommitRequested
from kafka_share.errors import IllegalStateError
from kafka_share.native import IS_COMPILED

pytestmark = pytest.mark.skipif(not IS_COMPILED, reason="answers are held as a whole in the compiled module only")


class Application:
    """A consumer whose polls fetch by themselves, and which holds its second answer as a whole."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
        monkeypatch.setattr("kafka_share.application.facade.ConsumerBackground", ScriptedBackground)
        config: dict[str, Any] = {
            "bootstrap_servers": "broker:9092",
            "group_id": "g",
            "share_acknowledgement_mode": mode,
        }
        self.is_explicit = mode == "explicit"
        self.consumer: KafkaShareConsumer[Any, Any] = KafkaShareConsumer("t", **config)
        background: Any = self.consumer._driver
        self.background: ScriptedBackground = background
        background.lends, background.has_gaps = True, False
        background.produce(3)
        self.posted: list[object] = []
        post = background.post

        def overheard(event: Any, *, wake: bool = True) -> None:
            self.posted.append(event)
            post(event, wake=wake)

        monkeypatch.setattr(background, "post", overheard)
        self.records: list[Any] = []
        for _ in range(2):
            self.acknowledge(AcknowledgeType.ACCEPT)
            self.poll()
        assert self.consumer._application.wholes.all

    def poll(self) -> None:
        self.records = list(self.consumer.poll(1_000))
        self.background.ledger.seen += [(record.partition, record.offset) for record in self.records]

    def acknowledge(self, kind: AcknowledgeType) -> None:
        for record in self.records if self.is_explicit else ():
            self.consumer.acknowledge(record, kind)

    def ended(self) -> set[int]:
        return {self.background.ledger.ended[record.partition, record.offset] for record in self.records}


@pytest.mark.parametrize("mode", ["implicit", "explicit"])
def test_commit_sync_sends_by_itself(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    application = Application(monkeypatch, mode)
    application.acknowledge(AcknowledgeType.ACCEPT)
    assert list(application.consumer.commit_sync().values()) == [None, None]
    assert not [event for event in application.posted if isinstance(event, CommitRequested)]
    assert application.ended() == {AcknowledgeType.ACCEPT}
    application.consumer.close()


@pytest.mark.parametrize("mode", ["implicit", "explicit"])
def test_a_commit_makes_no_entry_in_the_books(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    application = Application(monkeypatch, mode)
    monkeypatch.setattr(WholeAnswers, "file", forbidden)
    places = {TopicPartition("t", record.partition) for record in application.records}
    for _ in range(3):
        application.acknowledge(AcknowledgeType.ACCEPT)
        assert {where.topic_partition for where in application.consumer.commit_sync()} == places
        assert not application.consumer._application.wholes.all
        application.background.produce(1)
        application.poll()
        assert application.records
    monkeypatch.undo()
    application.acknowledge(AcknowledgeType.ACCEPT)
    application.consumer.commit_sync()
    application.consumer.close()


def forbidden(_: WholeAnswers) -> None:
    raise AssertionError("the books are looked into")


def test_a_commit_has_its_outcome_when_others_have_looked_into_the_books_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    application = Application(monkeypatch, "explicit")
    heard: list[Any] = []
    application.consumer.set_acknowledgement_commit_callback(lambda offsets, error: heard.append((offsets, error)))
    side, mailbox = application.consumer._application, application.background.mailbox
    wait_on = mailbox.wait_on

    def is_looked_at(*arguments: Any, **options: Any) -> None:
        side.oldest_unacknowledged(0)
        wait_on(*arguments, **options)

    monkeypatch.setattr(mailbox, "wait_on", is_looked_at)
    application.acknowledge(AcknowledgeType.REJECT)
    assert list(application.consumer.commit_sync().values()) == [None, None]
    assert application.ended() == {AcknowledgeType.REJECT}
    assert [error for _, error in heard] == [None, None]
    assert not side.awaits_outcomes
    application.consumer.close()


def test_many_are_acknowledged_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    application = Application(monkeypatch, "explicit")
    others = application.records
    with monkeypatch.context() as patch:
        patch.setattr(WholeAnswers, "file", forbidden)
        application.consumer.acknowledge_all(application.records[1:], AcknowledgeType.REJECT)
        application.consumer.acknowledge_all(application.records[:1])
        application.poll()
    with pytest.raises(IllegalStateError, match=f"{others[0].offset}.* not in flight"):
        application.consumer.acknowledge_all([*application.records, *others], AcknowledgeType.RELEASE)
    application.consumer.commit_sync()
    assert application.ended() == {AcknowledgeType.RELEASE}
    assert application.background.ledger.ended[others[0].partition, others[0].offset] == AcknowledgeType.ACCEPT
    application.consumer.close()


def test_a_commit_demands_no_acknowledgement(monkeypatch: pytest.MonkeyPatch) -> None:
    application = Application(monkeypatch, "explicit")
    application.consumer.acknowledge(application.records[0])
    assert list(application.consumer.commit_sync().values()) == [None]
    for record in application.records[1:]:
        application.consumer.acknowledge(record)
    application.consumer.commit_sync()
    assert application.ended() == {AcknowledgeType.ACCEPT}
    application.consumer.close()


@pytest.mark.parametrize("kind", [AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT])
def test_the_next_poll_sends_what_was_acknowledged(kind: AcknowledgeType, monkeypatch: pytest.MonkeyPatch) -> None:
    application = Application(monkeypatch, "explicit")
    application.acknowledge(kind)
    before = application.records
    application.poll()
    assert application.records
    application.records, later = before, application.records
    assert application.ended() == {kind}
    application.records = later
    application.acknowledge(AcknowledgeType.ACCEPT)
    application.consumer.commit_sync()
    application.consumer.close()


def test_a_callback_hears_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    application = Application(monkeypatch, "implicit")
    heard: list[Any] = []
    application.consumer.set_acknowledgement_commit_callback(lambda offsets, error: heard.append((offsets, error)))
    places = {(record.partition, record.offset) for record in application.records}
    application.poll()
    assert [error for _, error in heard] == [None, None]
    assert {(where.partition, o) for offsets, _ in heard for where, these in offsets.items() for o in these} == places
    application.consumer.commit_sync()
    application.consumer.close()


def test_the_oldest_record_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    application = Application(monkeypatch, "explicit")
    oldest = application.consumer._application.oldest_unacknowledged(0)
    assert oldest is not None
    assert oldest.offset == application.records[0].offset
    application.acknowledge(AcknowledgeType.ACCEPT)
    application.poll()
    application.acknowledge(AcknowledgeType.ACCEPT)
    application.consumer.commit_sync()
    application.consumer.close()
