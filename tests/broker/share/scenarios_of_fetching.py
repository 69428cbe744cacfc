"""Fetching: limits, waits, wake-ups and errors. Scenarios of `kafka_4_3_answers.txt`."""

from __future__ import annotations

from uuid import UUID

from broker.share.scene import M1, M2, NO_ID, Scene, scenario


@scenario
def fetch_max_records(scene: Scene) -> None:
    scene.loaded_topic(10, 10, 10)
    scene.answered("max 1", scene.fetch(M1, 0, "", records=1))
    scene.answered("max 15", scene.fetch(M1, 1, records=15))
    scene.loaded_topic(10, 10, 10, suffix="b")
    scene.answered("max 15 batch 4", scene.fetch(M1, 0, "", records=15, batch=4))
    scene.loaded_topic(10, 10, 10, suffix="c")
    scene.answered("max 500 batch 15", scene.fetch(M1, 0, "", batch=15))
    scene.loaded_topic(3, 3, 3, 3, 3, suffix="d")
    scene.answered("max 500 batch 5", scene.fetch(M1, 0, "", batch=5))
    scene.loaded_topic(10, suffix="e")
    scene.answered("batch 0", scene.fetch(M1, 0, "", batch=0))
    scene.loaded_topic(3, 3, suffix="e2")
    scene.answered("batch 1", scene.fetch(M1, 0, "", batch=1))
    scene.loaded_topic(10, suffix="f")
    scene.answered("max 0", scene.fetch(M1, 0, "", records=0, timed=True))
    scene.answered("max -1", scene.fetch(M1, 1, "", records=-1, timed=True))
    scene.loaded_topic(10, suffix="g")
    scene.answered("bytes 0", scene.fetch(M1, 0, "", max_bytes=0, timed=True))
    scene.answered("bytes 1", scene.fetch(M1, 1, max_bytes=1))


@scenario
def fetch_record_limit(scene: Scene) -> None:
    scene.loaded_topic(10, 10)
    scene.answered("limit 3", scene.fetch(M1, 0, "", mode=1, records=3, batch=3))
    scene.answered("M2 limit 3", scene.fetch(M2, 0, "", mode=1, records=3))
    scene.answered("limit 6", scene.fetch(M1, 1, mode=1, records=6))
    scene.answered("optimized 1", scene.fetch(M1, 2, records=1))
    scene.answered("release 0-2", scene.acknowledge(M1, 3, "0~2:2"))
    scene.answered("limit 2", scene.fetch(M1, 4, mode=1, records=2))
    scene.answered("limit 5 batch 2", scene.fetch(M1, 5, mode=1, records=5, batch=2))
    scene.answered("mode 2", scene.fetch(M1, 6, mode=2, records=5, wait=0))
    scene.answered("mode -1", scene.fetch(M1, 7, mode=-1, records=5, wait=0))
    scene.loaded_topic(3, 3, 3, suffix="b")
    scene.answered("limit 9 batch 2", scene.fetch(M1, 0, "", mode=1, records=9, batch=2))
    scene.loaded_topic(3, 3, 3, suffix="c")
    scene.answered("limit 7 batch 500", scene.fetch(M1, 0, "", mode=1, records=7))


@scenario
def fetch_errors(scene: Scene) -> None:
    scene.loaded_topic(3)
    scene.answered("unknown id", scene.fetch(M1, 0, partitions=[(NO_ID, 0, "")], timed=True))
    scene.answered("unknown partition", scene.fetch(M1, 0, partitions=[(scene.topic_id, 4, "")], timed=True))
    scene.answered("neg partition", scene.fetch(M1, 0, partitions=[(scene.topic_id, -1, "")], timed=True))
    mixed = [(NO_ID, 0, ""), (scene.topic_id, 4, ""), (scene.topic_id, 0, "")]
    scene.answered("mixed", scene.fetch(M1, 0, partitions=mixed, timed=True))
    scene.answered("zero id", scene.fetch(M1, 0, partitions=[(UUID(int=0), 0, "")], wait=0))
    u = scene.probe.topic("unini")
    scene.probe.produce(u, 2)
    scene.answered("not initialised", scene.fetch(M1, 0, partitions=[(u, 0, "")], timed=True))
    scene.answered("not initialised again", scene.fetch(M1, 1, timed=True))
    scene.answered("group missing", scene.fetch(M1, 0, partitions=[(u, 0, "")], group="gmiss", timed=True))
    scene.answered("uninit + good", scene.fetch(M1, 0, partitions=[(u, 0, ""), (scene.topic_id, 0, "")], timed=True))


