"""`kafka-share doctor` from the facts to what is printed. `command` calls `examine`."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence

import attrs
import click

from kafka_share.admin import KafkaShareAdmin
from kafka_share.cli.doctor.diagnosis import Finding, diagnose
from kafka_share.cli.doctor.facts import gather


def examine(admin: KafkaShareAdmin, group: str, topic: str, observe_ms: int, *, as_json: bool) -> bool:
    """Print the findings; returns whether none of them explains why records do not arrive."""
    findings = diagnose(gather(admin, group, topic, observe_ms, lambda ms: time.sleep(ms / 1000)))
    if as_json:
        document = {"group": group, "topic": topic, "findings": [attrs.asdict(finding) for finding in findings]}
        click.echo(json.dumps(document, indent=2))
    else:
        _show(group, topic, findings)
    return not any(finding.is_cause for finding in findings)


def _show(group: str, topic: str, findings: Sequence[Finding]) -> None:
    if not any(finding.is_cause for finding in findings):
        click.echo(f"Nothing was found that keeps records of '{topic}' from '{group}'.")
    for finding in findings:
        click.echo(f"\n{'CAUSE' if finding.is_cause else 'note'}  {finding.code}")
        click.echo(f"  {finding.text}")
        click.echo(f"  -> {finding.remedy}")
