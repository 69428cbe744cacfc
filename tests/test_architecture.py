"""The layer rules of docs/adr/0001: who may import whom, and which files may touch the world outside."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "kafka_share"
FILES = sorted(PACKAGE.rglob("*.py"))

BASE = {"_version", "records", "locks", "errors", "config", "deserializers", "admin_values"}
MAY_IMPORT: dict[str, set[str]] = {
    "_version": set(),
    "errors": set(),
    "locks": set(),
    "records": {"errors", "locks"},
    "deserializers": {"errors"},
    "admin_values": {"errors", "records"},
    "config": {"errors", "records", "deserializers"},
    "protocol": BASE,
    "core": BASE | {"protocol"},
    "network": BASE | {"protocol", "core"},
    "application": BASE | {"protocol", "core", "network"},
    "opentelemetry": BASE | {"application", "consumer", "core"},
    "consumer": BASE | {"application", "core", "network"},
    "admin": BASE | {"core", "network"},
    "aio": BASE | {"core", "network"},
    "broker": BASE | {"protocol"},
    "cli": BASE | {"protocol", "core", "network", "consumer", "admin", "aio", "broker", "application", "__init__"},
    "__init__": BASE | {"consumer", "admin", "aio", "broker"},
}
"""Layer -> the other layers it may import."""

WORLD = {"asyncio", "os", "random", "select", "selectors", "signal", "socket", "ssl", "subprocess", "threading", "time"}
"""Modules with I/O, clocks, threads or randomness."""

DRIVERS_OF_THE_BROKER = {"server.py", "reference_broker.py", "clock.py"}
"""The sockets, the loop's thread, and the real clock."""


def layer_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports_of(path: Path) -> Iterator[tuple[str, int]]:
    """Every imported module (for `from x import y` both x and x.y), with its line; those for type checkers too."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node.lineno
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module, node.lineno
            if node.module == "kafka_share":
                for alias in node.names:
                    yield f"kafka_share.{alias.name}", node.lineno


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_a_file_imports_only_what_its_layer_may(path: Path) -> None:
    here = layer_of(path)
    allowed = MAY_IMPORT[here] | {here}
    for module, line in imports_of(path):
        if module.startswith("kafka_share."):
            there = module.split(".")[1]
            assert there in allowed, f"{path.name}:{line} imports {module}: {here} must not know {there}"


@pytest.mark.parametrize(
    "path",
    [p for p in FILES if layer_of(p) in ("core", "protocol", "broker") and p.name not in DRIVERS_OF_THE_BROKER],
    ids=lambda p: str(p.relative_to(PACKAGE)),
)
def test_a_machine_does_not_touch_the_world(path: Path) -> None:
    if path.name == "generate_stubs.py":
        return  # a tool for developers that writes files
    for module, line in imports_of(path):
        root = module.split(".")[0]
        if root == "random" and not uses_the_global_source(path):
            continue  # for the type of a generator that comes in as an argument
        assert root not in WORLD, f"{path.name}:{line} imports {module}"


def uses_the_global_source(path: Path) -> bool:
    """Whether a file calls a function of the module `random` itself, or makes a generator."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            owner = node.func.value
            if isinstance(owner, ast.Name) and owner.id == "random":
                return True
    return False


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_kafka_python_is_used_through_one_module_of_ours(path: Path) -> None:
    if layer_of(path) in ("protocol", "network", "cli"):
        return
    for module, line in imports_of(path):
        assert module.split(".")[0] != "kafka", f"{path.name}:{line} imports {module}"


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_a_file_stays_small_and_says_what_it_promises(path: Path) -> None:
    text = path.read_text()
    assert len(text.splitlines()) <= 600, "cut it, or say in the file why not"
    if text.strip():
        assert ast.get_docstring(ast.parse(text)), "no module docstring"


def test_no_layer_is_missing_from_the_table() -> None:
    assert {layer_of(p) for p in FILES} <= set(MAY_IMPORT)
