"""Generated from the schemas by kafka_share.protocol.generate_stubs: do not edit."""

import uuid

from kafka_share.protocol.api_message import ApiMessage, MessageStruct

__all__ = [
    "DescribeShareGroupOffsetsRequest",
    "DescribeShareGroupOffsetsResponse",
    "AlterShareGroupOffsetsRequest",
    "AlterShareGroupOffsetsResponse",
    "DeleteShareGroupOffsetsRequest",
    "DeleteShareGroupOffsetsResponse",
]

class DescribeShareGroupOffsetsRequest(ApiMessage):
    class DescribeShareGroupOffsetsRequestGroup(MessageStruct):
        class DescribeShareGroupOffsetsRequestTopic(MessageStruct):
            topic_name: str
            partitions: list[int]
            def __init__(
                self,
                *,
                topic_name: str = ...,
                partitions: list[int] = ...,
                version: int | None = None,
            ) -> None: ...
        group_id: str
        topics: list[DescribeShareGroupOffsetsRequestTopic] | None
        def __init__(
            self,
            *,
            group_id: str = ...,
            topics: list[DescribeShareGroupOffsetsRequestTopic] | None = ...,
            version: int | None = None,
        ) -> None: ...
    groups: list[DescribeShareGroupOffsetsRequestGroup]
    def __init__(
        self,
        *,
        groups: list[DescribeShareGroupOffsetsRequestGroup] = ...,
        version: int | None = None,
    ) -> None: ...

class DescribeShareGroupOffsetsResponse(ApiMessage):
    class DescribeShareGroupOffsetsResponseGroup(MessageStruct):
        class DescribeShareGroupOffsetsResponseTopic(MessageStruct):
            class DescribeShareGroupOffsetsResponsePartition(MessageStruct):
                partition_index: int
                start_offset: int
                leader_epoch: int
                lag: int
                error_code: int
                error_message: str | None
                def __init__(
                    self,
                    *,
                    partition_index: int = ...,
                    start_offset: int = ...,
                    leader_epoch: int = ...,
                    lag: int = ...,
                    error_code: int = ...,
                    error_message: str | None = ...,
                    version: int | None = None,
                ) -> None: ...
            topic_name: str
            topic_id: uuid.UUID | None
            partitions: list[DescribeShareGroupOffsetsResponsePartition]
            def __init__(
                self,
                *,
                topic_name: str = ...,
                topic_id: uuid.UUID | None = ...,
                partitions: list[DescribeShareGroupOffsetsResponsePartition] = ...,
                version: int | None = None,
            ) -> None: ...
        group_id: str
        topics: list[DescribeShareGroupOffsetsResponseTopic]
        error_code: int
        error_message: str | None
        def __init__(
            self,
            *,
            group_id: str = ...,
            topics: list[DescribeShareGroupOffsetsResponseTopic] = ...,
            error_code: int = ...,
            error_message: str | None = ...,
            version: int | None = None,
        ) -> None: ...
    throttle_time_ms: int
    groups: list[DescribeShareGroupOffsetsResponseGroup]
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        groups: list[DescribeShareGroupOffsetsResponseGroup] = ...,
        version: int | None = None,
    ) -> None: ...

class AlterShareGroupOffsetsRequest(ApiMessage):
    class AlterShareGroupOffsetsRequestTopic(MessageStruct):
        class AlterShareGroupOffsetsRequestPartition(MessageStruct):
            partition_index: int
            start_offset: int
            def __init__(
                self,
                *,
                partition_index: int = ...,
                start_offset: int = ...,
                version: int | None = None,
            ) -> None: ...
        topic_name: str
        partitions: list[AlterShareGroupOffsetsRequestPartition]
        def __init__(
            self,
            *,
            topic_name: str = ...,
            partitions: list[AlterShareGroupOffsetsRequestPartition] = ...,
            version: int | None = None,
        ) -> None: ...
    group_id: str
    topics: list[AlterShareGroupOffsetsRequestTopic]
    def __init__(
        self,
        *,
        group_id: str = ...,
        topics: list[AlterShareGroupOffsetsRequestTopic] = ...,
        version: int | None = None,
    ) -> None: ...

class AlterShareGroupOffsetsResponse(ApiMessage):
    class AlterShareGroupOffsetsResponseTopic(MessageStruct):
        class AlterShareGroupOffsetsResponsePartition(MessageStruct):
            partition_index: int
            error_code: int
            error_message: str | None
            def __init__(
                self,
                *,
                partition_index: int = ...,
                error_code: int = ...,
                error_message: str | None = ...,
                version: int | None = None,
            ) -> None: ...
        topic_name: str
        topic_id: uuid.UUID | None
        partitions: list[AlterShareGroupOffsetsResponsePartition]
        def __init__(
            self,
            *,
            topic_name: str = ...,
            topic_id: uuid.UUID | None = ...,
            partitions: list[AlterShareGroupOffsetsResponsePartition] = ...,
            version: int | None = None,
        ) -> None: ...
    throttle_time_ms: int
    error_code: int
    error_message: str | None
    responses: list[AlterShareGroupOffsetsResponseTopic]
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        error_message: str | None = ...,
        responses: list[AlterShareGroupOffsetsResponseTopic] = ...,
        version: int | None = None,
    ) -> None: ...

class DeleteShareGroupOffsetsRequest(ApiMessage):
    class DeleteShareGroupOffsetsRequestTopic(MessageStruct):
        topic_name: str
        def __init__(
            self,
            *,
            topic_name: str = ...,
            version: int | None = None,
        ) -> None: ...
    group_id: str
    topics: list[DeleteShareGroupOffsetsRequestTopic]
    def __init__(
        self,
        *,
        group_id: str = ...,
        topics: list[DeleteShareGroupOffsetsRequestTopic] = ...,
        version: int | None = None,
    ) -> None: ...

class DeleteShareGroupOffsetsResponse(ApiMessage):
    class DeleteShareGroupOffsetsResponseTopic(MessageStruct):
        topic_name: str
        topic_id: uuid.UUID | None
        error_code: int
        error_message: str | None
        def __init__(
            self,
            *,
            topic_name: str = ...,
            topic_id: uuid.UUID | None = ...,
            error_code: int = ...,
            error_message: str | None = ...,
            version: int | None = None,
        ) -> None: ...
    throttle_time_ms: int
    error_code: int
    error_message: str | None
    responses: list[DeleteShareGroupOffsetsResponseTopic]
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        error_message: str | None = ...,
        responses: list[DeleteShareGroupOffsetsResponseTopic] = ...,
        version: int | None = None,
    ) -> None: ...
