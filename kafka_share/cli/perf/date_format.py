"""`--date-format`: the patterns of Java's SimpleDateFormat, as far as they stand for parts of a date and a time.

Called by the command with what the user gave. Names of months are English whatever the locale.
"""

from __future__ import annotations

import re
from datetime import datetime, tzinfo
from typing import Final

import attrs

DEFAULT_PATTERN: Final = "yyyy-MM-dd HH:mm:ss:SSS"
_LETTERS: Final = "yMdHmsS"
_PART: Final = re.compile(r"(?P<letters>([A-Za-z])\2*)|'(?P<quoted>(?:[^']|'')*)'|(?P<other>[^A-Za-z']+)|(?P<wrong>')")
_MONTHS: Final = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip


@attrs.frozen
class DateFormat:
    """Raises ValueError, which says what is wrong, for a pattern with other letters or an open quote."""

    pattern: str = DEFAULT_PATTERN
    _parts: tuple[tuple[str, str], ...] = attrs.field(init=False)
    """(letter, its run) or ("", text)."""

    @_parts.default
    def _split(self) -> tuple[tuple[str, str], ...]:
        parts = []
        for part in _PART.finditer(self.pattern):
            letters, quoted = part["letters"], part["quoted"]
            if part["wrong"]:
                raise ValueError(f"'{self.pattern}' has a quote that is not closed")
            if letters is None:
                # Two quotes, inside of others or not, are one that is meant.
                text = part["other"] if quoted is None else quoted.replace("''", "'") or "'"
                parts.append(("", text))
            elif letters[0] in _LETTERS:
                parts.append((letters[0], letters))
            else:
                raise ValueError(
                    f"'{letters}' in '{self.pattern}' is not known here; known are {', '.join(_LETTERS)}, "
                    f"and text in 'single quotes'"
                )
        return tuple(parts)

    def text(self, time_ms: int, zone: tzinfo | None = None) -> str:
        """Of milliseconds since 1970, in this zone; None: in the machine's."""
        time = datetime.fromtimestamp(time_ms // 1000, zone)
        return "".join(_written(letter, run, time, time_ms % 1000) for letter, run in self._parts)


def _written(letter: str, run: str, time: datetime, milliseconds: int) -> str:
    if not letter:
        return run
    if letter == "M" and len(run) > 2:
        return _MONTHS[time.month - 1][: 3 if len(run) == 3 else None]
    if letter == "y" and len(run) == 2:
        return f"{time.year % 100:02d}"
    number = {
        "y": time.year,
        "M": time.month,
        "d": time.day,
        "H": time.hour,
        "m": time.minute,
        "s": time.second,
        "S": milliseconds,
    }[letter]
    return f"{number:0{len(run)}d}"
