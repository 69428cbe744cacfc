"""An interrupt (Ctrl-C) at any line of any call: the consumer stays usable, and every record ends exactly once."""

from __future__ import annotations

import contextlib
import functools
import signal
import sys
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from types import FrameType
from typing import Any

import pytest
from facade.delivery_checks import only_result, outcomes_of, produce_values
from facade.interruption import Interruption, Moment, Recording
from facade.scripted_background import Place, ScriptedBackground
from facade.signals import signalled
from support.consumers import MakeConsumer
from support.measuring import unmeasured
from support.waiting import poll_until

from kafka_share import AcknowledgeType, KafkaShareConsumer
from kafka_share.broker import ReferenceBroker
from kafka_share.errors import ConsumerClosedError, IllegalStateError
from kafka_share.native import IS_COMPILED
from kafka_share.protocol.share_acknowledge import ShareAcknowledgeRequest
from kafka_share.protocol.share_fetch import ShareFetchRequest

LONG_MS = 60_000
AHEAD = ", ahead"
"""Of a mode: polls send the fetch for the next one."""
DIRECTLY = ", directly"
"""Of a mode: polls fetch by themselves as soon as they have got records, and commits send by themselves."""
UNANSWERED = ", unanswered"
"""Of such a mode: commits give the session back, because nothing comes."""
WHOLE = ", whole"
"""Of such a mode: answers are held as a whole, and the application has such a one."""
NEVER = sys.maxsize
MAX_POLLS = 20
OTHER_MODE_EACH = 3
"""One of so many moments that another mode has come to in the same call is tried."""
ALIKE_EACH = 8
"""One of so many moments that are like an earlier one of their mode is tried."""
MEASURED_EACH = 10
"""One run of so many is seen by coverage: it would take twice the time, and they are all alike."""
Consumer = KafkaShareConsumer[Any, Any]


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Consumers get a scripted background side."""
    monkeypatch.setattr("kafka_share.application.facade.ConsumerBackground", ScriptedBackground)


class Application:
    """One consumer with a scripted background side, and an application that works through everything there is."""

    def __init__(self, mode: str) -> None:
        sends_ahead, mode = mode.endswith(AHEAD), mode.removesuffix(AHEAD)
        answers_commits, mode = not mode.endswith(UNANSWERED), mode.removesuffix(UNANSWERED)
        self.holds_wholes, mode = mode.endswith(WHOLE), mode.removesuffix(WHOLE)
        fetches_directly = mode.endswith(DIRECTLY)
        self.interrupt_deserializer_at = NEVER
        self.reported: set[tuple[Place, bool]] = set()
        self.mode = mode = mode.removesuffix(DIRECTLY)
        self.may_release = False
        """Whether the call leaves the topic: what has been fetched and not returned is then given back."""
        self.where: Moment | None = None
        self.records: list[Any] = []
        config: dict[str, Any] = {"bootstrap_servers": "broker:9092", "group_id": "g", "max_poll_records": 3}
        if mode != "implicit":
            config["share_acknowledgement_mode"] = "explicit"
        if sends_ahead:
            config["send_ahead"] = True
        if mode == "window":
            config["explicit_window_records"] = 100
            if self.holds_wholes:
                config["max_poll_records"] = 8  # what an answer has; more than a poll may return is the core's
        if not self.holds_wholes:
            config["value_deserializer"] = self._deserialize
        self.consumer: Consumer = KafkaShareConsumer("t", **config)
        background: Any = self.consumer._driver
        assert isinstance(background, ScriptedBackground)
        self.background = background
        background.lends = fetches_directly
        background.has_gaps = not self.holds_wholes
        background.answers_commits = answers_commits
        self.ledger = background.ledger
        self.consumer.set_acknowledgement_commit_callback(self._report)
        background.produce(4 if self.holds_wholes else 2)

    def _deserialize(self, data: bytes) -> bytes:
        self.interrupt_deserializer_at -= 1
        if self.interrupt_deserializer_at == 0:
            raise KeyboardInterrupt
        return data

    def _report(self, offsets: Any, error: Any) -> None:
        for partition, these in offsets.items():
            self.reported.update(((partition.partition, offset), error is None) for offset in these)

    # ---- the calls

    def poll(self, timeout_ms: int = LONG_MS) -> None:
        """What the interrupted call would have returned counts as seen only when it has returned."""
        self.see(self.consumer.poll(timeout_ms))

    def see(self, records: Any) -> None:
        for record in records:
            place = (record.partition, record.offset)
            assert place not in self.ledger.seen, f"{place} comes twice"
            self.ledger.seen.append(place)
        self.records = list(records)

    def acknowledge_if_explicit(self) -> None:
        if self.mode != "implicit":
            self.acknowledge()

    def acknowledge(self) -> None:
        for record in self.records:
            # By its name the type goes the long way, where much may be interrupted.
            self.consumer.acknowledge(record, AcknowledgeType.ACCEPT if record.offset % 2 else "accept")

    def acknowledge_rest(self) -> None:
        """Some of them may have been acknowledged before an interrupt struck."""
        for record in self.records:
            with contextlib.suppress(IllegalStateError):
                self.consumer.acknowledge(record, AcknowledgeType.ACCEPT)

    def iterate(self) -> None:
        """The loop is left before it has come to all that was polled."""
        for count, record in enumerate(self.consumer, 1):
            place = (record.partition, record.offset)
            assert place not in self.ledger.seen, f"{place} comes twice"
            self.ledger.seen.append(place)
            self.records.append(record)
            if count == 2:
                break

    def resubscribe(self) -> None:
        self.may_release = True
        self.consumer.subscribe(["t", "u"])
        self.consumer.unsubscribe()
        self.consumer.subscribe(["t"])

    # ---- afterwards

    def work_to_the_end(self) -> None:
        """Poll, acknowledge and commit until there is nothing any more, then close."""
        self.consumer.subscribe(["t"])
        assert not self.background.has_open_poll
        for _ in range(MAX_POLLS):
            if self.mode != "implicit":
                self.acknowledge_rest()
            self.poll(0)
            if not self.records and len(self.ledger.seen) == len(self.background.all_records):
                break
        assert all(error is None for error in self.consumer.commit_sync().values())
        self.consumer.close()

    def check_all_has_ended(self) -> None:
        """Every record was seen once and ended once; every gap has ended; every outcome was reported."""
        released = {place for place, kind in self.ledger.ended.items() if kind == AcknowledgeType.RELEASE}
        assert self.may_release or not released
        assert set(self.ledger.seen) | released >= self.background.all_records
        assert self.ledger.locked == set()
        assert self.ledger.ended.keys() == self.background.all_places
        assert {place for place, succeeded in self.reported if succeeded} == self.background.all_places
        assert self.background.is_closed


def prepared(mode: str, call: str) -> Application:
    """An application that is about to make this call."""
    application = Application(mode)
    application.records = []
    if application.holds_wholes:
        for _ in range(2):  # the second one fetches by itself
            application.poll()
            application.acknowledge_if_explicit()
        application.poll()
        assert bool(application.consumer._application.wholes.all) is IS_COMPILED
    elif call not in ("poll", "iterate"):
        application.poll()
    if call in ("poll after work", "commit_sync", "commit_async") or (
        application.holds_wholes and call != "acknowledge"
    ):
        application.acknowledge_if_explicit()
    return application


CALLS: dict[str, Callable[[Application], Any]] = {
    "poll after work": lambda application: application.poll(),
    "poll": lambda application: application.poll(),
    "acknowledge": lambda application: application.acknowledge(),
    "commit_sync": lambda application: application.consumer.commit_sync(),
    "commit_async": lambda application: application.consumer.commit_async(),
    "resubscribe": lambda application: application.resubscribe(),
    "iterate": lambda application: application.iterate(),
}
CASES = [
    (mode, call)
    for mode in (
        "implicit",
        "explicit",
        "window",
        "implicit, directly",
        "explicit, directly",
        "explicit, directly, ahead",
        "implicit, directly, whole",
        "explicit, directly, whole",
        "window, directly, whole",
        "implicit, directly, whole, ahead",
        "explicit, directly, whole, ahead",
    )
    for call in CALLS
    if call != "acknowledge" or not mode.startswith("implicit")
]
CASES += [(f"explicit, directly{how}, unanswered", "commit_sync") for how in ("", ", whole")]


@functools.cache
def recorded(mode: str, call: str, *, by_instruction: bool) -> list[Moment]:
    """When this call can be interrupted. The second run counts: the first one fills what is kept for later ones."""
    for _ in range(2):
        application = prepared(mode, call)
        with Recording(by_instruction=by_instruction) as recording:
            CALLS[call](application)
        application.work_to_the_end()
        application.check_all_has_ended()
    return recording.moments


@functools.cache
def lines_to_try() -> Mapping[tuple[str, str], list[Moment]]:
    """Every line that a call comes to, in the first mode that has it; a second time in a loop, in the first case.

    Of the others some are tried too: lines that another mode has, and those that are like an earlier one. A line's
    second time was seen in another case, a loop over records begins as a poll does, and where the application
    acknowledges, the first poll does nothing that a later one does not.
    """
    known: set[Hashable] = set()
    to_try: dict[tuple[str, str], list[Moment]] = {}
    for mode, call in CASES:
        begins_like = "poll" if call == "iterate" else call
        if begins_like == "poll" and mode != "implicit":
            begins_like = "poll after work"
        new: list[Moment] = []
        of_other_modes: list[Moment] = []
        alike: list[Moment] = []
        for moment in recorded(mode, call, by_instruction=False):
            is_first = moment.visit == 1
            in_any_mode = (moment.place, begins_like) if is_first else moment.place
            in_this_mode = (moment.place, mode, begins_like) if is_first else moment.place
            (alike if in_this_mode in known else of_other_modes if in_any_mode in known else new).append(moment)
            known |= {in_any_mode, in_this_mode}
        to_try[mode, call] = new + of_other_modes[::OTHER_MODE_EACH] + alike[::ALIKE_EACH]
    return to_try


def interrupted(mode: str, call: str, moments: Iterable[Moment], *, by_instruction: bool) -> Iterator[Application]:
    """The same call again and again, interrupted at each of these moments."""
    moments, unseen = list(moments), 0
    for moment in moments:
        with unmeasured():
            application = prepared(mode, call)
        with (
            contextlib.suppress(KeyboardInterrupt),
            Interruption(moment, by_instruction=by_instruction) as interruption,
        ):
            CALLS[call](application)
        application.where = moment
        if not interruption.has_struck:
            # Python 3.13 shows some instructions when every function is traced, and not when one is. It looks for
            # signals at none of them: they are neither the beginning of a function nor behind a call.
            assert by_instruction, f"this run never came to {moment}"
            unseen += 1
            continue
        yield application
    assert unseen <= 5 + len(moments) // 5, f"{unseen} of {len(moments)} moments were not seen again"


def check_each(applications: Iterator[Application]) -> int:
    """Let each work to the end, and look at its ledger. Returns how many there were."""
    tried = 0
    for application in applications:
        try:
            with unmeasured() if tried % MEASURED_EACH else contextlib.nullcontext():
                application.work_to_the_end()
                application.check_all_has_ended()
        except BaseException as error:
            raise AssertionError(f"interrupted at {application.where}: {error!r}") from error
        tried += 1
    return tried


@pytest.mark.behaviour("polling")
@pytest.mark.timeout(300)  # one run of the whole application for each line of the call
@pytest.mark.usefixtures("scripted")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # what ends a loop's generator
@pytest.mark.parametrize(("mode", "call"), CASES)
def test_every_record_ends_once_when_a_call_is_interrupted_at_any_line(mode: str, call: str) -> None:
    """KeyboardInterrupt at any line of a call: no record is lost, none comes twice, none is accepted unseen."""
    assert check_each(interrupted(mode, call, lines_to_try()[mode, call], by_instruction=False)) > 10


@pytest.mark.timeout(300)  # one run of the whole application for each line of the call
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # what ends a decoder's generator
@pytest.mark.usefixtures("scripted")
@pytest.mark.parametrize(
    "mode",
    [
        "implicit",
        "explicit",
        "implicit, directly",
        "implicit, directly, ahead",
        "implicit, directly, whole",
        "implicit, directly, whole, ahead",
    ],
)
@pytest.mark.parametrize("call", ["poll after work", "commit_sync"])
def test_every_record_ends_once_when_a_call_is_interrupted_between_two_instructions(mode: str, call: str) -> None:
    """The same between instructions, a sample of which is tried: those of one line are not all alike."""
    sample = recorded(mode, call, by_instruction=True)[::23]
    assert check_each(interrupted(mode, call, sample, by_instruction=True)) > 20


@pytest.mark.usefixtures("scripted")
@pytest.mark.parametrize("mode", ["implicit", "explicit", "window"])
@pytest.mark.parametrize("number", range(1, 4))
def test_every_record_ends_once_when_a_deserializer_is_interrupted(mode: str, number: int) -> None:
    """What was decoded before comes with the next poll, and the rest is decoded again."""
    application = Application(mode)
    application.interrupt_deserializer_at = number
    with pytest.raises(KeyboardInterrupt):
        application.poll()
    application.work_to_the_end()
    application.check_all_has_ended()


@pytest.mark.usefixtures("scripted")
def test_an_outcome_is_reported_again_when_the_callback_was_interrupted() -> None:
    application = Application("implicit")
    application.poll()
    calls: list[Any] = []

    def interrupted_once(offsets: Any, error: Any) -> None:
        calls.append(offsets)
        if len(calls) == 1:
            raise KeyboardInterrupt

    application.consumer.set_acknowledgement_commit_callback(interrupted_once)
    with pytest.raises(KeyboardInterrupt):
        application.consumer.commit_sync()
    application.consumer.commit_async()
    assert calls[0] == calls[1]
    assert len(calls) == 3, "one for each partition, and the first one again"
    application.consumer.close()


def about_to_close(mode: str) -> Application:
    application = Application(mode)
    application.poll()
    if mode == "explicit":
        application.acknowledge()
    return application


@pytest.mark.timeout(300)  # one run of the whole application for each line of the call
@pytest.mark.usefixtures("scripted")
@pytest.mark.parametrize("mode", ["implicit", "explicit", "window"])
def test_the_consumer_can_be_closed_when_close_is_interrupted_at_any_line(mode: str) -> None:
    """Before its last step the consumer stays open and closes at the second try; behind it it is closed."""
    application = about_to_close(mode)
    with Recording() as recording:
        application.consumer.close()
    assert len(recording.moments) > 20
    for moment in recording.moments:
        application = about_to_close(mode)
        with contextlib.suppress(KeyboardInterrupt), Interruption(moment) as interruption:
            application.consumer.close()
        assert interruption.has_struck
        application.consumer.close()
        accepted = {place for place, kind in application.ledger.ended.items() if kind == AcknowledgeType.ACCEPT}
        was_posted = application.background.is_closed and mode == "explicit"
        assert accepted == (set(application.ledger.seen) if was_posted else set())
        with pytest.raises(ConsumerClosedError):
            application.consumer.poll(0)


@pytest.mark.timeout(300)  # one run of the whole application for each line of the call
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # what ends a decoder's generator
@pytest.mark.usefixtures("scripted")
@pytest.mark.parametrize("mode", ["explicit, directly", "explicit, directly, ahead"])
def test_close_gives_back_the_sessions_that_an_interrupted_poll_has_held(mode: str) -> None:
    """The poll fetches by itself, and close is the very next call."""
    held = 0
    for moment in recorded(mode, "poll after work", by_instruction=False):
        application = prepared(mode, "poll after work")
        with contextlib.suppress(KeyboardInterrupt), Interruption(moment):
            application.poll()
        sessions = list(application.background.mailbox.direct.values())
        held += any(session.is_held for session in sessions)
        application.consumer.close()
        assert not any(session.is_held for session in sessions), moment
        assert application.background.is_closed
    assert held > 5


@pytest.mark.blocking
@pytest.mark.behaviour("polling")
def test_commit_sync_raises_and_its_acknowledgements_go_all_the_same_when_it_is_interrupted(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer
) -> None:
    """Ctrl-C while commit_sync waits: KeyboardInterrupt at once; the outcome is reported later, and commits work."""
    produce_values(broker, topic, 2)
    consumer = make_consumer(topic)
    outcomes = outcomes_of(consumer)
    poll_until(consumer, 2)
    broker.faults.delay(ShareAcknowledgeRequest.API_KEY, 20_000)
    with signalled(lambda: broker.faults.pending() == 0), pytest.raises(KeyboardInterrupt):
        consumer.commit_sync()
    broker.advance(20_000)
    assert only_result(consumer.commit_sync()) is None
    assert outcomes.succeeded == [(topic, 0, 0), (topic, 0, 1)]


@pytest.mark.blocking
def test_a_handler_that_exits_is_run_at_once_when_a_poll_waits(
    broker: ReferenceBroker, make_consumer: MakeConsumer
) -> None:
    """A SIGTERM handler of the program that raises ends a waiting poll; afterwards the handler is as it was."""

    def leave(number: int, frame: FrameType | None) -> None:
        raise SystemExit(number)

    broker.create_topic("t")
    consumer = make_consumer("t")
    before = signal.signal(signal.SIGTERM, leave)
    try:
        with (
            signalled(lambda: bool(broker.requests(ShareFetchRequest.API_KEY)), signal.SIGTERM),
            pytest.raises(SystemExit),
        ):
            consumer.poll(timeout_ms=60_000)
        assert signal.getsignal(signal.SIGTERM) is leave
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGTERM, before)
    produce_values(broker, "t", 1)
    assert [record.offset for record in poll_until(consumer, 1)] == [0]
