"""`kafka-share doctor` from the facts to what is printed. `command` calls `examine`."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import attrs

from kafka_share.admin import KafkaShareAdmin
from kafka_share.cli.doctor.diagnosis import diagnose
from kafka_share.cli.doctor.facts import gather
from kafka_share.cli.doctor.finding import Finding
from kafka_share.cli.doctor.state_log import read_histories
from kafka_share.cli.logs import logging_to_stderr
from kafka_share.cli.output import print_document, print_line


def examine(
    settings: Mapping[str, Any], group: str, topic: str, observe_ms: int, debug: bool, *, as_json: bool
) -> bool:
    """Print the findings; returns whether none of them explains why records do not arrive."""

    def wait_ms(ms: int) -> None:
        time.sleep(ms / 1000)

    with logging_to_stderr(debug), KafkaShareAdmin(**settings) as admin:
        facts = gather(admin, group, topic, observe_ms, wait_ms, partial(read_histories, settings, group))
    findings = diagnose(facts)
    if as_json:
        document = {"group": group, "topic": topic, "findings": [attrs.asdict(finding) for finding in findings]}
        print_document(document, indent=2)
    else:
        _show(group, topic, findings)
    return not any(finding.is_cause for finding in findings)


def _show(group: str, topic: str, findings: Sequence[Finding]) -> None:
    if not any(finding.is_cause for finding in findings):
        print_line(f"Nothing was found that keeps records of '{topic}' from '{group}'.")
    for finding in findings:
        print_line(f"{'CAUSE' if finding.is_cause else 'note'}  {finding.code}", spaced=True)
        print_line(f"  {finding.text}")
        print_line(f"  -> {finding.remedy}")
