"""Seeds of `kills` are ended: also those that hang, die or leave processes behind, and all when it is interrupted."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from broker.durability.planted_seeds import COMPLAINS, DIES, HANGS, IS_GOOD, LIFELINE, RAISES, planted_runs
from broker.durability.seed_worker import STACKS, Outcome, SeedWorker
from support.documentation import environment
from support.waiting import patience_s, wait_until

from kafka_share.broker import ReferenceBroker

pytestmark = pytest.mark.timeout(120)  # each starts processes, on a machine that may be busy

AMPLE_S = 100
SHORT_S = 2


@pytest.fixture
def lifeline(tmp_path: Path) -> Iterator[int]:
    os.mkfifo(tmp_path / LIFELINE)
    lifeline = os.open(tmp_path / LIFELINE, os.O_RDONLY | os.O_NONBLOCK)
    yield lifeline
    os.close(lifeline)


def read(lifeline: int) -> bytes:
    """What is said next; b"" when all who hold it are dead."""
    assert select.select([lifeline], [], [], patience_s())[0], "processes of a seed live on"
    return os.read(lifeline, 1_000)


def folders(parent: Path) -> list[Path]:
    return list(parent.glob("seed-*"))


@pytest.mark.parametrize(
    ("seed", "complaint"),
    [(DIES, "the process of this seed has ended"), (RAISES, "ValueError: planted"), (COMPLAINS, "planted")],
)
def test_a_seed_that_goes_wrong_is_ended_with_all_it_started_and_the_next_one_runs(
    seed: int, complaint: str, tmp_path: Path, lifeline: int
) -> None:
    with SeedWorker(planted_runs, AMPLE_S, tmp_path) as worker:
        outcome = worker.run(seed)
        assert read(lifeline) == b"+"
        assert read(lifeline) == b""
        (folder,) = folders(tmp_path)
        assert complaint in outcome.complaints[0]
        assert outcome.complaints[-1] == f"look into {folder}"
        assert worker.run(IS_GOOD) == Outcome([], Counter(done=1))
    assert folders(tmp_path) == [folder]


def test_a_seed_that_hangs_is_ended_and_says_what_it_did(tmp_path: Path, lifeline: int) -> None:
    with SeedWorker(planted_runs, SHORT_S, tmp_path) as worker:
        outcome = worker.run(HANGS)
        assert outcome.complaints[0] == "nothing was heard of it for 2 s"
        assert read(lifeline) == b"+"
        assert read(lifeline) == b""
        (folder,) = folders(tmp_path)
        assert "in _run" in (folder / STACKS).read_text()


def test_processes_of_good_seeds_end_with_the_worker(tmp_path: Path, lifeline: int) -> None:
    with SeedWorker(planted_runs, AMPLE_S, tmp_path) as worker:
        worker.run(IS_GOOD)
        assert read(lifeline) == b"+"
    assert read(lifeline) == b""


def test_an_interrupt_ends_the_command_and_all_it_has_started(tmp_path: Path) -> None:
    command = subprocess.Popen(
        [sys.executable, "-m", "broker.durability.kills", "--seeds", "0-9999"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=environment() | {"TMPDIR": str(tmp_path)},
    )
    with command:
        assert command.stdout is not None
        wait_until(lambda: list(tmp_path.glob("seed-*/brokers.log")), "no broker was started")
        command.send_signal(signal.SIGINT)
        said = command.stdout.read()  # to the end: all that could say something have ended
    assert said.endswith(b"failed: []\ninterrupted\n")
    assert command.returncode == 130
    (folder,) = folders(tmp_path)
    with ReferenceBroker(data_dir=folder / "data"):  # so nobody else has it
        pass
