"""One data directory: whose it is, what is written there, and what happens when the disk fails.

Opened by `persistence`; segment files write through it. It turns failures into refusals that handlers can answer, and
logs the first of them. After a failed fsync nobody knows which bytes are on disk, and a second fsync that succeeds
proves nothing; so nothing is written any more until the broker is started again and has read what is there.
"""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any, Final

from kafka_share.broker.durability.disk import DiskError
from kafka_share.broker.refusals import Refusal
from kafka_share.errors import ConfigurationError, KafkaStorageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafka_share.broker.durability.disk import Disk

logger: logging.Logger = logging.getLogger(__name__)

FORMAT: Final = 1
"""Of everything in the directory. A broker reads this format and older ones."""
FORMAT_FILE: Final = "kafka-share-broker.json"


class DataDirectory:
    """A directory of a cluster with this many nodes, which is made if it is empty; then its cluster has `cluster_id`.

    Raises `ConfigurationError` if it belongs to anything else, and `DiskError`.
    """

    def __init__(self, disk: Disk, cluster_id: str, nodes: int) -> None:
        self.disk = disk
        self.cluster_id: str = self._claim(cluster_id, nodes)
        self._has_failed = False
        self._is_full = False
        """The last write failed."""

    def _claim(self, cluster_id: str, nodes: int) -> str:
        found = self.disk.read(FORMAT_FILE)
        if not found:
            if strangers := [name for name in self.disk.names("") if not name.startswith((".", FORMAT_FILE))]:
                raise ConfigurationError(
                    f"the data directory holds what is no broker's: {', '.join(strangers[:3])}; give an empty one"
                )
            text = json.dumps({"format": FORMAT, "cluster_id": cluster_id, "nodes": nodes})
            self.disk.replace(FORMAT_FILE, f"{text}\n".encode())
            self.disk.sync()
            return cluster_id
        facts = _facts(found)
        if facts["format"] > FORMAT:
            raise ConfigurationError(
                f"the data directory has the format {facts['format']}, of a newer kafka-share; this one knows {FORMAT}"
            )
        if facts["nodes"] != nodes:
            raise ConfigurationError(f"the data directory is of a cluster with {facts['nodes']} nodes, not {nodes}")
        return str(facts["cluster_id"])

    # ---- writing

    @property
    def has_failed(self) -> bool:
        """Whether an fsync has failed, after which nothing is written any more."""
        return self._has_failed

    @property
    def is_dirty(self) -> bool:
        """Whether there is anything to be synced."""
        return not self._has_failed and self.disk.is_dirty

    def append(self, path: str, data: bytes) -> None:
        """Write behind the end of a file. Raises `Refusal`; then the file is as before."""
        self._write(lambda: self.disk.append(path, data))

    def replace(self, path: str, data: bytes) -> None:
        """Give a file another content, once everything else that was written is on disk for sure. Raises `Refusal`."""
        self.sync()
        self._write(lambda: self.disk.replace(path, data))

    def _write(self, write: Callable[[], None]) -> None:
        if self._has_failed:
            raise Refusal(KafkaStorageError, "the disk has failed; nothing is written until the broker starts again")
        try:
            write()
        except DiskError as error:
            if not self._is_full:
                self._is_full = True
                logger.error("a write failed; what needs one is refused until writes work again: %s", error)
            raise Refusal(KafkaStorageError, f"the broker cannot write: {error}") from error
        if self._is_full:
            self._is_full = False
            logger.warning("writes work again")

    def delete(self, path: str) -> None:
        """Have a file or a folder go after the next sync."""
        self.disk.delete(path)

    def sync(self) -> None:
        """Make all that was written survive the loss of power. Raises `Refusal`."""
        self._sync(self.disk.sync)

    def sync_file(self, path: str) -> None:
        """The same for one file. Raises `Refusal`."""
        self._sync(lambda: self.disk.sync_file(path))

    def _sync(self, sync: Callable[[], None]) -> None:
        if self._has_failed:
            raise Refusal(KafkaStorageError, "the disk has failed")
        try:
            sync()
        except DiskError as error:
            self._has_failed = True
            logger.error("fsync failed; nothing is written any more until the broker starts again: %s", error)
            raise Refusal(KafkaStorageError, f"fsync failed: {error}") from error


def _facts(found: bytes) -> dict[str, Any]:
    """What the format file says. Raises `ConfigurationError`."""
    try:
        facts = json.loads(found)
        if isinstance(facts["format"], int) and isinstance(facts["nodes"], int) and facts["cluster_id"]:
            return dict(facts)
    except (ValueError, KeyError, TypeError):
        pass
    raise ConfigurationError(f"the {FORMAT_FILE} of the data directory is damaged")
