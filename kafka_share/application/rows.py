"""Which of many records an application means: where those stand that a mask or a slice of rows names.

Called by `acknowledge_all` of the façades. Touches no record by a call in Python where the record path is compiled.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from kafka_share.application.arguments import not_a_record
from kafka_share.errors import InvalidArgumentError
from kafka_share.native import places
from kafka_share.records import ArrowRecords, ShareRecord, ShareRecords

if TYPE_CHECKING:
    from kafka_share.native import Places, Run


class BooleanArray(Protocol):
    """`pyarrow.BooleanArray`, a `ChunkedArray` of bool, a numpy array or pandas Series of bool."""

    def __len__(self) -> int: ...
    def __getitem__(self, index: Any, /) -> Any: ...


Rows: TypeAlias = slice | Sequence[bool] | BooleanArray
"""A slice of rows, or a mask with one bool for each record."""


def chosen(records: Iterable[ShareRecord[Any, Any]] | ArrowRecords, rows: Rows | None) -> list[Places]:
    """Where the records stand that `rows` names, which are all by default.

    Raises TypeError for what is no `ShareRecord`, and for rows of another type; `InvalidArgumentError` for a mask of
    another length, or with nulls.
    """
    if isinstance(records, ArrowRecords):
        records = records.records
    runs: list[Run] = records._runs if isinstance(records, ShareRecords) else [[*records]]
    for run in runs:
        if isinstance(run, list) and not all(issubclass(kind, ShareRecord) for kind in set(map(type, run))):
            raise not_a_record(next(record for record in run if not isinstance(record, ShareRecord)))
    return places(runs, None if rows is None else _mask(rows, sum(map(len, runs))))


def _mask(rows: Rows, count: int) -> bytes:
    """One byte for each record."""
    if isinstance(rows, slice):
        mask = bytearray(count)
        mask[rows] = b"\1" * len(range(*rows.indices(count)))
        return bytes(mask)
    found = _from_arrow(rows) if "pyarrow" in sys.modules else None
    if found is None:
        found = _from_bools(rows)
    if len(found) != count:
        raise InvalidArgumentError(
            f"rows has {len(found)} values for {count} records: a mask has one bool for each; a slice names a range"
        )
    return found


def _from_arrow(rows: Any) -> bytes | None:
    from kafka_share.columns import mask_of

    return mask_of(rows)


def _from_bools(rows: Any) -> bytes:
    if isinstance(rows, str | bytes) or not isinstance(rows, Iterable):
        raise TypeError(f"rows is a slice, or a mask with one bool for each record, not {rows.__class__.__name__}")
    listed = rows.tolist() if hasattr(rows, "tolist") else list(rows)  # what numpy iterates over is no bool
    others = set(map(type, listed)) - {bool}
    if others:
        names = ", ".join(sorted(kind.__name__ for kind in others))
        raise TypeError(f"a mask in rows has one bool for each record, not {names}")
    return bytes(listed)
