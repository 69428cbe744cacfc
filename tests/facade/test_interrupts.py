"""An interrupt (Ctrl-C) at any line of any call: the consumer stays usable, and every record ends exactly once."""

from __future__ import annotations

import contextlib
import dis
import functools
import gc
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest
from facade.delivery_checks import Outcomes, only_result, produce_values
from facade.scripted_background import Place, ScriptedBackground
from support.consumers import MakeConsumer
from support.measuring import unmeasured
from support.waiting import poll_until, wait_until

import kafka_share
from kafka_share import AcknowledgeType, KafkaShareConsumer
from kafka_share.broker import ReferenceBroker
from kafka_share.errors import ConsumerClosedError, IllegalStateError
from kafka_share.protocol.share_acknowledge import ShareAcknowledgeRequest
from kafka_share.protocol.share_fetch import ShareFetchRequest

PACKAGE = str(Path(kafka_share.__file__).parent)
LONG_MS = 60_000
NEVER = sys.maxsize
MAX_POLLS = 20
TIMES_AT_A_PLACE = 2
"""A line of a loop is interrupted in its first rounds only: those that follow are like them."""
MEASURED_EACH = 10
"""One run of so many is seen by coverage: it would take twice the time, and they are all alike."""
Consumer = KafkaShareConsumer[Any, Any]
TraceFunction = Callable[[FrameType, str, Any], Any]
_RETURNS = ("RETURN_VALUE", "RETURN_CONST")


class Interruption:
    """Raises KeyboardInterrupt in the package's code at the `number`th line, or instruction, of this block.

    A place counts as often as `TIMES_AT_A_PLACE`.
    """

    def __init__(self, number: int, *, by_instruction: bool = False) -> None:
        self.left = number
        self._event = "opcode" if by_instruction else "line"
        self._places: dict[int, TraceFunction] = {}
        """What looks at the places of a function, by the id of its code: a hash of the code itself takes longer."""

    @property
    def has_struck(self) -> bool:
        return self.left <= 0

    def __enter__(self) -> Interruption:
        self._before = sys.gettrace()
        gc.disable()  # finalizers of other consumers are none of these calls
        sys.settrace(self._call)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(self._before)
        gc.enable()

    def _call(self, frame: FrameType, event: str, arg: Any) -> TraceFunction | None:
        code = frame.f_code
        if not code.co_filename.startswith(PACKAGE) or self.has_struck:
            return None
        caller = frame.f_back
        if caller is not None and caller.f_code.co_filename == __file__ and not _is_a_call(frame):
            return None
        frame.f_trace_opcodes = self._event == "opcode"
        if id(code) not in self._places:
            self._places[id(code)] = self._looking_at(code)
        return self._places[id(code)]

    def _looking_at(self, code: CodeType) -> TraceFunction:
        """Called for each line of this function, so it does little."""
        wanted = self._event
        visits = dict.fromkeys(_returns(code), TIMES_AT_A_PLACE) if wanted == "opcode" else {}

        def look(frame: FrameType, event: str, arg: Any) -> TraceFunction:
            if event == wanted:
                place = frame.f_lasti
                count = visits.get(place, 0)
                if count < TIMES_AT_A_PLACE and self.left > 0:
                    visits[place] = count + 1
                    self.left -= 1
                    if self.left == 0:
                        raise KeyboardInterrupt(f"{code.co_filename}:{frame.f_lineno}")
            return look

        return look


@functools.cache
def _returns(code: CodeType) -> frozenset[int]:
    """The places where a result is handed to the caller, which no interrupt reaches.

    Python looks for signals where a function begins, behind a call and at a jump back, never between a result and its
    return; no `except` of the function covers that place either.
    """
    return frozenset(found.offset for found in dis.get_instructions(code) if found.opname in _RETURNS)


def _is_a_call(frame: FrameType) -> bool:
    """Not a method of a record, which the application may call as it likes."""
    return frame.f_code.co_filename.endswith(("consumer.py", "facade.py"))


