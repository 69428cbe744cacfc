"""The dialogue of one connection, without a socket, a thread or a clock: values in, values out."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_share.config import ClientConfig
from kafka_share.core.events import Channel, ConnectionLost, RequestFailed, ResponseReceived, Resume, Send
from kafka_share.core.metrics.measurements import Measurements
from kafka_share.errors import (
    AuthenticationError,
    BrokerError,
    BrokerUnreachableError,
    KafkaShareError,
    RemoteProtocolError,
    UnsupportedVersionError,
)
from kafka_share.network import wire
from kafka_share.network.handshake import MAX_ROUNDS, Challenge, Token
from kafka_share.network.wire import Close, Dialogue, Opened, Phase, Served, WireOutput, Write
from kafka_share.protocol.api_message import ApiMessage
from kafka_share.protocol.cluster import MetadataRequest, MetadataResponse
from kafka_share.protocol.handshake import ApiVersionsResponse, SaslAuthenticateResponse, SaslHandshakeResponse
from kafka_share.protocol.messages import decode_request, encode_response
from kafka_share.protocol.share_acknowledge import ShareAcknowledgeResponse
from kafka_share.protocol.share_fetch import ShareFetchRequest, ShareFetchResponse
from kafka_share.records import Node

NODE = Node(1, "broker.example", 9092)
RANGES = {3: (0, 12), 17: (0, 1), 18: (0, 4), 36: (0, 2)}
"""Metadata, SaslHandshake, ApiVersions, SaslAuthenticate."""
SETUP_MS = 10_000
IDLE_MS = 540_000
REQUEST_MS = 30_000


def versions(ranges: dict[int, tuple[int, int]] = RANGES, error_code: int = 0) -> Any:
    keys = [
        ApiVersionsResponse.ApiVersion(api_key=key, min_version=low, max_version=high)
        for key, (low, high) in ranges.items()
    ]
    return ApiVersionsResponse(error_code=error_code, api_keys=keys)


def metadata(cluster_id: str = "a cluster") -> Any:
    return MetadataResponse(cluster_id=cluster_id, brokers=[], topics=[], controller_id=1)


def mechanisms(error_code: int = 0, *names: str) -> Any:
    return SaslHandshakeResponse(error_code=error_code, mechanisms=list(names))


def authenticated(error_code: int = 0, message: str | None = None, data: bytes = b"", lifetime_ms: int = 0) -> Any:
    return SaslAuthenticateResponse(
        error_code=error_code, error_message=message, auth_bytes=data, session_lifetime_ms=lifetime_ms
    )


class Talk:
    """A dialogue with the broker's half in the hands of the test; `now_ms` is moved by hand."""

    def __init__(self, *, sasl: bool = False, tls: bool = False, channel: Channel = Channel.DATA) -> None:
        protocol = ("SASL_" if sasl else "") + ("SSL" if tls else "PLAINTEXT")
        settings = ClientConfig(
            bootstrap_servers="unused:9092",
            client_id="tester",
            security_protocol=protocol,
            sasl_mechanism="PLAIN" if sasl else None,
            sasl_plain_username="user" if sasl else None,
            sasl_plain_password="password" if sasl else None,
            socket_connection_setup_timeout_ms=SETUP_MS,
            connections_max_idle_ms=IDLE_MS,
        )
        self.now_ms = 1_000
        self.measurements = Measurements()
        self.dialogue = Dialogue(NODE, channel, settings, self.measurements, self.now_ms)
        self.unanswered: list[Write] = []
        self.last_send_id = 0
        self.served = 0
        """How often the dialogue has said that the peer serves us."""

    def poll(self) -> list[WireOutput]:
        """All that it wants now, as a shell would perform it."""
        found: list[WireOutput] = []
        while outputs := self.dialogue.poll(self.now_ms):
            found += outputs
        self.dialogue.check()
        self.unanswered += [output for output in found if isinstance(output, Write)]
        self.served += sum(isinstance(output, Served) for output in found)
        if any(isinstance(output, Close) for output in found):
            self.unanswered.clear()
        return [output for output in found if not isinstance(output, Served)]

    def connect(self) -> list[WireOutput]:
        self.dialogue.connected(self.now_ms)
        return self.poll()

    def ask(self, send_id: int | None = None, timeout_ms: int = REQUEST_MS, min_version: int = 0) -> list[WireOutput]:
        self.last_send_id = send_id = send_id or self.last_send_id + 1
        send = Send(send_id, NODE, Channel.DATA, MetadataRequest(topics=[]), timeout_ms, min_version)
        self.dialogue.send(send, self.now_ms)
        return self.poll()

    def answer(self, response: Any, version: int | None = None) -> list[WireOutput]:
        """The broker answers the oldest request."""
        asked = self.unanswered.pop(0)
        frame = encode_response(asked.correlation_id, response, asked.version if version is None else version)
        return self.receive(frame[4:])

    def receive(self, frame: bytes) -> list[WireOutput]:
        self.dialogue.received(frame, self.now_ms)
        return self.poll()

    def prove(self, token: Token) -> list[WireOutput]:
        self.dialogue.answered_challenge(token, self.now_ms)
        return self.poll()

    def lose(self, cause: Exception | None = None, *, is_mid_frame: bool = False) -> list[WireOutput]:
        self.dialogue.lost(cause, self.now_ms, is_mid_frame=is_mid_frame)
        return self.poll()

    def sleep_until_woken(self) -> list[WireOutput]:
        """Nothing happens until the time that the dialogue has named."""
        wake_at_ms = self.dialogue.wake_at_ms()
        assert wake_at_ms is not None
        assert wake_at_ms > self.now_ms, "it asks to be woken at once"
        self.now_ms = wake_at_ms - 1
        assert self.poll() == []
        self.now_ms += 1
        return self.poll()

    def log_in(self, lifetime_ms: int = 0) -> list[WireOutput]:
        """The whole authentication with PLAIN, as the broker and the mechanism like it."""
        self.answer(mechanisms(0, "PLAIN"))
        self.prove(Token(b"secret"))
        self.answer(authenticated(lifetime_ms=lifetime_ms))
        return self.prove(Token(None, is_authenticated=True))


