"""What kind of a client one is, and what kind of a cluster: values drawn from the seed before anything happens."""

from __future__ import annotations

import random
from typing import Final

import attrs

SESSION_TIMEOUT_MS: Final = 3_000
HEARTBEAT_INTERVAL_MS: Final = 500
LOCK_LIMIT: Final = 100
"""In-flight records per share partition: the least that a broker takes."""
API_TIMEOUT_MS: Final = 4_000
SETUP_TIMEOUT_MS: Final = 1_500
"""From the first packet of a connection to its first request."""
POISON: Final = b"!"
"""Values that begin so make the deserializer fail."""


@attrs.frozen(kw_only=True)
class ClusterProfile:
    """The brokers, and the topics with their numbers of partitions."""

    nodes: int
    kafka_version: str
    lock_ms: int
    delivery_limit: int
    reset: str
    assignment_interval_ms: int
    session_limit: int
    latency_ms: tuple[int, int]
    topics: dict[str, int]
    groups: tuple[str, ...]
    auto_create: bool

    def config(self) -> dict[str, str]:
        """The static settings of the brokers."""
        settings = {
            "group.share.heartbeat.interval.ms": HEARTBEAT_INTERVAL_MS,
            "group.share.min.heartbeat.interval.ms": HEARTBEAT_INTERVAL_MS,
            "group.share.session.timeout.ms": SESSION_TIMEOUT_MS,
            "group.share.min.session.timeout.ms": SESSION_TIMEOUT_MS,
            "group.share.record.lock.duration.ms": self.lock_ms,
            "group.share.min.record.lock.duration.ms": 1_000,
            "group.share.partition.max.record.locks": LOCK_LIMIT,
            "group.share.delivery.count.limit": self.delivery_limit,
            "group.share.max.share.sessions": self.session_limit,
            "default.replication.factor": self.nodes,
            "auto.create.topics.enable": str(self.auto_create).lower(),
        }
        if self.kafka_version in ("4.3", "4.4"):
            settings["group.share.assignment.interval.ms"] = self.assignment_interval_ms
        return {name: str(value) for name, value in settings.items()}


@attrs.frozen(kw_only=True)
class ClientProfile:
    """How an application uses its consumer. Probabilities are per record or per round.

    The defaults are the library's; the application that goes with them polls and does nothing else.
    """

    group: str
    topics: tuple[str, ...]
    explicit: bool = False
    window_records: int = 0
    """Of the open in-flight window; 0: none."""
    record_limit: bool = False
    max_poll_records: int = 500
    poll_timeout_ms: int = 1_000
    work_ms: int = 0
    """The longest time that a batch takes."""
    idle_ms: int = 0
    """The longest pause between two rounds, taken now and then."""
    fetch_max_wait_ms: int = 500
    request_timeout_ms: int = 30_000
    max_poll_interval_ms: int = 300_000
    auto_create: bool = False
    release: float = 0
    reject: float = 0
    renew: float = 0
    commit_sync: float = 0
    commit_async: float = 0
    leave_open: float = 0
    """Part of the rounds that commit before every record has been acknowledged."""
    unsubscribe: float = 0
    protect_locks: bool = True
    release_backoff_ms: int = 1_000
    loops: bool = False
    """Whether it takes its records from a loop over the consumer."""
    metrics_push: bool = False
    send_ahead: bool = False
    lends: bool = False
    """The core lends its share session to the thread that polls, where the extension is compiled."""
    deserializes: bool = True


def draw_cluster(source: random.Random) -> ClusterProfile:
    version = source.choices(["4.3", "4.2", "4.4", "4.1"], [7, 1, 1, 1])[0]
    nodes = source.choice((1, 2, 2, 3, 3))
    names = ("a", "b") if source.random() < 0.5 else ("a",)
    return ClusterProfile(
        nodes=nodes,
        kafka_version=version,
        lock_ms=source.choice((1_000, 1_500, 3_000)),
        delivery_limit=source.choice((2, 3, 5, 5)),
        reset=source.choices(("earliest", "latest"), (5, 1))[0],
        assignment_interval_ms=source.choice((0, 0, 300, 1_000)),
        session_limit=source.choices((2_000, 2), (12, 1))[0],
        latency_ms=source.choice(((0, 0), (1, 3), (1, 10), (5, 60))),
        topics={name: source.choice((1, 1, 1, 2, 3)) for name in names},
        groups=("g", "h") if source.random() < 0.25 else ("g",),
        auto_create=source.random() < 0.5,
    )


