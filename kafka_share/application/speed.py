"""Says once in a process that its records take more CPU time than they need to.

The façades call it when a consumer is made: importing the package logs nothing.
"""

from __future__ import annotations

import logging
from functools import cache

from kafka_share import native


@cache
def say_if_not_compiled() -> None:
    """Log one line at INFO, the first time, when the compiled module is not used: why, and how to get it."""
    if native.WHY_PURE is not None:
        text = "kafka_share: the compiled module is not used, so that each record takes more CPU time: %s"
        logging.getLogger("kafka_share").info(text, native.WHY_PURE)
