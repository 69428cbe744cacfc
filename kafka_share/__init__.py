"""kafka_share: Apache Kafka share groups (Queues for Kafka, KIP-932) for Python.

The map of the package:

- `KafkaShareConsumer`: the blocking consumer (`kafka_share.consumer`)
- `AsyncShareConsumer`: the same for asyncio (`kafka_share.async_consumer`)
- `ShareWorker`: calls a handler for each record, with concurrency, retries and a clean stop (`kafka_share.worker`)
- `ShareConsumerSettings`, `ShareAdminSettings`: the settings of the clients as types (`kafka_share.settings`)
- `KafkaShareAdmin`: lists, describes, resets, deletes and configures share groups (`kafka_share.admin`); what its
  methods take and return is in `kafka_share.admin_values`
- `AsyncShareAdmin`: the same for asyncio (`kafka_share.aio`)
- `ShareRecord`, `ShareRecords`, `AcknowledgeType`, `TopicPartition`, `TopicIdPartition`: what users hold
  (`kafka_share.records`)
- `from_schema_registry`: adapter for confluent-kafka's Schema Registry deserializers (`kafka_share.deserializers`)
- `kafka_share.errors`: every exception, as one tree
- `kafka_share.broker.ReferenceBroker`: a Kafka broker in Python for tests, demos and the quickstart
- `kafka_share.spark`: share groups as a source of Apache Spark (the extra `spark`)
- `kafka_share.bridges`: taskiq, Celery and FastStream on share groups (the extras `taskiq`, `celery`, `faststream`)
- `kafka_share.opentelemetry`: metrics and spans for OpenTelemetry (the extra `opentelemetry`)
- all other modules are the machinery below; not a public interface

Command-line tools: `kafka-share` with its commands, and `kafka-share-groups`, `kafka-share-console`, `kafka-share-perf`
and `kafka-share-broker`.

Importing the package loads none of this: each name loads its module when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from kafka_share._version import VERSION

if TYPE_CHECKING:
    from kafka_share import errors as errors
    from kafka_share.admin import KafkaShareAdmin as KafkaShareAdmin
    from kafka_share.admin_values import AclOperation as AclOperation
    from kafka_share.admin_values import ClusterDescription as ClusterDescription
    from kafka_share.admin_values import ConfigChange as ConfigChange
    from kafka_share.admin_values import ConfigEntry as ConfigEntry
    from kafka_share.admin_values import ConfigSource as ConfigSource
    from kafka_share.admin_values import ConfigSynonym as ConfigSynonym
    from kafka_share.admin_values import ConfigType as ConfigType
    from kafka_share.admin_values import GroupListing as GroupListing
    from kafka_share.admin_values import GroupListings as GroupListings
    from kafka_share.admin_values import GroupState as GroupState
    from kafka_share.admin_values import GroupType as GroupType
    from kafka_share.admin_values import ListedOffset as ListedOffset
    from kafka_share.admin_values import OffsetSpec as OffsetSpec
    from kafka_share.admin_values import PartitionDescription as PartitionDescription
    from kafka_share.admin_values import ShareGroupDescription as ShareGroupDescription
    from kafka_share.admin_values import ShareMemberDescription as ShareMemberDescription
    from kafka_share.admin_values import SharePartitionOffset as SharePartitionOffset
    from kafka_share.admin_values import TopicDescription as TopicDescription
    from kafka_share.aio import AsyncShareAdmin as AsyncShareAdmin
    from kafka_share.async_consumer import AsyncShareConsumer as AsyncShareConsumer
    from kafka_share.consumer import KafkaShareConsumer as KafkaShareConsumer
    from kafka_share.deserializers import Deserializer as Deserializer
    from kafka_share.deserializers import from_schema_registry as from_schema_registry
    from kafka_share.errors import KafkaShareError as KafkaShareError
    from kafka_share.health import Health as Health
    from kafka_share.health import UnacknowledgedRecord as UnacknowledgedRecord
    from kafka_share.records import AcknowledgementCommitCallback as AcknowledgementCommitCallback
    from kafka_share.records import AcknowledgeType as AcknowledgeType
    from kafka_share.records import ArrowRecords as ArrowRecords
    from kafka_share.records import Node as Node
    from kafka_share.records import ShareRecord as ShareRecord
    from kafka_share.records import ShareRecords as ShareRecords
    from kafka_share.records import TimestampType as TimestampType
    from kafka_share.records import TopicIdPartition as TopicIdPartition
    from kafka_share.records import TopicPartition as TopicPartition
    from kafka_share.settings import ShareAdminSettings as ShareAdminSettings
    from kafka_share.settings import ShareConsumerSettings as ShareConsumerSettings
    from kafka_share.worker import ShareWorker as ShareWorker

__version__ = VERSION

_NAMES = {
    "admin": "KafkaShareAdmin",
    "admin_values": "AclOperation ClusterDescription ConfigChange ConfigEntry ConfigSource ConfigSynonym ConfigType "
    "GroupListing GroupListings GroupState GroupType ListedOffset OffsetSpec PartitionDescription "
    "ShareGroupDescription ShareMemberDescription SharePartitionOffset TopicDescription",
    "aio": "AsyncShareAdmin",
    "async_consumer": "AsyncShareConsumer",
    "consumer": "KafkaShareConsumer",
    "deserializers": "Deserializer from_schema_registry",
    "errors": "KafkaShareError",
    "health": "Health UnacknowledgedRecord",
    "records": "AcknowledgeType AcknowledgementCommitCallback ArrowRecords Node ShareRecord ShareRecords TimestampType "
    "TopicIdPartition TopicPartition",
    "settings": "ShareAdminSettings ShareConsumerSettings",
    "worker": "ShareWorker",
}
"""Module -> the names that the package offers of it."""

_OPTIONAL_MODULES = ("bridges", "broker", "opentelemetry", "spark")
"""What users import by itself: `from kafka_share.broker import ReferenceBroker`."""

_HOMES = {name: module for module, names in _NAMES.items() for name in names.split()}

if not TYPE_CHECKING:  # they see the imports above
    __all__ = [*_HOMES, "__version__", "errors"]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    """Load the module of a name, or a module that users import, when it is first used (PEP 562)."""
    if name in _NAMES:
        return import_module(f"kafka_share.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"kafka_share.{_HOMES[name]}"), name)
    return value


def __dir__() -> list[str]:
    """What users may use: the public names, the modules that have them, and what every module has."""
    return sorted({*_HOMES, *_NAMES, *_OPTIONAL_MODULES, *(name for name in globals() if name.startswith("__"))})
