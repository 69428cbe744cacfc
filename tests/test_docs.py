"""The pages tell the truth: their Python blocks run, their tables agree with the code, their links lead somewhere.

A comment before a Python block says how it is run. None: as a program of its own. `uses: …`: with those names given.
`runs until interrupted`: as a process that gets a SIGINT. `runs until stopped`: the same, and it ends by itself.
`serves PATH`: as an ASGI application, of which the path is asked.
`not run: why`: compiled only.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import json
import logging
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import attrs
import click
import pytest
import trustme
import yaml
from support.asgi import serving
from support.documentation import ROOT, Block, anchors, blocks_of, environment, links_of, pages, prose_of, table_below
from support.waiting import patience_s, wait_until
from test_architecture import MAY_IMPORT, VALUES

import kafka_share.broker
import kafka_share.opentelemetry
from kafka_share import AsyncShareAdmin, KafkaShareAdmin, KafkaShareConsumer, ShareRecord, admin_values
from kafka_share.broker import ReferenceBroker
from kafka_share.broker.configs.broker_settings import EMBEDDED_DEFAULTS as DIFFERENT_DEFAULTS
from kafka_share.broker.configs.config_keys import BROKER_KEYS, GROUP_KEYS, MECHANISMS, TOPIC_KEYS, ConfigKey
from kafka_share.broker.handlers.handler_table import not_served
from kafka_share.broker.kafka_version import advertised_versions
from kafka_share.broker.limits import LIMIT_MEANINGS, Limits
from kafka_share.broker.metrics import METRICS as BROKER_METRICS
from kafka_share.cli.broker import main as broker_command
from kafka_share.cli.broker_metrics import prometheus_name
from kafka_share.cli.console.command import main as console_command
from kafka_share.cli.demo.command import demo as demo_command
from kafka_share.cli.dlq.command import list_letters as dlq_list_command
from kafka_share.cli.dlq.command import replay as dlq_replay_command
from kafka_share.cli.dlq.command import show as dlq_show_command
from kafka_share.cli.doctor.command import doctor as doctor_command
from kafka_share.cli.export_lag.command import export_lag as export_lag_command
from kafka_share.cli.groups.command import main as groups_command
from kafka_share.cli.groups.rules import Options, check
from kafka_share.cli.perf.command import main as perf_command
from kafka_share.cli.watch.command import watch as watch_command
from kafka_share.cli.worker.command import worker as worker_command
from kafka_share.config import ShareAdminConfig, ShareConsumerConfig
from kafka_share.core.log_events import LOG_EVENTS
from kafka_share.core.metrics.metric_table import METRICS, NODE_METRICS, WORKER_METRICS
from kafka_share.errors import ConfigurationError
from kafka_share.foreign_settings import REFUSED_BY_ALL, REFUSED_BY_CONSUMERS, RENAMED
from kafka_share.handling.jobs import CANCEL_GRACE_MS
from kafka_share.protocol.messages import MESSAGES
from kafka_share.protocol.share_fetch import ShareFetchRequest
from kafka_share.worker import Counts, RunningRecord, ShareWorker, WorkerState

pytestmark = pytest.mark.timeout(120)  # most tests start a Python: on a busy machine that alone may take 20 s

BLOCKS = [block for page in pages() for block in blocks_of(page)]
PYTHON = [block for block in BLOCKS if block.language == "python"]
CONSUMER = ROOT / "docs" / "consumer.md"
ADMIN = ROOT / "docs" / "admin.md"
FOREIGN = ROOT / "docs" / "settings-of-other-clients.md"
BROKER = ROOT / "docs" / "reference-broker.md"
DEMO = ROOT / "docs" / "demo.md"
COMMANDS = ROOT / "docs" / "command-line.md"
WORKER = ROOT / "docs" / "worker.md"
SUB_COMMANDS: dict[str, click.Command] = {
    "demo": demo_command,
    "doctor": doctor_command,
    "export-lag": export_lag_command,
    "watch": watch_command,
    "worker": worker_command,
}
DLQ_COMMANDS = {"list": dlq_list_command, "show": dlq_show_command, "replay": dlq_replay_command}
OPTION_NAMES = {field.name for field in attrs.fields(Options)}
OBSERVABILITY = ROOT / "docs" / "observability.md"
ORDERS = [b'{"id": 1}', b'{"id": 2}', b'{"id": 3}']


PLUGIN = ("-p", "kafka_share.pytest_plugin")
"""For an environment that was made before there was a plugin; elsewhere pytest has loaded it already."""


def marked(start: str) -> list[Any]:
    found = [block for block in PYTHON if block.mark.startswith(start) and (start or not block.mark)]
    assert found, f"no block is marked {start!r}"
    return [pytest.param(block, id=block.place) for block in found]


@pytest.fixture
def broker() -> Iterator[ReferenceBroker]:
    """What the pages take for granted: topics with records, and a group that reads them from the start."""
    with ReferenceBroker() as running:
        for topic in ("orders", "mixed", "jobs"):
            running.create_topic(topic)
        for group in ("order-workers", "g"):
            running.set_group_config(group, share_auto_offset_reset="earliest")
        running.produce_batch("orders", ORDERS)
        running.produce_batch("mixed", [b'{"id": 1}', b"not JSON", b'{"id": 3}'])
        yield running


def run(block: Block, names: dict[str, Any], broker: ReferenceBroker | None = None) -> None:
    code = block.code if broker is None else block.code.replace("localhost:9092", broker.bootstrap_servers)
    exec(compile("\n" * block.line + code, str(block.page), "exec"), {"__name__": "__main__", **names})


# ---- Python blocks


@pytest.mark.parametrize("block", marked(""))
def test_a_block_runs_when_it_is_a_whole_program(
    block: Block, broker: ReferenceBroker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if "def test_" not in block.code:
        run(block, {}, broker)
        if "set aside" in block.code:
            assert "set aside: b'not JSON' because of JSONDecodeError" in capsys.readouterr().out
        return
    file = tmp_path / "test_of_a_page.py"
    file.write_text(block.code)
    command = [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider", *PLUGIN, str(file)]
    done = subprocess.run(command, cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout


@pytest.mark.parametrize("block", marked("uses: consumer"))
def test_a_block_runs_when_it_is_given_a_consumer(block: Block, broker: ReferenceBroker) -> None:
    with KafkaShareConsumer[Any, Any](
        "orders",
        bootstrap_servers=broker.bootstrap_servers,
        group_id="order-workers",
        share_acknowledgement_mode="explicit",
    ) as consumer:
        run(block, {"consumer": consumer})


@pytest.mark.parametrize("block", marked("uses: broker"))
def test_a_block_runs_when_it_is_given_a_broker_too(block: Block, broker: ReferenceBroker) -> None:
    with KafkaShareConsumer[Any, Any](
        "jobs",
        bootstrap_servers=broker.bootstrap_servers,
        group_id="g",
        share_acknowledgement_mode="explicit",
        max_poll_records=1,
        request_timeout_ms=1_000,
    ) as consumer:
        run(block, {"consumer": consumer, "broker": broker})


@pytest.mark.parametrize("block", marked("uses: admin"))
def test_a_block_runs_when_it_is_given_an_admin_client(block: Block, broker: ReferenceBroker) -> None:
    with KafkaShareAdmin(bootstrap_servers=broker.bootstrap_servers) as admin:
        run(block, {"admin": admin})


@pytest.mark.parametrize("block", marked("uses: tls"))
def test_security_settings_are_accepted_when_the_files_exist(
    block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No broker here speaks TLS: that such settings work is shown by the tests of the network."""
    authority = trustme.CA()
    certificate = authority.issue_cert("client")
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    certificate.cert_chain_pems[0].write_to_path(str(tmp_path / "client.pem"))
    certificate.private_key_pem.write_to_path(str(tmp_path / "client.key"))
    monkeypatch.chdir(tmp_path)
    with ExitStack() as stack:
        made: list[KafkaShareConsumer[Any, Any]] = []

        def make(*topics: str, **config: Any) -> KafkaShareConsumer[Any, Any]:
            made.append(stack.enter_context(KafkaShareConsumer[Any, Any](*topics, **config)))
            return made[-1]

        run(block, {"KafkaShareConsumer": make})
        assert len(made) == 1


