"""The two implementations of `kafka_share.native`, by name, for fixtures."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

import pytest


def implementation(name: str) -> ModuleType:
    """The one that is called "compiled" or "pure". Skips the test where it was not built."""
    try:
        return import_module(f"kafka_share.native._{name}")
    except ImportError as error:
        pytest.skip(f"not built here: {error}")
