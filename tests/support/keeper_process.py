"""A process that owns the processes and the folder of one cluster, so that nothing outlives the test run.

Run by `keeper` as `python keeper_process.py FOLDER`, in a session of its own so that Ctrl-C does not reach it. It
makes FOLDER's processes its children and takes one JSON command a line on standard input, each answered with one line:

    {"start": NAME, "command": [...], "output": FILE}   -> the process id
    {"signal": NAME, "number": 9}                       -> null
    {"poll": NAME}                                      -> null while it runs, else its exit code

When its input ends, because its owner has finished with the cluster or was itself killed, it kills what still runs of
its session, its children's children too, and removes FOLDER. It imports nothing of the project: it must work when that
is broken.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any


class Keeper:
    def __init__(self) -> None:
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def obey(self, order: dict[str, Any]) -> int | None:
        if "start" in order:
            with Path(order["output"]).open("ab") as output:
                process = subprocess.Popen(
                    order["command"], stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
                )
            self._processes[order["start"]] = process
            return process.pid
        if "signal" in order:
            # Popen looks first whether the process has ended: a number that was given to another one is never hit.
            self._processes[order["signal"]].send_signal(order["number"])
            return None
        return self._processes[order["poll"]].poll()

    def kill_all(self) -> None:
        for process in self._processes.values():
            process.kill()
        for process in self._processes.values():
            process.wait()
        for grandchild in _others_of_this_session():
            with contextlib.suppress(ProcessLookupError):
                os.kill(grandchild, signal.SIGKILL)


def _others_of_this_session() -> list[int]:
    """Where the system shows its processes as files: Linux. None if the session is not this process's own."""
    found: list[int] = []
    if os.getsid(0) != os.getpid():
        return found
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if int(entry.name) != os.getpid() and os.getsid(int(entry.name)) == os.getpid():
                found.append(int(entry.name))
    return found


def main(folder: str) -> None:
    for ignored in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(ignored, signal.SIG_IGN)  # the end of the input is the one reason to end
    keeper = Keeper()
    try:
        for line in sys.stdin:
            sys.stdout.write(json.dumps(keeper.obey(json.loads(line))) + "\n")
            sys.stdout.flush()
    except BrokenPipeError:
        pass
    finally:
        keeper.kill_all()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(sys.argv[1])
