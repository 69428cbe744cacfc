"""Frames that librdkafka sends for the share APIs, captured in this run, against our codecs."""

from __future__ import annotations

from typing import Any

import pytest
from conformance.confluent_peer import confluent_kafka, poll_until, produce, share_consumer

from kafka_share.broker import ReferenceBroker
from kafka_share.broker.conversation import Conversation
from kafka_share.protocol.messages import decode_request, decode_request_header, encode_request

pytestmark = pytest.mark.foreign

SHARE_APIS = {76: "ShareGroupHeartbeat", 78: "ShareFetch", 79: "ShareAcknowledge"}


def test_its_share_requests_encode_to_the_same_bytes_when_they_were_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each ShareGroupHeartbeat, ShareFetch and ShareAcknowledge of librdkafka survives our codecs unchanged."""
    frames: list[bytes] = []
    read = Conversation.read

    def capture(conversation: Conversation, frame: bytes, offered: Any) -> Any:
        if decode_request_header(frame).api_key in SHARE_APIS:
            frames.append(frame)
        return read(conversation, frame, offered)

    monkeypatch.setattr(Conversation, "read", capture)
    with ReferenceBroker(
        config={"group.share.min.heartbeat.interval.ms": 100, "group.share.heartbeat.interval.ms": 100}
    ) as broker:
        broker.create_topic("t", partitions=2)
        broker.set_group_config("g", {"share.auto.offset.reset": "earliest"})
        for partition in (0, 1):
            produce(broker.bootstrap_servers, "t", [b"1", b"2", b"3"], partition=partition)
        consumer = share_consumer(broker.bootstrap_servers, "g", "t", **{"share.acknowledgement.mode": "explicit"})
        kinds = list(confluent_kafka.AcknowledgeType)
        answered = iter(range(1000))
        poll_until(consumer, 6, lambda message: consumer.acknowledge(message, kinds[next(answered) % len(kinds)]))
        consumer.commit_sync()
        consumer.close()

    assert {decode_request_header(frame).api_key for frame in frames} == set(SHARE_APIS)
    for frame in frames:
        header, request = decode_request(frame)
        again = encode_request(request, header.api_version, header.correlation_id, header.client_id)
        assert again[4:] == frame, f"{SHARE_APIS[header.api_key]} v{header.api_version}"
