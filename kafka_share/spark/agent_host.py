"""The host of agents: starts lease agents on this host for queries whose driver is on another one.

    python -m kafka_share.spark.agent_host --listen HOST:PORT --key-file FILE [--cert-file FILE [--cert-key-file FILE]]

Run once on each host that the option `agents` names. Whoever proves the key of the file may have agents started: they
are processes of this user, each with a port for its driver and one for tasks, on the same address and with the same
certificate. An agent ends with its query, not with this process.
"""

from __future__ import annotations

import argparse
import logging
import signal
import socket
import sys
import threading
from functools import partial
from pathlib import Path
from typing import Any, Final

import attrs

from kafka_share.errors import KafkaShareError
from kafka_share.spark.agent_client import AgentClient
from kafka_share.spark.agent_config import AgentConfig
from kafka_share.spark.channel import Channel
from kafka_share.spark.door import BACKLOG, Door, connected, server_tls
from kafka_share.spark.failures import AgentGoneError, LeaseAgentError
from kafka_share.spark.launch import launch_agent, new_folder
from kafka_share.spark.options import agents_folder

log: logging.Logger = logging.getLogger(__name__)

LEAST_KEY_BYTES: Final = 32
_CONNECT_S: Final = 20
_START_S: Final = 120


@attrs.frozen
class AgentPorts:
    """Where an agent that was started listens, on its host."""

    driver: int
    data: int


@attrs.frozen
class HostConfig:
    """What the command line says."""

    host: str
    port: int
    key_file: Path
    cert_file: str = ""
    cert_key_file: str = ""
    agent_dir: str = ""


def shared_key(file: Path) -> bytes:
    """The key that drivers and hosts of agents share. Raises `LeaseAgentError` if the file has none."""
    try:
        key = file.read_bytes().strip()
    except OSError as error:
        raise LeaseAgentError(f"the key file {file} cannot be read: {error.strerror}") from error
    if len(key) < LEAST_KEY_BYTES:
        raise LeaseAgentError(f"the key file {file} has less than {LEAST_KEY_BYTES} bytes: write a longer random one")
    return key


def agent_on(host: str, port: int, key: bytes, ca_file: str, config: AgentConfig) -> AgentPorts:
    """The driver's side: have an agent started there. Raises `LeaseAgentError` if that cannot be."""
    try:
        sock = connected(host, port, ca_file, _CONNECT_S)
    except OSError as error:
        raise AgentGoneError(
            f"the host of agents {host}:{port} cannot be reached ({error}): run kafka_share.spark.agent_host there"
        ) from error
    try:
        channel = Channel.connected(sock, key)
        sock.settimeout(_START_S)
        channel.send({"config": attrs.asdict(config)})
        reply, _ = channel.receive()
    except EOFError as error:
        raise AgentGoneError(f"the host of agents {host}:{port} has hung up") from error
    finally:
        sock.close()
    if "error" in reply:
        raise LeaseAgentError(f"on {host}:{port}: {reply['error']}")
    return AgentPorts(int(reply["driver"]), int(reply["data"]))


def _converse(host: HostConfig, channel: Channel) -> None:
    """The other side: one agent for each message."""
    while True:
        document, _ = channel.receive()
        try:
            ports = _started(host, document["config"])
            channel.send(attrs.asdict(ports))
        except (KafkaShareError, OSError, KeyError, TypeError) as error:
            log.warning("an agent could not be started: %s", error)
            channel.send({"error": str(error)})


def _started(host: HostConfig, document: dict[str, Any]) -> AgentPorts:
    asked = AgentConfig(**document)
    if not asked.folder.isalnum():
        raise LeaseAgentError("the name of an agent has letters and digits only")
    folder = new_folder(agents_folder(host.agent_dir), asked.folder)
    launch_agent(
        attrs.evolve(
            asked,
            folder=str(folder),
            driver_host=host.host,
            data_host=host.host,
            data_cert_file=host.cert_file,
            data_key_file=host.cert_key_file,
        )
    )
    address = AgentClient.address_in(folder)
    log.info("agent %s has started", folder.name)
    return AgentPorts(address.port, address.data_port)


def serve(host: HostConfig) -> Door:
    """Open the door. Raises `LeaseAgentError` or OSError if it cannot be opened."""
    key, tls = shared_key(host.key_file), server_tls(host.cert_file, host.cert_key_file)
    listener = socket.create_server((host.host, host.port), backlog=BACKLOG)
    door = Door(listener, key, partial(_converse, host), tls)
    door.open()
    return door


def _arguments() -> HostConfig:
    parser = argparse.ArgumentParser(prog="python -m kafka_share.spark.agent_host", description=__doc__)
    parser.add_argument("--listen", required=True, metavar="HOST:PORT", help="an address that drivers and tasks reach")
    parser.add_argument("--key-file", required=True, type=Path, help="the key that drivers have to prove")
    parser.add_argument("--cert-file", default="", help="TLS: a PEM file with the certificate")
    parser.add_argument("--cert-key-file", default="", help="its key, if that is in another file")
    parser.add_argument("--agent-dir", default="", help="where the agents have their logs")
    given = parser.parse_args()
    host, _, port = given.listen.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65_535:
        parser.error("--listen is HOST:PORT")
    cert_file, cert_key_file = (str(Path(f).absolute()) if f else "" for f in (given.cert_file, given.cert_key_file))
    return HostConfig(host, int(port), given.key_file, cert_file, cert_key_file, given.agent_dir)


def main() -> None:
    """Run until SIGTERM or Ctrl-C."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    host = _arguments()
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    try:
        door = serve(host)
    except (LeaseAgentError, OSError) as error:
        sys.exit(f"Error: {error}")
    sys.stdout.write(f"listening on {host.host}:{door.port}\n")
    sys.stdout.flush()
    try:
        while not ended.wait(1):
            pass
    except KeyboardInterrupt:
        pass
    door.close()


if __name__ == "__main__":
    main()
