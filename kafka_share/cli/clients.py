"""The clients of the command-line tools, from the options that all tools have.

The tools import this when they are about to connect, not for their help texts.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from kafka_share.admin import KafkaShareAdmin
from kafka_share.admin_values import ClusterDescription
from kafka_share.cli.command_config import drop_unused, read_command_config, settings_of
from kafka_share.cli.endings import ToolFailedError
from kafka_share.cli.logs import logging_to_stderr
from kafka_share.cli.output import print_line
from kafka_share.config import ShareAdminConfig
from kafka_share.errors import KafkaShareError, OperationTimeoutError, UnknownTopicOrPartitionError

FIRST_ANSWER_MS: Final = 10_000
"""How long a person waits for the first sign of a cluster."""


def client_settings(
    bootstrap_server: str,
    command_config: Path | None,
    client: type,
    command_properties: Mapping[str, str] = MappingProxyType({}),
    *,
    warn: bool = True,
) -> dict[str, Any]:
    """Keyword arguments for a client with this attrs class of settings; with `warn`, warnings go to standard error.

    `command_properties` win over the file. Raises `ConfigurationError` for what cannot be used.
    """
    settings: dict[str, Any] = {}
    warnings: list[str] = []
    if command_config is not None:
        read = read_command_config(command_config, client)
        settings, warnings = read.settings, [f"{command_config}: {warning}" for warning in read.warnings]
    own = settings_of(command_properties, client)
    settings = {**settings, **own.settings}
    warnings += [*(f"--command-property: {warning}" for warning in own.warnings), *drop_unused(settings)]
    for warning in warnings if warn else ():
        print_line(f"Warning: {warning}", err=True)
    return {**settings, "bootstrap_servers": bootstrap_server}


def require_topic(admin: KafkaShareAdmin, topic: str) -> None:
    """Raises `ToolFailedError` if there is no such topic, and what the admin client raises."""
    described = admin.describe_topics([topic])[topic]
    if isinstance(described, UnknownTopicOrPartitionError):
        text = f"there is no topic '{topic}' in this cluster, or the user may not see it: check the name, or create it"
        raise ToolFailedError(text, code=described.name)
    if isinstance(described, KafkaShareError):
        raise described


def first_answer(admin: KafkaShareAdmin, settings: Mapping[str, Any]) -> ClusterDescription:
    """What the cluster says of itself, for a tool that would be silent until then: standard error names the address.

    `settings` are those that the admin client was made with. Raises `ToolFailedError` after `FIRST_ANSWER_MS` without
    an answer, or the timeout of a call if that is shorter; and what the admin client raises, such as a wrong password.
    """
    servers = settings["bootstrap_servers"]
    print_line(f"Asking {servers} …", err=True)
    try:
        return admin.describe_cluster(timeout_ms=min(FIRST_ANSWER_MS, settings["default_api_timeout_ms"]))
    except OperationTimeoutError as error:
        text = f"no broker answers at {servers}: {error} (check --bootstrap-server, and that a broker listens there)"
        raise ToolFailedError(text, code="BROKER_UNREACHABLE") from error


def admin_settings(tool: str, bootstrap_server: str, command_config: Path | None, timeout_ms: int) -> dict[str, Any]:
    """Keyword arguments for an admin client, each call of which may take `timeout_ms`."""
    return {
        "client_id": tool,
        "default_api_timeout_ms": timeout_ms,
        **client_settings(bootstrap_server, command_config, ShareAdminConfig),
    }


@contextlib.contextmanager
def admin_client(
    tool: str, bootstrap_server: str, command_config: Path | None, timeout_ms: int, debug: bool
) -> Iterator[KafkaShareAdmin]:
    """An admin client for as long as the block runs, with the log shown if `debug`; a call may take `timeout_ms`."""
    settings = admin_settings(tool, bootstrap_server, command_config, timeout_ms)
    with logging_to_stderr(debug), KafkaShareAdmin(**settings) as admin:
        yield admin
