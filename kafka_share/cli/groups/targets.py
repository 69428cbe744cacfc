"""What the values of the reset options say: topics and partitions, times, durations, files of offsets. Pure parsing."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

import click

from kafka_share.cli.endings import ToolFailedError
from kafka_share.cli.options import MAX_OFFSET
from kafka_share.protocol.durations import parse_duration_ms
from kafka_share.records import TopicPartition

_TIME: Final = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,3})\d*)?)?(Z|([+-])(\d\d)(?::?(\d\d))?)?", re.ASCII
)
_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_SHORT_SPAN: Final = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?", re.ASCII)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def parse_topics(arguments: Iterable[str]) -> dict[str, tuple[int, ...] | None]:
    """Topic -> its chosen partitions, None for all; from "t" and "t:0,1". Raises `click.UsageError`."""
    chosen: dict[str, tuple[int, ...] | None] = {}
    for argument in arguments:
        topic, colon, numbers = argument.partition(":")
        partitions = tuple(_partition(number, argument) for number in numbers.split(",")) if colon else None
        before = chosen.get(topic, ())
        # A topic that is named twice: all of it if one of them says so, otherwise both.
        chosen[topic] = None if partitions is None or before is None else tuple(dict.fromkeys(before + partitions))
    return chosen


def _partition(text: str, argument: str) -> int:
    if not (text.isascii() and text.isdecimal()):
        raise click.UsageError(f"--topic {argument}: {text!r} is not the number of a partition, as in topic:0,1")
    return int(text)


def parse_time_ms(text: str) -> int:
    """Milliseconds since 1970 of YYYY-MM-DDTHH:MM:SS.sss with Z or an offset such as +02:00; UTC without one.

    Raises `ToolFailedError` if it is none.
    """
    given = text.strip()
    found = _TIME.fullmatch(f"{given}T00:00" if _DATE.fullmatch(given) else given)
    if found is None:
        raise ToolFailedError(
            f"--to-datetime {text!r} is not a time such as 2026-01-31T13:00:00.000, in UTC, or with +02:00 behind it, "
            "nor a day such as 2026-01-31",
            "value",
        )
    year, month, day, hour, minute, second, fraction, zone, sign, ahead_h, ahead_min = found.groups()
    milliseconds = int((fraction or "0").ljust(3, "0"))
    try:
        moment = datetime(int(year), int(month), int(day), int(hour), int(minute), int(second or 0), tzinfo=UTC)
    except ValueError as error:
        raise ToolFailedError(f"--to-datetime {text!r} is not a time: {error}", "value") from None
    if zone not in (None, "Z"):
        ahead = timedelta(hours=int(ahead_h), minutes=int(ahead_min or 0))
        moment += ahead if sign == "-" else -ahead
    return (moment - _EPOCH) // timedelta(milliseconds=1) + milliseconds


def parse_span_ms(text: str) -> int:
    """Milliseconds of a span such as 1h30m, or of an ISO-8601 duration such as PT1H30M. Raises `ToolFailedError`."""
    short = _SHORT_SPAN.fullmatch(text.strip())
    if short is not None and short[0]:
        days, hours, minutes, seconds = (int(number or 0) for number in short.groups())
        return (((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1_000
    try:
        span_ms = parse_duration_ms(text.strip())
    except ValueError:
        span_ms = -1
    if span_ms < 0:
        raise ToolFailedError(f"--by-duration {text!r} is not a span of time such as 1h30m, 2d, or PT1H30M", "value")
    return span_ms


def parse_offsets_file(text: str, group_id: str, name: str) -> dict[TopicPartition, int]:
    """The lines topic,partition,offset or group,topic,partition,offset, as `--export` writes them, without a header.

    Raises `ToolFailedError` with the line for anything else, another group, or a partition that occurs twice.
    """
    offsets: dict[TopicPartition, int] = {}
    for number, row in enumerate(csv.reader(io.StringIO(text)), start=1):
        if not row:
            continue
        where = f"{name}, line {number}"
        if len(row) == 4 and row[0] != group_id:
            raise ToolFailedError(f"{where} is about group {row[0]!r}, but --group is {group_id!r}", "value")
        if len(row) not in (3, 4):
            raise ToolFailedError(f"{where}: {','.join(row)!r} is not topic,partition,offset", "value")
        topic, partition, offset = (cell.strip() for cell in row[-3:])
        if not topic or not all(cell.isascii() and cell.isdecimal() for cell in (partition, offset)):
            raise ToolFailedError(f"{where}: {','.join(row)!r} is not topic,partition,offset", "value")
        if int(offset) > MAX_OFFSET:
            raise ToolFailedError(f"{where}: {offset} is larger than an offset can be", "value")
        tp = TopicPartition(topic, int(partition))
        if tp in offsets:
            raise ToolFailedError(f"{where}: {tp} has an offset already", "value")
        offsets[tp] = int(offset)
    if not offsets:
        raise ToolFailedError(f"{name} has no line topic,partition,offset", "value")
    return offsets


def offsets_as_csv(offsets: Mapping[TopicPartition, int]) -> str:
    """Lines that `parse_offsets_file` reads."""
    lines = io.StringIO()
    csv.writer(lines, lineterminator="\n").writerows((tp.topic, tp.partition, o) for tp, o in sorted(offsets.items()))
    return lines.getvalue()


def parse_config_changes(to_set: Iterable[str], to_unset: Iterable[str]) -> dict[str, str | None]:
    """Config -> value, None to unset; from "k=v,k2=v2", with [v1,v2] around a value that has commas, and "k,k2".

    Raises `click.UsageError` for text of another shape and a config that is named twice.
    """
    changes: dict[str, str | None] = {}
    pairs = [_name_and_value(part) for text in to_set for part in re.findall(r"(?:\[[^\]]*\]|[^,])+", text)]
    pairs += [(name.strip(), None) for text in to_unset for name in text.split(",")]
    for name, value in pairs:
        if not name:
            raise click.UsageError("--delete-config takes NAME[,NAME…]")
        if name in changes:
            raise click.UsageError(f"{name} is changed twice")
        changes[name] = value
    return changes


def _name_and_value(text: str) -> tuple[str, str | None]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise click.UsageError(f"--add-config takes NAME=VALUE[,NAME=VALUE…], not {text!r}")
    value = value.strip()
    return name.strip(), value[1:-1] if value.startswith("[") and value.endswith("]") else value
