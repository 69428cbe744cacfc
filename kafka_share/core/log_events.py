"""What the client logs about changes of its state: the names, levels and loggers of all events, in one table.

The core emits `Log` outputs with these names and the driver hands them to Python's logging; the network side logs its
own. Each record has `event` and the fields below as attributes (`extra`), besides `group_id`, `member_id` and
`client_id`, and the same as text. No field ever holds a part of a record, a password or a token.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import attrs

DEBUG: Final = 10
INFO: Final = 20
WARNING: Final = 30
"""The numbers of Python's logging, which a core has no business to import."""


@attrs.frozen
class LogEvent:
    name: str
    level: int
    logger: str
    fields: tuple[str, ...]
    meaning: str


_MEMBERSHIP: Final = "kafka_share.core.membership"
_COORDINATOR: Final = "kafka_share.core.coordinator"
_FETCHING: Final = "kafka_share.core.fetching"
_METADATA: Final = "kafka_share.core.metadata"
_OUTAGE: Final = "kafka_share.core.outage"
_TELEMETRY: Final = "kafka_share.core.telemetry"
_CONNECTIONS: Final = "kafka_share.network.connections"

_EVENTS: Final = (
    LogEvent("joined", INFO, _MEMBERSHIP, ("member_epoch",), "The coordinator took the member into the group."),
    LogEvent("assignment-changed", INFO, _MEMBERSHIP, ("member_epoch", "partitions"),
             "The member may fetch other partitions than before; `partitions` is how many."),
    LogEvent("fenced", WARNING, _MEMBERSHIP, ("error",),
             "The coordinator does not know the member (any more); it joins again."),
    LogEvent("stale", WARNING, _MEMBERSHIP, ("error",),
             "No poll came for `max_poll_interval_ms`: the member leaves until the next poll."),
    LogEvent("left", INFO, _MEMBERSHIP, (), "The member is out of the group."),
    LogEvent("refused", WARNING, _MEMBERSHIP, ("error",), "The group refuses the member for good."),
    LogEvent("coordinator-found", INFO, _COORDINATOR, ("node_id",), "A broker was named as the group's coordinator."),
    LogEvent("coordinator-lost", INFO, _COORDINATOR, ("node_id",),
             "It is not the coordinator, or cannot be reached; another look-up follows."),
    LogEvent("topic-missing", WARNING, _METADATA, ("topic",),
             "A topic that is subscribed to has been missing for ten seconds; it is consumed as soon as it exists."),
    LogEvent("topic-found", INFO, _METADATA, ("topic",), "A topic that was logged as missing exists."),
    LogEvent("no-answer", WARNING, _OUTAGE, ("error",),
             "Ten seconds after its first poll the consumer has got no answer from any broker, and no refusal."),
    LogEvent("session-reset", INFO, _FETCHING, ("node_id",),
             "The share session with a node has ended other than by closing; the next fetch begins another one."),
    LogEvent("leader-moved", INFO, _FETCHING, ("topic", "partition", "node_id"),
             "A partition has another leader."),
    LogEvent("acknowledgement-failed", WARNING, _FETCHING, ("topic", "partition", "records", "error"),
             "Acknowledgements failed; `records` is how many records. The callback gets the same error."),
    LogEvent("last-delivery-spent", WARNING, _FETCHING, ("records", "places"),
             "Records were released or lost on their last delivery: they are archived; logged at most once a second."),
    LogEvent("renewals-refused", WARNING, _FETCHING, ("error",),
             "A broker refused to renew locks for records that wait for their turn or their release; logged once."),
    LogEvent("records-lost", WARNING, _FETCHING, ("records", "places"),
             "Delivered records were given up because their lock had been lost; logged at most once a second."),
    LogEvent("telemetry-subscribed", INFO, _TELEMETRY, ("node_id", "client_instance_id"),
             "A broker named the metrics that it wants to be pushed."),
    LogEvent("telemetry-stopped", DEBUG, _TELEMETRY, ("error",),
             "No metrics are pushed any more; also, once, where the brokers take none."),
    LogEvent("telemetry-unavailable", WARNING, _TELEMETRY, ("error",),
             "A broker wants metrics, but the package that encodes them is not installed."),
    LogEvent("telemetry-too-large", WARNING, _TELEMETRY, ("error",),
             "A push was left out because the broker takes no push of that size; logged once."),
    LogEvent("application-metric-failed", WARNING, _TELEMETRY, ("metric", "error"),
             "A function given to `register_metric_for_subscription` raised; logged once for each metric."),
    LogEvent("secret-exposed", WARNING, _CONNECTIONS, ("node_id", "address"),
             "The password or token is sent unencrypted to another machine: use SASL_SSL. Logged once."),
    LogEvent("connection-made", DEBUG, _CONNECTIONS, ("node_id", "channel"), "A connection is open and ready."),
    LogEvent("connection-lost", WARNING, _CONNECTIONS, ("node_id", "channel", "error"),
             "A connection failed; DEBUG if it was closed on purpose, or has failed since the last answer."),
    LogEvent("authentication-failed", WARNING, _CONNECTIONS, ("node_id", "channel", "error"),
             "A broker refused us, or we do not believe that it is one; DEBUG if it has failed since its last answer."),
    LogEvent("connection-restored", INFO, _CONNECTIONS, ("node_id", "channel"),
             "A broker that had failed has answered a request again."),
)  # fmt: skip

LOG_EVENTS: Final[Mapping[str, LogEvent]] = MappingProxyType({event.name: event for event in _EVENTS})
