"""The names of the APIs that this broker can offer, with Kafka's numbers, and the ways to write one."""

from __future__ import annotations

import difflib
import enum
from typing import Final, TypeAlias

from kafka_share.errors import InvalidArgumentError


class ApiKey(enum.IntEnum):
    """An API of Kafka, as request headers number it. `faults` and `requests` of a `ReferenceBroker` take these."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    DELETE_GROUPS = 42
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    OFFSET_DELETE = 47
    DESCRIBE_CLIENT_QUOTAS = 48
    ALTER_CLIENT_QUOTAS = 49
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50
    ALTER_USER_SCRAM_CREDENTIALS = 51
    DESCRIBE_QUORUM = 55
    UPDATE_FEATURES = 57
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66
    CONSUMER_GROUP_HEARTBEAT = 68
    CONSUMER_GROUP_DESCRIBE = 69
    GET_TELEMETRY_SUBSCRIPTIONS = 71
    PUSH_TELEMETRY = 72
    LIST_CONFIG_RESOURCES = 74
    DESCRIBE_TOPIC_PARTITIONS = 75
    SHARE_GROUP_HEARTBEAT = 76
    SHARE_GROUP_DESCRIBE = 77
    SHARE_FETCH = 78
    SHARE_ACKNOWLEDGE = 79
    INITIALIZE_SHARE_GROUP_STATE = 83
    READ_SHARE_GROUP_STATE = 84
    WRITE_SHARE_GROUP_STATE = 85
    DELETE_SHARE_GROUP_STATE = 86
    READ_SHARE_GROUP_STATE_SUMMARY = 87
    DESCRIBE_SHARE_GROUP_OFFSETS = 90
    ALTER_SHARE_GROUP_OFFSETS = 91
    DELETE_SHARE_GROUP_OFFSETS = 92

    @property
    def label(self) -> str:
        """The name as Kafka writes it, such as ShareFetch."""
        return "".join(word.capitalize() for word in self.name.split("_"))


Api: TypeAlias = ApiKey | int | str
"""An API as a test may write it: `ApiKey.SHARE_FETCH`, "ShareFetch", or 78."""

_BY_NAME: Final = {key.name.replace("_", "").lower(): key for key in ApiKey}


def api_key_of(api: Api) -> ApiKey:
    """The key of an API. Raises `InvalidArgumentError` for one that this broker does not have."""
    if isinstance(api, str):
        plain = api.replace("_", "").lower()
        if plain in _BY_NAME:
            return _BY_NAME[plain]
        near = difflib.get_close_matches(plain, _BY_NAME, n=1)
        hint = f"did you mean {_BY_NAME[near[0]].label!r}?" if near else "ApiKey lists those that it has"
        raise InvalidArgumentError(f"this broker has no API {api!r}: {hint}")
    try:
        return ApiKey(api)
    except ValueError:
        raise InvalidArgumentError(f"this broker has no API {api!r}: ApiKey lists those that it has") from None
