"""Generated from the schemas by kafka_share.protocol.generate_stubs: do not edit."""

import uuid

from kafka_share.protocol.api_message import ApiMessage, MessageStruct

__all__ = [
    "ShareGroupHeartbeatRequest",
    "ShareGroupHeartbeatResponse",
    "ShareGroupDescribeRequest",
    "ShareGroupDescribeResponse",
]

class ShareGroupHeartbeatRequest(ApiMessage):
    group_id: str
    member_id: str
    member_epoch: int
    rack_id: str | None
    subscribed_topic_names: list[str] | None
    def __init__(
        self,
        *,
        group_id: str = ...,
        member_id: str = ...,
        member_epoch: int = ...,
        rack_id: str | None = ...,
        subscribed_topic_names: list[str] | None = ...,
        version: int | None = None,
    ) -> None: ...

class ShareGroupHeartbeatResponse(ApiMessage):
    class Assignment(MessageStruct):
        class TopicPartitions(MessageStruct):
            topic_id: uuid.UUID | None
            partitions: list[int]
            def __init__(
                self,
                *,
                topic_id: uuid.UUID | None = ...,
                partitions: list[int] = ...,
                version: int | None = None,
            ) -> None: ...
        topic_partitions: list[TopicPartitions]
        def __init__(
            self,
            *,
            topic_partitions: list[TopicPartitions] = ...,
            version: int | None = None,
        ) -> None: ...
    throttle_time_ms: int
    error_code: int
    error_message: str | None
    member_id: str | None
    member_epoch: int
    heartbeat_interval_ms: int
    assignment: Assignment | None
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        error_message: str | None = ...,
        member_id: str | None = ...,
        member_epoch: int = ...,
        heartbeat_interval_ms: int = ...,
        assignment: Assignment | None = ...,
        version: int | None = None,
    ) -> None: ...

class ShareGroupDescribeRequest(ApiMessage):
    group_ids: list[str]
    include_authorized_operations: bool
    def __init__(
        self,
        *,
        group_ids: list[str] = ...,
        include_authorized_operations: bool = ...,
        version: int | None = None,
    ) -> None: ...

class ShareGroupDescribeResponse(ApiMessage):
    class DescribedGroup(MessageStruct):
        class Member(MessageStruct):
            class Assignment(MessageStruct):
                class TopicPartitions(MessageStruct):
                    topic_id: uuid.UUID | None
                    topic_name: str
                    partitions: list[int]
                    def __init__(
                        self,
                        *,
                        topic_id: uuid.UUID | None = ...,
                        topic_name: str = ...,
                        partitions: list[int] = ...,
                        version: int | None = None,
                    ) -> None: ...
                topic_partitions: list[TopicPartitions]
                def __init__(
                    self,
                    *,
                    topic_partitions: list[TopicPartitions] = ...,
                    version: int | None = None,
                ) -> None: ...
            member_id: str
            rack_id: str | None
            member_epoch: int
            client_id: str
            client_host: str
            subscribed_topic_names: list[str]
            assignment: Assignment
            def __init__(
                self,
                *,
                member_id: str = ...,
                rack_id: str | None = ...,
                member_epoch: int = ...,
                client_id: str = ...,
                client_host: str = ...,
                subscribed_topic_names: list[str] = ...,
                assignment: Assignment,
                version: int | None = None,
            ) -> None: ...
        error_code: int
        error_message: str | None
        group_id: str
        group_state: str
        group_epoch: int
        assignment_epoch: int
        assignor_name: str
        members: list[Member]
        authorized_operations: int
        def __init__(
            self,
            *,
            error_code: int = ...,
            error_message: str | None = ...,
            group_id: str = ...,
            group_state: str = ...,
            group_epoch: int = ...,
            assignment_epoch: int = ...,
            assignor_name: str = ...,
            members: list[Member] = ...,
            authorized_operations: int = ...,
            version: int | None = None,
        ) -> None: ...
    throttle_time_ms: int
    groups: list[DescribedGroup]
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        groups: list[DescribedGroup] = ...,
        version: int | None = None,
    ) -> None: ...
