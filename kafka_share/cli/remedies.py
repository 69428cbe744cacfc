"""What an operator can do about an error: a clause per class of error, added to the message by the tools.

Called by `front` for errors that end a command, and by tools that show an error per item.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from kafka_share.errors import (
    AuthenticationError,
    BrokerUnreachableError,
    ClusterAuthorizationFailedError,
    GroupAuthorizationFailedError,
    GroupIdNotFoundError,
    InvalidConfigError,
    InvalidGroupIdError,
    KafkaShareError,
    NonEmptyGroupError,
    OperationTimeoutError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
    UnsupportedVersionError,
)

REMEDIES: Final[Mapping[type[KafkaShareError], str]] = MappingProxyType(
    {
        AuthenticationError: "check the security settings in --command-config",
        BrokerUnreachableError: "check --bootstrap-server, and that the listener's security matches --command-config",
        OperationTimeoutError: "check --bootstrap-server, or give it longer with --timeout",
        GroupIdNotFoundError: "kafka-share-groups --list shows the share groups",
        NonEmptyGroupError: "stop its members first: kafka-share-groups --describe --members shows them",
        InvalidGroupIdError: "a group id cannot be empty",
        InvalidConfigError: "kafka-share-groups --describe --configs --all shows the configs and their present values",
        GroupAuthorizationFailedError: "the user of --command-config needs an ACL for the group",
        TopicAuthorizationFailedError: "the user of --command-config needs an ACL for the topic",
        ClusterAuthorizationFailedError: "the user of --command-config needs an ACL for the cluster",
        UnknownTopicOrPartitionError: "check the topic's name and its number of partitions",
        UnsupportedVersionError: "it needs a cluster of Kafka 4.2 or later with share groups on (share.version 1)",
    }
)


def with_remedy(error: KafkaShareError) -> str:
    """The error's message, with what to do about it where that is known."""
    for kind, remedy in REMEDIES.items():
        if isinstance(error, kind):
            return f"{error} ({remedy})"
    return str(error)
