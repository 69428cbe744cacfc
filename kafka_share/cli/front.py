"""The front of every command-line tool: parsing, exit codes, and how an error is shown.

A tool is a click command made by `tool_command`; `kafka-share` has the same tools as its sub-commands. A tool's
function returns whether everything was done (None: yes); what it raises is shown in one line. For a tool's help nothing
is imported but its options: the function imports what it needs when it is called.
"""

from __future__ import annotations

import contextlib
import errno
import importlib
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple, NoReturn

import click

from kafka_share.cli.endings import APACHE, OURS, ExitCodes, ToolFailedError, problem_of
from kafka_share.cli.options import APACHE_OPTION, DEBUG_OPTION, FORMAT_OPTION
from kafka_share.cli.output import accept_every_character, print_document, print_line
from kafka_share.errors import ConfigurationError, KafkaShareError

_CONTEXT: Final[Mapping[str, Any]] = MappingProxyType({"help_option_names": ["-h", "--help"], "max_content_width": 120})


class Manner(NamedTuple):
    """How a tool is to end and to show its errors, by its arguments, which may be wrong otherwise."""

    codes: ExitCodes = OURS
    debug: bool = False
    json: bool = False


_FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""What writing to standard output ends with when there is no room."""

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

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            if not error.message.startswith("Got unexpected extra argument"):
                raise
            text = f"{error.message}. Groups and topics stand behind their options, as in --group ID."
            raise click.UsageError(text, ctx) from None

    def invoke(self, ctx: click.Context) -> Any:
        ctx.params = {name: _as_utf8(name, value) for name, value in ctx.params.items()}
        return super().invoke(ctx)

    def main(  # type: ignore[override]  # never returns: it is always the outermost command of its process
        self, args: Sequence[str] | None = None, prog_name: str | None = None, **extra: Any
    ) -> NoReturn:
        """Parse, run and exit. Tests catch `SystemExit`, as click's own test runner does."""
        arguments = list(sys.argv[1:] if args is None else args)
        manner = manner_of(arguments)
        extra["standalone_mode"] = False
        accept_every_character()
        try:
            result = super().main(arguments, prog_name, obj=manner, **extra)
            sys.stdout.flush()
        except (Exception, click.Abort) as error:  # noqa: BLE001  # a defect is shown in one line, too
            with contextlib.suppress(OSError):  # standard error may be full, too
                self._show(error, manner)
            _let_go_of_output()
            sys.exit(_exit_code(error, manner.codes))
        if result is None or isinstance(result, bool):
            sys.exit(manner.codes.failed if result is False else manner.codes.ok)
        sys.exit(result)  # of --help and --version

    def _show(self, error: BaseException, manner: Manner) -> None:
        if isinstance(error, ConfigurationError):
            error = click.UsageError(str(error))
        if isinstance(error, click.ClickException):
            error.show()
            return
        if isinstance(error, click.Abort):
            click.echo("Interrupted.", err=True)
            return
        if _is_from_pipe(error):
            return
        problem = problem_of(error)
        is_full = isinstance(error, OSError) and error.errno in _FULL and error.filename is None
        if is_full:
            problem = problem._replace(message=f"standard output cannot be written: {problem.message}")
        on_stderr = isinstance(error, ToolFailedError) and error.kind == "state"
        if manner.json:
            print_document({"error": problem._asdict()}, err=True)
        else:
            on_stdout = self._errors_on_stdout and not on_stderr and not is_full
            print_line(f"Error: {problem.message}", err=not on_stdout, spaced=self._errors_on_stdout)
        if manner.debug:
            import traceback

            traceback.print_exc()


def _exit_code(error: BaseException, codes: ExitCodes) -> int:
    if isinstance(error, ToolFailedError):
        return error.exit_code(codes)
    if isinstance(error, ConfigurationError | click.ClickException):
        return codes.usage
    return codes.interrupted if isinstance(error, click.Abort) else codes.failed


def _is_from_pipe(error: BaseException) -> bool:
    """Whether the reader of a pipe has seen enough, which is no error to tell of."""
    return isinstance(error, OSError) and error.errno == errno.EPIPE and not isinstance(error, KafkaShareError)


def _is_output_broken() -> bool:
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        return True
    return False


def _let_go_of_output() -> None:
    """What is still buffered for a full disk or a closed pipe must not fail once more at exit."""
    if _is_output_broken():
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115


def _as_utf8(name: str, value: Any) -> Any:
    """An option's text as UTF-8, which is what Kafka takes, whatever the locale is. Paths are left alone."""
    if isinstance(value, tuple):
        return tuple(_as_utf8(name, one) for one in value)
    if isinstance(value, dict):
        return {key: _as_utf8(name, one) for key, one in value.items()}
    if type(value) is not str or value.isprintable():
        return value
    try:
        return os.fsencode(value).decode()
    except (UnicodeDecodeError, UnicodeEncodeError):
        raise click.UsageError(f"--{name.replace('_', '-')} {value!a} is not UTF-8") from None


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

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name, command, rest = super().resolve_command(ctx, args)
        if isinstance(command, _Tool):
            self._errors_on_stdout = command._errors_on_stdout
        return name, command, rest

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


def tool_group(
    name: str, sub_commands: Mapping[str, SubCommand], *, epilog: str
) -> Callable[[Callable[..., None]], ToolGroup]:
    """Turn a function that does nothing into a tool with these sub-commands."""
    return click.group(name, cls=ToolGroup, context_settings=dict(_CONTEXT), sub_commands=sub_commands, epilog=epilog)
