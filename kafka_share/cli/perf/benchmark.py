"""One run of `kafka-share-perf` from its options to its last row: makes the consumers, runs them, prints, closes them.

`command` calls `measure` with the options as click has parsed them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import click
from click.core import ParameterSource

from kafka_share.admin import KafkaShareAdmin
from kafka_share.cli.clients import FIRST_ANSWER_MS, client_settings, first_answer, require_topic
from kafka_share.cli.endings import ToolFailedError
from kafka_share.cli.logs import logging_to_stderr
from kafka_share.cli.output import print_line
from kafka_share.cli.perf.report import Report
from kafka_share.cli.perf.running import Consumer, Run
from kafka_share.config import ShareAdminConfig, ShareConsumerConfig
from kafka_share.consumer import KafkaShareConsumer
from kafka_share.errors import KafkaShareError

_CLIENT_ID: Final = "perf-share-consumer-client"
_COMMIT_TIMEOUT_MS: Final = 10_000
_SETTINGS: Final = {
    "group": "group_id",
    "fetch_size": "fetch_max_bytes",
    "socket_buffer_size": "receive_buffer_bytes",
    "max_poll_records": "max_poll_records",
    "acknowledge": "share_acknowledgement_mode",
}
"""Option -> the setting of the client that it is."""
_TOO_FEW: Final = (
    "fewer records came than the {wanted} that were asked for: there was none for {timeout_ms} ms. If more were to "
    "come, raise --timeout; a new group starts at the end of the topic unless its share.auto.offset.reset is earliest."
)


def measure(bootstrap_server: str, command_config: Path | None, debug: bool, given: Mapping[str, Any]) -> bool:
    """Returns whether enough records came. Raises `click.Abort` after Ctrl-C, when the row so far was printed."""
    report = Report(
        date_format=given["date_format"],
        apache_only=given["apache_columns"],
        as_json=given["output_format"] == "json",
    )
    wanted_records = _wanted_records(given, report)
    settings = {"allow_auto_create_topics": False, **_settings(bootstrap_server, command_config, given)}
    client_ids = _client_ids(settings.pop("client_id"), given["threads"])
    with logging_to_stderr(debug), contextlib.ExitStack() as stack:
        of_admin = _admin_settings(bootstrap_server, command_config, given)
        _require_answer(of_admin, given["timeout_ms"])
        consumers: list[Consumer] = []
        for client_id in client_ids:
            consumer: Consumer = KafkaShareConsumer(given["topic"], **settings, client_id=client_id)
            consumers.append(stack.enter_context(consumer))
        run = Run(
            consumers=consumers,
            wanted_records=wanted_records,
            timeout_ms=given["timeout_ms"],
            acknowledges_each=settings["share_acknowledgement_mode"] == "explicit",
            report_every_ms=given["reporting_interval"] if given["show_detailed_stats"] else None,
            on_interval=report.interval,
        )
        if not given["hide_header"]:
            report.header()
        interrupted = False
        try:
            run.run()
        except KeyboardInterrupt:
            interrupted = True
        missing = _missing_topic(of_admin, given["topic"]) if run.timed_out else None
        _print_results(run, report, client_ids, given, complete=not (interrupted or run.timed_out), missing=missing)
        _accept_the_last(consumers)
    if interrupted:
        raise click.Abort
    return not run.timed_out


def _print_results(
    run: Run,
    report: Report,
    client_ids: Sequence[str],
    given: Mapping[str, Any],
    *,
    complete: bool,
    missing: str | None,
) -> None:
    if given["show_consumer_stats"]:
        report.consumers(run.of_each(), client_ids)
    if run.timed_out:
        report.remark(missing or _TOO_FEW.format(wanted=run.wanted_records, timeout_ms=run.timeout_ms))
    report.total(run.total(), complete=complete)
    if given["print_metrics"]:
        for client_id, consumer in zip(client_ids, run.consumers, strict=True):
            report.metrics(client_id, consumer.metrics())


def _wanted_records(given: Mapping[str, Any], report: Report) -> int:
    wanted, old = given["num_records"], given["messages"]
    if (wanted is None) == (old is None):
        raise click.UsageError("say with --num-records after how many records to end.")
    if old is not None:
        report.remark("--messages is an old name; use --num-records.")
    found: int = old if wanted is None else wanted
    return found


def _settings(bootstrap_server: str, command_config: Path | None, given: Mapping[str, Any]) -> dict[str, Any]:
    """An option that was given wins over a property, and a property over the default of an option."""
    context = click.get_current_context()
    options = {setting: given[option] for option, setting in _SETTINGS.items()}
    chosen = {
        setting: given[option]
        for option, setting in _SETTINGS.items()
        if context.get_parameter_source(option) is not ParameterSource.DEFAULT
    }
    properties = client_settings(bootstrap_server, command_config, ShareConsumerConfig, given["command_property"])
    return {"client_id": _CLIENT_ID, **options, **properties, **chosen}


def _admin_settings(bootstrap_server: str, command_config: Path | None, given: Mapping[str, Any]) -> dict[str, Any]:
    return client_settings(bootstrap_server, command_config, ShareAdminConfig, given["command_property"], warn=False)


def _require_answer(settings: Mapping[str, Any], timeout_ms: int) -> None:
    """Raises what keeps the cluster from being asked."""
    limit_ms = settings.get("default_api_timeout_ms", min(FIRST_ANSWER_MS, timeout_ms))
    with KafkaShareAdmin(**settings) as admin:
        first_answer(admin, settings["bootstrap_servers"], limit_ms)


def _missing_topic(settings: Mapping[str, Any], topic: str) -> str | None:
    """That the topic is not there, if that is why nothing came."""
    with KafkaShareAdmin(**settings) as admin:
        try:
            require_topic(admin, topic)
        except (ToolFailedError, KafkaShareError) as error:
            return f"{error}."
    return None


def _client_ids(name: str, threads: int) -> list[str]:
    return [name] if threads == 1 else [f"{name}-{number}" for number in range(1, threads + 1)]


def _accept_the_last(consumers: Sequence[Consumer]) -> None:
    """What was counted is accepted, too; no poll follows that would do it."""
    for consumer in consumers:
        for partition, error in consumer.commit_sync(timeout_ms=_COMMIT_TIMEOUT_MS).items():
            if error is not None:
                print_line(f"Warning: records of {partition} could not be accepted: {error}", err=True)
