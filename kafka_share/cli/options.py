"""The options that several command-line tools have: each stated once, as a decorator for click commands.

Nothing here talks to a cluster: what the options mean for a client is in `clients`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeVar

import click

Decorated = TypeVar("Decorated", bound=Callable[..., Any])

APACHE_OPTION: Final = "--apache-exit-codes"
DEBUG_OPTION: Final = "--debug"
FORMAT_OPTION: Final = "--format"
"""The three that `front` looks for before it knows whether the command line is right."""

SERVERS_VARIABLE: Final = "KAFKA_BOOTSTRAP_SERVERS"
"""The environment variable that stands in for --bootstrap-server."""
MAX_OFFSET: Final = 2**63 - 1


def connection_options(function: Decorated) -> Decorated:
    """`bootstrap_server` and `command_config` (a path or None), for `clients`."""
    server = click.option(
        "--bootstrap-server",
        required=True,
        envvar=SERVERS_VARIABLE,
        show_envvar=True,
        metavar="HOST:PORT[,…]",
        help="Where to look for the cluster first.",
    )
    config = click.option(
        "--command-config",
        metavar="FILE",
        type=click.Path(dir_okay=False, path_type=Path),
        help="Java property file with settings of the client, including those of security.",
    )
    return server(config(function))


def group_option(help_text: str, *, default: str | None = None) -> Callable[[Decorated], Decorated]:
    """`group`: the one share group that a tool is about; required if there is no default."""
    if default is None:  # to click 8.3 and later, `default=None` is a default like any other
        return click.option("--group", required=True, metavar="ID", help=help_text)
    return click.option("--group", default=default, show_default=True, metavar="ID", help=help_text)


def exit_options(function: Decorated) -> Decorated:
    """For tools that have a model among Apache's: `debug`, and a flag that only `front` looks at."""
    habit = click.option(
        APACHE_OPTION,
        is_flag=True,
        expose_value=False,
        help="Exit as Apache's tools do: 0 after an error that was printed, 1 after a wrong option or --help.",
    )
    return habit(debug_option(function))


def debug_option(function: Decorated) -> Decorated:
    """`debug`, for `logs`; `front` then shows stack traces."""
    return click.option(DEBUG_OPTION, is_flag=True, help="Log to standard error, and show stack traces.")(function)


def format_option(help_text: str) -> Callable[[Decorated], Decorated]:
    """`output_format`: text or json."""
    return click.option(
        FORMAT_OPTION,
        "output_format",
        type=click.Choice(["text", "json"]),
        default="text",
        show_default=True,
        help=help_text,
    )


def timeout_option(function: Decorated) -> Decorated:
    """`timeout_ms`, of each call to the cluster."""
    return click.option(
        "--timeout",
        "timeout_ms",
        type=click.IntRange(1),
        default=30_000,
        show_default=True,
        metavar="MS",
        help="How long each call to the cluster may take, in milliseconds.",
    )(function)


Completer: TypeAlias = Callable[[click.Context, click.Parameter, str], list[str]]


def completing(known: Iterable[str], ending: str = "") -> Completer:
    """For click's `shell_complete`: the known values that begin like the last one of a list with commas."""
    values = tuple(known)

    def complete(_context: click.Context, _parameter: click.Parameter, typed: str) -> list[str]:
        before, comma, last = typed.rpartition(",")
        return [f"{before}{comma}{value}{ending}" for value in values if value.lower().startswith(last.lower())]

    return complete


def property_option(
    name: str, help_text: str, variable: str | None = None, *, known: Iterable[str] = ()
) -> Callable[[Decorated], Decorated]:
    """An option NAME=VALUE that may be repeated; the function gets a dict. `known` names are completed by the shell."""
    names = (name,) if variable is None else (name, variable)
    return click.option(
        *names,
        multiple=True,
        metavar="NAME=VALUE",
        callback=_properties,
        shell_complete=completing(known, "="),
        help=help_text,
    )


def _properties(_: click.Context, parameter: click.Parameter, values: Sequence[str]) -> dict[str, str]:
    found = {}
    for number, value in enumerate(values, 1):
        name, equals, text = value.partition("=")
        if not equals or not name.strip():  # what stands there may have a password in it
            raise click.BadParameter(f"number {number} of {len(values)} is not NAME=VALUE", param=parameter)
        found[name.strip()] = text
    return found
