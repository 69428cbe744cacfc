"""The lease agent: the process that owns a query's member of the share group (`python -m kafka_share.spark.agent`).

A query's runner starts it on the driver's host (`agent_client.start_agent`), with its configuration on stdin and a pipe
on which it says that it listens, or why it cannot. It is a process and not a thread because a batch read has no
long-lived Python on the driver, because leases outlive the run that acquired them, and because code of users must not
hold up renewals. It has its own session, so that no signal to Spark's process group reaches it, and it ends when the
book says so: at the latest when its driver is gone and the grace is over. Whatever happens, it ends by `os._exit`.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import ssl
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TextIO

import attrs

from kafka_share.errors import KafkaShareError
from kafka_share.spark.agent_config import KEY, READY, SOCKET, AgentConfig
from kafka_share.spark.agent_server import AgentServer
from kafka_share.spark.driver_process import watch_process
from kafka_share.spark.group_lag import GroupLag
from kafka_share.spark.lease import LeaseTerms
from kafka_share.spark.lease_desk import LeaseDesk
from kafka_share.spark.member import ShareMember
from kafka_share.spark.splits import encode_splits

log: logging.Logger = logging.getLogger(__name__)


def run(config: AgentConfig, tell: Callable[[str], None]) -> None:
    """Be an agent until the book says that it is over. `tell` says to whoever has started it that it listens."""
    folder = Path(config.folder)
    ended, end = os.pipe()  # no Event: a signal's handler must not take the lock that the waiting thread may have
    reasons: list[str] = []

    def on_stop(reason: str) -> None:
        reasons.append(reason)
        os.write(end, b".")

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda caught, _: on_stop(signal.Signals(caught).name))
    member = ShareMember(config.topics, config.settings, max_bytes=config.max_bytes, reject_after=config.reject_after)
    terms = LeaseTerms(**config.terms)
    if terms.renews and not member.can_renew():
        log.warning("the group forbids renewals: a batch that takes longer than the lock is delivered again")
        terms = attrs.evolve(terms, renews=False)
    encode = partial(_encode, folder.name, config)
    desk = LeaseDesk(member, terms, encode, on_stop, fail_on_data_loss=config.fail_on_data_loss)
    server = AgentServer(desk, partial(watch_process, on_end=desk.driver_died), config.proof)
    try:
        port = _listen_for_tasks(server, config)
        if config.metrics_port:
            from kafka_share.spark.metrics import serve_metrics

            serve_metrics(desk.counts, config.metrics_host, config.metrics_port, config.settings["group_id"])
        (folder / KEY).write_text(json.dumps(_keys(config, port)))
        server.listen(folder / SOCKET, bytes.fromhex(config.key))
        desk.start()
        GroupLag(config.settings, config.topics, member.note_lag).start()
        tell(READY)
        os.read(ended, 1)
        log.info("ending: %s; %s", reasons[0], desk.counts())
        desk.stopped(reasons[0])
    finally:
        server.close()
        (folder / SOCKET).unlink(missing_ok=True)
        (folder / KEY).unlink(missing_ok=True)
        member.close()


def _keys(config: AgentConfig, port: int) -> dict[str, Any]:
    """What those who find the folder have to know."""
    return {"key": config.key, "data_key": config.data_key, "port": port, "group": config.settings["group_id"]}


def _listen_for_tasks(server: AgentServer, config: AgentConfig) -> int:
    if not config.data_host:
        return 0
    tls = None
    if config.data_cert_file:
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        tls.load_cert_chain(config.data_cert_file, config.data_key_file or None)
    return server.listen_for_tasks(config.data_host, bytes.fromhex(config.data_key), tls)


def _encode(name: str, config: AgentConfig, number: int, records: list[Any]) -> list[bytes]:
    return encode_splits(
        records,
        f"{name}-{number}",
        include_headers=config.include_headers,
        split_bytes=config.split_bytes,
        min_splits=config.min_splits,
    )


def _tell(starter: TextIO, text: str) -> None:
    """The starter hears one thing."""
    if not starter.closed:
        starter.write(text)
        starter.close()


def main() -> None:
    """Run with the number of the pipe as the only argument."""
    status = 1
    try:
        os.umask(0o077)
        logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
        config = AgentConfig(**json.load(sys.stdin.buffer))
        with open(int(sys.argv[1]), "w", encoding="utf-8") as starter:
            try:
                run(config, partial(_tell, starter))
                status = 0
            except (OSError, KafkaShareError, ImportError) as error:
                log.exception("the agent cannot run")
                _tell(starter, str(error))
    except BaseException:
        log.exception("the agent ends by a defect")
    finally:
        logging.shutdown()
        os._exit(status)


if __name__ == "__main__":
    main()
