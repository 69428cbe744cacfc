"""`kafka-share doctor GROUP --topic T`: the options, and how findings are shown."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Final

import attrs
import click

from kafka_share.cli.admin_client import admin_client
from kafka_share.cli.doctor.diagnosis import Finding, diagnose
from kafka_share.cli.doctor.facts import gather
from kafka_share.cli.exit_codes import OURS
from kafka_share.cli.front import (
    connection_options,
    debug_option,
    sub_command,
    timeout_option,
)

_EPILOG: Final = """\b
Examples:
  kafka-share doctor order-workers --topic orders --bootstrap-server localhost:9092
  kafka-share doctor order-workers --topic orders --bootstrap-server localhost:9092 --format json

\b
Exit codes:
  0  nothing was found that explains it
  1  a cause was found, or the cluster could not be asked
  2  an option is wrong or missing
"""


@sub_command("doctor", epilog=_EPILOG)
@click.argument("group")
@click.option("--topic", required=True, metavar="TOPIC", help="The topic whose records do not arrive.")
@connection_options
@click.option(
    "--observe",
    "observe_ms",
    type=click.IntRange(0),
    default=3_000,
    show_default=True,
    metavar="MS",
    help="How long to watch whether anything moves, in milliseconds.",
)
@click.option("--format", "output_format", type=click.Choice(["text", "json"]), default="text", show_default=True)
@timeout_option
@debug_option
def doctor(
    group: str,
    topic: str,
    bootstrap_server: str,
    command_config: Path | None,
    observe_ms: int,
    output_format: str,
    timeout_ms: int,
    debug: bool,
) -> int:
    """Name the reason why a share group gets no records of a topic.

    Looks at the cluster, the topic, the group and its members, and says for each finding what to do. It changes
    nothing, joins no group and takes no record.
    """
    with admin_client(bootstrap_server, command_config, timeout_ms, debug) as admin:
        facts = gather(admin, group, topic, observe_ms, lambda ms: time.sleep(ms / 1000))
    findings = diagnose(facts)
    if output_format == "json":
        document = {"group": group, "topic": topic, "findings": [attrs.asdict(finding) for finding in findings]}
        click.echo(json.dumps(document, indent=2))
    else:
        _show(group, topic, findings)
    return OURS.failed if any(finding.is_cause for finding in findings) else OURS.ok


def _show(group: str, topic: str, findings: tuple[Finding, ...]) -> None:
    if not any(finding.is_cause for finding in findings):
        click.echo(f"Nothing was found that keeps records of '{topic}' from '{group}'.")
    for finding in findings:
        click.echo(f"\n{'CAUSE' if finding.is_cause else 'note'}  {finding.code}")
        click.echo(f"  {finding.text}")
        click.echo(f"  -> {finding.remedy}")
