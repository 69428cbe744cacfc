"""What `kafka-share dlq` prints: a table of what there is, letters in full, and the same as JSON. Pure functions.

Text from a cluster stands in it with its controls as escapes; in JSON, bytes that are not UTF-8 are {"base64": …}.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import attrs

from kafka_share.cli.dlq.letters import Letter
from kafka_share.cli.output import json_bytes
from kafka_share.harmless import harmless

Document = dict[str, Any]


@attrs.define
class Heap:
    """Dead letters of one topic that have the same origin, group and error."""

    topic: str
    origin: str
    group: str
    error: str
    letters: int = 0
    replayed: int = 0
    oldest_ms: int = 2**63
    newest_ms: int = 0


def heaps(letters: Iterable[Letter]) -> list[Heap]:
    """Counted, in the order of their names."""
    found: dict[tuple[str, str, str, str], Heap] = {}
    for letter in letters:
        origin = letter.origin
        names = (letter.place.topic, origin.topic, origin.group, origin.error)
        heap = found.setdefault(names, Heap(*names))
        heap.letters += 1
        heap.replayed += letter.is_replayed
        heap.oldest_ms = min(heap.oldest_ms, letter.timestamp)
        heap.newest_ms = max(heap.newest_ms, letter.timestamp)
    return [found[names] for names in sorted(found)]


def table(found: Sequence[Heap]) -> Iterator[str]:
    """One line for each, below a head."""
    rows: list[tuple[str, ...]] = [("TOPIC", "ORIGIN", "GROUP", "ERROR", "LETTERS", "REPLAYED", "OLDEST", "NEWEST")]
    for heap in found:
        counts = str(heap.letters), str(heap.replayed), _time(heap.oldest_ms), _time(heap.newest_ms)
        rows.append((*map(harmless, (heap.topic, heap.origin, heap.group or "-", heap.error or "-")), *counts))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def heap_document(heap: Heap) -> Document:
    return attrs.asdict(heap)


def in_full(letter: Letter) -> Iterator[str]:
    """One letter, for people."""
    origin = letter.origin
    note = ", replayed" if letter.is_replayed else ""
    yield f"{harmless(str(letter.place))}@{letter.offset}  {_time(letter.timestamp)}{note}"
    delivery = "" if origin.delivery_count is None else f", delivery {origin.delivery_count}"
    group = f", group {harmless(origin.group)}" if origin.group else ""
    yield f"  record   {harmless(origin.topic)}-{_known(origin.partition)}@{_known(origin.offset)}{delivery}{group}"
    error = f"{origin.exception_class}: {origin.exception_message}" if origin.exception_class else origin.message
    yield f"  error    {harmless(error) or '-'}"
    for name, value in letter.as_record("").headers:
        yield f"  header   {harmless(name)}: {_text(value)}"
    if not letter.has_copy:
        yield "  the letter has no copy of the record"
        return
    yield f"  key      {_text(letter.key)}"
    yield f"  value    {_text(letter.value)}"


def letter_document(letter: Letter) -> Document:
    return {
        "topic": letter.place.topic,
        "partition": letter.place.partition,
        "offset": letter.offset,
        "timestamp_ms": letter.timestamp,
        "is_replayed": letter.is_replayed,
        "has_copy": letter.has_copy,
        "origin": attrs.asdict(letter.origin),
        "headers": [[name, json_bytes(value)] for name, value in letter.as_record("").headers],
        "key": json_bytes(letter.key),
        "value": json_bytes(letter.value),
    }


def _time(at_ms: int) -> str:
    if at_ms < 0:
        return "-"
    return datetime.fromtimestamp(at_ms // 1_000, UTC).isoformat().replace("+00:00", "Z")


def _known(number: int | None) -> str:
    return "?" if number is None else str(number)


def _text(data: bytes | None) -> str:
    return "null" if data is None else harmless(data.decode("utf-8", "backslashreplace"))
