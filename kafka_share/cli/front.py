"""What the command-line tools have in common: their connection options, their exit codes, how an error is shown.

A tool is a click command of the class `ToolCommand` whose function returns its exit code (None: ok). Tools add
`connection_options` and `behaviour_options` to their own, and call `client_settings` for what their client is made of.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Literal, NoReturn, TypeVar

import click

from kafka_share.cli.command_config import CommandConfig, read_command_config, settings_of
from kafka_share.cli.exit_codes import APACHE, APACHE_OPTION, OURS, ExitCodes, chosen_exit_codes
from kafka_share.cli.remedies import with_remedy
from kafka_share.errors import ConfigurationError, KafkaShareError

Decorated = TypeVar("Decorated", bound=Callable[..., Any])

CONTEXT_SETTINGS: Final = {"help_option_names": ["-h", "--help"], "max_content_width": 120}
_HELP_OPTIONS: Final = ("-h", "--help")
_DEBUG_OPTION: Final = "--debug"


class ToolFailedError(Exception):
    """A tool cannot do what it was asked for; the message says why and what to do.

    `kind` "operation": the operation failed. "value": an option's value cannot work, which Apache's tools notice only
    while they run, so that it ends like a failed operation there. "state": refused on standard error and with exit code
    1 by Apache's tools, too.
    """

    def __init__(self, message: str, kind: Literal["operation", "value", "state"] = "operation") -> None:
        super().__init__(message)
        self.kind = kind

    def exit_code(self, codes: ExitCodes) -> int:
        """By the habit that the command line has chosen."""
        if self.kind == "value" and codes is not APACHE:
            return codes.usage
        return OURS.failed if self.kind == "state" else codes.failed


class _Tool(click.Command):
    """A command that ends with the exit codes of `exit_codes`, and shows errors without stack traces.

    Errors of the operation go to standard error; `errors_on_stdout` moves them to standard output, in Apache's shape,
    for text that is compared with what Apache's tools print.
    """

    def __init__(self, *args: Any, errors_on_stdout: Callable[[Sequence[str]], bool] | None = None, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self._errors_on_stdout = errors_on_stdout

    def main(  # type: ignore[override]  # never returns: it is always the outermost command of its process
        self, args: Sequence[str] | None = None, prog_name: str | None = None, **extra: Any
    ) -> NoReturn:
        """Parse, run and exit. Tests catch `SystemExit`, as click's own test runner does."""
        arguments = list(sys.argv[1:] if args is None else args)
        codes = chosen_exit_codes(arguments)
        if codes is APACHE and any(option in arguments for option in _HELP_OPTIONS):
            context = self.make_context(prog_name or self.name, [], resilient_parsing=True)
            click.echo(self.get_help(context), err=True)
            sys.exit(codes.help)
        extra.pop("standalone_mode", None)
        try:
            code = super().main(arguments, prog_name, standalone_mode=False, **extra)
        except (click.ClickException, click.Abort, OSError, KafkaShareError, ToolFailedError) as error:
            code = self._ended_by(error, arguments, codes)
        except Exception as error:  # noqa: BLE001  # a defect: shown in one line, too, unless --debug is given
            self._show(f"{type(error).__name__}: {error} (a defect; --debug shows where)", arguments)
            code = codes.failed
        sys.exit(code or codes.ok)

    def _ended_by(self, error: BaseException, arguments: Sequence[str], codes: ExitCodes) -> int:
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
            self._show(str(error), arguments, on_stderr=error.kind == "state")
            return error.exit_code(codes)
        self._show(with_remedy(error) if isinstance(error, KafkaShareError) else str(error), arguments)
        return codes.failed

    def _show(self, message: str, arguments: Sequence[str], *, on_stderr: bool = False) -> None:
        if self._errors_on_stdout is not None and self._errors_on_stdout(arguments) and not on_stderr:
            click.echo(f"\nError: {message}")
        else:
            click.echo(f"\nError: {message}" if self._errors_on_stdout else f"Error: {message}", err=True)
        if _DEBUG_OPTION in arguments:
            traceback.print_exc()


class ToolCommand(_Tool):
    """A tool that is one command."""


class ToolGroup(_Tool, click.Group):
    """A tool with sub-commands; what they return is the exit code, what they raise is shown in the same way."""


