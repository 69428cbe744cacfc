"""All that type checkers say of the project: `tox run -e types` calls it.

    python tests/static_typing/check.py FOLDER

FOLDER is for what is made on the way. A type checker uses one processor, so two lines of commands run side by side;
each prints what it has to say when it has ended, in the order in which they stand here.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).parent
ROOT: Final = HERE.parent.parent

Command = Sequence[str]


def lines_of(pages: str) -> tuple[tuple[Command, ...], ...]:
    """What runs side by side, each as long as the other; the commands of a line one after the other."""
    return (
        (
            ("mypy",),
            ("mypy", "--strict", "--scripts-are-modules", pages),  # with what the first one has kept of the package
            ("basedpyright", "--verifytypes", "kafka_share", "--ignoreexternal"),
        ),
        (
            (sys.executable, str(HERE / "set_iteration.py"), str(ROOT / ".mypy_cache" / "sets")),
            ("basedpyright",),
            ("basedpyright", "--level", "error", pages),
        ),
    )


def run(line: Sequence[Command]) -> list[tuple[Command, subprocess.CompletedProcess[str]]]:
    """Each command of a line, with what became of it; all of them, whatever the earlier ones say."""
    return [(one, subprocess.run(one, cwd=ROOT, capture_output=True, text=True, check=False)) for one in line]


def main(folder: Path) -> int:
    pages = str(folder / "pages")
    lines = lines_of(pages)
    done = run([(sys.executable, str(HERE / "pages.py"), pages)])
    with ThreadPoolExecutor(len(lines)) as side_by_side:
        done += [one for line in side_by_side.map(run, lines) for one in line]
    for command, result in done:
        sys.stdout.write(f"$ {' '.join(command)}\n{result.stdout}{result.stderr}")
    return int(any(result.returncode for _, result in done))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).absolute()))
