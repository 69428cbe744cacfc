"""Which implementation runs, and that the two offer the same."""

from __future__ import annotations

import ast
import importlib.metadata
import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from click.testing import CliRunner
from native.implementations import implementation

import kafka_share.native
from kafka_share import KafkaShareConsumer
from kafka_share.application.speed import say_if_not_compiled
from kafka_share.cli.main import main

FOLDER = Path(__file__).parents[2] / "kafka_share" / "native"
FOR_TESTS = {"CRC32C_BY", "crc32c_by_table"}
"""What only the compiled module has."""

IS_PURE_WHEEL = "Root-Is-Purelib: true" in (importlib.metadata.distribution("kafka-share").read_text("WHEEL") or "")
"""Whether the package was built with KAFKA_SHARE_PURE_PYTHON=1."""
HAS_COMPILER = "CI" in os.environ or any(map(shutil.which, ("cc", "gcc", "clang", "cl")))
WHY_NONE = (
    "the package was built without the compiled module on purpose" if IS_PURE_WHEEL
    else None if HAS_COMPILER
    else "there is no C compiler here"
)  # fmt: skip
"""Why it is right that there is no compiled module, if so."""


def stub() -> dict[str, set[str]]:
    """The public names that the .pyi gives to the compiled module, each with those of its members, if it is a class."""
    tree = ast.parse((FOLDER / "_compiled.pyi").read_text("utf-8"))
    return {name: _names(node.body) if isinstance(node, ast.ClassDef) else set() for name, node in _named(tree.body)}


def _names(body: list[ast.stmt]) -> set[str]:
    return {name for name, _ in _named(body)}


def _named(body: list[ast.stmt]) -> Iterator[tuple[str, ast.stmt]]:
    for node in body:
        name = ast.unparse(node.target) if isinstance(node, ast.AnnAssign) else getattr(node, "name", "_")
        if _is_public(name):
            yield name, node


def _is_public(name: str) -> bool:
    return not name.startswith("_")


def said_by_another_process(first: str = "", **variables: str) -> str:
    code = f"{first}\nfrom kafka_share import native; print(native.IS_COMPILED, native.WHY_PURE, native.crc32c(b'abc'))"
    environment = {name: value for name, value in os.environ.items() if name != "KAFKA_SHARE_PURE_PYTHON"} | variables
    command = [sys.executable, "-P", "-c", code]  # the installed package, not the checkout
    return subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout.strip()


@pytest.mark.skipif(WHY_NONE is not None, reason=str(WHY_NONE))
def test_the_compiled_module_is_there_unless_it_was_not_asked_for() -> None:
    """So that no run passes on the twin alone because the module could not be built."""
    from kafka_share.native import _compiled

    assert _compiled.crc32c(b"123456789") == 0xE3069283


@pytest.mark.skipif("ASAN_OPTIONS" not in os.environ, reason="runs in `tox run -e sanitize`")
def test_the_compiled_module_is_built_with_the_sanitizers_that_are_to_look_at_it() -> None:
    built = Path(implementation("compiled").__file__ or "").read_bytes()
    assert b"__asan_init" in built
    assert b"__ubsan_handle" in built


def test_the_rest_of_the_package_uses_what_the_environment_asks_for() -> None:
    asked_for_python = os.environ.get("KAFKA_SHARE_PURE_PYTHON") == "1"
    expected = not asked_for_python and WHY_NONE is None
    assert expected == kafka_share.native.IS_COMPILED
    assert (kafka_share.native.WHY_PURE is None) == kafka_share.native.IS_COMPILED
    home = "_compiled" if expected else "_pure"
    assert kafka_share.native.crc32c.__module__ == f"kafka_share.native.{home}"


@pytest.mark.timeout(120)  # it starts a Python: on a busy machine that alone may take 20 s
def test_the_variable_chooses_python_although_the_compiled_module_is_there() -> None:
    assert (
        said_by_another_process(KAFKA_SHARE_PURE_PYTHON="1")
        == "False KAFKA_SHARE_PURE_PYTHON=1 is set; unset it 910901175"
    )


@pytest.mark.timeout(120)  # it starts a Python: on a busy machine that alone may take 20 s
def test_python_runs_and_says_why_when_the_compiled_module_cannot_be_imported() -> None:
    said = said_by_another_process("import sys; sys.modules['kafka_share.native._compiled'] = None")
    assert said.startswith("False import of kafka_share.native._compiled halted")
    assert said.endswith(
        "; install kafka-share again where there is a C compiler, or from a wheel for this platform 910901175"
    )


@pytest.mark.parametrize("told", [None, "there is a reason"])
def test_the_first_consumer_says_once_that_the_compiled_module_is_not_used(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, told: str | None
) -> None:
    caplog.set_level(logging.INFO, "kafka_share")
    monkeypatch.setattr(kafka_share.native, "WHY_PURE", told)
    say_if_not_compiled.cache_clear()
    for _ in range(2):
        KafkaShareConsumer("t", bootstrap_servers="127.0.0.1:1", group_id="g").close(timeout_ms=0)
    said = [(record.levelname, record.getMessage()) for record in caplog.records if record.name == "kafka_share"]
    text = "kafka_share: the compiled module is not used, so that each record takes more CPU time: there is a reason"
    assert said == ([] if told is None else [("INFO", text)])


@pytest.mark.parametrize(
    ("told", "how"), [(None, "compiled"), ("there is a reason", "not compiled: there is a reason")]
)
def test_the_version_of_the_command_says_whether_it_is_compiled(
    monkeypatch: pytest.MonkeyPatch, told: str | None, how: str
) -> None:
    monkeypatch.setattr(kafka_share.native, "WHY_PURE", told)
    result = CliRunner().invoke(main, ["--version"])
    assert result.output == f"kafka-share, version {kafka_share.__version__}, {how}\n"


def test_each_implementation_has_what_type_checkers_are_told(native: ModuleType) -> None:
    """And the compiled classes have no members besides. A class that the twin lacks is None there."""
    is_pure = native.__name__.endswith("_pure")
    told = {name: members for name, members in stub().items() if not (is_pure and name in FOR_TESTS)}
    assert stub().keys() >= FOR_TESTS
    assert told.keys() <= set(vars(native))
    for name, members in told.items():
        there = getattr(native, name)
        if isinstance(there, type):
            public = set(filter(_is_public, dir(there)))
            assert members <= public if is_pure else members == public, name
        else:
            assert not members or (is_pure and there is None), name
