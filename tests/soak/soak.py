"""An hour (or whatever is asked for) of moderate load with members that join, leave and are killed.

A script, not a test: `PYTHONPATH=tests python -m soak.soak --minutes 60`. It starts the bundled broker in a process of
its own (or uses `--bootstrap-server`), produces at a steady rate, and keeps two to five members consuming, each in a
process of its own: every few seconds one joins, leaves by close, or is killed. One member lives through the whole run;
its memory and the broker's are printed at every step. At the end production stops, the group drains, and the account is
made: nothing lost, nothing settled twice, nothing seen again after it was settled. Exit code 1 if any of that fails.
Consumed records are deleted from the log every minute, as retention would do. Needs an installed `kafka_share`, or the
repository in PYTHONPATH. `test_soak.py` runs it for seconds.
"""

# ruff: noqa: T201 - a command line of its own

from __future__ import annotations

import argparse
import contextlib
import random
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from kafka import KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient
from soak.audit import Audit

from kafka_share import KafkaShareAdmin, KafkaShareError
from kafka_share.cli.demo.cluster import Cluster

PARTITIONS: Final = 4
VALUE: Final = b"x" * 100
_MEMBER: Final = Path(__file__).with_name("member.py")
_BROKER: Final = "from kafka_share.cli.broker import main; main()"
_PATIENCE_S: Final = 120
"""For start, drain and stop: far longer than a lock (30 s) and a session (45 s) of a killed member."""


def arguments(words: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60, help="how long to produce (default: %(default)s)")
    parser.add_argument("--rate", type=int, default=300, help="records per second (default: %(default)s)")
    parser.add_argument("--step-minutes", type=float, default=5, help="between rows of the table (default: 5)")
    parser.add_argument("--churn-seconds", type=float, default=10, help="between joins, leaves, kills (default: 10)")
    parser.add_argument("--seed", type=int, default=1, help="of the choice who joins, leaves, dies (default: 1)")
    parser.add_argument("--lock-ms", type=int, default=30_000, help="acquisition lock (default: %(default)s)")
    parser.add_argument("--bootstrap-server", help="a running broker to use (default: start the bundled one)")
    parser.add_argument("--broker-pid", type=int, help="process of that broker, to print its memory")
    return parser.parse_args(words)


