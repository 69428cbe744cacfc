"""RunningAgent: a lease agent at work in this process: its member, its desk, its doors.

For `agent`, the process of its own that an agent usually is, and for `embedded`, where the runner is that process.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import attrs

from kafka_share.spark.agent_config import KEY, SOCKET, AgentAddress, AgentConfig
from kafka_share.spark.agent_server import AgentServer
from kafka_share.spark.door import server_tls
from kafka_share.spark.driver_process import watch_process
from kafka_share.spark.group_lag import GroupLag
from kafka_share.spark.lease import LeaseTerms
from kafka_share.spark.lease_desk import LeaseDesk
from kafka_share.spark.member import ShareMember
from kafka_share.spark.splits import encode_splits

log: logging.Logger = logging.getLogger(__name__)


class RunningAgent:
    """Running when it is made. `on_stop` is called once, with the reason, when the book says that it is over."""

    def __init__(self, config: AgentConfig, on_stop: Callable[[str], None]) -> None:
        """Raises OSError, `KafkaShareError` or ImportError if it cannot run."""
        self._folder = folder = Path(config.folder)
        self._member = member = ShareMember(
            config.topics, config.settings, max_bytes=config.max_bytes, reject_after=config.reject_after
        )
        terms = LeaseTerms(**config.terms)
        if terms.renews and not member.can_renew():
            log.warning("the group forbids renewals: a batch that takes longer than the lock is delivered again")
            terms = attrs.evolve(terms, renews=False)
        encode = partial(_encode, folder.name, config)
        self._desk = desk = LeaseDesk(member, terms, encode, on_stop, fail_on_data_loss=config.fail_on_data_loss)
        self._server = AgentServer(desk, partial(watch_process, on_end=desk.driver_died), config.proof)
        try:
            address = self._listen(config)
            if config.metrics_port:
                from kafka_share.spark.metrics import serve_metrics

                serve_metrics(desk.counts, config.metrics_host, config.metrics_port, config.settings["group_id"])
            (folder / KEY).touch(mode=0o600)
            (folder / KEY).write_text(json.dumps(attrs.asdict(address)))
            if not config.driver_host:
                self._server.listen(folder / SOCKET, bytes.fromhex(config.key))
            desk.start()
            GroupLag(config.settings, config.topics, member.note_lag).start()
        except BaseException:
            self._end()
            raise

    def _listen(self, config: AgentConfig) -> AgentAddress:
        tls = server_tls(config.data_cert_file, config.data_key_file)
        key, data_key = bytes.fromhex(config.key), bytes.fromhex(config.data_key)
        data_port = self._server.listen_for_tasks(config.data_host, data_key, tls) if config.data_host else 0
        port = self._server.listen_for_drivers(config.driver_host, key, tls) if config.driver_host else 0
        group_id = config.settings["group_id"]
        return AgentAddress(config.key, config.data_key, group_id, data_port, config.driver_host, port)

    def close(self, reason: str) -> None:
        """Release what is open, and leave the group. Calling it again does nothing."""
        log.info("ending: %s; %s", reason, self._desk.counts())
        self._desk.stopped(reason)
        self._end()

    def _end(self) -> None:
        self._server.close()
        (self._folder / SOCKET).unlink(missing_ok=True)
        (self._folder / KEY).unlink(missing_ok=True)
        self._member.close()


def _encode(name: str, config: AgentConfig, number: int, records: list[Any]) -> list[bytes]:
    return encode_splits(
        records,
        f"{name}-{number}",
        include_headers=config.include_headers,
        split_bytes=config.split_bytes,
        min_splits=config.min_splits,
    )