def tool_command(
    name: str, *, errors_on_stdout: Callable[[Sequence[str]], bool] | None = None, **settings: Any
) -> Callable[[Callable[..., int | None]], ToolCommand]:
    """Turn a function into the command of a tool. Without any argument the tool prints its help as a usage error."""

    def decorate(function: Callable[..., int | None]) -> ToolCommand:
        make = click.command(
            name,
            cls=ToolCommand,
            context_settings=CONTEXT_SETTINGS,
            no_args_is_help=True,
            errors_on_stdout=errors_on_stdout,
            **settings,
        )
        return make(function)

    return decorate


def sub_command(name: str, **settings: Any) -> Callable[[Callable[..., int | None]], click.Command]:
    """Turn a function into a sub-command of a `ToolGroup`."""
    return click.command(name, context_settings=CONTEXT_SETTINGS, no_args_is_help=True, **settings)


def connection_options(function: Decorated) -> Decorated:
    """`bootstrap_server` and `command_config` (a path or None), for `client_settings`."""
    server = click.option(
        "--bootstrap-server", required=True, metavar="HOST:PORT[,…]", help="Where to look for the cluster first."
    )
    config = click.option(
        "--command-config",
        metavar="FILE",
        type=click.Path(dir_okay=False, path_type=Path),
        help="Java property file with settings of the client, those of security included.",
    )
    return server(config(function))


def property_option(name: str, metavar: str, help_text: str) -> Callable[[Decorated], Decorated]:
    """An option NAME=VALUE that may be repeated; its value is a dict."""
    return click.option(name, multiple=True, metavar=metavar, callback=_properties, help=help_text)


def _properties(_: click.Context, parameter: click.Parameter, values: Sequence[str]) -> dict[str, str]:
    found = {}
    for value in values:
        name, separator, text = value.partition("=")
        if not separator:
            raise click.BadParameter(f"'{value}' is not NAME=VALUE", param=parameter)
        found[name.strip()] = text
    return found


def behaviour_options(function: Decorated) -> Decorated:
    """`apache_exit_codes` and `debug`; both take effect in `ToolCommand` and in `logging_to_stderr`."""
    habit = click.option(
        APACHE_OPTION,
        is_flag=True,
        help="Exit as Apache's tools do: 0 after an error that was printed, 1 after a wrong option or --help.",
    )
    return habit(debug_option(function))


def debug_option(function: Decorated) -> Decorated:
    """`debug`, for tools that have no model among Apache's."""
    return click.option(_DEBUG_OPTION, is_flag=True, help="Log to standard error, and show stack traces.")(function)


def timeout_option(function: Decorated) -> Decorated:
    """`timeout_ms`, for tools that have no model among Apache's."""
    return click.option(
        "--timeout",
        "timeout_ms",
        type=click.IntRange(1),
        default=30_000,
        show_default=True,
        metavar="MS",
        help="How long each call to the cluster may take, in milliseconds.",
    )(function)


def client_settings(
    bootstrap_server: str,
    command_config: Path | None,
    client: type,
    command_properties: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, Any]:
    """Keyword arguments for a client with this attrs class of settings; warnings go to standard error.

    `command_properties` win over the file. Raises `ConfigurationError` for what cannot be used.
    """
    settings: dict[str, Any] = {}
    if command_config is not None:
        settings = _settings_with_warnings(str(command_config), read_command_config(command_config, client))
    own = _settings_with_warnings("--command-property", settings_of(command_properties, client))
    return {**settings, **own, "bootstrap_servers": bootstrap_server}


def _settings_with_warnings(source: str, read: CommandConfig) -> dict[str, Any]:
    for warning in read.warnings:
        click.echo(f"Warning: {source}: {warning}", err=True)
    return read.settings


@contextlib.contextmanager
def logging_to_stderr(debug: bool) -> Iterator[None]:
    """With `debug` everything that the package logs, otherwise nothing: what matters is raised in the end."""
    logger = logging.getLogger("kafka_share")
    before = logger.level, logger.propagate
    handler = logging.StreamHandler() if debug else logging.NullHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG if debug else logging.CRITICAL)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before[0])
        logger.propagate = before[1]
