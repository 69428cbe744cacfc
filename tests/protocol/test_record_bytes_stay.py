"""Record bytes stay in the frame that they came in: nothing copies them before they are decoded."""

from __future__ import annotations

import tracemalloc
import uuid
from collections.abc import Callable

import pytest

from kafka_share.network.framing import STAGING_BYTES, FrameReceiver
from kafka_share.protocol.messages import decode_response, encode_response
from kafka_share.protocol.record_batches import encode_batch, iter_batches
from kafka_share.protocol.share_fetch import ShareFetchResponse

LARGE = 1_000_000
SMALL_CHANGE = 50_000
"""What messages and their lists may cost: far less than the records."""


def frame_with(records: bytes) -> bytes:
    """The answer to a ShareFetch, with its length."""
    topic = ShareFetchResponse.ShareFetchableTopicResponse
    leader = topic.PartitionData.LeaderIdAndEpoch(leader_id=0, leader_epoch=0)
    partition = topic.PartitionData(partition_index=0, current_leader=leader, records=records, acquired_records=[])
    response = ShareFetchResponse(responses=[topic(topic_id=uuid.UUID(int=1), partitions=[partition])])
    return encode_response(7, response, 1)


def records_in(frame: bytes | memoryview) -> bytes | memoryview:
    response = decode_response(78, 1, frame)[1]
    assert isinstance(response, ShareFetchResponse)
    records = response.responses[0].partitions[0].records
    assert records is not None
    return records


def memory_taken_by(action: Callable[[], object]) -> int:
    """The most bytes that were in use at any time during the call."""
    action()  # what is made once, such as a decoder, is not counted
    tracemalloc.start()
    try:
        action()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("kind", [bytes, bytearray], ids=["bytes", "bytearray"])
def test_records_are_a_view_of_the_frame_when_a_response_is_decoded(kind: type[bytes] | type[bytearray]) -> None:
    batch = encode_batch([(0, 1, b"k", b"v" * LARGE, [])])
    frame = kind(frame_with(batch)[4:])
    records = records_in(memoryview(frame))
    assert isinstance(records, memoryview)
    assert records.obj is frame
    assert records.readonly
    assert records == batch
    assert memory_taken_by(lambda: records_in(memoryview(frame))) < SMALL_CHANGE


def test_records_stay_as_they_are_when_the_connection_goes_on_receiving() -> None:
    receiver = FrameReceiver(2 * LARGE)
    first, second = (encode_batch([(0, 1, None, letter * LARGE, [])]) for letter in (b"a", b"b"))
    found = []
    data = memoryview(frame_with(first) + frame_with(second) + frame_with(first[: STAGING_BYTES // 2]))
    while data:
        buffer = receiver.buffer()
        count = min(len(buffer), len(data))
        buffer[:count] = data[:count]
        data = data[count:]
        found += [records_in(frame) for frame in receiver.received(count)]
    assert found == [first, second, first[: STAGING_BYTES // 2]]


def test_small_frames_stay_where_they_were_received() -> None:
    receiver = FrameReceiver()
    batch = encode_batch([(0, 1, None, b"v" * 100, [])])
    data = frame_with(batch) * 2 + frame_with(batch)[:7]
    received_into = receiver.buffer()
    received_into[: len(data)] = data
    first, second = receiver.received(len(data))
    assert first.obj is second.obj is received_into.obj
    receiver.buffer()[:4] = b"next"
    assert records_in(first) == records_in(second) == batch


def test_batches_are_views_when_the_records_are_one() -> None:
    data = bytearray(encode_batch([(0, 1, None, b"v" * LARGE, [])]) * 3)
    batches = list(iter_batches(memoryview(data)))
    assert [isinstance(batch.data, memoryview) and batch.data.obj is data for batch in batches] == [True] * 3

    def verify_all() -> None:
        for batch in iter_batches(memoryview(data)):
            batch.verify_crc()

    assert memory_taken_by(verify_all) < SMALL_CHANGE


def test_one_copy_is_taken_when_records_without_compression_are_decoded() -> None:
    (batch,) = iter_batches(memoryview(encode_batch([(n, 1, None, b"v" * 1000, []) for n in range(LARGE // 1000)])))
    decoded = memory_taken_by(batch.records)
    # A copy of the batch, and the values that are cut out of it.
    assert 2 * LARGE < decoded < 2.5 * LARGE


def test_the_compressed_bytes_are_not_copied_when_they_are_decompressed() -> None:
    noise = b"".join(uuid.uuid5(uuid.UUID(int=0), str(n)).bytes for n in range(LARGE // 16))
    (batch,) = iter_batches(memoryview(encode_batch([(0, 1, None, noise, [])], codec="gzip")))
    assert len(batch.data) > 0.99 * LARGE
    # The buffer that is decompressed into and the bytes in it; a copy of the compressed bytes would be a third one.
    assert 2 * LARGE < memory_taken_by(batch.records) < 2.5 * LARGE
