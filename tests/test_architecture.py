"""The rules of docs/adr/0001: who imports whom, which files may touch the world outside, and how large things get.

Each file is read once; each rule is one test, which lists every place that breaks it. One more rule needs types, so
`tox run -e types` holds it: tests/static_typing/set_iteration.py.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Final

import attrs
import pytest

pytestmark = pytest.mark.one_python
ROOT: Final = Path(__file__).parent.parent
PACKAGE: Final = ROOT / "kafka_share"

VALUES: Final[Mapping[str, set[str]]] = {
    "_version": set(),
    "harmless": set(),
    "errors": {"harmless"},
    "locks": {"native"},
    "deserializers": set(),
    "columns": {"errors", "native"},
    "records": {"columns", "errors", "native"},
    "admin_values": {"errors", "records"},
    "health": {"errors", "records"},
    "foreign_settings": set(),
    "settings": set(),
    "config_checks": {"deserializers", "errors", "records"},
    "config": {"config_checks", "deserializers", "errors", "foreign_settings", "records"},
}
"""Modules of plain values, which every part may import -> those that they import themselves."""

MAY_IMPORT: Final[Mapping[str, set[str]]] = {
    "native": set(),
    "protocol": {"native"},
    "core": {"protocol"},
    "network": {"core", "native", "protocol"},
    "application": {"core", "native", "network", "protocol"},
    "opentelemetry": {"application", "async_consumer", "consumer", "core", "worker"},
    "consumer": {"application", "core", "network"},
    "async_consumer": {"application", "core", "native", "network"},
    "producing": set(),
    "handling": {"application", "async_consumer", "consumer", "core", "network", "producing"},
    "worker": {"application", "handling", "network", "producing"},
    "bridges": {"handling", "network", "producing"},
    "admin": {"core", "network"},
    "aio": {"core", "network"},
    "broker": {"protocol"},
    "cli": {"admin", "broker", "consumer", "native", "producing", "protocol", "spark", "worker"},
    "pytest_plugin": {"broker", "consumer"},
    "spark": {"admin", "consumer"},
    "__init__": {"admin", "aio", "async_consumer", "consumer", "worker"},
    "__main__": {"cli"},
}
"""Part of the package (a folder, or a module at the top) -> the other parts that it may import, besides the values.
The table in docs/architecture.md is the same."""

WORLD: Final = {
    "asyncio", "concurrent", "multiprocessing", "os", "queue", "secrets", "select", "selectors", "signal", "socket",
    "ssl", "subprocess", "tempfile", "threading", "time",
}  # fmt: skip
"""Modules of I/O, clocks, threads and chance that no machine may import."""

CLOCKS_AND_CHANCE: Final = ("datetime.date.today", "datetime.datetime.now", "datetime.datetime.today",
                            "datetime.datetime.utcnow", "random.", "uuid.getnode", "uuid.uuid")  # fmt: skip
"""What no machine may use of modules that it may import for their types; a name with "." or "uuid" stands for all."""

GIVEN_FROM_OUTSIDE: Final = "random.Random"
"""The generator of chance: a machine may name its type, and is given one as an argument."""

MACHINES: Final = ("core", "protocol", "native", "broker")
NOT_MACHINES: Final = {
    "broker/clock.py",  # the real clock
    "broker/durability/real_disk.py",  # files
    "broker/connection.py",  # one socket
    "broker/loop_thread.py",  # the thread of the loop
    "broker/reference_broker.py",  # calls onto that thread
    "broker/resolver.py",  # the resolver of the machine
    "broker/security/guard.py",  # nonces and salts
    "broker/security/tls.py",  # certificates and their files
    "broker/server.py",  # the sockets
    "native/__init__.py",  # the variable that chooses
}
ALSO_MACHINES: Final = {
    "handling/counts.py", "handling/job.py", "handling/jobs.py", "handling/policy.py", "handling/slowness.py",
    "handling/turns.py", "network/wire.py", "producing/dead_letters.py", "producing/retries.py", "spark/lease.py",
    "spark/lease_book.py", "spark/offsets.py",
}  # fmt: skip

KAFKA_PYTHON_IN: Final = {"network", "producing", "cli"}

LONGEST_FILE: Final = 600
LONGEST_FUNCTION: Final = 70
LONGER_FUNCTIONS: Final = {"protocol/record_decoder.py _decode", "protocol/record_walk.py _step_over"}
"""Loops over the bytes of a batch: a call for each field would double the time that a record takes."""


@attrs.frozen
class Source:
    """One file of the package, read and parsed."""

    path: str
    """Below the package."""
    module: str
    text: str
    tree: ast.Module
    nodes: tuple[ast.AST, ...]
    """Of the tree: a walk through it takes longer than all that is asked of them."""

    @property
    def layer(self) -> str:
        return self.path.split("/", maxsplit=1)[0].removesuffix(".py")

    @property
    def is_machine(self) -> bool:
        return self.path in ALSO_MACHINES or (self.layer in MACHINES and self.path not in NOT_MACHINES)

    def place(self, line: int) -> str:
        return f"{self.path}:{line}"


@cache
def sources() -> Mapping[str, Source]:
    """Every file of the package by its module's name."""
    found = {}
    for path in sorted([*PACKAGE.rglob("*.py"), *PACKAGE.rglob("*.pyx")]):
        text = path.read_text("utf-8")
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        tree = ast.parse(text if path.suffix == ".py" else _python_of(text))
        found[module] = Source(path.relative_to(PACKAGE).as_posix(), module, text, tree, tuple(ast.walk(tree)))
    return found


