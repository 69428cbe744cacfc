"""Members of classic groups, spoken to message by message through a cluster on a virtual clock."""

from __future__ import annotations

from typing import Any

from broker.cluster_world import World

from kafka_share.protocol.classic_group import HeartbeatRequest, JoinGroupRequest, LeaveGroupRequest, SyncGroupRequest
from kafka_share.protocol.committed_offsets import OffsetCommitRequest, OffsetFetchRequest
from kafka_share.protocol.groups import DescribeGroupsRequest

SESSION_MS = 10_000
REBALANCE_MS = 30_000


class Peer:
    """One client of a group, on a connection of its own. Requests whose answer waits are looked up with `late`."""

    def __init__(self, world: World, connection: int, group: str = "g", **fields: Any) -> None:
        self.world, self.connection, self.group = world, connection, group
        self.member_id, self.generation, self.instance = "", -1, fields.get("instance")
        self.protocols: tuple[str, ...] = fields.get("protocols", ("range",))
        self.metadata: bytes = fields.get("metadata", b"meta")
        self.waits_for = 0

    def ask(self, request: Any, version: int | None = None) -> Any:
        answer = self.world.ask(request, version, connection=self.connection)
        self.waits_for = self.world.last_id
        return answer

    def late(self) -> Any:
        """The answer to the last request, if it has come by now."""
        return self.world.late.pop(self.waits_for, None)

    def join(self, version: int = 9, **fields: Any) -> Any:
        protocol = JoinGroupRequest.JoinGroupRequestProtocol
        values: dict[str, Any] = {
            "group_id": self.group,
            "session_timeout_ms": SESSION_MS,
            "rebalance_timeout_ms": REBALANCE_MS,
            "member_id": self.member_id,
            "group_instance_id": self.instance,
            "protocol_type": "consumer",
            "protocols": [protocol(name=name, metadata=self.metadata) for name in self.protocols],
            **fields,
        }
        return self.joined(self.ask(JoinGroupRequest(**values), version))

    def join_whole(self, version: int = 9) -> Any:
        """Join without an id, and again with the id that the coordinator gave."""
        first = self.join(version)
        assert first.error_code == 79
        assert first.member_id
        return self.join(version)

    def joined(self, answer: Any) -> Any:
        """Take what a JoinGroup answer says."""
        if answer is not None:
            self.member_id = answer.member_id or self.member_id
            self.generation = answer.generation_id
        return answer

    def sync(self, assignments: dict[str, bytes] | None = None, version: int = 5, **fields: Any) -> Any:
        one = SyncGroupRequest.SyncGroupRequestAssignment
        values: dict[str, Any] = {
            "group_id": self.group,
            "generation_id": self.generation,
            "member_id": self.member_id,
            "group_instance_id": self.instance,
            "protocol_type": "consumer",
            "protocol_name": "range",
            "assignments": [one(member_id=m, assignment=data) for m, data in (assignments or {}).items()],
            **fields,
        }
        return self.ask(SyncGroupRequest(**values), version)

    def heartbeat(self, **fields: Any) -> int:
        values: dict[str, Any] = {
            "group_id": self.group,
            "generation_id": self.generation,
            "member_id": self.member_id,
            "group_instance_id": self.instance,
            **fields,
        }
        return int(self.ask(HeartbeatRequest(**values)).error_code)

    def leave(self, **fields: Any) -> Any:
        identity = LeaveGroupRequest.MemberIdentity
        member = identity(**{"member_id": self.member_id, "group_instance_id": self.instance, **fields})
        return self.ask(LeaveGroupRequest(group_id=self.group, members=[member]))

    def commit(self, offsets: dict[tuple[str, int], int], version: int = 9, **fields: Any) -> list[int]:
        """Commit; answers the partitions' error codes."""
        topic = OffsetCommitRequest.OffsetCommitRequestTopic
        values: dict[str, Any] = {
            "group_id": self.group,
            "generation_id_or_member_epoch": self.generation,
            "member_id": self.member_id,
            "group_instance_id": self.instance,
            "topics": [
                topic(
                    name=name,
                    partitions=[
                        topic.OffsetCommitRequestPartition(
                            partition_index=index, committed_offset=offset, committed_metadata=fields.get("note", "m")
                        )
                    ],
                )
                for (name, index), offset in offsets.items()
            ],
            **{key: value for key, value in fields.items() if key != "note"},
        }
        answer = self.ask(OffsetCommitRequest(**values), version)
        return [p.error_code for t in answer.topics for p in t.partitions]


def stable_group(world: World, size: int = 2, group: str = "g") -> list[Peer]:
    """A group of members that have agreed; the first one leads."""
    peers: list[Peer] = []
    for number in range(1, size + 1):
        peer = Peer(world, number, group)
        peers.append(peer)
        answer = peer.join_whole()
        for one in peers[:-1]:
            assert one.heartbeat() == 27
            one.join()
        for one in peers[:-1]:
            one.joined(one.late())
        peer.joined(answer if answer is not None else peer.late())
        finish_sync(peers)
    return peers


def group_whose_leader_has_to_sync(world: World) -> tuple[Peer, Peer]:
    """Two members that have joined again: the second one waits for what the first one, who leads, will deal out."""
    first, second = stable_group(world)
    first.join()
    second.joined(second.join())
    first.joined(first.late())
    assert second.sync() is None
    return first, second


def finish_sync(peers: list[Peer]) -> list[bytes]:
    """Everybody syncs, the first one as the leader; answers the assignments."""
    shares = {peer.member_id: b"for %d" % peer.connection for peer in peers}
    answers = [peer.sync() for peer in peers[1:]]
    answers = [peers[0].sync(shares), *[peer.late() or answer for peer, answer in zip(peers[1:], answers, strict=True)]]
    assert [answer.error_code for answer in answers] == [0] * len(peers)
    return [bytes(answer.assignment) for answer in answers]


def fetch_offsets(world: World, group: str, topics: dict[str, list[int]] | None, *, stable: bool = False) -> Any:
    """OffsetFetch of one group as {(topic, partition): (offset, error code)}."""
    asked = OffsetFetchRequest.OffsetFetchRequestGroup
    wanted = None
    if topics is not None:
        wanted = [asked.OffsetFetchRequestTopics(name=name, partition_indexes=ids) for name, ids in topics.items()]
    request = OffsetFetchRequest(groups=[asked(group_id=group, topics=wanted)], require_stable=stable)
    (found,) = world.ask(request, 9).groups
    assert found.error_code == 0
    return {
        (topic.name, one.partition_index): (one.committed_offset, one.error_code)
        for topic in found.topics
        for one in topic.partitions
    }


def describe(world: World, group: str, version: int = 6) -> Any:
    (described,) = world.ask(DescribeGroupsRequest(groups=[group]), version).groups
    return described
