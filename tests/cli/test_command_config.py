"""`--command-config`: Java property files as settings of our clients."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
import trustme

from kafka_share.cli.clients import client_settings
from kafka_share.cli.command_config import CommandConfig, read_command_config
from kafka_share.cli.jaas import parse_jaas
from kafka_share.config import ShareAdminConfig, ShareConsumerConfig
from kafka_share.errors import ConfigurationError

PLAIN_LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SCRAM_LOGIN = "org.apache.kafka.common.security.scram.ScramLoginModule required"


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


def read(tmp_path: Path, text: str, client: type = ShareAdminConfig) -> CommandConfig:
    """`text` is written as Java reads it: in Latin-1, with escapes for everything else."""
    file = tmp_path / "client.properties"
    file.write_bytes(text.encode("latin-1"))
    return read_command_config(file, client)


def refused(tmp_path: Path, text: str, client: type = ShareAdminConfig) -> str:
    with pytest.raises(ConfigurationError) as error:
        read(tmp_path, text, client)
    return str(error.value)


def test_settings_keep_their_types_when_they_come_from_a_file(tmp_path: Path) -> None:
    """Numbers and booleans are converted, and a client takes them."""
    config = read(
        tmp_path,
        "# a comment\nclient.id = tool\\u00e9 \nrequest.timeout.ms: 5000\nretry.backoff.ms=20\ncheck.crcs=False\n"
        "max.poll.records=7\n",
        ShareConsumerConfig,
    )
    assert config.settings == {
        "client_id": "toolé",
        "request_timeout_ms": 5000,
        "retry_backoff_ms": 20,
        "check_crcs": False,
        "max_poll_records": 7,
    }
    assert config.warnings == ()
    client = ShareConsumerConfig.from_mapping({**config.settings, "bootstrap_servers": "b:9092", "group_id": "g"})
    assert client.client_id == "toolé"


def test_keys_that_mean_nothing_are_ignored_with_a_warning(tmp_path: Path) -> None:
    """Files that other tools share hold keys that are not for this one: they are named, and do no harm."""
    config = read(tmp_path, "bootstrap.servers=other:1\nacks=all\nkey.deserializer=org.X\nclient.id=c\n")
    assert config.settings == {"client_id": "c"}
    assert [warning.split()[0] for warning in config.warnings] == ["bootstrap.servers", "acks", "key.deserializer"]
    assert "--bootstrap-server" in config.warnings[0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("request.timeout.ms=soon", "request.timeout.ms is a whole number"),
        ("check.crcs=yes", "check.crcs is true or false"),
        ("config.providers=env", "write the values out"),
        ("a=\\u12", "no Java property file"),
    ],
)
def test_a_value_that_cannot_work_is_refused_with_file_and_key(tmp_path: Path, text: str, message: str) -> None:
    """The message names the file and what is wrong in it."""
    told = refused(tmp_path, text, ShareConsumerConfig)
    assert "client.properties" in told
    assert message in told


def test_a_file_that_is_missing_is_refused(tmp_path: Path) -> None:
    """The message names the file and the operating system's reason."""
    with pytest.raises(ConfigurationError, match=r"nowhere.* cannot be read: No such file"):
        read_command_config(tmp_path / "nowhere", ShareAdminConfig)


# ---- SASL


@pytest.mark.parametrize(
    ("mechanism", "login"), [("PLAIN", PLAIN_LOGIN), ("SCRAM-SHA-256", SCRAM_LOGIN), ("SCRAM-SHA-512", SCRAM_LOGIN)]
)
def test_user_and_password_come_from_the_jaas_entry(tmp_path: Path, mechanism: str, login: str) -> None:
    """The login modules of PLAIN and SCRAM give user and password; a client takes the result."""
    config = read(
        tmp_path,
        f"security.protocol=SASL_SSL\nsasl.mechanism={mechanism}\n"
        f'sasl.jaas.config={login} \\\n  username="alice" \\\n  password="s\\\\"e;cret=1";\n',
    )
    assert config.warnings == ()
    client = ShareAdminConfig.from_mapping({**config.settings, "bootstrap_servers": "b:9092"})
    assert client.sasl_mechanism == mechanism
    assert client.sasl_plain_username == "alice"
    assert client.sasl_plain_password == 's"e;cret=1'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "sasl.mechanism is missing"),
        ("sasl.mechanism=GSSAPI", "sasl.mechanism GSSAPI cannot be set up"),
        ("sasl.mechanism=OAUTHBEARER", "sasl.mechanism OAUTHBEARER cannot be set up"),
        (f'sasl.mechanism=PLAIN\nsasl.jaas.config={SCRAM_LOGIN} username="u" password="geheim";', "PlainLoginModule"),
        (f'sasl.mechanism=PLAIN\nsasl.jaas.config={PLAIN_LOGIN} password="geheim";', "has no username"),
        (f'sasl.mechanism=PLAIN\nsasl.jaas.config={PLAIN_LOGIN} username="u" password="geheim"', "a semicolon"),
        (
            f'sasl.mechanism=PLAIN\nsasl.jaas.config={PLAIN_LOGIN} username="u" password="geheim;',
            "cannot be read behind",
        ),
        ("sasl.mechanism=PLAIN\nsasl.jaas.config=geheim", "cannot be read"),
    ],
)
def test_a_login_that_cannot_work_is_refused_without_the_password(tmp_path: Path, text: str, message: str) -> None:
    """What is missing or not supported is said; passwords are never shown."""
    told = refused(tmp_path, f"security.protocol=SASL_PLAINTEXT\n{text}\n")
    assert message in told
    assert "geheim" not in told


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (f'sasl.mechanism=PLAIN\nsasl.jaas.config={PLAIN_LOGIN} username="u" password="p";\n', "sasl"),
        ("ssl.key.password=p\nssl.endpoint.identification.algorithm=\n", "ssl"),
    ],
)
def test_settings_are_ignored_when_the_protocol_does_not_use_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, kind: str
) -> None:
    """Java's clients do not look at them then; a warning tells so. Our clients would refuse them as a mistake."""
    file = tmp_path / "client.properties"
    file.write_text(text)
    assert client_settings("b:9092", file, ShareAdminConfig) == {"bootstrap_servers": "b:9092"}
    assert f"what begins with {kind}. is ignored" in capsys.readouterr().err


