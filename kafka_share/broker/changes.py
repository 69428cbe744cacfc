"""How a part of the cluster tells that some of its state has changed, to whoever keeps a copy of that elsewhere.

A part with state that has to survive a restart has an attribute `on_change`, and calls it with the key of each thing
that is not what it was, or is no more. Who listens looks at the thing later. Without a data directory nobody does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

OnChange: TypeAlias = Callable[[str], None]


def nobody(key: str) -> None:
    """Nobody keeps a copy."""
