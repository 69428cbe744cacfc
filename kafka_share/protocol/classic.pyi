"""Generated from the schemas by kafka_share.protocol.generate_stubs: do not edit."""

import uuid

from kafka_share.protocol.api_message import ApiMessage, MessageStruct

__all__ = [
    "AddOffsetsToTxnRequest",
    "AddOffsetsToTxnResponse",
    "AddPartitionsToTxnRequest",
    "AddPartitionsToTxnResponse",
    "AlterConfigsRequest",
    "AlterConfigsResponse",
    "ApiVersionsRequest",
    "ApiVersionsResponse",
    "CreatePartitionsRequest",
    "CreatePartitionsResponse",
    "CreateTopicsRequest",
    "CreateTopicsResponse",
    "DeleteGroupsRequest",
    "DeleteGroupsResponse",
    "DeleteRecordsRequest",
    "DeleteRecordsResponse",
    "DeleteTopicsRequest",
    "DeleteTopicsResponse",
    "DescribeClusterRequest",
    "DescribeClusterResponse",
    "DescribeConfigsRequest",
    "DescribeConfigsResponse",
    "DescribeGroupsRequest",
    "DescribeGroupsResponse",
    "EndTxnRequest",
    "EndTxnResponse",
    "FetchRequest",
    "FetchResponse",
    "FindCoordinatorRequest",
    "FindCoordinatorResponse",
    "HeartbeatRequest",
    "HeartbeatResponse",
    "IncrementalAlterConfigsRequest",
    "IncrementalAlterConfigsResponse",
    "InitProducerIdRequest",
    "InitProducerIdResponse",
    "JoinGroupRequest",
    "JoinGroupResponse",
    "LeaveGroupRequest",
    "LeaveGroupResponse",
    "ListConfigResourcesRequest",
    "ListConfigResourcesResponse",
    "ListGroupsRequest",
    "ListGroupsResponse",
    "ListOffsetsRequest",
    "ListOffsetsResponse",
    "MetadataRequest",
    "MetadataResponse",
    "OffsetCommitRequest",
    "OffsetCommitResponse",
    "OffsetDeleteRequest",
    "OffsetDeleteResponse",
    "OffsetFetchRequest",
    "OffsetFetchResponse",
    "OffsetForLeaderEpochRequest",
    "OffsetForLeaderEpochResponse",
    "ProduceRequest",
    "ProduceResponse",
    "SaslAuthenticateRequest",
    "SaslAuthenticateResponse",
    "SaslHandshakeRequest",
    "SaslHandshakeResponse",
    "SyncGroupRequest",
    "SyncGroupResponse",
    "TxnOffsetCommitRequest",
    "TxnOffsetCommitResponse",
    "WriteTxnMarkersRequest",
    "WriteTxnMarkersResponse",
]

class AddOffsetsToTxnRequest(ApiMessage):
    transactional_id: str
    producer_id: int
    producer_epoch: int
    group_id: str
    def __init__(
        self,
        *,
        transactional_id: str = ...,
        producer_id: int = ...,
        producer_epoch: int = ...,
        group_id: str = ...,
        version: int | None = None,
    ) -> None: ...

class AddOffsetsToTxnResponse(ApiMessage):
    throttle_time_ms: int
    error_code: int
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        version: int | None = None,
    ) -> None: ...

class AddPartitionsToTxnRequest(ApiMessage):
    class AddPartitionsToTxnTransaction(MessageStruct):
        class AddPartitionsToTxnTopic(MessageStruct):
            name: str
            partitions: list[int]
            def __init__(
                self,
                *,
                name: str = ...,
                partitions: list[int] = ...,
                version: int | None = None,
            ) -> None: ...
        transactional_id: str
        producer_id: int
        producer_epoch: int
        verify_only: bool
        topics: list[AddPartitionsToTxnTopic]
        def __init__(
            self,
            *,
            transactional_id: str = ...,
            producer_id: int = ...,
            producer_epoch: int = ...,
            verify_only: bool = ...,
            topics: list[AddPartitionsToTxnTopic] = ...,
            version: int | None = None,
        ) -> None: ...
    class AddPartitionsToTxnTopic(MessageStruct):
        name: str
        partitions: list[int]
        def __init__(
            self,
            *,
            name: str = ...,
            partitions: list[int] = ...,
            version: int | None = None,
        ) -> None: ...
    transactions: list[AddPartitionsToTxnTransaction]
    v3_and_below_transactional_id: str
    v3_and_below_producer_id: int
    v3_and_below_producer_epoch: int
    v3_and_below_topics: list[AddPartitionsToTxnTopic]
    def __init__(
        self,
        *,
        transactions: list[AddPartitionsToTxnTransaction] = ...,
        v3_and_below_transactional_id: str = ...,
        v3_and_below_producer_id: int = ...,
        v3_and_below_producer_epoch: int = ...,
        v3_and_below_topics: list[AddPartitionsToTxnTopic] = ...,
        version: int | None = None,
    ) -> None: ...

class AddPartitionsToTxnResponse(ApiMessage):
    class AddPartitionsToTxnResult(MessageStruct):
        class AddPartitionsToTxnTopicResult(MessageStruct):
            class AddPartitionsToTxnPartitionResult(MessageStruct):
                partition_index: int
                partition_error_code: int
                def __init__(
                    self,
                    *,
                    partition_index: int = ...,
                    partition_error_code: int = ...,
                    version: int | None = None,
                ) -> None: ...
            name: str
            results_by_partition: list[AddPartitionsToTxnPartitionResult]
            def __init__(
                self,
                *,
                name: str = ...,
                results_by_partition: list[AddPartitionsToTxnPartitionResult] = ...,
                version: int | None = None,
            ) -> None: ...
        transactional_id: str
        topic_results: list[AddPartitionsToTxnTopicResult]
        def __init__(
            self,
            *,
            transactional_id: str = ...,
            topic_results: list[AddPartitionsToTxnTopicResult] = ...,
            version: int | None = None,
        ) -> None: ...
    class AddPartitionsToTxnTopicResult(MessageStruct):
        class AddPartitionsToTxnPartitionResult(MessageStruct):
            partition_index: int
            partition_error_code: int
            def __init__(
                self,
                *,
                partition_index: int = ...,
                partition_error_code: int = ...,
                version: int | None = None,
            ) -> None: ...
        name: str
        results_by_partition: list[AddPartitionsToTxnPartitionResult]
        def __init__(
            self,
            *,
            name: str = ...,
            results_by_partition: list[AddPartitionsToTxnPartitionResult] = ...,
            version: int | None = None,
        ) -> None: ...
    throttle_time_ms: int
    error_code: int
    results_by_transaction: list[AddPartitionsToTxnResult]
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult]
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        results_by_transaction: list[AddPartitionsToTxnResult] = ...,
        results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = ...,
        version: int | None = None,
    ) -> None: ...

class AlterConfigsRequest(ApiMessage):
    class AlterConfigsResource(MessageStruct):
        class AlterableConfig(MessageStruct):
            name: str
            value: str | None
            def __init__(
                self,
                *,
                name: str = ...,
                value: str | None = ...,
                version: int | None = None,
            ) -> None: ...
        resource_type: int
        resource_name: str
        configs: list[AlterableConfig]
        def __init__(
            self,
            *,
            resource_type: int = ...,
            resource_name: str = ...,
            configs: list[AlterableConfig] = ...,
            version: int | None = None,
        ) -> None: ...
    resources: list[AlterConfigsResource]
    validate_only: bool
    def __init__(
        self,
        *,
        resources: list[AlterConfigsResource] = ...,
        validate_only: bool = ...,
        version: int | None = None,
    ) -> None: ...

