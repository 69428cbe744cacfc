"""The lease agent: the process that owns a query's member of the share group (`python -m kafka_share.spark.agent`).

A query's runner starts it on the driver's host (`agent_start`), with its configuration on stdin and a pipe
on which it says that it listens, or why it cannot. It is a process and not a thread because a batch read has no
long-lived Python on the driver, because leases outlive the run that acquired them, and because code of users must not
hold up renewals. It has its own session, so that no signal to Spark's process group reaches it, and it ends when the
book says so: at the latest when its driver is gone and the grace is over. Whatever happens, it ends by `os._exit`.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
from collections.abc import Callable
from functools import partial
from typing import TextIO

from kafka_share.errors import KafkaShareError
from kafka_share.spark.agent_config import READY, AgentConfig
from kafka_share.spark.running_agent import RunningAgent

log: logging.Logger = logging.getLogger(__name__)


def run(config: AgentConfig, tell: Callable[[str], None]) -> None:
    """Be an agent until the book says that it is over. `tell` says to whoever has started it that it listens."""
    ended, end = os.pipe()  # no Event: a signal's handler must not take the lock that the waiting thread may have
    reasons: list[str] = []

    def on_stop(reason: str) -> None:
        reasons.append(reason)
        os.write(end, b".")

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda caught, _: on_stop(signal.Signals(caught).name))
    agent = RunningAgent(config, on_stop)
    try:
        tell(READY)
        os.read(ended, 1)
    finally:
        agent.close(reasons[0] if reasons else "a defect")


def _tell(starter: TextIO, text: str) -> None:
    """The starter hears one thing."""
    if not starter.closed:
        starter.write(text)
        starter.close()


def main() -> None:
    """Run with the number of the pipe as the only argument."""
    status = 1
    try:
        os.umask(0o077)
        logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
        config = AgentConfig(**json.load(sys.stdin.buffer))
        with open(int(sys.argv[1]), "w", encoding="utf-8") as starter:
            try:
                run(config, partial(_tell, starter))
                status = 0
            except (OSError, KafkaShareError, ImportError) as error:
                log.exception("the agent cannot run")
                _tell(starter, str(error))
    except BaseException:
        log.exception("the agent ends by a defect")
    finally:
        logging.shutdown()
        os._exit(status)


if __name__ == "__main__":
    main()
