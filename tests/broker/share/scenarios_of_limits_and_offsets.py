"""Delivery counts, locks, deleted records, and where a share partition starts. Scenarios of `kafka_4_3_answers.txt`."""

from __future__ import annotations

from broker.share.scene import M1, M2, Scene, scenario

# ---- delivery counts, locks, deleted records


@scenario
def delivery_limit_by_release(scene: Scene) -> None:
    scene.loaded_topic(10)
    scene.answered("0", scene.fetch(M1, 0, ""))
    scene.acknowledge(M1, 1, "0~9:2")
    epoch, seen = 2, ""
    for _ in range(14):
        text = scene.fetch(M1, epoch, wait=100)
        epoch += 1
        acquired = text.split("acq=")[1].split(" rec")[0]
        seen += f"acq={acquired} "
        for piece in acquired.split(","):
            scene.acknowledge(M1, epoch, piece.split("x")[0] + ":2")
            epoch += 1
    scene.answered("release always", seen)
    scene.answered("offsets", scene.offsets())


@scenario
def delivery_limit_by_lock(scene: Scene) -> None:
    scene.loaded_topic(10)
    scene.probe.configure(scene.group, record_lock_duration_ms=1000, delivery_count_limit=2)
    scene.answered("1", scene.fetch(M1, 0, ""))
    scene.probe.sleep(1300)
    scene.answered("2", scene.fetch(M1, 1, wait=0))
    scene.answered("ack 0-3 of 2nd", scene.acknowledge(M1, 2, "0~3:1"))
    scene.probe.sleep(1300)
    scene.answered("3", scene.fetch(M1, 3, wait=300))
    scene.answered("offsets", scene.offsets())


@scenario
def record_lock_limit(scene: Scene) -> None:
    scene.probe.configure("grecord_lock_limit", max_record_locks=100)
    scene.loaded_topic(60, 60, 60)
    scene.answered("0", scene.fetch(M1, 0, ""))
    scene.answered("full", scene.fetch(M1, 1, wait=200))
    other_connection = scene.probe.connect()
    scene.send_fetch(M2, 0, "", connection=other_connection, wait=3000)
    scene.probe.sleep(300)
    since = scene.probe.now_ms
    scene.answered("accept 0-59", scene.acknowledge(M1, 2, "0~59:1"))
    scene.answered("M2 waiting", scene.probe.receive(other_connection, since_ms=since))
    scene.answered("M1 release 60-62", scene.acknowledge(M1, 3, "60~62:2"))
    scene.answered("M1 fetch", scene.fetch(M1, 4, wait=200))
    scene.loaded_topic(60, 60, 60, suffix="b")
    scene.probe.configure(scene.group, max_record_locks=100)
    scene.answered("limit mode", scene.fetch(M1, 0, "", mode=1))
    scene.answered("next", scene.fetch(M1, 1, wait=200, mode=1))
    scene.answered("accept 50-99", scene.acknowledge(M1, 2, "50~99:1"))
    scene.answered("still full?", scene.fetch(M1, 3, wait=200, mode=1))
    scene.answered("optimized", scene.fetch(M1, 4, wait=200))


@scenario
def delete_records(scene: Scene) -> None:
    scene.loaded_topic(5, 5, 5)
    scene.answered("0 max 5", scene.fetch(M1, 0, "", records=5))
    scene.probe.delete_records(scene.topic_id, 8)
    scene.probe.sleep(200)
    scene.answered("offsets", scene.offsets())
    scene.answered("accept 0-4", scene.acknowledge(M1, 1, "0~4:1"))
    scene.answered("next", scene.fetch(M1, 2, wait=0))
    scene.answered("next", scene.fetch(M1, 3))
    scene.answered("accept 8-14", scene.acknowledge(M1, 4, "8~14:1"))
    scene.answered("offsets", scene.offsets())


# ---- start offsets


