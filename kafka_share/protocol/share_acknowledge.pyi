"""Generated from the schemas by kafka_share.protocol.generate_stubs: do not edit."""

import uuid

from kafka_share.protocol.api_message import ApiMessage, MessageStruct

__all__ = [
    "ShareAcknowledgeRequest",
    "ShareAcknowledgeResponse",
]

class ShareAcknowledgeRequest(ApiMessage):
    class AcknowledgeTopic(MessageStruct):
        class AcknowledgePartition(MessageStruct):
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
        partitions: list[AcknowledgePartition]
        def __init__(
            self,
            *,
            topic_id: uuid.UUID | None = ...,
            partitions: list[AcknowledgePartition] = ...,
            version: int | None = None,
        ) -> None: ...
    group_id: str | None
    member_id: str | None
    share_session_epoch: int
    is_renew_ack: bool
    topics: list[AcknowledgeTopic]
    def __init__(
        self,
        *,
        group_id: str | None = ...,
        member_id: str | None = ...,
        share_session_epoch: int = ...,
        is_renew_ack: bool = ...,
        topics: list[AcknowledgeTopic] = ...,
        version: int | None = None,
    ) -> None: ...

class ShareAcknowledgeResponse(ApiMessage):
    class ShareAcknowledgeTopicResponse(MessageStruct):
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
            partition_index: int
            error_code: int
            error_message: str | None
            current_leader: LeaderIdAndEpoch
            def __init__(
                self,
                *,
                partition_index: int = ...,
                error_code: int = ...,
                error_message: str | None = ...,
                current_leader: LeaderIdAndEpoch,
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
    responses: list[ShareAcknowledgeTopicResponse]
    node_endpoints: list[NodeEndpoint]
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        error_message: str | None = ...,
        acquisition_lock_timeout_ms: int = ...,
        responses: list[ShareAcknowledgeTopicResponse] = ...,
        node_endpoints: list[NodeEndpoint] = ...,
        version: int | None = None,
    ) -> None: ...
