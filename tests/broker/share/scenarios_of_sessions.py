"""Sessions: epochs, replacing, connections that end, partitions that come and go.

Scenarios of `kafka_4_3_answers.txt`.
"""

from __future__ import annotations

from broker.share.scene import M1, M2, M3, NO_ID, Scene, scenario


@scenario
def session_epochs(scene: Scene) -> None:
    scene.loaded_topic(10)
    scene.answered("ack epoch 0", scene.acknowledge(M1, 0, "0~0:1"))
    scene.answered("ack epoch -1 no session", scene.acknowledge(M1, -1, "0~0:1"))
    scene.answered("fetch -1 no session", scene.fetch(M1, -1))
    scene.answered("fetch 1 no session", scene.fetch(M1, 1, ""))
    scene.answered("ack 1 no session", scene.acknowledge(M1, 1))
    scene.answered("0", scene.fetch(M1, 0, ""))
    scene.answered("0+1 wrong=5", scene.fetch(M1, 5))
    scene.answered("ack wrong=5", scene.acknowledge(M1, 5))
    scene.answered("ack wrong with topics", scene.acknowledge(M1, 5, "0~0:1"))
    scene.answered("other member", scene.fetch(M2, 1))
    scene.answered("other member ack", scene.acknowledge(M2, 1, "0~0:1"))
    scene.answered("-2", scene.fetch(M1, -2))
    scene.answered("ack -2", scene.acknowledge(M1, -2))
    scene.answered("1", scene.fetch(M1, 1, wait=0))
    scene.answered("2", scene.fetch(M1, 2, wait=0))
    scene.answered("2 again", scene.fetch(M1, 2, wait=0))
    scene.answered("ack as 3", scene.acknowledge(M1, 3, "0~0:1"))
    scene.answered("fetch 4 with ack", scene.fetch(M1, 4, "1~1:1", wait=0))
    scene.answered("-1 fetch with ack", scene.fetch(M1, -1, "2~2:1", wait=0))
    scene.answered("5 after close", scene.fetch(M1, 5))
    scene.answered("-1 again", scene.acknowledge(M1, -1))
    scene.answered("M2 gets rest", scene.fetch(M2, 0, ""))
    scene.answered("offsets", scene.offsets())


@scenario
def acknowledgement_that_opens_a_session(scene: Scene) -> None:
    scene.loaded_topic(10)
    scene.answered("0", scene.fetch(M1, 0, ""))
    scene.answered("0 with acks", scene.fetch(M1, 0, "0~9:1"))
    scene.answered("session after it: 1", scene.fetch(M1, 1, wait=0))


@scenario
def missing_ids(scene: Scene) -> None:
    scene.loaded_topic(1)
    ids = [None, "", "x", "not-a-uuid-but-short", "123456789012345678901234567890123456"]
    for member in [*ids, "1234567890123456789012345678901234567"]:
        name = "null" if member is None else member
        scene.answered(f"fetch {name}", scene.fetch(member, 0, "", wait=0))
        scene.answered(f"ack {name}", scene.acknowledge(member, 1))
        scene.answered(f"close {name}", scene.acknowledge(member, -1))
    scene.answered("null group", scene.fetch(M1, 0, "", group=None))
    scene.answered("null group ack", scene.acknowledge(M1, 1, group=None))
    scene.answered("empty group", scene.fetch(M1, 0, "", group=""))
    scene.answered("unknown group", scene.fetch(M1, 0, "", group="nosuch", wait=0))


@scenario
def session_replaced(scene: Scene) -> None:
    scene.loaded_topic(10, 10)
    scene.answered("0 max 10", scene.fetch(M1, 0, "", records=10))
    scene.answered("0 again", scene.fetch(M1, 0, "", records=5))
    scene.answered("0 again", scene.fetch(M1, 0, "", wait=0))
    scene.answered("ack old records in the new session", scene.acknowledge(M1, 1, "0~9:1"))
    scene.answered("close", scene.acknowledge(M1, -1))
    scene.answered("M2", scene.fetch(M2, 0, ""))


@scenario
def session_used_from_another_connection(scene: Scene) -> None:
    scene.loaded_topic(10)
    other_connection = scene.probe.connect()
    scene.answered("0 on c1", scene.fetch(M1, 0, ""))
    scene.answered("1 on c2", scene.fetch(M1, 1, wait=0, connection=other_connection))
    scene.answered("ack 2 on c2", scene.acknowledge(M1, 2, "0~1:1", connection=other_connection))
    scene.connection.close()
    scene.probe.sleep(300)
    scene.answered("3 on c2 after c1 closed", scene.fetch(M1, 3, wait=0, connection=other_connection))
    scene.answered("M2 sees", scene.fetch(M2, 0, "", connection=other_connection))


@scenario
def connection_dropped(scene: Scene) -> None:
    scene.loaded_topic(10)
    scene.answered("0", scene.fetch(M1, 0, ""))
    other_connection = scene.probe.connect()
    scene.send_fetch(M2, 0, "", connection=other_connection, wait=8000)
    since = scene.probe.now_ms
    scene.probe.sleep(300)
    scene.connection.close()
    scene.answered("M2 waiting fetch", scene.probe.receive(other_connection, since_ms=since).replace("took~", "took ~"))
    third_connection = scene.probe.connect()
    scene.answered("old session", scene.fetch(M1, 1, wait=0, connection=third_connection))
    other_connection.close()
    scene.probe.sleep(300)
    scene.answered("M3", scene.fetch(M3, 0, "", connection=third_connection))


