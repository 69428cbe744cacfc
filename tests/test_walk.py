"""The walk of docs/architecture.md is true: each function that it names runs, in that order and on that thread."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import attrs
import pytest
from support.documentation import ROOT, prose_of, table_below

import kafka_share
from kafka_share import KafkaShareConsumer
from kafka_share.broker import ReferenceBroker

PAGE = ROOT / "docs" / "architecture.md"
PACKAGE = Path(kafka_share.__file__).parent
YOURS, BACKGROUND = "yours", "background"


@attrs.frozen
class Call:
    thread: str
    file: str
    function: str


def walk() -> list[Call]:
    """The functions of the walk, in the order of the page."""
    return [
        Call(thread, file, function)
        for _, thread, functions, _ in table_below(PAGE, "| step | thread |")
        for file, function in re.findall(r"`([\w/]+\.py): ([\w.]+)`", functions)
    ]


class Recorder:
    """A profile function: notes the calls (and resumed generators) of the package, on each thread that it runs on."""

    def __init__(self) -> None:
        self._own_thread = threading.get_ident()
        self.calls: list[Call] = []

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            file = Path(frame.f_code.co_filename)
            if PACKAGE in file.parents:
                thread = YOURS if threading.get_ident() == self._own_thread else BACKGROUND
                self.calls.append(Call(thread, file.relative_to(PACKAGE).as_posix(), frame.f_code.co_qualname))


@pytest.fixture(scope="module")
def recorded() -> Iterator[list[Call]]:
    """What runs from a record's arrival until the broker has answered the poll that carried its acknowledgement."""
    with ReferenceBroker() as broker:
        broker.create_topic("t")
        broker.set_group_config("g", share_auto_offset_reset="earliest")
        broker.produce("t", b"joined")
        recorder = Recorder()
        threading.setprofile(recorder)
        # A poll that fetches by itself takes half of this way.
        own_way = pytest.MonkeyPatch()
        own_way.setattr(KafkaShareConsumer, "_can_fetch_directly", lambda _: False)
        try:
            with KafkaShareConsumer(
                "t", bootstrap_servers=broker.bootstrap_servers, group_id="g", share_acknowledgement_mode="explicit"
            ) as consumer:
                consumer.acknowledge(consumer.poll(timeout_ms=30_000)[0])
                consumer.commit_sync()
                broker.produce("t", b"walks")
                recorder.calls.clear()
                sys.setprofile(recorder)
                try:
                    (record,) = consumer.poll(timeout_ms=30_000)
                    consumer.acknowledge(record, "accept")  # by name, so that the method in Python does it
                    broker.produce("t", b"next")
                    (last,) = consumer.poll(timeout_ms=30_000)
                finally:
                    sys.setprofile(None)
                yield list(recorder.calls)
                consumer.acknowledge(last)
        finally:
            own_way.undo()
            threading.setprofile(None)


def test_each_function_of_the_walk_runs_in_its_place_on_its_thread(recorded: list[Call]) -> None:
    calls = iter(recorded)
    for step in walk():
        assert step in calls, f"{step.function} does not follow"  # an iterator: goes on behind the one before


def test_the_walk_counts_its_functions_and_files() -> None:
    counted = re.search(r"(\d+) functions in (\d+) files", prose_of(PAGE))
    assert counted is not None
    assert (int(counted[1]), int(counted[2])) == (len(set(walk())), len({step.file for step in walk()}))
