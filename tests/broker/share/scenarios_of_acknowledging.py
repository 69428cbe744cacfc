"""Acknowledging: what is refused, what goes with a fetch, whom it wakes, renewal.

Scenarios of `kafka_4_3_answers.txt`.
"""

from __future__ import annotations

from typing import Any

from broker.share.probe import Connection
from broker.share.scene import M1, M2, Scene, scenario


@scenario
def acknowledgement_validation(scene: Scene) -> None:
    scene.loaded_topic(20)
    scene.answered("0", scene.fetch(M1, 0, ""))
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
        scene.answered(f"ack {text}", scene.acknowledge(M1, epoch, text))
        epoch += 1
    scene.answered("fetch with bad ack 5", scene.fetch(M1, 16, "0~2:5", wait=0))
    scene.answered("v1 type 4", scene.acknowledge(M1, 17, "0~0:4", version=1))
    scene.answered("empty batches", scene.acknowledge(M1, 18, ""))
    scene.answered("no topics", scene.acknowledge(M1, 19))
    scene.answered("types 0,1,2,3", scene.acknowledge(M1, 20, "0~3:0,1,2,3"))
    scene.answered("again", scene.acknowledge(M1, 21, "0~3:0,1,2,3"))
    scene.answered("0-1 again", scene.acknowledge(M1, 22, "0~1:1"))
    scene.answered("2 released: fetch", scene.fetch(M1, 23, wait=0))
    scene.answered("GAP 5-6", scene.acknowledge(M1, 24, "5~6:0"))
    scene.answered("good+bad batch", scene.acknowledge(M1, 25, "8~9:1;5~6:1"))
    scene.answered("8-9 then 5-6 sorted: bad second", scene.acknowledge(M1, 26, "5~6:1;8~9:1"))
    scene.answered("8-9 still held", scene.acknowledge(M1, 27, "8~9:1"))
    scene.answered("over mixed range 7-10", scene.acknowledge(M1, 28, "7~10:1"))
    scene.answered("offsets", scene.offsets())
    scene.answered("close", scene.acknowledge(M1, -1))
    scene.answered("M2", scene.fetch(M2, 0, ""))


@scenario
def acknowledgement_of_nothing_acquired(scene: Scene) -> None:
    scene.loaded_topic(10)
    scene.answered("0 max 0", scene.fetch(M1, 0, "", records=0))
    scene.answered("ack not loaded", scene.acknowledge(M1, 1, "0~0:1"))
    scene.answered("load", scene.fetch(M2, 0, "", records=1))
    scene.answered("ack other's", scene.acknowledge(M1, 2, "0~0:1"))
    scene.answered("ack other's all", scene.acknowledge(M1, 3, "0~9:1"))


@scenario
def acknowledgement_of_another_member_s_records(scene: Scene) -> None:
    scene.loaded_topic(5, 5)
    scene.fetch(M1, 0, "", records=5)
    scene.fetch(M2, 0, "", records=5)
    scene.answered("M2 acks M1's", scene.acknowledge(M2, 1, "0~4:1"))
    scene.answered("sub-range", scene.acknowledge(M2, 2, "1~2:3"))
    scene.answered("both", scene.acknowledge(M2, 3, "0~9:1"))
    scene.answered("own", scene.acknowledge(M2, 4, "5~9:1"))
    scene.answered("offsets", scene.offsets())


@scenario
def release_then_accept(scene: Scene) -> None:
    scene.loaded_topic(10)
    scene.fetch(M1, 0, "")
    scene.answered("release 5-9", scene.acknowledge(M1, 1, "5~9:2"))
    scene.answered("accept 5-9", scene.acknowledge(M1, 2, "5~9:1"))
    scene.answered("refetch", scene.fetch(M1, 3))
    scene.answered("reject 6-8", scene.acknowledge(M1, 4, "6~8:3"))
    scene.answered("reject again", scene.acknowledge(M1, 5, "6~8:3"))
    scene.answered("offsets", scene.offsets())


@scenario
def acknowledgement_on_a_fetch(scene: Scene) -> None:
    scene.loaded_topic(10, 10)
    scene.answered("0", scene.fetch(M1, 0, "", records=10))
    scene.answered("accept+fetch", scene.fetch(M1, 1, "0~9:1"))
    scene.answered("release+fetch", scene.fetch(M1, 2, "10~19:2"))
    scene.answered("reject+fetch wait 1000", scene.fetch(M1, 3, "10~19:3", wait=1000, timed=True))
    scene.answered("bad ack + fetch wait 1000", scene.fetch(M1, 4, "10~19:1", wait=1000, timed=True))


