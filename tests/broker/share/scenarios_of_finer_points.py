"""Finer points, each recorded to decide one question. Scenarios of `kafka_4_3_answers.txt`."""

from __future__ import annotations

from broker.share.scene import M1, M2, M3, NO_ID, Scene, scenario

from kafka_share.broker.share.state_records import StateKey


@scenario
def release_on_a_waiting_fetch(scene: Scene) -> None:
    scene.loaded_topic(3)
    scene.fetch(M1, 0, "")
    scene.answered("rel", scene.fetch(M1, 1, "0~2:2", wait=3000, timed=True))


@scenario
def second_release_wakes_a_fetch(scene: Scene) -> None:
    scene.loaded_topic(3)
    scene.fetch(M1, 0, "")
    other_connection = scene.probe.connect()
    scene.fetch(M2, 0, "", connection=other_connection, wait=300)
    scene.send_fetch(M2, 1, connection=other_connection, wait=4000)
    scene.probe.sleep(200)
    since = scene.probe.now_ms
    scene.acknowledge(M1, 1, "0~1:2")
    scene.probe.sleep(500)
    scene.acknowledge(M1, 2, "2~2:2")
    scene.answered("M2", scene.probe.receive(other_connection, since_ms=since))


@scenario
def log_start_inside_an_acquired_batch(scene: Scene) -> None:
    scene.loaded_topic(5, 5, 5)
    scene.answered("M1", scene.fetch(M1, 0, "", records=5))
    scene.probe.delete_records(scene.topic_id, 8)
    scene.answered("M2", scene.fetch(M2, 0, "", wait=0))
    scene.answered("M2", scene.fetch(M2, 1, wait=0))
    scene.answered("M2", scene.fetch(M2, 2, wait=0))
    scene.acknowledge(M1, -1)
    for epoch in (3, 4, 5):
        scene.answered("M2", scene.fetch(M2, epoch, wait=0))
    scene.answered("offsets", scene.offsets())
    scene.answered("state", scene.stored())


@scenario
def acknowledgement_beyond_an_empty_window(scene: Scene) -> None:
    scene.loaded_topic(20)
    scene.fetch(M1, 0, "")
    scene.acknowledge(M1, 1, "0~19:1")
    scene.answered("ack 19~20", scene.acknowledge(M1, 2, "19~20:1"))
    scene.answered("ack 20~21", scene.acknowledge(M1, 3, "20~21:1"))
    scene.answered("ack 0~19", scene.acknowledge(M1, 4, "0~19:1"))


@scenario
def first_fetch_of_three_partitions(scene: Scene) -> None:
    scene.unloaded_topic(partitions=3)
    for index in range(3):
        scene.probe.produce(scene.topic_id, 3, index)
    scene.answered(
        "0", scene.fetch(M1, 0, partitions=[(scene.topic_id, i, "") for i in range(3)], wait=2000, timed=True)
    )


@scenario
def full_window_when_a_session_opens(scene: Scene) -> None:
    scene.probe.configure("gfull_window_when_a_session_opens", max_record_locks=100)
    scene.loaded_topic(100, 5)
    scene.answered("M1", scene.fetch(M1, 0, ""))
    scene.answered("M2", scene.fetch(M2, 0, "", wait=300, timed=True))
    scene.answered("M2 min 0", scene.fetch(M2, 1, wait=1000, min_bytes=0, timed=True))


@scenario
def byte_limits(scene: Scene) -> None:
    scene.loaded_topic(partitions=3)
    for index in range(3):
        for _ in range(6):
            scene.probe.produce(scene.topic_id, 1, index, size=1000)
    parts = [(scene.topic_id, i, "") for i in range(3)]
    scene.answered("0", scene.fetch(M1, 0, partitions=parts, max_bytes=1500))
    scene.answered("1", scene.fetch(M1, 1, max_bytes=1500))
    for epoch in (2, 3, 4):
        scene.answered(str(epoch), scene.fetch(M1, epoch, max_bytes=9000))


