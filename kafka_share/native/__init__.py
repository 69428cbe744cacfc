"""The record path in two implementations with the same interface: compiled where it was built, else in Python.

Everybody imports its names from here and nowhere else. KAFKA_SHARE_PURE_PYTHON=1 chooses Python although the compiled
module is there. The choice is made once, when this module is imported.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Final

PURE_PYTHON_VARIABLE: Final = "KAFKA_SHARE_PURE_PYTHON"

WHY_PURE: str | None = None
"""Why the implementation in Python runs, and what to do about it; None where the compiled one does."""

if TYPE_CHECKING:
    from kafka_share.native import _compiled as _chosen
elif os.environ.get(PURE_PYTHON_VARIABLE) == "1":
    from kafka_share.native import _pure as _chosen

    WHY_PURE = f"{PURE_PYTHON_VARIABLE}=1 is set; unset it"
else:
    try:
        _chosen = import_module("kafka_share.native._compiled")
    except ImportError as error:
        from kafka_share.native import _pure as _chosen

        WHY_PURE = f"{error}; install kafka-share again where there is a C compiler, or from a wheel for this platform"

IS_COMPILED: Final = WHY_PURE is None

crc32c = _chosen.crc32c