@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGINT")
@pytest.mark.parametrize("block", marked("runs until"))
def test_a_block_works_until_it_is_interrupted_or_stopped(block: Block, broker: ReferenceBroker) -> None:
    """A worker ends by itself, and its handlers print in any order."""
    code = block.code.replace("localhost:9092", broker.bootstrap_servers).replace("8080", "0")
    with subprocess.Popen(
        [sys.executable, "-u", "-W", "error", "-c", code], env=environment(), stdout=subprocess.PIPE, text=True,
        stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in ORDERS]
        wait_for_fetches(broker, 2)  # the second one carries the acknowledgements, and its poll waits
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate()
    if block.mark == "runs until stopped":
        assert (process.returncode, errors) == (0, "")
        lines.sort()
    else:
        assert errors.rstrip().endswith("KeyboardInterrupt")
    assert lines == ["order 1\n", "order 2\n", "order 3\n"], errors
    assert left_over(broker) == []


@pytest.mark.parametrize("block", marked("serves "))
def test_a_service_handles_records_until_its_lifespan_ends(
    block: Block, broker: ReferenceBroker, capsys: pytest.CaptureFixture[str]
) -> None:
    """The route says that the worker is healthy; what was handled is not delivered again."""
    names: dict[str, Any] = {"__name__": "service"}
    code = block.code.replace("localhost:9092", broker.bootstrap_servers)
    exec(compile("\n" * block.line + code, str(block.page), "exec"), names)

    async def main() -> None:
        async with serving(names["app"]) as service, asyncio.timeout(patience_s()):
            while len(broker.requests(ShareFetchRequest.API_KEY)) < 2:  # noqa: ASYNC110
                await asyncio.sleep(0.005)  # nothing tells
            status, body = await service.get(block.mark.removeprefix("serves "))
            assert (status, json.loads(body)["phase"]) == (200, "running")

    asyncio.run(main())
    assert sorted(capsys.readouterr().out.splitlines()) == [f"order {order!r}" for order in ORDERS]
    assert left_over(broker) == []


