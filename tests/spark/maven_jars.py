"""The jars that run inside Spark and are no part of it, by Maven: for tests/spark and tests/performance."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Final

SCALA: Final = "2.13"
_COPY: Final = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
_POM: Final = """\
<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>local</groupId><artifactId>inside-spark</artifactId><version>1</version><dependencies><dependency>
<groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version>
</dependency></dependencies></project>
"""


class JarsMissingError(Exception):
    """They cannot be had here; the text says why."""


def runtime_jars(group: str, artifact: str, version: str, folder: Path) -> list[Path]:
    """Copy an artifact and all that it needs into `folder`. Raises `JarsMissingError` if that is impossible."""
    if shutil.which("mvn") is None:
        raise JarsMissingError("mvn is not installed")
    pom = folder / "pom.xml"
    pom.write_text(_POM.format(group=group, artifact=artifact, version=version))
    command = ["mvn", "-q", "-B", "-ntp", "-Dstyle.color=never", "-f", str(pom), _COPY, "-DincludeScope=runtime"]
    done = subprocess.run([*command, f"-DoutputDirectory={folder}"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise JarsMissingError(f"the registry has no {artifact} {version}")
    return sorted(folder.glob("*.jar"))
