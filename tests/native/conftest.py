"""What every test of this folder is given: each of the two implementations, one after the other."""

from __future__ import annotations

from types import ModuleType

import pytest
from native.implementations import implementation


@pytest.fixture(scope="session", params=["compiled", "pure"])
def native(request: pytest.FixtureRequest) -> ModuleType:
    """An implementation of `kafka_share.native`, whichever of them the rest of the package uses here."""
    return implementation(request.param)