@scenario
def close_and_delivery_counts(scene: Scene) -> None:
    scene.loaded_topic(10)
    for i in range(7):
        scene.answered(f"fetch {i}", scene.fetch(M1, 0, ""))
        scene.answered(f"close {i}", scene.acknowledge(M1, -1))
    scene.answered("offsets", scene.offsets())


@scenario
def close_by_fetch_and_delivery_counts(scene: Scene) -> None:
    scene.loaded_topic(2)
    for i in range(3):
        scene.answered(f"fetch {i}", scene.fetch(M1, 0, ""))
        scene.answered(f"close {i}", scene.fetch(M1, -1, wait=0))


@scenario
def bad_fetch_then_acknowledgement(scene: Scene) -> None:
    for k in range(6):
        scene.loaded_topic(3, suffix=str(k))
        scene.fetch(M1, 0, "")
        bad = (
            scene.fetch(M1, 5, "")
            if k == 0
            else scene.acknowledge(M1, 5)
            if k == 1
            else scene.fetch(M1, -2)
            if k == 2
            else scene.acknowledge(M1, -2)
            if k == 3
            else scene.fetch(M2, 1)
            if k == 4
            else scene.fetch(M1, 1, wait=0)
        )
        scene.probe.sleep(200)
        scene.answered(
            f"bad {k}", f"{bad[:40]} then ack {scene.acknowledge(M1, 2 if k == 5 else 1, '0~0:1')}".replace("  ", " ")
        )


@scenario
def last_connection_of_a_session(scene: Scene) -> None:
    scene.unloaded_topic()
    scene.probe.produce(scene.topic_id, 4)
    scene.answered("0", scene.fetch(M1, 0, "", wait=800))
    scene.acknowledge(M1, 1, "2~2:1")
    scene.connection.close()
    scene.probe.sleep(500)
    scene.connection = scene.probe.connect()
    scene.answered("reloaded", scene.fetch(M2, 0, "", wait=800))
    scene.answered("ack", scene.acknowledge(M2, 1, "0~1:1;3~3:1"))
    scene.answered("offsets", scene.offsets())


@scenario
def forgotten_partition(scene: Scene) -> None:
    scene.loaded_topic(5, partitions=2)
    scene.probe.produce(scene.topic_id, 5, 1)
    scene.answered("0", scene.fetch(M1, 0, partitions=[(scene.topic_id, 0, ""), (scene.topic_id, 1, "")]))
    scene.answered("1", scene.fetch(M1, 1, wait=0))
    scene.probe.produce(scene.topic_id, 5)
    scene.probe.produce(scene.topic_id, 5, 1)
    scene.answered("2 forget p0", scene.fetch(M1, 2, forget=[(scene.topic_id, [0])]))
    scene.answered("ack forgotten p0 (3)", scene.fetch(M1, 3, "0~4:1", wait=0))
    scene.answered("4 empty", scene.fetch(M1, 4, wait=0))
    scene.answered("5 forget unknown", scene.fetch(M1, 5, wait=0, forget=[(scene.topic_id, [7])]))
    scene.answered("close", scene.acknowledge(M1, -1))
    scene.answered("M2", scene.fetch(M2, 0, partitions=[(scene.topic_id, 0, ""), (scene.topic_id, 1, "")]))


@scenario
def incremental_session(scene: Scene) -> None:
    scene.loaded_topic(2, partitions=2)
    scene.answered("0 two parts", scene.fetch(M1, 0, partitions=[(scene.topic_id, 0, ""), (scene.topic_id, 1, "")]))
    scene.answered("1 none", scene.fetch(M1, 1, wait=0))
    scene.probe.produce(scene.topic_id, 2, 1)
    scene.answered("2 p1 news", scene.fetch(M1, 2))
    scene.answered("3 again listed in topics", scene.fetch(M1, 3, "", wait=0))
    scene.answered("4 ack only p0", scene.fetch(M1, 4, "0~1:1", wait=0))
    scene.answered("5 ack of p1 only, error", scene.fetch(M1, 5, partitions=[(scene.topic_id, 1, "5~6:1")], wait=0))
    scene.answered("6 unknown partition added", scene.fetch(M1, 6, partitions=[(scene.topic_id, 9, "")], wait=0))
    scene.answered("7 still listed", scene.fetch(M1, 7, wait=0))
    scene.answered("8 unknown id added", scene.fetch(M1, 8, partitions=[(NO_ID, 0, "")], wait=0))
    scene.answered("9 still listed", scene.fetch(M1, 9, wait=0))


@scenario
def session_without_topics(scene: Scene) -> None:
    scene.loaded_topic(1)
    scene.answered("0 no topics", "".join(scene.fetch(M1, 0, timed=True)))
    scene.answered("1 no topics", scene.fetch(M1, 1, timed=True))
    scene.answered("2 add", scene.fetch(M1, 2, ""))


@scenario
def acknowledgement_outside_the_session(scene: Scene) -> None:
    scene.loaded_topic(5, partitions=2)
    scene.probe.produce(scene.topic_id, 5, 1)
    scene.answered("0", scene.fetch(M1, 0, ""))
    scene.answered("close", scene.acknowledge(M1, -1))
    scene.fetch(M1, 0, partitions=[(scene.topic_id, 1, "")])
    scene.answered("ack p0 not held", scene.acknowledge(M1, 1, "0~4:1"))
    scene.answered(
        "ack never loaded/unknown partition", scene.acknowledge(M1, 2, partitions=[(scene.topic_id, 5, "0~4:1")])
    )
    scene.answered("ack unknown id", scene.acknowledge(M1, 3, partitions=[(NO_ID, 0, "0~4:1")]))
    other = scene.probe.topic("other")
    scene.answered("ack other topic not initialised", scene.acknowledge(M1, 4, partitions=[(other, 0, "0~4:1")]))
