"""Histories of the simulation: a fixed handful of seeds in every test run, and the promise that a seed is a history."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from simulation import simulate
from simulation.history import run_history

HERE = Path(__file__).parent
SEEDS = range(8)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_seeded_history_ends_without_a_complaint(seed: int) -> None:
    """Whatever goes wrong: no record is locked twice, lost, or delivered after its end; every outcome is reported."""
    outcome = run_history(seed)
    assert outcome.complaint is None, simulate.failure_line(outcome)


@pytest.mark.timeout(120)  # it starts a Python: on a busy machine that alone may take 20 s
def test_a_seed_gives_the_same_trace_when_hashes_differ() -> None:
    """Same seed, same trace: nothing in client or broker depends on the order of a set or on an address."""
    here = run_history(6, trace=True).lines
    other_hashes = "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"
    assert len(here) > 300
    assert "\n".join(here) == _trace_of(seed=6, hash_seed=other_hashes).rstrip("\n")


def test_different_seeds_give_different_histories() -> None:
    """The seed decides what happens, not only when."""
    assert run_history(7).happened != run_history(11).happened


def _trace_of(*, seed: int, hash_seed: str) -> str:
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            f"from simulation.history import run_history; print(*run_history({seed}, trace=True).lines, sep=chr(10))",
        ],
        cwd=HERE,
        env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join([str(HERE.parent), *sys.path])},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout
