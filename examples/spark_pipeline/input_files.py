"""The input: the Python source files below a directory, published as records, the path as key and the file as value.

`pipeline` calls it unless the records are in the topic already. What it returns is what `results` checks against.
"""

from __future__ import annotations

import sysconfig
from collections.abc import Iterator
from pathlib import Path

from kafka import KafkaProducer

MAX_FILE_BYTES = 1_000_000
"""Larger files are left out: a broker takes 1 MiB for a batch of records, and some room is for the frame."""

_INSTALLED = {"site-packages", "dist-packages"}
_SEND_S = 60

Place = tuple[str, int, int]
"""Topic, partition, offset."""


def standard_library() -> Path:
    """Where this Python has the source of its standard library."""
    return Path(sysconfig.get_path("stdlib"))


def source_files(folder: Path, limit: int | None = None) -> list[Path]:
    """The *.py files below a directory, without installed packages; at most `limit`, evenly spread."""
    files = sorted(
        file
        for file in folder.rglob("*.py")
        if _INSTALLED.isdisjoint(file.relative_to(folder).parts) and file.stat().st_size <= MAX_FILE_BYTES
    )
    if limit is None or limit >= len(files):
        return files
    return [files[number * len(files) // limit] for number in range(limit)]


def publish(folder: Path, files: list[Path], topic: str, bootstrap_servers: str) -> set[Place]:
    """Write each file as a record; returns where they are. Raises `KafkaError` of kafka-python, or OSError."""
    producer = KafkaProducer(bootstrap_servers=bootstrap_servers.split(","), compression_type="gzip", linger_ms=5)
    try:
        sent = [producer.send(topic, key=key, value=value) for key, value in _records(folder, files)]
        confirmed = [future.get(timeout=_SEND_S) for future in sent]
    finally:
        producer.close()
    return {(topic, metadata.partition, metadata.offset) for metadata in confirmed}


def _records(folder: Path, files: list[Path]) -> Iterator[tuple[bytes, bytes]]:
    for file in files:
        yield file.relative_to(folder).as_posix().encode("utf-8", "surrogateescape"), file.read_bytes()
