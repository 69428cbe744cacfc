"""A disk in memory that fills up, fails, and loses at a crash what was not synced, as badly as a real one may."""

from __future__ import annotations

from random import Random

import attrs

from kafka_share.broker.durability.disk import DiskError


class PowerLossError(Exception):
    """The machine is gone in the middle of an operation."""


@attrs.define
class _File:
    synced: bytes | None = None
    """What is there for sure; None: no such file."""
    versions: list[bytes] = attrs.Factory(list)
    """What it became since, step by step."""

    @property
    def now(self) -> bytes | None:
        return self.versions[-1] if self.versions else self.synced


class TearingDisk:
    """A `Disk`. `crash_at` is the operation, counted from 0, in the middle of which the power fails."""

    def __init__(self, random: Random, crash_at: int | None = None) -> None:
        self._random = random
        self._files: dict[str, _File] = {}
        self._doomed: list[str] = []
        self._operations = 0
        self._crash_at = crash_at
        self.full_chance: float = 0.0
        """How likely a write finds no room."""
        self.sync_fails: bool = False

    def crash_in(self, operations: int) -> None:
        """Have the power fail in the middle of the operation after so many more."""
        self._crash_at = self._operations + operations

    def after_crash(self, crash_at: int | None = None) -> TearingDisk:
        """The disk that the next broker finds: of each file what was synced, and a part of what was written since."""
        disk = TearingDisk(self._random, crash_at)
        for path, file in self._files.items():
            content = self._survivor(file)
            if content is not None:
                disk._files[path] = _File(content)
        return disk

    def _survivor(self, file: _File) -> bytes | None:
        steps = [file.synced, *file.versions]
        index = self._random.randrange(len(steps))
        before, after = steps[index], steps[min(index + 1, len(steps) - 1)]
        if after is None or not after.startswith(before or b""):
            return before  # cut off or replaced: all of that happened, or nothing
        torn = after[: self._random.randint(len(before or b""), len(after))]
        if self._random.random() < 0.3 and len(torn) > len(before or b""):
            # Its length arrived, and some of its blocks did not.
            start = self._random.randint(len(file.synced or b""), len(torn))
            stop = self._random.randint(start, len(torn))
            torn = torn[:start] + bytes(stop - start) + torn[stop:]
        return torn if torn or before is not None else None

    def _step(self) -> None:
        if self._operations == self._crash_at:
            raise PowerLossError
        self._operations += 1

    # ---- see `Disk`

    @property
    def is_dirty(self) -> bool:
        return bool(self._doomed) or any(file.versions for file in self._files.values())

    def names(self, folder: str) -> list[str]:
        inside = [
            path.removeprefix(f"{folder}/") for path in self._files if not folder or path.startswith(f"{folder}/")
        ]
        return sorted({path.split("/")[0] for path in inside})

    def read(self, path: str) -> bytes:
        file = self._files.get(path)
        return b"" if file is None else file.now or b""

    def append(self, path: str, data: bytes) -> None:
        if path in self._doomed or path.rpartition("/")[0] in self._doomed:
            self.sync()
        if self._random.random() < self.full_chance:
            raise DiskError(f"{path}: no space left on device")
        file = self._files.setdefault(path, _File())
        file.versions.append((file.now or b"") + data)
        self._step()

    def truncate(self, path: str, size: int) -> None:
        file = self._files[path]
        file.versions.append((file.now or b"")[:size])
        self._step()

    def replace(self, path: str, data: bytes) -> None:
        if self._random.random() < self.full_chance:
            raise DiskError(f"{path}: no space left on device")
        self._step()
        self._files[path] = _File(data)

    def delete(self, path: str) -> None:
        self._doomed.append(path)

    def doubt(self, path: str) -> None:
        pass

    def sync_file(self, path: str) -> None:
        self._step()
        file = self._files[path]
        file.synced, file.versions = file.now, []

    def sync(self) -> None:
        if self.sync_fails:
            raise DiskError("input/output error")
        for file in self._random.sample(list(self._files.values()), len(self._files)):
            if file.versions:
                self._step()
                file.synced, file.versions = file.now, []
        for doomed in self._doomed:
            for path in [path for path in self._files if path == doomed or path.startswith(f"{doomed}/")]:
                self._step()
                del self._files[path]
        self._doomed.clear()

    def close(self) -> None:
        pass
