"""One member of a share group that speaks raw requests over one connection: what the façade would hide is visible."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from support.waiting import PATIENCE_S

from kafka_share.protocol.messages import decode_response, encode_request
from kafka_share.protocol.share_acknowledge import ShareAcknowledgeRequest
from kafka_share.protocol.share_fetch import ShareFetchRequest
from kafka_share.protocol.share_group import ShareGroupHeartbeatRequest
from kafka_share.protocol.share_offsets import DescribeShareGroupOffsetsRequest

ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4
Acknowledged = Sequence[tuple[int, int, int]]
"""(first offset, last offset, type), for one partition."""


class WireClient:
    """A member of group `group`; `join` makes the broker initialise the share state of its one topic."""

    def __init__(self, address: str, member_id: str, *, group: str = "g") -> None:
        host, port = address.split(",", maxsplit=1)[0].rsplit(":", 1)
        self.group = group
        self.member_id = member_id
        self.topic_id = UUID(int=0)
        self._socket = socket.create_connection((host, int(port)), timeout=PATIENCE_S)
        self._awaited: list[tuple[int, int, int]] = []
        self._next_correlation_id = 1

    def close(self) -> None:
        self._socket.close()

    # ---- frames

    def send(self, request: Any, version: int) -> None:
        """Send without waiting; `receive` takes the answers in order."""
        correlation_id = self._next_correlation_id
        self._next_correlation_id += 1
        self._awaited.append((request.API_KEY, version, correlation_id))
        self._socket.sendall(encode_request(request, version, correlation_id, "wire"))

    def receive(self) -> Any:
        """The answer to the oldest request that has none yet."""
        api_key, version, correlation_id = self._awaited.pop(0)
        frame = self._read(int.from_bytes(self._read(4), "big"))
        answered_id, response = decode_response(api_key, version, frame)
        assert answered_id == correlation_id
        return response

    def call(self, request: Any, version: int) -> Any:
        self.send(request, version)
        return self.receive()

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            received = self._socket.recv(size - len(data))
            if not received:
                raise ConnectionError("the broker closed the connection")
            data += received
        return data

    # ---- requests

    def heartbeat(self, epoch: int, topics: list[str] | None) -> Any:
        request = ShareGroupHeartbeatRequest(
            group_id=self.group,
            member_id=self.member_id,
            member_epoch=epoch,
            rack_id=None,
            subscribed_topic_names=topics,
        )
        return self.call(request, 1)

    def join(self, topic: str) -> WireClient:
        """Join the group and have the broker load the topic's share partition; no records may be there yet.

        A first fetch that does not wait may find the partition not loaded. So sessions are opened until one lists the
        partition, and the last is closed; what the test sends begins with epoch 0.
        """
        self._await_assignment(topic)
        for _ in range(PATIENCE_S * 100):
            answer = self.fetch(0, max_wait_ms=10)
            assert acquired(answer) == []
            if answer.responses:
                assert self.acknowledge(-1).error_code == 0
                return self
        raise AssertionError("the share partition was not loaded")

    def _await_assignment(self, topic: str) -> None:
        """Heartbeats until the member has partitions; the broker has initialised their share state by then."""
        answer = self.heartbeat(0, [topic])
        for _ in range(PATIENCE_S * 100):
            assert answer.error_code == 0, f"the heartbeat was refused with {answer.error_code}"
            if answer.assignment is not None and answer.assignment.topic_partitions:
                self.topic_id = answer.assignment.topic_partitions[0].topic_id
                return
            answer = self.heartbeat(answer.member_epoch, [topic])
        raise AssertionError("the member was assigned nothing")

    def fetch_request(
        self,
        epoch: int,
        acknowledged: Acknowledged = (),
        *,
        max_wait_ms: int = 0,
        min_bytes: int = 1,
        max_bytes: int = 1 << 20,
        max_records: int = 500,
        batch_size: int = 500,
        acquire_mode: int = 0,
        is_renew_ack: bool = False,
    ) -> ShareFetchRequest:
        """A ShareFetch; the partition is named when the session begins and when it has acknowledgements."""
        partition = ShareFetchRequest.FetchTopic.FetchPartition
        batches = [
            partition.AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=[kind])
            for first, last, kind in acknowledged
        ]
        topic = ShareFetchRequest.FetchTopic(
            topic_id=self.topic_id, partitions=[partition(partition_index=0, acknowledgement_batches=batches)]
        )
        return ShareFetchRequest(
            group_id=self.group,
            member_id=self.member_id,
            share_session_epoch=epoch,
            max_wait_ms=max_wait_ms,
            min_bytes=min_bytes,
            max_bytes=max_bytes,
            max_records=max_records,
            batch_size=batch_size,
            share_acquire_mode=acquire_mode,
            is_renew_ack=is_renew_ack,
            topics=[topic] if acknowledged or epoch == 0 else [],
            forgotten_topics_data=[],
        )

    def fetch(self, epoch: int, acknowledged: Acknowledged = (), *, version: int = 2, **limits: Any) -> Any:
        return self.call(self.fetch_request(epoch, acknowledged, **limits), version)

    def acknowledge(
        self, epoch: int, acknowledged: Acknowledged = (), *, is_renew_ack: bool = False, version: int = 2
    ) -> Any:
        partition = ShareAcknowledgeRequest.AcknowledgeTopic.AcknowledgePartition
        batches = [
            partition.AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=[kind])
            for first, last, kind in acknowledged
        ]
        topic = ShareAcknowledgeRequest.AcknowledgeTopic(
            topic_id=self.topic_id, partitions=[partition(partition_index=0, acknowledgement_batches=batches)]
        )
        request = ShareAcknowledgeRequest(
            group_id=self.group,
            member_id=self.member_id,
            share_session_epoch=epoch,
            is_renew_ack=is_renew_ack,
            topics=[topic] if acknowledged else [],
        )
        return self.call(request, version)

    def fetch_until_acquired(self, epoch: int) -> tuple[list[tuple[int, int, int]], int]:
        """Fetch until something is acquired, as a release after a session's end may take a moment; (ranges, epoch)."""
        for _ in range(PATIENCE_S * 100):
            found = acquired(self.fetch(epoch, max_wait_ms=10))
            epoch += 1
            if found:
                return found, epoch
        raise AssertionError("nothing was acquired")

    def stored_offsets(self, topic: str) -> tuple[int, int]:
        """(start offset, lag) of partition 0 as the broker reports them."""
        group = DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestGroup
        named = group.DescribeShareGroupOffsetsRequestTopic(topic_name=topic, partitions=[0])
        request = DescribeShareGroupOffsetsRequest(groups=[group(group_id=self.group, topics=[named])])
        described = self.call(request, 1).groups[0].topics[0].partitions[0]
        return described.start_offset, described.lag


def only_partition(response: Any) -> Any:
    """The one partition that an answer is about."""
    assert response.error_code == 0, f"the request failed as a whole with {response.error_code}"
    assert len(response.responses) == 1
    assert len(response.responses[0].partitions) == 1
    return response.responses[0].partitions[0]


def acquired(response: Any) -> list[tuple[int, int, int]]:
    """(first, last, delivery count) of every range that a ShareFetch acquired."""
    assert response.error_code == 0, f"the request failed as a whole with {response.error_code}"
    return [
        (found.first_offset, found.last_offset, found.delivery_count)
        for topic in response.responses
        for partition in topic.partitions
        for found in partition.acquired_records
    ]
