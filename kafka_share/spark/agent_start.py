"""Starts the lease agents of a query, by its options: one on the driver's host, or one on each host of `agents`.

For the readers, on the driver only.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
from pathlib import Path
from typing import Final

import attrs

from kafka_share.spark.agent_client import AgentClient
from kafka_share.spark.agent_config import KEY, AgentAddress, AgentConfig
from kafka_share.spark.agent_host import agent_on, shared_key
from kafka_share.spark.channel import KEY_BYTES
from kafka_share.spark.data_plane import split_bytes
from kafka_share.spark.driver_conf import driver_conf
from kafka_share.spark.embedded import run_embedded
from kafka_share.spark.fleet import Fleet
from kafka_share.spark.launch import launch_agent, new_folder
from kafka_share.spark.lease import LeaseTerms
from kafka_share.spark.options import SourceOptions

_NO_LIMIT: Final = 2**31 - 1


def new_agent_name() -> str:
    """Unique."""
    return secrets.token_hex(8)


def start_agents(options: SourceOptions) -> list[AgentClient]:
    """Start the agents of a streaming query and connect to them. Raises `LeaseAgentError` if one cannot run."""
    if not options.agents:
        return [start_agent(options, new_agent_name(), is_batch=False)]
    started: list[AgentClient] = []
    try:
        for where in options.agents:
            started.append(_start_elsewhere(options, where))  # noqa: PERF401 - those that started are ended below
    except BaseException:
        Fleet(started).stop()
        raise
    return started


def start_agent(options: SourceOptions, name: str, *, is_batch: bool) -> AgentClient:
    """Start an agent of this name on this host; FileExistsError if there is or was one.

    Raises `LeaseAgentError` if it cannot run.
    """
    folder = new_folder(options.agents_folder, name)
    config = _config(options, folder, is_batch=is_batch)
    (run_embedded if options.agent_mode == "embedded" else launch_agent)(config)
    return AgentClient(folder)


def _start_elsewhere(options: SourceOptions, where: str) -> AgentClient:
    """Have an agent started there, and keep its address in a folder as if it were here."""
    folder = new_folder(options.agents_folder, new_agent_name())
    config = attrs.evolve(_config(options, folder, is_batch=False), folder=folder.name)
    host, _, port = where.rpartition(":")
    key = shared_key(Path(options.agents_key_file))
    ports = agent_on(host, int(port), key, options.data_ca_file, config)
    address = AgentAddress(
        config.key, config.data_key, options.group_id, ports.data, host, ports.driver, options.data_ca_file
    )
    (folder / KEY).touch(mode=0o600)
    (folder / KEY).write_text(json.dumps(attrs.asdict(address)))
    return AgentClient(folder)


def _config(options: SourceOptions, folder: Path, *, is_batch: bool) -> AgentConfig:
    terms = LeaseTerms(
        grace_ms=options.grace_ms,
        max_replays=_NO_LIMIT if is_batch else options.max_replays,
        max_lease_ms=options.max_lease_ms,
        ttl_ms=options.lease_ttl_ms if is_batch else None,
        renews=options.renew,
        renew_fraction=options.renew_fraction,
    )
    return AgentConfig(
        folder=str(folder),
        key=secrets.token_hex(KEY_BYTES),
        data_key=secrets.token_hex(KEY_BYTES),
        proof=proof_of(options),
        topics=list(options.topics),
        settings=options.consumer_settings(),
        terms=attrs.asdict(terms),
        max_bytes=options.max_bytes,
        reject_after=options.reject_after,
        fail_on_data_loss=options.fail_on_data_loss,
        include_headers=options.include_headers,
        split_bytes=split_bytes(options, driver_conf()),
        min_splits=max(1, (options.min_partitions or os.cpu_count() or 1) // max(1, len(options.agents))),
        driver_host="",
        data_host="" if options.data_plane == "inline" else options.data_plane_host,
        data_cert_file=os.path.abspath(options.data_cert_file) if options.data_cert_file else "",
        data_key_file=os.path.abspath(options.data_key_file) if options.data_key_file else "",
        metrics_host=options.metrics_host,
        metrics_port=options.metrics_port,
    )


def proof_of(options: SourceOptions) -> str:
    """Equal for equal options, those that name secrets included, and telling nothing of them."""
    text = repr(attrs.asdict(attrs.evolve(options, load_id="")))
    return hmac.digest(b"kafka_share.spark", text.encode(), hashlib.sha256).hex()