class AlterConfigsResponse(ApiMessage):
    class AlterConfigsResourceResponse(MessageStruct):
        error_code: int
        error_message: str | None
        resource_type: int
        resource_name: str
        def __init__(
            self,
            *,
            error_code: int = ...,
            error_message: str | None = ...,
            resource_type: int = ...,
            resource_name: str = ...,
            version: int | None = None,
        ) -> None: ...
    throttle_time_ms: int
    responses: list[AlterConfigsResourceResponse]
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        responses: list[AlterConfigsResourceResponse] = ...,
        version: int | None = None,
    ) -> None: ...

class ApiVersionsRequest(ApiMessage):
    client_software_name: str
    client_software_version: str
    def __init__(
        self,
        *,
        client_software_name: str = ...,
        client_software_version: str = ...,
        version: int | None = None,
    ) -> None: ...

class ApiVersionsResponse(ApiMessage):
    class ApiVersion(MessageStruct):
        api_key: int
        min_version: int
        max_version: int
        def __init__(
            self,
            *,
            api_key: int = ...,
            min_version: int = ...,
            max_version: int = ...,
            version: int | None = None,
        ) -> None: ...
    class SupportedFeatureKey(MessageStruct):
        name: str
        min_version: int
        max_version: int
        def __init__(
            self,
            *,
            name: str = ...,
            min_version: int = ...,
            max_version: int = ...,
            version: int | None = None,
        ) -> None: ...
    class FinalizedFeatureKey(MessageStruct):
        name: str
        max_version_level: int
        min_version_level: int
        def __init__(
            self,
            *,
            name: str = ...,
            max_version_level: int = ...,
            min_version_level: int = ...,
            version: int | None = None,
        ) -> None: ...
    error_code: int
    api_keys: list[ApiVersion]
    throttle_time_ms: int
    supported_features: list[SupportedFeatureKey]
    finalized_features_epoch: int
    finalized_features: list[FinalizedFeatureKey]
    zk_migration_ready: bool
    def __init__(
        self,
        *,
        error_code: int = ...,
        api_keys: list[ApiVersion] = ...,
        throttle_time_ms: int = ...,
        supported_features: list[SupportedFeatureKey] = ...,
        finalized_features_epoch: int = ...,
        finalized_features: list[FinalizedFeatureKey] = ...,
        zk_migration_ready: bool = ...,
        version: int | None = None,
    ) -> None: ...

class CreatePartitionsRequest(ApiMessage):
    class CreatePartitionsTopic(MessageStruct):
        class CreatePartitionsAssignment(MessageStruct):
            broker_ids: list[int]
            def __init__(
                self,
                *,
                broker_ids: list[int] = ...,
                version: int | None = None,
            ) -> None: ...
        name: str
        count: int
        assignments: list[CreatePartitionsAssignment] | None
        def __init__(
            self,
            *,
            name: str = ...,
            count: int = ...,
            assignments: list[CreatePartitionsAssignment] | None = ...,
            version: int | None = None,
        ) -> None: ...
    topics: list[CreatePartitionsTopic]
    timeout_ms: int
    validate_only: bool
    def __init__(
        self,
        *,
        topics: list[CreatePartitionsTopic] = ...,
        timeout_ms: int = ...,
        validate_only: bool = ...,
        version: int | None = None,
    ) -> None: ...

class CreatePartitionsResponse(ApiMessage):
    class CreatePartitionsTopicResult(MessageStruct):
        name: str
        error_code: int
        error_message: str | None
        def __init__(
            self,
            *,
            name: str = ...,
            error_code: int = ...,
            error_message: str | None = ...,
            version: int | None = None,
        ) -> None: ...
    throttle_time_ms: int
    results: list[CreatePartitionsTopicResult]
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        results: list[CreatePartitionsTopicResult] = ...,
        version: int | None = None,
    ) -> None: ...

class CreateTopicsRequest(ApiMessage):
    class CreatableTopic(MessageStruct):
        class CreatableReplicaAssignment(MessageStruct):
            partition_index: int
            broker_ids: list[int]
            def __init__(
                self,
                *,
                partition_index: int = ...,
                broker_ids: list[int] = ...,
                version: int | None = None,
            ) -> None: ...
        class CreatableTopicConfig(MessageStruct):
            name: str
            value: str | None
            def __init__(
                self,
                *,
                name: str = ...,
                value: str | None = ...,
                version: int | None = None,
            ) -> None: ...
        name: str
        num_partitions: int
        replication_factor: int
        assignments: list[CreatableReplicaAssignment]
        configs: list[CreatableTopicConfig]
        def __init__(
            self,
            *,
            name: str = ...,
            num_partitions: int = ...,
            replication_factor: int = ...,
            assignments: list[CreatableReplicaAssignment] = ...,
            configs: list[CreatableTopicConfig] = ...,
            version: int | None = None,
        ) -> None: ...
    topics: list[CreatableTopic]
    timeout_ms: int
    validate_only: bool
    def __init__(
        self,
        *,
        topics: list[CreatableTopic] = ...,
        timeout_ms: int = ...,
        validate_only: bool = ...,
        version: int | None = None,
    ) -> None: ...

class CreateTopicsResponse(ApiMessage):
    class CreatableTopicResult(MessageStruct):
        class CreatableTopicConfigs(MessageStruct):
            name: str
            value: str | None
            read_only: bool
            config_source: int
            is_sensitive: bool
            def __init__(
                self,
                *,
                name: str = ...,
                value: str | None = ...,
                read_only: bool = ...,
                config_source: int = ...,
                is_sensitive: bool = ...,
                version: int | None = None,
            ) -> None: ...
        name: str
        topic_id: uuid.UUID | None
        error_code: int
        error_message: str | None
        topic_config_error_code: int
        num_partitions: int
        replication_factor: int
        configs: list[CreatableTopicConfigs] | None
        def __init__(
            self,
            *,
            name: str = ...,
            topic_id: uuid.UUID | None = ...,
            error_code: int = ...,
            error_message: str | None = ...,
            topic_config_error_code: int = ...,
            num_partitions: int = ...,
            replication_factor: int = ...,
            configs: list[CreatableTopicConfigs] | None = ...,
            version: int | None = None,
        ) -> None: ...
    throttle_time_ms: int
    topics: list[CreatableTopicResult]
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        topics: list[CreatableTopicResult] = ...,
        version: int | None = None,
    ) -> None: ...

class DeleteGroupsRequest(ApiMessage):
    groups_names: list[str]
    def __init__(
        self,
        *,
        groups_names: list[str] = ...,
        version: int | None = None,
    ) -> None: ...

class DeleteGroupsResponse(ApiMessage):
    class DeletableGroupResult(MessageStruct):
        group_id: str
        error_code: int
        def __init__(
            self,
            *,
            group_id: str = ...,
            error_code: int = ...,
            version: int | None = None,
        ) -> None: ...
    throttle_time_ms: int
    results: list[DeletableGroupResult]
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        results: list[DeletableGroupResult] = ...,
        version: int | None = None,
    ) -> None: ...

