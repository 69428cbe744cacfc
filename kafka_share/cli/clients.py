"""The clients of the command-line tools, from the options that all tools have.

The tools import this when they are about to connect, not for their help texts.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import click
from click.core import ParameterSource

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
SILENT_MS: Final = 1_500
"""How long a tool says nothing before it says for whose answer it waits."""


class AdminConnection(NamedTuple):
    """How a tool asks a cluster."""

    settings: dict[str, Any]
    """Keyword arguments for an admin client."""
    first_answer_ms: int
    """How long the first answer may take."""


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


def first_answer(
    admin: KafkaShareAdmin, servers: str, limit_ms: int = FIRST_ANSWER_MS, *, is_announced: bool = False
) -> ClusterDescription:
    """What the cluster says of itself. Standard error names `servers` if that takes a while, or `is_announced`.

    Every tool that works on a cluster begins with this. Raises `ToolFailedError` after `limit_ms` without an answer,
    and what the admin client raises, such as a wrong password.
    """
    left_ms = limit_ms
    try:
        if not is_announced:
            silent_ms = min(SILENT_MS, limit_ms)
            left_ms -= silent_ms
            try:
                return admin.describe_cluster(timeout_ms=silent_ms)
            except OperationTimeoutError:
                if left_ms == 0:
                    raise
        print_line(f"Asking {servers} …", err=True)
        return admin.describe_cluster(timeout_ms=left_ms)
    except OperationTimeoutError as error:
        trouble = "" if error.__cause__ is None else f"; the last trouble was: {error.__cause__}"
        remedy = "check --bootstrap-server, and that a broker listens there, or allow more time"
        text = f"no broker answers at {servers}: nothing came within {limit_ms} ms{trouble} ({remedy})"
        raise ToolFailedError(text, code="BROKER_UNREACHABLE") from error


def admin_connection(tool: str, bootstrap_server: str, command_config: Path | None, timeout_ms: int) -> AdminConnection:
    """For an admin client, each call of which may take `timeout_ms`, the value of --timeout of the running command.

    The first answer has `FIRST_ANSWER_MS`, unless the user has said how long a call may take.
    """
    given = client_settings(bootstrap_server, command_config, ShareAdminConfig)
    settings = {"client_id": tool, "default_api_timeout_ms": timeout_ms, **given}
    source = click.get_current_context().get_parameter_source("timeout_ms")
    if "default_api_timeout_ms" not in given and source is ParameterSource.DEFAULT:
        return AdminConnection(settings, FIRST_ANSWER_MS)
    return AdminConnection(settings, settings["default_api_timeout_ms"])


@contextlib.contextmanager
def admin_client(
    tool: str,
    bootstrap_server: str,
    command_config: Path | None,
    timeout_ms: int,
    debug: bool,
    *,
    must_answer: bool = True,
) -> Iterator[KafkaShareAdmin]:
    """An admin client for as long as the block runs, with the log shown if `debug`; a call may take `timeout_ms`.

    Raises what `first_answer` raises before the block runs, if the cluster `must_answer`.
    """
    settings, limit_ms = admin_connection(tool, bootstrap_server, command_config, timeout_ms)
    with logging_to_stderr(debug), KafkaShareAdmin(**settings) as admin:
        if must_answer:
            first_answer(admin, bootstrap_server, limit_ms)
        yield admin
