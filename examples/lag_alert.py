"""Watch the lag of share groups and warn when one falls behind; with asyncio.

    python examples/lag_alert.py                                  # sample groups on a broker that it starts
    python examples/lag_alert.py --bootstrap-server localhost:9092 --limit 1000 --every 30

A group is reported once when its lag passes the limit, and once when it is back. Each round asks all brokers for the
share groups, then each coordinator once for the offsets of all of its groups. A broker that cannot be reached is
reported: its groups are missing meanwhile. Brokers of Kafka 4.1 report no lag.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
from collections.abc import Generator, Mapping

from kafka_share import AsyncShareAdmin, KafkaShareAdmin, KafkaShareError, SharePartitionOffset, TopicPartition
from kafka_share.broker import ReferenceBroker


async def lags(admin: AsyncShareAdmin) -> tuple[dict[str, int], list[str]]:
    """The lag of each share group over all its partitions, and what could not be seen."""
    listed = await admin.list_share_groups()
    unseen = [f"{node}: {error}" for node, error in listed.errors.items()]
    groups = await admin.list_share_group_offsets({group.group_id: None for group in listed.groups})
    found: dict[str, int] = {}
    for group_id, offsets in groups.items():
        if isinstance(offsets, KafkaShareError):
            unseen.append(f"group {group_id}: {offsets}")
            continue
        for where, offset in offsets.items():
            if isinstance(offset, KafkaShareError):
                unseen.append(f"group {group_id}, {where}: {offset}")
            elif isinstance(offset, SharePartitionOffset) and offset.lag is not None:
                found[group_id] = found.get(group_id, 0) + max(0, offset.lag)
    return found, unseen


class Alerts:
    """Which groups are behind; says only what has changed."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._behind: set[str] = set()

    def changes(self, found: Mapping[str, int]) -> list[str]:
        """The lines to print for this round, in the order of the groups' names."""
        lines: list[str] = []
        for group_id in sorted(found):
            lag, was_behind = found[group_id], group_id in self._behind
            if lag > self._limit and not was_behind:
                self._behind.add(group_id)
                lines.append(f"ALERT {group_id} is {lag} records behind")
            elif lag <= self._limit and was_behind:
                self._behind.discard(group_id)
                lines.append(f"ok {group_id} has caught up, {lag} records behind")
        return lines


async def watch(servers: str, limit: int, every_s: float, rounds: int | None) -> None:
    alerts = Alerts(limit)
    async with AsyncShareAdmin(bootstrap_servers=servers, client_id="lag-alert") as admin:
        while rounds is None or rounds > 0:
            try:
                found, unseen = await lags(admin)
            except KafkaShareError as error:
                found, unseen = {}, [str(error)]
            for line in (*alerts.changes(found), *(f"not seen: {reason}" for reason in unseen)):
                print(line, flush=True)
            rounds = None if rounds is None else rounds - 1
            if rounds != 0:
                await asyncio.sleep(every_s)


@contextlib.contextmanager
def sample_broker() -> Generator[str]:
    """A broker with one group that is up to date and one that is twenty records behind."""
    with ReferenceBroker() as broker:
        broker.create_topic("clicks")
        broker.produce_batch("clicks", [b"click"] * 20)
        with KafkaShareAdmin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.alter_share_group_offsets("billing", {TopicPartition("clicks", 0): 20})
            admin.alter_share_group_offsets("reports", {TopicPartition("clicks", 0): 0})
        yield broker.bootstrap_servers


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bootstrap-server", metavar="HOST:PORT", help="default: a new broker with samples")
    parser.add_argument("--limit", type=int, default=10, help="records that a group may be behind")
    parser.add_argument("--every", type=float, default=10.0, metavar="SECONDS")
    parser.add_argument("--rounds", type=int, help="end after this many looks")
    options = parser.parse_args()
    with contextlib.ExitStack() as stack:
        servers, rounds = options.bootstrap_server, options.rounds
        if servers is None:
            servers, rounds = stack.enter_context(sample_broker()), rounds or 1
        with contextlib.suppress(KeyboardInterrupt):
            asyncio.run(watch(servers, options.limit, options.every, rounds))


if __name__ == "__main__":
    main()
