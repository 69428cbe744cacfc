"""Where a share partition begins that has no stored start offset: the group's reset policy.

Called when a share partition is loaded, so at the first ShareFetch and not at the subscription. Nothing is written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafka_share.broker.refusals import Refusal
from kafka_share.errors import OffsetNotAvailableError
from kafka_share.protocol.durations import parse_duration_ms

if TYPE_CHECKING:
    from kafka_share.broker.storage.log import PartitionLog

_BY_DURATION: Final = "by_duration:"


def start_offset_by_policy(policy: str, log: PartitionLog, now_ms: int) -> int:
    """The start offset by `share.auto.offset.reset`: "latest", "earliest" or "by_duration:" and a duration.

    "latest" is the high watermark, whatever the isolation level. Raises `Refusal` (OFFSET_NOT_AVAILABLE) if no record
    is as young as the duration asks for: unlike an ordinary consumer's, the policy does not fall back to the end.
    """
    if policy == "earliest":
        return log.start_offset
    if policy == "latest":
        return log.high_watermark
    assert policy.startswith(_BY_DURATION), f"the group's settings have been validated, but hold {policy!r}"
    found = log.offset_for_timestamp(now_ms - parse_duration_ms(policy.removeprefix(_BY_DURATION)))
    if found is None:
        raise Refusal(OffsetNotAvailableError, "no record is young enough to start at")
    return found[0]
