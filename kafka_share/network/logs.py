"""Hands the client's log events to Python's logging: one place for loggers, levels, text and `extra` fields.

Called by the driver for the `Log` outputs of its core and by the connections. Which events there are, and what they may
contain, stands in `core.log_events`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from kafka_share.core.log_events import LOG_EVENTS
from kafka_share.harmless import excerpt


def log_event(
    name: str, fields: Mapping[str, str | int], client: Mapping[str, str | int], *, level: int | None = None
) -> None:
    """Log an event. `client` has what all records of one client share: `client_id`, `group_id`, `member_id`.

    Text from outside cannot forge a line: it is made harmless, in the text and in the attributes.

    `level` is given where one event is less interesting than others of its name.
    """
    event = LOG_EVENTS[name]
    logger = logging.getLogger(event.logger)
    chosen = event.level if level is None else level
    if logger.isEnabledFor(chosen):
        values = {
            key: excerpt(value) if isinstance(value, str) else value for key, value in {**fields, **client}.items()
        }
        text = " ".join(f"{key}={value}" for key, value in values.items())
        logger.log(chosen, "kafka_share: %s %s", name, text, extra={"event": name, **values})