def wait_for_fetches(broker: ReferenceBroker, count: int) -> None:
    wait_until(lambda: len(broker.requests(ShareFetchRequest.API_KEY)) >= count, "the program does not fetch any more")


def left_over(broker: ReferenceBroker) -> list[Any]:
    """What the next worker gets before a marker that is produced now."""
    broker.produce("orders", b"marker")
    found: list[Any] = []
    with KafkaShareConsumer[Any, Any](
        "orders", bootstrap_servers=broker.bootstrap_servers, group_id="order-workers"
    ) as consumer:
        while b"marker" not in found:
            found += [record.value for record in consumer.poll(timeout_ms=1_000)]
    return found[:-1]


@pytest.mark.parametrize("block", marked("not run: "))
def test_a_block_is_valid_python_when_it_is_not_run(block: Block) -> None:
    compile(block.code, str(block.page), "exec")


def test_every_mark_is_known() -> None:
    uses = ("uses: admin", "uses: consumer", "uses: broker, explicit consumer", "uses: tls")
    known = ("", *uses, "runs until interrupted", "runs until stopped")
    starts = ("not run: ", "serves ")
    assert [b.place for b in PYTHON if b.mark not in known and not b.mark.startswith(starts)] == []


# ---- commands


@pytest.mark.parametrize("block", [pytest.param(b, id=b.place) for b in BLOCKS if b.language == "sh"])
def test_the_options_of_a_command_exist_when_a_page_shows_it(block: Block) -> None:
    for line in block.code.splitlines():
        words = shlex.split(line, comments=True)
        if words[:1] == ["kafka-share-broker"]:
            broker_command.make_context(words[0], words[1:])
        elif words[:1] == ["kafka-share-groups"]:
            context = groups_command.make_context(words[0], words[1:])
            check(Options(**{name: value for name, value in context.params.items() if name in OPTION_NAMES}))
        elif "kafka-share-console" in words:
            console_command.make_context("kafka-share-console", words[words.index("kafka-share-console") + 1 :])
        elif words[:1] == ["kafka-share-perf"]:
            perf_command.make_context(words[0], words[1:])
        elif words[:2] == ["kafka-share", "dlq"]:
            DLQ_COMMANDS[words[2]].make_context(words[2], words[3:])
        elif words[:1] == ["kafka-share"]:
            SUB_COMMANDS[words[1]].make_context(words[1], words[2:])
        else:
            assert "kafka-share" not in words[:1], f"unknown command: {line}"


