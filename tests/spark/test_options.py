"""The options of the source: defaults, refusals that say what to write, and secrets that travel nowhere."""

from __future__ import annotations

import pickle
from pathlib import Path

import attrs
import pytest

from kafka_share.config import ShareConsumerConfig
from kafka_share.errors import ConfigurationError
from kafka_share.spark.options import SECRETS, SourceOptions
from kafka_share.spark.refused_options import MANAGED, REFUSED

GIVEN = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "orders", "kafka.group.id": "g"}
SASL = GIVEN | {
    "kafka.security.protocol": "SASL_PLAINTEXT",
    "kafka.sasl.mechanism": "PLAIN",
    "kafka.sasl.plain.username": "u",
}


def refusal_of(**more: str) -> str:
    with pytest.raises(ConfigurationError) as refused:
        SourceOptions.of({**GIVEN, **more})
    return str(refused.value)


def test_three_options_are_enough() -> None:
    options = SourceOptions.of(GIVEN)
    assert options.topics == ("orders",)
    assert options.consumer_settings() == {"bootstrap_servers": "localhost:9092", "group_id": "g"}
    assert (options.max_records, options.grace_ms, options.max_replays) == (10_000, 30_000, 1)


def test_names_are_not_case_sensitive_and_values_get_their_types() -> None:
    options = SourceOptions.of(
        {
            "KAFKA.bootstrap.servers": "localhost:9092",
            "Subscribe": "a, b,a",
            "shareGroup": "g",
            "maxrecordspertrigger": "7",
            "LOCKRENEWFRACTION": "0.5",
            "renew": "False",
            "kafka.request.timeout.ms": "5000",
            "kafka.check.crcs": "false",
            "dataPlane": "TCP",
        }
    )
    assert options.topics == ("a", "b")
    assert (options.max_records, options.renew_fraction, options.renew, options.data_plane) == (7, 0.5, False, "tcp")
    settings = options.consumer_settings()
    assert settings["request_timeout_ms"] == 5_000
    assert settings["check_crcs"] is False


@pytest.mark.parametrize("missing", GIVEN)
def test_what_is_required_is_named_when_it_is_missing(missing: str) -> None:
    given = {name: value for name, value in GIVEN.items() if name != missing}
    with pytest.raises(ConfigurationError, match=missing.rpartition(".")[2] if missing == "subscribe" else "required"):
        SourceOptions.of(given)


@pytest.mark.parametrize("name", REFUSED)
def test_options_of_the_kafka_source_that_cannot_be_are_refused_with_the_reason(name: str) -> None:
    assert REFUSED[name] in refusal_of(**{name: "earliest"})


@pytest.mark.parametrize("name", MANAGED)
def test_settings_that_the_source_makes_itself_are_refused_with_what_to_write(name: str) -> None:
    assert MANAGED[name] in refusal_of(**{f"kafka.{name.replace('_', '.')}": "1"})


def test_each_managed_setting_and_each_secret_is_a_setting_of_the_consumer() -> None:
    settings = {field.name for field in attrs.fields(ShareConsumerConfig)}
    assert MANAGED.keys() | set(SECRETS) <= settings


def test_unknown_options_are_refused_with_the_nearest_name() -> None:
    assert "did you mean maxRecordsPerTrigger?" in refusal_of(maxRecordPerTrigger="5")
    assert "not a setting" in refusal_of(**{"kafka.nonsense": "5"})
    assert "enable_auto_commit" in refusal_of(**{"kafka.enable.auto.commit": "true"}).replace(".", "_")


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("maxRecordsPerTrigger", "many", "whole number"),
        ("maxRecordsPerTrigger", "0", "1 to"),
        ("includeHeaders", "yes", "true or false"),
        ("lockRenewFraction", "1.5", "0.05 to 0.9"),
        ("dataPlane", "udp", "auto, inline, tcp"),
        ("kafka.request.timeout.ms", "soon", "whole number"),
        ("shareGroup", "other", "two different groups"),
        ("dataPlaneCertFile", "agent.pem", "both or neither"),
        ("dataPlaneCaFile", "ca.pem", "both or neither"),
        ("dataPlaneKeyFile", "agent.key", "dataPlaneCertFile, which is missing"),
    ],
)
def test_a_wrong_value_is_refused(name: str, value: str, words: str) -> None:
    assert words in refusal_of(**{name: value})


def test_a_password_is_not_taken_as_an_option_because_options_reach_every_executor() -> None:
    with pytest.raises(ConfigurationError, match=r"kafka\.sasl\.plain\.password\.file") as refused:
        SourceOptions.of({**SASL, "kafka.sasl.plain.password": "hunter2"})
    assert "hunter2" not in str(refused.value)


def test_a_password_is_read_from_a_file_or_the_environment_of_the_driver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "password").write_text("hunter2\n")
    monkeypatch.setenv("KAFKA_PASSWORD", "hunter2")
    for source in ({"file": str(tmp_path / "password")}, {"env": "KAFKA_PASSWORD"}):
        ((kind, where),) = source.items()
        options = SourceOptions.of({**SASL, f"kafka.sasl.plain.password.{kind}": where})
        assert options.consumer_settings()["sasl_plain_password"] == "hunter2"
        assert b"hunter2" not in pickle.dumps(options)
        assert "hunter2" not in repr(options)


def test_a_secret_that_is_not_there_is_refused_without_showing_anything(tmp_path: Path) -> None:
    for kind, where in (("file", str(tmp_path / "none")), ("env", "NO_SUCH_VARIABLE_HERE")):
        with pytest.raises(ConfigurationError, match=f"kafka.sasl.plain.password.{kind}"):
            SourceOptions.of({**SASL, f"kafka.sasl.plain.password.{kind}": where})