class Application:
    """One consumer with a scripted background side, and an application that works through everything there is."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
        self.interrupt_deserializer_at = NEVER
        self.reported: set[tuple[Place, bool]] = set()
        self.mode = mode
        self.may_release = False
        """Whether the call leaves the topic: what has been fetched and not returned is then given back."""
        self.where = "nowhere"
        self.records: list[Any] = []
        config: dict[str, Any] = {"bootstrap_servers": "broker:9092", "group_id": "g", "max_poll_records": 3}
        if mode != "implicit":
            config["share_acknowledgement_mode"] = "explicit"
        if mode == "window":
            config["explicit_window_records"] = 100
        monkeypatch.setattr("kafka_share.application.facade.ConsumerBackground", ScriptedBackground)
        self.consumer: Consumer = KafkaShareConsumer("t", value_deserializer=self._deserialize, **config)
        background: Any = self.consumer._driver
        assert isinstance(background, ScriptedBackground)
        self.background = background
        self.ledger = background.ledger
        self.consumer.set_acknowledgement_commit_callback(self._report)
        background.produce(2)

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

    def acknowledge(self) -> None:
        for record in self.records:
            self.consumer.acknowledge(record, AcknowledgeType.ACCEPT)

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


def prepared(monkeypatch: pytest.MonkeyPatch, mode: str, call: str) -> Application:
    """An application that is about to make this call."""
    application = Application(monkeypatch, mode)
    application.records = []
    if call not in ("poll", "iterate"):
        application.poll()
    if call in ("poll after work", "commit_sync", "commit_async") and mode != "implicit":
        application.acknowledge()
    return application


CALLS: dict[str, Callable[[Application], Any]] = {
    "poll": lambda application: application.poll(),
    "poll after work": lambda application: application.poll(),
    "acknowledge": lambda application: application.acknowledge(),
    "commit_sync": lambda application: application.consumer.commit_sync(),
    "commit_async": lambda application: application.consumer.commit_async(),
    "resubscribe": lambda application: application.resubscribe(),
    "iterate": lambda application: application.iterate(),
}
CASES = [
    (mode, call)
    for mode in ("implicit", "explicit", "window")
    for call in CALLS
    if (mode, call) != ("implicit", "acknowledge")
]


def interrupted_everywhere(
    monkeypatch: pytest.MonkeyPatch, mode: str, call: str, *, by_instruction: bool, step: int
) -> Iterator[Application]:
    """The same call again and again, each time interrupted some lines later, until it ends before that."""
    number = 1
    while True:
        with unmeasured():
            application = prepared(monkeypatch, mode, call)
        interruption = Interruption(number, by_instruction=by_instruction)
        try:
            with interruption:
                CALLS[call](application)
        except KeyboardInterrupt as error:
            application.where = str(error)
        yield application
        if not interruption.has_struck:
            return
        number += step


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
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # what ends a loop's generator
@pytest.mark.parametrize(("mode", "call"), CASES)
def test_every_record_ends_once_when_a_call_is_interrupted_at_any_line(
    mode: str, call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """KeyboardInterrupt at any line of a call: no record is lost, none comes twice, none is accepted unseen."""
    assert check_each(interrupted_everywhere(monkeypatch, mode, call, by_instruction=False, step=1)) > 20


@pytest.mark.timeout(300)  # one run of the whole application for each line of the call
@pytest.mark.parametrize("mode", ["implicit", "explicit"])
@pytest.mark.parametrize("call", ["poll after work", "commit_sync"])
def test_every_record_ends_once_when_a_call_is_interrupted_between_two_instructions(
    mode: str, call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same between instructions, a sample of which is tried: those of one line are not all alike."""
    assert check_each(interrupted_everywhere(monkeypatch, mode, call, by_instruction=True, step=23)) > 20


@pytest.mark.parametrize("mode", ["implicit", "explicit", "window"])
@pytest.mark.parametrize("number", range(1, 4))
def test_every_record_ends_once_when_a_deserializer_is_interrupted(
    mode: str, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was decoded before comes with the next poll, and the rest is decoded again."""
    application = Application(monkeypatch, mode)
    application.interrupt_deserializer_at = number
    with pytest.raises(KeyboardInterrupt):
        application.poll()
    application.work_to_the_end()
    application.check_all_has_ended()


def test_an_outcome_is_reported_again_when_the_callback_was_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    application = Application(monkeypatch, "implicit")
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


@pytest.mark.timeout(300)  # one run of the whole application for each line of the call
@pytest.mark.parametrize("mode", ["implicit", "explicit", "window"])
def test_the_consumer_can_be_closed_when_close_is_interrupted_at_any_line(
    mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before its last step the consumer stays open and closes at the second try; behind it it is closed."""
    for number in range(1, 10_000):
        application = Application(monkeypatch, mode)
        application.poll()
        if mode == "explicit":
            application.acknowledge()
        interruption = Interruption(number)
        with contextlib.suppress(KeyboardInterrupt), interruption:
            application.consumer.close()
        application.consumer.close()
        accepted = {place for place, kind in application.ledger.ended.items() if kind == AcknowledgeType.ACCEPT}
        was_posted = application.background.is_closed and mode == "explicit"
        assert accepted == (set(application.ledger.seen) if was_posted else set())
        with pytest.raises(ConsumerClosedError):
            application.consumer.poll(0)
        if not interruption.has_struck:
            assert number > 20
            return


@pytest.mark.blocking
@pytest.mark.behaviour("polling")
def test_commit_sync_raises_and_its_acknowledgements_go_all_the_same_when_it_is_interrupted(
    broker: ReferenceBroker, topic: str, make_consumer: MakeConsumer
) -> None:
    """Ctrl-C while commit_sync waits: KeyboardInterrupt at once; the outcome is reported later, and commits work."""
    produce_values(broker, topic, 2)
    consumer = make_consumer(topic)
    outcomes = Outcomes()
    consumer.set_acknowledgement_commit_callback(outcomes)
    poll_until(consumer, 2)
    broker.faults.delay(ShareAcknowledgeRequest.API_KEY, 20_000)
    main = threading.main_thread().ident
    assert main is not None

    def interrupt_when_it_waits() -> None:
        wait_until(lambda: broker.faults.pending() == 0)
        signal.pthread_kill(main, signal.SIGINT)

    other = threading.Thread(target=interrupt_when_it_waits)
    other.start()
    with pytest.raises(KeyboardInterrupt):
        consumer.commit_sync()
    other.join()
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
    main = threading.main_thread().ident
    assert main is not None

    def end_when_it_waits() -> None:
        wait_until(lambda: bool(broker.requests(ShareFetchRequest.API_KEY)))
        signal.pthread_kill(main, signal.SIGTERM)

    before = signal.signal(signal.SIGTERM, leave)
    other = threading.Thread(target=end_when_it_waits)
    try:
        other.start()
        with pytest.raises(SystemExit):
            consumer.poll(timeout_ms=60_000)
        assert signal.getsignal(signal.SIGTERM) is leave
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGTERM, before)
        other.join()
    produce_values(broker, "t", 1)
    assert [record.offset for record in poll_until(consumer, 1)] == [0]
