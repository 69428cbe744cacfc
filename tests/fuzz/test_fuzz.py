"""A short run of the fuzz in every test run, and the promise that it sees what it looks for."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from fuzz import fuzz
from fuzz.admin_history import run_admin
from fuzz.batch_run import run_batches
from fuzz.broker_run import run_broker
from fuzz.broker_world import BrokerWorld
from fuzz.client_history import ClientHistory, run_client
from fuzz.lies import Effect, lasting_lies
from fuzz.mutations import Answer, Kind, first_message, mutated
from fuzz.proxy_run import run_proxy
from hypothesis import given, settings
from hypothesis import strategies as st
from simulation.trace import ComplaintError
from support.measuring import unmeasured

from kafka_share.application.decoding import PartitionDecoding
from kafka_share.broker import conversation
from kafka_share.broker.storage.topics import Topics
from kafka_share.core.admin import groups
from kafka_share.core.admin.machine import AdminCore
from kafka_share.core.fetching.acknowledgements import Acknowledgements
from kafka_share.core.membership import Membership
from kafka_share.core.metadata import Metadata
from kafka_share.core.metrics.telemetry import TelemetryPush
from kafka_share.core.outputs import Requests
from kafka_share.network.wire import Dialogue
from kafka_share.protocol.messages import encode_response
from kafka_share.protocol.share_group import ShareGroupHeartbeatResponse

SEEDS = 12
"""A look at whether it works: `tox run -e fuzz` plays hundreds."""
BATCH_SEEDS = 100
SEARCHED = 40
"""Seeds in which a planted defect has to show."""


@pytest.mark.timeout(120)  # a second's work for a processor that has nothing else to do
def test_clients_settle_every_record_when_answers_were_mutated_for_a_while() -> None:
    """Mutated answers cost no exception, no outcome and no record: all is settled once brokers are sane."""
    outcomes = [run_client(seed) for seed in range(SEEDS)]
    assert [(outcome.seed, outcome.complaint) for outcome in outcomes if outcome.complaint is not None] == []
    assert sum(outcome.mutations for outcome in outcomes) > SEEDS
    assert sum(outcome.excuse is not None for outcome in outcomes) < SEEDS // 3


def test_clients_push_metrics_in_the_fuzz() -> None:
    """What brokers ask of a push, its interval first of all, is mutated like everything else."""
    assert run_client(0).happened["pushes of metrics"] > 0


def test_a_consumer_that_pushes_its_metrics_without_end_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Brokers that throttle it do not help."""
    for name in ("_take", "_pushed", "_refused"):
        original = getattr(TelemetryPush, name)

        def at_once(self: TelemetryPush, told: Any, now_ms: int, original: Any = original) -> None:
            original(self, told, now_ms)
            self._due_at_ms = now_ms + 10

        monkeypatch.setattr(TelemetryPush, name, at_once)
    assert any("TELEMETRY" in (run_client(seed).complaint or "") for seed in range(8, SEARCHED, 2))


def test_admin_calls_end_in_time_and_succeed_when_answers_were_mutated_for_a_while() -> None:
    """Mutated answers cost no defect and no time beyond that of the call; with sane brokers every call succeeds."""
    outcomes = [run_admin(seed) for seed in range(SEEDS)]
    assert [(outcome.seed, outcome.complaint) for outcome in outcomes if outcome.complaint is not None] == []
    assert sum(outcome.mutations for outcome in outcomes) > SEEDS
    assert sum(outcome.excuse is not None for outcome in outcomes) < SEEDS // 3


def test_an_admin_operation_that_trips_over_an_unknown_name_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "parsed", lambda kind, name: kind(name))
    assert any("defect" in (run_admin(seed).complaint or "") for seed in range(SEARCHED))


def test_an_admin_call_that_outlives_its_time_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AdminCore, "_wake", lambda self, at_ms: None)
    assert any("in its time" in (run_admin(seed).complaint or "") for seed in range(SEARCHED))


def test_every_acquired_offset_is_somewhere_when_record_batches_are_damaged() -> None:
    """Damaged batches cost no exception: each acquired offset is in one of records, gaps and problems."""
    outcomes = [run_batches(seed) for seed in range(BATCH_SEEDS)]
    assert [(outcome.seed, outcome.complaint) for outcome in outcomes if outcome.complaint is not None] == []
    happened = sum((outcome.happened for outcome in outcomes), Counter[str]())
    assert min(happened["records"], happened["problem CorruptRecordError"], happened["batch: sealed again"]) > 20


def test_a_damaged_batch_that_costs_an_offset_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PartitionDecoding, "gaps", lambda self: self._gaps[1:])
    assert any(run_batches(seed).complaint is not None for seed in range(BATCH_SEEDS))


