"""Which files are the demo's input."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafka_share.cli.demo import sources
from kafka_share.cli.demo.sources import MAX_FILE_BYTES, TOO_LARGE, UNREADABLE, Sources


def write(root: Path, name: str, data: bytes = b"") -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def test_python_files_are_found_below_the_directory_in_order(tmp_path: Path) -> None:
    for name in ("z.py", "pkg/b.py", "pkg/deep/a.py", "notes.txt", "pkg/c.pyc"):
        write(tmp_path, name, name.encode())
    found = Sources(tmp_path)
    assert len(found) == 3
    assert list(found.contents()) == [(n, n.encode()) for n in ("pkg/b.py", "pkg/deep/a.py", "z.py")]
    assert not found.left_out


def test_files_are_evenly_spread_when_there_is_a_limit(tmp_path: Path) -> None:
    for number in range(10):
        write(tmp_path, f"{number}.py")
    assert [name for name, _ in Sources(tmp_path, limit=3).contents()] == ["0.py", "3.py", "6.py"]
    assert len(Sources(tmp_path, limit=99)) == 10


def test_a_file_is_left_out_when_it_is_too_large_or_unreadable(tmp_path: Path) -> None:
    write(tmp_path, "fits.py", b"#" * MAX_FILE_BYTES)
    write(tmp_path, "large.py", b"#" * (MAX_FILE_BYTES + 1))
    write(tmp_path, "gone.py")
    found = Sources(tmp_path)
    (tmp_path / "gone.py").unlink()
    assert [name for name, _ in found.contents()] == ["fits.py"]
    assert found.left_out == {TOO_LARGE: 1, UNREADABLE: 1}


def test_installed_packages_are_passed_over_when_the_input_is_the_standard_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "standard_library", lambda: tmp_path)
    for name in ("os.py", "site-packages/click.py", "json/site-packages/odd.py"):
        write(tmp_path, name)
    assert [name for name, _ in Sources(tmp_path).contents()] == ["json/site-packages/odd.py", "os.py"]
