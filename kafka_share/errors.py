"""The exceptions of kafka_share: one tree, and whose fault an error was shows in its type.

Everything that the package raises on purpose derives from `KafkaShareError`::

    KafkaShareError
    ├── CallerError                      the calling code did something wrong
    │   ├── ConfigurationError           a setting is unknown, inapplicable or out of range      (ValueError)
    │   ├── InvalidArgumentError         an argument has a value that can never work             (ValueError)
    │   └── IllegalStateError            the call is not allowed now                             (RuntimeError)
    │       ├── ConsumerClosedError      the consumer has been closed
    │       └── ConcurrentUseError       a second thread, or a call from inside the callback
    ├── DataError                        a record cannot be turned into what the application asked for
    │   ├── RecordDeserializationError   a deserializer of the application failed
    │   ├── CorruptRecordError           a record batch is damaged
    │   └── UnsupportedRecordError       a record batch may be sound, and cannot be read here
    ├── NetworkError                     the network, or the way to a broker
    │   ├── BrokerUnreachableError       no connection could be made, or it broke
    │   ├── AuthenticationError          SASL or TLS refused us, or we refused the broker
    │   └── OutcomeUnknownError          the connection broke before the answer to an acknowledgement came
    ├── ProtocolError                    bytes that are not valid Kafka
    │   ├── RemoteProtocolError          …that the peer sent
    │   └── LocalProtocolError           …that we were asked to send
    ├── OperationTimeoutError            time ran out                                            (TimeoutError)
    ├── WakeupError                      `wakeup()` was called
    ├── LockLostError                    a handler succeeded when its record was not ours any more
    ├── HandlerProcessError              the process that ran a handler died
    ├── BatchError                       raised by a handler: these records of its batch have failed
    ├── ProduceError                     a record could not be written to a topic
    ├── BrokerError                      a broker answered with an error code; one subclass for each code
    │   └── …                            see `ERRORS`
    └── InternalError                    a defect of kafka_share itself: please report it

`error_for_code` turns a wire code into an exception; `ERRORS` is the table behind it. Each class has the code's `name`,
whether the same request may succeed later (`retriable`), and whose fault it usually is (`fault`).

Source of the codes: Apache Kafka's `org.apache.kafka.common.protocol.Errors`, versions 4.1 to 4.4.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

from kafka_share.harmless import excerpt

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Fault = Literal["caller", "broker", "access", "data", "group"]
"""Whose fault an error code is: the caller's request, a broker's passing state, missing rights, the stored data,
or the group's membership and sessions."""


class KafkaShareError(Exception):
    """Base of every error that kafka_share raises on purpose."""

    def __reduce__(self) -> tuple[Any, ...]:
        # Not through __init__, whose arguments are not what it keeps: workers hand errors to other processes.
        return _restore, (type(self), self.args, self.__dict__)


def _restore(kind: type[KafkaShareError], args: tuple[Any, ...], state: dict[str, Any]) -> KafkaShareError:
    error = kind.__new__(kind)
    error.args = args
    error.__dict__.update(state)
    return error


class CallerError(KafkaShareError):
    """The calling code did something wrong; repeating the call unchanged fails again."""


class ConfigurationError(CallerError, ValueError):
    """A setting is unknown, does not apply to share consumers, or is out of its range."""


class InvalidArgumentError(CallerError, ValueError):
    """An argument has a value that can never work, such as a negative timeout."""


class IllegalStateError(CallerError, RuntimeError):
    """The call is not allowed in the present state (Java: `IllegalStateException`)."""


class ConsumerClosedError(IllegalStateError):
    """The consumer has been closed (Java: `IllegalStateException`)."""


class ConcurrentUseError(IllegalStateError):
    """A second thread used the consumer, or a method was called from inside the acknowledgement commit callback."""


class DataError(KafkaShareError):
    """A record cannot be turned into what the application asked for. The consumer goes on with the next records."""


