"""Runs seeds in a process of its own, so that each of them ends: by itself, or killed with all that it has started.

For `kills`. What a seed is, is the caller's: a function that is given the seed and a folder of its own. The folder is
deleted when the seed had nothing to complain of, and holds what the processes were doing when it did not end.
"""

from __future__ import annotations

import contextlib
import faulthandler
import logging
import multiprocessing
import os
import shutil
import signal
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Final, Self, TypeAlias

import attrs
from broker.durability.killed_broker import SHOW_STACKS

STACKS: Final = "stacks.log"
_TIME_TO_START_S: Final = 120
_TIME_FOR_STACKS_S: Final = 3
_READY: Final = "ready"


@attrs.frozen
class Outcome:
    """Of one seed."""

    complaints: list[str]
    numbers: Counter[str] = attrs.Factory(Counter)


RunSeed: TypeAlias = Callable[[int, Path], Outcome]
Runs: TypeAlias = Callable[[], AbstractContextManager[RunSeed]]
"""Makes, in the worker, what many seeds need. A function of a module, as the worker has to import it."""


class SeedWorker:
    """`runs` is entered once in each process. A seed gets `limit_s`, and a new process follows one that failed."""

    def __init__(self, runs: Runs, limit_s: float, parent: Path | None = None) -> None:
        self._runs = runs
        self._limit_s = limit_s
        self._parent = parent
        """Of the folders; None: where the system has temporary ones."""
        self._process: BaseProcess | None = None
        self._pipe: Connection | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def run(self, seed: int) -> Outcome:
        """Run it to its end. Never raises because of the seed."""
        folder = Path(tempfile.mkdtemp(prefix=f"seed-{seed}-", dir=self._parent))
        outcome = self._outcome(seed, folder)
        if not outcome.complaints:
            shutil.rmtree(folder)
            return outcome
        self._end()
        return attrs.evolve(outcome, complaints=[*outcome.complaints, f"look into {folder}"])

    def _outcome(self, seed: int, folder: Path) -> Outcome:
        try:
            pipe = self._pipe or self._start()
            pipe.send((seed, folder))
            outcome = _hear(pipe, self._limit_s)
            assert isinstance(outcome, Outcome)
        except TimeoutError as error:
            self._show_stacks()
            return Outcome([str(error)])
        except (EOFError, ConnectionError):
            return Outcome(["the process of this seed has ended"])
        return outcome

    def _start(self) -> Connection:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_work, args=(theirs, self._runs))
        self._process.start()
        theirs.close()  # so that we see the end of theirs
        assert _hear(self._pipe, _TIME_TO_START_S) == _READY
        return self._pipe

    def _show_stacks(self) -> None:
        """Have all that this seed has started write down what they do."""
        assert self._process is not None
        self._signal(SHOW_STACKS)
        self._process.join(_TIME_FOR_STACKS_S)

    def _end(self) -> None:
        """Kill the process and all that it has started."""
        if self._process is None or self._pipe is None:
            return
        self._pipe.close()
        self._signal(signal.SIGKILL)
        self._process.kill()  # if it has not come so far as to lead a group
        self._process.join()
        self._process = self._pipe = None

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        assert self._process.pid is not None
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)


def _hear(pipe: Connection, limit_s: float) -> object:
    """Raises `TimeoutError`."""
    if not pipe.poll(limit_s):
        raise TimeoutError(f"nothing was heard of it for {limit_s:.0f} s")
    return pipe.recv()


def _work(pipe: Connection, runs: Runs) -> None:
    """The process: seeds come in, outcomes go out, until the other end is closed."""
    os.setsid()  # leads the group of all that it starts
    logging.disable(logging.CRITICAL)  # clients that lose their broker, by the thousand
    with runs() as run_seed, contextlib.suppress(EOFError, BrokenPipeError):
        pipe.send(_READY)
        while True:
            seed, folder = pipe.recv()
            with (folder / STACKS).open("w") as stacks:
                faulthandler.register(SHOW_STACKS, stacks, all_threads=True)
                try:
                    outcome = run_seed(seed, folder)
                except Exception:  # noqa: BLE001  whatever it is, this seed has failed
                    outcome = Outcome([traceback.format_exc()])
                faulthandler.unregister(SHOW_STACKS)
            pipe.send(outcome)
