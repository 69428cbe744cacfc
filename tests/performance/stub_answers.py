"""What the stub broker says to everything but records and acknowledgements: one node, one topic, members of any group.

Each member is assigned all partitions with its first heartbeat.
"""

from __future__ import annotations

import uuid
from typing import Any, Final

import attrs

from kafka_share.protocol.cluster import FindCoordinatorResponse, MetadataResponse
from kafka_share.protocol.handshake import ApiVersionsResponse
from kafka_share.protocol.messages import (
    API_VERSIONS,
    RequestHeader,
    decode_request_body,
    decode_request_header,
    encode_response,
)
from kafka_share.protocol.share_group import ShareGroupHeartbeatResponse

TOPIC: Final = "replayed"
HOST: Final = "127.0.0.1"
NODE: Final = 1
SHARE_FETCH: Final = 78
SHARE_ACKNOWLEDGE: Final = 79

_METADATA: Final = 3
_FIND_COORDINATOR: Final = 10
_HEARTBEAT: Final = 76
_VERSIONS: Final = {
    0: (3, 9),
    1: (4, 12),
    API_VERSIONS: (0, 4),
    _METADATA: (0, 12),
    _FIND_COORDINATOR: (0, 4),
    _HEARTBEAT: (1, 1),
    SHARE_FETCH: (1, 2),
    SHARE_ACKNOWLEDGE: (1, 2),
}
"""What the broker says that it speaks. Produce (0) and Fetch (1) are not answered: librdkafka tells from them whether a
broker knows the current format of records."""

_UNKNOWN_TOPIC: Final = 3
_UNSUPPORTED_VERSION: Final = 35
_HEARTBEAT_INTERVAL_MS: Final = 5_000

_Topic = MetadataResponse.MetadataResponseTopic
_Assignment = ShareGroupHeartbeatResponse.Assignment


@attrs.frozen
class Answers:
    """`topic_id` and `partitions`: of the one topic."""

    port: int
    partitions: int
    topic_id: uuid.UUID = attrs.field(factory=uuid.uuid4)

    def answer(self, frame: memoryview) -> bytes:
        """The frame that answers a frame. A request that the stub does not know raises an error, and ends it."""
        header = decode_request_header(frame)
        if header.api_key == API_VERSIONS:
            return self._versions(header)
        request: Any = decode_request_body(header, frame)
        response = {
            _METADATA: self._metadata,
            _FIND_COORDINATOR: self._coordinator,
            _HEARTBEAT: self._heartbeat,
        }[header.api_key](request)
        return encode_response(header.correlation_id, response, header.api_version)

    def _versions(self, header: RequestHeader) -> bytes:
        apis = [
            ApiVersionsResponse.ApiVersion(api_key=key, min_version=low, max_version=high)
            for key, (low, high) in _VERSIONS.items()
        ]
        known = header.is_supported
        response = ApiVersionsResponse(error_code=0 if known else _UNSUPPORTED_VERSION, api_keys=apis)
        return encode_response(header.correlation_id, response, header.api_version if known else 0)

    def _metadata(self, request: Any) -> MetadataResponse:
        asked = [(TOPIC, None)] if request.topics is None else [(one.name, one.topic_id) for one in request.topics]
        return MetadataResponse(
            brokers=[MetadataResponse.MetadataResponseBroker(node_id=NODE, host=HOST, port=self.port)],
            cluster_id="stub",
            controller_id=NODE,
            topics=[self._topic(name, topic_id) for name, topic_id in asked],
        )

    def _topic(self, name: str | None, topic_id: uuid.UUID | None) -> _Topic:
        if name != TOPIC and topic_id != self.topic_id:
            return _Topic(error_code=_UNKNOWN_TOPIC, name=name, topic_id=topic_id)
        partitions = [
            _Topic.MetadataResponsePartition(
                partition_index=number, leader_id=NODE, leader_epoch=0, replica_nodes=[NODE], isr_nodes=[NODE]
            )
            for number in range(self.partitions)
        ]
        return _Topic(name=TOPIC, topic_id=self.topic_id, partitions=partitions)

    def _coordinator(self, request: Any) -> FindCoordinatorResponse:
        where: dict[str, Any] = {"node_id": NODE, "host": HOST, "port": self.port}
        keys = [FindCoordinatorResponse.Coordinator(key=key, **where) for key in request.coordinator_keys]
        return FindCoordinatorResponse(coordinators=keys, **({} if keys else where))

    def _heartbeat(self, request: Any) -> ShareGroupHeartbeatResponse:
        """A member that joins is told its partitions at once; one that leaves keeps its epoch of -1."""
        assignment = None
        if request.member_epoch == 0:
            everything = _Assignment.TopicPartitions(topic_id=self.topic_id, partitions=list(range(self.partitions)))
            assignment = _Assignment(topic_partitions=[everything])
        return ShareGroupHeartbeatResponse(
            member_id=request.member_id,
            member_epoch=min(1, request.member_epoch) or 1,
            heartbeat_interval_ms=_HEARTBEAT_INTERVAL_MS,
            assignment=assignment,
        )
