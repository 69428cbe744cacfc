"""ISO-8601 durations as Kafka's configurations write them (`by_duration:PT1H30M`).

The part of a configuration that both sides read: the broker when a reset policy is validated and applied, the command
line for `--reset-offsets`.
"""

from __future__ import annotations

import re

_DURATION = re.compile(
    r"(?P<sign>[-+])?P(?:(?P<days>[-+]?\d+)D)?"
    r"(?P<time>T(?:(?P<hours>[-+]?\d+)H)?(?:(?P<minutes>[-+]?\d+)M)?(?:(?P<seconds>[-+]?\d+(?:[.,]\d{0,9})?)S)?)?",
    re.IGNORECASE | re.ASCII,
)
_UNITS_MS = {"days": 86_400_000, "hours": 3_600_000, "minutes": 60_000}


def parse_duration_ms(text: str) -> int:
    """Milliseconds of an ISO-8601 duration of days, hours, minutes and seconds, as Java's `Duration.parse` reads it.

    Raises `ValueError` if it is none. May be negative.
    """
    match = _DURATION.fullmatch(text)
    parts = {} if match is None else {unit: match[unit] for unit in (*_UNITS_MS, "seconds") if match[unit] is not None}
    if match is None or not parts or match["time"] in ("T", "t"):
        raise ValueError(f"{text!r} is not an ISO-8601 duration such as PT1H or P2DT30M")
    total_ms = sum(int(parts[unit]) * span_ms for unit, span_ms in _UNITS_MS.items() if unit in parts)
    if "seconds" in parts:
        total_ms += _seconds_ms(parts["seconds"].replace(",", "."))
    return -total_ms if match["sign"] == "-" else total_ms


def _seconds_ms(text: str) -> int:
    whole, _, fraction = text.partition(".")
    sign = -1 if whole.startswith("-") else 1
    return int(whole) * 1_000 + sign * int((fraction + "000")[:3])
