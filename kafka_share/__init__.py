"""kafka_share: Apache Kafka share groups (Queues for Kafka, KIP-932) for Python.

The map of the package:

- `KafkaShareConsumer`: the blocking consumer (`kafka_share.consumer`), its settings (`kafka_share.config`)
- `KafkaShareAdmin`: lists, describes, resets, deletes and configures share groups (`kafka_share.admin`); what its
  methods take and return is in `kafka_share.admin_values`
- `AsyncShareAdmin`: the same for asyncio (`kafka_share.aio`)
- `ShareRecord`, `ShareRecords`, `AcknowledgeType`, `TopicPartition`, `TopicIdPartition`: what users hold
  (`kafka_share.records`)
- `from_schema_registry`: adapter for confluent-kafka's Schema Registry deserializers (`kafka_share.deserializers`)
- `kafka_share.errors`: every exception, as one tree
- `kafka_share.broker.ReferenceBroker`: a Kafka broker in Python for tests, demos and the quickstart
- `kafka_share.core`, `kafka_share.network`, `kafka_share.protocol`: the machinery below; not a public interface

Command-line tools: `kafka-share` and `kafka-share-broker`.
"""

from kafka_share import errors
from kafka_share._version import VERSION
from kafka_share.admin import KafkaShareAdmin
from kafka_share.admin_values import (
    AclOperation,
    ClusterDescription,
    ConfigChange,
    ConfigEntry,
    ConfigSource,
    ConfigSynonym,
    ConfigType,
    GroupListing,
    GroupListings,
    GroupState,
    GroupType,
    ListedOffset,
    OffsetSpec,
    PartitionDescription,
    ShareGroupDescription,
    ShareMemberDescription,
    SharePartitionOffset,
    TopicDescription,
)
from kafka_share.aio import AsyncShareAdmin
from kafka_share.config import ShareAdminConfig, ShareConsumerConfig
from kafka_share.consumer import KafkaShareConsumer
from kafka_share.deserializers import Deserializer, from_schema_registry
from kafka_share.errors import KafkaShareError
from kafka_share.records import (
    AcknowledgementCommitCallback,
    AcknowledgeType,
    Node,
    ShareRecord,
    ShareRecords,
    TimestampType,
    TopicIdPartition,
    TopicPartition,
)

__version__ = VERSION

__all__ = [
    "AcknowledgeType",
    "AcknowledgementCommitCallback",
    "AclOperation",
    "AsyncShareAdmin",
    "ClusterDescription",
    "ConfigChange",
    "ConfigEntry",
    "ConfigSource",
    "ConfigSynonym",
    "ConfigType",
    "Deserializer",
    "GroupListing",
    "GroupListings",
    "GroupState",
    "GroupType",
    "KafkaShareAdmin",
    "KafkaShareConsumer",
    "KafkaShareError",
    "ListedOffset",
    "Node",
    "OffsetSpec",
    "PartitionDescription",
    "ShareAdminConfig",
    "ShareConsumerConfig",
    "ShareGroupDescription",
    "ShareMemberDescription",
    "SharePartitionOffset",
    "ShareRecord",
    "ShareRecords",
    "TimestampType",
    "TopicDescription",
    "TopicIdPartition",
    "TopicPartition",
    "__version__",
    "errors",
    "from_schema_registry",
]
