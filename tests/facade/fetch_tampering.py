"""ShareFetch answers changed on their way out of the reference broker: errors and damage that a sound broker never has.

The broker itself knows nothing of it: what it acquired stays acquired.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kafka_share.protocol.messages import encode_response
from kafka_share.protocol.record_batches import iter_batches
from kafka_share.protocol.share_fetch import ShareFetchResponse

Topic = ShareFetchResponse.ShareFetchableTopicResponse
PartitionData = Topic.PartitionData
Leader = PartitionData.LeaderIdAndEpoch


class FetchTampering:
    """`change` is applied to the next ShareFetch answers for which it returns True, `times` of them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._original = encode_response
        self._change: Callable[[ShareFetchResponse], bool] = lambda _: False
        self.remaining = 0
        monkeypatch.setattr("kafka_share.broker.connection.encode_response", self._encode)

    def next_answers(self, change: Callable[[ShareFetchResponse], bool], times: int = 1) -> None:
        self._change, self.remaining = change, times

    def _encode(self, correlation_id: int, response: Any, version: int) -> bytes:
        if self.remaining and isinstance(response, ShareFetchResponse) and self._change(response):
            self.remaining -= 1
        return self._original(correlation_id, response, version)


def in_partition(change: Callable[[Any], None]) -> Callable[[ShareFetchResponse], bool]:
    """Change the one partition of an answer that has acquired records."""

    def apply(response: ShareFetchResponse) -> bool:
        found = [p for topic in response.responses for p in topic.partitions if p.acquired_records]
        for partition in found:
            change(partition)
        return bool(found)

    return apply


def in_batch(number: int, damage: Callable[[bytes], bytes]) -> Callable[[ShareFetchResponse], bool]:
    """Damage one of the record batches of such a partition."""

    def change(partition: Any) -> None:
        batches = [batch.data for batch in iter_batches(partition.records)]
        batches[number] = damage(bytes(batches[number]))
        partition.records = b"".join(batches)

    return in_partition(change)


def partition_error(topic_id: Any, code: int) -> Callable[[ShareFetchResponse], bool]:
    """Say nothing but that partition 0 of the topic failed with this code."""

    def apply(response: ShareFetchResponse) -> bool:
        failed = PartitionData(partition_index=0, error_code=code, current_leader=Leader(leader_id=0), records=b"")
        response.responses = [Topic(topic_id=topic_id, partitions=[failed])]
        return True

    return apply
