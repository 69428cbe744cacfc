"""What the commands of `kafka-share dlq` do with their options, as click has parsed them."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs
import click

from kafka_share.admin import KafkaShareAdmin
from kafka_share.cli.clients import admin_client, client_settings, require_topic
from kafka_share.cli.dlq.letters import Choice, Letter
from kafka_share.cli.dlq.reading import Reader
from kafka_share.cli.dlq.replaying import Plan, Replay
from kafka_share.cli.dlq.views import heap_document, heaps, in_full, letter_document, table
from kafka_share.cli.output import print_document, print_line
from kafka_share.config import ShareAdminConfig

TOOL = "kafka-share"


@attrs.frozen
class Connection:
    """How a command reaches the cluster."""

    bootstrap_server: str
    command_config: Path | None
    timeout_ms: int
    debug: bool

    def settings(self) -> dict[str, Any]:
        """Keyword arguments for clients; warnings about the property file were shown before."""
        given = client_settings(self.bootstrap_server, self.command_config, ShareAdminConfig, warn=False)
        return {"client_id": TOOL, **given}


@attrs.frozen
class Found:
    """What of dead letters there is."""

    admin: KafkaShareAdmin
    settings: Mapping[str, Any]
    timeout_ms: int
    reader: Reader
    choice: Choice

    def letters(self) -> Iterator[Iterator[Letter]]:
        """The chosen letters, any number of times: the same ones each time, as they were at first."""
        spans = self.reader.spans(self.choice)
        notes = self.reader.notes(spans)
        while True:
            yield self.reader.letters(self.choice, spans, notes)


@contextmanager
def _found(connection: Connection, choice: Choice) -> Iterator[Found]:
    timeout_ms = connection.timeout_ms
    parts = (connection.bootstrap_server, connection.command_config, timeout_ms, connection.debug)
    with admin_client(TOOL, *parts) as admin:
        for topic in choice.topics:
            require_topic(admin, topic)
        settings = connection.settings()
        with Reader(admin, settings, timeout_ms) as reader:
            if not choice.topics:
                choice = attrs.evolve(choice, topics=reader.topics())
            yield Found(admin, settings, timeout_ms, reader, choice)


def run_list(connection: Connection, choice: Choice, *, as_json: bool) -> bool:
    """Counts by topic, origin, group and error."""
    with _found(connection, choice) as found:
        counted = heaps(next(found.letters()))
        topics = found.choice.topics
    if as_json:
        print_document({"topics": list(topics), "dead_letters": [heap_document(heap) for heap in counted]})
        return True
    if counted:
        for line in table(counted):
            click.echo(line)
    else:
        print_line(f"No dead letters in {', '.join(topics) or 'this cluster: no topic begins with dlq.'}", err=True)
    return True


def run_show(connection: Connection, choice: Choice, *, limit: int, as_json: bool) -> bool:
    """Letters in full, one after another."""
    shown = 0
    with _found(connection, choice) as found:
        for letter in next(found.letters()):
            if shown == limit:
                print_line(f"There are more than {limit}: --limit shows more of them", err=True)
                break
            shown += 1
            if as_json:
                print_document(letter_document(letter))
            else:
                click.echo("\n".join(in_full(letter)))
    if not shown:
        print_line("No such dead letters", err=True)
    return bool(shown)


def run_replay(
    connection: Connection,
    choice: Choice,
    *,
    to_topic: str | None,
    with_replayed: bool,
    dry_run: bool,
    is_agreed: bool,
    as_json: bool,
) -> bool:
    """Write the records back. Returns whether all of them could be."""
    if not dry_run and not is_agreed and (as_json or not _is_someone_there()):
        raise click.UsageError("nobody can be asked here: --yes does it, --dry-run only shows what would be done.")
    with _found(connection, choice) as found:
        replay = Replay(
            Plan(to_topic), lambda: Reader(found.admin, found.settings, found.timeout_ms), with_replayed=with_replayed
        )
        try:
            letters = found.letters()
            replay.look(next(letters))
            _refuse_missing(found.admin, replay.plan.records)
            if not as_json:
                _show(replay.plan, dry_run=dry_run)
            written = 0
            if replay.plan.total and not dry_run:
                if not is_agreed and not click.confirm("Write them?", err=True):
                    print_line("Nothing was written", err=True)
                    return False
                written = replay.run(next(letters), found.settings)
        finally:
            replay.close()
    if as_json:
        print_document(_document(replay.plan, written, dry_run=dry_run))
    elif written:
        print_line(f"{_records(written)} written")
    return not replay.plan.lost


def _is_someone_there() -> bool:
    return sys.stdin.isatty()


def _refuse_missing(admin: KafkaShareAdmin, topics: Iterable[str]) -> None:
    for topic in topics:
        require_topic(admin, topic)


def _show(plan: Plan, *, dry_run: bool) -> None:
    will = "would be written" if dry_run else "to write"
    for topic, count in sorted(plan.records.items()):
        print_line(f"{_records(count)} {will} to {topic}")
    if not plan.records:
        print_line("Nothing to write")
    if plan.duplicates:
        print_line(f"{plan.duplicates} left out: letters of the same records")
    if plan.replayed:
        print_line(f"{plan.replayed} left out: written back before (--with-replayed writes them again)")
    for letter in plan.lost:
        where = f"{letter.origin.topic}-{letter.origin.partition}@{letter.origin.offset}"
        print_line(
            f"{letter.place}@{letter.offset} left out: it has no copy, and {where} is not there any more", err=True
        )


def _document(plan: Plan, written: int, *, dry_run: bool) -> dict[str, Any]:
    return {
        "dry_run": dry_run,
        "records": dict(sorted(plan.records.items())),
        "written": written,
        "left_out_duplicates": plan.duplicates,
        "left_out_replayed": plan.replayed,
        "left_out_without_copy": [
            {"topic": letter.place.topic, "partition": letter.place.partition, "offset": letter.offset}
            for letter in plan.lost
        ],
    }


def _records(count: int) -> str:
    return f"{count} record{'' if count == 1 else 's'}"
