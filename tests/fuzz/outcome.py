"""How a seed of any fuzz ended."""

from __future__ import annotations

from collections import Counter

import attrs


@attrs.frozen
class Outcome:
    """`complaint`: what went wrong; `excuse`: the lies that kept records from being settled; None for neither."""

    seed: int
    mutations: int
    happened: Counter[str]
    complaint: str | None
    excuse: str | None
    lines: list[str]
    """The whole story, if it was asked for."""
