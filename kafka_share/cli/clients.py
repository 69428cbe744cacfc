"""The clients of the command-line tools, from the options that all tools have.

The tools import this when they are about to connect, not for their help texts.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import click

from kafka_share.admin import KafkaShareAdmin
from kafka_share.cli.command_config import CommandConfig, drop_unused, read_command_config, settings_of
from kafka_share.cli.logs import logging_to_stderr
from kafka_share.config import ShareAdminConfig


def client_settings(
    bootstrap_server: str,
    command_config: Path | None,
    client: type,
    command_properties: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, Any]:
    """Keyword arguments for a client with this attrs class of settings; warnings go to standard error.

    `command_properties` win over the file. Raises `ConfigurationError` for what cannot be used.
    """
    settings: dict[str, Any] = {}
    if command_config is not None:
        settings = _settings_with_warnings(str(command_config), read_command_config(command_config, client))
    own = _settings_with_warnings("--command-property", settings_of(command_properties, client))
    settings = {**settings, **own}
    for warning in drop_unused(settings):
        click.echo(f"Warning: {warning}", err=True)
    return {**settings, "bootstrap_servers": bootstrap_server}


def _settings_with_warnings(source: str, read: CommandConfig) -> dict[str, Any]:
    for warning in read.warnings:
        click.echo(f"Warning: {source}: {warning}", err=True)
    return read.settings


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