@pytest.mark.parametrize(
    ("page", "header", "command"),
    [
        pytest.param(BROKER, "| option |", broker_command, id="broker"),
        pytest.param(DEMO, "| option |", demo_command, id="demo"),
        pytest.param(COMMANDS, "| option of kafka-share-groups |", groups_command, id="groups"),
        pytest.param(COMMANDS, "| option of kafka-share-console |", console_command, id="console"),
        pytest.param(COMMANDS, "| option of kafka-share-perf |", perf_command, id="perf"),
        pytest.param(COMMANDS, "| option of kafka-share doctor |", doctor_command, id="doctor"),
        pytest.param(COMMANDS, "| option of kafka-share watch |", watch_command, id="watch"),
        pytest.param(COMMANDS, "| option of kafka-share worker |", worker_command, id="worker"),
        pytest.param(COMMANDS, "| option of kafka-share dlq list |", dlq_list_command, id="dlq list"),
        pytest.param(COMMANDS, "| option of kafka-share dlq show |", dlq_show_command, id="dlq show"),
        pytest.param(COMMANDS, "| option of kafka-share dlq replay |", dlq_replay_command, id="dlq replay"),
        pytest.param(COMMANDS, "| option of kafka-share export-lag |", export_lag_command, id="export-lag"),
    ],
)
def test_the_table_of_options_has_every_option_with_its_default(
    page: Path, header: str, command: click.Command
) -> None:
    rows = table_below(page, header)
    named = {name: default for names, default, _ in rows for name in re.findall(r"--[\w-]+", names)}
    options = [one for one in command.params if isinstance(one, click.Option)]
    assert sorted(named) == sorted(name for one in options for name in (*one.opts, *one.secondary_opts))
    for one in options:
        if isinstance(one.default, str | int | float) and not one.is_flag:
            assert named[one.opts[0]] == str(one.default), one.name


# ---- tables


def test_the_table_of_settings_has_every_setting_with_its_default() -> None:
    rows = [(name.strip("`"), default) for name, default, _, _ in table_below(CONSUMER, "| setting | default |")]
    fields = attrs.fields(ShareConsumerConfig)
    expected = [(f.name, "required" if f.default is attrs.NOTHING else str(f.default)) for f in fields]
    assert rows == expected


def test_the_page_of_the_worker_names_its_settings_and_what_it_shows() -> None:
    """Settings with their defaults; the fields of its state and its counts."""
    keywords = inspect.signature(ShareWorker).parameters.values()
    own = [one for one in keywords if one.kind is one.KEYWORD_ONLY and not one.name.endswith("deserializer")]
    rows = table_below(WORKER, "| setting | default |")
    assert [(name.strip("`"), default) for name, default, _ in rows] == [(one.name, str(one.default)) for one in own]
    state = {name for row in table_below(WORKER, "| | |", 1) for cell in row for name in re.findall(r"`(\w+)`", cell)}
    fields = {field.name for shown in (WorkerState, Counts, RunningRecord) for field in attrs.fields(shown)}
    assert fields <= state


def test_the_page_of_the_admin_client_names_its_settings_methods_and_values() -> None:
    settings = prose_of(ADMIN).partition("(consumer.md#settings):")[2].partition(".\n\n")[0]
    assert re.findall(r"`(\w+)`", settings) == [field.name for field in attrs.fields(ShareAdminConfig)]
    methods = [re.match(r"`(\w+)", row[0])[1] for row in table_below(ADMIN, "| method |")]  # type: ignore[index]
    assert methods == [name for name in vars(KafkaShareAdmin) if not name.startswith("_")]
    values = {row[0].strip("`"): re.findall(r"`([a-z]\w+)`", row[1]) for row in table_below(ADMIN, "| value |")}
    classes = {name: kind for name, kind in vars(admin_values).items() if attrs.has(kind)}
    assert values == {name: [field.name for field in attrs.fields(kind)] for name, kind in classes.items()}


