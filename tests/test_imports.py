"""What an import of the package loads, and what it does not: modules, in a fresh process, never times."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import kafka_share

pytestmark = pytest.mark.timeout(120)  # most tests start a Python: on a busy machine that alone may take 20 s

OPTIONAL_WORK = {"kafka", "click", "rich", "javaproperties", "cramjam", "crc32c", "prometheus_client", "opentelemetry"}
"""What only some programs need: SASL, the tools, compressed records, checksums, metrics."""


def loaded_by(statement: str) -> set[str]:
    """The modules that a fresh interpreter has loaded after the statement, less those that it has anyway."""
    code = f"import sys; before = set(sys.modules)\n{statement}\nprint(*set(sys.modules) - before)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_the_package_loads_nothing_but_its_version_when_it_is_imported() -> None:
    loaded = loaded_by("import kafka_share")
    assert {name for name in loaded if name.startswith("kafka_share")} == {"kafka_share", "kafka_share._version"}
    assert not loaded & (OPTIONAL_WORK | {"attr", "asyncio", "ssl", "logging", "uuid", "typing_extensions"})


@pytest.mark.parametrize("name", ["KafkaShareConsumer", "KafkaShareAdmin", "AsyncShareAdmin"])
def test_a_client_loads_neither_tools_nor_broker_when_it_is_imported(name: str) -> None:
    loaded = loaded_by(f"from kafka_share import {name}")
    assert not loaded & OPTIONAL_WORK
    assert not {module for module in loaded if module.startswith(("kafka_share.broker", "kafka_share.cli"))}
    consumer, admin = "kafka_share.consumer" in loaded, "kafka_share.core.admin.machine" in loaded
    assert (consumer, admin) == (name == "KafkaShareConsumer", name != "KafkaShareConsumer")


def test_values_and_errors_load_no_machinery_when_they_are_imported() -> None:
    loaded = loaded_by("from kafka_share import ShareRecord, TopicPartition, KafkaShareError, errors, OffsetSpec")
    assert not loaded & (OPTIONAL_WORK | {"asyncio", "ssl"})
    machinery = ("kafka_share.core", "kafka_share.network", "kafka_share.protocol", "kafka_share.application")
    assert not {module for module in loaded if module.startswith(machinery)}


def test_modules_can_be_reached_by_name_when_only_the_package_was_imported() -> None:
    names = "kafka_share.errors.KafkaShareError, kafka_share.consumer.KafkaShareConsumer, kafka_share.config"
    assert "kafka_share.consumer" in loaded_by(f"import kafka_share; {names}")


def test_every_public_name_is_there_when_it_is_asked_for() -> None:
    found = {name: getattr(kafka_share, name) for name in kafka_share.__all__}
    assert found["errors"].KafkaShareError is found["KafkaShareError"]
    assert set(found) <= set(dir(kafka_share))
    starred: dict[str, object] = {}
    exec("from kafka_share import *", starred)
    assert {name: starred[name] for name in found} == found
    with pytest.raises(AttributeError, match="module 'kafka_share' has no attribute 'KafkaConsumer'"):
        _ = kafka_share.KafkaConsumer


def test_type_checkers_see_the_names_that_programs_see() -> None:
    """The package names its contents twice: as imports for type checkers, and as a table for everyone else."""
    assert kafka_share.__file__ is not None
    tree = ast.parse(Path(kafka_share.__file__).read_text(encoding="utf-8"))
    branch = next(node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
    declared = {}
    for node in branch.body:
        assert isinstance(node, ast.ImportFrom)
        assert node.module is not None
        for alias in node.names:
            assert alias.asname == alias.name, "a type checker takes an import for an export only if it is renamed"
            declared[alias.name] = node.module
    assert declared.pop("errors") == "kafka_share"
    assert sorted([*declared, "errors", "__version__"]) == sorted(kafka_share.__all__)
    for name, module in declared.items():
        assert getattr(kafka_share, name) is getattr(sys.modules[module], name)
