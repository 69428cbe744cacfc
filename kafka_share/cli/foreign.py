"""Settings for kafka-python's clients, which do what ours do not: produce, create topics, read a topic by itself.

The versions 2 and 3 of kafka-python name some things differently; for settings, that difference ends here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import kafka

IS_VERSION_2: Final = kafka.__version__.startswith("2.")
_BOOTSTRAP_TIMEOUT: Final = "bootstrap_timeout_ms"
_SHARED_PREFIXES: Final = ("ssl_", "sasl_", "security_", "client_id")


def client_settings(settings: Mapping[str, Any], timeout_ms: int) -> dict[str, Any]:
    """Keyword arguments for a client of kafka-python that connects as a client of ours with these settings would.

    It gives up after `timeout_ms` without a broker; version 2 has no such setting, and gives up after two seconds.
    """
    own = {name: value for name, value in settings.items() if name.startswith(_SHARED_PREFIXES) and value is not None}
    own["bootstrap_servers"] = str(settings["bootstrap_servers"]).split(",")
    return own if IS_VERSION_2 else {**own, _BOOTSTRAP_TIMEOUT: timeout_ms}