@scenario
def fetch_wakes_a_fetch(scene: Scene) -> None:
    scene.loaded_topic(3)
    scene.fetch(M1, 0, "")
    other_connection = scene.probe.connect()
    scene.fetch(M2, 0, "", connection=other_connection, wait=300)
    scene.send_fetch(M2, 1, connection=other_connection, wait=4000)
    scene.probe.sleep(200)
    since = scene.probe.now_ms
    scene.acknowledge(M1, 1, "0~2:2")
    scene.probe.sleep(500)
    scene.answered("M1", scene.fetch(M1, 2, mode=1, records=1))
    scene.answered("M2", scene.probe.receive(other_connection, since_ms=since))


@scenario
def record_limit_over_released_records(scene: Scene) -> None:
    scene.loaded_topic(10, 10)
    scene.fetch(M1, 0, "", mode=1, records=3)
    scene.fetch(M2, 0, "", mode=1, records=3)
    scene.acknowledge(M1, 1, "0~2:2")
    scene.acknowledge(M2, 1, "3~5:2")
    scene.answered("M1", scene.fetch(M1, 2, mode=1, records=13))


@scenario
def two_sessions_on_one_connection(scene: Scene) -> None:
    scene.loaded_topic(5, 5)
    scene.fetch(M1, 0, "", records=5)
    scene.fetch(M2, 0, "", records=5)
    scene.connection.close()
    scene.probe.sleep(300)
    scene.connection = scene.probe.connect()
    scene.answered("M1", scene.fetch(M1, 1, wait=0))
    scene.answered("M2", scene.fetch(M2, 1, wait=0))
    scene.answered("M3", scene.fetch(M3, 0, ""))


@scenario
def session_moves_while_a_fetch_waits(scene: Scene) -> None:
    scene.loaded_topic()
    scene.fetch(M1, 0, "", wait=300)
    scene.send_fetch(M1, 1, wait=2000)
    scene.probe.sleep(200)
    scene.answered("ack other conn", scene.acknowledge(M1, 2, connection=scene.probe.connect()))
    scene.answered("waiting", scene.probe.receive(scene.connection))
    scene.answered("3", scene.fetch(M1, 3, wait=0))


@scenario
def session_replaced_while_a_fetch_waits(scene: Scene) -> None:
    scene.loaded_topic()
    scene.fetch(M1, 0, "", wait=300)
    scene.send_fetch(M1, 1, wait=2000)
    scene.probe.sleep(200)
    other_connection = scene.probe.connect()
    scene.answered("0 other conn", scene.fetch(M1, 0, "", wait=0, connection=other_connection))
    scene.probe.produce(scene.topic_id, 2)
    scene.answered("waiting", scene.probe.receive(scene.connection))
    scene.answered("1", scene.fetch(M1, 1, wait=0, connection=other_connection))


@scenario
def start_offset_beyond_the_log(scene: Scene) -> None:
    scene.unloaded_topic(start=50)
    scene.probe.produce(scene.topic_id, 5)
    scene.answered("beyond", scene.fetch(M1, 0, "", wait=1000, timed=True))
    scene.answered("beyond", scene.fetch(M1, 1, wait=1000, timed=True))


@scenario
def negative_limits(scene: Scene) -> None:
    scene.loaded_topic()
    scene.answered("max -1", scene.fetch(M1, 0, "", records=-1, wait=800, timed=True))
    scene.answered("bytes -1", scene.fetch(M1, 1, max_bytes=-1, wait=800, timed=True))
    scene.answered("batch -3", scene.fetch(M1, 2, batch=-3, wait=300))
    scene.probe.produce(scene.topic_id, 3)
    scene.probe.produce(scene.topic_id, 3)
    scene.answered("batch -3", scene.fetch(M1, 3, batch=-3, wait=300))


@scenario
def partition_named_twice_later(scene: Scene) -> None:
    scene.loaded_topic(5)
    scene.fetch(M1, 0, "")
    scene.answered("dup ack", scene.acknowledge(M1, 1, "0~0:1", "1~1:1"))
    scene.answered("dup fetch", scene.fetch(M1, 2, "2~2:1", "", wait=0))
    scene.answered("dup epoch 0", scene.fetch(M1, 0, "", ""))
    scene.answered("3", scene.fetch(M1, 3, wait=0))
    scene.answered("M2", scene.fetch(M2, 0, "", wait=300))


