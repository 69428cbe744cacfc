"""Raw requests that keep a broker busy by itself: what it costs when no client is the bottleneck.

Used by `contestant`. Batches are encoded once, and nobody looks at a record: what is fetched is acknowledged by the
ranges that the answer names, with the next fetch.
"""

from __future__ import annotations

import itertools
import select
import uuid
from collections.abc import Iterator, Sequence
from typing import Any, Final

from performance.filling import PARTITIONS, RECORDS_IN_BATCH
from support.share_requests import SHARE_VERSION, Limits, Topic, fetch_request
from support.wire_connection import CLIENT_ID, Awaited, WireConnection

from kafka_share.errors import RemoteProtocolError
from kafka_share.protocol.handshake import ApiVersionsRequest
from kafka_share.protocol.logs import ProduceRequest
from kafka_share.protocol.messages import decode_response, encode_request
from kafka_share.protocol.record_batches import encode_batch
from kafka_share.protocol.share_fetch import ShareFetchRequest
from kafka_share.protocol.share_group import ShareGroupHeartbeatRequest

PRODUCE: Final = "produce"
FETCH: Final = "share-fetch"
THROUGH: Final = "through"

_PRODUCE_VERSION: Final = 12
"""The last one that names topics. A broker that knows only older ones gets those, here and below."""
_HEARTBEAT_VERSION: Final = 1
_IN_FLIGHT: Final = 8
"""Produce requests on their way."""
_MEMBERS: Final = 2
"""One fetches while the other reads."""
_VALUE_BYTES: Final = 100
_WAIT_MS: Final = 100
_ACCEPT: Final = 1


class _Peer(WireConnection):
    def __init__(self, bootstrap: str) -> None:
        super().__init__(bootstrap)
        answer = self.call(ApiVersionsRequest(), 0)
        self._offered: dict[int, int] = {api.api_key: api.max_version for api in answer.api_keys}

    def version(self, request: type[Any], newest: int) -> int:
        """The newest version of a request that both sides know."""
        key: int = request.API_KEY
        return min(newest, self._offered[key])


class RawProducer(_Peer):
    """Sends the same batches again and again, to the partitions in turns."""

    def __init__(self, bootstrap: str, topic: str, records: int) -> None:
        super().__init__(bootstrap)
        self._version = version = self.version(ProduceRequest, _PRODUCE_VERSION)
        self.records = 0
        """Stored so far."""
        self._left = -(-records // RECORDS_IN_BATCH)
        batch = encode_batch([(offset, 0, None, b"x" * _VALUE_BYTES, []) for offset in range(RECORDS_IN_BATCH)])
        self._frames = itertools.cycle(
            [_produce_frame(topic, partition, batch, version) for partition in range(PARTITIONS)]
        )

    def begin(self) -> None:
        for _ in range(_IN_FLIGHT):
            self._send_next()

    def go_on(self) -> None:
        """Take an answer, and send the next batch."""
        (topic,) = self.receive().responses
        assert topic.partition_responses[0].error_code == 0
        self.records += RECORDS_IN_BATCH
        self._send_next()

    def _send_next(self) -> None:
        if self._left:
            self._left -= 1
            self.send_bytes(next(self._frames), Awaited(ProduceRequest.API_KEY, self._version, 0))


def _produce_frame(topic: str, partition: int, batch: bytes, version: int) -> bytes:
    of_topic = ProduceRequest.TopicProduceData
    data = of_topic.PartitionProduceData(index=partition, records=batch)
    request = ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[of_topic(name=topic, partition_data=[data])])
    return encode_request(request, version, 0, CLIENT_ID)


class RawMember(_Peer):
    """A member of a share group with one fetch on its way."""

    def __init__(self, bootstrap: str, topic: str, group: str) -> None:
        super().__init__(bootstrap)
        self.records = 0
        """Acquired so far."""
        self._member_id = str(uuid.uuid4())
        self._epoch = 0
        self._topic = Topic(topic, self._join(topic, group), group, PARTITIONS)
        self._limits = Limits(max_wait_ms=_WAIT_MS, max_records=RECORDS_IN_BATCH, batch_size=RECORDS_IN_BATCH)
        self._acquired: list[tuple[int, int, int, int]] = []
        self._version = self.version(ShareFetchRequest, SHARE_VERSION)

    def _join(self, topic: str, group: str) -> uuid.UUID:
        """Heartbeats until there is something assigned: the share state has been initialised by then."""
        epoch = 0
        while True:
            request = ShareGroupHeartbeatRequest(
                group_id=group, member_id=self._member_id, member_epoch=epoch, subscribed_topic_names=[topic]
            )
            answer = self._heartbeat(request)
            assert answer.error_code == 0
            epoch = answer.member_epoch
            if answer.assignment is not None and answer.assignment.topic_partitions:
                found: uuid.UUID = answer.assignment.topic_partitions[0].topic_id
                return found

    def _heartbeat(self, request: ShareGroupHeartbeatRequest) -> Any:
        self.send(request, _HEARTBEAT_VERSION)
        awaited, frame = self.receive_frame()
        try:
            return decode_response(awaited.api_key, awaited.version, frame)[1]
        except RemoteProtocolError:  # librdkafka's mock sends a byte too many
            return decode_response(awaited.api_key, awaited.version, frame[:-1])[1]

    def begin(self) -> None:
        request = fetch_request(self._topic, self._member_id, self._epoch, self._limits, self._acquired)
        self.send(request, self._version)
        self._epoch += 1

    def go_on(self) -> None:
        """Take an answer, and send the next fetch, which acknowledges what it brought."""
        answer = self.receive()
        assert answer.error_code == 0
        found = [partition for topic in answer.responses for partition in topic.partitions]
        assert not any(partition.error_code or partition.acknowledge_error_code for partition in found)
        self._acquired = [
            (partition.partition_index, one.first_offset, one.last_offset, _ACCEPT)
            for partition in found
            for one in partition.acquired_records
        ]
        self.records += sum(last - first + 1 for _, first, last, _ in self._acquired)
        self.begin()


def work(mode: str, bootstrap: str, topic: str, group: str, records: int) -> Iterator[int]:
    """Do it, and yield how many more records have gone all the way that `mode` asks for."""
    producers = [] if mode == FETCH else [RawProducer(bootstrap, topic, records)]
    members = [] if mode == PRODUCE else [RawMember(bootstrap, topic, group) for _ in range(_MEMBERS)]
    halves: list[Sequence[RawProducer | RawMember]] = [half for half in (producers, members) if half]
    peers = {peer.fileno(): peer for half in halves for peer in half}
    for peer in peers.values():
        peer.begin()
    done = 0
    while done < records:
        for number in select.select(list(peers), [], [])[0]:
            peers[number].go_on()
        before, done = done, min(sum(peer.records for peer in half) for half in halves)
        yield done - before
    for peer in peers.values():
        peer.close()
