"""One member of a share group that speaks raw requests over one connection: what the façade would hide is visible."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self
from uuid import UUID

from support.share_requests import (
    DESCRIBE_VERSION,
    SHARE_VERSION,
    Limits,
    Topic,
    acknowledge_request,
    describe_request,
    fetch_request,
)
from support.waiting import gather, wait_until
from support.wire_connection import WireConnection

from kafka_share.protocol.share_fetch import ShareFetchRequest
from kafka_share.protocol.share_group import ShareGroupHeartbeatRequest

ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4
Acknowledged = Sequence[tuple[int, int, int]]
"""(first offset, last offset, type), for the one partition."""
Range = tuple[int, int, int]
"""(first offset, last offset, delivery count)."""
_HEARTBEAT_VERSION = 1
_A_MOMENT_MS = 10


class ShareMember(WireConnection):
    """A member of group `group`; `join` makes the broker initialise the share state of its one topic."""

    def __init__(self, address: str, member_id: str, *, group: str = "g") -> None:
        super().__init__(address)
        self.group = group
        self.member_id = member_id
        self.topic = Topic("", UUID(int=0), group, 1)

    def heartbeat(self, epoch: int, topics: list[str] | None) -> Any:
        request = ShareGroupHeartbeatRequest(
            group_id=self.group,
            member_id=self.member_id,
            member_epoch=epoch,
            rack_id=None,
            subscribed_topic_names=topics,
        )
        return self.call(request, _HEARTBEAT_VERSION)

    def join(self, topic: str) -> Self:
        """Join the group and have the broker load the topic's share partition; no records may be there yet.

        A first fetch that does not wait may find the partition not loaded. So sessions are opened until one lists the
        partition, and the last is closed; what the test sends begins with epoch 0.
        """
        self._await_assignment(topic)
        wait_until(self._is_loaded, "the share partition was not loaded")
        assert self.acknowledge(-1).error_code == 0
        return self

    def _is_loaded(self) -> bool:
        answer = self.fetch(0, max_wait_ms=_A_MOMENT_MS)
        assert acquired(answer) == []
        return bool(answer.responses)

    def _await_assignment(self, topic: str) -> None:
        """Heartbeats until the member has partitions; the broker has initialised their share state by then."""
        answer = self.heartbeat(0, [topic])

        def assigned() -> Any:
            nonlocal answer
            assert answer.error_code == 0, f"the heartbeat was refused with {answer.error_code}"
            if answer.assignment is not None and answer.assignment.topic_partitions:
                return answer.assignment.topic_partitions[0].topic_id
            answer = self.heartbeat(answer.member_epoch, [topic])
            return None

        topic_id = wait_until(assigned, "the member was assigned nothing")
        self.topic = Topic(topic, topic_id, self.group, 1)

    def fetch_request(self, epoch: int, acknowledged: Acknowledged = (), **limits: Any) -> ShareFetchRequest:
        """A ShareFetch; the partition is named when the session begins and when it has acknowledgements."""
        return fetch_request(self.topic, self.member_id, epoch, Limits(**limits), _of_partition_0(acknowledged))

    def fetch(self, epoch: int, acknowledged: Acknowledged = (), *, version: int = SHARE_VERSION, **limits: Any) -> Any:
        return self.call(self.fetch_request(epoch, acknowledged, **limits), version)

    def acknowledge(
        self,
        epoch: int,
        acknowledged: Acknowledged = (),
        *,
        is_renew_ack: bool = False,
        version: int = SHARE_VERSION,
    ) -> Any:
        found = _of_partition_0(acknowledged)
        request = acknowledge_request(self.topic, self.member_id, epoch, found, is_renew_ack=is_renew_ack)
        return self.call(request, version)

    def fetch_until_acquired(self, epoch: int) -> tuple[list[Range], int]:
        """Fetch until something is acquired, as a release after a session's end may take a moment; (ranges, epoch)."""

        def fetch() -> list[Range]:
            nonlocal epoch
            epoch += 1
            return acquired(self.fetch(epoch - 1, max_wait_ms=_A_MOMENT_MS))

        return gather(fetch, 1), epoch

    def stored_offsets(self) -> tuple[int, int]:
        """(start offset, lag) of the partition as the broker reports them."""
        described = self.call(describe_request(self.topic), DESCRIBE_VERSION).groups[0].topics[0].partitions[0]
        return described.start_offset, described.lag


def _of_partition_0(acknowledged: Acknowledged) -> list[tuple[int, int, int, int]]:
    return [(0, first, last, kind) for first, last, kind in acknowledged]


def only_partition(response: Any) -> Any:
    """The one partition that an answer is about."""
    assert response.error_code == 0, f"the request failed as a whole with {response.error_code}"
    assert len(response.responses) == 1
    assert len(response.responses[0].partitions) == 1
    return response.responses[0].partitions[0]


def acquired(response: Any) -> list[Range]:
    """(first, last, delivery count) of every range that a ShareFetch acquired."""
    assert response.error_code == 0, f"the request failed as a whole with {response.error_code}"
    return [
        (found.first_offset, found.last_offset, found.delivery_count)
        for topic in response.responses
        for partition in topic.partitions
        for found in partition.acquired_records
    ]