class RecordDeserializationError(DataError):
    """A deserializer raised; the record has been marked RELEASE (KIP-1036).

    The raw parts of the record are attributes, so that a handler can store them: `topic` (str), `partition` (int),
    `offset` (int), `origin` ("key" or "value"), `key` and `value` (bytes or None), `headers` (sequence of (str, bytes
    or None)), `timestamp` (milliseconds since 1970). The deserializer's exception is `__cause__`; it may hold the
    payload, so the message has its class alone.
    """

    def __init__(
        self,
        message: str,
        *,
        topic: str,
        partition: int,
        offset: int,
        origin: Literal["key", "value"],
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[tuple[str, bytes | None]],
        timestamp: int,
    ) -> None:
        super().__init__(message)
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.origin = origin
        self.key = key
        self.value = value
        self.headers = headers
        self.timestamp = timestamp


class CorruptRecordError(DataError):
    """A record batch is damaged (wrong checksum, impossible lengths); its acquired offsets have been marked REJECT.

    Where nothing can be told apart any more they have been marked RELEASE, to be read again. The message says which.
    Attributes: `topic` (str), `partition` (int), `offset` (int, the first offset of the batch).
    """

    def __init__(self, message: str, *, topic: str, partition: int, offset: int) -> None:
        super().__init__(message)
        self.topic = topic
        self.partition = partition
        self.offset = offset


class UnsupportedRecordError(DataError):
    """A record batch that may be sound cannot be read here; its acquired offsets have been marked RELEASE.

    It has a codec or a format that this version does not know, or is larger than `max_record_batch_bytes`; the message
    says which. Attributes: `topic` (str), `partition` (int), `offset` (int, the first offset of the batch).
    """

    def __init__(self, message: str, *, topic: str, partition: int, offset: int) -> None:
        super().__init__(message)
        self.topic = topic
        self.partition = partition
        self.offset = offset


class NetworkError(KafkaShareError):
    """The network, or the way to a broker. Usually passes; the client retries by itself where it may."""


class BrokerUnreachableError(NetworkError):
    """No connection could be made to a broker, or it broke before the answer came."""


class AuthenticationError(NetworkError):
    """SASL or TLS refused us, or the broker's certificate was refused. Not retried: it needs another setting."""


class OutcomeUnknownError(NetworkError):
    """The connection broke before the answer to an acknowledgement came: it may or may not have been applied.

    The record may be delivered again (at-least-once). Java reports `UnknownServerException` here.
    """


class ProtocolError(KafkaShareError):
    """Bytes that are not valid in Kafka's protocol."""


class RemoteProtocolError(ProtocolError):
    """The peer sent something malformed: truncated, too long, out of range, or an answer nobody asked for."""


class LocalProtocolError(ProtocolError):
    """We were asked to send something that the protocol, or the version agreed with the peer, cannot carry."""


class OperationTimeoutError(KafkaShareError, TimeoutError):
    """The operation's own timeout ended; what it had already sent may still take effect."""


class WakeupError(KafkaShareError):
    """`wakeup()` was called while, or before, the consumer was blocking."""


class LockLostError(KafkaShareError):
    """A handler of a worker has returned, and the lock of its record had been lost: the record is delivered again."""


class HandlerProcessError(KafkaShareError):
    """The process that ran a handler of a worker died, or could not begin. The message says how it ended."""


class BatchError(KafkaShareError):
    """Raised by a handler of batches: these records have failed, each with its exception; the others have succeeded.

    Attribute: `failures` (dict of `ShareRecord` to exception). Raises `InvalidArgumentError` if there are none.
    """

    def __init__(self, failures: Mapping[Any, Exception]) -> None:
        if not failures:
            raise InvalidArgumentError("a BatchError names at least one record that has failed")
        super().__init__(f"{len(failures)} records of the batch have failed")
        self.failures: dict[Any, Exception] = dict(failures)


class ProduceError(KafkaShareError):
    """A record could not be written to a topic. The message names the topic, and what to do if that is known."""


class InternalError(KafkaShareError):
    """A defect of kafka_share itself (the network thread died, an invariant broke). Please report it."""


