"""The directory that a durable broker keeps everything in, on the disk of this machine.

Opened by `ReferenceBroker` when it starts and used on its thread alone. It holds a lock, so that no second broker
writes there: on the directory and not on a file in it, since one that turns out not to be ours has to stay as it was.
Files and folders are readable by their owner only: they have what producers sent.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections import OrderedDict
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from kafka_share.broker.durability.disk import TEMPORARY, DiskError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_MAX_OPEN_FILES: Final = 128
"""The file that was used least recently is closed first."""
_FILE_MODE: Final = 0o600
_FOLDER_MODE: Final = 0o700
_IN_USE: Final = (errno.EAGAIN, errno.EACCES)


class RealDisk:
    """A `Disk` in `root`, which is made if it does not exist. Raises `DiskError` if another process has it open."""

    def __init__(self, root: Path) -> None:
        self._root = os.fspath(root)
        self._open: OrderedDict[str, int] = OrderedDict()
        self._unsynced: dict[str, None] = {}
        self._changed_folders: dict[str, None] = {}
        """Those in which names were made, changed or removed since the last sync."""
        self._doomed: dict[str, None] = {}
        """Files and folders that go after the next sync."""
        self._broken: set[str] = set()
        """Files whose end is not known: a write failed, and could not be taken back."""
        with self._errors(""):
            os.makedirs(self._root, _FOLDER_MODE, exist_ok=True)
            self._lock = os.open(self._root, os.O_RDONLY)
        try:
            _lock(self._lock)
        except OSError as error:
            os.close(self._lock)
            if error.errno in _IN_USE:
                raise DiskError(f"another broker uses the directory {self._root}") from None
            raise DiskError(f"{self._root} cannot be locked: {error.strerror or error}") from error

    def close(self) -> None:
        for handle in self._open.values():
            os.close(handle)
        self._open.clear()
        os.close(self._lock)

    # ---- reading

    @property
    def is_dirty(self) -> bool:
        return bool(self._unsynced or self._changed_folders or self._doomed)

    def names(self, folder: str) -> list[str]:
        with self._errors(folder):
            try:
                return sorted(os.listdir(self._full(folder)))
            except FileNotFoundError:
                return []

    def read(self, path: str) -> bytes:
        with self._errors(path):
            try:
                with open(self._full(path), "rb") as file:
                    return file.read()
            except FileNotFoundError:
                return b""

    # ---- writing

    def append(self, path: str, data: bytes) -> None:
        if path in self._broken:
            raise DiskError(f"{self._full(path)}: an earlier write failed, and what is at its end is not known")
        if self._doomed and (path in self._doomed or path.rpartition("/")[0] in self._doomed):
            self.sync()
        size = -1
        try:
            handle = self._handle(path)
            size = os.fstat(handle).st_size
            _write_all(handle, data)
        except OSError as error:
            self._take_back(path, size)
            raise self._error(path, error) from error
        self._unsynced[path] = None

    def _take_back(self, path: str, size: int) -> None:
        """Cut off what came of a write that failed; -1 if nothing was written."""
        try:
            if size >= 0:
                os.ftruncate(self._handle(path), size)
        except OSError:
            self._broken.add(path)

    def truncate(self, path: str, size: int) -> None:
        with self._errors(path):
            os.ftruncate(self._handle(path), size)
        self._unsynced[path] = None

    def replace(self, path: str, data: bytes) -> None:
        new = path + TEMPORARY
        with self._errors(path):
            handle = os.open(self._full(new), os.O_CREAT | os.O_WRONLY | os.O_TRUNC, _FILE_MODE)
            try:
                _write_all(handle, data)
                os.fsync(handle)
            finally:
                os.close(handle)
            self._close(path)
            os.replace(self._full(new), self._full(path))
            _sync_folder(self._full(path.rpartition("/")[0]))
        self._unsynced.pop(path, None)

    def delete(self, path: str) -> None:
        self._doomed[path] = None

    def doubt(self, path: str) -> None:
        self._unsynced[path] = None
        self._changed(path)
        self._changed(path.rpartition("/")[0])

    def sync_file(self, path: str) -> None:
        with self._errors(path):
            os.fsync(self._handle(path))
        self._unsynced.pop(path, None)

    def sync(self) -> None:
        for path in sorted(self._unsynced, key=_tells_of_others):
            self.sync_file(path)
        for folder in self._changed_folders:
            with self._errors(folder):
                _sync_folder(self._full(folder))
        self._changed_folders.clear()
        doomed, self._doomed = self._doomed, {}
        for path in doomed:
            with self._errors(path):
                self._remove(path)

    def _remove(self, path: str) -> None:
        """That the name is gone need not survive: who finds the file again deletes it again."""
        for one in [one for one in self._open if one == path or one.startswith(f"{path}/")]:
            self._close(one)
        if os.path.isdir(self._full(path)):
            shutil.rmtree(self._full(path))
        else:
            with suppress(FileNotFoundError):
                os.remove(self._full(path))

    # ---- inside

    def _full(self, path: str) -> str:
        return f"{self._root}/{path}" if path else self._root

    def _handle(self, path: str) -> int:
        """The open file, which is made if need be."""
        handle = self._open.get(path)
        if handle is not None:
            self._open.move_to_end(path)
            return handle
        try:
            handle = os.open(self._full(path), os.O_RDWR | os.O_APPEND)
        except FileNotFoundError:
            handle = self._make(path)
        self._open[path] = handle
        if len(self._open) > _MAX_OPEN_FILES:
            oldest = next(iter(self._open))
            if oldest in self._unsynced:
                os.fsync(self._open[oldest])  # an error that nobody has open is told to nobody
            self._close(oldest)
        return handle

    def _make(self, path: str) -> int:
        folder = path.rpartition("/")[0]
        if folder:
            with suppress(FileExistsError):
                os.mkdir(self._full(folder), _FOLDER_MODE)
                self._changed(folder)
        self._changed(path)
        return os.open(self._full(path), os.O_RDWR | os.O_APPEND | os.O_CREAT, _FILE_MODE)

    def _changed(self, path: str) -> None:
        """A name was made or removed."""
        self._changed_folders[path.rpartition("/")[0]] = None

    def _close(self, path: str) -> None:
        handle = self._open.pop(path, None)
        if handle is not None:
            os.close(handle)

    @contextmanager
    def _errors(self, path: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise self._error(path, error) from error

    def _error(self, path: str, error: OSError) -> DiskError:
        return DiskError(f"{self._full(path)}: {error.strerror or error}")


def _tells_of_others(path: str) -> bool:
    """Internal topics and the journal go last: they may say what became of records that are in other logs."""
    return path.startswith("__")


def _write_all(handle: int, data: bytes) -> None:
    written = os.write(handle, data)
    while written < len(data):
        written += os.write(handle, memoryview(data)[written:])


def _sync_folder(path: str) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _lock(handle: int) -> None:
    """Lock a directory until it is closed, or this process ends. Raises `OSError` if another process has it."""
    import fcntl  # there is none on Windows, where a broker without a data directory runs all the same

    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
