"""Durable brokers that are killed, as their owner sees them, and the process that they are forked from.

For `killing`. Whatever is waited for comes within `PATIENCE_S` or raises `TimeoutError`, and a broker that was started
is dead at the end of its block.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Final, Self

import attrs
from broker.durability.killed_broker import DEAD, FAILED, PID, READY, REAP, SHOW_STACKS, Life
from support.documentation import environment

PATIENCE_S: Final = 60
_LOOK_EVERY_S: Final = 0.01


class BrokerFailedError(Exception):
    """A broker ended by an error, instead of being killed."""


class Nursery:
    """The process that brokers are forked from: one after the other."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "broker.durability.killed_broker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment(),
            bufsize=0,
        )
        self._told = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """The brokers see the end of their input, and end."""
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()
        self._process.kill()
        self._process.wait()

    @contextlib.contextmanager
    def broker(self, life: Life) -> Iterator[Living]:
        """A broker that listens or has killed itself, and is killed at the end of the block at the latest.

        Raises `BrokerFailedError` and `TimeoutError`.
        """
        self._tell(json.dumps(attrs.asdict(life)))
        living = Living(self, int(self.line(PATIENCE_S).removeprefix(PID)))
        try:
            living.await_start()
            yield living
        finally:
            try:
                living.kill()
            finally:
                self._tell(REAP)

    def _tell(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line.encode() + b"\n")

    def line(self, limit_s: float) -> str:
        """What the nursery says next. Raises `TimeoutError`."""
        assert self._process.stdout is not None
        end_at_s = time.monotonic() + limit_s
        while b"\n" not in self._told:
            left_s = max(0.0, end_at_s - time.monotonic())
            if not select.select([self._process.stdout], [], [], left_s)[0]:
                raise TimeoutError("a broker does not start, or does not die")
            received = self._process.stdout.read(1_000)
            if not received:
                raise BrokerFailedError("the process that brokers are forked from has ended")
            self._told += received
        line, _, self._told = self._told.partition(b"\n")
        return line.decode()


class Living:
    """A broker's process; `servers` is "" if it died before it could listen."""

    def __init__(self, nursery: Nursery, pid: int) -> None:
        self._nursery = nursery
        self._pid = pid
        self._is_dead = False
        self.servers = ""

    def await_start(self) -> None:
        """Until it listens or is dead. Raises `BrokerFailedError` and `TimeoutError`."""
        try:
            line = self._nursery.line(PATIENCE_S)
        except TimeoutError:
            self.show_stacks()
            raise
        if line.startswith(READY):
            self.servers = line.removeprefix(READY)
        else:
            self._died(line)

    def lives_for(self, limit_s: float) -> None:
        """Let it live so long, unless it kills itself before. Raises `BrokerFailedError`."""
        if not self._is_dead:
            with contextlib.suppress(TimeoutError):
                self._died(self._nursery.line(limit_s))

    def lives_until(self, enough: Callable[[], bool], limit_s: float) -> None:
        """Let it live until that is true, or so long. Raises `BrokerFailedError`."""
        end_at_s = time.monotonic() + limit_s
        while not (self._is_dead or enough() or time.monotonic() > end_at_s):
            self.lives_for(_LOOK_EVERY_S)

    def kill(self) -> None:
        """Raises `BrokerFailedError` and `TimeoutError`."""
        if not self._is_dead:
            os.kill(self._pid, signal.SIGKILL)
            self._died(self._nursery.line(PATIENCE_S))

    def show_stacks(self) -> None:
        """Have it write into its log what its threads do."""
        if not self._is_dead:
            os.kill(self._pid, SHOW_STACKS)

    def _died(self, line: str) -> None:
        self._is_dead = True
        if line == FAILED:
            raise BrokerFailedError("a broker ended by an error, which is in its log")
        assert line == DEAD, line
