"""Generated from the schemas by kafka_share.protocol.generate_stubs: do not edit."""

import uuid

from kafka_share.protocol.api_message import ApiMessage, MessageStruct

__all__ = [
    "InitializeShareGroupStateRequest",
    "InitializeShareGroupStateResponse",
    "ReadShareGroupStateRequest",
    "ReadShareGroupStateResponse",
    "WriteShareGroupStateRequest",
    "WriteShareGroupStateResponse",
    "DeleteShareGroupStateRequest",
    "DeleteShareGroupStateResponse",
    "ReadShareGroupStateSummaryRequest",
    "ReadShareGroupStateSummaryResponse",
]

class InitializeShareGroupStateRequest(ApiMessage):
    class InitializeStateData(MessageStruct):
        class PartitionData(MessageStruct):
            partition: int
            state_epoch: int
            start_offset: int
            def __init__(
                self,
                *,
                partition: int = ...,
                state_epoch: int = ...,
                start_offset: int = ...,
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
    group_id: str
    topics: list[InitializeStateData]
    def __init__(
        self,
        *,
        group_id: str = ...,
        topics: list[InitializeStateData] = ...,
        version: int | None = None,
    ) -> None: ...

class InitializeShareGroupStateResponse(ApiMessage):
    class InitializeStateResult(MessageStruct):
        class PartitionResult(MessageStruct):
            partition: int
            error_code: int
            error_message: str | None
            def __init__(
                self,
                *,
                partition: int = ...,
                error_code: int = ...,
                error_message: str | None = ...,
                version: int | None = None,
            ) -> None: ...
        topic_id: uuid.UUID | None
        partitions: list[PartitionResult]
        def __init__(
            self,
            *,
            topic_id: uuid.UUID | None = ...,
            partitions: list[PartitionResult] = ...,
            version: int | None = None,
        ) -> None: ...
    results: list[InitializeStateResult]
    def __init__(
        self,
        *,
        results: list[InitializeStateResult] = ...,
        version: int | None = None,
    ) -> None: ...

class ReadShareGroupStateRequest(ApiMessage):
    class ReadStateData(MessageStruct):
        class PartitionData(MessageStruct):
            partition: int
            leader_epoch: int
            def __init__(
                self,
                *,
                partition: int = ...,
                leader_epoch: int = ...,
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
    group_id: str
    topics: list[ReadStateData]
    def __init__(
        self,
        *,
        group_id: str = ...,
        topics: list[ReadStateData] = ...,
        version: int | None = None,
    ) -> None: ...

class ReadShareGroupStateResponse(ApiMessage):
    class ReadStateResult(MessageStruct):
        class PartitionResult(MessageStruct):
            class StateBatch(MessageStruct):
                first_offset: int
                last_offset: int
                delivery_state: int
                delivery_count: int
                def __init__(
                    self,
                    *,
                    first_offset: int = ...,
                    last_offset: int = ...,
                    delivery_state: int = ...,
                    delivery_count: int = ...,
                    version: int | None = None,
                ) -> None: ...
            partition: int
            error_code: int
            error_message: str | None
            state_epoch: int
            start_offset: int
            state_batches: list[StateBatch]
            def __init__(
                self,
                *,
                partition: int = ...,
                error_code: int = ...,
                error_message: str | None = ...,
                state_epoch: int = ...,
                start_offset: int = ...,
                state_batches: list[StateBatch] = ...,
                version: int | None = None,
            ) -> None: ...
        topic_id: uuid.UUID | None
        partitions: list[PartitionResult]
        def __init__(
            self,
            *,
            topic_id: uuid.UUID | None = ...,
            partitions: list[PartitionResult] = ...,
            version: int | None = None,
        ) -> None: ...
    results: list[ReadStateResult]
    def __init__(
        self,
        *,
        results: list[ReadStateResult] = ...,
        version: int | None = None,
    ) -> None: ...

class WriteShareGroupStateRequest(ApiMessage):
    class WriteStateData(MessageStruct):
        class PartitionData(MessageStruct):
            class StateBatch(MessageStruct):
                first_offset: int
                last_offset: int
                delivery_state: int
                delivery_count: int
                def __init__(
                    self,
                    *,
                    first_offset: int = ...,
                    last_offset: int = ...,
                    delivery_state: int = ...,
                    delivery_count: int = ...,
                    version: int | None = None,
                ) -> None: ...
            partition: int
            state_epoch: int
            leader_epoch: int
            start_offset: int
            delivery_complete_count: int
            state_batches: list[StateBatch]
            def __init__(
                self,
                *,
                partition: int = ...,
                state_epoch: int = ...,
                leader_epoch: int = ...,
                start_offset: int = ...,
                delivery_complete_count: int = ...,
                state_batches: list[StateBatch] = ...,
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
    group_id: str
    topics: list[WriteStateData]
    def __init__(
        self,
        *,
        group_id: str = ...,
        topics: list[WriteStateData] = ...,
        version: int | None = None,
    ) -> None: ...

class WriteShareGroupStateResponse(ApiMessage):
    class WriteStateResult(MessageStruct):
        class PartitionResult(MessageStruct):
            partition: int
            error_code: int
            error_message: str | None
            def __init__(
                self,
                *,
                partition: int = ...,
                error_code: int = ...,
                error_message: str | None = ...,
                version: int | None = None,
            ) -> None: ...
        topic_id: uuid.UUID | None
        partitions: list[PartitionResult]
        def __init__(
            self,
            *,
            topic_id: uuid.UUID | None = ...,
            partitions: list[PartitionResult] = ...,
            version: int | None = None,
        ) -> None: ...
    results: list[WriteStateResult]
    def __init__(
        self,
        *,
        results: list[WriteStateResult] = ...,
        version: int | None = None,
    ) -> None: ...

class DeleteShareGroupStateRequest(ApiMessage):
    class DeleteStateData(MessageStruct):
        class PartitionData(MessageStruct):
            partition: int
            def __init__(
                self,
                *,
                partition: int = ...,
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
    group_id: str
    topics: list[DeleteStateData]
    def __init__(
        self,
        *,
        group_id: str = ...,
        topics: list[DeleteStateData] = ...,
        version: int | None = None,
    ) -> None: ...

class DeleteShareGroupStateResponse(ApiMessage):
    class DeleteStateResult(MessageStruct):
        class PartitionResult(MessageStruct):
            partition: int
            error_code: int
            error_message: str | None
            def __init__(
                self,
                *,
                partition: int = ...,
                error_code: int = ...,
                error_message: str | None = ...,
                version: int | None = None,
            ) -> None: ...
        topic_id: uuid.UUID | None
        partitions: list[PartitionResult]
        def __init__(
            self,
            *,
            topic_id: uuid.UUID | None = ...,
            partitions: list[PartitionResult] = ...,
            version: int | None = None,
        ) -> None: ...
    results: list[DeleteStateResult]
    def __init__(
        self,
        *,
        results: list[DeleteStateResult] = ...,
        version: int | None = None,
    ) -> None: ...

class ReadShareGroupStateSummaryRequest(ApiMessage):
    class ReadStateSummaryData(MessageStruct):
        class PartitionData(MessageStruct):
            partition: int
            leader_epoch: int
            def __init__(
                self,
                *,
                partition: int = ...,
                leader_epoch: int = ...,
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
    group_id: str
    topics: list[ReadStateSummaryData]
    def __init__(
        self,
        *,
        group_id: str = ...,
        topics: list[ReadStateSummaryData] = ...,
        version: int | None = None,
    ) -> None: ...

class ReadShareGroupStateSummaryResponse(ApiMessage):
    class ReadStateSummaryResult(MessageStruct):
        class PartitionResult(MessageStruct):
            partition: int
            error_code: int
            error_message: str | None
            state_epoch: int
            leader_epoch: int
            start_offset: int
            delivery_complete_count: int
            def __init__(
                self,
                *,
                partition: int = ...,
                error_code: int = ...,
                error_message: str | None = ...,
                state_epoch: int = ...,
                leader_epoch: int = ...,
                start_offset: int = ...,
                delivery_complete_count: int = ...,
                version: int | None = None,
            ) -> None: ...
        topic_id: uuid.UUID | None
        partitions: list[PartitionResult]
        def __init__(
            self,
            *,
            topic_id: uuid.UUID | None = ...,
            partitions: list[PartitionResult] = ...,
            version: int | None = None,
        ) -> None: ...
    results: list[ReadStateSummaryResult]
    def __init__(
        self,
        *,
        results: list[ReadStateSummaryResult] = ...,
        version: int | None = None,
    ) -> None: ...
