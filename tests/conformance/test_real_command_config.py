"""Java property files that let `kafka-share-groups` into the secured listeners of a real Kafka."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conformance.kafka_server import KafkaServer, Security
from conformance.kafka_settings import Certificates
from conformance.kafka_targets import controlled

from kafka_share.cli.groups.command import main

USER, PASSWORD = "operator", "correct horse; battery=1"
GROUP = "made-by-a-property-file"

Tool = Callable[..., tuple[str, int]]


@pytest.fixture(scope="module")
def kafka_server(real_version: str) -> Iterator[KafkaServer]:
    with controlled(real_version, security=Security({USER: PASSWORD})) as kafka:
        yield kafka


@pytest.fixture
def certificates(kafka_server: KafkaServer) -> Certificates:
    assert kafka_server.certificates is not None
    return kafka_server.certificates


@pytest.fixture
def configs_of(kafka_server: KafkaServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Tool:
    """Describes the configs of a group through a listener, with a property file of these lines."""

    def run(listener: str, *lines: str) -> tuple[str, int]:
        file = tmp_path / "client.properties"
        file.write_text("\n".join([f"security.protocol={listener}", *lines]), encoding="latin-1")
        arguments = ["--bootstrap-server", kafka_server.bootstrap(listener), "--command-config", str(file)]
        with pytest.raises(SystemExit) as ended:
            main.main([*arguments, "--describe", "--group", GROUP, "--configs", "--timeout", "20000"])
        out, err = capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return out + err, ended.value.code

    return run


def login(mechanism: str, password: str = PASSWORD) -> list[str]:
    module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
    quoted = password.replace("\\", "\\\\").replace('"', '\\"').replace("\\", "\\\\")
    return [
        f"sasl.mechanism={mechanism}",
        f'sasl.jaas.config=org.apache.kafka.common.security.{module} required username="{USER}" password="{quoted}";',
    ]


def inline(*files: Path) -> str:
    return "\\n".join(file.read_text().replace("\n", "\\n") for file in files)


SHOWN = (f"Dynamic configs for group {GROUP} are:\n", 0)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_jaas_entry_lets_the_tool_in(configs_of: Tool, mechanism: str) -> None:
    """User and password of sasl.jaas.config log in, blanks and semicolons in the password included."""
    assert configs_of("SASL_PLAINTEXT", *login(mechanism)) == SHOWN


def test_a_trust_store_of_type_pem_is_trusted(configs_of: Tool, certificates: Certificates) -> None:
    """TLS with a password: the authority comes from a PEM file."""
    store = ["ssl.truststore.type=PEM", f"ssl.truststore.location={certificates.authority}"]
    assert configs_of("SASL_SSL", *store, *login("SCRAM-SHA-512")) == SHOWN
    refused, code = configs_of("SASL_SSL", *login("SCRAM-SHA-512"))
    assert code == 1
    assert "certificate" in refused


def test_a_key_store_of_type_pem_is_shown_to_the_broker(
    configs_of: Tool, certificates: Certificates, tmp_path: Path
) -> None:
    """The client's key and certificates come from one PEM file, or stand in the property file itself."""
    both = tmp_path / "client.pem"
    both.write_text(certificates.client_key.read_text() + certificates.client.read_text())
    trust = ["ssl.truststore.type=PEM", f"ssl.truststore.location={certificates.authority}"]
    assert configs_of("SSL", *trust, "ssl.keystore.type=PEM", f"ssl.keystore.location={both}") == SHOWN
    assert (
        configs_of(
            "SSL",
            "ssl.truststore.type=PEM",
            f"ssl.truststore.certificates={inline(certificates.authority)}",
            "ssl.keystore.type=PEM",
            f"ssl.keystore.key={inline(certificates.client_key)}",
            f"ssl.keystore.certificate.chain={inline(certificates.client)}",
        )
        == SHOWN
    )


def test_a_wrong_password_is_told_without_it(configs_of: Tool) -> None:
    """The error names what to check, and never the password."""
    told, code = configs_of("SASL_PLAINTEXT", *login("SCRAM-SHA-256", "not the password"))
    assert code == 1
    assert "--command-config" in told
    assert "not the password" not in told