class DeleteRecordsRequest(ApiMessage):
    class DeleteRecordsTopic(MessageStruct):
        class DeleteRecordsPartition(MessageStruct):
            partition_index: int
            offset: int
            def __init__(
                self,
                *,
                partition_index: int = ...,
                offset: int = ...,
                version: int | None = None,
            ) -> None: ...
        name: str
        partitions: list[DeleteRecordsPartition]
        def __init__(
            self,
            *,
            name: str = ...,
            partitions: list[DeleteRecordsPartition] = ...,
            version: int | None = None,
        ) -> None: ...
    topics: list[DeleteRecordsTopic]
    timeout_ms: int
    def __init__(
        self,
        *,
        topics: list[DeleteRecordsTopic] = ...,
        timeout_ms: int = ...,
        version: int | None = None,
    ) -> None: ...

class DeleteRecordsResponse(ApiMessage):
    class DeleteRecordsTopicResult(MessageStruct):
        class DeleteRecordsPartitionResult(MessageStruct):
            partition_index: int
            low_watermark: int
            error_code: int
            def __init__(
                self,
                *,
                partition_index: int = ...,
                low_watermark: int = ...,
                error_code: int = ...,
                version: int | None = None,
            ) -> None: ...
        name: str
        partitions: list[DeleteRecordsPartitionResult]
        def __init__(
            self,
            *,
            name: str = ...,
            partitions: list[DeleteRecordsPartitionResult] = ...,
            version: int | None = None,
        ) -> None: ...
    throttle_time_ms: int
    topics: list[DeleteRecordsTopicResult]
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        topics: list[DeleteRecordsTopicResult] = ...,
        version: int | None = None,
    ) -> None: ...

class DeleteTopicsRequest(ApiMessage):
    class DeleteTopicState(MessageStruct):
        name: str | None
        topic_id: uuid.UUID | None
        def __init__(
            self,
            *,
            name: str | None = ...,
            topic_id: uuid.UUID | None = ...,
            version: int | None = None,
        ) -> None: ...
    topics: list[DeleteTopicState]
    topic_names: list[str]
    timeout_ms: int
    def __init__(
        self,
        *,
        topics: list[DeleteTopicState] = ...,
        topic_names: list[str] = ...,
        timeout_ms: int = ...,
        version: int | None = None,
    ) -> None: ...

class DeleteTopicsResponse(ApiMessage):
    class DeletableTopicResult(MessageStruct):
        name: str | None
        topic_id: uuid.UUID | None
        error_code: int
        error_message: str | None
        def __init__(
            self,
            *,
            name: str | None = ...,
            topic_id: uuid.UUID | None = ...,
            error_code: int = ...,
            error_message: str | None = ...,
            version: int | None = None,
        ) -> None: ...
    throttle_time_ms: int
    responses: list[DeletableTopicResult]
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        responses: list[DeletableTopicResult] = ...,
        version: int | None = None,
    ) -> None: ...

class DescribeClusterRequest(ApiMessage):
    include_cluster_authorized_operations: bool
    endpoint_type: int
    include_fenced_brokers: bool
    def __init__(
        self,
        *,
        include_cluster_authorized_operations: bool = ...,
        endpoint_type: int = ...,
        include_fenced_brokers: bool = ...,
        version: int | None = None,
    ) -> None: ...

class DescribeClusterResponse(ApiMessage):
    class DescribeClusterBroker(MessageStruct):
        broker_id: int
        host: str
        port: int
        rack: str | None
        is_fenced: bool
        def __init__(
            self,
            *,
            broker_id: int = ...,
            host: str = ...,
            port: int = ...,
            rack: str | None = ...,
            is_fenced: bool = ...,
            version: int | None = None,
        ) -> None: ...
    throttle_time_ms: int
    error_code: int
    error_message: str | None
    endpoint_type: int
    cluster_id: str
    controller_id: int
    brokers: list[DescribeClusterBroker]
    authorized_operations: set[int] | None
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        error_message: str | None = ...,
        endpoint_type: int = ...,
        cluster_id: str = ...,
        controller_id: int = ...,
        brokers: list[DescribeClusterBroker] = ...,
        authorized_operations: set[int] | None = ...,
        version: int | None = None,
    ) -> None: ...

class DescribeConfigsRequest(ApiMessage):
    class DescribeConfigsResource(MessageStruct):
        resource_type: int
        resource_name: str
        configuration_keys: list[str] | None
        def __init__(
            self,
            *,
            resource_type: int = ...,
            resource_name: str = ...,
            configuration_keys: list[str] | None = ...,
            version: int | None = None,
        ) -> None: ...
    resources: list[DescribeConfigsResource]
    include_synonyms: bool
    include_documentation: bool
    def __init__(
        self,
        *,
        resources: list[DescribeConfigsResource] = ...,
        include_synonyms: bool = ...,
        include_documentation: bool = ...,
        version: int | None = None,
    ) -> None: ...

class DescribeConfigsResponse(ApiMessage):
    class DescribeConfigsResult(MessageStruct):
        class DescribeConfigsResourceResult(MessageStruct):
            class DescribeConfigsSynonym(MessageStruct):
                name: str
                value: str | None
                source: int
                def __init__(
                    self,
                    *,
                    name: str = ...,
                    value: str | None = ...,
                    source: int = ...,
                    version: int | None = None,
                ) -> None: ...
            name: str
            value: str | None
            read_only: bool
            config_source: int
            is_default: bool
            is_sensitive: bool
            synonyms: list[DescribeConfigsSynonym]
            config_type: int
            documentation: str | None
            def __init__(
                self,
                *,
                name: str = ...,
                value: str | None = ...,
                read_only: bool = ...,
                config_source: int = ...,
                is_default: bool = ...,
                is_sensitive: bool = ...,
                synonyms: list[DescribeConfigsSynonym] = ...,
                config_type: int = ...,
                documentation: str | None = ...,
                version: int | None = None,
            ) -> None: ...
        error_code: int
        error_message: str | None
        resource_type: int
        resource_name: str
        configs: list[DescribeConfigsResourceResult]
        def __init__(
            self,
            *,
            error_code: int = ...,
            error_message: str | None = ...,
            resource_type: int = ...,
            resource_name: str = ...,
            configs: list[DescribeConfigsResourceResult] = ...,
            version: int | None = None,
        ) -> None: ...
    throttle_time_ms: int
    results: list[DescribeConfigsResult]
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        results: list[DescribeConfigsResult] = ...,
        version: int | None = None,
    ) -> None: ...

class DescribeGroupsRequest(ApiMessage):
    groups: list[str]
    include_authorized_operations: bool
    def __init__(
        self,
        *,
        groups: list[str] = ...,
        include_authorized_operations: bool = ...,
        version: int | None = None,
    ) -> None: ...

class DescribeGroupsResponse(ApiMessage):
    class DescribedGroup(MessageStruct):
        class DescribedGroupMember(MessageStruct):
            member_id: str
            group_instance_id: str | None
            client_id: str
            client_host: str
            member_metadata: bytes
            member_assignment: bytes
            def __init__(
                self,
                *,
                member_id: str = ...,
                group_instance_id: str | None = ...,
                client_id: str = ...,
                client_host: str = ...,
                member_metadata: bytes = ...,
                member_assignment: bytes = ...,
                version: int | None = None,
            ) -> None: ...
        error_code: int
        error_message: str | None
        group_id: str
        group_state: str
        protocol_type: str
        protocol_data: str
        members: list[DescribedGroupMember]
        authorized_operations: set[int] | None
        def __init__(
            self,
            *,
            error_code: int = ...,
            error_message: str | None = ...,
            group_id: str = ...,
            group_state: str = ...,
            protocol_type: str = ...,
            protocol_data: str = ...,
            members: list[DescribedGroupMember] = ...,
            authorized_operations: set[int] | None = ...,
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

class EndTxnRequest(ApiMessage):
    transactional_id: str
    producer_id: int
    producer_epoch: int
    committed: bool
    def __init__(
        self,
        *,
        transactional_id: str = ...,
        producer_id: int = ...,
        producer_epoch: int = ...,
        committed: bool = ...,
        version: int | None = None,
    ) -> None: ...

class EndTxnResponse(ApiMessage):
    throttle_time_ms: int
    error_code: int
    producer_id: int
    producer_epoch: int
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        producer_id: int = ...,
        producer_epoch: int = ...,
        version: int | None = None,
    ) -> None: ...

