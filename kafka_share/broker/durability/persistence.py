"""A durable broker's memory of itself: reads a data directory into a cluster, and writes what changes in it.

Opened by `ReferenceBroker`, driven by the server. Logs write for themselves, when something is appended; the rest of
what has to survive is noted here as it changes, and written to the journal by `write`, before the answers that tell of
it leave. Knows nothing of requests.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Final

from kafka_share.broker.durability.cluster_state import ENTRIES
from kafka_share.broker.durability.data_directory import FORMAT_FILE, DataDirectory
from kafka_share.broker.durability.journal import JOURNAL_FOLDER, Journal
from kafka_share.broker.durability.recovery import recover
from kafka_share.broker.durability.segment_files import SegmentFiles, is_log_file
from kafka_share.broker.refusals import Refusal
from kafka_share.broker.storage import appending
from kafka_share.broker.storage.log import Log
from kafka_share.broker.storage.log_settings import FOREVER, LogSettings
from kafka_share.broker.storage.topics import NO_TOPIC_ID
from kafka_share.errors import KafkaStorageError

if TYPE_CHECKING:
    from kafka_share.broker.cluster import Cluster
    from kafka_share.broker.durability.disk import Disk
    from kafka_share.broker.durability.journal import EntryKey
    from kafka_share.broker.storage.topics import Topic

logger: logging.Logger = logging.getLogger(__name__)

_JOURNAL_SETTINGS: Final = LogSettings(segment_bytes=2**31 - 1, segment_ms=2**62, retention_ms=FOREVER)


class Persistence:
    """Of one cluster with this many nodes. `cluster_id` counts if the directory is new.

    Raises `ConfigurationError` for a directory that is not ours, and `DiskError`.
    """

    def __init__(self, disk: Disk, cluster_id: str, nodes: int) -> None:
        self._directory = DataDirectory(disk, cluster_id, nodes)
        self._journal_files = SegmentFiles(self._directory, JOURNAL_FOLDER, NO_TOPIC_ID)
        self._journal_log = Log(lambda: _JOURNAL_SETTINGS, self._journal_files)
        self._journal = Journal(self._journal_log)
        self._cluster: Cluster | None = None
        self._files: dict[str, SegmentFiles] = {}
        """By folder, while the broker starts."""
        self._now_ms = 0
        """When `write` was called last."""
        self._changed: dict[EntryKey, None] = {}
        """Entries that may differ from what the journal has."""

    @property
    def cluster_id(self) -> str:
        return self._directory.cluster_id

    def close(self) -> None:
        """Let go of the directory; nothing is written any more."""
        self._directory.disk.close()

    # ---- the start

    def log_files(self, topic: Topic, index: int) -> SegmentFiles:
        """The files of a partition's log."""
        files = SegmentFiles(
            self._directory,
            _folder(topic.name, index),
            topic.id,
            self._write_first,
            partial(self._note, "topics", str(topic.id)),
        )
        if self._cluster is None:
            self._files[files.folder] = files
        return files

    def recover(self, cluster: Cluster, now_ms: int) -> None:
        """Fill the cluster, which is new and has logs with our files, and follow it from now on.

        Raises `DiskError` and `Refusal`, and `RemoteProtocolError` for records of coordinators that cannot be read."""
        self._now_ms = now_ms
        recover(self._journal_log, self._journal_files, 0, now_ms, self._journal.replay)
        for kind in ENTRIES.values():
            for which, entry in self._journal.entries(kind.part).items():
                kind.restore(cluster, which, entry)
        entries = self._journal.entries("topics")
        for topic in cluster.topics:
            for one, known in zip(topic.partitions, entries[str(topic.id)]["partitions"], strict=True):
                files, seen = self._files.pop(_folder(topic.name, one.partition)), partial(appending.restore, one)
                recover(one.log, files, known["start_offset"], now_ms, seen, clean_to=known.get("clean_to", 0))
            self._note("topics", str(topic.id))
        self._delete_strays(cluster)
        self._cluster = cluster
        for part in ENTRIES:
            getattr(cluster, part).on_change = partial(self._note, part)
        cluster.retention.log_advanced(now_ms)
        cluster.log_cleaner.look_later(now_ms)
        cluster.load_coordinators(now_ms)
        cluster.transactions.resume((one for topic in cluster.topics for one in topic.partitions), now_ms)
        cluster.producer_expiry.look(now_ms)
        self.write(now_ms)
        self.sync()

    def _delete_strays(self, cluster: Cluster) -> None:
        """Delete the logs of topics that are no more, or whose making was never answered."""
        known = {_folder(topic.name, one.partition) for topic in cluster.topics for one in topic.partitions}
        disk = self._directory.disk
        for name in disk.names(""):
            if name in known or name.startswith((".", FORMAT_FILE, JOURNAL_FOLDER)):
                continue
            files = disk.names(name)
            if files and all(is_log_file(file) for file in files):
                logger.warning("deleting %s, which belongs to no topic", name)
                disk.delete(name)
            else:
                logger.warning("%s in the data directory is not ours, and stays", name)

    # ---- while it runs

    def _note(self, kind: str, which: str) -> None:
        self._changed[kind, which] = None

    @property
    def is_dirty(self) -> bool:
        """Whether there is anything to be written or synced."""
        return bool(self._changed) or self._directory.is_dirty

    def _write_first(self) -> None:
        """Before a log's first file: a topic that is not in the journal has no files."""
        self.write(self._now_ms)

    def write(self, now_ms: int) -> None:
        """Hand what has changed to the operating system. Raises `Refusal`; then it is tried again next time."""
        self._now_ms = now_ms
        if not self._changed:
            return
        assert self._cluster is not None
        entries = {key: ENTRIES[key[0]].read(self._cluster, key[1]) for key in self._changed}
        self._journal.write(entries, now_ms)
        self._changed.clear()

    def sync(self) -> None:
        """Make all that was written survive the loss of power. Raises `Refusal`."""
        if self._changed:
            raise Refusal(KafkaStorageError, "the journal could not be written")
        self._directory.sync()


def _folder(topic: str, index: int) -> str:
    return f"{topic}-{index}"