@scenario
def last_fetch_names_an_unknown_topic(scene: Scene) -> None:
    scene.loaded_topic(5)
    scene.fetch(M1, 0, "")
    scene.answered("-1 unknown id", scene.fetch(M1, -1, partitions=[(NO_ID, 0, "")], wait=0))
    scene.answered("1", scene.fetch(M1, 1, wait=0))
    scene.answered("-1 dup", scene.fetch(M1, -1, "0~0:1", wait=0))
    scene.answered("unknown + unauth", scene.fetch(M2, 0, partitions=[(NO_ID, 0, "")], wait=0))
    scene.answered("M2 1", scene.fetch(M2, 1, wait=0))


@scenario
def partitions_take_turns(scene: Scene) -> None:
    scene.loaded_topic(partitions=3)
    for _ in range(9):
        for index in range(3):
            scene.probe.produce(scene.topic_id, 1, index)
    scene.answered("0", scene.fetch(M1, 0, partitions=[(scene.topic_id, i, "") for i in range(3)], records=1))
    for epoch in range(1, 9):
        scene.answered(str(epoch), scene.fetch(M1, epoch, records=1))


@scenario
def acknowledgement_then_lock_end(scene: Scene) -> None:
    scene.loaded_topic(5)
    scene.probe.configure(scene.group, record_lock_duration_ms=1000)
    scene.answered("0", scene.fetch(M1, 0, ""))
    scene.acknowledge(M1, 1, "1~1:1")
    scene.probe.sleep(1300)
    scene.answered("M2", scene.fetch(M2, 0, "", wait=0))
    scene.answered("state", scene.stored())


@scenario
def share_state_deleted(scene: Scene) -> None:
    scene.loaded_topic(5)
    scene.answered("0", scene.fetch(M1, 0, ""))
    scene.probe.coordinator.delete(StateKey(scene.group, scene.topic_id, 0), scene.probe.now_ms)
    scene.answered("ack", scene.acknowledge(M1, 1, "0~4:1"))
    scene.answered("1", scene.fetch(M1, 2, wait=0))
    scene.answered("close", scene.acknowledge(M1, -1))
    scene.answered("M2", scene.fetch(M2, 0, "", wait=300))


@scenario
def acknowledgement_of_a_missing_partition(scene: Scene) -> None:
    scene.loaded_topic(5)
    scene.fetch(M1, 0, "")
    parts = [(scene.topic_id, 3, "0~0:1"), (scene.topic_id, 0, "0~0:1")]
    scene.answered("partial fetch errors", scene.fetch(M1, 1, partitions=parts, wait=0))


@scenario
def log_start_beyond_an_acquired_batch(scene: Scene) -> None:
    scene.loaded_topic(5, 5, 5)
    scene.answered("M1", scene.fetch(M1, 0, "", records=5))
    scene.probe.delete_records(scene.topic_id, 8)
    scene.answered("M2", scene.fetch(M2, 0, "", wait=0))
    scene.answered("ack", scene.acknowledge(M1, 1, "0~4:1"))
    for epoch in (1, 2, 3):
        scene.answered("M2", scene.fetch(M2, epoch, wait=0))
    scene.acknowledge(M2, 4, "9~9:1")
    scene.answered("offsets", scene.offsets())
    scene.answered("state", scene.stored())


@scenario
def acknowledgement_across_the_start_offset(scene: Scene) -> None:
    scene.loaded_topic(5, 5)
    scene.fetch(M1, 0, "")
    scene.answered("all", scene.acknowledge(M1, 1, "0~9:1"))
    scene.probe.produce(scene.topic_id, 3)
    scene.answered("next", scene.fetch(M1, 2))
    scene.answered("ack 8~11", scene.acknowledge(M1, 3, "8~11:1"))
    scene.answered("ack 3~5", scene.acknowledge(M1, 4, "3~5:1"))