class BrokerError(KafkaShareError):
    """A broker answered with an error code.

    Attributes: `code` (int, the wire code), `name` (str, Kafka's name of it), `retriable` (bool: the same request may
    succeed later), `fault` (whose fault it is, see `Fault`).
    """

    code: int = -1
    name: str = "UNKNOWN_SERVER_ERROR"
    retriable: bool = False
    fault: Fault = "broker"
    _classes: ClassVar[dict[int, type[BrokerError]]] = {}

    def __init__(self, message: str | None = None) -> None:
        super().__init__(f"{self.name}: {excerpt(message) if message else self.__doc__}")

    def __init_subclass__(
        cls, *, code: int | None = None, name: str = "", retriable: bool = False, fault: Fault = "broker"
    ) -> None:
        super().__init_subclass__()
        if code is not None:
            assert code not in BrokerError._classes, f"two classes for error code {code}"
            cls.code, cls.name, cls.retriable, cls.fault = code, name, retriable, fault
            BrokerError._classes[code] = cls


class UnknownBrokerError(BrokerError):
    """A broker answered with an error code that this version of kafka_share does not know."""

    def __init__(self, code: int, message: str | None = None) -> None:
        self.code = code
        self.name: str = f"error code {code}"
        super().__init__(message)


class UnknownServerError(BrokerError, code=-1, name="UNKNOWN_SERVER_ERROR"):
    """The broker failed without saying why."""


class OffsetOutOfRangeError(BrokerError, code=1, name="OFFSET_OUT_OF_RANGE", fault="caller"):
    """The offset is outside the log."""


class CorruptMessageError(BrokerError, code=2, name="CORRUPT_MESSAGE", retriable=True, fault="data"):
    """The broker found a damaged record batch."""


class UnknownTopicOrPartitionError(BrokerError, code=3, name="UNKNOWN_TOPIC_OR_PARTITION", retriable=True):
    """The broker does not host this topic partition."""


class LeaderNotAvailableError(BrokerError, code=5, name="LEADER_NOT_AVAILABLE", retriable=True):
    """The partition has no leader at the moment."""


class NotLeaderOrFollowerError(BrokerError, code=6, name="NOT_LEADER_OR_FOLLOWER", retriable=True):
    """The broker does not lead this partition."""


class RequestTimedOutError(BrokerError, code=7, name="REQUEST_TIMED_OUT", retriable=True):
    """The broker ran out of time."""


class BrokerNotAvailableError(BrokerError, code=8, name="BROKER_NOT_AVAILABLE", retriable=True):
    """The broker is not available."""


class ReplicaNotAvailableError(BrokerError, code=9, name="REPLICA_NOT_AVAILABLE", retriable=True):
    """The replica is not available."""


class MessageTooLargeError(BrokerError, code=10, name="MESSAGE_TOO_LARGE", fault="caller"):
    """The record batch is larger than the broker accepts."""


class NetworkExceptionError(BrokerError, code=13, name="NETWORK_EXCEPTION", retriable=True):
    """The broker disconnected before the answer came."""


class CoordinatorLoadInProgressError(BrokerError, code=14, name="COORDINATOR_LOAD_IN_PROGRESS", retriable=True):
    """The coordinator is still loading its state."""


class CoordinatorNotAvailableError(BrokerError, code=15, name="COORDINATOR_NOT_AVAILABLE", retriable=True):
    """The coordinator is not available."""


class NotCoordinatorError(BrokerError, code=16, name="NOT_COORDINATOR", retriable=True):
    """The broker is not the coordinator of this group."""


class InvalidTopicError(BrokerError, code=17, name="INVALID_TOPIC_EXCEPTION", fault="caller"):
    """The topic name is not allowed."""


class RecordListTooLargeError(BrokerError, code=18, name="RECORD_LIST_TOO_LARGE", fault="caller"):
    """The record batch is larger than a log segment."""


