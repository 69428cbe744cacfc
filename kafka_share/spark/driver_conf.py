"""DriverConf: what can be known of Spark's configuration, which Spark does not tell a source.

The command line of the driver's JVM has what spark-submit was given, or the builder of the session that started the
JVM; the file of defaults has the rest. What a program sets later is not known. For the readers, on the driver.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import attrs

from kafka_share.spark.driver_process import driver_pid

_SUBMIT: Final = "org.apache.spark.deploy.SparkSubmit"
_FLAGS: Final = ("--verbose", "-v", "--supervise")
"""Options of spark-submit without a value."""
_DEFAULTS: Final = "spark-defaults.conf"
_MAX_MESSAGE_MIB: Final = 128
"""Spark's default."""


@attrs.frozen
class DriverConf:
    """What Spark does where nothing is known: executors elsewhere, and messages of its default size."""

    is_local: bool = False
    """Whether all tasks run on the driver's host."""
    max_message_bytes: int = _MAX_MESSAGE_MIB << 20
    """`spark.rpc.message.maxSize`: a larger task cannot be sent."""


def driver_conf() -> DriverConf:
    """Of the driver that this process belongs to."""
    command = _text(Path(f"/proc/{driver_pid()}/cmdline")).split("\0")
    return conf_of(command, os.environ.get("SPARK_CONF_DIR", ""))


def conf_of(command: Sequence[str], conf_dir: str, read: Callable[[Path], str] | None = None) -> DriverConf:
    """By the arguments of a JVM and the folder with the file of defaults."""
    given = _submitted(command)
    defaults = Path(given.get("--properties-file") or Path(conf_dir) / _DEFAULTS)
    found = {**_properties((read or _text)(defaults)), **given}
    master, mib = found.get("spark.master", ""), found.get("spark.rpc.message.maxSize", "")
    return DriverConf(
        is_local=master == "local" or master.startswith(("local[", "local-cluster[")),
        max_message_bytes=(int(mib) if mib.isdecimal() else _MAX_MESSAGE_MIB) << 20,
    )


def _submitted(command: Sequence[str]) -> dict[str, str]:
    """The options of spark-submit up to the program, whose own follow it; properties by their names."""
    found: dict[str, str] = {}
    left = [*command[command.index(_SUBMIT) + 1 :]][::-1] if _SUBMIT in command else []
    while left and left[-1].startswith("-"):
        option = left.pop()
        if option in _FLAGS:
            continue
        option, is_joined, value = option.partition("=") if option.startswith("--") else (option, "", "")
        value = value if is_joined else (left.pop() if left else "")
        if option in ("--conf", "-c"):
            name, _, value = value.partition("=")
            found[name] = value
        else:
            found["spark.master" if option == "--master" else option] = value
    return found


def _properties(text: str) -> dict[str, str]:
    """Lines of a name and a value, with white space or = between them."""
    lines = (line.strip().replace("=", " ", 1).split(None, 1) for line in text.splitlines())
    return {line[0]: line[1].strip() for line in lines if len(line) == 2 and not line[0].startswith("#")}


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8", errors="replace")
    except OSError:
        return ""
