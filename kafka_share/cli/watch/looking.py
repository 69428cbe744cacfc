"""`kafka-share watch` at work: takes snapshots until it has taken enough, and shows each. `command` calls it."""

from __future__ import annotations

import contextlib
import itertools
import sys
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import TypeAlias

import attrs
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from kafka_share.admin import KafkaShareAdmin
from kafka_share.cli.endings import problem_of, with_remedy
from kafka_share.cli.group_snapshot import take_snapshots
from kafka_share.cli.output import print_document, print_line
from kafka_share.cli.watch.keys import Pause, quit_by_key
from kafka_share.cli.watch.rates import Rates, Reading
from kafka_share.cli.watch.view import line, screen
from kafka_share.errors import KafkaShareError
from kafka_share.harmless import harmless
from kafka_share.spark.agent_status import agents_of_group

Show: TypeAlias = Callable[[Reading | KafkaShareError], None]


def watch_group(
    admin: KafkaShareAdmin,
    group: str,
    interval_ms: int,
    count: int | None,
    *,
    as_json: bool,
    agent_dir: str = "",
) -> bool:
    """Look `count` times (None: until q or Ctrl-C, which are no failures); returns whether the last look succeeded.

    `agent_dir`: where Spark's lease agents have their folders; empty: where they have them by default.
    """
    ok = True
    with quit_by_key() as (pause, has_key), _shower(as_json, has_key) as show, contextlib.suppress(KeyboardInterrupt):
        for reading in _readings(admin, group, agent_dir, interval_ms, count, pause):
            ok = not isinstance(reading, KafkaShareError)
            show(reading)
        return ok
    return True


def _readings(
    admin: KafkaShareAdmin, group: str, agent_dir: str, interval_ms: int, count: int | None, pause: Pause
) -> Iterator[Reading | KafkaShareError]:
    rates = Rates()
    for number in itertools.count():
        if number == count or (number and pause(interval_ms / 1000)):
            return
        try:
            snapshot = take_snapshots(admin, [group])[group]
        except KafkaShareError as error:
            snapshot = error
        if isinstance(snapshot, KafkaShareError):
            yield snapshot
        else:
            yield rates.read(snapshot, time.monotonic_ns() // 1_000_000, agents_of_group(group, agent_dir))


@contextlib.contextmanager
def _shower(as_json: bool, has_key: bool) -> Iterator[Show]:
    """How each look is shown, for as long as the block runs."""
    console = Console(file=sys.stdout)
    if as_json:
        yield _show_json
    elif console.is_terminal:
        with Live(console=console, auto_refresh=False) as live:
            hint = Text("q quits", style="dim") if has_key else Text()

            def draw(reading: Reading | KafkaShareError) -> None:
                if isinstance(reading, KafkaShareError):
                    live.update(Group(Text(harmless(_failure(reading))), hint), refresh=True)
                else:
                    live.update(Group(screen(reading, _time()), hint), refresh=True)

            yield draw
    else:
        yield _show_line


def _show_line(reading: Reading | KafkaShareError) -> None:
    if isinstance(reading, KafkaShareError):
        print_line(_failure(reading), err=True)
    else:
        print_line(line(reading, _time()))


def _show_json(reading: Reading | KafkaShareError) -> None:
    if isinstance(reading, KafkaShareError):
        print_document({"time": _time(), "error": problem_of(reading)._asdict()})
        return
    snapshot = reading.snapshot
    partitions = [
        {
            "topic": one.where.topic,
            "partition": one.where.partition,
            "start_offset": one.start_offset,
            "end_offset": one.end_offset,
            "lag": one.lag,
            "rate": reading.rates.get(one.where),
            "members": list(one.member_ids),
        }
        for one in snapshot.partitions
    ]
    document = {
        "time": _time(),
        "group": snapshot.group_id,
        "state": snapshot.state.value,
        "members": len(snapshot.members),
        "lag": snapshot.lag,
        "rate": reading.rate,
        "partitions": partitions,
        "agents": [attrs.asdict(agent) for agent in reading.agents],
    }
    print_document(document)


def _failure(error: KafkaShareError) -> str:
    return f"{_time()} {with_remedy(error)}"


def _time() -> str:
    return datetime.now().astimezone().isoformat(timespec="seconds")