def _second_member_waits(scene: Scene) -> tuple[Connection, int]:
    scene.loaded_topic(3)
    scene.fetch(M1, 0, "")
    other_connection = scene.probe.connect()
    scene.fetch(M2, 0, "", connection=other_connection, wait=300)
    scene.send_fetch(M2, 1, connection=other_connection, wait=3000)
    scene.probe.sleep(200)
    return other_connection, scene.probe.now_ms


@scenario
def release_wakes_a_fetch(scene: Scene) -> None:
    other_connection, since = _second_member_waits(scene)
    scene.acknowledge(M1, 1, "0~2:2")
    scene.answered("ack RELEASE wakes other member", scene.probe.receive(other_connection, since_ms=since))


@scenario
def release_on_a_fetch_wakes_a_fetch(scene: Scene) -> None:
    other_connection, since = _second_member_waits(scene)
    scene.fetch(M1, 1, "0~2:2", records=0)
    scene.answered("piggybacked RELEASE wakes other member", scene.probe.receive(other_connection, since_ms=since))


@scenario
def close_wakes_a_fetch(scene: Scene) -> None:
    other_connection, since = _second_member_waits(scene)
    scene.acknowledge(M1, -1)
    scene.answered("close wakes other member", scene.probe.receive(other_connection, since_ms=since))


@scenario
def close_before_fetch(scene: Scene) -> None:
    scene.loaded_topic(3)
    scene.fetch(M1, 0, "")
    other_connection = scene.probe.connect()
    scene.fetch(M2, 0, "", connection=other_connection, wait=300)
    scene.answered("close", scene.acknowledge(M1, -1))
    scene.answered("M2 at once", scene.fetch(M2, 1, connection=other_connection, wait=3000, timed=True))


@scenario
def renew(scene: Scene) -> None:
    zero: dict[str, Any] = {"records": 0, "batch": 0, "wait": 0, "min_bytes": 0, "max_bytes": 0}
    scene.loaded_topic(10)
    scene.probe.configure(scene.group, record_lock_duration_ms=1500)
    scene.answered("0", scene.fetch(M1, 0, ""))
    scene.answered("ack RENEW without flag", scene.acknowledge(M1, 1, "0~0:4"))
    scene.probe.sleep(800)
    scene.answered("ack RENEW 0-4", scene.acknowledge(M1, 2, "0~4:4", renew=True))
    scene.answered("renew flag without RENEW", scene.acknowledge(M1, 3, "9~9:1", renew=True))
    scene.probe.sleep(1000)
    scene.answered("accept renewed 0-1", scene.acknowledge(M1, 4, "0~1:1"))
    scene.answered("accept not renewed 5", scene.acknowledge(M1, 5, "5~5:1"))
    scene.answered("renew not held", scene.acknowledge(M1, 6, "5~5:4", renew=True))
    scene.answered("fetch renew, all zero", scene.fetch(M1, 7, "2~3:4,1", renew=True, timed=True, **zero))
    scene.answered("fetch renew maxwait 100", scene.fetch(M1, 8, "2~2:4", renew=True, **(zero | {"wait": 100})))
    scene.answered("fetch renew max 1", scene.fetch(M1, 8, "2~2:4", renew=True, **(zero | {"records": 1})))
    scene.answered("fetch renew minbytes 1", scene.fetch(M1, 8, "2~2:4", renew=True, **(zero | {"min_bytes": 1})))
    scene.answered("fetch renew maxbytes 1", scene.fetch(M1, 8, "2~2:4", renew=True, **(zero | {"max_bytes": 1})))
    scene.answered("fetch renew batch 1", scene.fetch(M1, 8, "2~2:4", renew=True, **(zero | {"batch": 1})))
    scene.answered("fetch renew no acks", scene.fetch(M1, 9, "", renew=True, **zero))
    scene.answered("epoch 9 or 10?", scene.fetch(M1, 9, wait=0))
    scene.answered("epoch 10", scene.fetch(M1, 10, wait=0))
    scene.answered("epoch 0 renew", scene.fetch(M1, 0, "", renew=True, **zero))
    scene.answered("renew without flag in fetch", scene.fetch(M1, 11, "2~2:4", **zero))
    scene.answered("close with renew", scene.acknowledge(M1, -1, "2~2:4", renew=True))