@scenario
def fetch_wait(scene: Scene) -> None:
    scene.loaded_topic()
    scene.answered("empty wait 1000", scene.fetch(M1, 0, "", wait=1000, timed=True))
    scene.answered("wait 0", scene.fetch(M1, 1, wait=0, timed=True))
    scene.answered("min 0", scene.fetch(M1, 2, wait=1000, min_bytes=0, timed=True))
    scene.send_fetch(M1, 3, wait=5000)
    scene.probe.sleep(300)
    since = scene.probe.now_ms
    scene.probe.produce(scene.topic_id, 2)
    scene.answered("woken by produce", scene.probe.receive(scene.connection, since_ms=since))
    scene.probe.produce(scene.topic_id, 1)
    scene.answered("min 100000", scene.fetch(M1, 4, wait=1000, min_bytes=100_000, timed=True))
    other_connection = scene.probe.connect()
    scene.send_fetch(M2, 0, "", connection=other_connection, wait=5000)
    scene.probe.sleep(200)
    since = scene.probe.now_ms
    scene.answered("release", scene.acknowledge(M1, 5, "0~1:2"))
    scene.answered("M2 woken by release", scene.probe.receive(other_connection, since_ms=since))
    scene.answered("negative wait", scene.fetch(M1, 6, wait=-1, timed=True))
    scene.answered("negative min", scene.fetch(M1, 7, wait=500, min_bytes=-5, timed=True))


@scenario
def fetch_wake_lock(scene: Scene) -> None:
    scene.loaded_topic(3)
    scene.probe.configure(scene.group, record_lock_duration_ms=1000)
    scene.answered("M1", scene.fetch(M1, 0, ""))
    other_connection = scene.probe.connect()
    scene.answered(
        "M2 wakes when the lock ends", scene.fetch(M2, 0, "", connection=other_connection, wait=6000, timed=True)
    )
    scene.answered("late ack", scene.acknowledge(M1, 1, "0~2:1"))


@scenario
def fetch_wake_topic_deleted(scene: Scene) -> None:
    scene.loaded_topic(1)
    scene.fetch(M1, 0, "")
    scene.send_fetch(M1, 1, wait=8000)
    scene.probe.sleep(300)
    since = scene.probe.now_ms
    deleted = scene.name
    scene.probe.delete_topic(scene.topic_id)
    scene.answered("waiting fetch", scene.probe.receive(scene.connection, since_ms=since))
    scene.probe.sleep(500)
    scene.answered("next", scene.fetch(M1, 2, wait=0))
    scene.answered("ack", scene.acknowledge(M1, 3, "0~0:1").replace("id?", deleted))
    scene.answered("fetch with ack", scene.fetch(M1, 4, "0~0:1", wait=0))
    scene.answered("close", scene.acknowledge(M1, -1, "0~0:1").replace("id?", deleted))


@scenario
def fetch_two_members(scene: Scene) -> None:
    scene.loaded_topic(5, 5)
    scene.answered("M1 max 5", scene.fetch(M1, 0, "", records=5))
    scene.answered("M2 max 5", scene.fetch(M2, 0, "", records=5))
    scene.answered("M1 none", scene.fetch(M1, 1, wait=0))


@scenario
def fetch_names_a_partition_twice(scene: Scene) -> None:
    scene.loaded_topic(5)
    scene.answered("same partition twice", scene.fetch(M1, 0, "", ""))


@scenario
def fetch_big_record(scene: Scene) -> None:
    scene.loaded_topic()
    scene.probe.produce(scene.topic_id, 3, size=20_000)
    scene.answered("bytes 100", scene.fetch(M1, 0, "", max_bytes=100))
