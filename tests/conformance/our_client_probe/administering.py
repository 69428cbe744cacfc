"""Scenarios: the admin client. A result is a mapping with a value or an error for each item."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, Final

from conformance.our_client_probe.notation import listed, outcome, truth
from conformance.our_client_probe.registry import scenario
from conformance.our_client_probe.scene import REJECT, RELEASE, Scene, accept_all
from support.waiting import wait_until

from kafka_share import ConfigSource, KafkaShareAdmin, TopicPartition

CONFIGS: Final = (
    "share.auto.offset.reset=none",
    "share.auto.offset.reset=by_duration:1h",
    "share.auto.offset.reset=by_duration:-PT1H",
    "share.auto.offset.reset=by_duration:PT1H",
    "share.auto.offset.reset=EARLIEST",
    "share.isolation.level=x",
    "share.record.lock.duration.ms=1",
    "share.record.lock.duration.ms=9999999",
    "share.record.lock.duration.ms=abc",
    "share.heartbeat.interval.ms=1",
    "share.session.timeout.ms=1",
    "share.delivery.count.limit=1",
    "share.delivery.count.limit=3",
    "share.partition.max.record.locks=1",
    "share.renew.acknowledge.enable=maybe",
    "share.no.such=1",
)


def _item(result: Mapping[Any, Any], key: Any) -> Any:
    """The value of one item; raises its error."""
    value = result[key]
    if isinstance(value, Exception):
        raise value
    return value


def _offsets(scene: Scene, admin: KafkaShareAdmin, partitions: Iterable[TopicPartition] | None = None) -> str:
    """Where the group g is, in the partitions or in all that have share state."""
    group = scene.named("g")

    def asked() -> str:
        found = _item(admin.list_share_group_offsets({group: partitions}), group)
        return listed(sorted(f"{scene.rename(str(where))}={_offset_text(of)}" for where, of in found.items()))

    return outcome(asked)


def _offset_text(found: Any) -> str:
    return str(found and f"start {found.start_offset} lag {found.lag} epoch {found.leader_epoch}")


def _described(admin: KafkaShareAdmin, group: str) -> Any:
    return _item(admin.describe_share_groups([group]), group)


def _deleted(admin: KafkaShareAdmin, group: str) -> str:
    return outcome(lambda: _item(admin.delete_share_groups([group]), group))


@scenario("admin/describe")
def _describe(scene: Scene) -> str:
    """Describe a group with a member, and when it is empty."""
    group = scene.group()
    topic = scene.topic()
    consumer = scene.consumer(group)
    consumer.subscribe([topic, scene.named("zz")])
    scene.poll(consumer, "", 2_500)
    with scene.admin() as admin:
        found = _item(admin.describe_share_groups([group], include_authorized_operations=True), group)
        told = (
            f"{found.state.value} epoch==target:{truth(found.group_epoch == found.assignment_epoch)} "
            f"memberEpoch==epoch:{truth(all(m.member_epoch == found.group_epoch for m in found.members))} "
            f"ops={listed(operation.name for operation in sorted(found.authorized_operations))} "
            f"coord={truth(found.coordinator is not None)} rack={found.members[0].rack_id}"
        )
        consumer.close()
        found = _described(admin, group)
    return (
        f"{told} | {found.state.value} members={len(found.members)} ops={found.authorized_operations} "
        f"epoch==target:{truth(found.group_epoch == found.assignment_epoch)}"
    )


@scenario("admin/describe-errors")
def _describe_errors(scene: Scene) -> str:
    """Describe groups that do not exist or are of another type."""
    scene.desk.make_classic_group(scene.named("cg"), scene.topic())
    with scene.admin() as admin:
        asked = (("missing", scene.named("no")), ("classic", scene.named("cg")), ("empty id", ""))
        told = [f"{name}:{outcome(partial(_described, admin, group))}" for name, group in asked]
        told.append(f"none:{outcome(lambda: admin.describe_share_groups([]))}")
    return listed(told)


@scenario("admin/offsets-lifecycle")
def _offsets_lifecycle(scene: Scene) -> str:
    """Start offset and lag while records are held, accepted, rejected, released."""
    consumer = scene.explicit(scene.group())
    topic = scene.topic(partitions=2)
    scene.produce(10)
    with scene.admin() as admin:
        told = [f"missing:{_offsets(scene, admin)}"]
        consumer.subscribe([topic])
        named = [TopicPartition(topic, 0), TopicPartition(scene.named("nope"), 3)]
        told.append(f"named missing:{_offsets(scene, admin, named)}")
        records = list(scene.first(consumer))
        told.append(f"held:{_offsets(scene, admin)}")

        def commit(name: str) -> None:
            scene.commit(consumer)
            told.append(f"{name}:{_offsets(scene, admin)}")

        accept_all(consumer, records[3:5])
        consumer.acknowledge(records[5], REJECT)
        commit("3,4 acc 5 rej")
        consumer.acknowledge(records[0])
        commit("0 acc")
        accept_all(consumer, [records[i] for i in (1, 2, 6, 7, 8)])
        commit("all but 9")
        consumer.acknowledge(records[9], RELEASE)
        commit("9 rel")
        accept_all(consumer, scene.poll(consumer, "", 2_000))
        commit("all acc")
        scene.poll(consumer, "", 700)
        told.append(f"after poll:{_offsets(scene, admin)}")
        scene.produce(1)
        told.append(f"+1:{_offsets(scene, admin)}")
        records = list(scene.poll(consumer, "", 2_000))
        told.append(f"fetched:{_offsets(scene, admin)}")
        accept_all(consumer, records)
        commit("acc")
        consumer.close()
        told.append(f"closed:{_offsets(scene, admin)}")
    return listed(told)


@scenario("admin/alter")
def _alter(scene: Scene) -> str:
    """Set start offsets: new group, bad partitions, beyond the end, negative, group with a member."""
    group = scene.group()
    good = TopicPartition(scene.topic(partitions=2), 0)
    scene.produce(10)
    bad_partition, bad_topic = TopicPartition(good.topic, 9), TopicPartition(scene.named("nope"), 0)
    with scene.admin() as admin:

        def altered(to: int) -> str:
            """The offsets after an alteration, or its error."""

            def alter() -> str:
                _item(admin.alter_share_group_offsets(group, {good: to}), good)
                return _offsets(scene, admin)

            return outcome(alter)

        told = [f"new:{altered(8)}", f"state:{_described(admin, group).state.value}"]
        mixed = admin.alter_share_group_offsets(group, {good: 4, bad_partition: 1, bad_topic: 2})
        told.append(f"mixed good:{outcome(lambda: _item(mixed, good))}")
        told.append(f"bad part:{outcome(lambda: _item(mixed, bad_partition))}")
        told.append(f"bad topic:{outcome(lambda: _item(mixed, bad_topic))}")
        told.append(f"not asked:{outcome(lambda: _item(mixed, TopicPartition('q', 1)))}")
        told.append(_offsets(scene, admin))
        told.append(f"beyond:{altered(1000)}")
        told.append(f"negative:{altered(-5)}")
        told.append(f"empty map:{outcome(lambda: admin.alter_share_group_offsets(group, {}) or None)}")
        told.append(f"empty id:{outcome(lambda: admin.alter_share_group_offsets('', {good: 1}))}")
        altered(8)
        consumer = scene.consumer(group)
        consumer.subscribe([good.topic])
        told.append(f"consume:{scene.records(scene.drain(consumer, 2, 8_000))}")
        told.append(f"active:{altered(1)}")
        told.append(f"active delete:{outcome(lambda: admin.delete_share_group_offsets(group, [good.topic]))}")
    return listed(told)


@scenario("admin/alter-clears-state")
def _alter_clears_state(scene: Scene) -> str:
    """Set the start offset of a group that has released records."""
    consumer = scene.begin(scene.explicit(scene.group()), 3)
    for _ in range(2):
        accept_all(consumer, scene.first(consumer), RELEASE)
    consumer.close()
    where = TopicPartition(scene.named("t1"), 0)
    with scene.admin() as admin:
        _item(admin.alter_share_group_offsets(scene.named("g"), {where: 1}), where)
    return scene.records(scene.drain(scene.second(), 2, 10_000))


@scenario("admin/delete-offsets")
def _delete_offsets(scene: Scene) -> str:
    """Forget the offsets of topics."""
    group = scene.group()
    first, second, nope = scene.topic("t1"), scene.topic("t2"), scene.named("nope")
    scene.produce(3)
    with scene.admin() as admin:
        told = [f"missing group:{outcome(lambda: admin.delete_share_group_offsets(group, [first]))}"]
        admin.alter_share_group_offsets(group, {TopicPartition(first, 0): 2, TopicPartition(second, 0): 0})
        deleted = admin.delete_share_group_offsets(group, [first, nope])
        told.append(f"t1:{outcome(lambda: _item(deleted, first))}")
        told.append(f"nope:{outcome(lambda: _item(deleted, nope))}")
        told.append(f"not asked:{outcome(lambda: _item(deleted, 'q'))}")
        told.append(_offsets(scene, admin))
        told.append(f"again:{outcome(lambda: _item(admin.delete_share_group_offsets(group, [first]), first))}")
        told.append(f"none:{outcome(lambda: admin.delete_share_group_offsets(group, []) or None)}")
        told.append(f"consume:{scene.records(scene.drain(scene.second(), 3, 10_000))}")
    return listed(told)


@scenario("admin/delete-group")
def _delete_group(scene: Scene) -> str:
    """Delete groups: missing, with a member, empty, of another type."""
    group = scene.group()
    topic = scene.topic()
    scene.produce(3)
    with scene.admin() as admin:
        told = [f"missing:{_deleted(admin, group)}"]
        consumer = scene.second()
        scene.drain(consumer, 3, 8_000)
        scene.poll(consumer, "", 800)
        told.append(f"active:{_deleted(admin, group)}")
        consumer.close()
        told.append(f"empty:{_deleted(admin, group)}")
        told.append(f"describe:{outcome(lambda: _described(admin, group))}")
        told.append(_offsets(scene, admin))
        told.append(f"again:{scene.records(scene.drain(scene.second(), 3, 10_000))}")
        classic = scene.named("cg")
        scene.desk.make_classic_group(classic, topic)
        told.append(f"delete_share_groups on a classic group:{_deleted(admin, classic)}")
        left = any(found.group_id == classic for found in admin.list_groups().groups)
        told.append(f"left:{truth(left)}")
    return listed(told)


@scenario("admin/delete-two")
def _delete_two(scene: Scene) -> str:
    """Delete an empty group and a missing one in one call."""
    group, missing = scene.group(), scene.named("no")
    where = TopicPartition(scene.topic(), 0)
    with scene.admin() as admin:
        _item(admin.alter_share_group_offsets(group, {where: 0}), where)
        deleted = admin.delete_share_groups([group, missing])
    return f"{outcome(lambda: _item(deleted, group))} {outcome(lambda: _item(deleted, missing))}"


@scenario("admin/group-config")
def _group_config(scene: Scene) -> str:
    """The configs of a group: defaults, values that are not allowed, what is set."""
    group = scene.named("g")
    with scene.admin() as admin:

        def entries() -> dict[str, Any]:
            return dict(_item(admin.describe_group_configs([group]), group))

        def of_the_group() -> list[str]:
            found = entries().values()
            return sorted(f"{e.name}={e.value}" for e in found if e.source is ConfigSource.DYNAMIC_GROUP_CONFIG)

        shown = [_config_text(e) for name, e in entries().items() if name.startswith(("share", "errors"))]
        told = [f"default:{listed(sorted(shown))}"]
        for setting in CONFIGS:
            name, value = setting.split("=")
            told.append(f"{setting}:{outcome(partial(admin.alter_group_configs, group, {name: value}))}")
        wait_until(lambda: len(of_the_group()) == 2)
        told.append(f"set:{listed(of_the_group())}")
    return listed(told)


def _config_text(entry: Any) -> str:
    flags = ("/ro" if entry.is_read_only else "") + ("/sens" if entry.is_sensitive else "")
    return f"{entry.name}={entry.value}/{entry.source.name}/{entry.type.name}{flags}"
