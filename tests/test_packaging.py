"""What is built from this folder: the description, the source archive, the extras and what a consumer needs."""

from __future__ import annotations

import configparser
import os
import re
import runpy
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from support.documentation import ROOT, links_of

pytestmark = pytest.mark.one_python
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
NATIVE = "kafka_share/native"
COMPILED = {".so", ".pyd"}
BUILT_IN = {"kafka_share", "LICENSE", "NOTICE", "README.md", "pyproject.toml", "setup.py", "MANIFEST.in", ".gitignore"}
"""What an archive has without a word, and what it needs not have."""


def test_links_of_the_description_lead_to_the_repository() -> None:
    """And they are those of README.md, each of which leads to something that exists."""
    description: str = runpy.run_path(str(ROOT / "setup.py"))["description"]()
    source = PROJECT["urls"]["Source"]
    relative = [link for link in links_of(ROOT / "README.md") if not link.startswith(("http", "#"))]
    assert len(relative) > 5
    for link in relative:
        path = ROOT / link.partition("#")[0]
        assert path.exists()
        assert f"]({source}/{'tree' if path.is_dir() else 'blob'}/main/{link})" in description
    assert re.findall(r"\]\((?!http|#)[^)]*\)", description) == []
    assert PROJECT["dynamic"] == ["version", "readme"]


@pytest.mark.skipif(not (ROOT / ".git").exists() or not shutil.which("git"), reason="needs the repository")
def test_the_source_archive_has_everything_that_the_repository_has() -> None:
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    lines = (ROOT / "MANIFEST.in").read_text("utf-8").splitlines()
    named = {name for line in lines if line.startswith(("graft ", "include ")) for name in line.split()[1:]}
    assert f"recursive-include {NATIVE} *.pyx *.pxd *.pxi *.h" in lines
    assert {name.split("/")[0] for name in tracked.stdout.split()} - BUILT_IN == named
    assert [name for name in tracked.stdout.split() if Path(name).suffix in COMPILED] == []


@pytest.mark.timeout(120)  # it starts a Python: on a busy machine that alone may take 20 s
def test_the_source_archive_has_the_source_of_the_compiled_module_and_a_wheel_has_none(tmp_path: Path) -> None:
    """Also when it is made where the module is not built, as `tox run -e build` does it."""
    where = ["egg_info", "--egg-base", str(tmp_path), "build_py", "--build-lib", str(tmp_path / "lib")]
    environment = os.environ | {"KAFKA_SHARE_PURE_PYTHON": "1"}
    subprocess.run([sys.executable, "setup.py", "--quiet", *where], cwd=ROOT, check=True, env=environment)
    archived = set((tmp_path / "kafka_share.egg-info" / "SOURCES.txt").read_text("utf-8").splitlines())
    files = [path for path in (ROOT / NATIVE).iterdir() if path.is_file() and path.suffix not in COMPILED]
    assert {path.relative_to(ROOT).as_posix() for path in files} <= archived
    in_wheel = {path.name for path in (tmp_path / "lib" / NATIVE).iterdir()}
    assert in_wheel == {path.name for path in files if path.suffix in {".py", ".pyi"}}


def test_every_extra_is_installed_by_somebody_who_reads_what_needs_it() -> None:
    """No extra without code, and none without a word on a page."""
    code = "\n".join(path.read_text("utf-8") for path in (ROOT / "kafka_share").rglob("*.py"))
    text = (ROOT / "README.md").read_text("utf-8")
    for extra in PROJECT["optional-dependencies"].keys() - {"dev", "test"}:
        assert re.search(rf"\[{extra}\]|extra `{extra}`", code), extra
        assert f"`{extra}`" in text, extra


@pytest.mark.timeout(120)  # it starts a Python: on a busy machine that alone may take 20 s
def test_a_consumer_imports_no_package_that_only_the_tools_need() -> None:
    """What docs/adr/0009 says about containers: it is made, and polls, where only these packages can be found."""
    allowed = "{'attr', 'attrs', 'cramjam', 'crc32c', 'kafka', 'kafka_share', 'typing_extensions'}"
    code = (
        "import sys\n"
        "from kafka_share import KafkaShareConsumer\n"
        "from kafka_share.errors import KafkaShareError\n"
        "consumer = KafkaShareConsumer('t', bootstrap_servers='127.0.0.1:1', group_id='g')\n"
        "consumer.poll(timeout_ms=0)\n"
        "consumer.close(timeout_ms=0)\n"
        "import importlib.metadata as metadata\n"
        "owners = metadata.packages_distributions()\n"
        "loaded = {name.partition('.')[0] for name in sys.modules}\n"
        f"print(sorted(name for name in loaded - {allowed} if name in owners and not name.startswith('_')))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    # setuptools, and coverage where it is measured, come with the interpreter's start.
    assert set(re.findall(r"'(\w+)'", done.stdout)) <= {"coverage", "distutils", "pkg_resources", "setuptools"}


def _scripts_without_the_extra() -> list[str]:
    """The modules of tests that environments of tox run without installing the extra `test`."""
    tox = configparser.ConfigParser(interpolation=None)
    tox.read(ROOT / "tox.ini")
    environments = [tox[name] for name in tox.sections() if name.startswith("testenv:")]
    lean = [one.get("commands", "") for one in environments if "test" not in one.get("extras", "").split(",")]
    return sorted({name for commands in lean for name in re.findall(r"python -P -m (\S+)", commands)})


@pytest.mark.timeout(120)  # it starts a Python, too
def test_what_tox_runs_without_the_extra_for_tests_imports_no_pytest() -> None:
    scripts = _scripts_without_the_extra()
    assert "simulation.simulate" in scripts
    code = f"import importlib, sys; sys.modules['pytest'] = None; [importlib.import_module(n) for n in {scripts}]"
    done = subprocess.run(
        [sys.executable, "-P", "-c", code],
        env={**os.environ, "PYTHONPATH": str(ROOT / "tests")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
