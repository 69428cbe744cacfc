"""What goes wrong between a query and its lease agent, as exceptions that users see."""

from __future__ import annotations

from kafka_share.errors import KafkaShareError


class LeaseAgentError(KafkaShareError):
    """The lease agent refused a request, or met an error of the group; its log in `agentDir` has more."""


class AgentGoneError(LeaseAgentError):
    """There is no such agent (any more): it has ended, was killed, or runs on another host."""


class LeaseLostError(LeaseAgentError):
    """The records are not acquired any more: they are delivered again, or were already."""
