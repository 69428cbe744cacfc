"""Generated from the schemas by kafka_share.protocol.generate_stubs: do not edit."""

import uuid

from kafka_share.protocol.api_message import ApiMessage, MessageStruct

__all__ = [
    "ShareFetchRequest",
    "ShareFetchResponse",
]

class ShareFetchRequest(ApiMessage):
    class FetchTopic(MessageStruct):
        class FetchPartition(MessageStruct):
            class AcknowledgementBatch(MessageStruct):
                first_offset: int
                last_offset: int
                acknowledge_types: list[int]
                def __init__(
                    self,
                    *,
                    first_offset: int = ...,
                    last_offset: int = ...,
                    acknowledge_types: list[int] = ...,
                    version: int | None = None,
                ) -> None: ...
            partition_index: int
            acknowledgement_batches: list[AcknowledgementBatch]
            def __init__(
                self,
                *,
                partition_index: int = ...,
                acknowledgement_batches: list[AcknowledgementBatch] = ...,
                version: int | None = None,
            ) -> None: ...
        topic_id: uuid.UUID | None
        partitions: list[FetchPartition]
        def __init__(
            self,
            *,
            topic_id: uuid.UUID | None = ...,
            partitions: list[FetchPartition] = ...,
            version: int | None = None,
        ) -> None: ...
    class ForgottenTopic(MessageStruct):
        topic_id: uuid.UUID | None
        partitions: list[int]
        def __init__(
            self,
            *,
            topic_id: uuid.UUID | None = ...,
            partitions: list[int] = ...,
            version: int | None = None,
        ) -> None: ...
    group_id: str | None
    member_id: str | None
    share_session_epoch: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    max_records: int
    batch_size: int
    share_acquire_mode: int
    is_renew_ack: bool
    topics: list[FetchTopic]
    forgotten_topics_data: list[ForgottenTopic]
    def __init__(
        self,
        *,
        group_id: str | None = ...,
        member_id: str | None = ...,
        share_session_epoch: int = ...,
        max_wait_ms: int = ...,
        min_bytes: int = ...,
        max_bytes: int = ...,
        max_records: int = ...,
        batch_size: int = ...,
        share_acquire_mode: int = ...,
        is_renew_ack: bool = ...,
        topics: list[FetchTopic] = ...,
        forgotten_topics_data: list[ForgottenTopic] = ...,
        version: int | None = None,
    ) -> None: ...

class ShareFetchResponse(ApiMessage):
    class ShareFetchableTopicResponse(MessageStruct):
        class PartitionData(MessageStruct):
            class LeaderIdAndEpoch(MessageStruct):
                leader_id: int
                leader_epoch: int
                def __init__(
                    self,
                    *,
                    leader_id: int = ...,
                    leader_epoch: int = ...,
                    version: int | None = None,
                ) -> None: ...
            class AcquiredRecords(MessageStruct):
                first_offset: int
                last_offset: int
                delivery_count: int
                def __init__(
                    self,
                    *,
                    first_offset: int = ...,
                    last_offset: int = ...,
                    delivery_count: int = ...,
                    version: int | None = None,
                ) -> None: ...
            partition_index: int
            error_code: int
            error_message: str | None
            acknowledge_error_code: int
            acknowledge_error_message: str | None
            current_leader: LeaderIdAndEpoch
            records: bytes | memoryview | None
            acquired_records: list[AcquiredRecords]
            def __init__(
                self,
                *,
                partition_index: int = ...,
                error_code: int = ...,
                error_message: str | None = ...,
                acknowledge_error_code: int = ...,
                acknowledge_error_message: str | None = ...,
                current_leader: LeaderIdAndEpoch,
                records: bytes | memoryview | None = ...,
                acquired_records: list[AcquiredRecords] = ...,
                version: int | None = None,
            ) -> None: ...
        topic_id: uuid.UUID | None
        partitions: list[PartitionData]
        def __init__(
            self,
            *,
            topic_id: uuid.UUID | None = ...,
            partitions: list[PartitionData] = ...,
            version: int | None = None,
        ) -> None: ...
    class NodeEndpoint(MessageStruct):
        node_id: int
        host: str
        port: int
        rack: str | None
        def __init__(
            self,
            *,
            node_id: int = ...,
            host: str = ...,
            port: int = ...,
            rack: str | None = ...,
            version: int | None = None,
        ) -> None: ...
    throttle_time_ms: int
    error_code: int
    error_message: str | None
    acquisition_lock_timeout_ms: int
    responses: list[ShareFetchableTopicResponse]
    node_endpoints: list[NodeEndpoint]
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        error_message: str | None = ...,
        acquisition_lock_timeout_ms: int = ...,
        responses: list[ShareFetchableTopicResponse] = ...,
        node_endpoints: list[NodeEndpoint] = ...,
        version: int | None = None,
    ) -> None: ...