class FetchRequest(ApiMessage):
    class ReplicaState(MessageStruct):
        replica_id: int
        replica_epoch: int
        def __init__(
            self,
            *,
            replica_id: int = ...,
            replica_epoch: int = ...,
            version: int | None = None,
        ) -> None: ...
    class FetchTopic(MessageStruct):
        class FetchPartition(MessageStruct):
            partition: int
            current_leader_epoch: int
            fetch_offset: int
            last_fetched_epoch: int
            log_start_offset: int
            partition_max_bytes: int
            replica_directory_id: uuid.UUID | None
            high_watermark: int
            def __init__(
                self,
                *,
                partition: int = ...,
                current_leader_epoch: int = ...,
                fetch_offset: int = ...,
                last_fetched_epoch: int = ...,
                log_start_offset: int = ...,
                partition_max_bytes: int = ...,
                replica_directory_id: uuid.UUID | None = ...,
                high_watermark: int = ...,
                version: int | None = None,
            ) -> None: ...
        topic: str
        topic_id: uuid.UUID | None
        partitions: list[FetchPartition]
        def __init__(
            self,
            *,
            topic: str = ...,
            topic_id: uuid.UUID | None = ...,
            partitions: list[FetchPartition] = ...,
            version: int | None = None,
        ) -> None: ...
    class ForgottenTopic(MessageStruct):
        topic: str
        topic_id: uuid.UUID | None
        partitions: list[int]
        def __init__(
            self,
            *,
            topic: str = ...,
            topic_id: uuid.UUID | None = ...,
            partitions: list[int] = ...,
            version: int | None = None,
        ) -> None: ...
    cluster_id: str | None
    replica_id: int
    replica_state: ReplicaState | None
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation_level: int
    session_id: int
    session_epoch: int
    topics: list[FetchTopic]
    forgotten_topics_data: list[ForgottenTopic]
    rack_id: str
    def __init__(
        self,
        *,
        cluster_id: str | None = ...,
        replica_id: int = ...,
        replica_state: ReplicaState | None = ...,
        max_wait_ms: int = ...,
        min_bytes: int = ...,
        max_bytes: int = ...,
        isolation_level: int = ...,
        session_id: int = ...,
        session_epoch: int = ...,
        topics: list[FetchTopic] = ...,
        forgotten_topics_data: list[ForgottenTopic] = ...,
        rack_id: str = ...,
        version: int | None = None,
    ) -> None: ...

class FetchResponse(ApiMessage):
    class FetchableTopicResponse(MessageStruct):
        class PartitionData(MessageStruct):
            class EpochEndOffset(MessageStruct):
                epoch: int
                end_offset: int
                def __init__(
                    self,
                    *,
                    epoch: int = ...,
                    end_offset: int = ...,
                    version: int | None = None,
                ) -> None: ...
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
            class SnapshotId(MessageStruct):
                end_offset: int
                epoch: int
                def __init__(
                    self,
                    *,
                    end_offset: int = ...,
                    epoch: int = ...,
                    version: int | None = None,
                ) -> None: ...
            class AbortedTransaction(MessageStruct):
                producer_id: int
                first_offset: int
                def __init__(
                    self,
                    *,
                    producer_id: int = ...,
                    first_offset: int = ...,
                    version: int | None = None,
                ) -> None: ...
            partition_index: int
            error_code: int
            high_watermark: int
            last_stable_offset: int
            log_start_offset: int
            diverging_epoch: EpochEndOffset | None
            current_leader: LeaderIdAndEpoch | None
            snapshot_id: SnapshotId | None
            aborted_transactions: list[AbortedTransaction] | None
            preferred_read_replica: int
            records: bytes | memoryview | None
            def __init__(
                self,
                *,
                partition_index: int = ...,
                error_code: int = ...,
                high_watermark: int = ...,
                last_stable_offset: int = ...,
                log_start_offset: int = ...,
                diverging_epoch: EpochEndOffset | None = ...,
                current_leader: LeaderIdAndEpoch | None = ...,
                snapshot_id: SnapshotId | None = ...,
                aborted_transactions: list[AbortedTransaction] | None = ...,
                preferred_read_replica: int = ...,
                records: bytes | memoryview | None = ...,
                version: int | None = None,
            ) -> None: ...
        topic: str
        topic_id: uuid.UUID | None
        partitions: list[PartitionData]
        def __init__(
            self,
            *,
            topic: str = ...,
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
    session_id: int
    responses: list[FetchableTopicResponse]
    node_endpoints: list[NodeEndpoint]
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        session_id: int = ...,
        responses: list[FetchableTopicResponse] = ...,
        node_endpoints: list[NodeEndpoint] = ...,
        version: int | None = None,
    ) -> None: ...

class FindCoordinatorRequest(ApiMessage):
    key: str
    key_type: int
    coordinator_keys: list[str]
    def __init__(
        self,
        *,
        key: str = ...,
        key_type: int = ...,
        coordinator_keys: list[str] = ...,
        version: int | None = None,
    ) -> None: ...

class FindCoordinatorResponse(ApiMessage):
    class Coordinator(MessageStruct):
        key: str
        node_id: int
        host: str
        port: int
        error_code: int
        error_message: str | None
        def __init__(
            self,
            *,
            key: str = ...,
            node_id: int = ...,
            host: str = ...,
            port: int = ...,
            error_code: int = ...,
            error_message: str | None = ...,
            version: int | None = None,
        ) -> None: ...
    throttle_time_ms: int
    error_code: int
    error_message: str | None
    node_id: int
    host: str
    port: int
    coordinators: list[Coordinator]
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        error_message: str | None = ...,
        node_id: int = ...,
        host: str = ...,
        port: int = ...,
        coordinators: list[Coordinator] = ...,
        version: int | None = None,
    ) -> None: ...

class HeartbeatRequest(ApiMessage):
    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None
    def __init__(
        self,
        *,
        group_id: str = ...,
        generation_id: int = ...,
        member_id: str = ...,
        group_instance_id: str | None = ...,
        version: int | None = None,
    ) -> None: ...

class HeartbeatResponse(ApiMessage):
    throttle_time_ms: int
    error_code: int
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        version: int | None = None,
    ) -> None: ...

class IncrementalAlterConfigsRequest(ApiMessage):
    class AlterConfigsResource(MessageStruct):
        class AlterableConfig(MessageStruct):
            name: str
            config_operation: int
            value: str | None
            def __init__(
                self,
                *,
                name: str = ...,
                config_operation: int = ...,
                value: str | None = ...,
                version: int | None = None,
            ) -> None: ...
        resource_type: int
        resource_name: str
        configs: list[AlterableConfig]
        def __init__(
            self,
            *,
            resource_type: int = ...,
            resource_name: str = ...,
            configs: list[AlterableConfig] = ...,
            version: int | None = None,
        ) -> None: ...
    resources: list[AlterConfigsResource]
    validate_only: bool
    def __init__(
        self,
        *,
        resources: list[AlterConfigsResource] = ...,
        validate_only: bool = ...,
        version: int | None = None,
    ) -> None: ...

