"""The files of one log: a folder "topic-partition" with a file for each segment, named by its base offset, as in Kafka.

A file holds record batches as they are on the wire, and `partition.metadata` says which topic they are of, so Apache's
`kafka-dump-log` reads them. There is no index: all that is in the files is in memory too, and `recovery` puts it there.
A segment is synced before the next one begins, so only the end of the last one can be lost with the power. Compaction
writes closed segments anew, several as one, each by one step that happens or does not. Called by `Log`, before it
changes anything in memory.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Final

from kafka_share.broker.durability.disk import TEMPORARY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from uuid import UUID

    from kafka_share.broker.durability.data_directory import DataDirectory

SUFFIX: Final = ".log"
OWNER_FILE: Final = "partition.metadata"


class SegmentFiles:
    """`begins` is called before the first file is made, and may raise `Refusal`: what is written later, elsewhere, may
    rely on the topic to be known. `noted` is called when the log begins later now, or more of it is clean."""

    def __init__(
        self,
        directory: DataDirectory,
        folder: str,
        topic_id: UUID,
        begins: Callable[[], None] = lambda: None,
        noted: Callable[[], None] = lambda: None,
    ) -> None:
        self._directory = directory
        self.folder = folder
        self._owner = f"version: 0\ntopic_id: {_kafka_id(topic_id)}\n".encode()
        self._begins = begins
        self._noted = noted
        self._exists = False
        self._active: int | None = None
        """The segment that was written to last."""

    def path(self, base_offset: int) -> str:
        """Of a segment's file."""
        return f"{self.folder}/{base_offset:020d}{SUFFIX}"

    # ---- see `LogFiles`

    def append(self, base_offset: int, data: bytes) -> None:
        if not self._exists:
            self._begins()
            self._directory.append(f"{self.folder}/{OWNER_FILE}", self._owner)
            self._exists = True
        if self._active is not None and self._active != base_offset:
            self._directory.sync_file(self.path(self._active))
        self._directory.append(self.path(base_offset), data)
        self._active = base_offset

    def start_moved(self, gone: Iterable[int]) -> None:
        self._noted()
        for base_offset in gone:
            self._directory.delete(self.path(base_offset))

    def replace(self, base_offset: int, data: bytes, gone: Iterable[int]) -> None:
        """If the broker is killed before the others are gone, they are found behind one that has their offsets."""
        self._directory.replace(self.path(base_offset), data)
        for other in gone:
            self._directory.delete(self.path(other))

    def cleaned(self) -> None:
        self._noted()

    def delete(self) -> None:
        if self._exists:
            self._directory.delete(self.folder)

    # ---- for the recovery

    def found(self) -> list[int]:
        """The base offsets of the segments on disk, ascending. What another topic of this name left goes."""
        disk = self._directory.disk
        names = disk.names(self.folder)
        if not names:
            return []
        self._exists = disk.read(f"{self.folder}/{OWNER_FILE}") == self._owner
        if not self._exists:
            disk.delete(self.folder)
            return []
        for name in names:
            if name.endswith(TEMPORARY):
                disk.delete(f"{self.folder}/{name}")
        return [int(name.removesuffix(SUFFIX)) for name in names if name.endswith(SUFFIX) and is_log_file(name)]

    def read(self, base_offset: int) -> bytes:
        """A whole segment. From now on it is there for sure, or will be with the next sync."""
        self._directory.disk.doubt(self.path(base_offset))
        return self._directory.disk.read(self.path(base_offset))

    def drop(self, base_offset: int) -> None:
        """Delete a segment that is below the log's start, or whose records are in the one before it."""
        self._directory.delete(self.path(base_offset))

    def cut(self, base_offset: int, size: int) -> None:
        """Cut a segment's file off."""
        self._directory.disk.truncate(self.path(base_offset), size)


def is_log_file(name: str) -> bool:
    """Whether we give this name to files in the folder of a log."""
    name = name.removesuffix(TEMPORARY)
    return name == OWNER_FILE or (name.endswith(SUFFIX) and name.removesuffix(SUFFIX).isdecimal())


def _kafka_id(topic_id: UUID) -> str:
    """A topic's id as Kafka writes it."""
    return base64.urlsafe_b64encode(topic_id.bytes).rstrip(b"=").decode()
