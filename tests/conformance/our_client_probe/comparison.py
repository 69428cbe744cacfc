"""What our client should answer where Java's answered this: the same, in Python's words.

One table for the classes of errors, one for names and values. What then still differs has to stand in `differences`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from conformance.our_client_probe.differences import DIFFERENCES, NOT_PLAYED, Difference
from conformance.our_client_probe.java import java_answers

CLASSES: Final[Mapping[str, str]] = {
    "ConcurrentModificationException": "ConcurrentUseError",
    "ConfigException": "ConfigurationError",
    "GroupIdNotFoundException": "GroupIdNotFoundError",
    "GroupNotEmptyException": "NonEmptyGroupError",
    "IllegalArgumentException": "InvalidArgumentError",
    "IllegalStateException": "IllegalStateError",
    "InvalidConfigurationException": "InvalidConfigError",
    "InvalidGroupIdException": "InvalidGroupIdError",
    "InvalidRecordStateException": "InvalidRecordStateError",
    "InvalidTopicException": "InvalidTopicError",
    "KafkaException": "KafkaShareError",
    "NullPointerException": "TypeError",
    "RecordDeserializationException": "RecordDeserializationError",
    "TimeoutException": "OperationTimeoutError",
    "UnknownTopicOrPartitionException": "UnknownTopicOrPartitionError",
    "UnsupportedOperationException": "AttributeError",
    "WakeupException": "WakeupError",
}
"""Java's exception -> ours."""
MORE_EXACT: Final[Mapping[str, Mapping[str, str]]] = {
    "ctor/group.id=null": {"KafkaException": "ConfigurationError"},
    "ctor/group.id=''": {"KafkaException": "ConfigurationError"},
    "ctor/group.id='   '": {"KafkaException": "ConfigurationError"},
    "poll/after-close": {"IllegalStateException": "ConsumerClosedError"},
    "callback/reentrance": {"IllegalStateException": "ConcurrentUseError"},
}
"""Scenarios in which ours is a subclass that says more."""
WORDS: Final = (
    (r"\bcommitSync\b", "commit_sync"),
    (r"\bcommitAsync\b", "commit_async"),
    (r"\bsetCallback\b", "set_callback"),
    (r"\bclientInstanceId\b", "client_instance_id"),
    (r"\bdeleteShareGroups\b", "delete_share_groups"),
    (r"Optional\.empty", "None"),
    (r"Optional\[(.*?)\]", r"\1"),
    (r"(Error) VALUE ", r"\1 value "),
    (r"=null\b", "=None"),
)
"""Names and values as Python has them: (pattern, replacement)."""

_EXCEPTION: Final = re.compile(r"\b\w+Exception\b")


def translated(scenario: str, answer: str) -> str:
    """Java's answer in Python's words. Raises KeyError for an exception that the table does not have."""
    classes = {**CLASSES, **MORE_EXACT.get(scenario, {})}
    text = _EXCEPTION.sub(lambda found: classes[found.group()], answer)
    for pattern, replacement in WORDS:
        text = re.sub(pattern, replacement, text)
    return text


def difference(scenario: str) -> Difference | None:
    """Why our answer is meant to be another one, if it is."""
    return DIFFERENCES.get(scenario)


def expected(scenario: str) -> str:
    """What our client should answer, on whichever broker."""
    known = difference(scenario)
    return translated(scenario, java_answers()[scenario]) if known is None else known.ours


def verdict(scenario: str) -> str:
    """What the page says of the two answers."""
    if scenario in NOT_PLAYED:
        return f"not there: {NOT_PLAYED[scenario]}"
    known = difference(scenario)
    if known is not None:
        named = f" (`{known.rule}`)" if known.rule else ""
        return f"{known.kind.value}{named}: {known.why}"
    return "same" if expected(scenario) == java_answers()[scenario] else "same, in Python's words"