def test_the_twins_of_the_admin_client_have_the_same_methods() -> None:
    for name, method in vars(KafkaShareAdmin).items():
        if not name.startswith("_"):
            twin = getattr(AsyncShareAdmin, name)
            assert inspect.iscoroutinefunction(twin), name
            assert inspect.signature(twin) == inspect.signature(method), name


def accepted(name: str, value: Any) -> bool:
    settings = {"bootstrap_servers": "localhost:9092", "group_id": "g", name: value}
    if name.startswith("ssl_"):
        settings["security_protocol"] = "SSL"
    if name.startswith("sasl_") or (name == "security_protocol" and str(value).startswith("SASL")):
        settings = {
            "security_protocol": "SASL_SSL",
            "sasl_mechanism": "PLAIN",
            "sasl_plain_username": "u",
            "sasl_plain_password": "p",
            "sasl_oauth_token_provider": SimpleNamespace(token=lambda: "a token"),
            **settings,
        }
    if name.startswith("explicit_window_"):
        settings = {"share_acknowledgement_mode": "explicit", "explicit_window_records": 10, **settings}
    try:
        ShareConsumerConfig.from_mapping(settings)
    except ConfigurationError:
        return False
    return True


@pytest.mark.parametrize(
    ("name", "allowed"),
    [
        pytest.param(name.strip("`"), allowed, id=name.strip("`"))
        for name, _, allowed, _ in table_below(CONSUMER, "| setting | default |")
    ],
)
def test_a_setting_takes_exactly_what_the_table_says(name: str, allowed: str) -> None:
    if allowed.endswith("…") and allowed[:-1].lstrip("-").isdecimal():
        low = int(allowed[:-1])
        assert accepted(name, low)
        assert accepted(name, 2**31 - 1)
        assert not accepted(name, low - 1)
    elif allowed == "True, False":
        assert accepted(name, True)
        assert accepted(name, False)
        assert not accepted(name, "yes")
    elif allowed in ("text", "path"):
        assert accepted(name, "some text")
        assert not accepted(name, 5)
    elif "," in allowed and "…" not in allowed and "blank" not in allowed:
        assert all(accepted(name, choice) for choice in allowed.split(", "))
        assert not accepted(name, "something else")
    else:
        words = ("host:port, …", "text, not blank", "[deserializer](#deserializers)", "ssl.SSLContext")
        assert allowed in (*words, "object with token()")


def test_the_page_of_other_clients_settings_says_what_the_errors_say() -> None:
    def rows(header: str) -> dict[str, str]:
        return {name.strip("`"): said.strip("`") for name, said in table_below(FOREIGN, header)}

    assert rows("| their name | ours |") == dict(RENAMED)
    only_consumers = {name: why for name, why in REFUSED_BY_CONSUMERS.items() if name not in REFUSED_BY_ALL}
    assert rows("| setting of a consumer | why |") == only_consumers
    assert rows("| setting of any client | why |") == dict(REFUSED_BY_ALL)


def test_settings_on_the_page_for_users_of_confluent_kafka_have_the_names_that_the_errors_say() -> None:
    page = ROOT / "docs" / "migrating-from-confluent-kafka.md"
    for theirs, ours in table_below(page, "| confluent-kafka | kafka_share |"):
        names = [name.replace(".", "_") for name in re.findall(r"`([\w.]+)`", theirs)]
        assert names
        if any(name in RENAMED for name in names):
            assert [RENAMED[name] for name in names] == re.findall(r"`(\w+)`", ours)
        else:
            assert set(names) <= set(REFUSED_BY_CONSUMERS)


def test_the_page_beside_confluents_consumer_names_its_methods_and_no_other() -> None:
    confluent = pytest.importorskip("confluent_kafka")
    page = ROOT / "docs" / "migrating-from-confluent-kafka.md"
    rows = table_below(page, "| confluent-kafka's ShareConsumer |")
    named = {name for row in rows for name in re.findall(r"`(\w+)[(`]", row[0])}
    methods = {name for name in dir(confluent.ShareConsumer) if not name.startswith("_")}
    assert methods <= named


def test_the_table_of_metrics_has_every_metric_with_its_meaning() -> None:
    """The page of metrics names each group and metric that `metrics()` answers, in the words of the code."""
    rows = [tuple(cell.strip("`") for cell in row) for row in table_below(OBSERVABILITY, "| group | metric |")]
    metrics = (*METRICS, *NODE_METRICS, *WORKER_METRICS)
    assert rows == [(metric.group, metric.name, metric.meaning) for metric in metrics]


