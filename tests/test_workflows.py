"""The workflow files of the public CI do what tox does: they name envs that exist, and publish what was tested."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from support.documentation import ROOT, pages

pytestmark = pytest.mark.one_python
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
PLACEHOLDER = "https://github.com/kafka-share/kafka-share"


def workflow(name: str) -> dict[str, Any]:
    loaded = yaml.safe_load((ROOT / ".github" / "workflows" / name).read_text("utf-8"))
    assert isinstance(loaded, dict)
    return loaded


def commands(job: dict[str, Any]) -> list[str]:
    return [step["run"] for step in job.get("steps", ()) if "run" in step]


def environments(job: dict[str, Any]) -> Iterator[str]:
    """The tox envs that a job runs, with the values of its matrix put in."""
    matrix = job.get("strategy", {}).get("matrix", {})
    for command in commands(job):
        for named in re.findall(r"tox run -e (\$\{\{ matrix\.\w+ \}\}|\S+)", command):
            variable = re.search(r"matrix\.(\w+)", named)
            yield from matrix[variable[1]] if variable else named.split(",")


@pytest.fixture(scope="module")
def known() -> set[str]:
    done = subprocess.run(
        [sys.executable, "-m", "tox", "list", "--no-desc"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_every_env_that_a_workflow_runs_exists(path: Any, known: set[str]) -> None:
    named = {env for job in workflow(path.name)["jobs"].values() for env in environments(job)}
    assert named <= known
    assert named or path.name == "release.yml"


def test_the_workflow_runs_what_tox_runs_without_being_told(known: set[str]) -> None:
    named = {env for job in workflow("ci.yml")["jobs"].values() for env in environments(job)}
    default = subprocess.run(
        [sys.executable, "-m", "tox", "list", "-d", "--no-desc"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert set(default.stdout.split()) - {"oldest", "newest"} <= named  # these two are names for Pythons of the matrix


def test_the_workflow_tests_every_python_that_the_package_claims() -> None:
    claimed = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
    matrix = workflow("ci.yml")["jobs"]["tests"]["strategy"]["matrix"]
    assert matrix["env"] == ["py" + version.replace(".", "") for version in claimed]
    assert [one["python"] for one in matrix["include"]] == claimed
    assert PROJECT["requires-python"] == f">={claimed[0]}"


def test_the_package_that_is_published_is_the_one_that_was_tested() -> None:
    ci, release = workflow("ci.yml")["jobs"], workflow("release.yml")["jobs"]
    built = [name for name, job in ci.items() if "build" in environments(job)]
    assert built == ["build"]
    for name in ("tests", "real-kafka"):
        assert ci[name]["needs"] == "build"
        (run,) = [command for command in commands(ci[name]) if "tox run" in command]
        assert "--installpkg" in run
    publish = release["publish"]
    assert publish["needs"] == "ci"
    assert release["ci"]["uses"] == "./.github/workflows/ci.yml"
    assert publish["permissions"] == {"id-token": "write"}
    assert not any("build" in command for command in commands(publish))


def test_the_address_of_the_project_is_the_same_everywhere() -> None:
    assert all(url.startswith(PLACEHOLDER) for url in PROJECT["urls"].values())
    for page in ("SECURITY.md", "release.md"):
        assert PLACEHOLDER in (ROOT / "docs" / page).read_text("utf-8")


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_every_env_that_a_page_names_exists(page: Any, known: set[str]) -> None:
    named = re.findall(r"tox run -e ([\w.,-]*\w)", page.read_text("utf-8"))
    assert {env for group in named for env in group.split(",")} <= known