class IncrementalAlterConfigsResponse(ApiMessage):
    class AlterConfigsResourceResponse(MessageStruct):
        error_code: int
        error_message: str | None
        resource_type: int
        resource_name: str
        def __init__(
            self,
            *,
            error_code: int = ...,
            error_message: str | None = ...,
            resource_type: int = ...,
            resource_name: str = ...,
            version: int | None = None,
        ) -> None: ...
    throttle_time_ms: int
    responses: list[AlterConfigsResourceResponse]
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        responses: list[AlterConfigsResourceResponse] = ...,
        version: int | None = None,
    ) -> None: ...

class InitProducerIdRequest(ApiMessage):
    transactional_id: str | None
    transaction_timeout_ms: int
    producer_id: int
    producer_epoch: int
    enable2_pc: bool
    keep_prepared_txn: bool
    def __init__(
        self,
        *,
        transactional_id: str | None = ...,
        transaction_timeout_ms: int = ...,
        producer_id: int = ...,
        producer_epoch: int = ...,
        enable2_pc: bool = ...,
        keep_prepared_txn: bool = ...,
        version: int | None = None,
    ) -> None: ...

class InitProducerIdResponse(ApiMessage):
    throttle_time_ms: int
    error_code: int
    producer_id: int
    producer_epoch: int
    ongoing_txn_producer_id: int
    ongoing_txn_producer_epoch: int
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        producer_id: int = ...,
        producer_epoch: int = ...,
        ongoing_txn_producer_id: int = ...,
        ongoing_txn_producer_epoch: int = ...,
        version: int | None = None,
    ) -> None: ...

class JoinGroupRequest(ApiMessage):
    class JoinGroupRequestProtocol(MessageStruct):
        name: str
        metadata: bytes
        def __init__(
            self,
            *,
            name: str = ...,
            metadata: bytes = ...,
            version: int | None = None,
        ) -> None: ...
    group_id: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    member_id: str
    group_instance_id: str | None
    protocol_type: str
    protocols: list[JoinGroupRequestProtocol]
    reason: str | None
    def __init__(
        self,
        *,
        group_id: str = ...,
        session_timeout_ms: int = ...,
        rebalance_timeout_ms: int = ...,
        member_id: str = ...,
        group_instance_id: str | None = ...,
        protocol_type: str = ...,
        protocols: list[JoinGroupRequestProtocol] = ...,
        reason: str | None = ...,
        version: int | None = None,
    ) -> None: ...

class JoinGroupResponse(ApiMessage):
    class JoinGroupResponseMember(MessageStruct):
        member_id: str
        group_instance_id: str | None
        metadata: bytes
        def __init__(
            self,
            *,
            member_id: str = ...,
            group_instance_id: str | None = ...,
            metadata: bytes = ...,
            version: int | None = None,
        ) -> None: ...
    throttle_time_ms: int
    error_code: int
    generation_id: int
    protocol_type: str | None
    protocol_name: str | None
    leader: str
    skip_assignment: bool
    member_id: str
    members: list[JoinGroupResponseMember]
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        generation_id: int = ...,
        protocol_type: str | None = ...,
        protocol_name: str | None = ...,
        leader: str = ...,
        skip_assignment: bool = ...,
        member_id: str = ...,
        members: list[JoinGroupResponseMember] = ...,
        version: int | None = None,
    ) -> None: ...

class LeaveGroupRequest(ApiMessage):
    class MemberIdentity(MessageStruct):
        member_id: str
        group_instance_id: str | None
        reason: str | None
        def __init__(
            self,
            *,
            member_id: str = ...,
            group_instance_id: str | None = ...,
            reason: str | None = ...,
            version: int | None = None,
        ) -> None: ...
    group_id: str
    member_id: str
    members: list[MemberIdentity]
    def __init__(
        self,
        *,
        group_id: str = ...,
        member_id: str = ...,
        members: list[MemberIdentity] = ...,
        version: int | None = None,
    ) -> None: ...

class LeaveGroupResponse(ApiMessage):
    class MemberResponse(MessageStruct):
        member_id: str
        group_instance_id: str | None
        error_code: int
        def __init__(
            self,
            *,
            member_id: str = ...,
            group_instance_id: str | None = ...,
            error_code: int = ...,
            version: int | None = None,
        ) -> None: ...
    throttle_time_ms: int
    error_code: int
    members: list[MemberResponse]
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        members: list[MemberResponse] = ...,
        version: int | None = None,
    ) -> None: ...

class ListConfigResourcesRequest(ApiMessage):
    resource_types: list[int]
    def __init__(
        self,
        *,
        resource_types: list[int] = ...,
        version: int | None = None,
    ) -> None: ...

class ListConfigResourcesResponse(ApiMessage):
    class ConfigResource(MessageStruct):
        resource_name: str
        resource_type: int
        def __init__(
            self,
            *,
            resource_name: str = ...,
            resource_type: int = ...,
            version: int | None = None,
        ) -> None: ...
    throttle_time_ms: int
    error_code: int
    config_resources: list[ConfigResource]
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        config_resources: list[ConfigResource] = ...,
        version: int | None = None,
    ) -> None: ...

class ListGroupsRequest(ApiMessage):
    states_filter: list[str]
    types_filter: list[str]
    def __init__(
        self,
        *,
        states_filter: list[str] = ...,
        types_filter: list[str] = ...,
        version: int | None = None,
    ) -> None: ...

class ListGroupsResponse(ApiMessage):
    class ListedGroup(MessageStruct):
        group_id: str
        protocol_type: str
        group_state: str
        group_type: str
        def __init__(
            self,
            *,
            group_id: str = ...,
            protocol_type: str = ...,
            group_state: str = ...,
            group_type: str = ...,
            version: int | None = None,
        ) -> None: ...
    throttle_time_ms: int
    error_code: int
    groups: list[ListedGroup]
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        groups: list[ListedGroup] = ...,
        version: int | None = None,
    ) -> None: ...

class ListOffsetsRequest(ApiMessage):
    class ListOffsetsTopic(MessageStruct):
        class ListOffsetsPartition(MessageStruct):
            partition_index: int
            current_leader_epoch: int
            timestamp: int
            max_num_offsets: int
            def __init__(
                self,
                *,
                partition_index: int = ...,
                current_leader_epoch: int = ...,
                timestamp: int = ...,
                max_num_offsets: int = ...,
                version: int | None = None,
            ) -> None: ...
        name: str
        partitions: list[ListOffsetsPartition]
        def __init__(
            self,
            *,
            name: str = ...,
            partitions: list[ListOffsetsPartition] = ...,
            version: int | None = None,
        ) -> None: ...
    replica_id: int
    isolation_level: int
    topics: list[ListOffsetsTopic]
    timeout_ms: int
    def __init__(
        self,
        *,
        replica_id: int = ...,
        isolation_level: int = ...,
        topics: list[ListOffsetsTopic] = ...,
        timeout_ms: int = ...,
        version: int | None = None,
    ) -> None: ...

