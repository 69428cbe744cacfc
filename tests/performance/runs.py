"""Runs the contestants of a row, in turns and round after round, each in a process of its own.

Used by `bench`. A result is a plain dict, so that it can be kept as JSON and shown again.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import attrs
from conformance.kafka_jars import KafkaUnavailableError
from performance import targets
from performance.java_client import JavaClient
from performance.meter import BEGUN, Task
from performance.rows import CONFLUENT, JAVA, Row
from performance.targets import Place, Target
from support.documentation import environment

_RUN_TIMEOUT_S: Final = 300
_IDLE_S: Final = 1.0
_FEWEST_POLLS: Final = 4
"""Of each consumer: the first one is not measured."""
_FEWEST_STAMPED: Final = 20

Result = dict[str, Any]
"""`row`, `contestant`, `round`; then `rate` (records/s), `cpu` (CPU seconds of the client's processes per million
records), `application_cpu` (of the threads that poll; 0: unknown), `broker_cpu` (of the broker; None: unknown),
`rss_mb` (of the largest process), `latencies_us`."""


@attrs.define
class Runner:
    """`size`: what to multiply the records of each run with. `folder`: for what is compiled, and for errors."""

    folder: Path
    size: float = 1
    java: JavaClient | None = None
    why_not: dict[str, str] = attrs.field(factory=dict)
    """Contestant -> why it does not run here."""

    def prepare(self, rows: Sequence[Row]) -> None:
        """Find out who can run."""
        wanted = {contestant for row in rows for contestant in row.contestants}
        if CONFLUENT in wanted and importlib.util.find_spec("confluent_kafka") is None:
            self.why_not[CONFLUENT] = "confluent-kafka is not installed"
        if JAVA in wanted:
            try:
                self.java = JavaClient(self.folder)
            except KafkaUnavailableError as error:
                self.why_not[JAVA] = str(error)

    def rounds(self, row: Row, target: Target, rounds: int) -> Iterator[Result]:
        """All runs of one row, the contestants in turns."""
        for number in range(rounds):
            for contestant in row.contestants:
                if contestant not in self.why_not:
                    yield {"row": row.id, "contestant": contestant, "round": number} | self.run(row, target, contestant)

    def run(self, row: Row, target: Target, contestant: str, before: Sequence[str] = ()) -> Result:
        """One run of one contestant, who may be several processes. `before` is put before its command."""
        fewest = _FEWEST_STAMPED if row.is_latency else _FEWEST_POLLS * row.max_poll_records * row.consumers
        records = max(fewest, int(row.records_of(contestant) * self.size))
        place = target.place(row.settings, records, row.consumers)
        broker_before_s = target.checked_cpu_s(place)
        task = self._task(row, place, contestant, records)
        with contextlib.ExitStack() as stack:
            running = [stack.enter_context(self._started(task, before)) for _ in range(row.consumers)]
            found = [self._result(process, place) for process in running]
        broker_s = target.checked_cpu_s(place)
        used_s = None if broker_s is None or broker_before_s is None else broker_s - broker_before_s
        return _together([one for one in found if one["records"]], used_s, records)

    def _task(self, row: Row, place: Place, contestant: str, records: int) -> Task:
        return Task(
            client=contestant,
            bootstrap=place.bootstrap,
            topic=place.topic,
            group=place.group,
            records=records,
            mode=row.mode,
            max_poll_records=row.max_poll_records,
            work=row.work,
            wait_us=row.wait_us,
            window=row.window,
            send_ahead=row.send_ahead,
            stamped=row.is_latency,
            idle_s=_IDLE_S if row.consumers > 1 else 0,
        )

    def _result(self, process: subprocess.Popen[str], place: Place) -> dict[str, Any]:
        output = _lines_of(process, place)
        if process.wait() != 0:
            said = self._error_file.read_text(encoding="utf-8", errors="replace")
            raise RuntimeError(f"a contestant ended with {process.returncode}: {said[-2_000:]}")
        lines = [line for line in output.splitlines() if line.startswith("{")]  # a profiler has its say behind it
        result: dict[str, Any] = json.loads(lines[-1])
        return result

    @property
    def _error_file(self) -> Path:
        """Of the contestants of one run together."""
        return self.folder / "errors"

    @contextlib.contextmanager
    def _started(self, task: Task, before: Sequence[str]) -> Iterator[subprocess.Popen[str]]:
        if task.client == JAVA:
            assert self.java is not None
            command = self.java.command(task)
        else:
            command = [sys.executable, "-P", "-m", "performance.contestant", json.dumps(attrs.asdict(task))]
        with (
            self._error_file.open("w") as errors,
            subprocess.Popen(
                [*before, *command], stdout=subprocess.PIPE, stderr=errors, text=True, env=environment()
            ) as process,
        ):
            limit = threading.Timer(_RUN_TIMEOUT_S, process.kill)
            limit.start()
            try:
                yield process
            finally:
                limit.cancel()
                process.kill()


def _lines_of(process: subprocess.Popen[str], place: Place) -> str:
    """What a contestant has printed at its end; what makes its records begins when it has its first one."""
    assert process.stdout is not None
    first = process.stdout.readline()
    with targets.pacing(place) if first.strip() == BEGUN else contextlib.nullcontext():
        return first + process.stdout.read()


def _together(found: list[dict[str, Any]], broker_s: float | None, records: int) -> Result:
    measured = sum(one["records"] for one in found)
    seconds = max(one["ended_at_s"] for one in found) - min(one["began_at_s"] for one in found)
    return {
        "rate": measured / seconds,
        "cpu": sum(one["cpu_s"] for one in found) / measured * 1e6,
        "application_cpu": sum(one.get("application_cpu_s", 0) for one in found) / measured * 1e6,
        "rss_mb": max(one["rss_mb"] for one in found),
        "broker_cpu": None if broker_s is None else broker_s / records * 1e6,
        "latencies_us": [latency for one in found for latency in one["latencies_us"]],
    }
