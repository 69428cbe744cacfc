"""All tools are commands of `kafka-share`, with the same options for the same things, wherever they are called from."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator

import click
import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner, Result
from support.documentation import environment

from kafka_share import KafkaShareAdmin
from kafka_share.broker import ReferenceBroker
from kafka_share.cli.console.command import main as console
from kafka_share.cli.front import ToolGroup
from kafka_share.cli.groups.command import SHARE_CONFIGS
from kafka_share.cli.groups.command import main as groups
from kafka_share.cli.main import main
from kafka_share.cli.options import SERVERS_VARIABLE
from kafka_share.cli.perf.command import main as perf
from kafka_share.errors import KafkaShareError

pytestmark = pytest.mark.timeout(120)  # most tests start a Python: on a busy machine that alone may take 20 s

SCRIPTS = {"groups": groups, "console": console, "perf": perf}
OWN_CLUSTER = ("broker", "demo")
"""These start a cluster."""


@pytest.fixture(scope="module")
def broker() -> Iterator[ReferenceBroker]:
    with ReferenceBroker() as broker:
        broker.create_topic("t")
        broker.produce("t", "größe".encode())
        broker.set_group_config("größe", share_auto_offset_reset="earliest")
        yield broker


def commands(group: ToolGroup = main, before: str = "") -> dict[str, click.Command]:
    """All tools by the words that call them; of a tool with commands, those."""
    found: dict[str, click.Command] = {}
    for name in group.sub_commands:
        command = group.get_command(click.Context(group), name)
        assert command is not None
        words = f"{before}{name}"
        found |= commands(command, f"{words} ") if isinstance(command, ToolGroup) else {words: command}
    return found


def given_with(parameter: click.Parameter) -> list[str]:
    """What stands before the value: the option's name, or nothing."""
    return [] if isinstance(parameter, click.Argument) else [parameter.opts[0]]


def run(*words: str, **variables: str) -> Result:
    return CliRunner(env=variables).invoke(main, words)


def process(*words: str, **variables: str) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "kafka_share", *words]
    return subprocess.run(command, capture_output=True, env={**environment(), **variables}, check=False, timeout=60)


def test_values_are_shown_by_what_they_are() -> None:
    """As in --port PORT: not by click's names of types, such as INTEGER RANGE."""
    for name, command in commands().items():
        context = click.Context(command)
        shown = {option.make_metavar(context) for option in command.params if isinstance(option, click.Option)}
        assert not {one for one in shown if "RANGE" in one or "INTEGER" in one or "FLOAT" in one}, name
        topics = {option.metavar for option in command.params if option.opts[0] == "--topic"}
        assert topics <= {"TOPIC", "TOPIC[:0,1]"}, name


def test_every_tool_that_is_about_a_group_names_it_with_group() -> None:
    """No tool but the worker takes an argument without an option; a group and a cluster are named in one way."""
    found = commands()
    of_dlq = {"dlq list", "dlq show", "dlq replay"}
    tools = {"broker", "console", "demo", "doctor", "export-lag", "groups", "perf", "watch", "worker"}
    assert set(found) == tools | of_dlq
    arguments = {name: [p.name for p in one.params if isinstance(p, click.Argument)] for name, one in found.items()}
    assert {name: has for name, has in arguments.items() if has} == {"worker": ["handler"]}
    options = {name: {option for p in command.params for option in p.opts} for name, command in found.items()}
    about_clusters = {name: has for name, has in options.items() if name not in OWN_CLUSTER}
    for option in ("--group", "--bootstrap-server", "--command-config"):
        assert [name for name, has in about_clusters.items() if option not in has] == []


@pytest.mark.behaviour("tools")
def test_the_scripts_are_commands_of_kafka_share() -> None:
    """`kafka-share groups` is `kafka-share-groups`, as with console, perf and broker; the help names them all."""
    found = commands()
    assert {name: found[name] for name in SCRIPTS} == SCRIPTS
    shown = run("--help").stdout
    assert [name for name in main.sub_commands if f"\n  {name} " not in shown] == []
    assert [name for name in ("list", "show", "replay") if f"\n  {name} " not in run("dlq", "-h").stdout] == []
    assert [f"kafka-share-{name}" for name in SCRIPTS if f"kafka-share-{name}" not in shown] == []


def test_a_command_of_kafka_share_shows_errors_as_its_script_does() -> None:
    """Kafka's own tool for groups prints errors on standard output, and so do both of ours; the others do not."""
    words = ["--bootstrap-server", "127.0.0.1:1", "--list", "--timeout", "200"]
    ours, script = run("groups", *words), CliRunner().invoke(groups, words)
    assert (ours.exit_code, ours.stdout, ours.stderr) == (script.exit_code, script.stdout, script.stderr)
    assert ours.stdout.startswith("\nError: ")
    watching = run("doctor", "--group", "g", "--topic", "t", *words[:2], *words[3:])
    assert (watching.exit_code, watching.stdout, "\nError: " in watching.stderr) == (1, "", True)


def test_an_option_that_a_tool_needs_is_missed_by_its_name() -> None:
    """Whatever a tool cannot do without is a usage error when it is not there, before anything is asked."""
    missed = set()
    for name, command in commands().items():
        for option in [p for p in command.params if p.required]:
            others = [p for p in command.params if p.required and p is not option]
            words = [word for other in others for word in (*given_with(other), "127.0.0.1:1")]
            result = run(*name.split(), *words, "--debug")
            assert (result.exit_code, result.stdout.strip()) == (2, ""), f"{name} without {option.opts[0]}"
            assert (option.opts[0] if given_with(option) else str(option.metavar)) in result.stderr
            missed.add((name, option.opts[0]))
    assert {("doctor", "--group"), ("watch", "--group"), ("export-lag", "--bootstrap-server")} <= missed


