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

pytestmark = [
    pytest.mark.one_python,
    pytest.mark.timeout(120),  # tox is asked for its envs, and starts every Python that it finds
]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PYPROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
PROJECT, TOOLS = PYPROJECT["project"], PYPROJECT["tool"]
PLACEHOLDER = "https://github.com/kafka-share/kafka-share"
_LISTED = re.compile(r"^([\w.-]+) +->", re.M)


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
def listed() -> tuple[set[str], set[str]]:
    """The envs that tox runs without being told, and all others. To ask it takes two seconds, so once for both."""
    done = subprocess.run([sys.executable, "-m", "tox", "list"], cwd=ROOT, capture_output=True, text=True, check=True)
    default, others = done.stdout.removeprefix("default environments:").split("additional environments:")
    return set(_LISTED.findall(default)), set(_LISTED.findall(others))


@pytest.fixture(scope="module")
def known(listed: tuple[set[str], set[str]]) -> set[str]:
    return listed[0] | listed[1]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_every_env_that_a_workflow_runs_exists(path: Any, known: set[str]) -> None:
    named = {env for job in workflow(path.name)["jobs"].values() for env in environments(job)}
    assert named <= known
    assert named or path.name == "release.yml"


def test_the_workflow_runs_what_tox_runs_without_being_told(listed: tuple[set[str], set[str]]) -> None:
    named = {env for job in workflow("ci.yml")["jobs"].values() for env in environments(job)}
    assert {"lint", "types", "oldest"} <= listed[0]
    assert listed[0] - {"oldest", "newest"} <= named  # these two are names for Pythons of the matrix


def test_the_workflow_tests_every_python_that_the_package_claims() -> None:
    claimed = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
    matrix = workflow("ci.yml")["jobs"]["tests"]["strategy"]["matrix"]
    assert matrix["env"] == ["py" + version.replace(".", "") for version in claimed]
    assert [one["python"] for one in matrix["include"]] == claimed
    assert PROJECT["requires-python"] == f">={claimed[0]}"


def artifacts(job: dict[str, Any], action: str) -> list[str]:
    """The names under which a job keeps what it has made ("upload"), or gets what others have made ("download")."""
    steps = [step["with"] for step in job["steps"] if step.get("uses", "").startswith(f"actions/{action}-artifact@")]
    return [step.get("name") or step["pattern"] for step in steps if step["path"] == "dist/"]


def test_the_wheels_that_are_published_are_those_that_were_tested() -> None:
    """What publishes takes all that was built; what tests installs the wheel of its platform, or the one for all."""
    ci, release = workflow("ci.yml")["jobs"], workflow("release.yml")["jobs"]
    made = {name: artifacts(job, "upload") for name, job in ci.items() if artifacts(job, "upload")}
    assert made == {"build": ["dist-pure"], "wheels": ["dist-${{ matrix.os }}"]}
    for name in ("tests", "without-compiled-module", "real-kafka", "spark"):
        (given,) = artifacts(ci[name], "download")
        assert ci[name]["needs"] == ("build" if given == "dist-pure" else "wheels")
        (run,) = [command for command in commands(ci[name]) if "tox run" in command]
        assert "--installpkg" in run
        chosen = [command for command in commands(ci[name]) if "pip download" in command]
        assert all("--no-index --find-links dist " in command for command in chosen)
        assert len(chosen) == (given != "dist-pure")
    assert set(ci["tests"]["strategy"]["matrix"]["os"]) <= set(ci["wheels"]["strategy"]["matrix"]["os"])
    publish = release["publish"]
    assert artifacts(publish, "download") == ["dist-*"]
    assert publish["needs"] == "ci"
    assert release["ci"]["uses"] == "./.github/workflows/ci.yml"
    assert publish["permissions"] == {"id-token": "write"}
    assert not any("build" in command for command in commands(publish))


def test_there_is_a_wheel_for_every_python_that_the_package_claims() -> None:
    """And for the free-threaded one; each is tried where it was built, so that none lacks its compiled module."""
    claimed = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
    short = [version.replace(".", "") for version in claimed]
    assert TOOLS["cibuildwheel"]["build"] == [*(f"cp{version}-*" for version in short), f"cp{short[-1]}t-*"]
    assert "{project}/tests/native" in TOOLS["cibuildwheel"]["test-command"]


def test_the_address_of_the_project_is_the_same_everywhere() -> None:
    assert all(url.startswith(PLACEHOLDER) for url in PROJECT["urls"].values())
    for page in ("SECURITY.md", "release.md"):
        assert PLACEHOLDER in (ROOT / "docs" / page).read_text("utf-8")


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_every_env_that_a_page_names_exists(page: Any, known: set[str]) -> None:
    named = re.findall(r"tox run -e ([\w.,-]*\w)", page.read_text("utf-8"))
    assert {env for group in named for env in group.split(",")} <= known