def error_of(outputs: list[WireOutput]) -> KafkaShareError:
    (close,) = (output for output in outputs if isinstance(output, Close))
    return close.error


def names(outputs: list[WireOutput]) -> list[str]:
    return [type(output).__name__ for output in outputs]


def answered(outputs: list[WireOutput]) -> tuple[int, str]:
    (output,) = outputs
    assert isinstance(output, ResponseReceived)
    return output.send_id, output.response.cluster_id


# ---- each phase


@attrs.frozen
class Stage:
    """How to get a dialogue into a phase, with one request of the test waiting or in flight, and the way out of it."""

    reach: Callable[[], Talk]
    phase: Phase
    has_opened: bool = False


def connecting(channel: Channel = Channel.DATA) -> Talk:
    talk = Talk(channel=channel)
    talk.ask()
    return talk


def in_tls() -> Talk:
    talk = Talk(tls=True)
    talk.ask()
    talk.dialogue.dialled()
    return talk


def asking_for_versions(channel: Channel = Channel.DATA) -> Talk:
    talk = connecting(channel)
    talk.connect()
    return talk


def choosing_the_mechanism() -> Talk:
    talk = Talk(sasl=True)
    talk.ask()
    talk.connect()
    talk.answer(versions())
    return talk


def in_the_mechanism() -> Talk:
    talk = choosing_the_mechanism()
    assert talk.answer(mechanisms(0, "PLAIN")) == [Challenge(None)]
    return talk


def showing_a_token() -> Talk:
    talk = in_the_mechanism()
    talk.prove(Token(b"secret"))
    return talk


def opened(channel: Channel = Channel.DATA) -> Talk:
    talk = asking_for_versions(channel)
    talk.answer(versions())
    return talk


def draining() -> Talk:
    talk = choosing_the_mechanism()
    talk.log_in(lifetime_ms=20_000)
    talk.sleep_until_woken()
    return talk


def authenticating_again() -> Talk:
    talk = draining()
    talk.answer(metadata())
    talk.ask()
    return talk


