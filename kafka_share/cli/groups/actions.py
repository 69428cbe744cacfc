"""The actions of `kafka-share-groups`, by the names that `rules` gives them. `command` calls `run`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from kafka_share.admin import KafkaShareAdmin
from kafka_share.cli.clients import admin_client
from kafka_share.cli.groups.changing import run_alter, run_delete, run_delete_offsets, run_reset_offsets
from kafka_share.cli.groups.reading import run_describe, run_list
from kafka_share.cli.groups.rules import Options, check

_RUN: Final[Mapping[str, Callable[[KafkaShareAdmin, Options], bool]]] = MappingProxyType(
    {
        "list": run_list,
        "describe": run_describe,
        "delete": run_delete,
        "delete_offsets": run_delete_offsets,
        "reset_offsets": run_reset_offsets,
        "alter": run_alter,
    }
)


def run(options: Options, bootstrap_server: str, command_config: Path | None, debug: bool) -> bool:
    """Do what the options ask for; returns whether everything was done.

    Raises `click.UsageError` for options that do not go together, before anything is asked of the cluster.
    """
    action = check(options)
    with admin_client("kafka-share-groups", bootstrap_server, command_config, options.timeout_ms, debug) as admin:
        return _RUN[action](admin, options)