def test_the_table_of_log_events_has_every_event_with_its_fields() -> None:
    """The page of log events has the name, level, logger and fields of each event as they are in the code."""
    rows = table_below(OBSERVABILITY, "| event | level |")
    assert [
        (name.strip("`"), level, logger.strip("`"), fields, meaning) for name, level, logger, fields, meaning in rows
    ] == [
        (e.name, logging.getLevelName(e.level), e.logger, ", ".join(f"`{f}`" for f in e.fields), e.meaning)
        for e in LOG_EVENTS.values()
    ]


def test_the_table_of_apis_is_what_the_broker_advertises() -> None:
    rows = [tuple(row) for row in table_below(BROKER, "| key | API |")]
    assert rows == [
        (str(key), MESSAGES[key][0].__name__.removesuffix("Request"), f"{low} to {high}" if low != high else f"{low}")
        for key, (low, high) in advertised_versions().items()
    ]


def test_the_page_names_what_the_broker_does_not_serve_and_why() -> None:
    rows = table_below(BROKER, "| not served | why |")
    assert [name for name, _ in rows] == [f"{key} {name}" for key, name in not_served().items()]
    assert all(why for _, why in rows)


def test_the_table_of_broker_metrics_is_that_of_the_code() -> None:
    rows = table_below(BROKER, "| metric | MBean |")
    assert [(name, mbean, tags, prometheus, text) for name, mbean, tags, prometheus, _, text in rows] == [
        (
            f"`{one.name}`",
            f"`{one.mbean}`",
            ", ".join(f"`{tag}`" for tag in one.tags),
            f"`{prometheus_name(one)}`",
            one.text,
        )
        for one in BROKER_METRICS.values()
    ]
    assert [kind == "counter" for *_, kind, _ in rows] == [one.is_counter for one in BROKER_METRICS.values()]


@pytest.mark.parametrize(
    ("number", "keys"), list(enumerate((BROKER_KEYS, GROUP_KEYS, TOPIC_KEYS))), ids=["broker", "group", "topic"]
)
def test_the_tables_of_broker_settings_are_those_of_the_code(number: int, keys: dict[str, ConfigKey]) -> None:
    rows = table_below(BROKER, "| key | default |", number)
    keys = {name: key for name, key in keys.items() if key.has_effect}
    assert [(name.strip("`"), default) for name, default, _ in rows] == [(k.name, k.default) for k in keys.values()]
    for (_, _, allowed), key in zip(rows, keys.values(), strict=True):
        assert allowed == allowed_values(key), key.name


def test_the_page_names_the_broker_settings_that_do_nothing_and_those_that_admins_can_change() -> None:
    inert = prose_of(BROKER).partition("Kafka's other keys of topics")[2].partition("Admins can")[0]
    assert re.findall(r"`([\w.]+)`", inert) == [key.name for key in TOPIC_KEYS.values() if not key.has_effect]
    changeable = prose_of(BROKER).partition("Admins can change a broker's keys")[2].partition(". A test")[0]
    dynamic = [key.name for key in BROKER_KEYS.values() if key.is_dynamic]
    assert re.findall(r"`([\w.]+)`", changeable) == dynamic


def test_the_page_has_every_limit_with_its_default() -> None:
    rows = {row[0].strip("`"): row[1] for row in table_below(BROKER, "| limit | default |")}
    ours = {name: str(getattr(Limits(), name)) for name in LIMIT_MEANINGS}
    assert rows.items() >= ours.items()
    settings = {name: default for name, default in rows.items() if name not in ours}
    assert settings == {name: DIFFERENT_DEFAULTS.get(name, BROKER_KEYS[name].default) for name in settings}


def test_the_page_names_every_default_that_is_not_kafkas() -> None:
    sentence = prose_of(BROKER).partition("Six defaults are others than Kafka's")[2].partition("\n\n")[0]
    assert sorted(re.findall(r"`([\w.]+)`", sentence)) == sorted([*DIFFERENT_DEFAULTS, "default.replication.factor"])


