"""No machine goes through a set in the order of its hashes: what it sends would depend on the seed of the process.

    python tests/static_typing/set_iteration.py FOLDER

`tox run -e types` calls it; FOLDER is kept, for the next time. Every place that breaks the rule is printed: sort first,
or keep a dict. The machines are those of tests/test_architecture.py.

Everything that is gone through is put into `reveal_type(…)` in a copy of the code, and mypy tells its type: so a set
that comes out of another file's function counts like a literal.
"""

from __future__ import annotations

import ast
import re
import shutil
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from mypy import api

sys.path.insert(0, str(Path(__file__).parent.parent))

from test_architecture import PACKAGE, sources

_KEEP_THE_ORDER: Final = {"enumerate", "extend", "fromkeys", "iter", "join", "list", "map", "next", "tuple", "zip"}
"""Calls whose result depends on the order of what they are given."""
_FORGET_THE_ORDER: Final = {"all", "any", "frozenset", "len", "max", "min", "set", "sorted", "sum", "update"}
"""Calls that may be given a generator over a set."""
_WRAPPED: Final = b"reveal_type(", b")"
_NOTE: Final = re.compile(r'^(?P<place>.+:\d+): note: Revealed type is "(?P<type>.*)"$', re.M)
_SETS: Final = ("set[", "frozenset[", "typing.AbstractSet[", "typing.MutableSet[")
_PROOF: Final = ("goes_through_a_set.py", b"for each in {1}:\n    print(each)\n")
"""A file that breaks the rule, put beside the others: who does not find it would find nothing."""


def iterations_over_sets(package: Path, files: Iterable[str], work: Path) -> list[str]:
    """`file:line` of every iteration over a set in these files of a package; `work` is kept, for the next time."""
    copy = work / package.name
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(package, copy, ignore=shutil.ignore_patterns("__pycache__"))
    name, text = _PROOF
    (copy / name).write_bytes(text)
    shown = [copy / file for file in (*files, name)]
    for file in shown:
        file.write_bytes(_with_types_revealed(file.read_bytes()))
    options = ["--config-file=", "--ignore-missing-imports", "--no-error-summary", "--hide-error-context"]
    told, problem, _ = api.run([*options, f"--cache-dir={work / 'cache'}", *map(str, shown)])
    assert not problem, problem
    notes = _NOTE.finditer(told)
    sets = (note["place"] for note in notes if any(kind.startswith(_SETS) for kind in _alternatives(note["type"])))
    places = [Path(place).absolute().relative_to(copy).as_posix() for place in sets]
    assert f"{name}:1" in places, f"mypy has other words for types now: {told}"
    return [place for place in places if not place.startswith(f"{name}:")]


def _alternatives(kind: str) -> Iterator[str]:
    """The types of a union, or the one that there is."""
    depth = start = 0
    for at, character in enumerate(kind):
        depth += {"[": 1, "]": -1}.get(character, 0)
        if depth == 0 and character == "|":
            yield kind[start:at].strip()
            start = at + 1
    yield kind[start:].strip()


def _with_types_revealed(source: bytes) -> bytes:
    lines = [b"", *source.splitlines(keepends=True)]
    opening, closing = _WRAPPED
    marks: list[tuple[int, int, bytes]] = []
    for one in _gone_through(ast.parse(source)):
        assert one.end_lineno is not None
        assert one.end_col_offset is not None
        marks += [(one.lineno, one.col_offset, opening), (one.end_lineno, one.end_col_offset, closing)]
    for line, column, text in sorted(marks, reverse=True):
        lines[line] = lines[line][:column] + text + lines[line][column:]
    return b"".join(lines)


def _gone_through(tree: ast.Module) -> Iterator[ast.expr]:
    """What is gone through one by one, where the order matters."""
    harmless: set[ast.AST] = set()
    for node in ast.walk(tree):  # a call comes before its arguments
        match node:
            case ast.For() | ast.AsyncFor():
                yield node.iter
            case ast.Starred(ctx=ast.Load()):
                yield node.value
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=args):
                if name in _KEEP_THE_ORDER:
                    yield from (each for each in args if not isinstance(each, (ast.Starred, ast.GeneratorExp)))
                elif name in _FORGET_THE_ORDER:
                    harmless.update(args)
            case ast.ListComp() | ast.GeneratorExp() | ast.DictComp():
                if node not in harmless:
                    yield from (each.iter for each in node.generators)
            case _:
                pass


def main(work: Path) -> int:
    looked_at = [source.path for source in sources().values() if source.is_machine or source.layer == "application"]
    found = iterations_over_sets(PACKAGE, [path for path in looked_at if path.endswith(".py")], work)
    sys.stderr.writelines(f"{place}: goes through a set in the order of its hashes\n" for place in found)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).absolute()))
