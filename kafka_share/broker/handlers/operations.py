"""The operations that there are for a resource, which answers list as authorized.

The handlers name all of them; where there is an authorizer, `authorization.py` leaves those that the client may do.
"""

from __future__ import annotations

from typing import Final

from kafka_share.admin_values import AclOperation

GROUP_OPERATIONS: Final = frozenset(
    (
        AclOperation.READ,
        AclOperation.DELETE,
        AclOperation.DESCRIBE,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
    )
)
TOPIC_OPERATIONS: Final = GROUP_OPERATIONS | {AclOperation.WRITE, AclOperation.CREATE, AclOperation.ALTER}
CLUSTER_OPERATIONS: Final = frozenset(
    (
        AclOperation.CREATE,
        AclOperation.ALTER,
        AclOperation.DESCRIBE,
        AclOperation.CLUSTER_ACTION,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
        AclOperation.IDEMPOTENT_WRITE,
    )
)

GROUP_OPERATION_BITS: Final = sum(1 << operation for operation in sorted(GROUP_OPERATIONS))
"""The same as Kafka's bit field."""