def _python_of(cython: str) -> str:
    """The docstring of a module in Cython and its imports, which stand on one line each; all other lines are empty."""
    head, docstring, rest = re.split(r'(""".*?""")', cython, maxsplit=1, flags=re.DOTALL)
    imports = re.compile(r"\s*(import \S|from \S+ import )")
    kept = [line.strip() if imports.match(line) else "" for line in rest.splitlines()]
    return head + docstring + "\n".join(kept)


@pytest.fixture(scope="module", autouse=True)
def forget() -> Iterator[None]:
    """So many objects would slow the garbage collection of every later test."""
    yield
    sources.cache_clear()


def imports_of(source: Source) -> Iterator[tuple[str, int]]:
    """Every imported name, in full, with its line; those inside functions and for type checkers too."""
    for node in source.nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node.lineno
        elif isinstance(node, ast.ImportFrom):
            assert node.module, f"{source.place(node.lineno)}: imports are absolute"
            for alias in node.names:
                yield f"{node.module}.{alias.name}", node.lineno


def imported_modules(source: Source) -> Iterator[tuple[Source, int]]:
    """The modules of the package that a file imports, or from which it imports names."""
    for name, line in imports_of(source):
        if name.split(".")[0] == PACKAGE.name:
            there = sources().get(name) or sources()[name.rpartition(".")[0]]
            if there is not source:
                yield there, line


def names_used(source: Source) -> Iterator[tuple[str, int, bool]]:
    """Every use of an imported name, in full (`random.choice`), with its line, and whether it is called."""
    meaning: dict[str, str] = {}
    for node in source.nodes:
        if isinstance(node, ast.Import):
            meaning |= {alias.asname or alias.name.split(".")[0]: alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            meaning |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    called = {id(node.func) for node in source.nodes if isinstance(node, ast.Call)}
    for node in source.nodes:
        if isinstance(node, (ast.Name, ast.Attribute)):
            first, *rest = reversed(list(_dotted(node)))
            if first in meaning:
                yield ".".join([meaning[first], *rest]), node.lineno, id(node) in called


def _dotted(node: ast.expr) -> Iterator[str]:
    """The names of `a.b.c` from the last one to the first, which is empty where it is no name."""
    while isinstance(node, ast.Attribute):
        yield node.attr
        node = node.value
    yield node.id if isinstance(node, ast.Name) else ""


def test_a_part_imports_what_the_table_says() -> None:
    """No more, and no less: the table is as tight as the code."""
    used: dict[str, set[str]] = {source.layer: set() for source in sources().values()}
    for source in sources().values():
        used[source.layer] |= {there.layer for there, _ in imported_modules(source)} - {source.layer}
    assert {part: there for part, there in used.items() if part in VALUES} == VALUES
    assert {part: there - VALUES.keys() for part, there in used.items() if part not in VALUES} == MAY_IMPORT


def test_no_files_import_each_other_in_a_circle() -> None:
    """Those for type checkers count too: a circle of types is a circle for the reader."""
    imported = {source.module: {there.module for there, _ in imported_modules(source)} for source in sources().values()}
    while leaves := [module for module, there in imported.items() if not there]:
        imported = {module: there.difference(leaves) for module, there in imported.items() if module not in leaves}
    while needed_by_none := imported.keys() - {there for those in imported.values() for there in those}:
        imported = {module: there for module, there in imported.items() if module not in needed_by_none}
    assert imported == {}, "these files are in a circle, or between two"


def test_a_machine_imports_nothing_of_the_world_outside() -> None:
    broken = [
        f"{source.place(line)} imports {name}"
        for source in sources().values()
        if source.is_machine
        for name, line in imports_of(source)
        if name.split(".")[0] in WORLD
    ]
    assert broken == []


def test_a_machine_reads_no_clock_and_takes_no_chance() -> None:
    broken = [
        f"{source.place(line)} uses {name}"
        for source in sources().values()
        if source.is_machine
        for name, line, is_called in names_used(source)
        if name.startswith(CLOCKS_AND_CHANCE) and (is_called or name != GIVEN_FROM_OUTSIDE)
    ]
    assert broken == []


def test_kafka_python_is_used_by_few_layers() -> None:
    broken = [
        f"{source.place(line)} imports {name}"
        for source in sources().values()
        for name, line in imports_of(source)
        if name.split(".")[0] == "kafka" and source.layer not in KAFKA_PYTHON_IN
    ]
    assert broken == []


def test_a_file_stays_small() -> None:
    written = [source for source in sources().values() if "\nGenerated by tools/" not in source.text[:500]]
    lengths = {source.path: len(source.text.splitlines()) for source in written}
    assert {path: length for path, length in lengths.items() if length > LONGEST_FILE} == {}


def test_a_function_stays_small() -> None:
    lengths = {
        f"{source.path} {node.name}": (node.end_lineno or node.lineno) - node.lineno + 1
        for source in sources().values()
        for node in source.nodes
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    }
    assert {name for name, length in lengths.items() if length > LONGEST_FUNCTION} == LONGER_FUNCTIONS


def test_a_file_says_what_it_promises() -> None:
    files = [source for source in sources().values() if source.text.strip()]
    assert [source.path for source in files if not ast.get_docstring(source.tree)] == []
