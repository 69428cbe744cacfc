"""Where our client is meant to answer unlike Java's, scenario by scenario: our answer, and why.

Read by `comparison`. A difference is Python's idiom, or one of docs/differences-from-java.md, which are
deliberate; all else is a defect and does not belong here. Each answer holds on every broker.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from typing import Final

import attrs
from conformance.our_client_probe.java import java_answers


class Kind(enum.Enum):
    """The values are the page's words."""

    IDIOM = "Python's idiom"
    DELIBERATE = "deliberate"


@attrs.frozen
class Difference:
    kind: Kind
    ours: str
    why: str
    rule: str = ""
    """Of a deliberate one: its name in docs/differences-from-java.md."""


_UNKNOWN_NAMES: Final = "unknown-settings-refused"
_BAD_LAST: Final = "bad-records-last"
_RENEW: Final = "renewal-returns-at-once"
_COMMIT: Final = "commit-sync-waits-for-all"


def _deliberate(ours: str, rule: str, why: str) -> Difference:
    return Difference(Kind.DELIBERATE, ours, why, rule)


def _idiom(ours: str, why: str) -> Difference:
    return Difference(Kind.IDIOM, ours, why)


_REFUSED: Final = _deliberate(
    "ConfigurationError()", _UNKNOWN_NAMES, "a setting that a share consumer does not have is refused, not ignored."
)
_ERRORS_LAST: Final = "the good records of an answer come before the errors of bad ones, and no outcome is lost."
_WAITED: Final = "a commit waits for what was sent before it and returns that result, too."
_ANSWERED: Final = "the poll that carries a renewal returns the renewed records as soon as the broker has answered."


def _bad(origin: int) -> str:
    return f"RDE(RecordDeserializationError value t1-0@{origin} key=false value=true msg=text)"


def _bad_values(*items: str, told: str) -> str:
    return f"[{', '.join(items)}]{told}"


_NO_SELECTOR: Final = re.compile(
    r"\b(?:io-(?:wait-)?(?:ratio|time-ns-avg|time-ns-total)|network-io-(?:rate|total)|select-(?:rate|total)"
    r"|successful-authentication-no-reauth-total|background-event-queue-processing-time-(?:avg|max))(?:, |(?=\]))"
)
"""Metrics of Java's own insides."""
_BEYOND_JAVA: Final = {
    "consumer-share-fetch-manager-metrics": ("records-lost-rate", "records-lost-total"),
    "consumer-share-metrics": ("held-records", "window-records"),
}
"""Metrics that Java has none of, by group."""


def _own_metrics() -> str:
    """Java's names without its insides, and with what is ours; a node's id is part of its group."""
    kept = _NO_SELECTOR.sub("", java_answers()["metrics/names"]).replace(", ]", "]")
    kept = kept.replace("[client-id, node-id]=", ".node-N=").replace("[client-id]=", "=")
    for group, ours in _BEYOND_JAVA.items():
        [javas] = re.findall(rf"{group}=\[(.*?)\]", kept)
        kept = kept.replace(javas, ", ".join(sorted([*javas.split(", "), *ours])))
    return kept


