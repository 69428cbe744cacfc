"""The record path in two implementations with the same interface: compiled where it was built, else in Python.

Everybody imports its names from here and nowhere else. KAFKA_SHARE_PURE_PYTHON=1 chooses Python although the compiled
module is there. The choice is made once, when this module is imported.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

from kafka_share.native import record_methods

PURE_PYTHON_VARIABLE: Final = "KAFKA_SHARE_PURE_PYTHON"

WHY_PURE: str | None = None
"""Why the implementation in Python runs, and what to do about it; None where the compiled one does."""

if TYPE_CHECKING:
    from collections.abc import Sequence

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

crc32c: Final = _chosen.crc32c
ShareRecord = _chosen.ShareRecord
with_values: Final = _chosen.with_values
Ledger = _chosen.Ledger
LockFacts = _chosen.LockFacts
OneTask = _chosen.OneTask
Slab = _chosen.Slab
RecordBlock = _chosen.RecordBlock
"""None where nothing was compiled, as the next six are: these only make shorter what has a long way too."""
LedgersByLock = _chosen.LedgersByLock
Gate = _chosen.Gate
WholeAnswer = _chosen.WholeAnswer
WholePartition = _chosen.WholePartition
WholeMaker = _chosen.WholeMaker
PlainCalls = _chosen.PlainCalls

DirectLine = _chosen.DirectLine
Ear = _chosen.Ear
read_plain_fetch: Final = _chosen.read_plain_fetch
read_plain_acknowledge: Final = _chosen.read_plain_acknowledge

columns: Final = _chosen.columns
exported: Final = _chosen.exported
listed: Final = _chosen.listed
places: Final = _chosen.places
unpacked: Final = _chosen.unpacked
shut_all_gates: Final = _chosen.shut_all_gates

record_methods.unpickle_as(ShareRecord)

if TYPE_CHECKING:
    from kafka_share.native._compiled import Column as Column
    from kafka_share.native._pure import Places as Places

    Run: TypeAlias = Sequence[ShareRecord[Any, Any]]
    """Records of one partition in offset order: a list, or what makes each of them when it is looked at."""

    class Snapshot(Protocol):
        """What of a ledger has been acknowledged at one time; nobody but the ledger looks into it."""

        def __len__(self) -> int: ...
