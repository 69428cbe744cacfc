"""The jars of an Apache Kafka server, from Maven coordinates into a cache folder.

Called by `kafka_server`. Kafka's releases are ordinary Maven artifacts, so `mvn` and the registry that it is configured
for are all that is needed; nothing is unpacked, patched or installed. The cache is `$KAFKA_SHARE_KAFKA_CACHE`, by
default a folder of the user's cache directory, and holds one folder of jars for each version, about 100 MB.

Whatever makes a real Kafka impossible here (no Java, no Maven, no answer from the registry) raises
`KafkaUnavailableError` with one line that says what: tests are skipped with it, or fail if the
run was given --require-kafka.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final
from xml.sax.saxutils import escape

CACHE_VARIABLE: Final = "KAFKA_SHARE_KAFKA_CACHE"
VERSIONS: Final = ("4.1.2", "4.2.1", "4.3.1", "4.4.0")
"""The releases that the product is shown to work with, one of each minor version."""

FETCH_TIMEOUT_S: Final = 300
_SCALA: Final = "2.13"
_LOG4J: Final = "2.25.1"
_LOG_BACKEND: Final = ("log4j-slf4j-impl", "log4j-core", "log4j-1.2-api")
_COPY_GOAL: Final = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"

_PREFIX: Final = re.compile(r"\x1b\[[0-9;]*m|\[ERROR\]")
"""What mvn puts before its messages: colours and the level."""

_TOOLS_API_INSTEAD: Final[Mapping[str, str]] = MappingProxyType({"4.4.0": "4.3.1"})
"""Releases whose kafka-tools and kafka-tools-api are missing from the registry, and the interface jar that serves."""


class KafkaUnavailableError(Exception):
    """No real Kafka can run on this machine; the message is the reason, in one line."""


def cache_folder() -> Path:
    chosen = os.environ.get(CACHE_VARIABLE)
    if chosen:
        return Path(chosen).expanduser().absolute()
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "kafka_share" / "kafka"


def class_path(version: str) -> str:
    """What `java -cp` takes to run this version's classes; fetches the jars unless they are there already."""
    if shutil.which("java") is None:
        raise KafkaUnavailableError("real Kafka needs java (17 or later), which is not installed")
    folder = cache_folder() / version / "libs"
    if not any(folder.glob(f"kafka_{_SCALA}-*.jar")):
        _fetch(version, folder)
    return str(folder / "*")


def _fetch(version: str, folder: Path) -> None:
    if shutil.which("mvn") is None:
        raise KafkaUnavailableError(f"the jars of Kafka {version} are not in the cache, and mvn is not installed")
    folder.parent.mkdir(parents=True, exist_ok=True)
    # Into a folder of its own, moved when it is whole: two runs at once and an interrupted one do no harm.
    with tempfile.TemporaryDirectory(dir=folder.parent) as work:
        pom = Path(work, "pom.xml")
        pom.write_text(_pom(version), encoding="utf-8")
        jars = Path(work, "libs")
        command = ["mvn", "-q", "-B", "-ntp", "-Dstyle.color=never", "-f", str(pom), _COPY_GOAL]
        _run_maven(version, [*command, "-DincludeScope=runtime", f"-DoutputDirectory={jars}"])
        try:
            jars.rename(folder)
        except OSError:
            if not any(folder.glob("*.jar")):
                raise


def _run_maven(version: str, command: list[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        raise KafkaUnavailableError(f"mvn did not fetch Kafka {version} within {FETCH_TIMEOUT_S} s") from None
    if done.returncode != 0:
        lines = [_PREFIX.sub("", line).strip() for line in (done.stdout + done.stderr).splitlines()]
        reason = next(filter(None, lines), f"exit code {done.returncode}")
        raise KafkaUnavailableError(f"mvn could not fetch Kafka {version}: {reason[:200]}")


def _pom(version: str) -> str:
    """A project whose runtime dependencies are a Kafka server and a log backend for it."""
    instead = _TOOLS_API_INSTEAD.get(version)
    left_out = "kafka-tools-api" if instead else None
    wanted = [_dependency("org.apache.kafka", f"kafka_{_SCALA}", version, without=left_out)]
    if instead:
        wanted.append(_dependency("org.apache.kafka", "kafka-tools-api", instead))
    else:
        wanted.append(_dependency("org.apache.kafka", "kafka-tools", version))
    wanted += [_dependency("org.apache.logging.log4j", name, _LOG4J) for name in _LOG_BACKEND]
    head = '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
    return f"{head}{_coordinates('local', 'kafka-server', '1')}<dependencies>{''.join(wanted)}</dependencies></project>"


def _dependency(group: str, artifact: str, version: str, *, without: str | None = None) -> str:
    exclusion = ""
    if without is not None:
        left_out = f"<groupId>{escape(group)}</groupId><artifactId>{escape(without)}</artifactId>"
        exclusion = f"<exclusions><exclusion>{left_out}</exclusion></exclusions>"
    return f"<dependency>{_coordinates(group, artifact, version)}{exclusion}</dependency>"


def _coordinates(group: str, artifact: str, version: str) -> str:
    named = {"groupId": group, "artifactId": artifact, "version": version}
    return "".join(f"<{tag}>{escape(text)}</{tag}>" for tag, text in named.items())