def allowed_values(key: ConfigKey) -> str:
    if key.low_key is not None:
        return f"`{key.low_key}` to `{key.high_key}`"
    if key.low is not None:
        limits = str(key.low) if key.low == key.high else f"{key.low} to {key.high}"
        return f"{key.low}…" if key.high in (2**31 - 1, 2**63 - 1) else limits
    if key.choices or key.name == "sasl.enabled.mechanisms":
        return ", ".join(key.choices or MECHANISMS)
    if key.type.name in ("BOOLEAN", "DOUBLE"):
        return {"BOOLEAN": "true, false", "DOUBLE": "0 to 1"}[key.type.name]
    return "latest, earliest, by_duration:…" if key.default == "latest" else "any text"


def test_the_grace_of_the_deployment_is_longer_than_the_drain_of_its_program() -> None:
    """Kubernetes would kill what may still end; the port of the probe is that of the program."""
    page = ROOT / "docs" / "kubernetes.md"
    program = next(block.code for block in blocks_of(page) if block.language == "python")
    documents = [yaml.safe_load(block.code) for block in blocks_of(page) if block.language == "yaml"]
    assert [one["kind"] for one in documents] == ["Deployment", "ScaledObject"]
    pod = documents[0]["spec"]["template"]["spec"]
    drain_timeout_ms = int(re.findall(r"drain_timeout_ms=([\d_]+)", program)[0])
    assert pod["terminationGracePeriodSeconds"] * 1_000 >= drain_timeout_ms + CANCEL_GRACE_MS + 10_000
    (container,) = pod["containers"]
    ports = {container[probe]["httpGet"]["port"] for probe in ("livenessProbe", "startupProbe")}
    assert ports == {one["containerPort"] for one in container["ports"]}
    assert all(f'("", {port})' in program for port in ports)
    assert documents[1]["spec"]["scaleTargetRef"]["name"] == documents[0]["metadata"]["name"]


# ---- links and files


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_links_inside_the_repository_lead_somewhere(page: Path) -> None:
    for link in links_of(page):
        if not link.startswith(("http://", "https://")):
            path, _, anchor = link.partition("#")
            target = (page.parent / path).resolve() if path else page
            assert target.exists(), f"{page.name}: {link}"
            assert not anchor or anchor in anchors(target), f"{page.name}: {link}"


def test_every_page_can_be_reached_from_the_readme() -> None:
    seen, todo = set[Path](), [ROOT / "README.md"]
    while todo:
        page = todo.pop()
        seen.add(page)
        targets = [(page.parent / link.partition("#")[0]).resolve() for link in links_of(page) if "://" not in link]
        todo += [target for target in targets if target.suffix == ".md" and target not in seen]
    assert seen >= set(pages())


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_files_that_a_page_names_exist(page: Path) -> None:
    if page.parent.name == "adr":
        return  # decisions may name what is to come
    for path in re.findall(
        r"`((?:kafka_share|tests|docs|examples|core|network|broker|protocol|cli)/[\w./-]*)`", page.read_text()
    ):
        assert (ROOT / path).exists() or (ROOT / "kafka_share" / path).exists(), f"{page.name} names {path}"


def test_every_place_that_the_architecture_names_exists() -> None:
    for places, _ in table_below(ROOT / "docs" / "architecture.md", "| place |"):
        first, *others = re.findall(r"`([^`]+)`", places)
        for place in (ROOT / first, *((ROOT / first.rstrip("/")).parent / other for other in others)):
            assert place.exists(), f"{place} in: {places}"


def test_the_architecture_names_every_part_of_the_package() -> None:
    table = "\n".join(place for place, _ in table_below(ROOT / "docs" / "architecture.md", "| place |"))
    package = ROOT / "kafka_share"
    parts = [p.name for p in package.iterdir() if p.is_dir() and (p / "__init__.py").exists()]
    parts += [p.name for p in package.glob("*.py") if not p.name.startswith("_")]
    assert [part for part in sorted(parts) if part not in table] == []


