"""Options that the source does not have, and what to write instead: those of Spark's Kafka source, and settings of the
consumer that the source makes itself. For `options`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

_NO_OFFSETS: Final = (
    "a share group has no offsets to choose: where it starts is the group config share.auto.offset.reset, see "
    "KafkaShareAdmin.ensure_group_config"
)
_BY_NAME: Final = "share groups subscribe by name: list the topics in subscribe, with commas"
_SHARED: Final = "the share group is shared state and is never generated: name it in kafka.group.id"
_RECORDS: Final = "there are no offsets to count: write maxRecordsPerTrigger"
_MANAGED: Final = "the source decides it itself"

REFUSED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "assign": "the broker assigns partitions to the members of a share group: write subscribe",
        "subscribepattern": _BY_NAME,
        "startingoffsets": _NO_OFFSETS,
        "endingoffsets": _NO_OFFSETS,
        "startingtimestamp": _NO_OFFSETS,
        "endingtimestamp": _NO_OFFSETS,
        "startingoffsetsbytimestamp": _NO_OFFSETS,
        "endingoffsetsbytimestamp": _NO_OFFSETS,
        "startingoffsetsbytimestampstrategy": _NO_OFFSETS,
        "groupidprefix": _SHARED,
        "maxoffsetspertrigger": _RECORDS,
        "minoffsetspertrigger": _RECORDS,
        "maxtriggerdelay": "a batch is taken when there is anything: see maxWaitMs and the trigger",
        "path": "topics are named in the option subscribe, and load() has no argument",
        "topic": "topics are named in the option subscribe",
    }
)
"""Options of Spark's Kafka source, lower-cased -> why they are none here, and what to write."""

MANAGED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "share_acknowledgement_mode": f"{_MANAGED}: records are accepted when their batch is committed",
        "share_acquire_mode": f"{_MANAGED}: see maxRecordsPerTrigger",
        "explicit_window_records": f"{_MANAGED}: see maxRecordsPerTrigger",
        "max_poll_records": "write maxRecordsPerTrigger",
        "max_poll_interval_ms": f"{_MANAGED}: the agent stays a member as long as the query lives",
        "fetch_max_bytes": "write maxBytesPerTrigger",
        "fetch_max_wait_ms": "write maxWaitMs",
        "key_deserializer": "keys come as binary: deserialize them with Spark's functions",
        "value_deserializer": "values come as binary: deserialize them with Spark's functions",
        "deserialization_errors": "nothing is deserialized here: values come as binary",
        "release_backoff_ms": f"{_MANAGED}: see bisectAfterFailure",
        "send_ahead": f"{_MANAGED}: records are leased when a micro-batch asks for them",
        "protect_locks": f"{_MANAGED}: see renew",
        "ssl_context": "it is no text: write the kafka.ssl. options",
        "sasl_oauth_token_provider": "it is no text, and the source has no way to take it yet",
    }
)
"""Settings of the consumer that the source makes itself -> what to write."""
