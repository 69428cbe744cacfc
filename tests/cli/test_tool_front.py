"""How the command-line tools end: exit codes, streams, and what an error looks like."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable

import click
import pytest

from kafka_share.cli.endings import APACHE, OURS, REMEDIES, ToolFailedError, with_remedy
from kafka_share.cli.front import Manner, manner_of, tool_command
from kafka_share.cli.logs import logging_to_stderr
from kafka_share.cli.options import exit_options, format_option
from kafka_share.errors import (
    BrokerUnreachableError,
    ConfigurationError,
    KafkaShareError,
    NonEmptyGroupError,
    RemoteProtocolError,
)


def ended(action: Callable[[], bool | None], *arguments: str, on_stdout: bool = False) -> int:
    """The exit code of a tool that does this."""

    @tool_command("tool", errors_on_stdout=on_stdout, epilog="")
    @click.option("--go", is_flag=True)
    @format_option("of its output")
    @exit_options
    def tool(go: bool, output_format: str, debug: bool) -> bool | None:
        """Does something."""
        return action()

    with pytest.raises(SystemExit) as caught:
        tool.main(["--go", *arguments], prog_name="tool")
    assert isinstance(caught.value.code, int)
    return caught.value.code


def failing(error: BaseException) -> Callable[[], bool | None]:
    def action() -> bool | None:
        raise error

    return action


def test_a_tool_ends_with_what_its_function_returns() -> None:
    """Nothing is success; what was not done is a failure, which Apache's tools show in their output only."""
    assert ended(lambda: None) == 0
    assert ended(lambda: True) == 0
    assert ended(lambda: False) == 1
    assert ended(lambda: False, "--apache-exit-codes") == 0


@pytest.mark.parametrize(
    ("error", "ours", "apache"),
    [
        pytest.param(ToolFailedError("no"), 1, 0, id="operation"),
        pytest.param(ToolFailedError("no", "value"), 2, 0, id="value"),
        pytest.param(ToolFailedError("no", "state"), 1, 1, id="state"),
        pytest.param(NonEmptyGroupError(), 1, 0, id="broker"),
        pytest.param(ConfigurationError("no"), 2, 1, id="setting"),
        pytest.param(click.UsageError("no"), 2, 1, id="usage"),
        pytest.param(KeyboardInterrupt(), 130, 130, id="interrupted"),
        pytest.param(ZeroDivisionError("no"), 1, 0, id="defect"),
        pytest.param(OSError("no"), 1, 0, id="operating system"),
    ],
)
@pytest.mark.behaviour("tools")
def test_errors_have_exit_codes_that_scripts_can_use(
    error: BaseException, ours: int, apache: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """A failed operation exits with 1, a wrong option with 2, an interrupt with 130, or all as Apache's tools do."""
    assert ended(failing(error)) == ours
    assert ended(failing(error), "--apache-exit-codes") == apache
    assert "Traceback" not in capsys.readouterr().err


def test_an_error_goes_to_standard_error_unless_the_tool_is_like_apaches(capsys: pytest.CaptureFixture[str]) -> None:
    """Kafka's own tool for share groups prints errors of the operation on standard output, after an empty line."""
    ended(failing(ToolFailedError("it is so")))
    assert capsys.readouterr() == ("", "Error: it is so\n")
    ended(failing(ToolFailedError("it is so")), on_stdout=True)
    assert capsys.readouterr() == ("\nError: it is so\n", "")
    ended(failing(ToolFailedError("it is so", "state")), on_stdout=True)
    assert capsys.readouterr() == ("", "\nError: it is so\n")
    for words in (["--format", "json"], ["--format=json"]):
        ended(failing(ToolFailedError("it is so")), *words, on_stdout=True)
        out, err = capsys.readouterr()
        assert out == "", "standard output is for the result alone"
        assert json.loads(err) == {"error": {"code": "FAILED", "message": "it is so"}}


@pytest.mark.parametrize("habit", [[], ["--apache-exit-codes"]])
@pytest.mark.parametrize("option", ["--help", "-h"])
def test_help_goes_where_the_habit_has_it(habit: list[str], option: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Apache's tools print their help on standard error and exit 1, wherever the options stand."""
    for words in ([option, *habit], [*habit, option]):
        assert ended(lambda: None, *words) == (1 if habit else 0)
        shown = capsys.readouterr()
        assert "--apache-exit-codes" in (shown.err if habit else shown.out)
        assert not (shown.out if habit else shown.err)


def test_a_defect_says_how_to_see_more(capsys: pytest.CaptureFixture[str]) -> None:
    """An unexpected exception is one line without --debug, and the whole stack trace with it."""
    ended(failing(ZeroDivisionError("no")))
    assert capsys.readouterr().err == "Error: ZeroDivisionError: no (a defect; --debug shows where)\n"
    ended(failing(ZeroDivisionError("no")), "--debug")
    assert "in action" in capsys.readouterr().err


def test_a_reader_that_has_seen_enough_is_no_error_message(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A closed pipe ends the tool silently."""
    monkeypatch.setattr(sys, "stdout", sys.stdout)  # put back afterwards: the tool replaces it
    assert ended(failing(BrokenPipeError(32, "Broken pipe"))) == 1
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("arguments", "manner"),
    [
        (["--list"], Manner(OURS)),
        (["--nonsense", "-x", "--apache-exit-codes"], Manner(APACHE)),
        (["--apache-exit-codes", "--format"], Manner(APACHE)),
        (["--format", "json", "--debug"], Manner(OURS, debug=True, json=True)),
        (["--format=json", "--format", "text"], Manner(OURS)),
        (["watch", "g", "--debug", "--", "--apache-exit-codes"], Manner(OURS, debug=True)),
    ],
)
def test_the_habit_is_known_although_the_options_are_wrong(arguments: list[str], manner: Manner) -> None:
    """The flags count wherever they stand, and whatever else is wrong."""
    assert manner_of(arguments) == manner


def test_every_remedy_is_found_by_its_error() -> None:
    """An error without a remedy is shown as it is."""
    for kind, remedy in REMEDIES.items():
        error: KafkaShareError = kind("what happened")
        assert with_remedy(error).endswith(f"({remedy})")
    assert with_remedy(BrokerUnreachableError("x")).startswith("x (check --bootstrap-server")
    assert with_remedy(RemoteProtocolError("x")) == "x"


def test_logging_is_as_before_when_a_tool_has_ended() -> None:
    """With --debug the package logs to standard error, otherwise nothing is shown; both only while the tool runs."""
    loggers = [logging.getLogger(name) for name in ("kafka_share", "kafka")]
    before = [(list(logger.handlers), logger.level, logger.propagate) for logger in loggers]
    for debug in (True, False):
        with logging_to_stderr(debug):
            for name in ("kafka_share.network", "kafka.net.manager"):
                assert logging.getLogger(name).isEnabledFor(logging.CRITICAL) is debug
        assert [(list(logger.handlers), logger.level, logger.propagate) for logger in loggers] == before
