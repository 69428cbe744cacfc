"""The input of the demo: the Python source files below a directory.

Called by the job. Reads each file once, when it is about to be published, so that no more than one is in memory.
"""

from __future__ import annotations

import os
import sysconfig
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

MAX_FILE_BYTES = 1_000_000
"""Larger files are left out: a broker's default limit for a record batch is 1 MiB, and some room is for the frame."""

TOO_LARGE = f"larger than {MAX_FILE_BYTES:,} bytes"
UNREADABLE = "not readable"

_NOT_THE_STANDARD_LIBRARY = frozenset({"site-packages", "dist-packages"})


def standard_library() -> Path:
    """Where the running interpreter keeps the source of its standard library."""
    return Path(sysconfig.get_path("stdlib"))


class Sources:
    """The `*.py` files below `root`, in the order of their names; at most `limit` of them, evenly spread.

    Installed packages below the standard library are no part of it and are passed over. `left_out` tells how many
    files were not read, by reason; it is complete once `contents` has been exhausted.
    """

    def __init__(self, root: Path, limit: int | None = None) -> None:
        self.root = root
        self.left_out: Counter[str] = Counter()
        names = sorted(self._find())
        if limit is not None and limit < len(names):
            names = [names[i * len(names) // limit] for i in range(limit)]
        self._names = names

    def __len__(self) -> int:
        return len(self._names)

    def _find(self) -> Iterator[str]:
        for folder, folders, files in os.walk(self.root):
            if Path(folder) == standard_library():
                folders[:] = [name for name in folders if name not in _NOT_THE_STANDARD_LIBRARY]
            for file in files:
                if file.endswith(".py"):
                    yield Path(folder, file).relative_to(self.root).as_posix()

    def contents(self) -> Iterator[tuple[str, bytes]]:
        """(name relative to the root, bytes) of each file that can be a record."""
        for name in self._names:
            try:
                with open(self.root / name, "rb") as file:
                    data = file.read(MAX_FILE_BYTES + 1)
            except OSError:
                self.left_out[UNREADABLE] += 1
                continue
            if len(data) > MAX_FILE_BYTES:
                self.left_out[TOO_LARGE] += 1
            else:
                yield name, data
