"""`kafka-share worker` at work: finds the handler, and runs it with the log on standard error."""

from __future__ import annotations

import importlib
import json
import logging
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from kafka_share.cli.endings import ToolFailedError
from kafka_share.cli.logs import logging_to_stderr
from kafka_share.cli.worker.probe import probed
from kafka_share.worker import ShareWorker

_DESERIALIZERS: Final[Mapping[str, Callable[[bytes], Any] | None]] = MappingProxyType(
    {"bytes": None, "text": bytes.decode, "json": json.loads}
)


def load_handler(place: str) -> Callable[..., Any]:
    """The object that `package.module:name` names. Raises `ToolFailedError` if there is none that can be called."""
    module_name, colon, name = place.partition(":")
    if not (module_name and colon and name):
        raise _wrong(f"'{place}' names no handler: write MODULE:HANDLER, as in shop.jobs:handle")
    if (here := os.getcwd()) not in sys.path:
        sys.path.insert(0, here)
    try:
        found: Any = importlib.import_module(module_name)
    except Exception as error:
        raise _wrong(f"{module_name} cannot be imported: {type(error).__name__}: {error}") from error
    for part in name.split("."):
        found = getattr(found, part, None)
    if not callable(found):
        raise _wrong(f"{module_name} has no function {name}")
    handler: Callable[..., Any] = found
    return handler


def _wrong(text: str) -> ToolFailedError:
    return ToolFailedError(text, "value", code="HANDLER")


def run(
    topics: Sequence[str],
    handler: Callable[..., Any],
    value_format: str,
    settings: dict[str, Any],
    *,
    probe: tuple[str, int | None],
    debug: bool,
) -> bool:
    """Until a signal. Returns whether all handlers have ended. `probe`: where to answer probes, address and port."""
    worker: ShareWorker[Any, Any] = ShareWorker(
        topics, handler, value_deserializer=_DESERIALIZERS[value_format], **settings
    )
    with logging_to_stderr(debug, logging.INFO), probed(worker, *probe):
        worker.run()
    return not worker.inspect().running
