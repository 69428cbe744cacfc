"""What tox reads beside tox.ini: finds pyenv's Pythons, the newest among them, and says at the end where the tests ran.

A Python that the machine lacks is named there, since an environment that is skipped is easily overlooked; and so is
whether the compiled module or its twin in Python was tested.
"""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

from tox.plugin import impl
from tox.tox_env.api import ToxEnv
from tox.tox_env.python.api import Python

SUPPORTED: Final = ("3.11", "3.12", "3.13", "3.14")
TESTS: Final = ("oldest", "newest", *(f"py{version.replace('.', '')}" for version in SUPPORTED))
"""The environments that run the tests."""

_ran: dict[str, str] = {}
"""Version -> how the tests ended on it, in this run of tox."""


def _offer_pyenv_versions() -> None:
    """pyenv hides all versions but the active ones; here each may be used, after all others."""
    root = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser()
    folders = sorted((root / "versions").glob("3.*/bin"), reverse=True)
    os.environ["PATH"] = os.pathsep.join([os.environ["PATH"], *map(str, folders)])


def _is_here(version: str) -> bool:
    """Whether there is such a Python, and not only a shim that would not find one."""
    found = (shutil.which(f"python{version}", path=folder) for folder in os.environ["PATH"].split(os.pathsep))
    return any(_starts(path) for path in found if path is not None)


def _starts(python: str) -> bool:
    return subprocess.run([python, "-c", ""], capture_output=True, check=False).returncode == 0


def _tell() -> None:
    if not _ran:
        return
    print("Python:")  # noqa: T201
    for version in SUPPORTED:
        told = _ran.get(version) or ("not run" if _is_here(version) else "NOT RUN: this machine lacks it")
        print(f"  {version}: {told}")  # noqa: T201


@impl
def tox_after_run_commands(tox_env: ToxEnv, exit_code: int, outcomes: list[object]) -> None:
    if tox_env.name in TESTS and isinstance(tox_env, Python):
        version = tox_env.base_python.version_info
        told = "the tests passed" if exit_code == 0 else "the tests failed"
        _ran[f"{version.major}.{version.minor}"] = f"{told} ({tox_env.name}, {_implementation(tox_env)})"


def _implementation(tox_env: Python) -> str:
    """Which one the package has used in the environment; that there is nothing installed is possible as well."""
    ask = "from kafka_share import native; print('compiled' if native.IS_COMPILED else 'not compiled')"
    command = [str(tox_env.env_python()), "-P", "-c", ask]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=tox_env.environment_variables)
    return done.stdout.strip() or "not installed"


_offer_pyenv_versions()
os.environ["NEWEST_PYTHON"] = next((f"python{each}" for each in reversed(SUPPORTED) if _is_here(each)), "python3")
os.environ.setdefault("UV_SYSTEM_CERTS", "1")  # tox-uv: trust what pip trusts, such as the authority of a company
atexit.register(_tell)
