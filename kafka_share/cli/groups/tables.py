"""The text output of `kafka-share-groups`: tables with the columns and widths of Kafka's own tool.

Pure functions from values to text. A table begins with an empty line (that of `--list --state` does not) and ends with
its last row's line end; columns are left-aligned, one blank apart, the last one is not padded. What is unknown is shown
as a dash. Names stand in them with their controls as escapes, so that none can forge a row or reach the terminal.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from kafka_share.admin_values import (
    ConfigEntry,
    ConfigSource,
    GroupListing,
    ShareGroupDescription,
    ShareMemberDescription,
    SharePartitionOffset,
)
from kafka_share.cli.endings import Problem
from kafka_share.errors import KafkaShareError
from kafka_share.harmless import harmless
from kafka_share.records import TopicPartition

UNKNOWN: Final = "-"
_NAME_WIDTH: Final = 15
_COORDINATOR_WIDTH: Final = 25


def group_names(listings: Iterable[GroupListing]) -> str:
    """One id per line."""
    return "".join(f"{harmless(listing.group_id)}\n" for listing in listings)


def group_states(listings: Sequence[GroupListing]) -> str:
    """Ids and states; only the header when there is no group."""
    rows = [(listing.group_id, listing.state.value) for listing in listings]
    return _table([("GROUP", _NAME_WIDTH), ("STATE", 0)], rows).lstrip("\n")


def offsets(
    group_id: str, found: Mapping[TopicPartition, SharePartitionOffset | KafkaShareError | None], *, verbose: bool
) -> str:
    """Start offset and lag per partition, by topic and number; with `verbose` the leader epoch, too.

    A lag below zero (the start lies beyond the end of the log) is shown as unknown, as Kafka's tool does.
    """
    rows = []
    for tp, offset in sorted(found.items()):
        known = offset if isinstance(offset, SharePartitionOffset) else None
        lag = None if known is None or known.lag is None or known.lag < 0 else known.lag
        epoch = [_shown(known.leader_epoch if known else None)] if verbose else []
        rows.append(
            (group_id, tp.topic, str(tp.partition), *epoch, _shown(known.start_offset if known else None), _shown(lag))
        )
    epoch_column = [("LEADER-EPOCH", 13)] if verbose else []
    head = [("GROUP", _NAME_WIDTH), ("TOPIC", _NAME_WIDTH), ("PARTITION", 10)]
    return _table([*head, *epoch_column, ("START-OFFSET", 13), ("LAG", 0)], rows)


def state(group: ShareGroupDescription, *, verbose: bool) -> str:
    """Coordinator, state and number of members; with `verbose` the epochs, too."""
    node = group.coordinator
    epochs = [str(group.group_epoch), str(group.assignment_epoch)] if verbose else []
    row = (group.group_id, f"{node.host}:{node.port}  ({node.id})", group.state.value, *epochs, str(len(group.members)))
    epoch_columns = [("GROUP-EPOCH", 12), ("ASSIGNMENT-EPOCH", 17)] if verbose else []
    head = [("GROUP", _NAME_WIDTH), ("COORDINATOR (ID)", _COORDINATOR_WIDTH), ("STATE", _NAME_WIDTH)]
    return _table([*head, *epoch_columns, ("#MEMBERS", 0)], [row])


def members(group: ShareGroupDescription, *, verbose: bool) -> str:
    """The members by id with what is assigned to them; with `verbose` the member epoch, too."""
    rows = [
        (
            group.group_id,
            member.member_id,
            member.client_host,
            member.client_id,
            str(len(member.assignment)),
            *([str(member.member_epoch)] if verbose else []),
            assignment(member),
        )
        for member in sorted(group.members, key=lambda member: member.member_id)
    ]
    names = [(name, _NAME_WIDTH) for name in ("GROUP", "CONSUMER-ID", "HOST", "CLIENT-ID")]
    epoch_column = [("MEMBER-EPOCH", 13)] if verbose else []
    return _table([*names, ("#PARTITIONS", 12), *epoch_column, ("ASSIGNMENT", 0)], rows)


def assignment(member: ShareMemberDescription) -> str:
    """As in "t1:0,1;t2:0"; nothing when nothing is assigned."""
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted(member.assignment):
        by_topic.setdefault(topic, []).append(partition)
    return ";".join(f"{topic}:{','.join(map(str, partitions))}" for topic, partitions in by_topic.items())


def new_offsets(group_id: str, planned: Mapping[TopicPartition, int]) -> str:
    """Where the group is to start, by topic and partition."""
    rows = [(group_id, tp.topic, str(tp.partition), str(offset)) for tp, offset in sorted(planned.items())]
    return _table([("GROUP", _NAME_WIDTH), ("TOPIC", _NAME_WIDTH), ("PARTITION", 10), ("NEW-OFFSET", 0)], rows)


def topic_results(results: Mapping[str, Problem | None]) -> str:
    """Per topic whether its offsets were deleted, or the error's message."""
    rows = [
        (topic, "Successful" if problem is None else f"Error: {problem.message}")
        for topic, problem in sorted(results.items())
    ]
    return _table([("TOPIC", _NAME_WIDTH), ("STATUS", 0)], rows)


