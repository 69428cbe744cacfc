"""A stream that claims to be a terminal, and what a reader would see there. For tests of what tools draw."""

from __future__ import annotations

import io
import re

_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Terminal(io.StringIO):
    """Takes what a tool writes to its terminal."""

    def isatty(self) -> bool:
        return True

    @property
    def shown(self) -> list[str]:
        """Every line that was drawn, each time that it was drawn, without colours and movements of the cursor."""
        drawn = re.split(r"[\r\n]+", _CONTROL.sub("", self.getvalue()))
        return [line.rstrip() for line in drawn if line.strip()]
