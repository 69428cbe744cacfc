"""Which partitions of a group a reset or a deletion does not reach, because their leaders hold them in memory.

`changing` asks before it changes something, and has the warning printed afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import attrs

from kafka_share.admin import KafkaShareAdmin
from kafka_share.admin_values import ShareGroupDescription
from kafka_share.cli.output import print_line
from kafka_share.errors import KafkaShareError, UnknownTopicOrPartitionError
from kafka_share.records import TopicPartition

_EPOCH_OF_A_NEW_GROUP: Final = 1
"""The highest group epoch of a group that never had a member: 1 from Kafka 4.3 on, 0 before."""
_MAX_NAMED: Final = 5


@attrs.frozen
class Loaded:
    """The partitions of one group that are in memory; none and no error: nothing has to be said."""

    group_id: str
    partitions: tuple[TopicPartition, ...] = ()
    unknown: KafkaShareError | None = None
    """Why it could not be found out for all."""

    def warn(self) -> None:
        """To be called when the change was made."""
        if self.partitions:
            named = ", ".join(map(str, self.partitions[:_MAX_NAMED]))
            more = f" and {len(self.partitions) - _MAX_NAMED} more" if len(self.partitions) > _MAX_NAMED else ""
            _warn(
                f"leaders still have {named}{more} of group '{self.group_id}' in memory, because a process that was a "
                "member is connected. They go on with the old offsets and may write them over these: let all such "
                "processes end, then repeat this."
            )
        elif self.unknown is not None:
            _warn(
                f"whether leaders still have partitions of group '{self.group_id}' in memory cannot be told: "
                f"{self.unknown}. If a process that was a member is connected, let it end, then repeat this."
            )


def still_loaded(
    admin: KafkaShareAdmin,
    group: ShareGroupDescription | KafkaShareError,
    timeout_ms: int,
    partitions: Iterable[TopicPartition] | None = None,
) -> Loaded:
    """Of these partitions, or of all that the group has offsets for. A group that never had a member has none."""
    if isinstance(group, KafkaShareError) or group.group_epoch <= _EPOCH_OF_A_NEW_GROUP:
        return Loaded("")
    group_id = group.group_id
    try:
        if partitions is None:
            listed = admin.list_share_group_offsets({group_id: None}, timeout_ms=timeout_ms)[group_id]
            if isinstance(listed, KafkaShareError):
                return Loaded(group_id, unknown=listed)
            partitions = listed
        found = admin.loaded_share_partitions(group_id, partitions, timeout_ms=timeout_ms)
    except KafkaShareError as error:
        return Loaded(group_id, unknown=error)
    errors = [result for result in found.values() if isinstance(result, KafkaShareError)]
    of_existing = [error for error in errors if not isinstance(error, UnknownTopicOrPartitionError)]
    loaded = tuple(where for where, result in found.items() if result is True)
    return Loaded(group_id, loaded, of_existing[0] if of_existing else None)


def _warn(text: str) -> None:
    print_line(f"Warning: {text}", err=True, spaced=True)
