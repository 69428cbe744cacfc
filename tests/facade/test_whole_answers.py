"""Answers that are held as a whole: what an application does with them goes the ways that it went before."""

from __future__ import annotations

from typing import Any

import pytest
from facade.scripted_background import ScriptedBackground

from kafka_share import AcknowledgeType, KafkaShareConsumer
from kafka_share.core.events import CommitRequested
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
