"""The admin client of the sub-commands of `kafka-share`, made from their common options."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from kafka_share.admin import KafkaShareAdmin
from kafka_share.cli.front import client_settings, logging_to_stderr
from kafka_share.config import ShareAdminConfig


@contextlib.contextmanager
def admin_client(
    bootstrap_server: str, command_config: Path | None, timeout_ms: int, debug: bool
) -> Iterator[KafkaShareAdmin]:
    """An admin client for as long as the block runs; each of its calls may take `timeout_ms`."""
    settings = {
        "client_id": "kafka-share",
        "default_api_timeout_ms": timeout_ms,
        **client_settings(bootstrap_server, command_config, ShareAdminConfig),
    }
    with logging_to_stderr(debug), KafkaShareAdmin(**settings) as admin:
        yield admin
