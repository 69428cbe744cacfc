"""The front of every command-line tool: parsing, exit codes, and how an error is shown.

A tool is a click command made by `tool_command`, a sub-command of `kafka-share` one made by `sub_command`. Its function
returns whether everything was done (None: yes); what it raises is shown in one line. For a tool's help nothing is
imported but its options: the function imports what it needs when it is called.
"""

from __future__ import annotations

import errno
import importlib
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple, NoReturn

import click

from kafka_share.cli.endings import APACHE, OURS, ExitCodes, ToolFailedError, with_remedy
from kafka_share.cli.options import APACHE_OPTION, DEBUG_OPTION, FORMAT_OPTION
from kafka_share.errors import ConfigurationError, KafkaShareError

_CONTEXT: Final[Mapping[str, Any]] = MappingProxyType({"help_option_names": ["-h", "--help"], "max_content_width": 120})


class Manner(NamedTuple):
    """How a tool is to end and to show its errors, by its arguments, which may be wrong otherwise."""

    codes: ExitCodes = OURS
    debug: bool = False
    json: bool = False


_MANNER: Final = click.Command(
    None,
    params=[
        click.Option([APACHE_OPTION, "apache"], is_flag=True),
        click.Option([DEBUG_OPTION, "debug"], is_flag=True),
        click.Option([FORMAT_OPTION, "format"]),
    ],
    add_help_option=False,
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True, "resilient_parsing": True},
)


def manner_of(arguments: Sequence[str]) -> Manner:
    """What the command line asks for; a wrong option ends that way, too, wherever it stands."""
    given = _MANNER.make_context(None, list(arguments)).params
    return Manner(APACHE if given["apache"] else OURS, bool(given["debug"]), given["format"] == "json")


class _Tool(click.Command):
    """A command that always ends its process. Errors of the operation go to standard error, without stack traces.

    `errors_on_stdout`: as text, they go to standard output in the shape that Apache's tool for groups gives them.
    """

    def __init__(self, *args: Any, errors_on_stdout: bool = False, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._errors_on_stdout = errors_on_stdout

    def get_help_option(self, ctx: click.Context) -> click.Option | None:
        option = super().get_help_option(ctx)
        if option is not None:
            option.callback = _show_help
        return option

    def main(  # type: ignore[override]  # never returns: it is always the outermost command of its process
        self, args: Sequence[str] | None = None, prog_name: str | None = None, **extra: Any
    ) -> NoReturn:
        """Parse, run and exit. Tests catch `SystemExit`, as click's own test runner does."""
        arguments = list(sys.argv[1:] if args is None else args)
        manner = manner_of(arguments)
        extra["standalone_mode"] = False
        try:
            result = super().main(arguments, prog_name, obj=manner, **extra)
        except (click.ClickException, click.Abort, OSError, KafkaShareError, ToolFailedError) as error:
            sys.exit(self._ended_by(error, manner))
        except Exception as error:  # noqa: BLE001  # a defect: shown in one line, too, unless --debug is given
            self._show(f"{type(error).__name__}: {error} (a defect; {DEBUG_OPTION} shows where)", manner)
            sys.exit(manner.codes.failed)
        if result is None or isinstance(result, bool):
            sys.exit(manner.codes.failed if result is False else manner.codes.ok)
        sys.exit(result)  # of --help and --version

    def _ended_by(self, error: BaseException, manner: Manner) -> int:
        """Show the error; the exit code."""
        codes = manner.codes
        if isinstance(error, ConfigurationError):
            error = click.UsageError(str(error))
        if isinstance(error, click.ClickException):
            error.show()
            return codes.usage
        if isinstance(error, click.Abort):
            click.echo("Interrupted.", err=True)
            return codes.interrupted
        if isinstance(error, OSError) and error.errno == errno.EPIPE and not isinstance(error, KafkaShareError):
            # The reader of a pipe has seen enough; what is still buffered must not fail at exit.
            sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
            return codes.failed
        if isinstance(error, ToolFailedError):
            self._show(str(error), manner, on_stderr=error.kind == "state")
            return error.exit_code(codes)
        self._show(with_remedy(error) if isinstance(error, KafkaShareError) else str(error), manner)
        return codes.failed

    def _show(self, message: str, manner: Manner, *, on_stderr: bool = False) -> None:
        empty_line = "\n" if self._errors_on_stdout else ""
        on_stdout = self._errors_on_stdout and not manner.json and not on_stderr
        click.echo(f"{empty_line}Error: {message}", err=not on_stdout)
        if manner.debug:
            import traceback

            traceback.print_exc()


def _show_help(context: click.Context, _: click.Parameter, is_asked_for: bool) -> None:
    """Apache's tools print their help on standard error."""
    if is_asked_for and not context.resilient_parsing:
        codes = context.obj.codes if isinstance(context.obj, Manner) else OURS
        click.echo(context.get_help(), err=codes is APACHE)
        context.exit(codes.help)


class ToolCommand(_Tool):
    """A tool that is one command."""


class SubCommand(NamedTuple):
    """Where a sub-command is, as in `package.module:attribute`, and one line about it for the list of them."""

    place: str
    summary: str


class ToolGroup(_Tool, click.Group):
    """A tool with sub-commands, each of which is imported when it is called for."""

    def __init__(self, *args: Any, sub_commands: Mapping[str, SubCommand], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.sub_commands = sub_commands

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(self.sub_commands)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.sub_commands:
            return None
        module, _, attribute = self.sub_commands[cmd_name].place.partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, self.sub_commands[name].summary) for name in self.list_commands(ctx)])


def tool_command(
    name: str, *, errors_on_stdout: bool = False, no_args_is_help: bool = True, epilog: str
) -> Callable[[Callable[..., bool | None]], ToolCommand]:
    """Turn a function into the command of a tool. Without any argument the tool prints its help as a usage error."""
    return click.command(
        name,
        cls=ToolCommand,
        context_settings=dict(_CONTEXT),
        errors_on_stdout=errors_on_stdout,
        no_args_is_help=no_args_is_help,
        epilog=epilog,
    )


def sub_command(
    name: str, *, no_args_is_help: bool = True, epilog: str
) -> Callable[[Callable[..., bool | None]], click.Command]:
    """Turn a function into a sub-command of a `ToolGroup`."""
    return click.command(name, context_settings=dict(_CONTEXT), no_args_is_help=no_args_is_help, epilog=epilog)


def tool_group(name: str, sub_commands: Mapping[str, SubCommand]) -> Callable[[Callable[..., None]], ToolGroup]:
    """Turn a function that does nothing into a tool with these sub-commands."""
    return click.group(name, cls=ToolGroup, context_settings=dict(_CONTEXT), sub_commands=sub_commands)