class ListOffsetsResponse(ApiMessage):
    class ListOffsetsTopicResponse(MessageStruct):
        class ListOffsetsPartitionResponse(MessageStruct):
            partition_index: int
            error_code: int
            old_style_offsets: list[int]
            timestamp: int
            offset: int
            leader_epoch: int
            def __init__(
                self,
                *,
                partition_index: int = ...,
                error_code: int = ...,
                old_style_offsets: list[int] = ...,
                timestamp: int = ...,
                offset: int = ...,
                leader_epoch: int = ...,
                version: int | None = None,
            ) -> None: ...
        name: str
        partitions: list[ListOffsetsPartitionResponse]
        def __init__(
            self,
            *,
            name: str = ...,
            partitions: list[ListOffsetsPartitionResponse] = ...,
            version: int | None = None,
        ) -> None: ...
    throttle_time_ms: int
    topics: list[ListOffsetsTopicResponse]
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        topics: list[ListOffsetsTopicResponse] = ...,
        version: int | None = None,
    ) -> None: ...

class MetadataRequest(ApiMessage):
    class MetadataRequestTopic(MessageStruct):
        topic_id: uuid.UUID | None
        name: str | None
        def __init__(
            self,
            *,
            topic_id: uuid.UUID | None = ...,
            name: str | None = ...,
            version: int | None = None,
        ) -> None: ...
    topics: list[MetadataRequestTopic] | None
    allow_auto_topic_creation: bool
    include_cluster_authorized_operations: bool
    include_topic_authorized_operations: bool
    def __init__(
        self,
        *,
        topics: list[MetadataRequestTopic] | None = ...,
        allow_auto_topic_creation: bool = ...,
        include_cluster_authorized_operations: bool = ...,
        include_topic_authorized_operations: bool = ...,
        version: int | None = None,
    ) -> None: ...

class MetadataResponse(ApiMessage):
    class MetadataResponseBroker(MessageStruct):
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
    class MetadataResponseTopic(MessageStruct):
        class MetadataResponsePartition(MessageStruct):
            error_code: int
            partition_index: int
            leader_id: int
            leader_epoch: int
            replica_nodes: list[int]
            isr_nodes: list[int]
            offline_replicas: list[int]
            def __init__(
                self,
                *,
                error_code: int = ...,
                partition_index: int = ...,
                leader_id: int = ...,
                leader_epoch: int = ...,
                replica_nodes: list[int] = ...,
                isr_nodes: list[int] = ...,
                offline_replicas: list[int] = ...,
                version: int | None = None,
            ) -> None: ...
        error_code: int
        name: str | None
        topic_id: uuid.UUID | None
        is_internal: bool
        partitions: list[MetadataResponsePartition]
        authorized_operations: set[int] | None
        def __init__(
            self,
            *,
            error_code: int = ...,
            name: str | None = ...,
            topic_id: uuid.UUID | None = ...,
            is_internal: bool = ...,
            partitions: list[MetadataResponsePartition] = ...,
            authorized_operations: set[int] | None = ...,
            version: int | None = None,
        ) -> None: ...
    throttle_time_ms: int
    brokers: list[MetadataResponseBroker]
    cluster_id: str | None
    controller_id: int
    topics: list[MetadataResponseTopic]
    authorized_operations: set[int] | None
    error_code: int
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        brokers: list[MetadataResponseBroker] = ...,
        cluster_id: str | None = ...,
        controller_id: int = ...,
        topics: list[MetadataResponseTopic] = ...,
        authorized_operations: set[int] | None = ...,
        error_code: int = ...,
        version: int | None = None,
    ) -> None: ...

class OffsetCommitRequest(ApiMessage):
    class OffsetCommitRequestTopic(MessageStruct):
        class OffsetCommitRequestPartition(MessageStruct):
            partition_index: int
            committed_offset: int
            committed_leader_epoch: int
            commit_timestamp: int
            committed_metadata: str | None
            def __init__(
                self,
                *,
                partition_index: int = ...,
                committed_offset: int = ...,
                committed_leader_epoch: int = ...,
                commit_timestamp: int = ...,
                committed_metadata: str | None = ...,
                version: int | None = None,
            ) -> None: ...
        name: str
        topic_id: uuid.UUID | None
        partitions: list[OffsetCommitRequestPartition]
        def __init__(
            self,
            *,
            name: str = ...,
            topic_id: uuid.UUID | None = ...,
            partitions: list[OffsetCommitRequestPartition] = ...,
            version: int | None = None,
        ) -> None: ...
    group_id: str
    generation_id_or_member_epoch: int
    member_id: str
    group_instance_id: str | None
    retention_time_ms: int
    topics: list[OffsetCommitRequestTopic]
    def __init__(
        self,
        *,
        group_id: str = ...,
        generation_id_or_member_epoch: int = ...,
        member_id: str = ...,
        group_instance_id: str | None = ...,
        retention_time_ms: int = ...,
        topics: list[OffsetCommitRequestTopic] = ...,
        version: int | None = None,
    ) -> None: ...

class OffsetCommitResponse(ApiMessage):
    class OffsetCommitResponseTopic(MessageStruct):
        class OffsetCommitResponsePartition(MessageStruct):
            partition_index: int
            error_code: int
            def __init__(
                self,
                *,
                partition_index: int = ...,
                error_code: int = ...,
                version: int | None = None,
            ) -> None: ...
        name: str
        topic_id: uuid.UUID | None
        partitions: list[OffsetCommitResponsePartition]
        def __init__(
            self,
            *,
            name: str = ...,
            topic_id: uuid.UUID | None = ...,
            partitions: list[OffsetCommitResponsePartition] = ...,
            version: int | None = None,
        ) -> None: ...
    throttle_time_ms: int
    topics: list[OffsetCommitResponseTopic]
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        topics: list[OffsetCommitResponseTopic] = ...,
        version: int | None = None,
    ) -> None: ...

class OffsetDeleteRequest(ApiMessage):
    class OffsetDeleteRequestTopic(MessageStruct):
        class OffsetDeleteRequestPartition(MessageStruct):
            partition_index: int
            def __init__(
                self,
                *,
                partition_index: int = ...,
                version: int | None = None,
            ) -> None: ...
        name: str
        partitions: list[OffsetDeleteRequestPartition]
        def __init__(
            self,
            *,
            name: str = ...,
            partitions: list[OffsetDeleteRequestPartition] = ...,
            version: int | None = None,
        ) -> None: ...
    group_id: str
    topics: list[OffsetDeleteRequestTopic]
    def __init__(
        self,
        *,
        group_id: str = ...,
        topics: list[OffsetDeleteRequestTopic] = ...,
        version: int | None = None,
    ) -> None: ...

class OffsetDeleteResponse(ApiMessage):
    class OffsetDeleteResponseTopic(MessageStruct):
        class OffsetDeleteResponsePartition(MessageStruct):
            partition_index: int
            error_code: int
            def __init__(
                self,
                *,
                partition_index: int = ...,
                error_code: int = ...,
                version: int | None = None,
            ) -> None: ...
        name: str
        partitions: list[OffsetDeleteResponsePartition]
        def __init__(
            self,
            *,
            name: str = ...,
            partitions: list[OffsetDeleteResponsePartition] = ...,
            version: int | None = None,
        ) -> None: ...
    error_code: int
    throttle_time_ms: int
    topics: list[OffsetDeleteResponseTopic]
    def __init__(
        self,
        *,
        error_code: int = ...,
        throttle_time_ms: int = ...,
        topics: list[OffsetDeleteResponseTopic] = ...,
        version: int | None = None,
    ) -> None: ...

