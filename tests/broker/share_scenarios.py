"""The conversations behind `kafka_4_3_share_answers.txt`, to be held with a `ShareNode`.

Each function is one scenario of that file, step by step, and says what it was answered through `Scene.out`. Waits and
limits are those that the real broker was asked with.
"""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from broker.share_probe import Connection, Probe

from kafka_share.broker.share.share_coordinator import StateKey

M1, M2, M3, LOADER = "M1", "M2", "M3", "LD"
NO_ID = UUID(int=2**90)

SCENARIOS: dict[str, Callable[[Scene], None]] = {}


def scenario(play: Callable[[Scene], None]) -> Callable[[Scene], None]:
    SCENARIOS[play.__name__] = play
    return play


class Scene:
    """A broker, one topic `t`, one group `g` and one connection `c` at a time; and the lines said so far."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.p = Probe()
        self.lines: list[tuple[str, str]] = []
        self.t = UUID(int=0)
        self.g = ""
        self.c = self.p.connect()

    def out(self, step: str, text: str) -> None:
        self.lines.append((step, text))

    def std(self, *batches: int, suffix: str = "", partitions: int = 1) -> None:
        """A topic whose share partitions are loaded while it is empty, then record batches in partition 0."""
        self.t = self.p.topic(self.name + suffix, partitions)
        self.g = "g" + self.name + suffix
        for index in range(partitions):
            self.p.initialize(self.g, self.t, index)
        loader = self.p.connect()
        self.p.fetch(loader, self.g, LOADER, 0, [(self.t, i, "") for i in range(partitions)], wait=400)
        for count in batches:
            self.p.produce(self.t, count)
        self.c = self.p.connect()

    def cold(self, partitions: int = 1, start: int = 0) -> None:
        """A topic whose share state is initialised but not loaded."""
        self.t = self.p.topic(self.name, partitions)
        self.g = "g" + self.name
        for index in range(partitions):
            self.p.initialize(self.g, self.t, index, start)
        self.c = self.p.connect()

    def f(self, member: str | None, epoch: int, *acks: str | None, on: Connection | None = None, **kw: object) -> str:
        """A ShareFetch; with `acks` it names partition 0, once per text."""
        kw.setdefault("partitions", [(self.t, 0, a or "") for a in acks])
        text = self.p.fetch(on or self.c, kw.pop("group", self.g), member, epoch, **kw)
        if epoch == -1:
            self.p.sleep(200)
        return text

    def send(self, member: str, epoch: int, *acks: str, on: Connection | None = None, **kw: object) -> None:
        self.p.send_fetch(on or self.c, self.g, member, epoch, [(self.t, 0, a) for a in acks], **kw)

    def a(self, member: str | None, epoch: int, *acks: str, on: Connection | None = None, **kw: object) -> str:
        """A ShareAcknowledge; with `acks` it names partition 0, once per text."""
        kw.setdefault("partitions", [(self.t, 0, a) for a in acks])
        text = self.p.ack(on or self.c, kw.pop("group", self.g), member, epoch, **kw)
        if epoch == -1:
            self.p.sleep(200)
        return text

    def offsets(self) -> str:
        return self.p.offsets(self.g, self.t)

    def stored(self) -> str:
        return self.p.stored(self.g, self.t)


# ---- sessions


@scenario
def sess_epochs(s: Scene) -> None:
    s.std(10)
    s.out("ack epoch 0", s.a(M1, 0, "0~0:1"))
    s.out("ack epoch -1 no session", s.a(M1, -1, "0~0:1"))
    s.out("fetch -1 no session", s.f(M1, -1))
    s.out("fetch 1 no session", s.f(M1, 1, ""))
    s.out("ack 1 no session", s.a(M1, 1))
    s.out("0", s.f(M1, 0, ""))
    s.out("0+1 wrong=5", s.f(M1, 5))
    s.out("ack wrong=5", s.a(M1, 5))
    s.out("ack wrong with topics", s.a(M1, 5, "0~0:1"))
    s.out("other member", s.f(M2, 1))
    s.out("other member ack", s.a(M2, 1, "0~0:1"))
    s.out("-2", s.f(M1, -2))
    s.out("ack -2", s.a(M1, -2))
    s.out("1", s.f(M1, 1, wait=0))
    s.out("2", s.f(M1, 2, wait=0))
    s.out("2 again", s.f(M1, 2, wait=0))
    s.out("ack as 3", s.a(M1, 3, "0~0:1"))
    s.out("fetch 4 with ack", s.f(M1, 4, "1~1:1", wait=0))
    s.out("-1 fetch with ack", s.f(M1, -1, "2~2:1", wait=0))
    s.out("5 after close", s.f(M1, 5))
    s.out("-1 again", s.a(M1, -1))
    s.out("M2 gets rest", s.f(M2, 0, ""))
    s.out("offsets", s.offsets())


@scenario
def sess_ack_epoch0(s: Scene) -> None:
    s.std(10)
    s.out("0", s.f(M1, 0, ""))
    s.out("0 with acks", s.f(M1, 0, "0~9:1"))
    s.out("session after it: 1", s.f(M1, 1, wait=0))


@scenario
def sess_null_member(s: Scene) -> None:
    s.std(1)
    ids = [None, "", "x", "not-a-uuid-but-short", "123456789012345678901234567890123456"]
    for member in [*ids, "1234567890123456789012345678901234567"]:
        name = "null" if member is None else member
        s.out(f"fetch {name}", s.f(member, 0, "", wait=0))
        s.out(f"ack {name}", s.a(member, 1))
        s.out(f"close {name}", s.a(member, -1))
    s.out("null group", s.f(M1, 0, "", group=None))
    s.out("null group ack", s.a(M1, 1, group=None))
    s.out("empty group", s.f(M1, 0, "", group=""))
    s.out("unknown group", s.f(M1, 0, "", group="nosuch", wait=0))


@scenario
def sess_replace(s: Scene) -> None:
    s.std(10, 10)
    s.out("0 max 10", s.f(M1, 0, "", records=10))
    s.out("0 again", s.f(M1, 0, "", records=5))
    s.out("0 again", s.f(M1, 0, "", wait=0))
    s.out("ack old records in the new session", s.a(M1, 1, "0~9:1"))
    s.out("close", s.a(M1, -1))
    s.out("M2", s.f(M2, 0, ""))


@scenario
def sess_other_conn(s: Scene) -> None:
    s.std(10)
    c2 = s.p.connect()
    s.out("0 on c1", s.f(M1, 0, ""))
    s.out("1 on c2", s.f(M1, 1, wait=0, on=c2))
    s.out("ack 2 on c2", s.a(M1, 2, "0~1:1", on=c2))
    s.c.close()
    s.p.sleep(300)
    s.out("3 on c2 after c1 closed", s.f(M1, 3, wait=0, on=c2))
    s.out("M2 sees", s.f(M2, 0, "", on=c2))


@scenario
def sess_conn_drop(s: Scene) -> None:
    s.std(10)
    s.out("0", s.f(M1, 0, ""))
    c2 = s.p.connect()
    s.send(M2, 0, "", on=c2, wait=8000)
    since = s.p.now_ms
    s.p.sleep(300)
    s.c.close()
    s.out("M2 waiting fetch", s.p.receive(c2, since_ms=since).replace("took~", "took ~"))
    c3 = s.p.connect()
    s.out("old session", s.f(M1, 1, wait=0, on=c3))
    c2.close()
    s.p.sleep(300)
    s.out("M3", s.f(M3, 0, "", on=c3))


@scenario
def sess_close_counts(s: Scene) -> None:
    s.std(10)
    for i in range(7):
        s.out(f"fetch {i}", s.f(M1, 0, ""))
        s.out(f"close {i}", s.a(M1, -1))
    s.out("offsets", s.offsets())


@scenario
def sess_close_by_fetch_counts(s: Scene) -> None:
    s.std(2)
    for i in range(3):
        s.out(f"fetch {i}", s.f(M1, 0, ""))
        s.out(f"close {i}", s.f(M1, -1, wait=0))


@scenario
def sess_bad_then_ack(s: Scene) -> None:
    for k in range(6):
        s.std(3, suffix=str(k))
        s.f(M1, 0, "")
        bad = (
            s.f(M1, 5, "")
            if k == 0
            else s.a(M1, 5)
            if k == 1
            else s.f(M1, -2)
            if k == 2
            else s.a(M1, -2)
            if k == 3
            else s.f(M2, 1)
            if k == 4
            else s.f(M1, 1, wait=0)
        )
        s.p.sleep(200)
        s.out(f"bad {k}", f"{bad[:40]} then ack {s.a(M1, 2 if k == 5 else 1, '0~0:1')}".replace("  ", " "))


@scenario
def sess_last_conn(s: Scene) -> None:
    s.cold()
    s.p.produce(s.t, 4)
    s.out("0", s.f(M1, 0, "", wait=800))
    s.a(M1, 1, "2~2:1")
    s.c.close()
    s.p.sleep(500)
    s.c = s.p.connect()
    s.out("reloaded", s.f(M2, 0, "", wait=800))
    s.out("ack", s.a(M2, 1, "0~1:1;3~3:1"))
    s.out("offsets", s.offsets())


@scenario
def sess_forget(s: Scene) -> None:
    s.std(5, partitions=2)
    s.p.produce(s.t, 5, 1)
    s.out("0", s.f(M1, 0, partitions=[(s.t, 0, ""), (s.t, 1, "")]))
    s.out("1", s.f(M1, 1, wait=0))
    s.p.produce(s.t, 5)
    s.p.produce(s.t, 5, 1)
    s.out("2 forget p0", s.f(M1, 2, forget=[(s.t, [0])]))
    s.out("ack forgotten p0 (3)", s.f(M1, 3, "0~4:1", wait=0))
    s.out("4 empty", s.f(M1, 4, wait=0))
    s.out("5 forget unknown", s.f(M1, 5, wait=0, forget=[(s.t, [7])]))
    s.out("close", s.a(M1, -1))
    s.out("M2", s.f(M2, 0, partitions=[(s.t, 0, ""), (s.t, 1, "")]))


@scenario
def sess_incremental(s: Scene) -> None:
    s.std(2, partitions=2)
    s.out("0 two parts", s.f(M1, 0, partitions=[(s.t, 0, ""), (s.t, 1, "")]))
    s.out("1 none", s.f(M1, 1, wait=0))
    s.p.produce(s.t, 2, 1)
    s.out("2 p1 news", s.f(M1, 2))
    s.out("3 again listed in topics", s.f(M1, 3, "", wait=0))
    s.out("4 ack only p0", s.f(M1, 4, "0~1:1", wait=0))
    s.out("5 ack of p1 only, error", s.f(M1, 5, partitions=[(s.t, 1, "5~6:1")], wait=0))
    s.out("6 unknown partition added", s.f(M1, 6, partitions=[(s.t, 9, "")], wait=0))
    s.out("7 still listed", s.f(M1, 7, wait=0))
    s.out("8 unknown id added", s.f(M1, 8, partitions=[(NO_ID, 0, "")], wait=0))
    s.out("9 still listed", s.f(M1, 9, wait=0))


@scenario
def sess_empty_topics(s: Scene) -> None:
    s.std(1)
    s.out("0 no topics", "".join(s.f(M1, 0, timed=True)))
    s.out("1 no topics", s.f(M1, 1, timed=True))
    s.out("2 add", s.f(M1, 2, ""))


@scenario
def sess_ack_not_in_session(s: Scene) -> None:
    s.std(5, partitions=2)
    s.p.produce(s.t, 5, 1)
    s.out("0", s.f(M1, 0, ""))
    s.out("close", s.a(M1, -1))
    s.f(M1, 0, partitions=[(s.t, 1, "")])
    s.out("ack p0 not held", s.a(M1, 1, "0~4:1"))
    s.out("ack never loaded/unknown partition", s.a(M1, 2, partitions=[(s.t, 5, "0~4:1")]))
    s.out("ack unknown id", s.a(M1, 3, partitions=[(NO_ID, 0, "0~4:1")]))
    other = s.p.topic("other")
    s.out("ack other topic not initialised", s.a(M1, 4, partitions=[(other, 0, "0~4:1")]))


# ---- fetching


@scenario
def fetch_max(s: Scene) -> None:
    s.std(10, 10, 10)
    s.out("max 1", s.f(M1, 0, "", records=1))
    s.out("max 15", s.f(M1, 1, records=15))
    s.std(10, 10, 10, suffix="b")
    s.out("max 15 batch 4", s.f(M1, 0, "", records=15, batch=4))
    s.std(10, 10, 10, suffix="c")
    s.out("max 500 batch 15", s.f(M1, 0, "", batch=15))
    s.std(3, 3, 3, 3, 3, suffix="d")
    s.out("max 500 batch 5", s.f(M1, 0, "", batch=5))
    s.std(10, suffix="e")
    s.out("batch 0", s.f(M1, 0, "", batch=0))
    s.std(3, 3, suffix="e2")
    s.out("batch 1", s.f(M1, 0, "", batch=1))
    s.std(10, suffix="f")
    s.out("max 0", s.f(M1, 0, "", records=0, timed=True))
    s.out("max -1", s.f(M1, 1, "", records=-1, timed=True))
    s.std(10, suffix="g")
    s.out("bytes 0", s.f(M1, 0, "", max_bytes=0, timed=True))
    s.out("bytes 1", s.f(M1, 1, max_bytes=1))


@scenario
def fetch_record_limit(s: Scene) -> None:
    s.std(10, 10)
    s.out("limit 3", s.f(M1, 0, "", mode=1, records=3, batch=3))
    s.out("M2 limit 3", s.f(M2, 0, "", mode=1, records=3))
    s.out("limit 6", s.f(M1, 1, mode=1, records=6))
    s.out("optimized 1", s.f(M1, 2, records=1))
    s.out("release 0-2", s.a(M1, 3, "0~2:2"))
    s.out("limit 2", s.f(M1, 4, mode=1, records=2))
    s.out("limit 5 batch 2", s.f(M1, 5, mode=1, records=5, batch=2))
    s.out("mode 2", s.f(M1, 6, mode=2, records=5, wait=0))
    s.out("mode -1", s.f(M1, 7, mode=-1, records=5, wait=0))
    s.std(3, 3, 3, suffix="b")
    s.out("limit 9 batch 2", s.f(M1, 0, "", mode=1, records=9, batch=2))
    s.std(3, 3, 3, suffix="c")
    s.out("limit 7 batch 500", s.f(M1, 0, "", mode=1, records=7))


@scenario
def fetch_errors(s: Scene) -> None:
    s.std(3)
    s.out("unknown id", s.f(M1, 0, partitions=[(NO_ID, 0, "")], timed=True))
    s.out("unknown partition", s.f(M1, 0, partitions=[(s.t, 4, "")], timed=True))
    s.out("neg partition", s.f(M1, 0, partitions=[(s.t, -1, "")], timed=True))
    mixed = [(NO_ID, 0, ""), (s.t, 4, ""), (s.t, 0, "")]
    s.out("mixed", s.f(M1, 0, partitions=mixed, timed=True))
    s.out("zero id", s.f(M1, 0, partitions=[(UUID(int=0), 0, "")], wait=0))
    u = s.p.topic("unini")
    s.p.produce(u, 2)
    s.out("not initialised", s.f(M1, 0, partitions=[(u, 0, "")], timed=True))
    s.out("not initialised again", s.f(M1, 1, timed=True))
    s.out("group missing", s.f(M1, 0, partitions=[(u, 0, "")], group="gmiss", timed=True))
    s.out("uninit + good", s.f(M1, 0, partitions=[(u, 0, ""), (s.t, 0, "")], timed=True))


@scenario
def fetch_wait(s: Scene) -> None:
    s.std()
    s.out("empty wait 1000", s.f(M1, 0, "", wait=1000, timed=True))
    s.out("wait 0", s.f(M1, 1, wait=0, timed=True))
    s.out("min 0", s.f(M1, 2, wait=1000, min_bytes=0, timed=True))
    s.send(M1, 3, wait=5000)
    s.p.sleep(300)
    since = s.p.now_ms
    s.p.produce(s.t, 2)
    s.out("woken by produce", s.p.receive(s.c, since_ms=since))
    s.p.produce(s.t, 1)
    s.out("min 100000", s.f(M1, 4, wait=1000, min_bytes=100_000, timed=True))
    c2 = s.p.connect()
    s.send(M2, 0, "", on=c2, wait=5000)
    s.p.sleep(200)
    since = s.p.now_ms
    s.out("release", s.a(M1, 5, "0~1:2"))
    s.out("M2 woken by release", s.p.receive(c2, since_ms=since))
    s.out("negative wait", s.f(M1, 6, wait=-1, timed=True))
    s.out("negative min", s.f(M1, 7, wait=500, min_bytes=-5, timed=True))


@scenario
def fetch_wake_lock(s: Scene) -> None:
    s.std(3)
    s.p.configure(s.g, record_lock_duration_ms=1000)
    s.out("M1", s.f(M1, 0, ""))
    c2 = s.p.connect()
    s.out("M2 wakes when the lock ends", s.f(M2, 0, "", on=c2, wait=6000, timed=True))
    s.out("late ack", s.a(M1, 1, "0~2:1"))


@scenario
def fetch_wake_topic_deleted(s: Scene) -> None:
    s.std(1)
    s.f(M1, 0, "")
    s.send(M1, 1, wait=8000)
    s.p.sleep(300)
    since = s.p.now_ms
    deleted = s.name
    s.p.delete_topic(s.t)
    s.out("waiting fetch", s.p.receive(s.c, since_ms=since))
    s.p.sleep(500)
    s.out("next", s.f(M1, 2, wait=0))
    s.out("ack", s.a(M1, 3, "0~0:1").replace("id?", deleted))
    s.out("fetch with ack", s.f(M1, 4, "0~0:1", wait=0))
    s.out("close", s.a(M1, -1, "0~0:1").replace("id?", deleted))


@scenario
def fetch_two_members(s: Scene) -> None:
    s.std(5, 5)
    s.out("M1 max 5", s.f(M1, 0, "", records=5))
    s.out("M2 max 5", s.f(M2, 0, "", records=5))
    s.out("M1 none", s.f(M1, 1, wait=0))


@scenario
def fetch_dup_partition(s: Scene) -> None:
    s.std(5)
    s.out("same partition twice", s.f(M1, 0, "", ""))


@scenario
def fetch_big_record(s: Scene) -> None:
    s.std()
    s.p.produce(s.t, 3, size=20_000)
    s.out("bytes 100", s.f(M1, 0, "", max_bytes=100))


# ---- acknowledging


@scenario
def ack_validation(s: Scene) -> None:
    s.std(20)
    s.out("0", s.f(M1, 0, ""))
    epoch = 1
    for text in [
        "3~2:1",
        "0~2:",
        "0~2:1,1",
        "0~2:1,1,1,1",
        "0~2:5",
        "0~2:-1",
        "0~2:4",
        "0~1:1;1~2:1",
        "4~5:1;0~1:1",
        "0~1:1;0~1:1",
        "0~25:1",
        "25~26:1",
        "-1~0:1",
        "-5~-4:1",
        "19~20:1",
    ]:
        s.out(f"ack {text}", s.a(M1, epoch, text))
        epoch += 1
    s.out("fetch with bad ack 5", s.f(M1, 16, "0~2:5", wait=0))
    s.out("v1 type 4", s.a(M1, 17, "0~0:4", version=1))
    s.out("empty batches", s.a(M1, 18, ""))
    s.out("no topics", s.a(M1, 19))
    s.out("types 0,1,2,3", s.a(M1, 20, "0~3:0,1,2,3"))
    s.out("again", s.a(M1, 21, "0~3:0,1,2,3"))
    s.out("0-1 again", s.a(M1, 22, "0~1:1"))
    s.out("2 released: fetch", s.f(M1, 23, wait=0))
    s.out("GAP 5-6", s.a(M1, 24, "5~6:0"))
    s.out("good+bad batch", s.a(M1, 25, "8~9:1;5~6:1"))
    s.out("8-9 then 5-6 sorted: bad second", s.a(M1, 26, "5~6:1;8~9:1"))
    s.out("8-9 still held", s.a(M1, 27, "8~9:1"))
    s.out("over mixed range 7-10", s.a(M1, 28, "7~10:1"))
    s.out("offsets", s.offsets())
    s.out("close", s.a(M1, -1))
    s.out("M2", s.f(M2, 0, ""))


@scenario
def ack_nothing_acquired(s: Scene) -> None:
    s.std(10)
    s.out("0 max 0", s.f(M1, 0, "", records=0))
    s.out("ack not loaded", s.a(M1, 1, "0~0:1"))
    s.out("load", s.f(M2, 0, "", records=1))
    s.out("ack other's", s.a(M1, 2, "0~0:1"))
    s.out("ack other's all", s.a(M1, 3, "0~9:1"))


@scenario
def ack_other_member(s: Scene) -> None:
    s.std(5, 5)
    s.f(M1, 0, "", records=5)
    s.f(M2, 0, "", records=5)
    s.out("M2 acks M1's", s.a(M2, 1, "0~4:1"))
    s.out("sub-range", s.a(M2, 2, "1~2:3"))
    s.out("both", s.a(M2, 3, "0~9:1"))
    s.out("own", s.a(M2, 4, "5~9:1"))
    s.out("offsets", s.offsets())


@scenario
def ack_release_then_accept(s: Scene) -> None:
    s.std(10)
    s.f(M1, 0, "")
    s.out("release 5-9", s.a(M1, 1, "5~9:2"))
    s.out("accept 5-9", s.a(M1, 2, "5~9:1"))
    s.out("refetch", s.f(M1, 3))
    s.out("reject 6-8", s.a(M1, 4, "6~8:3"))
    s.out("reject again", s.a(M1, 5, "6~8:3"))
    s.out("offsets", s.offsets())


@scenario
def ack_piggyback(s: Scene) -> None:
    s.std(10, 10)
    s.out("0", s.f(M1, 0, "", records=10))
    s.out("accept+fetch", s.f(M1, 1, "0~9:1"))
    s.out("release+fetch", s.f(M1, 2, "10~19:2"))
    s.out("reject+fetch wait 1000", s.f(M1, 3, "10~19:3", wait=1000, timed=True))
    s.out("bad ack + fetch wait 1000", s.f(M1, 4, "10~19:1", wait=1000, timed=True))


def _second_member_waits(s: Scene) -> tuple[Connection, int]:
    s.std(3)
    s.f(M1, 0, "")
    c2 = s.p.connect()
    s.f(M2, 0, "", on=c2, wait=300)
    s.send(M2, 1, on=c2, wait=3000)
    s.p.sleep(200)
    return c2, s.p.now_ms


@scenario
def ack_wakes(s: Scene) -> None:
    c2, since = _second_member_waits(s)
    s.a(M1, 1, "0~2:2")
    s.out("ack RELEASE wakes other member", s.p.receive(c2, since_ms=since))


@scenario
def ack_wakes_piggy(s: Scene) -> None:
    c2, since = _second_member_waits(s)
    s.f(M1, 1, "0~2:2", records=0)
    s.out("piggybacked RELEASE wakes other member", s.p.receive(c2, since_ms=since))


@scenario
def close_wakes(s: Scene) -> None:
    c2, since = _second_member_waits(s)
    s.a(M1, -1)
    s.out("close wakes other member", s.p.receive(c2, since_ms=since))


@scenario
def close_before_fetch(s: Scene) -> None:
    s.std(3)
    s.f(M1, 0, "")
    c2 = s.p.connect()
    s.f(M2, 0, "", on=c2, wait=300)
    s.out("close", s.a(M1, -1))
    s.out("M2 at once", s.f(M2, 1, on=c2, wait=3000, timed=True))


@scenario
def renew(s: Scene) -> None:
    zero = {"records": 0, "batch": 0, "wait": 0, "min_bytes": 0, "max_bytes": 0}
    s.std(10)
    s.p.configure(s.g, record_lock_duration_ms=1500)
    s.out("0", s.f(M1, 0, ""))
    s.out("ack RENEW without flag", s.a(M1, 1, "0~0:4"))
    s.p.sleep(800)
    s.out("ack RENEW 0-4", s.a(M1, 2, "0~4:4", renew=True))
    s.out("renew flag without RENEW", s.a(M1, 3, "9~9:1", renew=True))
    s.p.sleep(1000)
    s.out("accept renewed 0-1", s.a(M1, 4, "0~1:1"))
    s.out("accept not renewed 5", s.a(M1, 5, "5~5:1"))
    s.out("renew not held", s.a(M1, 6, "5~5:4", renew=True))
    s.out("fetch renew, all zero", s.f(M1, 7, "2~3:4,1", renew=True, timed=True, **zero))
    s.out("fetch renew maxwait 100", s.f(M1, 8, "2~2:4", renew=True, **(zero | {"wait": 100})))
    s.out("fetch renew max 1", s.f(M1, 8, "2~2:4", renew=True, **(zero | {"records": 1})))
    s.out("fetch renew minbytes 1", s.f(M1, 8, "2~2:4", renew=True, **(zero | {"min_bytes": 1})))
    s.out("fetch renew maxbytes 1", s.f(M1, 8, "2~2:4", renew=True, **(zero | {"max_bytes": 1})))
    s.out("fetch renew batch 1", s.f(M1, 8, "2~2:4", renew=True, **(zero | {"batch": 1})))
    s.out("fetch renew no acks", s.f(M1, 9, "", renew=True, **zero))
    s.out("epoch 9 or 10?", s.f(M1, 9, wait=0))
    s.out("epoch 10", s.f(M1, 10, wait=0))
    s.out("epoch 0 renew", s.f(M1, 0, "", renew=True, **zero))
    s.out("renew without flag in fetch", s.f(M1, 11, "2~2:4", **zero))
    s.out("close with renew", s.a(M1, -1, "2~2:4", renew=True))


# ---- delivery counts, locks, deleted records


@scenario
def limit_release(s: Scene) -> None:
    s.std(10)
    s.out("0", s.f(M1, 0, ""))
    s.a(M1, 1, "0~9:2")
    epoch, seen = 2, ""
    for _ in range(14):
        text = s.f(M1, epoch, wait=100)
        epoch += 1
        acquired = text.split("acq=")[1].split(" rec")[0]
        seen += f"acq={acquired} "
        for piece in acquired.split(","):
            s.a(M1, epoch, piece.split("x")[0] + ":2")
            epoch += 1
    s.out("release always", seen)
    s.out("offsets", s.offsets())


@scenario
def limit_lock(s: Scene) -> None:
    s.std(10)
    s.p.configure(s.g, record_lock_duration_ms=1000, delivery_count_limit=2)
    s.out("1", s.f(M1, 0, ""))
    s.p.sleep(1300)
    s.out("2", s.f(M1, 1, wait=0))
    s.out("ack 0-3 of 2nd", s.a(M1, 2, "0~3:1"))
    s.p.sleep(1300)
    s.out("3", s.f(M1, 3, wait=300))
    s.out("offsets", s.offsets())


@scenario
def locks_limit(s: Scene) -> None:
    s.p.configure("glocks_limit", max_record_locks=100)
    s.std(60, 60, 60)
    s.out("0", s.f(M1, 0, ""))
    s.out("full", s.f(M1, 1, wait=200))
    c2 = s.p.connect()
    s.send(M2, 0, "", on=c2, wait=3000)
    s.p.sleep(300)
    since = s.p.now_ms
    s.out("accept 0-59", s.a(M1, 2, "0~59:1"))
    s.out("M2 waiting", s.p.receive(c2, since_ms=since))
    s.out("M1 release 60-62", s.a(M1, 3, "60~62:2"))
    s.out("M1 fetch", s.f(M1, 4, wait=200))
    s.std(60, 60, 60, suffix="b")
    s.p.configure(s.g, max_record_locks=100)
    s.out("limit mode", s.f(M1, 0, "", mode=1))
    s.out("next", s.f(M1, 1, wait=200, mode=1))
    s.out("accept 50-99", s.a(M1, 2, "50~99:1"))
    s.out("still full?", s.f(M1, 3, wait=200, mode=1))
    s.out("optimized", s.f(M1, 4, wait=200))


@scenario
def delete_records(s: Scene) -> None:
    s.std(5, 5, 5)
    s.out("0 max 5", s.f(M1, 0, "", records=5))
    s.p.delete_records(s.t, 8)
    s.p.sleep(200)
    s.out("offsets", s.offsets())
    s.out("accept 0-4", s.a(M1, 1, "0~4:1"))
    s.out("next", s.f(M1, 2, wait=0))
    s.out("next", s.f(M1, 3))
    s.out("accept 8-14", s.a(M1, 4, "8~14:1"))
    s.out("offsets", s.offsets())


# ---- start offsets


@scenario
def reset(s: Scene) -> None:
    s.t = s.p.topic("reset")
    s.p.produce(s.t, 5, age_ms=7_200_000)
    s.p.produce(s.t, 5, age_ms=1_800_000)
    s.p.produce(s.t, 5)
    policies = ("PT1H", "PT3H", "PT0S", "P1D")
    for policy in ("latest", "earliest", *(f"by_duration:{text}" for text in policies)):
        s.p.sleep(300)
        s.g = "g" + policy
        s.p.configure(s.g, auto_offset_reset=policy)
        s.p.initialize(s.g, s.t, start=-1)
        s.out(policy, s.f(M1, 0, "", wait=700))
        s.out(f"{policy} offsets", s.offsets())
    s.p.produce(s.t, 1)
    s.g = "glatest"
    s.out("latest next", s.f(M1, 1, wait=700))
    s.g = "gby_duration:PT0S"
    s.p.sleep(10)
    s.out("PT0S next", s.f(M1, 1, wait=700))
    s.out("PT0S next", s.f(M1, 2, wait=700))


@scenario
def reset_default(s: Scene) -> None:
    s.cold(start=-1)
    s.p.produce(s.t, 5)
    s.out("offsets before the first fetch", s.offsets())
    s.p.produce(s.t, 1)
    s.out("fetch", s.f(M1, 0, ""))
    s.out("offsets", s.offsets())
    s.p.produce(s.t, 1)
    s.out("fetch", s.f(M1, 1))
    s.out("ack", s.a(M1, 2, "6~6:1"))
    s.out("offsets", s.offsets())
    s.p.configure(s.g, auto_offset_reset="earliest")
    s.out("reset changed later", s.f(M1, 0, "", wait=300))


@scenario
def start_offset(s: Scene) -> None:
    s.std(10)
    s.out("fresh", s.offsets())
    s.f(M1, 0, "")
    s.out("acquired", s.offsets())
    s.a(M1, 1, "0~9:1")
    s.out("all accepted", s.offsets())
    s.out("ack again", s.a(M1, 2, "0~9:1"))
    s.out("after", s.offsets())
    s.p.produce(s.t, 5)
    s.out("5 more produced", s.offsets())
    s.out("fetch", s.f(M1, 3))
    s.out("5 acquired", s.offsets())
    s.a(M1, 4, "12~12:1")
    s.out("12 accepted", s.offsets())
    s.a(M1, 5, "10~10:1")
    s.out("10 accepted", s.offsets())
    s.a(M1, 6, "11~11:2")
    s.out("11 released", s.offsets())
    s.f(M1, 7, wait=0)
    s.a(M1, 8, "11~11:3")
    s.out("11 rejected", s.offsets())
    s.a(M1, 9, "13~14:1")
    s.out("rest", s.offsets())
    s.a(M1, -1)
    s.out("closed", s.offsets())
    s.c.close()
    s.p.sleep(300)
    s.c = s.p.connect()
    s.out("new member on reloaded state", s.f(M2, 0, "", wait=500))
    s.out("offsets", s.offsets())
    s.p.produce(s.t, 2)
    s.out("2 more", s.offsets())
    s.out("fetch", s.f(M2, 1))
    s.a(M2, 2, "15~15:1")
    s.out("15 accepted", s.offsets())
    s.a(M2, 3, "16~16:1")
    s.out("16 accepted", s.offsets())


@scenario
def start_offset_one_by_one(s: Scene) -> None:
    s.std(4)
    s.f(M1, 0, "")
    for i in range(4):
        s.a(M1, i + 1, f"{i}~{i}:1")
        s.out(f"accepted {i}", s.offsets())


@scenario
def state_after_acks(s: Scene) -> None:
    s.std(10)
    s.f(M1, 0, "")
    s.a(M1, 1, "0~1:1")
    s.out("0-1 accepted", s.stored())
    s.a(M1, 2, "5~6:2")
    s.out("5-6 released", s.stored())
    s.a(M1, 3, "8~8:3")
    s.out("8 rejected", s.stored())
    s.a(M1, 4, "2~4:0")
    s.out("2-4 gap", s.stored())
    s.a(M1, -1)
    s.out("closed", s.stored())


# ---- finer points


@scenario
def more_release_piggy(s: Scene) -> None:
    s.std(3)
    s.f(M1, 0, "")
    s.out("rel", s.f(M1, 1, "0~2:2", wait=3000, timed=True))


@scenario
def more_wake_second_ack(s: Scene) -> None:
    s.std(3)
    s.f(M1, 0, "")
    c2 = s.p.connect()
    s.f(M2, 0, "", on=c2, wait=300)
    s.send(M2, 1, on=c2, wait=4000)
    s.p.sleep(200)
    since = s.p.now_ms
    s.a(M1, 1, "0~1:2")
    s.p.sleep(500)
    s.a(M1, 2, "2~2:2")
    s.out("M2", s.p.receive(c2, since_ms=since))


@scenario
def more_lso_cached(s: Scene) -> None:
    s.std(5, 5, 5)
    s.out("M1", s.f(M1, 0, "", records=5))
    s.p.delete_records(s.t, 8)
    s.out("M2", s.f(M2, 0, "", wait=0))
    s.out("M2", s.f(M2, 1, wait=0))
    s.out("M2", s.f(M2, 2, wait=0))
    s.a(M1, -1)
    for epoch in (3, 4, 5):
        s.out("M2", s.f(M2, epoch, wait=0))
    s.out("offsets", s.offsets())
    s.out("state", s.stored())


@scenario
def more_ack_npe(s: Scene) -> None:
    s.std(20)
    s.f(M1, 0, "")
    s.a(M1, 1, "0~19:1")
    s.out("ack 19~20", s.a(M1, 2, "19~20:1"))
    s.out("ack 20~21", s.a(M1, 3, "20~21:1"))
    s.out("ack 0~19", s.a(M1, 4, "0~19:1"))


@scenario
def more_multi_first(s: Scene) -> None:
    s.cold(partitions=3)
    for index in range(3):
        s.p.produce(s.t, 3, index)
    s.out("0", s.f(M1, 0, partitions=[(s.t, i, "") for i in range(3)], wait=2000, timed=True))


@scenario
def more_full_epoch0(s: Scene) -> None:
    s.p.configure("gmore_full_epoch0", max_record_locks=100)
    s.std(100, 5)
    s.out("M1", s.f(M1, 0, ""))
    s.out("M2", s.f(M2, 0, "", wait=300, timed=True))
    s.out("M2 min 0", s.f(M2, 1, wait=1000, min_bytes=0, timed=True))


@scenario
def more_bytes(s: Scene) -> None:
    s.std(partitions=3)
    for index in range(3):
        for _ in range(6):
            s.p.produce(s.t, 1, index, size=1000)
    parts = [(s.t, i, "") for i in range(3)]
    s.out("0", s.f(M1, 0, partitions=parts, max_bytes=1500))
    s.out("1", s.f(M1, 1, max_bytes=1500))
    for epoch in (2, 3, 4):
        s.out(str(epoch), s.f(M1, epoch, max_bytes=9000))


@scenario
def more_wake_by_fetch(s: Scene) -> None:
    s.std(3)
    s.f(M1, 0, "")
    c2 = s.p.connect()
    s.f(M2, 0, "", on=c2, wait=300)
    s.send(M2, 1, on=c2, wait=4000)
    s.p.sleep(200)
    since = s.p.now_ms
    s.a(M1, 1, "0~2:2")
    s.p.sleep(500)
    s.out("M1", s.f(M1, 2, mode=1, records=1))
    s.out("M2", s.p.receive(c2, since_ms=since))


@scenario
def more_rl_release(s: Scene) -> None:
    s.std(10, 10)
    s.f(M1, 0, "", mode=1, records=3)
    s.f(M2, 0, "", mode=1, records=3)
    s.a(M1, 1, "0~2:2")
    s.a(M2, 1, "3~5:2")
    s.out("M1", s.f(M1, 2, mode=1, records=13))


@scenario
def more_two_sessions_one_conn(s: Scene) -> None:
    s.std(5, 5)
    s.f(M1, 0, "", records=5)
    s.f(M2, 0, "", records=5)
    s.c.close()
    s.p.sleep(300)
    s.c = s.p.connect()
    s.out("M1", s.f(M1, 1, wait=0))
    s.out("M2", s.f(M2, 1, wait=0))
    s.out("M3", s.f(M3, 0, ""))


@scenario
def more_session_moved(s: Scene) -> None:
    s.std()
    s.f(M1, 0, "", wait=300)
    s.send(M1, 1, wait=2000)
    s.p.sleep(200)
    s.out("ack other conn", s.a(M1, 2, on=s.p.connect()))
    s.out("waiting", s.p.receive(s.c))
    s.out("3", s.f(M1, 3, wait=0))


@scenario
def more_replace_waiting(s: Scene) -> None:
    s.std()
    s.f(M1, 0, "", wait=300)
    s.send(M1, 1, wait=2000)
    s.p.sleep(200)
    c2 = s.p.connect()
    s.out("0 other conn", s.f(M1, 0, "", wait=0, on=c2))
    s.p.produce(s.t, 2)
    s.out("waiting", s.p.receive(s.c))
    s.out("1", s.f(M1, 1, wait=0, on=c2))


@scenario
def more_limit0(s: Scene) -> None:
    s.cold(start=50)
    s.p.produce(s.t, 5)
    s.out("beyond", s.f(M1, 0, "", wait=1000, timed=True))
    s.out("beyond", s.f(M1, 1, wait=1000, timed=True))


@scenario
def more_neg(s: Scene) -> None:
    s.std()
    s.out("max -1", s.f(M1, 0, "", records=-1, wait=800, timed=True))
    s.out("bytes -1", s.f(M1, 1, max_bytes=-1, wait=800, timed=True))
    s.out("batch -3", s.f(M1, 2, batch=-3, wait=300))
    s.p.produce(s.t, 3)
    s.p.produce(s.t, 3)
    s.out("batch -3", s.f(M1, 3, batch=-3, wait=300))


@scenario
def more_dup_later(s: Scene) -> None:
    s.std(5)
    s.f(M1, 0, "")
    s.out("dup ack", s.a(M1, 1, "0~0:1", "1~1:1"))
    s.out("dup fetch", s.f(M1, 2, "2~2:1", "", wait=0))
    s.out("dup epoch 0", s.f(M1, 0, "", ""))
    s.out("3", s.f(M1, 3, wait=0))
    s.out("M2", s.f(M2, 0, "", wait=300))


@scenario
def more_final_unknown(s: Scene) -> None:
    s.std(5)
    s.f(M1, 0, "")
    s.out("-1 unknown id", s.f(M1, -1, partitions=[(NO_ID, 0, "")], wait=0))
    s.out("1", s.f(M1, 1, wait=0))
    s.out("-1 dup", s.f(M1, -1, "0~0:1", wait=0))
    s.out("unknown + unauth", s.f(M2, 0, partitions=[(NO_ID, 0, "")], wait=0))
    s.out("M2 1", s.f(M2, 1, wait=0))


@scenario
def more_rotate(s: Scene) -> None:
    s.std(partitions=3)
    for _ in range(9):
        for index in range(3):
            s.p.produce(s.t, 1, index)
    s.out("0", s.f(M1, 0, partitions=[(s.t, i, "") for i in range(3)], records=1))
    for epoch in range(1, 9):
        s.out(str(epoch), s.f(M1, epoch, records=1))


@scenario
def more_forget_then_lock(s: Scene) -> None:
    s.std(5)
    s.p.configure(s.g, record_lock_duration_ms=1000)
    s.out("0", s.f(M1, 0, ""))
    s.a(M1, 1, "1~1:1")
    s.p.sleep(1300)
    s.out("M2", s.f(M2, 0, "", wait=0))
    s.out("state", s.stored())


@scenario
def more_deleted_group(s: Scene) -> None:
    s.std(5)
    s.out("0", s.f(M1, 0, ""))
    s.p.coordinator.delete(StateKey(s.g, s.t, 0))
    s.out("ack", s.a(M1, 1, "0~4:1"))
    s.out("1", s.f(M1, 2, wait=0))
    s.out("close", s.a(M1, -1))
    s.out("M2", s.f(M2, 0, "", wait=300))


@scenario
def more_ack_future_topic_deleted(s: Scene) -> None:
    s.std(5)
    s.f(M1, 0, "")
    parts = [(s.t, 3, "0~0:1"), (s.t, 0, "0~0:1")]
    s.out("partial fetch errors", s.f(M1, 1, partitions=parts, wait=0))


@scenario
def more_back(s: Scene) -> None:
    s.std(5, 5, 5)
    s.out("M1", s.f(M1, 0, "", records=5))
    s.p.delete_records(s.t, 8)
    s.out("M2", s.f(M2, 0, "", wait=0))
    s.out("ack", s.a(M1, 1, "0~4:1"))
    for epoch in (1, 2, 3):
        s.out("M2", s.f(M2, epoch, wait=0))
    s.a(M2, 4, "9~9:1")
    s.out("offsets", s.offsets())
    s.out("state", s.stored())


@scenario
def more_part_npe(s: Scene) -> None:
    s.std(5, 5)
    s.f(M1, 0, "")
    s.out("all", s.a(M1, 1, "0~9:1"))
    s.p.produce(s.t, 3)
    s.out("next", s.f(M1, 2))
    s.out("ack 8~11", s.a(M1, 3, "8~11:1"))
    s.out("ack 3~5", s.a(M1, 4, "3~5:1"))


@scenario
def more_lock_wake_full(s: Scene) -> None:
    s.p.configure("gmore_lock_wake_full", max_record_locks=100, delivery_count_limit=2, record_lock_duration_ms=1000)
    s.std(100, 5)
    s.f(M1, 0, "")
    s.p.sleep(1300)
    s.out("2nd", s.f(M1, 1))
    c2 = s.p.connect()
    s.out("M2", s.f(M2, 0, "", on=c2, wait=4000, timed=True))
    s.out("M2", s.f(M2, 1, on=c2, wait=1000, timed=True))


@scenario
def more_epoch_full_listed(s: Scene) -> None:
    s.std(2, partitions=2)
    s.out("err+ok", s.f(M1, 0, partitions=[(s.t, 0, ""), (s.t, 7, "")]))
    s.out("1", s.f(M1, 1, wait=0))
    s.out("2 forget", s.f(M1, 2, forget=[(s.t, [7])], wait=0))
    s.out("3 forget all", s.f(M1, 3, forget=[(s.t, [0])], wait=500, timed=True))
    s.out("4", s.f(M1, 4, partitions=[(s.t, 1, ""), (s.t, 7, "")], wait=800, timed=True))


@scenario
def more_ghost(s: Scene) -> None:
    s.std(3)
    s.out("M1", s.f(M1, 0, ""))
    s.send(M1, 1, wait=2000)
    s.p.sleep(300)
    s.c.close()
    s.p.sleep(2500)
    s.c = s.p.connect()
    s.out("M2 later", s.f(M2, 0, "", wait=0))


@scenario
def more_ghost2(s: Scene) -> None:
    s.std()
    s.out("M1", s.f(M1, 0, "", wait=300))
    s.send(M1, 1, wait=2000)
    s.p.sleep(300)
    s.c.close()
    s.p.sleep(300)
    s.p.produce(s.t, 2)
    s.p.sleep(300)
    s.c = s.p.connect()
    s.out("M2", s.f(M2, 0, "", wait=0))


@scenario
def more_expired_action(s: Scene) -> None:
    s.std(4)
    s.f(M1, 0, "")
    c2 = s.p.connect()
    s.f(M2, 0, "", on=c2, wait=300)
    s.send(M2, 1, on=c2, wait=4000)
    s.p.sleep(200)
    since = s.p.now_ms
    s.out("rel", s.a(M1, 1, "0~2:2"))
    s.p.sleep(300)
    s.out("M1 min big", s.f(M1, 2, mode=1, records=1, min_bytes=1_000_000, wait=500))
    s.p.sleep(600)
    s.a(M3, 5)  # any request to the node
    s.out("M2", s.p.receive(c2, since_ms=since))


@scenario
def more_leader_err_wait(s: Scene) -> None:
    s.std()
    u = s.t
    s.t = s.p.topic("unused")
    s.p.view.partitions[u, 1] = type(s.p.view.partitions[u, 0])(u, s.name, 1)
    s.out("uninit p1 + p0 wait", s.f(M1, 0, partitions=[(u, 0, ""), (u, 1, "")], wait=1500, timed=True))
