"""The description that package indexes show: README.md, with links that lead somewhere outside the repository too.

Everything else about the package stands in pyproject.toml.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from setuptools import setup

ROOT = Path(__file__).resolve().parent


def description() -> str:
    """README.md with absolute links to the repository of `[project.urls]`."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    source = project["urls"]["Source"]

    def absolute(link: re.Match[str]) -> str:
        path = link[1].partition("#")[0]
        return f"]({source}/{'tree' if (ROOT / path).is_dir() else 'blob'}/main/{link[1]})"

    return re.sub(r"\]\((?![a-z]+:|#)([^)\s]+)\)", absolute, (ROOT / "README.md").read_text("utf-8"))


if __name__ == "__main__":
    setup(long_description=description(), long_description_content_type="text/markdown")
