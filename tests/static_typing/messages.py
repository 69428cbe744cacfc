"""What a strict user's type checker sees of the message classes: checked by mypy and pyright, never run."""

from __future__ import annotations

import uuid
from typing import assert_type

from kafka_share.protocol.cluster import MetadataResponse
from kafka_share.protocol.share_fetch import ShareFetchRequest, ShareFetchResponse


def fields_have_types(metadata: MetadataResponse, response: ShareFetchResponse) -> None:
    assert_type([p.leader_id for t in metadata.topics for p in t.partitions], list[int])
    assert_type(response.responses[0].partitions[0].records, bytes | memoryview | None)


def a_message_is_made_from_its_fields() -> None:
    topic = ShareFetchRequest.FetchTopic(topic_id=uuid.UUID(int=1), partitions=[])
    request = ShareFetchRequest(group_id="g", member_id=None, topics=[topic])
    assert_type(request.group_id, str | None)


def mistakes_are_found(request: ShareFetchRequest) -> None:
    request.no_such_field = 5  # type: ignore[attr-defined]
    ShareFetchRequest(max_records="5")  # type: ignore[arg-type]
    ShareFetchRequest(no_such_field=5)  # type: ignore[call-arg]
    ShareFetchResponse.ShareFetchableTopicResponse.PartitionData()  # type: ignore[call-arg]
    request.member_id = request.group_id.upper()  # type: ignore[union-attr]
