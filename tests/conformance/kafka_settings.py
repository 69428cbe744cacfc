"""What the nodes of a real cluster are told: their properties, their keys and certificates, their log levels.

Called by `kafka_server`; writes files into the cluster's folder and starts nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

import attrs

HOST: Final = "127.0.0.1"
SECURED: Final = ("SASL_PLAINTEXT", "SASL_SSL", "SSL")
"""The listeners of a secured cluster besides PLAINTEXT; SSL asks for a client certificate."""

_LOGIN: Final = "org.apache.kafka.common.security"
_SCRAM: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")

LOGGING: Final = """\
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{ISO8601} %p %c: %m%n
rootLogger.level = WARN
rootLogger.appenderRef.console.ref = console
"""


@attrs.frozen
class Security:
    """`users`: name -> password, for PLAIN and SCRAM. With `acls` only what an ACL allows is allowed; the user
    ANONYMOUS of the PLAINTEXT listener may do everything, so that a test can prepare what it needs."""

    users: Mapping[str, str] = attrs.field(factory=dict)
    acls: bool = False


@attrs.frozen
class Certificates:
    """PEM files: the authority, the server's key and chain in one file, the client's certificate and key."""

    authority: Path
    server: Path
    client: Path
    client_key: Path


@attrs.frozen
class Plan:
    """What all nodes of one cluster agree on."""

    nodes: int
    controller_port: int
    settings: Mapping[str, str]
    security: Security | None
    certificates: Certificates | None

    @property
    def listeners(self) -> tuple[str, ...]:
        return ("PLAINTEXT", *SECURED) if self.security is not None else ("PLAINTEXT",)


def write_properties(file: Path, plan: Plan, node_id: int, ports: Mapping[str, int], data: Path) -> None:
    """The properties of one node; node 1 is the controller too."""
    is_controller = node_id == 1
    listeners = {name: f"{name}://{HOST}:{ports[name]}" for name in plan.listeners}
    if is_controller:
        listeners["CONTROLLER"] = f"CONTROLLER://{HOST}:{plan.controller_port}"
    properties = {
        "process.roles": "broker,controller" if is_controller else "broker",
        "node.id": str(node_id),
        "controller.quorum.bootstrap.servers": f"{HOST}:{plan.controller_port}",
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "PLAINTEXT",
        "listeners": ",".join(listeners.values()),
        "advertised.listeners": ",".join(listeners.values()),
        "listener.security.protocol.map": ",".join(["CONTROLLER:PLAINTEXT", *(f"{n}:{n}" for n in plan.listeners)]),
        "log.dirs": str(data),
        **small_internal_topics(plan.nodes),
        **_secured(plan),
        **plan.settings,
    }
    file.write_text("".join(f"{name}={value}\n" for name, value in properties.items()), encoding="utf-8")


def small_internal_topics(nodes: int) -> Mapping[str, str]:
    """Few partitions start sooner, and Kafka's default of three replicas needs three nodes."""
    replicas = str(min(3, nodes))
    return {
        "offsets.topic.replication.factor": replicas,
        "offsets.topic.num.partitions": "3",
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": "1",
        "transaction.state.log.num.partitions": "3",
        "share.coordinator.state.topic.replication.factor": replicas,
        "share.coordinator.state.topic.min.isr": "1",
        "share.coordinator.state.topic.num.partitions": "3",
        "group.initial.rebalance.delay.ms": "0",
    }


def _secured(plan: Plan) -> Mapping[str, str]:
    if plan.security is None or plan.certificates is None:
        return MappingProxyType({})
    users = " ".join(f'user_{name}="{password}"' for name, password in plan.security.users.items())
    secured = {
        "sasl.enabled.mechanisms": ",".join(["PLAIN", *_SCRAM]),
        "listener.name.ssl.ssl.client.auth": "required",
        # A client certificate's common name is its user, whatever else stands in the subject.
        "ssl.principal.mapping.rules": "RULE:^.*CN=([^,]+).*$/$1/",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(plan.certificates.server),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(plan.certificates.authority),
    }
    for listener in ("sasl_plaintext", "sasl_ssl"):
        prefix = f"listener.name.{listener}"
        secured[f"{prefix}.plain.sasl.jaas.config"] = f"{_LOGIN}.plain.PlainLoginModule required {users};"
        for mechanism in _SCRAM:
            module = f"{_LOGIN}.scram.ScramLoginModule required;"
            secured[f"{prefix}.{mechanism.lower()}.sasl.jaas.config"] = module
    if plan.security.acls:
        secured["authorizer.class.name"] = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
        secured["super.users"] = "User:ANONYMOUS"
    return secured


def scram_credentials(security: Security | None) -> list[str]:
    """What the storage tool takes to store the users' SCRAM passwords."""
    users = {} if security is None else security.users
    named = [(mechanism, name, password) for name, password in users.items() for mechanism in _SCRAM]
    return [text for m, name, password in named for text in ("--add-scram", f"{m}=[name={name},password={password}]")]


def make_certificates(folder: Path) -> Certificates:
    """An authority, and certificates for 127.0.0.1 and localhost and for the user `client`."""
    # Not at the top of the file: a cluster without TLS needs neither package.
    import trustme
    from cryptography.hazmat.primitives import serialization

    folder.mkdir()
    authority = trustme.CA()
    server = authority.issue_cert("localhost", HOST)
    client = authority.issue_cert("client", common_name="client")
    made = Certificates(*(folder / name for name in ("ca.pem", "server.pem", "client.pem", "client.key")))
    authority.cert_pem.write_to_path(str(made.authority))
    client.cert_chain_pems[0].write_to_path(str(made.client))
    client.private_key_pem.write_to_path(str(made.client_key))
    # Java reads private keys in the form PKCS 8 only.
    key = serialization.load_pem_private_key(server.private_key_pem.bytes(), password=None)
    pkcs8 = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    made.server.write_bytes(pkcs8 + b"".join(pem.bytes() for pem in server.cert_chain_pems))
    return made
