"""The operations that answers list as authorized: all of them, for there is no authorizer. Kafka's `AclOperation`."""

from __future__ import annotations

import enum
from typing import Final


class Operation(enum.IntEnum):
    """The wire values."""

    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11


GROUP_OPERATIONS: Final = frozenset(
    (
        Operation.READ,
        Operation.DELETE,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    )
)
TOPIC_OPERATIONS: Final = GROUP_OPERATIONS | {Operation.WRITE, Operation.CREATE, Operation.ALTER}

GROUP_OPERATION_BITS: Final = sum(1 << operation for operation in sorted(GROUP_OPERATIONS))
"""The same as Kafka's bit field."""
