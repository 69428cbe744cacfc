"""Move a share group to another place of its topics: to the start, the end, or a point in time.

    python examples/reset_offsets.py                              # a sample group on a broker that it starts
    python examples/reset_offsets.py --bootstrap-server localhost:9092 --group reports --topic orders --to earliest
    python examples/reset_offsets.py … --to 2026-11-21T08:00:00+00:00 --execute

Without --execute it only shows what it would do. The group must have no members: stop its consumers first, and wait a
moment, since a broker that still has one of their connections open goes on with the old offsets.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Generator
from datetime import UTC, datetime

from kafka_share import KafkaShareAdmin, KafkaShareError, OffsetSpec, TopicPartition
from kafka_share.broker import ReferenceBroker
from kafka_share.errors import GroupIdNotFoundError


def place(text: str) -> OffsetSpec | int:
    """The argument of --to: a name, or a time that becomes milliseconds since 1970."""
    if text in ("earliest", "latest"):
        return OffsetSpec[text.upper()]
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return int(moment.timestamp() * 1000)


def new_offsets(admin: KafkaShareAdmin, topic: str, to: OffsetSpec | int) -> dict[TopicPartition, int]:
    """Where each partition of the topic has to start. Raises the first error that the cluster has for it."""
    described = admin.describe_topics([topic])[topic]
    if isinstance(described, KafkaShareError):
        raise described
    partitions = [TopicPartition(topic, partition.partition) for partition in described.partitions]
    found = admin.list_offsets(dict.fromkeys(partitions, to))
    ends = admin.list_offsets(dict.fromkeys(partitions, OffsetSpec.LATEST))
    wanted: dict[TopicPartition, int] = {}
    for where in partitions:
        listed = found[where] or ends[where]  # no record at or after the time: begin with the next one
        if isinstance(listed, KafkaShareError):
            raise listed
        assert listed is not None, "every partition has an end"
        wanted[where] = listed.offset
    return wanted


def present_offsets(admin: KafkaShareAdmin, group: str, partitions: list[TopicPartition]) -> dict[TopicPartition, str]:
    """Where the group is now, as text; "-" where nothing is stored."""
    stored = admin.list_share_group_offsets({group: partitions})[group]
    if isinstance(stored, KafkaShareError):
        raise stored
    shown: dict[TopicPartition, str] = {}
    for where, offset in stored.items():
        if isinstance(offset, KafkaShareError):
            raise offset
        shown[where] = "-" if offset is None else str(offset.start_offset)
    return shown


def reset(admin: KafkaShareAdmin, group: str, topic: str, to: OffsetSpec | int, *, execute: bool) -> int:
    """Show, and with `execute` do it; returns the exit code."""
    described = admin.describe_share_groups([group])[group]
    if isinstance(described, KafkaShareError):
        if not isinstance(described, GroupIdNotFoundError):  # a group that does not exist yet is made by the reset
            raise described
    elif described.members:
        print(f"group {group} has {len(described.members)} members; stop them first", file=sys.stderr)
        return 1
    wanted = new_offsets(admin, topic, to)
    present = present_offsets(admin, group, list(wanted))
    failed = 0
    results = admin.alter_share_group_offsets(group, wanted) if execute else dict.fromkeys(wanted)
    for where, offset in wanted.items():
        error = results[where]
        failed += error is not None
        print(f"{where}: {present[where]} -> {offset}" + (f" FAILED ({error})" if error else ""))
    if not execute:
        print("nothing was changed; add --execute to do it")
    return 1 if failed else 0


@contextlib.contextmanager
def sample_broker(topic: str, group: str) -> Generator[str]:
    """A broker where the group has worked off four of five orders."""
    with ReferenceBroker() as broker:
        broker.create_topic(topic)
        for number in range(5):
            broker.produce(topic, b"order %d" % number)
        with KafkaShareAdmin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.alter_share_group_offsets(group, {TopicPartition(topic, 0): 4})
        yield broker.bootstrap_servers


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bootstrap-server", metavar="HOST:PORT", help="default: a new broker with samples")
    parser.add_argument("--group", default="reports")
    parser.add_argument("--topic", default="orders")
    parser.add_argument("--to", type=place, default=OffsetSpec.EARLIEST, help="earliest, latest or an ISO 8601 time")
    parser.add_argument("--execute", action="store_true", help="change the offsets instead of showing the change")
    options = parser.parse_args()
    with contextlib.ExitStack() as stack:
        servers = options.bootstrap_server
        if servers is None:
            servers = stack.enter_context(sample_broker(options.topic, options.group))
        admin = stack.enter_context(KafkaShareAdmin(bootstrap_servers=servers))
        try:
            return reset(admin, options.group, options.topic, options.to, execute=options.execute)
        except KafkaShareError as error:
            print(error, file=sys.stderr)
            return 1


if __name__ == "__main__":
    sys.exit(main())
