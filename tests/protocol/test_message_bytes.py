"""Messages against bytes written down by hand from the lists of fields: what is on the wire, to the last zero."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from kafka_share.errors import LocalProtocolError, RemoteProtocolError
from kafka_share.protocol.cluster import MetadataRequest
from kafka_share.protocol.handshake import ApiVersionsRequest, ApiVersionsResponse
from kafka_share.protocol.messages import (
    decode_request,
    decode_request_body,
    decode_request_header,
    decode_response,
    encode_request,
    encode_response,
)
from kafka_share.protocol.share_acknowledge import ShareAcknowledgeRequest, ShareAcknowledgeResponse
from kafka_share.protocol.share_fetch import ShareFetchRequest, ShareFetchResponse
from kafka_share.protocol.share_group import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from kafka_share.protocol.share_offsets import DescribeShareGroupOffsetsResponse
from kafka_share.protocol.share_state import WriteShareGroupStateRequest

TOPIC_ID = uuid.UUID("00112233-4455-6677-8899-aabbccddeeff")
TOPIC_ID_HEX = "00112233445566778899aabbccddeeff"


def wire(*parts: str) -> bytes:
    """The frame of some hexadecimal digits: the length is put before them."""
    body = bytes.fromhex("".join(parts))
    return len(body).to_bytes(4, "big") + body


def request_header(api_key: int, version: int) -> str:
    """Header version 2: key, version, correlation id 5, client id "c" with an old-style length, no tagged fields."""
    return f"{api_key:04x} {version:04x} 00000005 0001 63 00"


def test_heartbeat_request_is_as_derived_by_hand_when_a_member_joins() -> None:
    request = ShareGroupHeartbeatRequest(
        group_id="g", member_id="me", member_epoch=0, rack_id=None, subscribed_topic_names=["t1", "t2"]
    )
    expected = wire(
        request_header(76, 1),
        "02 67",  # group id "g"
        "03 6d65",  # member id "me"
        "00000000",  # epoch
        "00",  # no rack
        "03 03 7431 03 7432",  # two topics
        "00",  # tagged fields
    )
    assert encode_request(request, 1, 5, "c") == expected
    header, decoded = decode_request(expected[4:])
    assert header.client_id == "c"
    assert decoded == request


@pytest.mark.parametrize(
    ("assignment", "digits"),
    [
        (None, "ff"),
        (
            ShareGroupHeartbeatResponse.Assignment(
                topic_partitions=[
                    ShareGroupHeartbeatResponse.Assignment.TopicPartitions(topic_id=TOPIC_ID, partitions=[0, 3])
                ]
            ),
            f"01 02 {TOPIC_ID_HEX} 03 00000000 00000003 00 00",
        ),
        (ShareGroupHeartbeatResponse.Assignment(topic_partitions=[]), "01 01 00"),
    ],
    ids=["unchanged", "one topic", "nothing"],
)
def test_heartbeat_response_is_as_derived_by_hand_when_the_assignment_is_null_or_not(
    assignment: Any, digits: str
) -> None:
    response = ShareGroupHeartbeatResponse(
        error_message=None, member_id="me", member_epoch=4, heartbeat_interval_ms=5000, assignment=assignment
    )
    expected = wire(
        "00000005 00",  # correlation id, tagged fields of the header
        "00000000 0000 00",  # throttle time, error code, no message
        "03 6d65 00000004 00001388",  # member, epoch, 5000 ms
        digits,
        "00",
    )
    assert encode_response(5, response, 1) == expected
    assert decode_response(76, 1, expected[4:])[1] == response


def fetch_request(**others: Any) -> ShareFetchRequest:
    topic = ShareFetchRequest.FetchTopic
    batch = topic.FetchPartition.AcknowledgementBatch(first_offset=10, last_offset=12, acknowledge_types=[1, 2, 0])
    return ShareFetchRequest(
        group_id="g",
        member_id="m",
        share_session_epoch=1,
        max_wait_ms=500,
        min_bytes=1,
        max_records=500,
        batch_size=50,
        topics=[
            topic(
                topic_id=TOPIC_ID, partitions=[topic.FetchPartition(partition_index=2, acknowledgement_batches=[batch])]
            )
        ],
        forgotten_topics_data=[ShareFetchRequest.ForgottenTopic(topic_id=TOPIC_ID, partitions=[7])],
        **others,
    )


FETCH_START = "02 67 02 6d 00000001 000001f4 00000001 7fffffff 000001f4 00000032"
FETCH_TOPICS = (
    f"02 {TOPIC_ID_HEX} 02 00000002"
    "02 000000000000000a 000000000000000c 04 01 02 00 00"  # one run with three types
    "00 00"  # the ends of partition and topic
    f"02 {TOPIC_ID_HEX} 02 00000007 00"  # one forgotten partition
    "00"
)


def test_fetch_request_is_as_derived_by_hand_when_version_1_and_2_are_spoken() -> None:
    assert encode_request(fetch_request(), 1, 5, "c") == wire(request_header(78, 1), FETCH_START, FETCH_TOPICS)
    request = fetch_request(share_acquire_mode=1, is_renew_ack=True)
    assert encode_request(request, 2, 5, "c") == wire(request_header(78, 2), FETCH_START, "01 01", FETCH_TOPICS)


@pytest.mark.parametrize(("records", "digits"), [(None, "00"), (b"", "01"), (b"abc", "04 616263")])
def test_fetch_response_keeps_null_and_empty_records_apart_when_encoded_and_decoded(
    records: bytes | None, digits: str
) -> None:
    topic = ShareFetchResponse.ShareFetchableTopicResponse
    partition = topic.PartitionData(
        partition_index=2,
        current_leader=topic.PartitionData.LeaderIdAndEpoch(leader_id=0, leader_epoch=0),
        records=records,
        acquired_records=[topic.PartitionData.AcquiredRecords(first_offset=1, last_offset=2, delivery_count=3)],
    )
    response = ShareFetchResponse(
        acquisition_lock_timeout_ms=30000,
        responses=[topic(topic_id=TOPIC_ID, partitions=[partition])],
        node_endpoints=[ShareFetchResponse.NodeEndpoint(node_id=1, host="h", port=9092, rack=None)],
    )
    expected = wire(
        "00000005 00 00000000 0000 00 00007530",
        f"02 {TOPIC_ID_HEX} 02 00000002 0000 00 0000 00 00000000 00000000 00",
        digits,
        "02 0000000000000001 0000000000000002 0003 00",
        "00 00",
        "02 00000001 02 68 00002384 00 00",
        "00",
    )
    assert encode_response(5, response, 2) == expected
    _, decoded = decode_response(78, 2, memoryview(expected)[4:])
    assert isinstance(decoded, ShareFetchResponse)
    assert decoded.responses[0].partitions[0].records == records
    assert decoded == response


def test_acknowledge_messages_are_as_derived_by_hand_when_version_1_and_2_are_spoken() -> None:
    topic = ShareAcknowledgeRequest.AcknowledgeTopic
    batch = topic.AcknowledgePartition.AcknowledgementBatch(first_offset=1, last_offset=9, acknowledge_types=[4])
    request = ShareAcknowledgeRequest(
        group_id="g",
        member_id="m",
        share_session_epoch=-1,
        topics=[
            topic(
                topic_id=TOPIC_ID,
                partitions=[topic.AcknowledgePartition(partition_index=0, acknowledgement_batches=[batch])],
            )
        ],
    )
    topics = f"02 {TOPIC_ID_HEX} 02 00000000 02 0000000000000001 0000000000000009 02 04 00 00 00 00"
    assert encode_request(request, 1, 5, "c") == wire(request_header(79, 1), "02 67 02 6d ffffffff", topics)
    request.is_renew_ack = True
    assert encode_request(request, 2, 5, "c") == wire(request_header(79, 2), "02 67 02 6d ffffffff 01", topics)

    response = ShareAcknowledgeResponse(acquisition_lock_timeout_ms=1000)
    assert encode_response(5, response, 1) == wire("00000005 00 00000000 0000 00 01 01 00")
    assert encode_response(5, response, 2) == wire("00000005 00 00000000 0000 00 000003e8 01 01 00")


def test_an_ignorable_field_is_left_out_and_others_are_refused_when_the_version_lacks_them() -> None:
    assert encode_request(fetch_request(share_acquire_mode=1), 1, 5, "c") == encode_request(fetch_request(), 1, 5, "c")
    with pytest.raises(LocalProtocolError, match="ShareFetchRequest v1: this version cannot carry is_renew_ack"):
        encode_request(fetch_request(is_renew_ack=True), 1, 5, "c")


def test_fields_of_later_versions_have_their_defaults_when_an_old_version_is_decoded() -> None:
    group = DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponseGroup
    topic = group.DescribeShareGroupOffsetsResponseTopic
    partition = topic.DescribeShareGroupOffsetsResponsePartition(partition_index=0, start_offset=3, lag=77)
    response = DescribeShareGroupOffsetsResponse(
        groups=[group(group_id="g", topics=[topic(topic_name="t", topic_id=TOPIC_ID, partitions=[partition])])]
    )
    for version, lag in ((0, -1), (1, 77)):
        _, decoded = decode_response(90, version, encode_response(1, response, version)[4:])
        assert isinstance(decoded, DescribeShareGroupOffsetsResponse)
        assert decoded.groups[0].topics[0].partitions[0].lag == lag


def test_the_count_of_completed_deliveries_stands_before_the_batches_when_version_1_is_written() -> None:
    topic = WriteShareGroupStateRequest.WriteStateData
    partition = topic.PartitionData(
        partition=1,
        state_epoch=2,
        leader_epoch=3,
        start_offset=4,
        delivery_complete_count=5,
        state_batches=[
            topic.PartitionData.StateBatch(first_offset=4, last_offset=6, delivery_state=2, delivery_count=1)
        ],
    )
    request = WriteShareGroupStateRequest(group_id="g", topics=[topic(topic_id=TOPIC_ID, partitions=[partition])])
    start = f"02 67 02 {TOPIC_ID_HEX} 02 00000001 00000002 00000003 0000000000000004"
    end = "02 0000000000000004 0000000000000006 02 0001 00 00 00 00"
    assert encode_request(request, 0, 5, "c") == wire(request_header(85, 0), start, end)
    assert encode_request(request, 1, 5, "c") == wire(request_header(85, 1), start, "00000005", end)


def test_the_response_to_api_versions_has_the_old_header_when_its_body_is_new() -> None:
    api = ApiVersionsResponse.ApiVersion(api_key=78, min_version=1, max_version=2)
    assert encode_response(5, ApiVersionsResponse(api_keys=[api]), 3) == wire(
        "00000005 0000 02 004e 0001 0002 00 00000000 00"
    )


def test_the_answer_is_read_as_version_0_when_the_broker_does_not_know_the_version_of_api_versions() -> None:
    api = ApiVersionsResponse.ApiVersion(api_key=18, min_version=0, max_version=2)
    answer = encode_response(5, ApiVersionsResponse(error_code=35, api_keys=[api]), 0)
    assert answer == wire("00000005 0023 00000001 0012 0000 0002")
    correlation_id, decoded = decode_response(18, 4, answer[4:])
    assert isinstance(decoded, ApiVersionsResponse)
    assert (correlation_id, decoded.error_code, decoded.api_keys[0].max_version) == (5, 35, 2)


def test_the_header_can_be_read_and_the_body_is_refused_when_the_version_is_unknown() -> None:
    frame = wire("0012 0063 00000009 ffff 00 ff ff ff")[4:]
    header = decode_request_header(frame)
    assert (header.api_key, header.api_version, header.correlation_id, header.client_id) == (18, 99, 9, None)
    assert not header.is_supported
    with pytest.raises(RemoteProtocolError, match="API 18 version 99 is not supported"):
        decode_request_body(header, frame)


def test_the_header_has_no_tagged_fields_when_the_version_is_not_flexible() -> None:
    assert encode_request(ApiVersionsRequest(), 2, 5, None) == wire("0012 0002 00000005 ffff")


def test_tagged_fields_of_a_header_are_skipped_when_a_peer_sends_some() -> None:
    request = wire("004c 0001 00000005 0001 63", "01 07 02 abcd", "02 67 01 00000000 00 00 00")
    decoded: Any = decode_request(request[4:])[1]
    assert decoded.group_id == "g"
    response = wire("00000005 01 07 02 abcd", "00000000 0000 00 00 00000000 00000000 ff 00")
    assert decode_response(76, 1, response[4:])[0] == 5


@pytest.mark.parametrize(
    ("request_", "version", "problem"),
    [
        (ShareGroupHeartbeatRequest(group_id=None, member_id="m"), 1, "group_id must not be None"),  # type: ignore[arg-type]
        (ShareGroupHeartbeatRequest(group_id="g" * 32768, member_id="m"), 1, "longer than 32767 bytes"),
        (ShareGroupHeartbeatRequest(group_id=b"g", member_id="m"), 1, "cannot be encoded"),  # type: ignore[arg-type]
        (ShareGroupHeartbeatRequest(group_id="\ud800", member_id="m"), 1, "cannot be encoded"),
        (ShareGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=2**31), 1, "cannot be encoded"),
        (ShareGroupHeartbeatRequest(group_id="g", member_id="m"), 0, "known versions are 1 to 1"),
        (ShareGroupHeartbeatRequest(group_id="g", member_id="m", _x=b""), 1, "cannot be encoded"),  # type: ignore[call-arg]
        (MetadataRequest(topics=None), 0, "topics must not be None"),
        (MetadataRequest(topics=["t"]), 12, "cannot be encoded"),  # type: ignore[list-item]
        (ShareFetchRequest(topics=5), 2, "cannot be encoded"),  # type: ignore[arg-type]
    ],
)
def test_a_value_is_refused_when_the_protocol_cannot_carry_it(request_: Any, version: int, problem: str) -> None:
    with pytest.raises(LocalProtocolError, match=problem):
        encode_request(request_, version, 1, "c")


def test_a_response_is_refused_when_a_struct_without_default_was_not_given() -> None:
    topic = ShareFetchResponse.ShareFetchableTopicResponse
    response = ShareFetchResponse(responses=[topic(topic_id=TOPIC_ID, partitions=[topic.PartitionData()])])  # type: ignore[call-arg]
    with pytest.raises(LocalProtocolError, match="current_leader must not be None"):
        encode_response(1, response, 2)


def test_a_header_is_refused_when_its_numbers_are_out_of_range() -> None:
    request = ShareGroupHeartbeatRequest(group_id="g", member_id="m")
    with pytest.raises(LocalProtocolError, match="header"):
        encode_request(request, 1, 2**31, "c")
    with pytest.raises(LocalProtocolError, match="header"):
        encode_request(request, 1, 1, "c" * 40000)
    with pytest.raises(LocalProtocolError, match="correlation id"):
        encode_response(2**31, ShareGroupHeartbeatResponse(), 1)


def test_asking_for_an_answer_is_refused_when_nobody_could_have_sent_the_request() -> None:
    with pytest.raises(LocalProtocolError, match="API 999"):
        decode_response(999, 0, b"\0" * 20)
    with pytest.raises(LocalProtocolError, match="no version 0"):
        decode_response(78, 0, b"\0" * 20)
