"""Handlers that `kafka-share worker` runs in tests: each writes down what it has handled, where HANDLED says.

They run in processes of their own; that file is all that a test sees of them.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Sequence
from typing import Any

_WORK_S = 0.002


def one(record: Any) -> None:
    time.sleep(_WORK_S)
    _note(record)


async def as_task(record: Any) -> None:
    await asyncio.sleep(_WORK_S)
    _note(record)


def several(records: Sequence[Any]) -> None:
    time.sleep(_WORK_S)
    for record in records:
        _note(record)


def _note(record: Any) -> None:
    """A line for each record, in one piece whoever else writes."""
    file = os.open(os.environ["HANDLED"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(file, b"%d\n" % record.offset)
    finally:
        os.close(file)
