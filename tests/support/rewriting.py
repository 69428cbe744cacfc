"""What pytest makes of the test files before it runs them, made beforehand by a process for each processor.

    python tests/support/rewriting.py

Called by tox.ini. Each worker of pytest-xdist loads every file, and would rewrite the asserts of all of them first.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent.parent
COLLECT: Final = ("-P", "-m", "pytest", "--collect-only", "-qqq", "-o", "addopts=--import-mode=importlib")
"""As the workers do, on the installed package: a compiled module in this folder may be an old one."""


def main() -> int:
    """1 if a file cannot be loaded, which is shown."""
    shares = os.cpu_count() or 1
    files = sorted(map(str, (ROOT / "tests").rglob("test_*.py")), key=os.path.getsize, reverse=True)
    processes = [
        subprocess.Popen([sys.executable, *COLLECT, *files[n::shares]], cwd=ROOT, stdout=subprocess.PIPE, text=True)
        for n in range(shares)
    ]
    said = [process.communicate()[0] for process in processes]
    failed = [text for text, process in zip(said, processes, strict=True) if process.returncode]
    sys.stdout.writelines(failed)
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
