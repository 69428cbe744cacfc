"""Topics and brokers' configs, through kafka-python's admin client.

Called by `demo.cluster`, which turns kafka-python's errors into ours, and by `console.actions` to create a topic. The
versions 2 and 3 of kafka-python take and return different values; that difference ends here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import kafka
from kafka.admin import ConfigResource, ConfigResourceType, NewTopic
from kafka.errors import KafkaError

from kafka_share.cli.endings import ToolFailedError
from kafka_share.cli.foreign import IS_VERSION_2

BROKERS_DEFAULT: Final = -1


def create_topic(settings: Mapping[str, Any], topic: str) -> None:
    """With as many partitions and replicas as the brokers give a topic. Raises `ToolFailedError`."""
    try:
        topics = Topics(settings)
        try:
            topics.create(topic, BROKERS_DEFAULT)
        finally:
            topics.close()
    except KafkaError as error:
        raise ToolFailedError(f"topic '{topic}' could not be created: {error}") from error


class Topics:
    """An admin client for what `KafkaShareAdmin` does not do. Raises what kafka-python raises."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._admin = kafka.KafkaAdminClient(**settings)

    def close(self) -> None:
        self._admin.close()

    def create(self, topic: str, partitions: int) -> None:
        if IS_VERSION_2:
            self._admin.create_topics([NewTopic(topic, partitions, replication_factor=1)])
        else:
            self._admin.create_topics({topic: {"num_partitions": partitions}}, wait_for_metadata=True)

    def delete(self, topic: str) -> None:
        self._admin.delete_topics([topic])

    def broker_config(self, node_id: int, name: str) -> str | None:
        """Its value; None if the broker does not know it."""
        resource = ConfigResource(ConfigResourceType.BROKER, str(node_id))
        if IS_VERSION_2:
            [response] = self._admin.describe_configs([resource])
            [(_, _, _, _, entries)] = response.resources
            values = {entry[0]: entry[1] for entry in entries}
        else:
            found = self._admin.describe_configs([resource], config_filter="all")["broker"][str(node_id)]
            values = {key: entry["value"] for key, entry in found.items()}
        value: str | None = values.get(name)
        return value
