"""`kafka-share dlq`: the options of its commands."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeVar

import click

from kafka_share.cli.front import SubCommand, tool_command, tool_group
from kafka_share.cli.options import MAX_OFFSET, connection_options, debug_option, format_option, timeout_option

Decorated = TypeVar("Decorated", bound=Callable[..., Any])

_COMMANDS: Final[Mapping[str, SubCommand]] = MappingProxyType(
    {
        "list": SubCommand("kafka_share.cli.dlq.command:list_letters", "Count dead letters by origin and error."),
        "show": SubCommand("kafka_share.cli.dlq.command:show", "Show dead letters in full."),
        "replay": SubCommand("kafka_share.cli.dlq.command:replay", "Write dead letters back to their topics."),
    }
)
_EPILOG: Final = """\b
kafka-share dlq COMMAND --help shows options, examples and exit codes.
"""
_OF_LIST: Final = """\b
Examples:
  kafka-share dlq list --bootstrap-server localhost:9092
  kafka-share dlq list --bootstrap-server localhost:9092 --topic dlq.orders --group order-workers --format json

\b
Exit codes:
  0  the dead letters were counted, if there are any
  1  the cluster or the topic is not there, or may not be read
  2  an option is wrong or missing
"""
_OF_SHOW: Final = """\b
Examples:
  kafka-share dlq show --bootstrap-server localhost:9092 --topic dlq.orders --error ValueError
  kafka-share dlq show --bootstrap-server localhost:9092 --topic dlq.orders --partition 0 --offsets 17 --format json

\b
Exit codes:
  0  at least one was shown
  1  there is none of these, or the cluster or the topic is not there or may not be read
  2  an option is wrong or missing
"""
_OF_REPLAY: Final = """\b
Examples:
  kafka-share dlq replay --bootstrap-server localhost:9092 --topic dlq.orders --dry-run
  kafka-share dlq replay --bootstrap-server localhost:9092 --topic dlq.orders --error ValueError --yes
  kafka-share dlq replay --bootstrap-server localhost:9092 --topic dlq.orders --partition 0 --offsets 5-17 \\
      --to-topic orders-again

\b
Exit codes:
  0    all that were chosen are written, now or before
  1    some could not be written, the cluster or a topic is not there, or the answer was no
  2    an option is wrong or missing; nothing was done
  130  interrupted by Ctrl-C
"""
_OFFSETS: Final = re.compile(r"(\d+)(?:-(\d+))?", re.ASCII)


def _offsets(_: click.Context, parameter: click.Parameter, text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    found = _OFFSETS.fullmatch(text)
    first, last = (int(found[1]), int(found[2] or found[1])) if found else (1, 0)
    if not first <= last <= MAX_OFFSET:
        raise click.BadParameter(f"{text!r} is neither an offset nor a range such as 5-17", param=parameter)
    return first, last


def _choice_options(function: Decorated) -> Decorated:
    """`choice`: which dead letters are meant."""
    for option in (
        click.option("--error", metavar="TEXT", help="Those with this class of exception, such as ValueError."),
        click.option("--group", metavar="ID", help="Those that this share group gave up."),
        click.option("--origin", metavar="TOPIC", help="Those whose record is of this topic."),
        click.option(
            "--offsets", callback=_offsets, metavar="N[-M]", help="Those at these offsets of the dead-letter topic."
        ),
        click.option(
            "--partition", type=click.IntRange(0), metavar="N", help="Those in this partition of the dead-letter topic."
        ),
        click.option(
            "--topic", "topics", multiple=True, metavar="TOPIC",
            help="The dead-letter topic; may be repeated.  [default: all whose names begin with dlq.]",
        ),
    ):  # fmt: skip
        function = option(function)
    return function


def _common(function: Decorated) -> Decorated:
    return connection_options(_choice_options(timeout_option(debug_option(function))))


def _parts(given: dict[str, Any]) -> tuple[Any, Any]:
    """The connection and the choice, out of the options."""
    from kafka_share.cli.dlq.actions import Connection
    from kafka_share.cli.dlq.letters import Choice

    connection = Connection(
        *(given.pop(name) for name in ("bootstrap_server", "command_config", "timeout_ms", "debug"))
    )
    names = ("topics", "partition", "offsets", "origin", "group", "error")
    return connection, Choice(**{name: given.pop(name) for name in names})


@tool_group("dlq", _COMMANDS, epilog=_EPILOG)
def dlq() -> None:
    """List, show and replay dead letters: of workers, and of brokers from Kafka 4.4 on."""


@tool_command("list", no_args_is_help=False, epilog=_OF_LIST)
@_common
@format_option("json: one document with the counts.")
def list_letters(output_format: str, **given: Any) -> bool:
    """Count dead letters by their topic, the topic of the record, the group that gave it up, and the error.

    Reads the dead-letter topics from their beginning. It changes nothing and joins no group.
    """
    connection, choice = _parts(given)
    from kafka_share.cli.dlq.actions import run_list

    return run_list(connection, choice, as_json=output_format == "json")


@tool_command("show", no_args_is_help=False, epilog=_OF_SHOW)
@_common
@click.option(
    "--limit", type=click.IntRange(1), default=20, show_default=True, metavar="N", help="How many to show at most."
)
@format_option("json: an object per line, with every field and header.")
def show(limit: int, output_format: str, **given: Any) -> bool:
    """Show dead letters in full: where the record is, why it was given up, its headers, key and value."""
    connection, choice = _parts(given)
    from kafka_share.cli.dlq.actions import run_show

    return run_show(connection, choice, limit=limit, as_json=output_format == "json")


@tool_command("replay", no_args_is_help=False, epilog=_OF_REPLAY)
@_common
@click.option("--to-topic", metavar="TOPIC", help="Write to this topic.  [default: the topic of the record]")
@click.option("--with-replayed", is_flag=True, help="Write those again that were written back before.")
@click.option("--dry-run", is_flag=True, help="Only show what would be done.")
@click.option("--yes", "is_agreed", is_flag=True, help="Do not ask before writing.")
@format_option("json: one document with what was done; needs --yes or --dry-run.")
def replay(
    to_topic: str | None, with_replayed: bool, dry_run: bool, is_agreed: bool, output_format: str, **given: Any
) -> bool:
    """Write the records of dead letters back to their topics, without the headers of dead letters.

    The dead letters stay where they are. What was written back is noted beside them, and left out by the next run.
    """
    connection, choice = _parts(given)
    from kafka_share.cli.dlq.actions import run_replay

    return run_replay(
        connection,
        choice,
        to_topic=to_topic,
        with_replayed=with_replayed,
        dry_run=dry_run,
        is_agreed=is_agreed,
        as_json=output_format == "json",
    )