class OffsetFetchRequest(ApiMessage):
    class OffsetFetchRequestTopic(MessageStruct):
        name: str
        partition_indexes: list[int]
        def __init__(
            self,
            *,
            name: str = ...,
            partition_indexes: list[int] = ...,
            version: int | None = None,
        ) -> None: ...
    class OffsetFetchRequestGroup(MessageStruct):
        class OffsetFetchRequestTopics(MessageStruct):
            name: str
            topic_id: uuid.UUID | None
            partition_indexes: list[int]
            def __init__(
                self,
                *,
                name: str = ...,
                topic_id: uuid.UUID | None = ...,
                partition_indexes: list[int] = ...,
                version: int | None = None,
            ) -> None: ...
        group_id: str
        member_id: str | None
        member_epoch: int
        topics: list[OffsetFetchRequestTopics] | None
        def __init__(
            self,
            *,
            group_id: str = ...,
            member_id: str | None = ...,
            member_epoch: int = ...,
            topics: list[OffsetFetchRequestTopics] | None = ...,
            version: int | None = None,
        ) -> None: ...
    group_id: str
    topics: list[OffsetFetchRequestTopic] | None
    groups: list[OffsetFetchRequestGroup]
    require_stable: bool
    def __init__(
        self,
        *,
        group_id: str = ...,
        topics: list[OffsetFetchRequestTopic] | None = ...,
        groups: list[OffsetFetchRequestGroup] = ...,
        require_stable: bool = ...,
        version: int | None = None,
    ) -> None: ...

class OffsetFetchResponse(ApiMessage):
    class OffsetFetchResponseTopic(MessageStruct):
        class OffsetFetchResponsePartition(MessageStruct):
            partition_index: int
            committed_offset: int
            committed_leader_epoch: int
            metadata: str | None
            error_code: int
            def __init__(
                self,
                *,
                partition_index: int = ...,
                committed_offset: int = ...,
                committed_leader_epoch: int = ...,
                metadata: str | None = ...,
                error_code: int = ...,
                version: int | None = None,
            ) -> None: ...
        name: str
        partitions: list[OffsetFetchResponsePartition]
        def __init__(
            self,
            *,
            name: str = ...,
            partitions: list[OffsetFetchResponsePartition] = ...,
            version: int | None = None,
        ) -> None: ...
    class OffsetFetchResponseGroup(MessageStruct):
        class OffsetFetchResponseTopics(MessageStruct):
            class OffsetFetchResponsePartitions(MessageStruct):
                partition_index: int
                committed_offset: int
                committed_leader_epoch: int
                metadata: str | None
                error_code: int
                def __init__(
                    self,
                    *,
                    partition_index: int = ...,
                    committed_offset: int = ...,
                    committed_leader_epoch: int = ...,
                    metadata: str | None = ...,
                    error_code: int = ...,
                    version: int | None = None,
                ) -> None: ...
            name: str
            topic_id: uuid.UUID | None
            partitions: list[OffsetFetchResponsePartitions]
            def __init__(
                self,
                *,
                name: str = ...,
                topic_id: uuid.UUID | None = ...,
                partitions: list[OffsetFetchResponsePartitions] = ...,
                version: int | None = None,
            ) -> None: ...
        group_id: str
        topics: list[OffsetFetchResponseTopics]
        error_code: int
        def __init__(
            self,
            *,
            group_id: str = ...,
            topics: list[OffsetFetchResponseTopics] = ...,
            error_code: int = ...,
            version: int | None = None,
        ) -> None: ...
    throttle_time_ms: int
    topics: list[OffsetFetchResponseTopic]
    error_code: int
    groups: list[OffsetFetchResponseGroup]
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        topics: list[OffsetFetchResponseTopic] = ...,
        error_code: int = ...,
        groups: list[OffsetFetchResponseGroup] = ...,
        version: int | None = None,
    ) -> None: ...

class OffsetForLeaderEpochRequest(ApiMessage):
    class OffsetForLeaderTopic(MessageStruct):
        class OffsetForLeaderPartition(MessageStruct):
            partition: int
            current_leader_epoch: int
            leader_epoch: int
            def __init__(
                self,
                *,
                partition: int = ...,
                current_leader_epoch: int = ...,
                leader_epoch: int = ...,
                version: int | None = None,
            ) -> None: ...
        topic: str
        partitions: list[OffsetForLeaderPartition]
        def __init__(
            self,
            *,
            topic: str = ...,
            partitions: list[OffsetForLeaderPartition] = ...,
            version: int | None = None,
        ) -> None: ...
    replica_id: int
    topics: list[OffsetForLeaderTopic]
    def __init__(
        self,
        *,
        replica_id: int = ...,
        topics: list[OffsetForLeaderTopic] = ...,
        version: int | None = None,
    ) -> None: ...

class OffsetForLeaderEpochResponse(ApiMessage):
    class OffsetForLeaderTopicResult(MessageStruct):
        class EpochEndOffset(MessageStruct):
            error_code: int
            partition: int
            leader_epoch: int
            end_offset: int
            def __init__(
                self,
                *,
                error_code: int = ...,
                partition: int = ...,
                leader_epoch: int = ...,
                end_offset: int = ...,
                version: int | None = None,
            ) -> None: ...
        topic: str
        partitions: list[EpochEndOffset]
        def __init__(
            self,
            *,
            topic: str = ...,
            partitions: list[EpochEndOffset] = ...,
            version: int | None = None,
        ) -> None: ...
    throttle_time_ms: int
    topics: list[OffsetForLeaderTopicResult]
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        topics: list[OffsetForLeaderTopicResult] = ...,
        version: int | None = None,
    ) -> None: ...

class ProduceRequest(ApiMessage):
    class TopicProduceData(MessageStruct):
        class PartitionProduceData(MessageStruct):
            index: int
            records: bytes | memoryview | None
            def __init__(
                self,
                *,
                index: int = ...,
                records: bytes | memoryview | None = ...,
                version: int | None = None,
            ) -> None: ...
        name: str
        topic_id: uuid.UUID | None
        partition_data: list[PartitionProduceData]
        def __init__(
            self,
            *,
            name: str = ...,
            topic_id: uuid.UUID | None = ...,
            partition_data: list[PartitionProduceData] = ...,
            version: int | None = None,
        ) -> None: ...
    transactional_id: str | None
    acks: int
    timeout_ms: int
    topic_data: list[TopicProduceData]
    def __init__(
        self,
        *,
        transactional_id: str | None = ...,
        acks: int = ...,
        timeout_ms: int = ...,
        topic_data: list[TopicProduceData] = ...,
        version: int | None = None,
    ) -> None: ...