class NotEnoughReplicasError(BrokerError, code=19, name="NOT_ENOUGH_REPLICAS", retriable=True):
    """Too few replicas are in sync."""


class InvalidRequiredAcksError(BrokerError, code=21, name="INVALID_REQUIRED_ACKS", fault="caller"):
    """acks must be 0, 1 or -1."""


class InvalidGroupIdError(BrokerError, code=24, name="INVALID_GROUP_ID", fault="caller"):
    """The group id is not allowed."""


class UnknownMemberIdError(BrokerError, code=25, name="UNKNOWN_MEMBER_ID", fault="group"):
    """The coordinator does not know this member."""


class TopicAuthorizationFailedError(BrokerError, code=29, name="TOPIC_AUTHORIZATION_FAILED", fault="access"):
    """Not authorized for the topic."""


class GroupAuthorizationFailedError(BrokerError, code=30, name="GROUP_AUTHORIZATION_FAILED", fault="access"):
    """Not authorized for the group."""


class ClusterAuthorizationFailedError(BrokerError, code=31, name="CLUSTER_AUTHORIZATION_FAILED", fault="access"):
    """Not authorized for the cluster."""


class UnsupportedSaslMechanismError(BrokerError, code=33, name="UNSUPPORTED_SASL_MECHANISM", fault="access"):
    """The broker does not offer this SASL mechanism."""


class IllegalSaslStateError(BrokerError, code=34, name="ILLEGAL_SASL_STATE", fault="access"):
    """The request is not allowed before authentication has ended."""


class UnsupportedVersionError(BrokerError, code=35, name="UNSUPPORTED_VERSION", fault="caller"):
    """The broker does not support this, or share groups are switched off."""


class TopicAlreadyExistsError(BrokerError, code=36, name="TOPIC_ALREADY_EXISTS", fault="caller"):
    """A topic of this name exists already."""


class InvalidPartitionsError(BrokerError, code=37, name="INVALID_PARTITIONS", fault="caller"):
    """The number of partitions is not allowed."""


class InvalidReplicationFactorError(BrokerError, code=38, name="INVALID_REPLICATION_FACTOR", fault="caller"):
    """The replication factor is not possible in this cluster."""


class InvalidReplicaAssignmentError(BrokerError, code=39, name="INVALID_REPLICA_ASSIGNMENT", fault="caller"):
    """The replica assignment is not possible in this cluster."""


class InvalidConfigError(BrokerError, code=40, name="INVALID_CONFIG", fault="caller"):
    """A configuration value is not allowed."""


class NotControllerError(BrokerError, code=41, name="NOT_CONTROLLER", retriable=True):
    """The broker is not the controller."""


class InvalidRequestError(BrokerError, code=42, name="INVALID_REQUEST", fault="caller"):
    """The request is malformed or contradicts itself."""


class OutOfOrderSequenceNumberError(BrokerError, code=45, name="OUT_OF_ORDER_SEQUENCE_NUMBER", fault="caller"):
    """The producer's sequence number is not the next one."""


class DuplicateSequenceNumberError(BrokerError, code=46, name="DUPLICATE_SEQUENCE_NUMBER", fault="caller"):
    """The producer's sequence number was used before."""


class InvalidProducerEpochError(BrokerError, code=47, name="INVALID_PRODUCER_EPOCH", fault="caller"):
    """The producer was fenced by a newer one."""


class KafkaStorageError(BrokerError, code=56, name="KAFKA_STORAGE_ERROR", retriable=True):
    """The broker could not read or write its disk."""


class SaslAuthenticationFailedError(BrokerError, code=58, name="SASL_AUTHENTICATION_FAILED", fault="access"):
    """The broker refused the credentials."""


class UnknownProducerIdError(BrokerError, code=59, name="UNKNOWN_PRODUCER_ID", fault="caller"):
    """The broker does not know the producer id."""


class NonEmptyGroupError(BrokerError, code=68, name="NON_EMPTY_GROUP", fault="caller"):
    """The group still has members."""


