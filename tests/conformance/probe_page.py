"""The tables of docs/conformance-probes.md, made from what the probe tests and the broker know.

`test_probe_page` holds the page to them; `PYTHONPATH=tests python tests/conformance/probe_page.py` prints them, to be
pasted.
"""

from __future__ import annotations

import enum
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import attrs
from conformance.probe_differences import CLIENT_DIFFERENCES, WIRE_DIFFERENCES
from conformance.probe_runs import CLIENT, MINOR_VERSIONS, WIRE, Probe

from kafka_share.broker.kafka_version import BEHAVIOURS, Behaviour

PAGE: Final = Path(__file__).parents[2] / "docs" / "conformance-probes.md"


def agreement() -> str:
    """How many lines agree, by version."""
    rows = [
        (version, _count(WIRE, version, WIRE_DIFFERENCES), _count(CLIENT, version, CLIENT_DIFFERENCES))
        for version in MINOR_VERSIONS
    ]
    return _table(("version", "raw requests", "Apache's client and admin"), rows)


def _count(probe: Probe, version: str, differences: Mapping[str, Mapping[str, str]]) -> str:
    total = len(probe.reference(version))
    return f"{total - len(differences[version])} of {total}"


def differing(differences: Mapping[str, Mapping[str, str]]) -> str:
    """Every step that differs, with the versions and the reason; a sentence if there is none."""
    versions: dict[tuple[str, str], list[str]] = {}
    for version, steps in differences.items():
        for step, reason in steps.items():
            versions.setdefault((step, reason), []).append(version)
    rows = [
        (f"`{step.replace(' | ', ': ')}`", ", ".join(named), reason.replace(" | ", ": "))
        for (step, reason), named in versions.items()
    ]
    return _table(("step", "versions", "why"), rows) if rows else "None: every line agrees.\n"


def behaviours() -> str:
    """The value of each field of `Behaviour` in each version."""
    rows = [
        (f"`{field.name}`", *(_shown(getattr(behaviour, field.name)) for behaviour in BEHAVIOURS.values()))
        for field in attrs.fields(Behaviour)
        if field.name != "version"
    ]
    return _table(("difference", *BEHAVIOURS), rows)


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, enum.Enum):
        return value.name.lower().replace("_", " ")
    if isinstance(value, Mapping | frozenset):
        return str(len(value))
    return str(value)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = (head, ["---"] * len(head), *rows)
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def tables() -> list[str]:
    return [agreement(), differing(WIRE_DIFFERENCES), differing(CLIENT_DIFFERENCES), behaviours()]


if __name__ == "__main__":
    sys.stdout.write("\n".join(tables()))