def test_no_file_names_a_place_of_the_machine_it_was_written_on() -> None:
    """Patterns are put together here, so that this file passes too."""
    pattern = re.compile("|".join(["/" + "work/", "/" + "root/", r"\bshared" + "/", "/home/" + r"\w"]))
    suffixes = {".py", ".pyi", ".md", ".json", ".toml", ".ini", ".yaml", ".txt", ".sh"}
    folders = ("kafka_share", "tests", "docs", "examples", ".ci")
    files = [
        path
        for folder in folders
        for path in (ROOT / folder).rglob("*")
        if path.suffix in suffixes and not any(part.startswith(".") for part in path.relative_to(ROOT).parts)
    ]
    files += [p for p in ROOT.iterdir() if p.is_file() and p.suffix in suffixes]
    assert len(files) > 100
    found = [f"{p.relative_to(ROOT)}: {m.group()}" for p in files for m in pattern.finditer(p.read_text("utf-8"))]
    assert found == []


def _better_than_java() -> dict[str, set[str]]:
    """Name of a difference -> the tests that carry it in their marker, as `test_name` in `file`."""
    found: dict[str, set[str]] = {}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        text = path.read_text("utf-8")
        for node in ast.walk(ast.parse(text)) if "better_than_java" in text else ():
            for mark in node.decorator_list if isinstance(node, ast.FunctionDef) else ():
                if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.better_than_java":
                    for name in mark.args:
                        assert isinstance(node, ast.FunctionDef)
                        shown = f"`{node.name}` in `{path.relative_to(ROOT)}`"
                        found.setdefault(ast.literal_eval(name), set()).add(shown)
    return found


def test_every_difference_from_java_has_its_tests_and_they_have_it() -> None:
    """The page of differences names the tests that carry each difference's marker, all of them and no others."""
    page = (ROOT / "docs" / "differences-from-java.md").read_text("utf-8")
    listed = {
        part.partition("`")[0]: set(re.findall(r"^  - (`.*`)$", part.partition("\n## ")[0], re.M))
        for part in page.split("- Tests (`")[1:]
    }
    assert listed == _better_than_java()


def test_the_feature_table_names_every_method_of_the_consumer_with_its_parameters() -> None:
    rows = table_below(ROOT / "docs" / "feature-table.md", "| KafkaShareConsumer |")
    named = [re.match(r"`(\w+)(?:\((.*?)\))?", row[0]) for row in rows]
    listed = {match[1]: match[2] for match in named if match and match[1] not in ("KafkaShareConsumer", "for")}
    assert set(listed) == {name for name in dir(KafkaShareConsumer) if not name.startswith("_")}
    for name, parameters in listed.items():
        member = inspect.getattr_static(KafkaShareConsumer, name)
        if not isinstance(member, property):
            expected = [one for one in inspect.signature(member).parameters if one != "self"]
            assert re.findall(r"\w+(?==|,|$)", re.sub(r"=\w+", "", parameters)) == expected, name


def test_the_feature_table_names_every_attribute_of_a_record() -> None:
    rows = table_below(ROOT / "docs" / "feature-table.md", "| kafka_share | Java")
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row[0])}
    public = {name for name in vars(ShareRecord) if not name.startswith("_")}
    assert named == public - {"lock"}


def test_every_public_name_stands_on_a_page_for_users() -> None:
    text = "\n".join(page.read_text("utf-8") for page in pages() if page.parent.name != "adr")
    public = [*kafka_share.__all__, *kafka_share.broker.__all__, *kafka_share.opentelemetry.__all__]
    assert [name for name in public if not re.search(rf"\b{name}\b", text)] == []


def test_the_table_of_imports_is_the_one_that_is_held() -> None:
    page = ROOT / "docs" / "architecture.md"
    rows = {part.strip("`"): set(re.findall(r"`(\w+)`", allowed)) for part, allowed in table_below(page, "| part |")}
    assert rows == MAY_IMPORT
    sentence = prose_of(page).partition("Every part may import the values:")[2].partition(".\n\n")[0]
    assert set(re.findall(r"`(\w+)`", sentence)) == VALUES.keys()


def test_the_index_of_decisions_has_every_decision_under_its_title() -> None:
    folder = ROOT / "docs" / "adr"
    listed = {re.findall(r"\((.+?)\)", link)[0]: title for link, title in table_below(folder / "README.md", "| # |")}
    files = sorted(folder.glob("[0-9]*.md"))
    assert listed == {file.name: file.read_text("utf-8").splitlines()[0].partition(" ")[2][5:] for file in files}
