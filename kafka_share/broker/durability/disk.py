"""The disk as everything above it sees it: a few operations on the files of one directory, and the error they raise.

`real_disk` is the real one. The tests have one that fills up, fails and tears: at a crash it keeps what was synced and
any part of the rest. Paths are relative to the directory, with "/" between their parts; folders are made when a file
in them is.
"""

from __future__ import annotations

from typing import Final, Protocol

TEMPORARY: Final = ".tmp"
"""Behind the name of a file that is about to take the place of another one; one that is found came to nothing."""


class DiskError(Exception):
    """The operating system could not do it: the disk is full or broken, or nobody may write there. Says which file."""


class Disk(Protocol):
    """One directory. Every method may raise `DiskError`.

    What `append` and `truncate` have done survives the death of the process at once, and the loss of power after the
    next `sync`; what `replace` has done survives both at once.
    """

    @property
    def is_dirty(self) -> bool:
        """Whether there is anything that `sync` would do."""

    def names(self, folder: str) -> list[str]:
        """What is in a folder ("": the directory itself), in order; nothing if there is no such folder."""

    def read(self, path: str) -> bytes:
        """The whole file; b"" if there is none."""

    def append(self, path: str, data: bytes) -> None:
        """Write behind the end of a file, which is made if need be.

        If it raises, the file is as before; where even that failed, all later writes to this file raise too.
        """

    def truncate(self, path: str, size: int) -> None:
        """Cut a file off."""

    def replace(self, path: str, data: bytes) -> None:
        """Give a file this content: whenever the power fails, it has the old one or the new one, whole."""

    def delete(self, path: str) -> None:
        """Have a file go, or a folder with all files in it, as soon as all that was done before has been synced."""

    def doubt(self, path: str) -> None:
        """Have the next `sync` take care of a file that was found: who wrote it may not have come to that."""

    def sync_file(self, path: str) -> None:
        """Make what is in one file survive the loss of power."""

    def sync(self) -> None:
        """Make all that was done so far survive the loss of power. After a failure nothing is known."""

    def close(self) -> None:
        """Let go of the directory."""
