"""Ctrl-C between any two lines of a call: the consumer stays usable, nothing is lost and nothing is accepted unseen."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import pytest
from facade.delivery_checks import Outcomes, left_for_others, only_result, produce_values
from support.waiting import Consumer, poll_until, wait_until

import kafka_share
from kafka_share import AcknowledgeType
from kafka_share.broker import ReferenceBroker
from kafka_share.protocol.share_acknowledge import ShareAcknowledgeRequest
from kafka_share.protocol.share_fetch import ShareFetchRequest

MakeConsumer = Callable[..., Consumer]
PACKAGE = kafka_share.__file__.rpartition("/")[0]
EVERY = 3
"""Every so many lines of a call are tried: the calls have many lines, and each try takes some milliseconds."""


class Interruption:
    """Sends this process a SIGINT when so many lines of kafka_share have run in the main thread."""

    def __init__(self, after_lines: int) -> None:
        self.left = after_lines
        self.has_struck = False

    def __enter__(self) -> Interruption:
        sys.settrace(self._call)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)

    def _call(self, frame: FrameType, event: str, arg: Any) -> Any:
        return self._line if frame.f_code.co_filename.startswith(PACKAGE) else None

    def _line(self, frame: FrameType, event: str, arg: Any) -> Any:
        # There it matters which frame is interrupted, and that would be this one: such lines are left to real signals.
        if event == "line" and frame.f_code.co_name != "run_outside":
            self.left -= 1
            if self.left == 0:
                self.has_struck = True
                signal.raise_signal(signal.SIGINT)
        return self._line


@pytest.fixture(autouse=True)
def tracing_as_before() -> Iterator[None]:
    before = sys.gettrace()
    yield
    sys.settrace(before)


def interrupted_everywhere(call: Callable[[], Any], check: Callable[[Any], None]) -> int:
    """Call again and again, each time with an interrupt some lines later, until it comes to its end before it strikes.

    `check` gets the result, or None if the call raised KeyboardInterrupt. Answers how many calls were interrupted.
    """
    for number in range(10_000):
        result = None
        try:
            with Interruption(1 + number * EVERY) as interruption:
                result = call()
        except KeyboardInterrupt:
            result = None
        check(result)
        if not interruption.has_struck:
            return number
    raise AssertionError("the call never came to its end")


@pytest.mark.behaviour("polling")
@pytest.mark.timeout(300)
@pytest.mark.parametrize("mode", ["implicit", "explicit"])
def test_each_record_is_seen_and_accepted_once_when_polls_are_interrupted_anywhere(
    mode: str, broker: ReferenceBroker, make_consumer: MakeConsumer
) -> None:
    """KeyboardInterrupt at any line of poll: every record is returned once, and what was seen is accepted once."""
    broker.create_topic("t")
    consumer = make_consumer("t", fetch_max_wait_ms=20, share_acknowledgement_mode=mode)
    outcomes = Outcomes()
    consumer.set_acknowledgement_commit_callback(outcomes)
    produced = 1
    seen: list[int] = []

    def keep(record: Any) -> None:
        seen.append(record.offset)
        if mode == "explicit":
            consumer.acknowledge(record)

    def check(result: Any) -> None:
        nonlocal produced
        for record in result or ():
            keep(record)
        if produced > len(seen):
            poll_until(consumer, produced - len(seen), keep)
        assert seen == list(range(produced))
        produce_values(broker, "t", 1)
        produced += 1

    produce_values(broker, "t", 1)
    count = interrupted_everywhere(lambda: consumer.poll(timeout_ms=5_000), check)
    assert count > 50
    poll_until(consumer, produced - len(seen), keep)
    assert only_result(consumer.commit_sync()) is None
    consumer.close()
    assert outcomes.failed == []
    assert outcomes.succeeded == [("t", 0, offset) for offset in range(produced)]
    assert left_for_others(broker, make_consumer, "t") == []


@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", ["commit_sync", "commit_async"])
def test_each_acknowledgement_is_sent_and_reported_once_when_commits_are_interrupted_anywhere(
    kind: str, broker: ReferenceBroker, make_consumer: MakeConsumer
) -> None:
    """KeyboardInterrupt at any line of a commit: each record is accepted and reported once, later commits work."""
    broker.create_topic("t")
    consumer = make_consumer("t", fetch_max_wait_ms=20, share_acknowledgement_mode="explicit")
    outcomes = Outcomes()
    consumer.set_acknowledgement_commit_callback(outcomes)
    produced = 0

    def acknowledge_one() -> None:
        nonlocal produced
        produce_values(broker, "t", 1)
        produced += 1
        for record in poll_until(consumer, 1):
            consumer.acknowledge(record, AcknowledgeType.ACCEPT)

    def check(_: Any) -> None:
        assert set(consumer.commit_sync(timeout_ms=20_000).values()) <= {None}
        assert outcomes.succeeded == [("t", 0, offset) for offset in range(produced)]
        acknowledge_one()

    acknowledge_one()
    assert interrupted_everywhere(getattr(consumer, kind), check) > 20
    consumer.close()
    assert outcomes.failed == []
    assert left_for_others(broker, make_consumer, "t") == []


@pytest.mark.behaviour("polling")
def test_commit_sync_raises_and_its_acknowledgements_go_all_the_same_when_it_is_interrupted(
    broker: ReferenceBroker, make_consumer: MakeConsumer
) -> None:
    """Ctrl-C while commit_sync waits: KeyboardInterrupt at once; the outcome is reported later, and commits work."""
    broker.create_topic("t")
    produce_values(broker, "t", 2)
    consumer = make_consumer("t")
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
    assert outcomes.succeeded == [("t", 0, 0), ("t", 0, 1)]


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