class ProduceResponse(ApiMessage):
    class TopicProduceResponse(MessageStruct):
        class PartitionProduceResponse(MessageStruct):
            class BatchIndexAndErrorMessage(MessageStruct):
                batch_index: int
                batch_index_error_message: str | None
                def __init__(
                    self,
                    *,
                    batch_index: int = ...,
                    batch_index_error_message: str | None = ...,
                    version: int | None = None,
                ) -> None: ...
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
            index: int
            error_code: int
            base_offset: int
            log_append_time_ms: int
            log_start_offset: int
            record_errors: list[BatchIndexAndErrorMessage]
            error_message: str | None
            current_leader: LeaderIdAndEpoch | None
            def __init__(
                self,
                *,
                index: int = ...,
                error_code: int = ...,
                base_offset: int = ...,
                log_append_time_ms: int = ...,
                log_start_offset: int = ...,
                record_errors: list[BatchIndexAndErrorMessage] = ...,
                error_message: str | None = ...,
                current_leader: LeaderIdAndEpoch | None = ...,
                version: int | None = None,
            ) -> None: ...
        name: str
        topic_id: uuid.UUID | None
        partition_responses: list[PartitionProduceResponse]
        def __init__(
            self,
            *,
            name: str = ...,
            topic_id: uuid.UUID | None = ...,
            partition_responses: list[PartitionProduceResponse] = ...,
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
    responses: list[TopicProduceResponse]
    throttle_time_ms: int
    node_endpoints: list[NodeEndpoint]
    def __init__(
        self,
        *,
        responses: list[TopicProduceResponse] = ...,
        throttle_time_ms: int = ...,
        node_endpoints: list[NodeEndpoint] = ...,
        version: int | None = None,
    ) -> None: ...

class SaslAuthenticateRequest(ApiMessage):
    auth_bytes: bytes
    def __init__(
        self,
        *,
        auth_bytes: bytes = ...,
        version: int | None = None,
    ) -> None: ...

class SaslAuthenticateResponse(ApiMessage):
    error_code: int
    error_message: str | None
    auth_bytes: bytes
    session_lifetime_ms: int
    def __init__(
        self,
        *,
        error_code: int = ...,
        error_message: str | None = ...,
        auth_bytes: bytes = ...,
        session_lifetime_ms: int = ...,
        version: int | None = None,
    ) -> None: ...

class SaslHandshakeRequest(ApiMessage):
    mechanism: str
    def __init__(
        self,
        *,
        mechanism: str = ...,
        version: int | None = None,
    ) -> None: ...

class SaslHandshakeResponse(ApiMessage):
    error_code: int
    mechanisms: list[str]
    def __init__(
        self,
        *,
        error_code: int = ...,
        mechanisms: list[str] = ...,
        version: int | None = None,
    ) -> None: ...

class SyncGroupRequest(ApiMessage):
    class SyncGroupRequestAssignment(MessageStruct):
        member_id: str
        assignment: bytes
        def __init__(
            self,
            *,
            member_id: str = ...,
            assignment: bytes = ...,
            version: int | None = None,
        ) -> None: ...
    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None
    protocol_type: str | None
    protocol_name: str | None
    assignments: list[SyncGroupRequestAssignment]
    def __init__(
        self,
        *,
        group_id: str = ...,
        generation_id: int = ...,
        member_id: str = ...,
        group_instance_id: str | None = ...,
        protocol_type: str | None = ...,
        protocol_name: str | None = ...,
        assignments: list[SyncGroupRequestAssignment] = ...,
        version: int | None = None,
    ) -> None: ...

class SyncGroupResponse(ApiMessage):
    throttle_time_ms: int
    error_code: int
    protocol_type: str | None
    protocol_name: str | None
    assignment: bytes
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        protocol_type: str | None = ...,
        protocol_name: str | None = ...,
        assignment: bytes = ...,
        version: int | None = None,
    ) -> None: ...

class TxnOffsetCommitRequest(ApiMessage):
    class TxnOffsetCommitRequestTopic(MessageStruct):
        class TxnOffsetCommitRequestPartition(MessageStruct):
            partition_index: int
            committed_offset: int
            committed_leader_epoch: int
            committed_metadata: str | None
            def __init__(
                self,
                *,
                partition_index: int = ...,
                committed_offset: int = ...,
                committed_leader_epoch: int = ...,
                committed_metadata: str | None = ...,
                version: int | None = None,
            ) -> None: ...
        name: str
        partitions: list[TxnOffsetCommitRequestPartition]
        def __init__(
            self,
            *,
            name: str = ...,
            partitions: list[TxnOffsetCommitRequestPartition] = ...,
            version: int | None = None,
        ) -> None: ...
    transactional_id: str
    group_id: str
    producer_id: int
    producer_epoch: int
    generation_id: int
    member_id: str
    group_instance_id: str | None
    topics: list[TxnOffsetCommitRequestTopic]
    def __init__(
        self,
        *,
        transactional_id: str = ...,
        group_id: str = ...,
        producer_id: int = ...,
        producer_epoch: int = ...,
        generation_id: int = ...,
        member_id: str = ...,
        group_instance_id: str | None = ...,
        topics: list[TxnOffsetCommitRequestTopic] = ...,
        version: int | None = None,
    ) -> None: ...

class TxnOffsetCommitResponse(ApiMessage):
    class TxnOffsetCommitResponseTopic(MessageStruct):
        class TxnOffsetCommitResponsePartition(MessageStruct):
            partition_index: int
            error_code: int
            def __init__(
                self,
                *,
                partition_index: int = ...,
                error_code: int = ...,
                version: int | None = None,
            ) -> None: ...
        name: str
        partitions: list[TxnOffsetCommitResponsePartition]
        def __init__(
            self,
            *,
            name: str = ...,
            partitions: list[TxnOffsetCommitResponsePartition] = ...,
            version: int | None = None,
        ) -> None: ...
    throttle_time_ms: int
    topics: list[TxnOffsetCommitResponseTopic]
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        topics: list[TxnOffsetCommitResponseTopic] = ...,
        version: int | None = None,
    ) -> None: ...

class WriteTxnMarkersRequest(ApiMessage):
    class WritableTxnMarker(MessageStruct):
        class WritableTxnMarkerTopic(MessageStruct):
            name: str
            partition_indexes: list[int]
            def __init__(
                self,
                *,
                name: str = ...,
                partition_indexes: list[int] = ...,
                version: int | None = None,
            ) -> None: ...
        producer_id: int
        producer_epoch: int
        transaction_result: bool
        topics: list[WritableTxnMarkerTopic]
        coordinator_epoch: int
        transaction_version: int
        def __init__(
            self,
            *,
            producer_id: int = ...,
            producer_epoch: int = ...,
            transaction_result: bool = ...,
            topics: list[WritableTxnMarkerTopic] = ...,
            coordinator_epoch: int = ...,
            transaction_version: int = ...,
            version: int | None = None,
        ) -> None: ...
    markers: list[WritableTxnMarker]
    def __init__(
        self,
        *,
        markers: list[WritableTxnMarker] = ...,
        version: int | None = None,
    ) -> None: ...

class WriteTxnMarkersResponse(ApiMessage):
    class WritableTxnMarkerResult(MessageStruct):
        class WritableTxnMarkerTopicResult(MessageStruct):
            class WritableTxnMarkerPartitionResult(MessageStruct):
                partition_index: int
                error_code: int
                def __init__(
                    self,
                    *,
                    partition_index: int = ...,
                    error_code: int = ...,
                    version: int | None = None,
                ) -> None: ...
            name: str
            partitions: list[WritableTxnMarkerPartitionResult]
            def __init__(
                self,
                *,
                name: str = ...,
                partitions: list[WritableTxnMarkerPartitionResult] = ...,
                version: int | None = None,
            ) -> None: ...
        producer_id: int
        topics: list[WritableTxnMarkerTopicResult]
        def __init__(
            self,
            *,
            producer_id: int = ...,
            topics: list[WritableTxnMarkerTopicResult] = ...,
            version: int | None = None,
        ) -> None: ...
    markers: list[WritableTxnMarkerResult]
    def __init__(
        self,
        *,
        markers: list[WritableTxnMarkerResult] = ...,
        version: int | None = None,
    ) -> None: ...