def draw_client(source: random.Random, cluster: ClusterProfile, group: str) -> ClientProfile:
    explicit = source.random() < 0.6
    old = cluster.kafka_version == "4.1"
    several = list(cluster.topics)
    drawn = ClientProfile(
        group=group,
        topics=tuple(several if source.random() < 0.8 else several[:1]),
        explicit=explicit,
        window_records=source.choice((0, 0, 5, 40)) if explicit else 0,
        record_limit=not old and source.random() < 0.25,
        max_poll_records=source.choice((3, 5, 10, 50, 500)),
        poll_timeout_ms=source.choice((0, 50, 300, 1_000, 2_000)),
        work_ms=source.choice((0, 5, 50, 400, 1_500, 2_500)),
        idle_ms=source.choice((0, 0, 100, 2_500)),
        fetch_max_wait_ms=source.choice((100, 300, 500)),
        request_timeout_ms=source.choice((700, 1_500, 3_000)),
        max_poll_interval_ms=source.choice((1_000, 300_000, 300_000)),
        auto_create=cluster.auto_create and source.random() < 0.3,
        release=source.choice((0, 0.1, 0.3)),
        reject=source.choice((0, 0.05)),
        renew=0 if old else source.choice((0, 0, 0.2, 0.5)),
        commit_sync=source.choice((0, 0.2, 0.7)),
        commit_async=source.choice((0, 0.2, 0.5)),
        leave_open=source.choice((0, 0.2)),
        unsubscribe=source.choice((0, 0, 0.05)),
        release_backoff_ms=source.choice((0, 50, 200)),
        protect_locks=source.random() < 0.8,
        loops=source.random() < 0.4,
    )
    # From a source of its own, so that whatever else happens in a history is what it was before there was this.
    may_send_ahead = not (drawn.window_records or drawn.record_limit)
    # Each by a chance of its own: the rest of a history does not depend on them.
    drawn = attrs.evolve(
        drawn,
        send_ahead=may_send_ahead and random.Random(repr(drawn)).random() < 0.4,
        lends=random.Random(f"lends {drawn!r}").random() < 0.7,
    )
    if not (drawn.lends and may_send_ahead):
        return drawn
    if random.Random(f"commits {drawn!r}").random() < 0.5:
        # Works at once and commits after each poll, while its sessions are lent.
        return attrs.evolve(
            drawn, send_ahead=False, work_ms=0, commit_sync=1.0, commit_async=0.0, release=0.0, renew=0.0
        )
    if random.Random(f"hurries {drawn!r}").random() < 0.5:
        # Does nothing but poll, and takes values as they are.
        return attrs.evolve(
            drawn,
            send_ahead=False,
            work_ms=0,
            idle_ms=0,
            commit_sync=0.0,
            commit_async=0.0,
            leave_open=0.0,
            loops=False,
            deserializes=False,
        )
    return drawn


def steady_cluster(drawn: ClusterProfile) -> ClusterProfile:
    """Of a history in which most goes well: answers come fast, from one or two nodes."""
    return attrs.evolve(drawn, nodes=min(drawn.nodes, 2), latency_ms=(0, 1), assignment_interval_ms=0)


def steady_client(drawn: ClientProfile) -> ClientProfile:
    """Of such a history: nothing but polls, and perhaps commits that wait; each poll gets few of many records."""
    return attrs.evolve(
        drawn,
        window_records=40 if drawn.window_records else 0,
        record_limit=False,
        max_poll_records=min(drawn.max_poll_records, 5),
        poll_timeout_ms=1_000,
        work_ms=0,
        idle_ms=0,
        renew=0.0,
        commit_sync=1.0 if drawn.commit_sync and not drawn.send_ahead else 0.0,
        commit_async=0.0,
        leave_open=0.0,
        loops=False,
        send_ahead=drawn.send_ahead,
        lends=True,
        deserializes=False,
    )
