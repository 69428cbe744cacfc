"""Topics and brokers' configs for the demo, through kafka-python's admin client.

`cluster` calls it and turns kafka-python's errors into ours. The versions 2 and 3 of kafka-python take and return
different values; that difference ends here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import kafka
from kafka.admin import ConfigResource, ConfigResourceType, NewTopic

from kafka_share.cli.foreign import IS_VERSION_2


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
