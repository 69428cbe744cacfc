"""What is on disk of a log, read back into memory when the broker starts.

Called by `persistence`. Each batch is checked. Where the first bad one begins, its file is cut, with a WARNING: that is
how a write ends which the power failed under, and no answer has promised it. Later files stay, whatever happened to an
earlier one: that was damaged after it had been synced, and what was promised may be behind it.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from kafka_share.protocol.record_batches import RecordBatchError, iter_batches

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafka_share.broker.durability.segment_files import SegmentFiles
    from kafka_share.broker.storage.log import Log
    from kafka_share.protocol.record_batches import RecordBatch

logger: logging.Logger = logging.getLogger(__name__)


def recover(
    log: Log,
    files: SegmentFiles,
    start_offset: int,
    now_ms: int,
    seen: Callable[[RecordBatch], None] = lambda batch: None,
    *,
    clean_to: int = 0,
) -> None:
    """Fill the log, which is empty, from its files; `seen` gets each batch. Raises `DiskError`.

    Its last segment is not written to any more: what is at its end may be on the disk or only on the way there.
    """
    bases = files.found()
    for index, base_offset in enumerate(bases):
        is_below_start = index + 1 < len(bases) and bases[index + 1] <= start_offset
        if is_below_start or base_offset < log.high_watermark:  # compaction has made one of it and the one before
            files.drop(base_offset)
            continue
        batches = _sound_batches(files, base_offset)
        log.restore_segment(base_offset, batches, now_ms)
        for batch in batches:
            seen(batch)
    log.restored(start_offset, clean_to)


def _sound_batches(files: SegmentFiles, base_offset: int) -> list[RecordBatch]:
    """The batches of a segment up to the first bad one, where the file is cut."""
    data = files.read(base_offset)
    batches: list[RecordBatch] = []
    size, next_offset, problem = 0, base_offset, "it is not whole"
    try:
        for batch in iter_batches(data):
            batch.verify_crc()
            if batch.base_offset < next_offset:
                problem = f"its offset is {batch.base_offset}"
                break
            batches.append(batch)
            size += len(batch.data)
            next_offset = batch.last_offset + 1
    except RecordBatchError as error:
        problem = str(error)
    if size < len(data):
        logger.warning(
            "%s: cut off %d bytes behind offset %d, for the batch there is not sound: %s",
            files.path(base_offset),
            len(data) - size,
            next_offset - 1,
            problem,
        )
        files.cut(base_offset, size)
    return batches
