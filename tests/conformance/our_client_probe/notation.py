"""The notation of the Java program's lines, spoken by ours: records, offsets, results, errors, durations.

`t1-0:0..2x1` are the offsets 0 to 2 of partition 0 of the topic t1, each delivered once. An error is its class alone:
what it says is in our own words and is not compared. Whether something holds is `true` or `false`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from itertools import groupby
from typing import Any, Final

from kafka_share import KafkaShareError, TopicIdPartition
from kafka_share.errors import RecordDeserializationError

Rename = Callable[[str], str]
"""Takes a name's prefix off that keeps scenarios apart."""
SPANS: Final = ((0.7, "<0.7s"), (3, "0.7-3s"), (8, "3-8s"), (20, "8-20s"))


def ranges(offsets: Iterable[int]) -> str:
    """`[0..2, 5]` of 0, 1, 2, 5."""
    runs = [[o for _, o in run] for _, run in groupby(enumerate(sorted(offsets)), lambda pair: pair[1] - pair[0])]
    return listed(_range(run[0], run[-1]) for run in runs)


def _range(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}..{last}"


def listed(items: Iterable[object]) -> str:
    return f"[{', '.join(map(str, items))}]"


def truth(value: object) -> str:
    return str(bool(value)).lower()


def records(found: Iterable[Any], rename: Rename) -> str:
    runs: list[tuple[str, int, int, int]] = []
    for record in found:
        where = f"{rename(record.topic)}-{record.partition}"
        if runs and (where, record.offset - 1, record.delivery_count) == (runs[-1][0], runs[-1][2], runs[-1][3]):
            runs[-1] = (where, runs[-1][1], record.offset, record.delivery_count)
        else:
            runs.append((where, record.offset, record.offset, record.delivery_count))
    return listed(sorted(f"{where}:{_range(first, last)}x{count}" for where, first, last, count in runs))


def results(found: Mapping[TopicIdPartition, KafkaShareError | None], rename: Rename) -> str:
    return _braced(f"{rename(str(where))}={error_text(e) if e else 'ok'}" for where, e in found.items())


def _braced(items: Iterable[str]) -> str:
    return "{" + ",".join(sorted(items)) + "}"


def error_text(error: BaseException) -> str:
    """The class, and that of the cause."""
    text = f"{type(error).__name__}()"
    cause = error.__cause__
    return text if cause is None else f"{text}<-{type(cause).__name__}()"


def bad_record(error: RecordDeserializationError, rename: Rename) -> str:
    """All that the error tells of the record."""
    where = rename(f"{error.topic}-{error.partition}")
    raw = f"key={truth(error.key is not None)} value={truth(error.value is not None)}"
    return f"RDE({type(error).__name__} {error.origin} {where}@{error.offset} {raw} msg=text)"


def outcome(call: Callable[[], object]) -> str:
    """What a call returned, or what it raised."""
    try:
        returned = call()
    except Exception as error:  # noqa: BLE001 - whatever it raises is the answer
        return error_text(error)
    return "ok" if returned is None else str(returned)


def span(began_at_s: float) -> str:
    """About how long it took since `time.monotonic()` was `began_at_s`."""
    took_s = time.monotonic() - began_at_s
    return next((text for limit_s, text in SPANS if took_s < limit_s), ">20s")