STAGES = {
    "connecting": Stage(connecting, Phase.CONNECTING),
    "TLS": Stage(in_tls, Phase.TLS),
    "versions": Stage(asking_for_versions, Phase.VERSIONS),
    "mechanism name": Stage(choosing_the_mechanism, Phase.SASL),
    "mechanism": Stage(in_the_mechanism, Phase.SASL),
    "token": Stage(showing_a_token, Phase.SASL),
    "open": Stage(opened, Phase.OPEN, has_opened=True),
    "draining": Stage(draining, Phase.DRAINING, has_opened=True),
    "authenticating again": Stage(authenticating_again, Phase.SASL, has_opened=True),
}

every_stage = pytest.mark.parametrize("stage", STAGES.values(), ids=STAGES)
asking_stages = pytest.mark.parametrize(
    "stage", [stage for name, stage in STAGES.items() if name not in ("connecting", "TLS", "mechanism")]
)


def expect_end(talk: Talk, stage: Stage, outputs: list[WireOutput]) -> KafkaShareError:
    """Closed, the one request has failed for the same reason, the loss is reported if it ever was open."""
    error = error_of(outputs)
    expected: list[WireOutput] = [Close(error, is_failure=True), RequestFailed(talk.last_send_id, error)]
    if stage.has_opened:
        expected.append(ConnectionLost(NODE.id, Channel.DATA, error))
    assert outputs == expected
    assert talk.dialogue.is_closed
    assert talk.dialogue.wake_at_ms() is None
    assert talk.measurements.unsent_count == 0
    assert talk.measurements.connection_count == 0
    return error


@every_stage
def test_everything_fails_once_when_the_connection_is_lost(stage: Stage) -> None:
    """In every phase: one close, one failure of each request, and a loss of what was a connection."""
    talk = stage.reach()
    assert talk.dialogue._phase is stage.phase
    assert isinstance(expect_end(talk, stage, talk.lose(ConnectionResetError("reset"))), BrokerUnreachableError)
    assert talk.lose() == []


@every_stage
def test_nothing_happens_any_more_when_it_is_closed(stage: Stage) -> None:
    """What comes after the end, late answers of the mechanism too, changes nothing."""
    talk = stage.reach()
    talk.dialogue.close(BrokerUnreachableError("asked for"), talk.now_ms, report_loss=False)
    assert "ConnectionLost" not in names(talk.poll())
    talk.dialogue.dialled()
    assert talk.connect() == []
    assert talk.prove(Token(b"late")) == []
    assert talk.receive(b"\0\0\0\1") == []
    talk.dialogue.close(BrokerUnreachableError("again"), talk.now_ms)
    talk.now_ms += 10 * IDLE_MS
    assert talk.poll() == []


@every_stage
def test_it_closes_when_the_time_is_up(stage: Stage) -> None:
    """In every phase `wake_at_ms` names a time at which a silent peer is given up."""
    talk = stage.reach()
    outputs: list[WireOutput] = []
    while not talk.dialogue.is_closed:
        outputs += talk.sleep_until_woken()
    assert isinstance(expect_end(talk, stage, outputs), BrokerUnreachableError)


@asking_stages
def test_it_closes_when_the_answer_has_another_number(stage: Stage) -> None:
    talk = stage.reach()
    frame = encode_response(999, metadata(), 12)[4:]
    error = expect_end(talk, stage, talk.receive(frame))
    assert isinstance(error, RemoteProtocolError)
    assert "answered request 999" in str(error)


@asking_stages
@pytest.mark.parametrize("body", [b"", b"\xff" * 3, b"\xff" * 40, b"\x7f" * 40], ids=["empty", "short", "ff", "7f"])
def test_it_closes_when_the_answer_makes_no_sense(stage: Stage, body: bytes) -> None:
    talk = stage.reach()
    number = talk.unanswered[0].correlation_id.to_bytes(4, "big")
    assert isinstance(expect_end(talk, stage, talk.receive(number + body)), RemoteProtocolError | BrokerError)


@pytest.mark.parametrize("name", ["connecting", "TLS", "mechanism"])
def test_it_closes_when_an_answer_comes_that_nobody_asked_for(name: str) -> None:
    talk = STAGES[name].reach()
    error = expect_end(talk, STAGES[name], talk.receive(b"\0\0\0\1" + bytes(10)))
    assert "nobody asked for" in str(error)


