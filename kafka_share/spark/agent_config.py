"""AgentConfig: what a lease agent is started with, and the names of the files in its folder.

A value for the agent and for those who start it or look for it.
"""

from __future__ import annotations

from typing import Any, Final

import attrs

SOCKET: Final = "socket"
KEY: Final = "key"
"""What is needed to talk to the agent: an `AgentAddress`."""
LOG: Final = "agent.log"
READY: Final = "ready"


@attrs.frozen
class AgentAddress:
    """How to reach an agent, as JSON in its folder on the driver's host."""

    key: str = attrs.field(repr=False)
    data_key: str = attrs.field(repr=False)
    group_id: str
    """Whose member it is."""
    data_port: int
    """0: it does not listen for tasks."""
    host: str = ""
    """Of an agent on another host; empty: it is on this one, and has a Unix socket."""
    port: int = 0
    ca_file: str = ""
    """Who has signed the certificate of an agent on another host; empty: it speaks no TLS."""


@attrs.frozen
class AgentConfig:
    """What an agent is started with, as JSON on its stdin."""

    folder: str
    """Of this agent alone; the last part of the path is its name."""
    key: str = attrs.field(repr=False)
    """Hexadecimal; who knows it may ask for everything."""
    data_key: str = attrs.field(repr=False)
    """Hexadecimal; who knows it may fetch splits over TCP."""
    proof: str
    """Equal for runners with equal options."""
    topics: list[str]
    settings: dict[str, Any] = attrs.field(repr=False)
    """Of the consumer, secrets included."""
    terms: dict[str, Any]
    max_bytes: int
    reject_after: int
    fail_on_data_loss: bool
    include_headers: bool
    split_bytes: int
    min_splits: int
    driver_host: str
    """Where to listen for a driver on another host; empty: on a Unix socket instead."""
    data_host: str
    """Where to listen for tasks; empty: not at all."""
    data_cert_file: str
    data_key_file: str
    """TLS for tasks, and for a driver on another host; empty: none."""
    metrics_host: str
    metrics_port: int
    """0: no metrics."""
