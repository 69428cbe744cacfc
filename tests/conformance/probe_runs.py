"""Running the two probes, Java programs that talk to a broker and print what it answers, against the reference broker.

Called by `test_wire_probe` and `test_client_probe`. WireProbe sends raw requests, ClientProbe puts Apache's own share
consumer and admin client through their paces; both wait a lot, so their scenarios are dealt out to several processes,
each with a broker of its own. They need Java (a JDK, for its compiler) and Kafka's jars (`kafka_jars`).

They run for the versions that --kafka-versions names; no real broker is started.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import attrs
import pytest
from conformance.kafka_jars import VERSIONS, KafkaUnavailableError, class_path
from conformance.probe_lines import by_step, client_line, client_step, wire_line, wire_step

PROBES: Final = Path(__file__).with_name("probes")
MINOR_VERSIONS: Final = tuple(version.rpartition(".")[0] for version in VERSIONS)

JAVA_OPTIONS: Final = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx256m", "-Dlog4j2.level=OFF")
"""A quick start, and no log between the lines."""
CHANCES: Final = 4
"""Further ones, of which the first that agrees is enough: what is truly different differs in each."""
_RUN_TIMEOUT_S: Final = 600
_STOP_TIMEOUT_S: Final = 30
_QUICK: Final = (
    "group.share.min.record.lock.duration.ms=1000",
    "group.share.min.heartbeat.interval.ms=500",
    "group.share.heartbeat.interval.ms=1000",
    "group.share.min.session.timeout.ms=2000",
)
_SINCE_4_3: Final = "group.share.assignment.interval.ms=1000"
"""Kafka's own default, which the reference broker has only when it is told; earlier versions have no such key."""


@attrs.frozen
class Probe:
    """One of the programs. `release_for`: the Kafka release whose jars it needs, by the version to compare with."""

    name: str
    prefix: str
    release_for: Callable[[str], str]
    settings: Sequence[str]
    clean: Callable[[str], str]
    step_of: Callable[[str], str]

    def reference(self, version: str) -> Mapping[str, str]:
        """Step -> what a real broker of this version answered."""
        text = (PROBES / f"{self.prefix}-{version}.txt").read_text(encoding="utf-8")
        return self.by_step(text)

    def by_step(self, text: str) -> Mapping[str, str]:
        return by_step(text.splitlines(), self.clean, self.step_of)

    def scenarios(self, version: str) -> list[str]:
        """The scenarios of the reference, in its order."""
        return list(dict.fromkeys(self.scenario_of(step) for step in self.reference(version)))

    def scenario_of(self, step: str) -> str:
        return step.split(" | ", maxsplit=1)[0]


def release(version: str) -> str:
    """The release of a minor version: "4.3.1" of "4.3"."""
    return next(found for found in VERSIONS if found.startswith(f"{version}."))


WIRE: Final = Probe(
    "WireProbe", "wire", lambda _: release("4.4"), (*_QUICK, "auto.create.topics.enable=false"), wire_line, wire_step
)
CLIENT: Final = Probe("ClientProbe", "client", release, _QUICK, client_line, client_step)


def reason_not_to_run(config: pytest.Config, version: str) -> str | None:
    """Why this version is not compared now, None if it is."""
    option = config.getoption("kafka_versions")
    chosen = os.environ.get("KAFKA_SHARE_KAFKA_VERSIONS", "") if option is None else option
    if chosen != "all" and release(version) not in [part.strip() for part in chosen.split(",")]:
        return "the probes need Java: choose versions, as in --kafka-versions 4.3.1, or all"
    if shutil.which("javac") is None or shutil.which("java") is None:
        return "the probes need a JDK (java and javac), which is not installed"
    return None


def compared(probe: Probe, version: str, known: Mapping[str, str], processes: int, folder: Path) -> dict[str, str]:
    """Step -> both lines, where the reference broker does not answer like this version of Kafka.

    Some answers are told apart by how long they took, and for some two threads of Apache's client race: on a busy
    machine a scenario that surprises (`known` are the differences that do not) is played again, alone, up to
    `CHANCES` times. Raises `KafkaUnavailableError`.
    """
    scenarios = probe.scenarios(version)
    found = differences(probe, version, answers(probe, version, scenarios, processes, folder), scenarios)
    for _ in range(CHANCES):
        doubtful = list(dict.fromkeys(probe.scenario_of(step) for step in sorted(found.keys() ^ known.keys())))
        if not doubtful:
            break
        again = differences(probe, version, answers(probe, version, doubtful, 1, folder), doubtful)
        found = {step: both for step, both in found.items() if probe.scenario_of(step) not in doubtful} | again
    return found


def answers(probe: Probe, version: str, scenarios: Sequence[str], processes: int, folder: Path) -> Mapping[str, str]:
    """Step -> what the reference broker answers as this version of Kafka. Raises `KafkaUnavailableError`."""
    jars = class_path(probe.release_for(version))
    classes = compiled(probe.name, jars, folder)
    hands = [list(scenarios[index::processes]) for index in range(processes)]
    with contextlib.ExitStack() as stack:
        runs = []
        for number, hand in enumerate(filter(None, hands)):
            address = stack.enter_context(_broker(probe, version))
            command = ["java", *JAVA_OPTIONS, "-cp", f"{classes}{os.pathsep}{jars}", probe.name, address, *hand]
            runs.append(stack.enter_context(_running(command, folder / f"{number}.txt")))
        codes = [run.wait(_RUN_TIMEOUT_S) for run in runs]
    assert not any(codes), f"{probe.name} ended with {codes}"
    found: dict[str, str] = {}
    for number in range(len(runs)):
        found.update(probe.by_step((folder / f"{number}.txt").read_text(encoding="utf-8")))
    return found


def differences(probe: Probe, version: str, answered: Mapping[str, str], scenarios: Sequence[str]) -> dict[str, str]:
    """Step -> both lines, where the reference broker does not answer like Kafka."""
    named = frozenset(scenarios)
    kafka = {step: line for step, line in probe.reference(version).items() if probe.scenario_of(step) in named}
    return {
        step: f"Kafka {version}: {kafka.get(step)}\n  here: {answered.get(step)}"
        for step in {**kafka, **answered}
        if kafka.get(step) != answered.get(step)
    }


def compiled(name: str, jars: str, folder: Path) -> Path:
    """The folder with the classes of the program of this name. Raises `KafkaUnavailableError`."""
    classes = folder / name
    source = PROBES / f"{name}.java"
    command = ["javac", "-nowarn", "-Xlint:none", "-d", str(classes), "-cp", jars, str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise KafkaUnavailableError(f"{source.name} does not compile here: {(done.stderr or done.stdout)[:200]}")
    return classes


@contextlib.contextmanager
def _running(command: Sequence[str], output: Path) -> Iterator[subprocess.Popen[bytes]]:
    with output.open("wb") as file, subprocess.Popen(command, stdout=file, stderr=subprocess.DEVNULL) as process:
        try:
            yield process
        finally:
            process.kill()


@contextlib.contextmanager
def _broker(probe: Probe, version: str) -> Iterator[str]:
    settings = [*probe.settings, *([_SINCE_4_3] if version in ("4.3", "4.4") else [])]
    command = [sys.executable, "-c", "from kafka_share.cli.broker import main; main()", "--kafka-version", version]
    for setting in settings:
        command += ["--config", setting]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            assert line.startswith("bootstrap: "), f"the reference broker did not start: {line!r}"
            yield line.removeprefix("bootstrap: ").strip()
        finally:
            process.terminate()
            process.wait(_STOP_TIMEOUT_S)
