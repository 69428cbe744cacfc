"""Durable brokers in processes of their own, which are killed: from outside, or by themselves in the middle of a write.

A script with which `kills` talks in lines. It has imported the broker and forks a process for each life, so that a
start takes milliseconds; it has no threads. For each life, in JSON on its standard input, it says "pid N", then "ready
ADDRESS" when clients may connect, then "dead"; and is told to reap it.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import traceback
from functools import partial
from pathlib import Path
from typing import Final

import attrs

from kafka_share.broker import ReferenceBroker
from kafka_share.broker.durability import opening
from kafka_share.broker.durability.real_disk import RealDisk

REAP: Final = "reap"
CONFIG: Final = {"auto.create.topics.enable": False, "log.segment.bytes": 1_048_576}


@attrs.frozen
class Life:
    """How one process lives."""

    data_dir: str
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


def die() -> None:
    """At once, as by kill -9."""
    os.kill(os.getpid(), signal.SIGKILL)


def live(life: Life) -> None:
    """Run until killed."""
    if life.dies_at is not None:
        opening.RealDisk = partial(  # type: ignore[assignment,attr-defined]
            _DeadlyDisk, dies_at=life.dies_at, part=life.part
        )
    broker = ReferenceBroker(
        port=life.port, data_dir=life.data_dir, fsync={"all": life.fsync}, config=CONFIG, keep_requests=False
    )
    broker.start()
    say(f"ready {broker.bootstrap_servers}")
    while True:
        signal.pause()


def say(line: str) -> None:
    """In one system call, whole even from a process that is about to die."""
    os.write(1, f"{line}\n".encode())


def main() -> None:
    logging.disable(logging.CRITICAL)  # torn ends, by the thousand
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            try:
                live(Life(**json.loads(line)))
            except Exception:  # noqa: BLE001  whatever keeps it from starting is told
                traceback.print_exc()
            finally:
                die()
        say(f"pid {pid}")
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        say("dead")
        # Until we are told so nobody else can have its id, which the other side may be about to kill.
        if sys.stdin.readline().strip() == REAP:
            os.waitpid(pid, 0)


if __name__ == "__main__":
    main()
