"""`kafka-share doctor` from the facts to what is printed. `command` calls `examine`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial

import attrs

from kafka_share.admin import KafkaShareAdmin
from kafka_share.cli.clients import AdminConnection, first_answer
from kafka_share.cli.doctor.diagnosis import diagnose
from kafka_share.cli.doctor.facts import Facts, gather
from kafka_share.cli.doctor.finding import Finding
from kafka_share.cli.doctor.state_log import read_histories
from kafka_share.cli.logs import logging_to_stderr
from kafka_share.cli.output import print_document, print_line


@attrs.frozen
class _Result:
    """What was found, and of which topics it was said; none where the group is the trouble."""

    finding: Finding
    topics: tuple[str, ...]


def examine(
    connection: AdminConnection, group: str, topic: str | None, observe_ms: int, debug: bool, *, as_json: bool
) -> bool:
    """Print the findings; returns whether none of them explains why records do not arrive.

    Without a topic, about all topics that the group's offsets or members name.
    """

    def wait_ms(ms: int) -> None:
        time.sleep(ms / 1000)

    settings, limit_ms = connection
    with logging_to_stderr(debug), KafkaShareAdmin(**settings) as admin:
        cluster = first_answer(admin, settings["bootstrap_servers"], limit_ms, is_announced=True)
        facts = gather(admin, cluster, group, topic, observe_ms, wait_ms, partial(read_histories, settings, group))
    topics = [one.topic_name for one in facts if one.topic is not None]
    results = _merged(facts)
    if as_json:
        found = [{**attrs.asdict(one.finding), "topics": one.topics} for one in results]
        print_document({"group": group, "topics": topics, "findings": found}, indent=2)
    else:
        _show(group, topics, results)
    return not any(one.finding.is_cause for one in results)


def _merged(facts: Sequence[Facts]) -> list[_Result]:
    """The findings about all topics, causes first; what is said of several topics alike is said once."""
    topics: dict[Finding, list[str]] = {}
    for one in facts:
        for finding in diagnose(one):
            topics.setdefault(finding, []).extend([one.topic_name] if one.topic is not None else [])
    results = [_Result(finding, tuple(names)) for finding, names in topics.items()]
    return sorted(results, key=lambda result: not result.finding.is_cause)


def _show(group: str, topics: Sequence[str], results: Sequence[_Result]) -> None:
    if not any(one.finding.is_cause for one in results):
        of_what = " and ".join(f"'{topic}'" for topic in topics)
        print_line(f"Nothing was found that keeps records of {of_what} from '{group}'.")
    for one in results:
        finding = one.finding
        about = f"  ({', '.join(one.topics)})" if len(topics) > 1 else ""
        print_line(f"{'CAUSE' if finding.is_cause else 'note'}  {finding.code}{about}", spaced=True)
        print_line(f"  {finding.text}")
        print_line(f"  -> {finding.remedy}")
