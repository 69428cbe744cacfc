"""How a command-line tool ends: its exit code, and what its last error message says.

`front` turns what a tool's function returns or raises into these; tools that show an error per item call `with_remedy`.
`--apache-exit-codes` chooses `APACHE`, for scripts that were written for Kafka's own tools.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal, NamedTuple

from kafka_share.errors import (
    AuthenticationError,
    BrokerError,
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


class ExitCodes(NamedTuple):
    """A number per way to end."""

    ok: int = 0
    failed: int = 1
    """The operation, or a part of it, failed."""
    usage: int = 2
    """An option is wrong or missing; nothing was done."""
    help: int = 0
    """The help text was asked for."""
    interrupted: int = 130
    """By Ctrl-C."""


OURS: Final = ExitCodes()
APACHE: Final = ExitCodes(failed=0, usage=1, help=1)
"""Kafka's shell tools exit 0 after an error that they printed, and treat --help like a wrong option."""


class ToolFailedError(Exception):
    """A tool cannot do what it was asked for; the message says why and what to do.

    `kind` "operation": the operation failed. "value": an option has a value that cannot work; Apache's tools notice it
    only while they run, so there it ends like a failed operation. "state": Apache's tools, too, print this error on
    standard error and exit 1.
    """

    def __init__(
        self, message: str, kind: Literal["operation", "value", "state"] = "operation", *, code: str = "FAILED"
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.code = code
        """For scripts; where a broker has a code for it, the broker's."""

    def exit_code(self, codes: ExitCodes) -> int:
        """The one of `codes`, which the command line has chosen."""
        if self.kind == "value" and codes is not APACHE:
            return codes.usage
        return OURS.failed if self.kind == "state" else codes.failed


REMEDIES: Final[Mapping[type[KafkaShareError], str]] = MappingProxyType(
    {
        AuthenticationError: "check the security settings in --command-config",
        BrokerUnreachableError: "check --bootstrap-server, and that the listener's security matches --command-config",
        OperationTimeoutError: "check --bootstrap-server, or allow more time with --timeout",
        GroupIdNotFoundError: "kafka-share-groups --list shows the share groups",
        NonEmptyGroupError: "stop its members first: kafka-share-groups --describe --members shows them",
        InvalidGroupIdError: "a group id cannot be empty",
        InvalidConfigError: "kafka-share-groups --describe --configs --all shows the configs and their present values",
        GroupAuthorizationFailedError: "the user of --command-config needs an ACL for the group",
        TopicAuthorizationFailedError: "the user of --command-config needs an ACL for the topic",
        ClusterAuthorizationFailedError: "the user of --command-config needs an ACL for the cluster",
        UnknownTopicOrPartitionError: "check the topic's name and its number of partitions",
        UnsupportedVersionError: "it needs a cluster of Kafka 4.2 or later (4.1: as a preview) with share groups on: "
        "share.version 1",
    }
)
"""What an operator can do about an error of this class."""


class Problem(NamedTuple):
    """An error as the tools show it."""

    code: str
    """For scripts, such as GROUP_ID_NOT_FOUND; of errors that are not a broker's, the name of their class."""
    message: str


def problem_of(error: BaseException) -> Problem:
    """The code of an error, and its message with what to do about it where that is known."""
    if isinstance(error, BrokerError):
        return Problem(error.name, with_remedy(error))
    if isinstance(error, KafkaShareError):
        return Problem(_words(type(error).__name__.removesuffix("Error")), with_remedy(error))
    if isinstance(error, ToolFailedError):
        return Problem(error.code, str(error))
    if isinstance(error, OSError):
        return Problem(errno.errorcode.get(error.errno or 0, "OS_ERROR"), str(error))
    return Problem("DEFECT", f"{type(error).__name__}: {error} (a defect; --debug shows where)")


def _words(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).upper()


def with_remedy(error: KafkaShareError) -> str:
    """The error's message, with what to do about it where that is known."""
    for kind, remedy in REMEDIES.items():
        if isinstance(error, kind):
            return f"{error} ({remedy})"
    return str(error)