@scenario
def reset_policies(scene: Scene) -> None:
    scene.topic_id = scene.probe.topic(scene.name)
    scene.probe.produce(scene.topic_id, 5, age_ms=7_200_000)
    scene.probe.produce(scene.topic_id, 5, age_ms=1_800_000)
    scene.probe.produce(scene.topic_id, 5)
    policies = ("PT1H", "PT3H", "PT0S", "P1D")
    for policy in ("latest", "earliest", *(f"by_duration:{text}" for text in policies)):
        scene.probe.sleep(300)
        scene.group = "g" + policy
        scene.probe.configure(scene.group, auto_offset_reset=policy)
        scene.probe.initialize(scene.group, scene.topic_id, start=-1)
        scene.answered(policy, scene.fetch(M1, 0, "", wait=700))
        scene.answered(f"{policy} offsets", scene.offsets())
    scene.probe.produce(scene.topic_id, 1)
    scene.group = "glatest"
    scene.answered("latest next", scene.fetch(M1, 1, wait=700))
    scene.group = "gby_duration:PT0S"
    scene.probe.sleep(10)
    scene.answered("PT0S next", scene.fetch(M1, 1, wait=700))
    scene.answered("PT0S next", scene.fetch(M1, 2, wait=700))


@scenario
def reset_policy_by_default(scene: Scene) -> None:
    scene.unloaded_topic(start=-1)
    scene.probe.produce(scene.topic_id, 5)
    scene.answered("offsets before the first fetch", scene.offsets())
    scene.probe.produce(scene.topic_id, 1)
    scene.answered("fetch", scene.fetch(M1, 0, ""))
    scene.answered("offsets", scene.offsets())
    scene.probe.produce(scene.topic_id, 1)
    scene.answered("fetch", scene.fetch(M1, 1))
    scene.answered("ack", scene.acknowledge(M1, 2, "6~6:1"))
    scene.answered("offsets", scene.offsets())
    scene.probe.configure(scene.group, auto_offset_reset="earliest")
    scene.answered("reset changed later", scene.fetch(M1, 0, "", wait=300))


@scenario
def start_offset(scene: Scene) -> None:
    scene.loaded_topic(10)
    scene.answered("fresh", scene.offsets())
    scene.fetch(M1, 0, "")
    scene.answered("acquired", scene.offsets())
    scene.acknowledge(M1, 1, "0~9:1")
    scene.answered("all accepted", scene.offsets())
    scene.answered("ack again", scene.acknowledge(M1, 2, "0~9:1"))
    scene.answered("after", scene.offsets())
    scene.probe.produce(scene.topic_id, 5)
    scene.answered("5 more produced", scene.offsets())
    scene.answered("fetch", scene.fetch(M1, 3))
    scene.answered("5 acquired", scene.offsets())
    scene.acknowledge(M1, 4, "12~12:1")
    scene.answered("12 accepted", scene.offsets())
    scene.acknowledge(M1, 5, "10~10:1")
    scene.answered("10 accepted", scene.offsets())
    scene.acknowledge(M1, 6, "11~11:2")
    scene.answered("11 released", scene.offsets())
    scene.fetch(M1, 7, wait=0)
    scene.acknowledge(M1, 8, "11~11:3")
    scene.answered("11 rejected", scene.offsets())
    scene.acknowledge(M1, 9, "13~14:1")
    scene.answered("rest", scene.offsets())
    scene.acknowledge(M1, -1)
    scene.answered("closed", scene.offsets())
    scene.connection.close()
    scene.probe.sleep(300)
    scene.connection = scene.probe.connect()
    scene.answered("new member on reloaded state", scene.fetch(M2, 0, "", wait=500))
    scene.answered("offsets", scene.offsets())
    scene.probe.produce(scene.topic_id, 2)
    scene.answered("2 more", scene.offsets())
    scene.answered("fetch", scene.fetch(M2, 1))
    scene.acknowledge(M2, 2, "15~15:1")
    scene.answered("15 accepted", scene.offsets())
    scene.acknowledge(M2, 3, "16~16:1")
    scene.answered("16 accepted", scene.offsets())


@scenario
def start_offset_one_by_one(scene: Scene) -> None:
    scene.loaded_topic(4)
    scene.fetch(M1, 0, "")
    for i in range(4):
        scene.acknowledge(M1, i + 1, f"{i}~{i}:1")
        scene.answered(f"accepted {i}", scene.offsets())


@scenario
def state_after_acks(scene: Scene) -> None:
    scene.loaded_topic(10)
    scene.fetch(M1, 0, "")
    scene.acknowledge(M1, 1, "0~1:1")
    scene.answered("0-1 accepted", scene.stored())
    scene.acknowledge(M1, 2, "5~6:2")
    scene.answered("5-6 released", scene.stored())
    scene.acknowledge(M1, 3, "8~8:3")
    scene.answered("8 rejected", scene.stored())
    scene.acknowledge(M1, 4, "2~4:0")
    scene.answered("2-4 gap", scene.stored())
    scene.acknowledge(M1, -1)
    scene.answered("closed", scene.stored())
