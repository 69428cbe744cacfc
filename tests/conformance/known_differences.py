"""Where the reference broker is known to answer otherwise than a real Kafka, each with its reason.

Read by `test_differential`. An entry belongs here only if the difference is meant, or if the real broker itself does
not always answer the same; everything else is a bug of the reference broker.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import attrs
from conformance.differential_run import Line
from conformance.differential_script import Script


@attrs.frozen
class KnownDifference:
    reason: str
    covers: Callable[[Script, Line], bool]
    """Whether it explains that the answers of this line differ; the script ends there."""


KNOWN: Final[tuple[KnownDifference, ...]] = ()


def explanation(script: Script, line: Line) -> str | None:
    """Why the answers of this line may differ; None: they should be the same."""
    return next((known.reason for known in KNOWN if known.covers(script, line)), None)
