"""Durable brokers in processes of their own, which are killed: from outside, or by themselves in the middle of a write.

A script with which `nursery` talks in lines. It has imported the broker and forks a process for each life, so that a
start takes milliseconds; it has no threads. For each life, in JSON on its standard input, it says "pid N", then "ready
ADDRESS" when clients may connect, then "dead", or "failed" if nobody killed it; and is told to reap it. A broker does
not outlive whoever talks to the script.
"""

from __future__ import annotations

import faulthandler
import json
import logging
import os
import select
import signal
import sys
import threading
import traceback
from functools import partial
from pathlib import Path
from typing import Final, NoReturn

import attrs

from kafka_share.broker import ReferenceBroker
from kafka_share.broker.durability import opening
from kafka_share.broker.durability.real_disk import RealDisk

PID: Final = "pid "
READY: Final = "ready "
DEAD: Final = "dead"
FAILED: Final = "failed"
REAP: Final = "reap"
SHOW_STACKS: Final = signal.SIGUSR1
CONFIG: Final = {"auto.create.topics.enable": False, "log.segment.bytes": 1_048_576}


@attrs.frozen
class Life:
    """How one process lives."""

    data_dir: str
    log: str
    """A file, for errors that it logs or ends by, and for what its threads do at a `SHOW_STACKS`."""
    port: int
    fsync: str
    dies_at: int | None
    """The operation on the disk, from 1 on, in the middle of which it kills itself; None: its parent does."""
    part: float
    """How much of that write is done."""


class _DeadlyDisk(RealDisk):
    def __init__(self, root: Path, dies_at: int, part: float) -> None:
        self._left = dies_at
        self._part = part
        super().__init__(root)

    def append(self, path: str, data: bytes) -> None:
        if self._is_last():
            super().append(path, data[: int(len(data) * self._part)])
            die()
        super().append(path, data)

    def sync(self) -> None:
        if self._is_last():
            die()
        super().sync()

    def _is_last(self) -> bool:
        self._left -= 1
        return self._left == 0


def die() -> NoReturn:
    """At once, as by kill -9."""
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("a killed process goes on")


def _live_or_tell(life: Life) -> NoReturn:
    """Whatever keeps it from starting or ends one of its threads ends the process, with a word in its log."""
    os.dup2(os.open(life.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND), 2)
    say(f"{PID}{os.getpid()}")  # before all else that it says, as its parent could not be sure to
    faulthandler.register(SHOW_STACKS, all_threads=True)
    logging.basicConfig(level=logging.ERROR)  # not the warnings of torn ends, by the thousand
    threading.excepthook = lambda failed: _fail(failed.exc_value)
    try:
        live(life)
    except BaseException as error:  # noqa: BLE001  whatever it is
        _fail(error)


def _fail(error: BaseException | None) -> NoReturn:
    traceback.print_exception(error)
    os._exit(1)


def live(life: Life) -> NoReturn:
    """Run until killed, or until the one who talks to this script has ended."""
    if life.dies_at is not None:
        opening.RealDisk = partial(  # type: ignore[assignment,attr-defined]
            _DeadlyDisk, dies_at=life.dies_at, part=life.part
        )
    broker = ReferenceBroker(
        port=life.port, data_dir=life.data_dir, fsync={"all": life.fsync}, config=CONFIG, keep_requests=False
    )
    broker.start()
    say(f"{READY}{broker.bootstrap_servers}")
    input_ended = select.poll()
    input_ended.register(sys.stdin, 0)  # only that the other end was closed
    input_ended.poll()
    die()


def say(line: str) -> None:
    """In one system call, whole even from a process that is about to die."""
    os.write(1, f"{line}\n".encode())


def main() -> None:
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            _live_or_tell(Life(**json.loads(line)))
        end = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        say(DEAD if end is not None and end.si_status == signal.SIGKILL and end.si_code != os.CLD_EXITED else FAILED)
        # Until we are told so nobody else can have its id, which the other side may be about to kill.
        if sys.stdin.readline().strip() == REAP:
            os.waitpid(pid, 0)


if __name__ == "__main__":
    main()
