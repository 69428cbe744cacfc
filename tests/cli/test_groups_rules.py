"""Which options of `kafka-share-groups` go together, and how the command ends: nothing here needs a broker."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from cli.groups_situation import run

SERVER = "--bootstrap-server 127.0.0.1:1"
RESET = f"{SERVER} --reset-offsets --group g"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("--list", "Missing option '--bootstrap-server'"),
        (
            SERVER,
            "an action is missing: one of --list, --describe, --delete, --reset-offsets, --delete-offsets,",
        ),
        (f"{SERVER} --list --describe --group g", "one action at a time, not --list, --describe"),
        (f"{SERVER} --list --group g", "--group does not go with --list"),
        (f"{SERVER} --list --verbose", "--verbose does not go with --list"),
        (f"{SERVER} --list --state Empty,bad", "'bad' is not a state of a share group; choose of Empty, Stable, Dead"),
        (f"{SERVER} --list --state assigning", "'assigning' is not a state"),
        (f"{SERVER} --describe", "--describe needs --group or --all-groups"),
        (f"{SERVER} --describe --group g --all-groups", "--describe takes --group or --all-groups, not both"),
        (f"{SERVER} --describe --group g --members --state", "one of --offsets, --members, --state, --configs"),
        (f"{SERVER} --describe --group g --state Empty", "--state takes names of states with --list only"),
        (f"{SERVER} --describe --group g --topic t", "--topic does not go with --describe"),
        (f"{SERVER} --describe --group g --all", "--all goes with --configs"),
        (f"{SERVER} --describe --group g --configs --verbose", "--verbose does not go with --configs"),
        (f"{SERVER} --describe --group g --execute", "--execute does not go with --describe"),
        (f"{SERVER} --delete", "--delete needs --group or --all-groups"),
        (f"{SERVER} --delete --group g --topic t", "--topic does not go with --delete"),
        (f"{SERVER} --delete-offsets --group g", "--delete-offsets needs --topic"),
        (f"{SERVER} --delete-offsets --topic t", "--delete-offsets needs --group"),
        (f"{SERVER} --reset-offsets --topic t --to-latest --dry-run", "--reset-offsets needs --group"),
        (f"{RESET} --topic t --to-latest", "needs --dry-run (show what would be done) or --execute"),
        (f"{RESET} --topic t --to-latest --dry-run --execute", "takes --dry-run or --execute, not both"),
        (f"{RESET} --topic t --dry-run", "needs a new offset: one of --to-earliest"),
        (f"{RESET} --topic t --dry-run --to-latest --shift-by 0", "takes one new offset, not --to-latest, --shift-by"),
        (f"{RESET} --to-latest --dry-run", "needs --topic or --all-topics, or a file with --from-file"),
        (f"{RESET} --topic t:x --to-latest --dry-run --to-offset -1", "is not in the range"),
        (f"{SERVER} --alter --add-config a=1", "--alter needs --group"),
        (f"{SERVER} --alter --group g", "--alter needs --add-config or --delete-config"),
        (f"{SERVER} --list --timeout 0", "is not in the range"),
        (f"{SERVER} --list --nonsense", "No such option"),
        ("--bootstrap-server nonsense --list", "is not host:port"),
        (f"{SERVER} --list --command-config /nowhere", "cannot be read: No such file"),
    ],
)
@pytest.mark.behaviour("tools")
def test_options_that_do_not_go_together_are_usage_errors(
    line: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A wrong option ends with exit code 2 (1 as Apache's tools do) and one sentence on standard error."""
    result = run(capsys, *shlex.split(line))
    assert result.code == 2
    assert result.stdout == ""
    assert message in " ".join(result.stderr.split())
    apache = run(capsys, *shlex.split(line), "--apache-exit-codes")
    assert (apache.stdout, apache.stderr, apache.code) == ("", result.stderr, 1)


@pytest.mark.behaviour("tools")
def test_a_second_group_is_told_as_kafkas_tool_tells_it(capsys: pytest.CaptureFixture[str]) -> None:
    """An action about one group refuses a second one, on standard output as Kafka's tool does."""
    line = [*shlex.split(RESET), "--group", "h", "--topic", "t", "--to-latest", "--dry-run"]
    result = run(capsys, *line)
    assert result.code == 2
    assert result.stderr == ""
    assert result.stdout.startswith("\nError: --group is given several times")
    assert run(capsys, *line, "--apache-exit-codes").code == 0


def test_a_file_of_offsets_names_its_partitions_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--from-file goes with neither --topic nor --all-topics."""
    file = tmp_path / "offsets.csv"
    file.write_text("t,0,1\n")
    result = run(capsys, *shlex.split(f"{RESET} --dry-run --all-topics --from-file {file}"))
    assert result.code == 2
    assert "--from-file names the partitions" in result.stderr


@pytest.mark.behaviour("tools")
def test_help_is_no_error_unless_apaches_habit_is_chosen(capsys: pytest.CaptureFixture[str]) -> None:
    """--help prints examples on standard output and exits 0; Apache's tools print it on standard error and exit 1."""
    result = run(capsys, "--help")
    assert result.code == 0
    assert "Examples:" in result.stdout
    assert result.stderr == ""
    apache = run(capsys, "--help", "--apache-exit-codes")
    assert (apache.stdout, apache.stderr, apache.code) == ("", result.stdout, 1)


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """--version names the tool and its version."""
    result = run(capsys, "--version")
    assert result.code == 0
    assert result.stdout.startswith("kafka-share-groups, version ")


def test_options_are_completed_when_the_shell_asks(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Shell completion offers the options that begin so."""
    monkeypatch.setenv("_KAFKA_SHARE_GROUPS_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", "kafka-share-groups --delete-")
    monkeypatch.setenv("COMP_CWORD", "1")
    result = run(capsys)
    assert result.code == 0
    assert result.stdout.split() == ["plain,--delete-offsets", "plain,--delete-config"]


@pytest.mark.behaviour("tools")
def test_a_cluster_that_cannot_be_reached_is_told_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """A cluster that cannot be reached is reported in one line that says what to check, with JSON too."""
    line = [*shlex.split(SERVER), "--list", "--timeout", "300"]
    result = run(capsys, *line)
    assert result.code == 1
    assert result.stderr == ""
    assert result.stdout.startswith("\nError: ")
    assert "--bootstrap-server" in result.stdout
    assert result.stdout.count("\n") == 2
    as_json = run(capsys, *line, "--format", "json")
    assert (as_json.stdout, as_json.code) == ("", 1)
    error = json.loads(as_json.stderr)["error"]
    assert error["code"] == "BROKER_UNREACHABLE"
    assert error["message"] in result.stdout
    assert run(capsys, *line, "--apache-exit-codes").code == 0


def test_a_stack_trace_is_shown_only_when_it_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    """--debug adds the stack trace, and what the package logs, on standard error."""
    line = [*shlex.split(SERVER), "--list", "--timeout", "300", "--debug"]
    assert "Traceback (most recent call last)" in run(capsys, *line).stderr