def test_the_variable_stands_in_for_the_option(broker: ReferenceBroker) -> None:
    """KAFKA_BOOTSTRAP_SERVERS is read by every tool that works on a cluster; the option wins."""
    assert run("groups", "--list", **{SERVERS_VARIABLE: broker.bootstrap_servers}).exit_code == 0
    words = ("--bootstrap-server", broker.bootstrap_servers)
    assert run("groups", "--list", *words, **{SERVERS_VARIABLE: "127.0.0.1:1"}).exit_code == 0
    for name, command in commands().items():
        for option in [p for p in command.params if "--bootstrap-server" in p.opts]:
            assert (option.envvar == SERVERS_VARIABLE) is (name != "demo"), "the demo would create a topic there"


def test_an_argument_without_its_option_is_told_what_to_write() -> None:
    result = run("watch", "--group", "g", "orders", "--bootstrap-server", "x:1")
    assert result.exit_code == 2
    assert "unexpected extra argument (orders)" in result.stderr
    assert "--group ID" in result.stderr


def test_an_error_is_a_code_and_a_message_for_programs() -> None:
    """With --format json an error is one document on standard error, and nothing stands on standard output."""
    result = run("groups", "--list", "--bootstrap-server", "127.0.0.1:1", "--timeout", "200", "--format", "json")
    assert (result.exit_code, result.stdout) == (1, "")
    assert set(json.loads(result.stderr)["error"]) == {"code", "message"}
    assert json.loads(result.stderr)["error"]["code"] == "BROKER_UNREACHABLE"


def test_the_package_is_a_program(broker: ReferenceBroker) -> None:
    """`python -m kafka_share` is `kafka-share`."""
    done = process("--version")
    assert (done.returncode, done.stdout[:12]) == (0, b"kafka-share,")


ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


def test_a_locale_without_letters_loses_none(broker: ReferenceBroker) -> None:
    """Names on the command line, payloads and tables are UTF-8 in any locale."""
    words = ("--bootstrap-server", broker.bootstrap_servers, "--group", "größe")
    done = process("console", *words, "--topic", "t", "--max-messages", "1", "--timeout-ms", "30000", **ASCII)
    assert (done.returncode, done.stdout) == (0, "größe\n".encode()), done.stderr
    listed = process("groups", "--list", *words[:2], **ASCII)
    assert (listed.returncode, listed.stdout) == (0, "größe\n".encode()), listed.stderr


def test_a_name_that_is_not_utf8_is_a_wrong_option() -> None:
    command = [sys.executable, "-m", "kafka_share", "groups", "--describe", "--bootstrap-server", "x:1", "--group"]
    encoded = [os.fsencode(word) for word in command]
    done = subprocess.run([*encoded, b"g\xff"], capture_output=True, env=environment(), check=False, timeout=60)
    assert done.returncode == 2
    assert b"is not UTF-8" in done.stderr
    assert b"Traceback" not in done.stderr


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a full disk is simulated by /dev/full")
@pytest.mark.parametrize(
    "words", [("groups", "--list", "--state"), ("groups", "--list", "--format", "json"), ("--help",)]
)
def test_a_full_disk_is_one_line(broker: ReferenceBroker, words: tuple[str, ...]) -> None:
    """Output that cannot be written ends the tool with an error, not with a stack trace."""
    server = ("--bootstrap-server", broker.bootstrap_servers) if words[0] == "groups" else ()
    with open("/dev/full", "wb") as full:
        command = [sys.executable, "-m", "kafka_share", *words, *server]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, env=environment(), check=False, timeout=60)
    assert done.returncode == 1
    assert len(done.stderr.strip().splitlines()) == 1
    assert b"standard output cannot be written: [Errno 28] No space left on device" in done.stderr


@pytest.mark.parametrize(
    ("words", "typed", "expected"),
    [
        (["groups", "--list", "--state"], "st", ["stable"]),
        (["groups", "--list", "--state"], "empty,s", ["empty,stable"]),
        (["groups", "--alter", "--delete-config"], "share.rec", ["share.record.lock.duration.ms"]),
        (["groups", "--alter", "--add-config"], "share.au", ["share.auto.offset.reset="]),
        (["console", "--value-deserializer"], "d", ["double"]),
        (["console", "--formatter-property"], "print.d", ["print.delivery="]),
        (["broker", "--config"], "group.share.record.lock", ["group.share.record.lock.duration.ms="]),
        (["console", "--format"], "", ["text", "json"]),
        ([], "do", ["doctor"]),
        (["dlq"], "re", ["replay"]),
    ],
)
def test_the_shell_completes_values_that_are_known(words: list[str], typed: str, expected: list[str]) -> None:
    """States, configs, deserializers and properties are offered without asking a cluster."""
    found = ShellComplete(main, {}, "kafka-share", "_KAFKA_SHARE_COMPLETE").get_completions(words, typed)
    assert [one.value for one in found] == expected


def test_configs_that_are_completed_exist(broker: ReferenceBroker) -> None:
    with KafkaShareAdmin(bootstrap_servers=broker.bootstrap_servers) as admin:
        known = admin.describe_group_configs(["g"])["g"]
    assert not isinstance(known, KafkaShareError)
    assert set(SHARE_CONFIGS) <= set(known)