@every_stage
@given(source=st.randoms(use_true_random=False), frame=st.binary(min_size=4, max_size=200))
def test_no_frame_breaks_it_whatever_it_says(stage: Stage, source: random.Random, frame: bytes) -> None:
    """Any bytes end in an answer or in one orderly close."""
    talk = stage.reach()
    if talk.unanswered and source.random() < 0.8:
        frame = talk.unanswered[0].correlation_id.to_bytes(4, "big") + frame[4:]
    outputs = talk.receive(frame)
    closes = names(outputs).count("Close")
    assert closes == talk.dialogue.is_closed
    if closes:
        expect_end(talk, stage, outputs)


# ---- versions


def test_requests_wait_until_the_versions_are_known() -> None:
    """ApiVersions is asked in the newest version; then all that waited leaves, in its order, in the common version."""
    talk = Talk()
    assert talk.ask(1) == []
    assert talk.ask(2) == []
    (asked,) = talk.connect()
    assert isinstance(asked, Write)
    assert (asked.api_name, asked.version) == ("ApiVersionsRequest", 4)
    assert decode_request(asked.data[4:])[0].client_id == "tester"
    outputs = talk.answer(versions({3: (0, 9), 18: (0, 4)}))
    assert names(outputs) == ["Opened", "Write", "Write"]
    assert [output.version for output in outputs if isinstance(output, Write)] == [9, 9]
    assert names(talk.ask(3)) == ["Write"]
    assert [names(talk.answer(metadata())) for _ in range(3)] == [["ResponseReceived"]] * 3


@pytest.mark.parametrize(("offered", "second"), [({18: (0, 2)}, 2), ({}, 0), ({18: (0, 9)}, 3)])
def test_versions_are_asked_for_again_when_the_broker_refuses_our_version(
    offered: dict[int, tuple[int, int]], second: int
) -> None:
    """The second version is the highest that the broker names, or 0 without a name; never the same again."""
    talk = asking_for_versions()
    (again,) = talk.answer(versions(offered, error_code=35), version=0)
    assert isinstance(again, Write)
    assert again.version == second
    assert names(talk.answer(versions())) == ["Opened", "Write"]


@pytest.mark.parametrize(("code", "kind"), [(35, UnsupportedVersionError), (42, BrokerError)])
def test_it_closes_when_the_broker_refuses_to_tell_its_versions(code: int, kind: type[KafkaShareError]) -> None:
    talk = asking_for_versions()
    outputs: list[WireOutput] = []
    while not talk.dialogue.is_closed:
        outputs = talk.answer(versions({}, error_code=code), version=0 if code == 35 else None)
    assert isinstance(expect_end(talk, STAGES["versions"], outputs), kind)


def test_only_the_request_fails_when_the_broker_does_not_speak_its_version() -> None:
    talk = opened()
    (failed,) = talk.ask(2, min_version=13)
    assert isinstance(failed, RequestFailed)
    assert isinstance(failed.error, UnsupportedVersionError)
    assert names(talk.answer(metadata())) == ["ResponseReceived"]
    assert names(talk.ask(3)) == ["Write"]


def test_only_the_request_fails_when_it_cannot_be_encoded() -> None:
    talk = opened()
    broken = MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name="t" * 40_000)])
    talk.dialogue._versions = {3: (0, 8)}  # where a name has two bytes for its length
    talk.dialogue.send(Send(2, NODE, Channel.DATA, broken, REQUEST_MS), talk.now_ms)
    (failed,) = talk.poll()
    assert isinstance(failed, RequestFailed)
    assert names(talk.answer(metadata())) == ["ResponseReceived"]


# ---- SASL


def test_requests_leave_when_the_broker_believes_us() -> None:
    talk = choosing_the_mechanism()
    assert [(write.api_name, write.version) for write in talk.unanswered] == [("SaslHandshakeRequest", 1)]
    assert talk.answer(mechanisms(0, "PLAIN")) == [Challenge(None)]
    (shown,) = talk.prove(Token(b"secret"))
    assert isinstance(shown, Write)
    request: Any = decode_request(shown.data[4:])[1]
    assert bytes(request.auth_bytes) == b"secret"
    talk.now_ms += 70
    assert talk.answer(authenticated(data=b"the proof")) == [Challenge(b"the proof")]
    assert names(talk.prove(Token(None, is_authenticated=True))) == ["Opened", "Write"]
    measured = talk.measurements
    assert (measured.authentications.count, measured.authentications.sum, measured.connection_count) == (1, 70, 1)


