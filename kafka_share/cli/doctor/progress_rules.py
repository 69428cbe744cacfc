"""The rules of `kafka-share doctor` about how far a group has come: where it starts, what waits, and what became of it.

`diagnosis` asks them in the order of `PROGRESS`. Pure functions.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Final

from kafka_share.admin_values import ShareMemberDescription
from kafka_share.cli.doctor.facts import Facts, PartitionFacts
from kafka_share.cli.doctor.finding import (
    MAX_NAMED,
    Finding,
    Rule,
    cause,
    config_command,
    counted,
    note,
    partitions_named,
)
from kafka_share.cli.doctor.history import Deliveries
from kafka_share.errors import KafkaShareError

_DEFAULT_LOCK_MS: Final = 30_000
_DEFAULT_DELIVERIES: Final = 5
"""Of Kafka; taken where the brokers do not tell what is in force."""


def _start(facts: Facts) -> Iterator[Finding]:
    untouched = [p for p in facts.partitions if p.now.start_offset is None and p.has_records]
    if untouched and facts.config("share.auto.offset.reset") == "latest":
        is_new = all(p.now.start_offset is None for p in facts.partitions)
        yield (cause if is_new else note)(
            "starts-at-latest",
            f"The group has finished nothing in {partitions_named(untouched)}, and share.auto.offset.reset is latest: "
            "it gets only records that are written after it has begun to read there.",
            "For the records that are there already, before the first consumer starts: "
            + config_command(facts, "share.auto.offset.reset=earliest")
            + "; later: kafka-share-groups --reset-offsets --to-earliest, without members.",
        )
    beyond = [p for p in facts.partitions if p.now.lag is not None and p.now.lag < 0]
    if beyond:
        yield cause(
            "starts-beyond-the-end",
            f"In {partitions_named(beyond)} the group starts beyond the end of the log.",
            "Reset its offsets without members: kafka-share-groups --reset-offsets --to-latest",
        )


def _finished(facts: Facts) -> Iterator[Finding]:
    if not facts.partitions or any(p.waiting != 0 for p in facts.partitions):
        return
    known = [p.history for p in facts.partitions if p.history is not None]
    if facts.history_unknown is not None:
        history = f"Which of them they were cannot be told here: {facts.history_unknown.rstrip('.')}."
    elif any(one.archived for one in known):
        history = "Those that were not accepted are named here, too."
    else:
        since = f" since {_time(min(one.since_ms for one in known))}" if known else ""
        history = f"The brokers' history knows of none{since} that was not accepted."
    yield note(
        "nothing-new",
        f"The group has finished every record of '{facts.topic_name}': its lag is 0. A record is finished when it was "
        f"accepted, when it was rejected, and when its last delivery has failed. {history}",
        "New records will arrive.",
    )


def _archived(facts: Facts) -> Iterator[Finding]:
    limit = _delivery_limit(facts)
    for partition in facts.partitions:
        archived = partition.history.archived if partition.history is not None else ()
        given_up = [one for one in archived if one.delivery_count >= limit]
        if given_up:
            place = shlex.quote(f"{facts.topic_name}:{partition.partition}")
            yield cause(
                "given-up",
                f"In partition {partition.partition}, {_archived_text(partition, given_up)} on the last of {limit} "
                f"deliveries ({_offsets(given_up)}): nobody gets them any more.",
                "Look for these offsets in the application's log: each delivery ended in a release, in a lock that ran "
                "out, or the last one in a rejection. To have them delivered again, let all members end, then: "
                f"kafka-share-groups --bootstrap-server … --reset-offsets --group {shlex.quote(facts.group_id)} "
                f"--topic {place} --to-offset {given_up[0].first} --execute",
            )
        rejected = [one for one in archived if one.delivery_count < limit]
        if rejected:
            yield note(
                "rejected",
                f"In partition {partition.partition}, {_archived_text(partition, rejected)} before the last delivery "
                f"({_offsets(rejected)}).",
                "The application has rejected what is there. In a topic with transactions, an offset may also be the "
                "mark that ends one, or of a record that was aborted.",
            )


def _archived_text(partition: PartitionFacts, found: list[Deliveries]) -> str:
    since = "" if partition.history is None else f" since {_time(partition.history.since_ms)}"
    number = sum(one.record_count for one in found)
    return f"{counted(number, 'record')} {'was' if number == 1 else 'were'} archived{since}"


def _waiting(facts: Facts) -> Iterator[Finding]:
    """What keeps records that wait: a transaction, deliveries that fail, or locks."""
    moving = [p for p in facts.partitions if p.has_moved]
    if moving:
        yield note(
            "moving",
            f"In {partitions_named(moving)} the group finished records within {facts.observed_ms} ms.",
            "Records arrive at some member: with several members look at all of them.",
        )
    for partition in facts.partitions:
        yield from _transaction(partition, facts)
        holders = _holders(partition, facts)
        # Without a member of this partition nobody gets anything, and there is another finding.
        if holders and _is_stuck(partition, facts):
            comes_again = _comes_again(partition, facts)
            yield _delivered_again(partition, facts) if comes_again else _locks_held(partition, facts, holders)


def _holders(partition: PartitionFacts, facts: Facts) -> list[ShareMemberDescription]:
    """The members that can have acquired something of the partition."""
    members = () if isinstance(facts.group, KafkaShareError) else facts.group.members
    return [member for member in members if (facts.topic_name, partition.partition) in member.assignment]


def _visible(partition: PartitionFacts) -> int:
    """Records that wait and that a member could get."""
    waiting = partition.record_count if partition.waiting is None else partition.waiting
    return waiting - partition.behind_a_transaction


def _transaction(partition: PartitionFacts, facts: Facts) -> Iterator[Finding]:
    behind = partition.behind_a_transaction
    if not behind:
        return
    yield (note if partition.has_moved or _visible(partition) > 0 else cause)(
        "open-transaction",
        f"In partition {partition.partition}, {counted(behind, 'record')} from offset {partition.stable_end} on "
        f"{'waits' if behind == 1 else 'wait'} for a producer to end its transaction: the group's "
        "share.isolation.level is read_committed.",
        "Its producer ends it, or the broker after the producer's transaction.timeout.ms. To find it: "
        "kafka-transactions.sh --bootstrap-server … describe-producers --topic "
        f"{shlex.quote(facts.topic_name)} --partition {partition.partition}; to end one that hangs: the same tool's "
        "abort.",
    )


def _is_stuck(partition: PartitionFacts, facts: Facts) -> bool:
    """There are records that a member could get, and the group finishes none."""
    if partition.has_moved or _visible(partition) <= 0:
        return False
    return partition.now.start_offset is not None or facts.config("share.auto.offset.reset") != "latest"


def _comes_again(partition: PartitionFacts, facts: Facts) -> bool:
    """Whether records have been given back, and lately enough that it is going on."""
    history = partition.history
    if history is None or history.last_ms is None or not history.released:
        return False
    return facts.now_ms - history.last_ms < _lock_ms(facts)


def _delivered_again(partition: PartitionFacts, facts: Facts) -> Finding:
    released = () if partition.history is None else partition.history.released
    most = max(one.delivery_count for one in released)
    return cause(
        "delivered-again",
        f"In partition {partition.partition}, {counted(sum(one.record_count for one in released), 'record')} "
        f"({_offsets(released)}) came back from a member without an outcome, after delivery {most} "
        f"of {_delivery_limit(facts)} at most; the group finishes nothing.",
        "Look into the application's log for its error with these offsets: it releases them, is closed with them, or "
        "crashes. After the last delivery they are archived, and nobody gets them any more.",
    )


def _locks_held(partition: PartitionFacts, facts: Facts, holders: Sequence[ShareMemberDescription]) -> Finding:
    names = ", ".join(f"{m.member_id} ({m.client_id} at {m.client_host})" for m in holders[:MAX_NAMED])
    more = f" and {len(holders) - MAX_NAMED} more" if len(holders) > MAX_NAMED else ""
    who = f"member {names}" if len(holders) == 1 else f"one of the members {names}{more}"
    number = _visible(partition)
    return cause(
        "locks-held",
        f"In partition {partition.partition}, {counted(number, 'record')} {'waits' if number == 1 else 'wait'} and "
        f"none was finished within {facts.observed_ms} ms: {'it is' if number == 1 else 'they are'} held under "
        f"acquisition locks by {who}.",
        "See what that application does with them: acknowledged late or never, they come back only when their lock "
        f"ends ({_lock_ms(facts)} ms), as long as it is not renewed. If it takes long over each batch, watch for "
        "longer: --observe.",
    )


def _renew(facts: Facts) -> Iterator[Finding]:
    if facts.config("share.renew.acknowledge.enable") == "false":
        yield note(
            "renew-disabled",
            "The group does not allow lock renewal: an acknowledgement of type RENEW fails, and its record is given "
            "to somebody else when the lock ends.",
            "Renew nothing, or " + config_command(facts, "share.renew.acknowledge.enable=true"),
        )


def _lag_unknown(facts: Facts) -> Iterator[Finding]:
    blind = [p for p in facts.partitions if p.now.start_offset is not None and p.now.lag is None]
    if blind:
        yield note(
            "lag-unknown",
            f"The brokers do not tell the lag of {partitions_named(blind)} (Kafka 4.1 does not); it is taken from the "
            "start offset, which is stored late.",
            "Kafka 4.2 and later tell it.",
        )


def _lock_ms(facts: Facts) -> int:
    return _number(facts.config("share.record.lock.duration.ms"), _DEFAULT_LOCK_MS)


def _delivery_limit(facts: Facts) -> int:
    return _number(facts.config("share.delivery.count.limit"), _DEFAULT_DELIVERIES)


def _number(text: str | None, default: int) -> int:
    return int(text) if text is not None and text.isdecimal() else default


def _offsets(found: Iterable[Deliveries]) -> str:
    """As in "offsets 5, 9-12"; of many, the first ones."""
    spans = list(found)
    shown = [str(one.first) if one.first == one.last else f"{one.first}-{one.last}" for one in spans[:MAX_NAMED]]
    more = ", …" if len(spans) > MAX_NAMED else ""
    plural = len(spans) > 1 or spans[0].record_count > 1
    return f"offset{'s' if plural else ''} {', '.join(shown)}{more}"


def _time(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms // 1_000, UTC).isoformat().replace("+00:00", "Z")


PROGRESS: Final[tuple[Rule, ...]] = (_start, _archived, _finished, _waiting, _renew, _lag_unknown)
"""These add up."""