DIFFERENCES: Final[Mapping[str, Difference]] = {
    "member/share-on-consumer-group": _deliberate(
        "GroupIdNotFoundError() again GroupIdNotFoundError() close ok<0.7s",
        "what-lasts-is-raised-again",
        "what does not pass is raised by every poll, not once.",
    ),
    "ctor/auto.commit.interval.ms='5'": _REFUSED,
    "ctor/max.partition.fetch.bytes='5'": _REFUSED,
    "ctor/exclude.internal.topics='true'": _REFUSED,
    "ctor/no.such.config='1'": _REFUSED,
    "ctor/internal.leave.group.on.close='true'": _REFUSED,
    "ctor/no-deserializer": _idiom("ok", "without a deserializer, keys and values are bytes."),
    "poll/second-thread": _deliberate(
        "[subscribe:ConcurrentUseError(), subscription:ConcurrentUseError(), commit_sync:ConcurrentUseError(), "
        "commit_async:ConcurrentUseError(), callback:ConcurrentUseError(), lock:ConcurrentUseError(), metrics:false, "
        "close:ok, unsubscribe:ConsumerClosedError(), poll:ConsumerClosedError()<0.7s, first:ConsumerClosedError(), "
        "after:ConsumerClosedError()]",
        "close-ends-a-poll",
        "close from a second thread ends the poll of the first and closes the consumer.",
    ),
    "poll/wakeup-before-commitSync": _deliberate("WakeupError() then {t1-0=ok} then poll 0", _COMMIT, _WAITED),
    "explicit/ack-errors": _idiom(
        "[before:IllegalStateError(), foreign:IllegalStateError(), copy:ok, null rec:TypeError(), "
        "null type:InvalidArgumentError(), off:IllegalStateError(), off wrong:IllegalStateError(), "
        "off topic:IllegalStateError(), off part:IllegalStateError(), commit:{t1-0=ok}, "
        "after commit:IllegalStateError(), after poll:IllegalStateError()]",
        "None is no `AcknowledgeType`, and a wrong argument is refused.",
    ),
    "explicit/renew": _deliberate(
        "[t1-0:1x1, t1-0:3x1][cb[poll2]{t1-0=[0..3]}]ok{t1-0=ok}[cb[commit_sync]{t1-0=[1, 3]}]", _RENEW, _ANSWERED
    ),
    "explicit/renew-poll-poll": _deliberate(
        "[t1-0:1x1, t1-0:3x1]<0.7s[cb[poll2]{t1-0=[0..3]}][]0.7-3s{}[cb[poll3]{t1-0=[1, 3]}]", _RENEW, _ANSWERED
    ),
    "commit/many-async": _deliberate("{t1-0=ok} callbacks<51=true errors=0", _COMMIT, _WAITED),
    "commit/async-then-sync": _idiom(
        "{t1-0=ok}[cb[commit_sync]{t1-0=[0..2]}][][cb[close]{t1-0=[3]}]",
        "into how many callbacks results are split is not promised; ours are shown put together.",
    ),
    "data/bad-value-explicit": _deliberate(
        _bad_values(
            "[t1-0:0..1x1, t1-0:3x1]", _bad(2), _bad(2), _bad(2), "commit {t1-0=ok}", _bad(2), _bad(2), "[]",
            told="[cb[poll]{t1-0=[0..3]}, cb[poll]{t1-0=[2]}, cb[commit_sync]{t1-0=[2]}, cb[poll]{t1-0=[2]}, "
            "cb[poll]{t1-0=[2]}]",
        ),
        _BAD_LAST,
        _ERRORS_LAST,
    ),
    "data/bad-value-implicit": _deliberate(
        _bad_values(
            "[t1-0:0..1x1, t1-0:3x1]", _bad(2), _bad(2), _bad(2), _bad(2), _bad(2), "[]", "[]", "[]",
            told="[cb[poll]{t1-0=[0..3]}, cb[poll]{t1-0=[2]}, cb[poll]{t1-0=[2]}, cb[poll]{t1-0=[2]}, "
            "cb[poll]{t1-0=[2]}]",
        ),
        _BAD_LAST,
        _ERRORS_LAST,
    ),
    "data/bad-value-first": _deliberate(
        _bad_values("[t1-0:1x1]", _bad(0), _bad(0), _bad(0), told="[cb[poll]{t1-0=[0..1]}, cb[poll]{t1-0=[0]}]"),
        _BAD_LAST,
        _ERRORS_LAST,
    ),
    "data/bad-value-override-reject": _deliberate(
        "[[t1-0:0x1, t1-0:2x1], RDE(RecordDeserializationError value t1-0@1 key=false value=true msg=text), "
        "wrong:IllegalStateError(), wrong2:IllegalStateError(), right:ok, again:ok, and:ok, {t1-0=ok}, "
        "late:IllegalStateError(), [], [], []][cb[commit_sync]{t1-0=[0..2]}]",
        _BAD_LAST,
        _ERRORS_LAST,
    ),
    "member/one-long-poll": _deliberate(
        "left the group during one poll longer than max.poll.interval.ms: false",
        "long-poll",
        "the time counts between polls, so that a long poll does not leave its own group.",
    ),
    "admin/describe-errors": _idiom(
        "[missing:GroupIdNotFoundError(), classic:GroupIdNotFoundError(), empty id:InvalidArgumentError(), none:{}]",
        "an empty group id is refused before anything is sent; consumer groups are not described.",
    ),
    "admin/alter": _deliberate(
        "[new:[t1-0=start 8 lag 2 epoch 0], state:Empty, mixed good:ok, bad part:UnknownTopicOrPartitionError(), "
        "bad topic:UnknownTopicOrPartitionError(), not asked:KeyError(), [t1-0=start 4 lag 6 epoch 0], "
        "beyond:[t1-0=start 1000 lag -990 epoch 0], negative:[t1-0=None], empty map:ok, "
        "empty id:InvalidArgumentError(), consume:[t1-0:8..9x1], active:NonEmptyGroupError(), "
        "active delete:NonEmptyGroupError()]",
        "start-beyond-the-end-shown",
        "a lag below zero is told; besides, results are a dict without `all()`, and no empty group id is sent.",
    ),
    "admin/delete-offsets": _idiom(
        "[missing group:GroupIdNotFoundError(), t1:ok, nope:UnknownTopicOrPartitionError(), not asked:KeyError(), "
        "[t2-0=start 0 lag 0 epoch 0], again:UnknownTopicOrPartitionError(), none:ok, consume:[t1-0:0..2x1]]",
        "the result is a dict, without `all()`.",
    ),
    "admin/delete-group": _idiom(
        "[missing:GroupIdNotFoundError(), active:NonEmptyGroupError(), empty:ok, describe:GroupIdNotFoundError(), [], "
        "again:[t1-0:0..2x1], delete_share_groups on a classic group:ok, left:false]",
        "there is no method to delete consumer groups.",
    ),
    "admin/delete-two": _idiom("ok GroupIdNotFoundError()", "the result is a dict, without `all()`."),
    "metrics/names": _idiom(
        _own_metrics(),
        "metrics of the selector and of a queue that only Java has are left out, and records whose lock was lost are "
        "counted; a group of metrics is a dict by name.",
    ),
}  # fmt: skip
"""Scenario -> our answer and why it is another than Java's."""

_NO_PLAIN_CONSUMER: Final = "kafka_share has no plain consumer."
NOT_PLAYED: Final[Mapping[str, str]] = {
    "ctor/plain-consumer-share.acknowledgement.mode=explicit": _NO_PLAIN_CONSUMER,
    "ctor/plain-consumer-share.acquire.mode=record_limit": _NO_PLAIN_CONSUMER,
    "member/consumer-on-share-group": _NO_PLAIN_CONSUMER,
}
"""Scenario of something that our client does not have -> why."""