def test_all_tokens_of_a_mechanism_are_exchanged_when_it_has_several() -> None:
    talk = in_the_mechanism()
    for i in range(MAX_ROUNDS - 1):
        assert names(talk.prove(Token(b"ours"))) == ["Write"]
        assert talk.answer(authenticated(data=b"%d" % i)) == [Challenge(b"%d" % i)]
    talk.prove(Token(b"the last"))
    talk.answer(authenticated())
    assert names(talk.prove(Token(None, is_authenticated=True))) == ["Opened", "Write"]


@pytest.mark.parametrize("last", [Token(b"and on"), Token(None, is_authenticated=False)])
def test_the_broker_is_refused_when_the_exchange_does_not_come_to_a_good_end(last: Token) -> None:
    talk = in_the_mechanism()
    outputs = talk.prove(Token(b"ours"))
    while not talk.dialogue.is_closed:
        talk.answer(authenticated(data=b"go on"))
        outputs = talk.prove(last)
    error = expect_end(talk, STAGES["token"], outputs)
    assert isinstance(error, AuthenticationError)
    assert "did not come to its end" in str(error)


@pytest.mark.parametrize(
    ("code", "words"), [(33, "it offers: SCRAM-SHA-256"), (34, "does not use SASL"), (42, "INVALID_REQUEST")]
)
def test_the_reason_is_clear_when_the_broker_refuses_the_mechanism(code: int, words: str) -> None:
    talk = choosing_the_mechanism()
    error = expect_end(talk, STAGES["mechanism name"], talk.answer(mechanisms(code, "SCRAM-SHA-256")))
    assert isinstance(error, AuthenticationError)
    assert words in str(error)


@pytest.mark.parametrize(("message", "words"), [("no such user", "no such user"), (None, "SASL_AUTHENTICATION_FAILED")])
def test_the_broker_s_words_are_given_when_it_refuses_the_token(message: str | None, words: str) -> None:
    talk = showing_a_token()
    error = expect_end(talk, STAGES["token"], talk.answer(authenticated(58, message)))
    assert isinstance(error, AuthenticationError)
    assert words in str(error)
    assert talk.measurements.failed_authentications.count == 1


@pytest.mark.parametrize("ranges", [{3: (0, 12), 18: (0, 4)}, {3: (0, 12), 17: (0, 0), 18: (0, 4)}])
def test_it_closes_when_the_broker_does_not_know_sasl(ranges: dict[int, tuple[int, int]]) -> None:
    talk = Talk(sasl=True)
    talk.ask()
    talk.connect()
    error = expect_end(talk, STAGES["mechanism name"], talk.answer(versions(ranges)))
    assert isinstance(error, UnsupportedVersionError)


def test_authentication_waits_for_the_answers_when_the_session_s_time_is_over() -> None:
    """At 85 % of its lifetime: new requests wait, old ones are answered, then the mechanism begins anew."""
    talk = choosing_the_mechanism()
    talk.log_in(lifetime_ms=20_000)
    before_ms = talk.now_ms
    assert talk.sleep_until_woken() == []
    assert talk.now_ms - before_ms == 17_000
    assert talk.ask(2) == []
    outputs = talk.answer(metadata())
    assert names(outputs) == ["ResponseReceived", "Write"]
    assert [write.api_name for write in talk.unanswered] == ["SaslHandshakeRequest"]
    outputs = talk.log_in()
    assert [output.api_name for output in outputs if isinstance(output, Write)] == ["MetadataRequest"]
    assert "Opened" not in names(outputs)
    assert answered(talk.answer(metadata("ours"))) == (2, "ours")
    measured = talk.measurements
    assert (measured.authentications.count, measured.reauthentications.count, measured.connection_count) == (1, 1, 1)
    assert names(talk.sleep_until_woken()) == ["Close", "ConnectionLost"]  # idle: this session has no end


