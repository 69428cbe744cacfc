"""agentMode=embedded: the lease agent as threads of the runner, for where nobody may start processes.

For streaming queries only: the runner lives as long as a run of the query. The agent ends with it, so there is no
grace. Spark ends the runner of a stopped query by SIGTERM, after which Python would not leave the group: a handler sees
to it.
"""

from __future__ import annotations

import atexit
import signal
import sys
import threading
from typing import Final

from kafka_share.spark.agent_config import AgentConfig
from kafka_share.spark.running_agent import RunningAgent

_END_S: Final = 10


def run_embedded(config: AgentConfig) -> None:
    """Start an agent in this process, and end it with the process. Called on the main thread."""
    ended = threading.Event()
    reasons: list[str] = []

    def on_stop(reason: str) -> None:
        reasons.append(reason)
        ended.set()

    agent = RunningAgent(config, on_stop)

    def end() -> None:
        ended.wait()
        agent.close(reasons[0])

    ending = threading.Thread(target=end, name="embedded-agent", daemon=True)
    ending.start()

    def finish() -> None:
        on_stop("the runner ends")
        ending.join(_END_S)

    atexit.register(finish)
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
