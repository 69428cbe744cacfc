"""The judgement of `kafka-share doctor`: from facts to findings, each with its remedy. Pure.

The rules are asked in the order in which a reader would: what rules out everything else first. `examination` calls
`diagnose`.
"""

from __future__ import annotations

from kafka_share.cli.doctor.cluster_rules import DECIDING, STANDING
from kafka_share.cli.doctor.facts import Facts
from kafka_share.cli.doctor.finding import Finding
from kafka_share.cli.doctor.progress_rules import PROGRESS


def diagnose(facts: Facts) -> tuple[Finding, ...]:
    """All findings, causes first. Without a cause, nothing that the cluster tells explains a silent consumer."""
    for rule in DECIDING:
        found = tuple(rule(facts))
        if found:
            return found
    found = tuple(finding for rule in (*STANDING, *PROGRESS) for finding in rule(facts))
    return tuple(sorted(found, key=lambda finding: not finding.is_cause))
