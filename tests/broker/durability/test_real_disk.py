"""The disk of this machine: what a failing write leaves behind, when things go, and how many files are open."""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafka_share.broker.durability import real_disk
from kafka_share.broker.durability.disk import DiskError
from kafka_share.broker.durability.real_disk import RealDisk


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[RealDisk]:
    disk = RealDisk(tmp_path / "data")
    yield disk
    disk.close()


def no_fsync(handle: int) -> None:
    raise OSError(errno.EIO, "Input/output error")


def test_files_are_made_appended_to_and_cut_and_only_their_owner_may_read_them(disk: RealDisk, tmp_path: Path) -> None:
    disk.append("t-0/a", b"123")
    disk.append("t-0/a", b"45")
    disk.truncate("t-0/a", 4)
    disk.append("t-0/a", b"6")
    assert disk.read("t-0/a") == b"12346"
    assert disk.read("t-0/b") == b""
    assert (disk.names(""), disk.names("t-0"), disk.names("u-0")) == (["t-0"], ["a"], [])
    assert (tmp_path / "data" / "t-0" / "a").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "data" / "t-0").stat().st_mode & 0o777 == 0o700
    assert disk.is_dirty
    disk.sync()
    assert not disk.is_dirty


def test_a_write_that_ends_in_the_middle_is_taken_back(disk: RealDisk, tmp_path: Path) -> None:
    disk.append("a", b"x" * 100)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (150, hard))  # the largest file: 50 bytes are written, then it fails
    try:
        with pytest.raises(DiskError, match=r"data/a: File too large"):
            disk.append("a", b"y" * 100)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert disk.read("a") == b"x" * 100
    disk.append("a", b"z")
    assert disk.read("a") == b"x" * 100 + b"z"


def test_a_file_whose_end_is_not_known_is_not_written_to(disk: RealDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    disk.append("a", b"x")

    def fail(handle: int, *_: object) -> int:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", fail)
        patched.setattr(os, "ftruncate", fail)
        with pytest.raises(DiskError, match="data/a: Input/output error"):
            disk.append("a", b"y")
    with pytest.raises(DiskError, match="what is at its end is not known"):
        disk.append("a", b"z")
    disk.append("b", b"z")


def test_a_failed_fsync_names_the_file(disk: RealDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    disk.append("t-0/a", b"x")
    monkeypatch.setattr(os, "fsync", no_fsync)
    with pytest.raises(DiskError, match="data/t-0/a: Input/output error"):
        disk.sync()


def test_internal_topics_are_synced_after_the_logs_that_they_tell_of(
    disk: RealDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("__share_group_state-0", "t-0", "__cluster_metadata-0", "u-0"):
        disk.append(f"{folder}/a", b"x")
    synced: list[str] = []
    monkeypatch.setattr(disk, "sync_file", synced.append)
    disk.sync()
    assert synced == ["t-0/a", "u-0/a", "__share_group_state-0/a", "__cluster_metadata-0/a"]


def test_what_is_deleted_goes_with_the_next_sync_and_not_if_that_fails(
    disk: RealDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk.append("t-0/a", b"x")
    disk.append("t-0/b", b"x")
    disk.delete("t-0/a")
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", no_fsync)
        with pytest.raises(DiskError):
            disk.sync()
    assert disk.names("t-0") == ["a", "b"]
    disk.sync()
    assert disk.names("t-0") == ["b"]
    disk.delete("t-0")
    disk.delete("never-was")
    disk.sync()
    assert disk.names("") == []


def test_a_folder_that_is_to_go_is_gone_before_another_of_its_name_is_written(disk: RealDisk) -> None:
    disk.append("t-0/a", b"old")
    disk.delete("t-0")
    disk.append("t-0/b", b"new")
    assert disk.names("t-0") == ["b"]


def test_a_file_that_is_replaced_has_the_new_content_and_leaves_nothing_else(disk: RealDisk) -> None:
    disk.replace("facts", b"old")
    disk.append("facts", b"er")
    disk.replace("facts", b"new")
    assert disk.read("facts") == b"new"
    assert disk.names("") == ["facts"]


def test_few_files_are_open_at_a_time(disk: RealDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(real_disk, "_MAX_OPEN_FILES", 3)
    before = len(os.listdir("/dev/fd"))
    for round_ in range(2):
        for number in range(20):
            disk.append(f"t-{number}/a", b"%d" % round_)
    assert len(os.listdir("/dev/fd")) <= before + 3
    disk.sync()
    assert [disk.read(f"t-{number}/a") for number in range(20)] == [b"01"] * 20
