"""The coverage-guided fuzz: atheris looks which of the product's branches an input reaches, and goes on from there.

PYTHONPATH=tests python -P -m fuzz.guided batches --seconds 300
PYTHONPATH=tests python -P -m fuzz.guided batches --input fuzz-logs/batches/crash-…

`tox run -e guided` has the compiled module built so that its branches are seen too, and its memory errors. A finding
ends the run: what was wrong is printed, and the input is kept. Inputs that reached something new are kept as well, and
the next run begins with them.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path
from typing import Any, Final

INSTRUMENTED: Final = (
    "kafka_share.application.decoding",
    "kafka_share.broker",
    "kafka_share.native",
    "kafka_share.protocol",
)
"""What is worth a look in Python: the rest of the package has no part in it."""
NAMES: Final = ("batches", "messages", "ledgers", "broker")
LARGEST_INPUT_BYTES: Final = 1 << 15
INPUT_TIMEOUT_S: Final = 20
MEMORY_MB: Final = 2_048


def main(arguments: list[str] | None = None) -> None:
    """The command. The process ends where the fuzzer ends it, with 0 if nothing was found."""
    options = _parser().parse_args(arguments)
    if options.input is not None:
        _target(options.what).run(options.input.read_bytes())
        return
    atheris: Any = importlib.import_module("atheris")
    with atheris.instrument_imports(include=list(INSTRUMENTED)):
        target = _target(options.what)
    why_pure = importlib.import_module("kafka_share.native").WHY_PURE
    if why_pure is not None:
        sys.exit(f"there is nothing to compare with the implementation in Python: {why_pure}")
    folder = options.folder / options.what
    corpus = folder / "corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    for number, data in enumerate(target.corpus()):
        (corpus / f"seed-{number:03}").write_bytes(data)
    atheris.Setup([sys.argv[0], *_settings(folder, options.seconds), str(corpus)], target.run)
    atheris.Fuzz()


def _target(name: str) -> Any:
    """Imported late: what is imported before atheris looks is not seen by it."""
    return importlib.import_module("fuzz.guided_targets").TARGETS[name]


def _settings(folder: Path, seconds: int) -> list[str]:
    return [
        f"-max_total_time={seconds}",
        f"-max_len={LARGEST_INPUT_BYTES}",
        f"-timeout={INPUT_TIMEOUT_S}",
        f"-rss_limit_mb={MEMORY_MB}",
        f"-artifact_prefix={folder}/",
        "-print_final_stats=1",
    ]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=NAMES)
    parser.add_argument("--seconds", type=int, default=60, metavar="N", help="how long [default: %(default)s]")
    parser.add_argument("--input", type=Path, metavar="FILE", help="try this one, without a fuzzer")
    parser.add_argument(
        "--folder", type=Path, default=Path("fuzz-logs"), metavar="FOLDER", help="where inputs are kept"
    )
    return parser


if __name__ == "__main__":
    main()