class GroupIdNotFoundError(BrokerError, code=69, name="GROUP_ID_NOT_FOUND", fault="caller"):
    """There is no share group of this id."""


class FencedLeaderEpochError(BrokerError, code=74, name="FENCED_LEADER_EPOCH", retriable=True):
    """The leader epoch is older than the broker's."""


class UnknownLeaderEpochError(BrokerError, code=75, name="UNKNOWN_LEADER_EPOCH", retriable=True):
    """The leader epoch is newer than the broker's."""


class UnsupportedCompressionTypeError(BrokerError, code=76, name="UNSUPPORTED_COMPRESSION_TYPE", fault="caller"):
    """The broker does not support this compression."""


class OffsetNotAvailableError(BrokerError, code=78, name="OFFSET_NOT_AVAILABLE", retriable=True):
    """The offset is not available yet."""


class GroupMaxSizeReachedError(BrokerError, code=81, name="GROUP_MAX_SIZE_REACHED", fault="group"):
    """The group has as many members as the broker allows."""


class InvalidRecordError(BrokerError, code=87, name="INVALID_RECORD", fault="caller"):
    """A record failed the broker's validation."""


class ThrottlingQuotaExceededError(BrokerError, code=89, name="THROTTLING_QUOTA_EXCEEDED", retriable=True):
    """The client does something more often than the broker allows."""


class UnknownTopicIdError(BrokerError, code=100, name="UNKNOWN_TOPIC_ID", retriable=True):
    """The broker does not know the topic id: deleted or just created."""


class InconsistentTopicIdError(BrokerError, code=103, name="INCONSISTENT_TOPIC_ID", retriable=True):
    """Topic id and topic name do not belong together."""


class FencedMemberEpochError(BrokerError, code=110, name="FENCED_MEMBER_EPOCH", fault="group"):
    """The member's epoch is not the coordinator's."""


class UnsupportedAssignorError(BrokerError, code=112, name="UNSUPPORTED_ASSIGNOR", fault="caller"):
    """The broker does not have this assignor."""


class UnknownSubscriptionIdError(BrokerError, code=117, name="UNKNOWN_SUBSCRIPTION_ID"):
    """The broker wants other metrics now than those it asked for."""


class TelemetryTooLargeError(BrokerError, code=118, name="TELEMETRY_TOO_LARGE"):
    """The broker takes no push of metrics of that size."""


class InvalidRecordStateError(BrokerError, code=121, name="INVALID_RECORD_STATE", fault="group"):
    """The records are not acquired by this member (any more)."""


class ShareSessionNotFoundError(BrokerError, code=122, name="SHARE_SESSION_NOT_FOUND", retriable=True, fault="group"):
    """The broker does not know the share session."""


class InvalidShareSessionEpochError(
    BrokerError, code=123, name="INVALID_SHARE_SESSION_EPOCH", retriable=True, fault="group"
):
    """The share session epoch is not the next one."""


class FencedStateEpochError(BrokerError, code=124, name="FENCED_STATE_EPOCH", fault="group"):
    """The share-group state epoch is older than the stored one."""


class RebootstrapRequiredError(BrokerError, code=129, name="REBOOTSTRAP_REQUIRED"):
    """The client has to look up the cluster from its start again."""


class ShareSessionLimitReachedError(BrokerError, code=133, name="SHARE_SESSION_LIMIT_REACHED", retriable=True):
    """The broker holds as many share sessions as it allows."""


class GroupDeletionFailedError(BrokerError, code=134, name="GROUP_DELETION_FAILED"):
    """The group could not be deleted."""


ERRORS: Final[Mapping[int, type[BrokerError]]] = MappingProxyType(BrokerError._classes)
"""Error code -> exception class. Codes that are absent become `UnknownBrokerError`."""


def error_for_code(code: int, message: str | None = None) -> BrokerError | None:
    """The exception for a wire error code, with the broker's own message if it sent one; None for code 0."""
    if code == 0:
        return None
    known = ERRORS.get(code)
    return known(message) if known is not None else UnknownBrokerError(code, message)