def test_a_protocol_in_the_file_counts_for_settings_of_the_command_line(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("security.protocol=SSL\n")
    settings = client_settings("b:9092", file, ShareAdminConfig, {"ssl.key.password": "p"})
    assert settings == {"bootstrap_servers": "b:9092", "security_protocol": "SSL", "ssl_password": "p"}


def test_options_of_a_login_module_may_stand_without_quotes() -> None:
    """Words, single and double quotes; the class is named without its package."""
    module = parse_jaas(
        "x.y.PlainLoginModule REQUIRED username=alice password='it''s' serviceName=\"k\" ;".replace("''", "")
    )
    assert (module.name, module.options) == (
        "PlainLoginModule",
        {"username": "alice", "password": "its", "serviceName": "k"},
    )


# ---- TLS


def test_stores_of_type_pem_are_taken_by_their_files(tmp_path: Path, authority: trustme.CA) -> None:
    """Trusted certificates in one file; private key and certificates in another."""
    certificate = authority.issue_cert("client")
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    certificate.private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "client.pem"))
    config = read(
        tmp_path,
        f"security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.location={tmp_path}/ca.pem\n"
        f"ssl.keystore.location={tmp_path}/client.pem\nssl.key.password=p \n",
    )
    assert config.settings == {
        "security_protocol": "SSL",
        "ssl_cafile": f"{tmp_path}/ca.pem",
        "ssl_certfile": f"{tmp_path}/client.pem",
        "ssl_password": "p ",
    }


def test_certificates_may_stand_in_the_file_itself(tmp_path: Path, authority: trustme.CA) -> None:
    """Inline PEM becomes a context that trusts the authority and shows the client's certificate."""
    certificate = authority.issue_cert("client")

    def inline(*pems: bytes) -> str:
        return b"".join(pems).decode().replace("\n", "\\n")

    config = read(
        tmp_path,
        f"security.protocol=SSL\nssl.truststore.type=PEM\nssl.keystore.type=PEM\n"
        f"ssl.truststore.certificates={inline(authority.cert_pem.bytes())}\n"
        f"ssl.keystore.key={inline(certificate.private_key_pem.bytes())}\n"
        f"ssl.keystore.certificate.chain={inline(*(pem.bytes() for pem in certificate.cert_chain_pems))}\n"
        "ssl.endpoint.identification.algorithm=\n",
    )
    context = config.settings["ssl_context"]
    assert isinstance(context, ssl.SSLContext)
    assert len(context.get_ca_certs()) >= 1
    assert any("trustme" in str(one["issuer"]) for one in context.get_ca_certs())
    assert not context.check_hostname
    assert config.settings["ssl_check_hostname"] is False
    assert context.verify_mode is ssl.CERT_REQUIRED
    ShareAdminConfig.from_mapping({**config.settings, "bootstrap_servers": "b:9092"})


@pytest.mark.parametrize("kind", ["JKS", "PKCS12", ""])
@pytest.mark.parametrize("store", ["truststore", "keystore"])
def test_a_store_of_javas_is_refused_with_the_commands_that_make_it_pem(tmp_path: Path, store: str, kind: str) -> None:
    """Java's own formats cannot be read; the message has the commands that turn the file into PEM."""
    (tmp_path / "store.jks").write_bytes(b"\xfe\xed\xfe\xed\x00\x00")
    told = refused(tmp_path, f"ssl.{store}.location={tmp_path}/store.jks\nssl.{store}.type={kind}\n")
    assert f"keytool -importkeystore -srckeystore {tmp_path}/store.jks" in told
    assert "openssl pkcs12" in told
    assert f"ssl.{store}.type=PEM" in told


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "ssl.truststore.type=PEM\nssl.truststore.location={0}/nowhere.pem",
            "nowhere.pem cannot be read: No such file",
        ),
        ("ssl.truststore.type=PEM\nssl.truststore.location={0}/empty", "is not PEM"),
        ("ssl.truststore.certificates=nonsense", "ssl.truststore.certificates cannot be used"),
        ("ssl.truststore.type=JKS\nssl.truststore.certificates=x", "ssl.truststore.type is JKS"),
        ("ssl.keystore.certificate.chain=x\nssl.keystore.key=y", "ssl.keystore.key cannot be used"),
    ],
)
def test_certificates_that_cannot_be_used_are_refused_by_their_key(tmp_path: Path, text: str, message: str) -> None:
    """The message names the key of the property file."""
    (tmp_path / "empty").write_bytes(b"")
    assert message in refused(tmp_path, text.format(tmp_path))


def test_an_unknown_check_of_host_names_is_taken_for_the_usual_one(tmp_path: Path) -> None:
    """Host names stay checked unless the algorithm is empty."""
    config = read(tmp_path, "ssl.endpoint.identification.algorithm=other\n")
    assert config.settings == {"ssl_check_hostname": True}
    assert len(config.warnings) == 1
    assert read(tmp_path, "ssl.endpoint.identification.algorithm=https\n").warnings == ()
