"""How a reading looks: tables for a terminal, one line for everything else. Pure functions."""

from __future__ import annotations

from rich.console import Group
from rich.table import Table
from rich.text import Text

from kafka_share.cli.groups.tables import UNKNOWN, assignment
from kafka_share.cli.watch.rates import Reading
from kafka_share.harmless import harmless

MAX_ROWS = 30
"""How many members, partitions, agents and leases are drawn; the rest is counted."""

_COUNTS = {
    "open_leases": "OPEN",
    "open_records": "OPEN-RECORDS",
    "leases_done": "DONE",
    "records_accepted": "ACCEPTED",
    "records_redelivered": "REDELIVERED",
    "records_lost": "LOST",
}
"""What an agent counts -> the heading of its column."""


def line(reading: Reading, time: str) -> str:
    """One line of words, for logs and pipes."""
    snapshot = reading.snapshot
    return (
        f"{time} {snapshot.group_id} {snapshot.state.value} members={len(snapshot.members)} "
        f"partitions={len(snapshot.partitions)} lag={_shown(snapshot.lag)} rate={_rate(reading.rate)}"
        f"{_leases_in_words(reading)}"
    )


def _leases_in_words(reading: Reading) -> str:
    if not reading.agents:
        return ""
    totals = {name: sum(agent.counts[name] for agent in reading.agents) for name in ("renewals", *_COUNTS)}
    return (
        f" agents={len(reading.agents)} open_leases={totals['open_leases']} open_records={totals['open_records']} "
        f"renewals={totals['renewals']} redelivered={totals['records_redelivered']} lost={totals['records_lost']}"
    )


def screen(reading: Reading, time: str) -> Group:
    """Headline, partitions, members; with Spark on this host, its lease agents and what they hold."""
    snapshot = reading.snapshot
    headline = Text(
        f"{harmless(snapshot.group_id)}  {snapshot.state.value}  members {len(snapshot.members)}  "
        f"lag {_shown(snapshot.lag)}  {_rate(reading.rate)} records/s  {time}",
        style="bold",
    )
    spark = (_agents(reading), _leases(reading)) if reading.agents else ()
    return Group(headline, _partitions(reading), _members(reading), *spark)


def _partitions(reading: Reading) -> Table:
    table = Table("TOPIC", box=None, pad_edge=False)
    for name in ("PARTITION", "START-OFFSET", "END-OFFSET", "LAG", "RECORDS/S", "MEMBERS"):
        table.add_column(name, justify="right")
    partitions = reading.snapshot.partitions
    for one in partitions[:MAX_ROWS]:
        table.add_row(
            Text(harmless(one.where.topic)),
            str(one.where.partition),
            _shown(one.start_offset),
            _shown(one.end_offset),
            _shown(one.lag),
            _rate(reading.rates.get(one.where)),
            str(len(one.member_ids)),
        )
    _count_the_rest(table, len(partitions))
    return table


def _members(reading: Reading) -> Table:
    table = Table("CONSUMER-ID", "HOST", "CLIENT-ID", "ASSIGNMENT", box=None, pad_edge=False)
    members = reading.snapshot.members
    for member in members[:MAX_ROWS]:
        texts = (member.member_id, member.client_host, member.client_id, assignment(member))
        table.add_row(*(Text(harmless(text)) for text in texts))
    _count_the_rest(table, len(members))
    return table


def _agents(reading: Reading) -> Table:
    table = Table("LEASE-AGENT", "READS", box=None, pad_edge=False)
    for name in _COUNTS.values():
        table.add_column(name, justify="right")
    for agent in reading.agents[:MAX_ROWS]:
        counts = (str(agent.counts[name]) for name in _COUNTS)
        table.add_row(Text(harmless(agent.name)), "batch" if agent.is_batch else "stream", *counts)
    _count_the_rest(table, len(reading.agents))
    return table


def _leases(reading: Reading) -> Table:
    """What is open, agent by agent, oldest first."""
    table = Table("LEASE", box=None, pad_edge=False)
    for name in ("AGE", "RECORDS", "RENEWALS", "LOST", "REPLAYS"):
        table.add_column(name, justify="right")
    rows = [(agent, lease) for agent in reading.agents for lease in agent.leases]
    for agent, lease in rows[:MAX_ROWS]:
        counts = (lease.records, lease.renewals, lease.records_lost, lease.replays)
        lease_id = Text(harmless(f"{agent.name}-{lease.number}"))
        table.add_row(lease_id, f"{lease.age_ms / 1_000:.1f} s", *(str(count) for count in counts))
    _count_the_rest(table, len(rows))
    return table


def _count_the_rest(table: Table, count: int) -> None:
    if count > MAX_ROWS:
        table.add_row(f"... and {count - MAX_ROWS} more")


def _shown(number: int | None) -> str:
    return UNKNOWN if number is None else str(number)


def _rate(rate: float | None) -> str:
    return UNKNOWN if rate is None else f"{rate:.1f}"