@pytest.mark.timeout(120)  # a second's work for a processor that has nothing else to do
def test_the_broker_goes_on_whatever_clients_send() -> None:
    """Requests with any values, damaged and random ones, before and after an authentication, cost others nothing."""
    outcomes = [run_broker(seed) for seed in range(SEEDS)]
    assert [(outcome.seed, outcome.complaint) for outcome in outcomes if outcome.complaint is not None] == []
    happened = sum((outcome.happened for outcome in outcomes), Counter[str]())
    assert min(happened["answers"], happened["connections that ended"]) > 10 * SEEDS
    assert all(happened[what] > SEEDS // 2 for what in ("login", "damaged", "cut", "random", "random frame"))


def frames() -> st.SearchStrategy[bytes]:
    """Bytes behind a length that is theirs."""
    return st.binary(max_size=200).map(lambda body: len(body).to_bytes(4, "big") + body)


@given(is_secured=st.booleans(), sent=st.lists(st.binary(max_size=200) | frames(), max_size=5))
@settings(max_examples=50, deadline=None)
def test_the_broker_goes_on_after_any_bytes(is_secured: bool, sent: list[bytes]) -> None:
    world = BrokerWorld(is_secured=is_secured)
    for data in sent:
        world.received(0, data)
    world.check()


def unchecked_headers(patch: pytest.MonkeyPatch) -> None:
    """A request that is too short for its header is not expected."""

    def header(frame: bytes) -> Any:
        return type("Header", (), {"api_key": frame[1], "api_version": frame[3], "correlation_id": frame[7]})()

    patch.setattr(conversation, "decode_request_header", header)


def unknown_topics(patch: pytest.MonkeyPatch) -> None:
    """A topic that does not exist is not expected."""
    patch.setattr(Topics, "by_name", lambda self, name: next(topic for topic in self if topic.name == name))


@pytest.mark.parametrize("plant", [unchecked_headers, unknown_topics])
def test_a_broker_that_trips_over_a_request_shows(plant: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    assert any(run_broker(seed).complaint is not None for seed in range(SEARCHED))


@pytest.mark.timeout(120)  # it waits until all is settled, however slow the machine is
def test_a_consumer_settles_every_record_when_a_proxy_has_mutated_its_answers() -> None:
    """The same over sockets: a consumer, a mutating proxy, the reference broker."""
    outcome = run_proxy(1)
    assert outcome.complaint is None, "\n".join([outcome.complaint, *outcome.lines])
    assert outcome.mutations > 0


def test_a_seed_is_the_same_history_again() -> None:
    first, second = run_client(5, trace=True), run_client(5, trace=True)
    assert first.lines == second.lines
    assert run_client(6, trace=True).lines != first.lines


# ---- what it sees


def no_second_join(patch: pytest.MonkeyPatch) -> None:
    """A member that is fenced never joins again."""
    original = Membership._step

    def step(self: Membership) -> None:
        if self.state.value != "fenced":
            original(self)

    patch.setattr(Membership, "_step", step)


def forgotten_failures(patch: pytest.MonkeyPatch) -> None:
    """Nobody hears of a request that failed."""
    patch.setattr(Requests, "failed", lambda self, send_id, error, now_ms: self._take(send_id))


def restless_metadata(patch: pytest.MonkeyPatch) -> None:
    """What is missing is asked for without a pause."""
    patch.setattr(Metadata, "_pace", lambda self, now_ms: setattr(self, "_ready_at_ms", now_ms + 20))


def trusting_dialogue(patch: pytest.MonkeyPatch) -> None:
    """Any answer is the answer to the oldest request. Answers come twice, and late: else it takes hundreds of seeds."""
    patch.setattr("fuzz.mutations.WEIGHTS", {Kind.TWICE: 1, Kind.OLD: 1})
    original = Dialogue._decode

    def decode(self: Dialogue, frame: Any) -> Any:
        if self._in_flight:
            frame = self._in_flight[0].correlation_id.to_bytes(4, "big") + bytes(frame[4:])
        return original(self, frame)

    patch.setattr(Dialogue, "_decode", decode)


def lost_outcomes(patch: pytest.MonkeyPatch) -> None:
    """Acknowledgements that cannot be sent any more get no outcome."""
    patch.setattr(Acknowledgements, "fail_queued", lambda self, node_id, verdict: None)


def foreign_topics(_: Kind, answer: Answer, *rest: Any) -> bytes:
    """In place of a mutation: every assignment names topics that nobody knows."""
    message: Any = answer.message()
    if answer.api_key == ShareGroupHeartbeatResponse.API_KEY and message.assignment is not None:
        for topic in message.assignment.topic_partitions:
            topic.topic_id = UUID(int=topic.topic_id.int ^ 1)
    return answer.with_message(message)


def run_with_foreign_topics(monkeypatch: pytest.MonkeyPatch) -> ClientHistory:
    monkeypatch.setattr("fuzz.fuzzed_network.mutated", foreign_topics)
    history = ClientHistory(3)
    history.network.probability, history.network.mutations_left = 1.0, 10**9
    history.run()
    return history


def test_a_lie_that_lasts_is_an_excuse(monkeypatch: pytest.MonkeyPatch) -> None:
    """An assignment of topics that nobody knows is not repeated: nothing is settled, and the client stays calm."""
    assert Effect.ASSIGNMENT.value in str(run_with_foreign_topics(monkeypatch).excuse)


def test_questions_without_end_are_no_excuse(monkeypatch: pytest.MonkeyPatch) -> None:
    restless_metadata(monkeypatch)
    with pytest.raises(ComplaintError, match="METADATA"):
        run_with_foreign_topics(monkeypatch)


@pytest.mark.one_python
@pytest.mark.timeout(120)  # forty histories at the most
@pytest.mark.parametrize(
    ("plant", "first_seed"),
    [(no_second_join, 10), (forgotten_failures, 2), (trusting_dialogue, 55), (lost_outcomes, 10)],
)
@unmeasured()
def test_a_planted_defect_shows(plant: Any, first_seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """`first_seed`: from where on a history shows it soon."""
    plant(monkeypatch)
    assert any(run_client(seed).complaint is not None for seed in range(first_seed, first_seed + SEARCHED))


def test_the_story_of_a_seed_that_fails_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    forgotten_failures(monkeypatch)
    assert fuzz.main(["client", "--seeds", "3", "--logs", str(tmp_path)]) == 1
    failed = [line for line in capsys.readouterr().out.splitlines() if line.startswith("FAILED")]
    assert failed
    logs = sorted(tmp_path.glob("client-*.log"))
    assert len(logs) == len(failed)
    assert all("COMPLAINT" in log.read_text("utf-8") for log in logs)


# ---- mutations and lies


@pytest.fixture
def heartbeat() -> Answer:
    assignment = ShareGroupHeartbeatResponse.Assignment(topic_partitions=[])
    message = ShareGroupHeartbeatResponse(
        throttle_time_ms=0,
        error_code=0,
        error_message=None,
        member_id="m",
        member_epoch=3,
        heartbeat_interval_ms=500,
        assignment=assignment,
    )
    return Answer(76, 1, 9, encode_response(9, message, 1))


def samples(kind: Kind, answer: Answer, older: list[Answer]) -> Iterator[bytes]:
    for seed in range(50):
        yield mutated(kind, answer, older, random.Random(seed))


def test_every_mutation_gives_other_bytes_than_the_answer_s(heartbeat: Answer) -> None:
    old = Answer(76, 1, 8, encode_response(8, heartbeat.message(), 1))
    for kind in Kind:
        different = [data for data in samples(kind, heartbeat, [old]) if data != heartbeat.frame]
        assert different or kind is Kind.REPEATED, kind
    assert all(first_message(data, heartbeat) is None for data in samples(Kind.ID, heartbeat, []))
    assert any(first_message(data, heartbeat) is not None for data in samples(Kind.FIELD, heartbeat, []))
    assert set(samples(Kind.REPEATED, heartbeat, [old])) == {heartbeat.frame}, "the same with the new id"


@pytest.mark.parametrize(
    ("field", "value", "effect", "until_ms"),
    [
        ("throttle_time_ms", 700, Effect.SILENCE, 1_700),
        ("throttle_time_ms", 2**31 - 1, Effect.SILENCE, 301_000),
        ("heartbeat_interval_ms", 9_000, Effect.INTERVAL, 10_000),
        ("assignment", None, Effect.ASSIGNMENT, 1 << 60),
        ("error_code", 42, Effect.REFUSAL, 1 << 60),
        ("member_epoch", 77, None, 0),
        ("throttle_time_ms", -5, None, 0),
    ],
)
def test_a_lie_lasts_when_the_next_answer_does_not_put_it_right(
    heartbeat: Answer, field: str, value: Any, effect: Effect | None, until_ms: int
) -> None:
    told = heartbeat.message()
    setattr(told, field, value)
    lies = list(lasting_lies(76, "c", 1, heartbeat.message(), told, 1_000))
    assert [(lie.effect, lie.until_ms) for lie in lies] == ([] if effect is None else [(effect, until_ms)])