def test_authentication_is_not_repeated_without_end_when_a_session_lasts_for_a_millisecond() -> None:
    talk = choosing_the_mechanism()
    talk.log_in(lifetime_ms=1)
    before_ms = talk.now_ms
    talk.sleep_until_woken()
    assert talk.now_ms - before_ms == 850


def has_fetched(*, sasl: bool = False, acknowledges: bool = True) -> Talk:
    """A dialogue that could be lent: a fetch has been answered, and nothing else is under way."""
    talk = Talk(sasl=sasl)
    talk.connect()
    talk.answer(versions(RANGES | {78: (1, 2)} | ({79: (1, 1)} if acknowledges else {})))
    if sasl:
        talk.log_in(lifetime_ms=20_000)
    talk.dialogue.send(Send(1, NODE, Channel.DATA, ShareFetchRequest(group_id="g", member_id="m"), REQUEST_MS), 1_000)
    talk.poll()
    talk.answer(ShareFetchResponse())
    return talk


def test_nothing_is_sent_or_closed_while_it_is_lent_when_its_times_are_over() -> None:
    """Two who write on one connection would take each other's answers."""
    talk = has_fetched(sasl=True)
    due_at_ms = talk.dialogue.wake_at_ms()
    lent = talk.dialogue.lend()
    assert lent is not None
    assert lent.due_at_ms == due_at_ms
    assert talk.dialogue.wake_at_ms() is None
    talk.now_ms += IDLE_MS
    assert talk.poll() == []
    talk.dialogue.take_back(40, Resume(NODE, None), talk.now_ms)
    assert names(talk.poll()) == ["Write"]
    assert [write.api_name for write in talk.unanswered] == ["SaslHandshakeRequest"]
    assert talk.unanswered[0].correlation_id == 41


@pytest.mark.parametrize("response", [ShareFetchResponse(), ShareAcknowledgeResponse()], ids=["fetch", "acknowledge"])
def test_a_request_of_others_is_answered_and_has_its_time_when_it_comes_back(response: ApiMessage) -> None:
    talk = has_fetched()
    lent = talk.dialogue.lend()
    assert lent is not None
    number, is_fetch = lent.correlation_id + 3, isinstance(response, ShareFetchResponse)
    resume = Resume(NODE, 7, talk.now_ms - 10, REQUEST_MS, is_fetch)
    talk.dialogue.take_back(number, resume, talk.now_ms)
    assert talk.poll() == []
    assert talk.dialogue.wake_at_ms() == talk.now_ms - 10 + REQUEST_MS
    version = lent.fetch_version if is_fetch else lent.acknowledge_version
    (output,) = talk.receive(encode_response(number, response, version)[4:])
    assert isinstance(output, ResponseReceived)
    assert (output.send_id, output.response) == (7, response)


def test_it_is_not_lent_when_something_is_under_way_or_no_fetch_was_ever_sent() -> None:
    assert opened().dialogue.lend() is None
    talk = has_fetched()
    talk.ask()
    assert talk.dialogue.lend() is None


def test_it_is_not_lent_when_the_broker_takes_no_acknowledgements_that_could_be_sent_by_others() -> None:
    assert has_fetched(acknowledges=False).dialogue.lend() is None


def test_it_is_lost_when_authenticating_again_is_refused() -> None:
    talk = authenticating_again()
    talk.answer(mechanisms(0, "PLAIN"))
    talk.prove(Token(b"secret"))
    outputs = talk.answer(authenticated(58, "the user is gone"))
    assert isinstance(expect_end(talk, STAGES["authenticating again"], outputs), AuthenticationError)
    measured = talk.measurements
    assert (measured.failed_authentications.count, measured.failed_reauthentications.count) == (0, 1)


# ---- answers


def test_answers_belong_to_their_requests_when_several_are_in_flight() -> None:
    talk = opened()
    assert talk.served == 0, "the handshake proves nothing: the broker may refuse every request"
    for send_id in (2, 3):
        talk.ask(send_id)
    assert len({write.correlation_id for write in talk.unanswered}) == 3
    for send_id in (1, 2, 3):
        assert answered(talk.answer(metadata(str(send_id)))) == (send_id, str(send_id))
        assert talk.served == 1


