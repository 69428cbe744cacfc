"""The messages that are coded by hand, and whether both codecs agree: for tests and for the coverage-guided fuzz."""

from __future__ import annotations

import random
import uuid
from typing import Any

from protocol.message_values import comparable

from kafka_share.errors import KafkaShareError
from kafka_share.protocol import messages as codec
from kafka_share.protocol.hot_messages import SHORT_DECODERS, SHORT_ENCODERS
from kafka_share.protocol.messages import decode_response, encode_request
from kafka_share.protocol.share_acknowledge import ShareAcknowledgeRequest, ShareAcknowledgeResponse
from kafka_share.protocol.share_fetch import ShareFetchRequest, ShareFetchResponse

VERSIONS = (1, 2)
REQUESTS: tuple[Any, ...] = (ShareFetchRequest, ShareAcknowledgeRequest)
RESPONSES: tuple[Any, ...] = (ShareFetchResponse, ShareAcknowledgeResponse)


def outcome(call: Any, *arguments: Any) -> Any:
    """What a call returns, or the error that it raises."""
    try:
        return call(*arguments)
    except KafkaShareError as error:
        return type(error), str(error)


def same_bytes(request: Any, version: int, client_id: str | None = "client") -> bool:
    """Both codecs write the same, or refuse in the same words; returns whether the short one took it."""
    expected = outcome(codec._encode_request, request, version, 7, client_id)
    assert outcome(encode_request, request, version, 7, client_id) == expected
    return SHORT_ENCODERS[type(request), version](request, 7, client_id) is not None


def same_values(api_key: int, version: int, frame: bytes | memoryview) -> bool:
    """Both codecs read the same, or refuse in the same words; returns whether the short one took it."""
    expected = outcome(codec._decode_response, api_key, version, frame)
    found = outcome(decode_response, api_key, version, frame)
    if isinstance(expected[0], int):
        assert found[0] == expected[0]
        assert comparable(found[1], version) == comparable(expected[1], version)
        assert repr(found[1]) == repr(expected[1])
    else:
        assert found == expected
    return SHORT_DECODERS[api_key, version](frame) is not None


def few(chance: random.Random, most: int = 3) -> range:
    return range(chance.randrange(most + 1))


def usual_request(kind: Any, chance: random.Random) -> Any:
    """A request as the client makes them."""
    is_fetch = kind is ShareFetchRequest
    topic = kind.FetchTopic if is_fetch else kind.AcknowledgeTopic
    partition = topic.FetchPartition if is_fetch else topic.AcknowledgePartition

    def batch() -> Any:
        first = chance.randrange(1 << 40)
        types = [chance.randrange(-128, 128) for _ in range(chance.choice((1, 1, 2, 11, 126)))]
        return partition.AcknowledgementBatch(first_offset=first, last_offset=first + 9, acknowledge_types=types)

    topics = [
        topic(
            topic_id=uuid.UUID(int=chance.getrandbits(128)),
            partitions=[
                partition(partition_index=number, acknowledgement_batches=[batch() for _ in few(chance)])
                for number in few(chance)
            ],
        )
        for _ in few(chance)
    ]
    ids = {"group_id": "group-ä", "member_id": "member", "share_session_epoch": chance.randrange(-1, 99)}
    return kind(**ids, topics=topics, **({"max_wait_ms": 500, "max_records": 5} if is_fetch else {}))


def usual_response(kind: Any, chance: random.Random) -> Any:
    """A response as brokers make them."""
    is_fetch = kind is ShareFetchResponse
    topic = kind.ShareFetchableTopicResponse if is_fetch else kind.ShareAcknowledgeTopicResponse

    def data(number: int) -> Any:
        more: dict[str, Any] = {}
        if is_fetch:
            acquired = topic.PartitionData.AcquiredRecords
            more["records"] = chance.randbytes(chance.choice((0, 5, 126, 127, 20_000)))
            more["acknowledge_error_code"] = chance.choice((0, 121))
            more["acquired_records"] = [
                acquired(first_offset=at, last_offset=at + 4, delivery_count=1) for at in few(chance, 5)
            ]
        leader = topic.PartitionData.LeaderIdAndEpoch(leader_id=chance.choice((0, 3)), leader_epoch=0)
        return topic.PartitionData(
            partition_index=number, error_code=chance.choice((0, 6)), current_leader=leader, **more
        )

    ids = [chance.choice((None, uuid.UUID(int=chance.getrandbits(128)))) for _ in few(chance)]
    topics = [topic(topic_id=topic_id, partitions=[data(number) for number in few(chance)]) for topic_id in ids]
    return kind(throttle_time_ms=3, error_code=chance.choice((0, 41)), acquisition_lock_timeout_ms=9, responses=topics)
