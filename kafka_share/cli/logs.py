"""What a command-line tool shows of the log, while it runs: by default nothing, because what matters is raised."""

from __future__ import annotations

import contextlib
import copy
import logging
from collections.abc import Iterator
from typing import Final

from kafka_share.harmless import harmless

_NOTHING: Final = logging.CRITICAL + 1
_OURS: Final = "kafka_share"
_KAFKA_PYTHON: Final = "kafka"
"""It logs each failed attempt to connect as an error."""


@contextlib.contextmanager
def logging_to_stderr(debug: bool, level: int = _NOTHING, *, stack_traces: bool = True) -> Iterator[None]:
    """With `debug` everything that this package and kafka-python log; otherwise what this package logs from `level` on.

    Afterwards logging is as it was.
    """
    formatter = _OneLine if debug or stack_traces else _WithoutStackTrace
    handler = logging.StreamHandler()
    handler.setFormatter(formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    with (
        _sent_to(handler, _OURS, logging.DEBUG if debug else level),
        _sent_to(handler, _KAFKA_PYTHON, logging.DEBUG if debug else _NOTHING),
    ):
        yield


@contextlib.contextmanager
def _sent_to(handler: logging.Handler, name: str, level: int) -> Iterator[None]:
    logger = logging.getLogger(name)
    before = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(level)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before[0])
        logger.propagate = before[1]


class _OneLine(logging.Formatter):
    """Messages hold names and texts of others."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  # logging's name
        return harmless(super().formatMessage(record))


class _WithoutStackTrace(_OneLine):
    """Keeps a log record to its message; the record itself stays whole for other handlers."""

    def format(self, record: logging.LogRecord) -> str:
        record = copy.copy(record)
        record.exc_info = record.exc_text = record.stack_info = None
        return super().format(record)