def deletions(results: Mapping[str, Problem | None]) -> str:
    """Which groups were deleted, and why others were not; one list without an error, two lists with one."""
    deleted = ", ".join(f"'{harmless(group_id)}'" for group_id, problem in results.items() if problem is None)
    failed = [(group_id, problem) for group_id, problem in results.items() if problem is not None]
    if not failed:
        return f"Deleted share groups: {deleted or 'none'}\n"
    lines = [f"* '{harmless(group_id)}': {harmless(problem.message)}\n" for group_id, problem in failed]
    succeeded = f"\nDeleted share groups: {deleted}\n" if deleted else ""
    return "".join(["\nError: these groups were not deleted:\n", *lines, succeeded])


def configs(group_id: str, entries: Iterable[ConfigEntry], *, all_of_them: bool) -> str:
    """The configs that are set on the group, or all, with the places that a value may come from."""
    shown = [e for e in entries if all_of_them or e.source is ConfigSource.DYNAMIC_GROUP_CONFIG]
    lines = [
        harmless(
            f"  {e.name}={'null' if e.value is None else e.value} sensitive={str(e.is_sensitive).lower()} "
            f"synonyms={{{', '.join(f'{s.source.name}:{s.name}={s.value}' for s in e.synonyms)}}}"
        )
        + "\n"
        for e in sorted(shown, key=lambda e: e.name)
    ]
    return f"{'All' if all_of_them else 'Dynamic'} configs for group {harmless(group_id)} are:\n" + "".join(lines)


def _shown(number: int | None) -> str:
    return UNKNOWN if number is None else str(number)


def _table(columns: Sequence[tuple[str, int]], rows: Sequence[Sequence[str]]) -> str:
    """`columns`: headers with their least width. Those of names grow with their longest value; the last has none."""
    shown = [[harmless(cell) for cell in row] for row in rows]
    widths = [
        max([least, *(display_width(row[i]) for row in shown)]) if least in (_NAME_WIDTH, _COORDINATOR_WIDTH) else least
        for i, (_, least) in enumerate(columns)
    ]
    lines = [[header for header, _ in columns], *shown]
    return "\n" + "".join(
        " ".join(_padded(cell, width) for cell, width in zip(line, widths, strict=True)) + "\n" for line in lines
    )


def _padded(cell: str, width: int) -> str:
    return cell + " " * (width - display_width(cell))


def display_width(text: str) -> int:
    """How many columns of a terminal the text takes."""
    if text.isascii():
        return len(text)
    return sum(map(_columns, text))


def _columns(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
