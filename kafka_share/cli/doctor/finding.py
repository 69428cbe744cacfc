"""What `kafka-share doctor` finds: a cause explains that nothing arrives, a note is worth knowing and explains less.

The rules make findings; `examination` prints them.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeAlias

import attrs

from kafka_share.cli.doctor.facts import Facts, PartitionFacts

MAX_NAMED: Final = 5
"""How many members, partitions or ranges of offsets are named; of more, only their number."""
_CONFIG: Final = "kafka-share-groups --bootstrap-server … --alter --group {group} --add-config {change}"


@attrs.frozen(kw_only=True)
class Finding:
    """One reason, or one remark."""

    code: str
    """For scripts: a name that stays the same between versions."""
    is_cause: bool
    text: str
    remedy: str


Rule: TypeAlias = Callable[[Facts], Iterator[Finding]]


def cause(code: str, text: str, remedy: str) -> Finding:
    return Finding(code=code, is_cause=True, text=text, remedy=remedy)


def note(code: str, text: str, remedy: str) -> Finding:
    return Finding(code=code, is_cause=False, text=text, remedy=remedy)


def config_command(facts: Facts, change: str) -> str:
    """How the group's config is changed."""
    return _CONFIG.format(group=shlex.quote(facts.group_id), change=change)


def partitions_named(found: Sequence[PartitionFacts]) -> str:
    """As in "partitions 0, 2"; of many, only how many there are."""
    numbers = [str(p.partition) for p in found]
    if len(numbers) > MAX_NAMED:
        return f"{len(numbers)} partitions"
    return f"partition{'s' if len(numbers) > 1 else ''} {', '.join(numbers)}"


def counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