def test_it_closes_when_a_later_answer_comes_first() -> None:
    talk = opened()
    talk.ask()
    second = talk.unanswered[1]
    outputs = talk.receive(encode_response(second.correlation_id, metadata(), second.version)[4:])
    assert names(outputs) == ["Close", "RequestFailed", "RequestFailed", "ConnectionLost"]


def test_traffic_is_measured() -> None:
    talk = opened()
    sent = talk.unanswered[0]
    talk.now_ms += 25
    talk.answer(metadata())
    node = talk.measurements.nodes[NODE.id]
    assert node.requests.count == 2
    assert node.latency.sum == 25
    assert node.responses.sum >= len(sent.data)
    assert talk.measurements.unsent_waits.count == 1


# ---- time


def test_all_fail_when_one_answer_is_late() -> None:
    """Behind an answer that did not come all others are late as well."""
    talk = opened()
    talk.ask(2, timeout_ms=50)
    outputs = talk.sleep_until_woken()
    assert names(outputs) == ["Close", "RequestFailed", "RequestFailed", "ConnectionLost"]
    assert "did not answer MetadataRequest in time" in str(error_of(outputs))


def test_only_the_late_request_fails_when_opening_outlasts_its_time() -> None:
    talk = connecting()
    talk.ask(2, timeout_ms=20)
    (failed,) = talk.sleep_until_woken()
    assert isinstance(failed, RequestFailed)
    assert failed.send_id == 2
    talk.connect()
    assert names(talk.answer(versions())) == ["Opened", "Write"]


def test_it_closes_without_a_failure_when_it_is_idle() -> None:
    talk = opened()
    talk.answer(metadata())
    close, lost = talk.sleep_until_woken()
    assert isinstance(close, Close)
    assert not close.is_failure
    assert isinstance(lost, ConnectionLost)


def test_it_is_not_idle_while_an_answer_is_awaited() -> None:
    talk = opened()
    talk.answer(metadata())
    talk.ask(2, timeout_ms=10 * IDLE_MS)
    talk.now_ms += 5 * IDLE_MS
    assert talk.poll() == []
    assert names(talk.answer(metadata())) == ["ResponseReceived"]


# ---- a peer that does not read


def test_requests_wait_when_the_peer_does_not_read() -> None:
    """One request is handed out at a time, so that the transport can say stop between two."""
    talk = Talk()
    for _ in range(3):
        talk.ask()
    talk.connect()
    asked = talk.unanswered.pop()
    talk.dialogue.received(encode_response(asked.correlation_id, versions(), asked.version)[4:], talk.now_ms)
    assert names(talk.dialogue.poll(talk.now_ms)) == ["Opened", "Write"]
    talk.dialogue.pause()
    assert talk.poll() == []
    assert talk.measurements.unsent_count == 2
    talk.dialogue.resume()
    assert names(talk.poll()) == ["Write", "Write"]
    assert talk.measurements.unsent_count == 0


def test_a_request_is_refused_when_too_many_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "MAX_WAITING", 2)
    talk = Talk()
    assert [names(talk.ask()) for _ in range(3)] == [[], [], ["RequestFailed"]]
    talk.connect()
    assert names(talk.answer(versions())) == ["Opened", "Write", "Write"]


# ---- hints


@pytest.mark.parametrize(
    ("reach", "words"),
    [
        (in_tls, "does its listener speak TLS? If not"),
        (asking_for_versions, "before its first answer: does it speak TLS?"),
        (showing_a_token, "during SASL authentication"),
        (lambda: opened(Channel.CONTROL), "does its listener demand SASL?"),
    ],
)
def test_the_error_guesses_at_a_wrong_setting_when_the_peer_closes(reach: Callable[[], Talk], words: str) -> None:
    assert words in str(error_of(reach().lose()))


def test_the_error_guesses_at_nothing_when_the_broker_has_answered_on_its_other_connection() -> None:
    """Records are fetched from brokers that have answered before: it is an outage like any other."""
    assert str(error_of(opened(Channel.DATA).lose())).endswith("closed the connection")


def test_the_error_names_the_answer_when_the_peer_closes_within_it() -> None:
    assert "in the middle of an answer" in str(error_of(opened().lose(is_mid_frame=True)))


def test_the_opening_is_reported_once() -> None:
    talk = asking_for_versions()
    assert talk.answer(versions())[0] == Opened()
