"""Many members at once: are heartbeats of the reference broker answered in time, and what does that cost it?

    python -m performance.members [--members 500] [--groups 50] [--partitions 200] [--seconds 60]

Raw requests by one process: each member has a connection for heartbeats, which it sends as often as the broker says,
and with `--fetch` another one with a ShareFetch that waits for records. Nobody produces any. Prints what the answers
took, and the broker's CPU and memory, as JSON.
"""

from __future__ import annotations

import argparse
import heapq
import json
import select
import sys
import time
import uuid
from collections.abc import Iterator, Sequence
from typing import Any, Final

import attrs
from conformance.kafka_targets import REFERENCE, running
from performance.figures import percentile
from performance.machine import cpu_s, rss_mb
from support.share_requests import SHARE_VERSION, Limits, Topic, fetch_request
from support.wire_connection import WireConnection

from kafka_share.cli.demo.cluster import Cluster
from kafka_share.protocol.share_group import ShareGroupHeartbeatRequest

_TOPIC: Final = "members"
_HEARTBEAT_VERSION: Final = 1
_FETCH_WAIT_MS: Final = 5_000
_PREPARATION_S: Final = 120


@attrs.frozen
class Load:
    """Who there is, and for how long."""

    members: int
    groups: int
    partitions: int
    seconds: float
    fetch: bool = False


class _Wired:
    def __init__(self, bootstrap: str) -> None:
        self.wire: WireConnection = WireConnection(bootstrap)


class _Heartbeats(_Wired):
    """One member's heartbeats."""

    def __init__(self, bootstrap: str, group: str) -> None:
        super().__init__(bootstrap)
        self.group = group
        self.member_id = str(uuid.uuid4())
        self.epoch = 0
        self.assigned: list[Any] = []
        self.sent_at_s = 0.0
        self.interval_s = 0.0

    def send(self) -> None:
        topics = [_TOPIC] if self.epoch == 0 else None
        request = ShareGroupHeartbeatRequest(
            group_id=self.group, member_id=self.member_id, member_epoch=self.epoch, subscribed_topic_names=topics
        )
        self.sent_at_s = time.monotonic()
        self.wire.send(request, _HEARTBEAT_VERSION)

    def receive(self) -> float:
        """Take the answer; the seconds that it took. Fails if the member is not in the group any more."""
        answer = self.wire.receive()
        assert answer.error_code == 0, f"a member got error {answer.error_code}: {answer.error_message}"
        self.epoch, self.interval_s = answer.member_epoch, answer.heartbeat_interval_ms / 1_000
        if answer.assignment is not None:
            self.assigned = answer.assignment.topic_partitions
        return time.monotonic() - self.sent_at_s


class _Fetches(_Wired):
    """The share session of a member: a fetch always waits."""

    def __init__(self, bootstrap: str, member: _Heartbeats) -> None:
        super().__init__(bootstrap)
        self._member = member
        (assigned,) = member.assigned
        self._topic = Topic(_TOPIC, assigned.topic_id, member.group, len(assigned.partitions))
        self._epoch = 0
        self.send()

    def send(self) -> None:
        limits = Limits(max_wait_ms=_FETCH_WAIT_MS)
        self.wire.send(fetch_request(self._topic, self._member.member_id, self._epoch, limits, []), SHARE_VERSION)
        self._epoch += 1

    def receive(self) -> None:
        answer = self.wire.receive()
        assert answer.error_code == 0, f"a fetch got error {answer.error_code}: {answer.error_message}"
        self.send()


def measure(load: Load) -> dict[str, Any]:
    """Run it on a broker of its own."""
    with running(REFERENCE, settings={}) as target:
        bootstrap, pid = target.bootstrap_servers, target.pid
        assert pid is not None
        with Cluster(bootstrap, time.monotonic() + _PREPARATION_S) as cluster:
            cluster.create_topic(_TOPIC, load.partitions)
        members = [_Heartbeats(bootstrap, f"group-{number % load.groups}") for number in range(load.members)]
        joining_s = _join(members)
        fetches = list(_fetching(bootstrap, members, load.seconds)) if load.fetch else []
        before_s, began_at_s = cpu_s(pid), time.monotonic()
        took_s = _keep(members, fetches, began_at_s + load.seconds)
        seconds, after_s = time.monotonic() - began_at_s, cpu_s(pid)
        memory_mb = rss_mb(pid)
        wired: list[_Wired] = [*members, *fetches]
        for one in wired:
            one.wire.close()
    milliseconds = [1_000 * each for each in took_s]
    used_s = None if before_s is None or after_s is None else after_s - before_s
    return {
        **attrs.asdict(load),
        "heartbeats": len(took_s),
        "joining_s": round(joining_s, 1),
        "p50_ms": round(percentile(milliseconds, 50), 2),
        "p99_ms": round(percentile(milliseconds, 99), 2),
        "longest_ms": round(max(milliseconds), 2),
        "broker_cpu_percent": None if used_s is None else round(100 * used_s / seconds, 1),
        "broker_mb": memory_mb,
    }


def _join(members: Sequence[_Heartbeats]) -> float:
    """All members, until each has its assignment; the seconds that it took."""
    began_at_s = time.monotonic()
    missing = list(members)
    while missing:
        for member in missing:
            member.send()
        for member in missing:
            member.receive()
        missing = [member for member in missing if not member.assigned]
    return time.monotonic() - began_at_s


def _fetching(bootstrap: str, members: Sequence[_Heartbeats], seconds: float) -> Iterator[_Fetches]:
    """They begin one after the other, as members of programs of their own do: else all waits would end at once."""
    for member in members:
        yield _Fetches(bootstrap, member)
        time.sleep(min(_FETCH_WAIT_MS / 1_000, seconds) / len(members))


def _keep(members: Sequence[_Heartbeats], fetches: Sequence[_Fetches], until_s: float) -> list[float]:
    """Heartbeats when they are due, fetches always; the seconds that each answer to a heartbeat took."""
    by_socket: dict[int, _Heartbeats | _Fetches] = {one.wire.fileno(): one for one in members}
    by_socket |= {one.wire.fileno(): one for one in fetches}
    poll = select.poll()
    for number in by_socket:
        poll.register(number, select.POLLIN)
    now_s = time.monotonic()
    spread = [
        now_s + number * min(member.interval_s, until_s - now_s) / len(members) for number, member in enumerate(members)
    ]
    due = [(at_s, number) for number, at_s in enumerate(spread)]
    heapq.heapify(due)
    took_s: list[float] = []
    waiting = 0
    while (now_s := time.monotonic()) < until_s or waiting:
        while due and due[0][0] <= now_s < until_s:
            _, number = heapq.heappop(due)
            members[number].send()
            waiting += 1
            heapq.heappush(due, (members[number].sent_at_s + members[number].interval_s, number))
        wait_s = max(0.0, min(due[0][0], until_s) - time.monotonic())
        for number, _ in poll.poll(1_000 * wait_s if now_s < until_s else 1_000):
            one = by_socket[number]
            if isinstance(one, _Heartbeats):
                took_s.append(one.receive())
                waiting -= 1
            else:
                one.receive()
    return took_s


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--members", type=int, default=500)
    parser.add_argument("--groups", type=int, default=50)
    parser.add_argument("--partitions", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--fetch", action="store_true", help="each member has a ShareFetch that waits, too")
    sys.stdout.write(json.dumps(measure(Load(**vars(parser.parse_args(words)))), indent=1) + "\n")


if __name__ == "__main__":
    main()
