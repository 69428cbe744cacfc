"""What arrives on one connection is cut into requests, however the network has cut it before."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_share.broker.conversation import Conversation
from kafka_share.broker.events import RequestArrived
from kafka_share.errors import RemoteProtocolError
from kafka_share.protocol.configs import AlterConfigsRequest
from kafka_share.protocol.handshake import ApiVersionsRequest
from kafka_share.protocol.messages import API_VERSIONS, encode_request

LARGEST = 10_000
OFFERED = {API_VERSIONS: (0, 4)}


def request(number: int) -> bytes:
    """A frame that is longer, the higher its number is."""
    asked = ApiVersionsRequest(client_software_name="n" * number, client_software_version="1")
    return encode_request(asked, 4, number, "c")


@given(st.lists(st.integers(0, 300), min_size=1, max_size=12), st.lists(st.integers(1, 700), max_size=40))
def test_every_request_arrives_whole_and_in_order_wherever_the_bytes_were_cut(
    numbers: list[int], lengths: list[int]
) -> None:
    conversation = Conversation(1, 0, "127.0.0.1")
    stream = b"".join(map(request, numbers))
    sizes = [len(request(number)) for number in numbers]
    begun = 0
    for length in (*lengths, len(stream)):
        conversation.received(stream[begun : begun + length], LARGEST)
        begun = min(begun + length, len(stream))
        whole = sum(sum(sizes[: count + 1]) <= begun for count in range(len(sizes)))
        assert conversation.whole_frames == whole
        assert conversation.half_sent_bytes == begun - sum(sizes[:whole])
    found = []
    while (arrived := conversation.next_request(OFFERED, 0)) is not None:
        assert isinstance(arrived, RequestArrived)
        found.append(arrived.context.correlation_id)
        conversation.ended()
    assert found == numbers


@pytest.mark.parametrize("cut", [1, 3, 4])
@pytest.mark.parametrize("size", [0, -1, LARGEST + 1])
def test_an_impossible_length_ends_the_connection_as_soon_as_it_is_known(size: int, cut: int) -> None:
    conversation = Conversation(1, 0, "127.0.0.1")
    data = request(3) + struct.pack(">i", size)
    conversation.received(data[: cut - 4] if cut < 4 else request(3), LARGEST)
    with pytest.raises(RemoteProtocolError, match="a frame of"):
        conversation.received(data[cut - 4 :] if cut < 4 else data[-4:], LARGEST)
    assert conversation.whole_frames == 1


@pytest.mark.parametrize(("names", "ends"), [(["a", "b"], False), (["a", "b", "a"], True)])
def test_an_alter_configs_that_names_a_resource_twice_ends_the_connection(names: list[str], ends: bool) -> None:
    """As Kafka 4.3.1, which finds no answer to it."""
    resource = AlterConfigsRequest.AlterConfigsResource
    asked = AlterConfigsRequest(
        resources=[resource(resource_type=2, resource_name=name, configs=[]) for name in names], validate_only=False
    )
    conversation = Conversation(1, 0, "127.0.0.1")
    conversation.received(encode_request(asked, 2, 1, "c"), LARGEST)
    if ends:
        with pytest.raises(RemoteProtocolError, match="names a resource twice"):
            conversation.next_request({asked.API_KEY: (0, 2)}, 0)
    else:
        assert isinstance(conversation.next_request({asked.API_KEY: (0, 2)}, 0), RequestArrived)