def resident_mib(pid: int | None) -> float | None:
    """Resident memory of a process, where the system tells it."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS:")), None)


class Member:
    """A member's process; a thread reads what it says into the account."""

    def __init__(self, soak: Soak, number: int, mode: str) -> None:
        self.name = f"member-{number}"
        command = [sys.executable, str(_MEMBER), soak.bootstrap_server, soak.topic, soak.group_id, mode, str(number)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self._soak = soak
        self._ready = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            for line in lines:
                self._ready.set()
                self._soak.heard(self.name, line)

    def end(self, number: signal.Signals) -> int:
        """The exit code; all that it said has been heard. Before its first word a process could not leave in order."""
        self._ready.wait(_PATIENCE_S)
        self.process.send_signal(number)
        code = self.process.wait(_PATIENCE_S)
        self._reader.join(_PATIENCE_S)
        return code


class Soak:
    """One run: producer, members, account."""

    def __init__(
        self, options: argparse.Namespace, admin: KafkaShareAdmin, bootstrap_server: str, broker_pid: int | None
    ) -> None:
        run = uuid.uuid4().hex[:8]
        self.topic, self.group_id = f"soak-{run}", f"soak-{run}"
        self.bootstrap_server = bootstrap_server
        self.audit = Audit()
        self.joined = self.left = self.killed = 0
        self._options = options
        self._admin = admin
        self._broker_pid = broker_pid
        self._source = random.Random(options.seed)
        self._lock = threading.Lock()
        self._members: list[Member] = []
        self._producing = threading.Event()
        self._producing.set()
        self._wrong_exits: list[str] = []

    # ---- the account

    def heard(self, member: str, line: str) -> None:
        words = line.split()
        with self._lock:
            if words[0] == "D":
                for said in words[2:]:
                    offset, count = said.split(":")
                    self.audit.delivered(member, int(words[1]), int(offset), int(count))
            elif words[0] == "A":
                for said in words[4:]:
                    offset, count = said.split(":")
                    error = None if words[3] == "-" else words[3]
                    self.audit.acknowledged(member, int(words[1]), int(offset), words[2], int(count), error)

    # ---- load

    def _produce(self) -> None:
        producer = KafkaProducer(bootstrap_servers=self.bootstrap_server.split(","), linger_ms=20)
        begun, sent = time.monotonic(), 0
        while self._producing.is_set():
            due = int((time.monotonic() - begun) * self._options.rate)
            for number in range(sent, due):
                future = producer.send(self.topic, VALUE, partition=number % PARTITIONS)
                future.add_callback(lambda written: self._written(written.partition, written.offset))
            sent = max(sent, due)
            time.sleep(0.05)  # the pace of the producer
        producer.flush(timeout=_PATIENCE_S)
        producer.close(timeout=10)

    def _written(self, partition: int, offset: int) -> None:
        with self._lock:
            self.audit.produced(partition, offset)

    def _delete_consumed(self) -> None:
        """As retention would: what every member of the group is through with leaves the log."""
        with contextlib.closing(KafkaAdminClient(bootstrap_servers=self.bootstrap_server.split(","))) as admin:
            starts = {TopicPartition(self.topic, p): start for p, (start, _) in self._offsets().items()}
            if starts:
                admin.delete_records(starts)

    def _offsets(self) -> dict[int, tuple[int, int | None]]:
        """partition -> (start offset, lag) of what the group has stored."""
        found = self._admin.list_share_group_offsets({self.group_id: None})[self.group_id]
        if isinstance(found, KafkaShareError):
            raise found
        return {
            where.partition: (offset.start_offset, offset.lag)
            for where, offset in found.items()
            if not isinstance(offset, KafkaShareError) and offset is not None
        }

    def _lag(self) -> int | None:
        """Records that the group is not through with; None while a partition tells none."""
        lags = [lag for _, lag in self._offsets().values()]
        return sum(lag or 0 for lag in lags) if len(lags) == PARTITIONS and None not in lags else None

    # ---- members

    def _join(self) -> None:
        mode = "explicit" if self._source.random() < 0.7 else "implicit"
        self.joined += 1
        self._members.append(Member(self, self.joined, mode))

    def _churn(self) -> None:
        """The first member stays for the whole run: its memory is what is watched."""
        others = self._members[1:]
        if len(others) < 1 or (len(others) < 4 and self._source.random() < 0.5):
            self._join()
            return
        member = self._source.choice(others)
        self._members.remove(member)
        if self._source.random() < 0.5:
            self.left += 1
            code = member.end(signal.SIGTERM)
            if code:
                self._wrong_exits.append(f"{member.name} ended with exit code {code} when it was asked to leave")
        else:
            self.killed += 1
            member.end(signal.SIGKILL)

    # ---- the run

    def run(self) -> int:
        with Cluster(self.bootstrap_server, time.monotonic() + _PATIENCE_S) as cluster:
            cluster.create_topic(self.topic, PARTITIONS)
        wanted = {"share.auto.offset.reset": "earliest", "share.record.lock.duration.ms": str(self._options.lock_ms)}
        self._admin.ensure_group_config(self.group_id, wanted)
        producer = threading.Thread(target=self._produce)
        producer.start()
        begun = time.monotonic()
        self._join()
        print("minutes  produced   deliveries settled    member MiB  broker MiB  joined/left/killed", flush=True)
        self._row(0)
        step_s, churn_s = self._options.step_minutes * 60, self._options.churn_seconds
        next_row, next_churn, next_delete = step_s, churn_s, 60.0
        while (elapsed := time.monotonic() - begun) < self._options.minutes * 60:
            if elapsed >= next_churn:
                self._churn()
                next_churn += churn_s
            if elapsed >= next_delete:
                self._delete_consumed()
                next_delete += 60
            if elapsed >= next_row:
                self._row(elapsed)
                next_row += step_s
            time.sleep(0.2)  # the pace of this loop; what it does is due by the clock
        self._producing.clear()
        producer.join(_PATIENCE_S)
        return self._finish(time.monotonic() - begun)

    def _finish(self, elapsed: float) -> int:
        deadline = time.monotonic() + _PATIENCE_S + self._options.lock_ms / 1000
        while (lag := self._lag()) != 0 and time.monotonic() < deadline:
            time.sleep(0.5)  # the pace of asking for the lag
        self._row(elapsed)
        for member in self._members:
            code = member.end(signal.SIGTERM)
            if code:
                self._wrong_exits.append(f"{member.name} ended with exit code {code}")
        audit = self.audit
        lost = audit.lost()
        print(f"produced {audit.produced_count}, deliveries {audit.deliveries}, settled {audit.settled}")
        print(f"ended without a confirmed acknowledgement: {audit.unreported()} (killed members, unknown outcomes)")
        print(f"failed acknowledgements: {audit.failed or 'none'}")
        print(f"lag at the end: {lag}; lost: {len(lost)} {lost[:10]}; complaints: {len(audit.complaints)}")
        for complaint in [*audit.complaints[:20], *self._wrong_exits]:
            print(f"  {complaint}")
        return 1 if lag != 0 or lost or audit.complaints or self._wrong_exits else 0

    def _row(self, elapsed: float) -> None:
        with self._lock:
            produced, deliveries, settled = self.audit.produced_count, self.audit.deliveries, self.audit.settled
        memory = [resident_mib(self._members[0].process.pid), resident_mib(self._broker_pid)]
        mib = "".join(f"{'-' if value is None else format(value, '.1f'):<12}" for value in memory)
        churn = f"{self.joined}/{self.left}/{self.killed}"
        print(f"{elapsed / 60:<8.1f} {produced:<10} {deliveries:<10} {settled:<10} {mib}{churn}", flush=True)


@contextlib.contextmanager
def broker(options: argparse.Namespace) -> Iterator[tuple[str, int | None]]:
    """(bootstrap server, process id): the given broker, or the bundled one for as long as the block runs."""
    if options.bootstrap_server is not None:
        yield options.bootstrap_server, options.broker_pid
        return
    shortest = ["--config", f"group.share.min.record.lock.duration.ms={options.lock_ms}"]
    with subprocess.Popen([sys.executable, "-c", _BROKER, *shortest], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().removeprefix("bootstrap: ").strip(), process.pid
        finally:
            process.terminate()


def main(words: list[str] | None = None) -> int:
    options = arguments(words)
    with broker(options) as (server, broker_pid), KafkaShareAdmin(bootstrap_servers=server) as admin:
        return Soak(options, admin, server, broker_pid).run()


if __name__ == "__main__":
    sys.exit(main())
