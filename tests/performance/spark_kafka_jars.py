"""The jars of Spark's own Kafka source, by Maven, for `spark_rate`."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Final

SCALA: Final = "2.13"
_WANTED: Final = ("spark-sql-kafka-", "spark-token-provider-kafka-", "kafka-clients-", "commons-pool2-")
"""The others are in Spark."""
_COPY: Final = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
_POM: Final = """\
<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>local</groupId><artifactId>spark-kafka</artifactId><version>1</version><dependencies><dependency>
<groupId>org.apache.spark</groupId><artifactId>spark-sql-kafka-0-10_{scala}</artifactId><version>{version}</version>
</dependency></dependencies></project>
"""


class JarsMissingError(Exception):
    """Spark's Kafka source of this version cannot be had here; the text says why."""


def fetch(version: str, folder: Path) -> list[Path]:
    """Copy them into `folder`. Raises `JarsMissingError` if that is impossible."""
    if shutil.which("mvn") is None:
        raise JarsMissingError("mvn is not installed")
    pom = folder / "pom.xml"
    pom.write_text(_POM.format(scala=SCALA, version=version))
    command = ["mvn", "-q", "-B", "-ntp", "-Dstyle.color=never", "-f", str(pom), _COPY, "-DincludeScope=runtime"]
    done = subprocess.run([*command, f"-DoutputDirectory={folder}"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise JarsMissingError(f"the registry has no spark-sql-kafka-0-10_{SCALA} {version}")
    return sorted(jar for jar in folder.glob("*.jar") if jar.name.startswith(_WANTED))