@scenario
def lock_end_in_a_full_window(scene: Scene) -> None:
    scene.probe.configure(
        "glock_end_in_a_full_window", max_record_locks=100, delivery_count_limit=2, record_lock_duration_ms=1000
    )
    scene.loaded_topic(100, 5)
    scene.fetch(M1, 0, "")
    scene.probe.sleep(1300)
    scene.answered("2nd", scene.fetch(M1, 1))
    other_connection = scene.probe.connect()
    scene.answered("M2", scene.fetch(M2, 0, "", connection=other_connection, wait=4000, timed=True))
    scene.answered("M2", scene.fetch(M2, 1, connection=other_connection, wait=1000, timed=True))


@scenario
def partition_in_error_is_listed(scene: Scene) -> None:
    scene.loaded_topic(2, partitions=2)
    scene.answered("err+ok", scene.fetch(M1, 0, partitions=[(scene.topic_id, 0, ""), (scene.topic_id, 7, "")]))
    scene.answered("1", scene.fetch(M1, 1, wait=0))
    scene.answered("2 forget", scene.fetch(M1, 2, forget=[(scene.topic_id, [7])], wait=0))
    scene.answered("3 forget all", scene.fetch(M1, 3, forget=[(scene.topic_id, [0])], wait=500, timed=True))
    scene.answered(
        "4", scene.fetch(M1, 4, partitions=[(scene.topic_id, 1, ""), (scene.topic_id, 7, "")], wait=800, timed=True)
    )


@scenario
def connection_ends_while_its_fetch_waits(scene: Scene) -> None:
    scene.loaded_topic(3)
    scene.answered("M1", scene.fetch(M1, 0, ""))
    scene.send_fetch(M1, 1, wait=2000)
    scene.probe.sleep(300)
    scene.connection.close()
    scene.probe.sleep(2500)
    scene.connection = scene.probe.connect()
    scene.answered("M2 later", scene.fetch(M2, 0, "", wait=0))


@scenario
def connection_ends_before_its_fetch_is_answered(scene: Scene) -> None:
    scene.loaded_topic()
    scene.answered("M1", scene.fetch(M1, 0, "", wait=300))
    scene.send_fetch(M1, 1, wait=2000)
    scene.probe.sleep(300)
    scene.connection.close()
    scene.probe.sleep(300)
    scene.probe.produce(scene.topic_id, 2)
    scene.probe.sleep(300)
    scene.connection = scene.probe.connect()
    scene.answered("M2", scene.fetch(M2, 0, "", wait=0))


@scenario
def news_of_an_expired_fetch_comes_with_the_next_request(scene: Scene) -> None:
    scene.loaded_topic(4)
    scene.fetch(M1, 0, "")
    other_connection = scene.probe.connect()
    scene.fetch(M2, 0, "", connection=other_connection, wait=300)
    scene.send_fetch(M2, 1, connection=other_connection, wait=4000)
    scene.probe.sleep(200)
    since = scene.probe.now_ms
    scene.answered("rel", scene.acknowledge(M1, 1, "0~2:2"))
    scene.probe.sleep(300)
    scene.answered("M1 min big", scene.fetch(M1, 2, mode=1, records=1, min_bytes=1_000_000, wait=500))
    scene.probe.sleep(600)
    scene.acknowledge(M3, 5)  # any request to the node
    scene.answered("M2", scene.probe.receive(other_connection, since_ms=since))


@scenario
def partition_that_fails_to_load_while_a_fetch_waits(scene: Scene) -> None:
    scene.loaded_topic()
    u = scene.topic_id
    scene.topic_id = scene.probe.topic("unused")
    scene.probe.view.partitions[u, 1] = type(scene.probe.view.partitions[u, 0])(u, scene.name, 1)
    scene.answered(
        "uninit p1 + p0 wait", scene.fetch(M1, 0, partitions=[(u, 0, ""), (u, 1, "")], wait=1500, timed=True)
    )
