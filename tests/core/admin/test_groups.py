"""The admin core on groups: listing over all brokers, describing and deleting through coordinators that move."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from core.admin.scripted_admin import NODES, Cluster, in_turn, run, script

from kafka_share.admin_values import AclOperation, GroupState, GroupType
from kafka_share.core.admin import groups
from kafka_share.errors import (
    AuthenticationError,
    BrokerUnreachableError,
    ClusterAuthorizationFailedError,
    CoordinatorLoadInProgressError,
    GroupAuthorizationFailedError,
    GroupIdNotFoundError,
    InvalidArgumentError,
    InvalidGroupIdError,
    KafkaShareError,
    NonEmptyGroupError,
    NotCoordinatorError,
    OperationTimeoutError,
    RemoteProtocolError,
    TopicAuthorizationFailedError,
    UnknownServerError,
    UnsupportedVersionError,
)
from kafka_share.protocol.cluster import FindCoordinatorRequest
from kafka_share.protocol.groups import DeleteGroupsRequest, DeleteGroupsResponse, ListGroupsRequest, ListGroupsResponse
from kafka_share.protocol.share_group import ShareGroupDescribeRequest, ShareGroupDescribeResponse
from kafka_share.records import TopicPartition

_Described = ShareGroupDescribeResponse.DescribedGroup
_Member = _Described.Member
LOST = BrokerUnreachableError("it broke")
LOADING, MOVED, AWAY = 14, 16, 15


def listed(*names: str, error: int = 0, state: str = "Stable", kind: str = "share") -> ListGroupsResponse:
    found = [
        ListGroupsResponse.ListedGroup(group_id=name, protocol_type="share", group_state=state, group_type=kind)
        for name in names
    ]
    return ListGroupsResponse(error_code=error, groups=found)


def by_node(**answers: Any) -> Callable[[Any, int], Any]:
    table = {f"n{node}": answers.get(f"n{node}") for node in NODES}

    def answer(request: Any, node_id: int) -> Any:
        found = table[f"n{node_id}"]
        return found(request, node_id) if callable(found) else found

    return answer


def described(request: Any, _: int, *, error: int = 0, **fields: Any) -> ShareGroupDescribeResponse:
    values: dict[str, Any] = {
        "group_state": "Empty",
        "group_epoch": 4,
        "assignment_epoch": 3,
        "assignor_name": "simple",
        "members": [],
        "authorized_operations": -(2**31),
        **fields,
    }
    message = "as scripted" if error else None
    found = [_Described(error_code=error, error_message=message, group_id=name, **values) for name in request.group_ids]
    return ShareGroupDescribeResponse(groups=found)


def refused(code: int) -> Callable[[Any, int], ShareGroupDescribeResponse]:
    return lambda request, node: described(request, node, error=code)


def deleted(request: Any, _: int, errors: dict[str, int] | None = None) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(
        results=[
            DeleteGroupsResponse.DeletableGroupResult(group_id=name, error_code=(errors or {}).get(name, 0))
            for name in request.groups_names
        ]
    )


def describe(*ids: str, answer: Any = described, cluster: Cluster | None = None, timeout_ms: int = 10_000) -> Any:
    operation = groups.describe_share_groups(ids, False)
    return run(operation, script((ShareGroupDescribeRequest, answer)), cluster, timeout_ms=timeout_ms)


# ---- list


@pytest.mark.behaviour("administration")
def test_groups_of_all_brokers_are_merged_in_order() -> None:
    """Every broker is asked for its groups, and the answers become one list, ordered by id, each id once."""
    answers = by_node(n1=listed("c", "a"), n2=listed("b", "a", state="Empty"), n3=listed())
    found = run(groups.list_groups(None, ("share",)), script((ListGroupsRequest, answers)))
    assert [(g.group_id, g.state, g.coordinator.id) for g in found.groups] == [
        ("a", GroupState.STABLE, 1),
        ("b", GroupState.EMPTY, 2),
        ("c", GroupState.STABLE, 1),
    ]
    assert found.errors == {}
    assert {g.group_type for g in found.groups} == {GroupType.SHARE}


@pytest.mark.behaviour("administration")
def test_filters_travel_as_they_were_given() -> None:
    """State and type filters go to the brokers, which compare them without regard to case."""
    cluster = Cluster()
    operation = groups.list_groups(["sTaBle", GroupState.EMPTY], [GroupType.SHARE, "Consumer"])
    run(operation, _always(listed()), cluster)
    sent = cluster.requests(ListGroupsRequest)
    assert [node for _, node in sent] == [1, 2, 3]
    assert {(*r.states_filter, *r.types_filter) for r, _ in sent} == {("sTaBle", "Empty", "share", "Consumer")}


def _always(response: Any) -> Any:
    return script((ListGroupsRequest, lambda *_: response))


def test_a_state_and_type_that_nobody_knows_are_unknown() -> None:
    """A state or type of a later Kafka is reported as UNKNOWN, in whatever case the broker writes the known ones."""
    found = run(groups.list_groups(None, None), _always(listed("a", state="Dancing", kind="queue")))
    assert (found.groups[0].state, found.groups[0].group_type) == (GroupState.UNKNOWN, GroupType.UNKNOWN)
    found = run(groups.list_groups(None, None), _always(listed("a", state="STABLE", kind="Share")))
    assert (found.groups[0].state, found.groups[0].group_type) == (GroupState.STABLE, GroupType.SHARE)


def test_a_broker_that_is_loading_is_asked_again() -> None:
    """A broker whose coordinator is loading or away is asked until it answers, and the list is complete."""
    answers = by_node(n1=listed("a"), n2=in_turn(listed(error=LOADING), listed(error=AWAY), listed("b")), n3=listed())
    cluster = Cluster()
    found = run(groups.list_groups(None, None), script((ListGroupsRequest, answers)), cluster)
    assert [g.group_id for g in found.groups] == ["a", "b"]
    assert found.errors == {}
    assert [node for _, node in cluster.requests(ListGroupsRequest)] == [1, 2, 3, 2, 2]


@pytest.mark.parametrize(
    ("answer", "kind", "requests"),
    [
        pytest.param(LOST, BrokerUnreachableError, 3, id="unreachable: three tries"),
        pytest.param(listed(error=-1), UnknownServerError, 1, id="error of the broker"),
        pytest.param(listed(error=31), ClusterAuthorizationFailedError, 1, id="not authorized"),
        pytest.param(RemoteProtocolError("?"), RemoteProtocolError, 1, id="malformed answer"),
        pytest.param(UnsupportedVersionError("old"), UnsupportedVersionError, 1, id="older broker"),
    ],
)
def test_a_broker_that_fails_is_reported_beside_the_groups_of_the_others(
    answer: Any, kind: type[KafkaShareError], requests: int
) -> None:
    """One broker's failure does not hide the groups of the others: it is in `errors`."""
    cluster = Cluster()
    answers = by_node(n1=listed("a"), n2=answer, n3=listed("c"))
    found = run(groups.list_groups(None, ("share",)), script((ListGroupsRequest, answers)), cluster)
    assert [g.group_id for g in found.groups] == ["a", "c"]
    assert {node.id: type(error) for node, error in found.errors.items()} == {2: kind}
    assert sum(node == 2 for _, node in cluster.requests(ListGroupsRequest)) == requests


def test_a_broker_that_loads_for_ever_is_reported_at_the_deadline() -> None:
    """At the deadline a broker that is still loading is in `errors` with what stood in the way."""
    answers = by_node(n1=listed("a"), n2=listed(error=LOADING), n3=listed())
    cluster = Cluster()
    found = run(groups.list_groups(None, None), script((ListGroupsRequest, answers)), cluster, timeout_ms=2_000)
    assert [g.group_id for g in found.groups] == ["a"]
    error = found.errors[NODES[2]]
    assert isinstance(error, OperationTimeoutError)
    assert isinstance(error.__cause__, CoordinatorLoadInProgressError)
    assert cluster.took_ms == 2_000
    assert len(cluster.requests(ListGroupsRequest)) < 10, "it waits between its tries"


@pytest.mark.behaviour("administration")
def test_an_unsupported_type_filter_is_raised_when_every_broker_is_too_old() -> None:
    """A type filter that no broker understands raises UnsupportedVersionError instead of an empty list."""
    cluster = Cluster()
    with pytest.raises(UnsupportedVersionError):
        run(groups.list_groups(None, ("share",)), _always(UnsupportedVersionError("ListGroups 4")), cluster)


# ---- describe


@pytest.mark.behaviour("administration")
def test_a_description_has_every_field_of_the_answer() -> None:
    """A described group has members, assignment, epochs, state and coordinator; members and partitions in order."""
    where = _Member.Assignment.TopicPartitions
    member: dict[str, Any] = {
        "member_epoch": 4,
        "client_id": "c",
        "client_host": "/10.0.0.1",
        "subscribed_topic_names": ["t", "nix"],
    }
    members = [
        _Member(
            member_id="m2",
            rack_id=None,
            assignment=_Member.Assignment(topic_partitions=[]),
            **member,
        ),
        _Member(
            member_id="m1",
            rack_id="r1",
            assignment=_Member.Assignment(
                topic_partitions=[where(topic_name="u", partitions=[0]), where(topic_name="t", partitions=[2, 0])]
            ),
            **member,
        ),
    ]
    cluster = Cluster({"g": 2})
    found = describe("g", answer=lambda r, n: described(r, n, members=members, group_state="Stable"), cluster=cluster)
    group = found["g"]
    assert (group.group_id, group.state, group.group_epoch, group.assignment_epoch) == ("g", GroupState.STABLE, 4, 3)
    assert (group.assignor, group.coordinator, group.authorized_operations) == ("simple", NODES[2], None)
    first, second = group.members
    assert (first.member_id, first.rack_id, first.member_epoch) == ("m1", "r1", 4)
    assert (first.client_id, first.client_host, first.subscribed_topic_names) == ("c", "/10.0.0.1", ("t", "nix"))
    assert first.assignment == (TopicPartition("t", 0), TopicPartition("t", 2), TopicPartition("u", 0))
    assert (second.member_id, second.rack_id, second.assignment) == ("m2", None, ())


@pytest.mark.behaviour("security")
def test_authorized_operations_are_the_bits_of_the_answer() -> None:
    """The operations that the caller may do are given by name; those that have no name yet are left out."""
    bits = 1 << 3 | 1 << 6 | 1 << 8 | 1 << 30
    cluster = Cluster()
    answer = script((ShareGroupDescribeRequest, lambda r, n: described(r, n, authorized_operations=bits)))
    found = run(groups.describe_share_groups(["g"], True), answer, cluster)
    assert found["g"].authorized_operations == {AclOperation.READ, AclOperation.DELETE, AclOperation.DESCRIBE}
    ((request, _),) = cluster.requests(ShareGroupDescribeRequest)
    assert request.include_authorized_operations is True


def test_groups_are_batched_by_coordinator() -> None:
    """One look-up for all groups, then one request to each coordinator with all of its groups."""
    cluster = Cluster({"a": 1, "b": 2, "c": 1})
    found = describe("a", "b", "c", "a", cluster=cluster)
    assert list(found) == ["a", "b", "c"]
    ((look_up, _),) = cluster.requests(FindCoordinatorRequest)
    assert (look_up.key_type, look_up.coordinator_keys) == (0, ["a", "b", "c"])
    asked = [(node, request.group_ids) for request, node in cluster.requests(ShareGroupDescribeRequest)]
    assert asked == [(1, ["a", "c"]), (2, ["b"])]


def test_nothing_is_asked_when_no_group_is_named() -> None:
    """No groups, no requests, an empty result."""
    cluster = Cluster()
    assert describe(cluster=cluster) == {}
    assert cluster.sent == []


@pytest.mark.parametrize("code", [MOVED, AWAY])
@pytest.mark.behaviour("administration")
def test_the_coordinator_is_looked_up_again_when_it_moved_between_look_up_and_request(code: int) -> None:
    """A broker that is no coordinator (any more) makes the client look it up again and ask the new one."""
    cluster = Cluster({"g": 1})

    def moved(request: Any, node: int) -> Any:
        if node != 1:
            return described(request, node)
        cluster.coordinators["g"] = 3
        return described(request, node, error=code)

    assert describe("g", answer=moved, cluster=cluster)["g"].coordinator == NODES[3]
    assert len(cluster.requests(FindCoordinatorRequest)) == 2


def test_only_the_groups_that_moved_are_asked_again() -> None:
    """What one request has answered stays answered when another group of it has moved."""
    cluster = Cluster({"a": 1, "b": 1})

    def half_moved(request: Any, node: int) -> Any:
        cluster.coordinators["b"] = 2
        found = described(request, node)
        for group in found.groups:
            group.error_code = MOVED if group.group_id == "b" and node == 1 else 0
        return found

    found = describe("a", "b", answer=half_moved, cluster=cluster)
    assert [found[name].coordinator.id for name in ("a", "b")] == [1, 2]
    asked = [(node, request.group_ids) for request, node in cluster.requests(ShareGroupDescribeRequest)]
    assert asked == [(1, ["a", "b"]), (2, ["b"])]


def test_a_loading_coordinator_is_asked_again_without_a_look_up() -> None:
    """COORDINATOR_LOAD_IN_PROGRESS: the same broker is asked again after a pause."""
    cluster = Cluster()
    found = describe("g", answer=in_turn(refused(LOADING), refused(LOADING), described), cluster=cluster)
    assert found["g"].group_epoch == 4
    assert len(cluster.requests(FindCoordinatorRequest)) == 1
    assert len(cluster.requests(ShareGroupDescribeRequest)) == 3
    assert cluster.took_ms >= 200


def test_the_coordinator_is_looked_up_again_when_its_connection_breaks() -> None:
    """A coordinator that cannot be reached may have been replaced: it is looked up anew."""
    cluster = Cluster({"g": 2})

    def broken(request: Any, node: int) -> Any:
        cluster.coordinators["g"] = 3
        return LOST if node == 2 else described(request, node)

    assert describe("g", answer=broken, cluster=cluster)["g"].coordinator == NODES[3]


@pytest.mark.parametrize("code", [AWAY, LOADING])
def test_a_look_up_is_repeated_while_no_coordinator_can_be_named(code: int) -> None:
    """FindCoordinator's own passing errors are tried again."""
    cluster = Cluster({"g": -code})

    def look_up(request: Any, node: int) -> Any:
        answer = cluster.answer(request, node)
        cluster.coordinators["g"] = 2
        return answer

    answers = script((FindCoordinatorRequest, look_up), (ShareGroupDescribeRequest, described))
    assert run(groups.describe_share_groups(["g"], False), answers, cluster)["g"].coordinator == NODES[2]


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (24, InvalidGroupIdError),
        (29, TopicAuthorizationFailedError),
        (30, GroupAuthorizationFailedError),
        (35, UnsupportedVersionError),
        (69, GroupIdNotFoundError),
        (-1, UnknownServerError),
    ],
)
@pytest.mark.behaviour("security")
def test_an_error_of_one_group_is_its_result(code: int, kind: type[KafkaShareError]) -> None:
    """An error of a coordinator for one group is that group's value, with the broker's message; it is not retried."""
    cluster = Cluster()
    found = describe("g", answer=refused(code), cluster=cluster)
    assert type(found["g"]) is kind
    assert "as scripted" in str(found["g"])
    assert len(cluster.requests(ShareGroupDescribeRequest)) == 1


def test_a_group_without_a_look_up_right_has_that_error_and_the_others_answer() -> None:
    """An error of the look-up that will not pass belongs to its group alone."""
    cluster = Cluster({"mine": 2, "secret": -30})
    found = describe("mine", "secret", cluster=cluster)
    assert type(found["secret"]) is GroupAuthorizationFailedError
    assert found["mine"].coordinator == NODES[2]


def test_groups_that_are_not_done_at_the_deadline_time_out_beside_those_that_are() -> None:
    """At the deadline the finished groups keep their results; the others say what stood in the way."""
    cluster = Cluster({"a": 1, "b": 2})
    answers = by_node(n1=described, n2=refused(MOVED))
    found = describe("a", "b", answer=answers, cluster=cluster, timeout_ms=1_500)
    assert found["a"].group_epoch == 4
    assert isinstance(found["b"], OperationTimeoutError)
    assert isinstance(found["b"].__cause__, NotCoordinatorError)
    assert cluster.took_ms == 1_500


def test_a_coordinator_that_never_answers_times_out() -> None:
    """Silence ends with the call's timeout, as that group's value."""
    cluster = Cluster()
    assert isinstance(describe("g", answer=lambda *_: None, cluster=cluster)["g"], OperationTimeoutError)


def test_the_last_trouble_is_told_when_silence_follows_it() -> None:
    """The timeout of a broker that first was loading and then said nothing has the loading as its cause."""
    found = describe("g", answer=in_turn(refused(LOADING), None))
    assert isinstance(found["g"].__cause__, CoordinatorLoadInProgressError)
    answers = by_node(n1=listed("a"), n2=in_turn(listed(error=LOADING), None), n3=listed())
    listing = run(groups.list_groups(None, None), script((ListGroupsRequest, answers)))
    assert isinstance(listing.errors[NODES[2]].__cause__, CoordinatorLoadInProgressError)
    assert [g.group_id for g in listing.groups] == ["a"]


def test_a_look_up_that_nobody_answers_times_out() -> None:
    """The groups whose coordinator could not be looked up say that no broker was reached, or that time ran out."""
    silent = script((FindCoordinatorRequest, in_turn(LOST, None)))
    found = run(groups.describe_share_groups(["g"], False), silent)
    assert isinstance(found["g"], OperationTimeoutError)
    assert found["g"].__cause__ is LOST


def test_a_group_that_the_answer_leaves_out_has_an_error() -> None:
    """A coordinator that answers without a word on a group is a defect of the broker, and reported as one."""
    found = describe("g", answer=lambda *_: ShareGroupDescribeResponse(groups=[]))
    assert isinstance(found["g"], RemoteProtocolError)


@pytest.mark.parametrize("kind", [RemoteProtocolError, UnsupportedVersionError])
def test_a_failure_that_will_not_pass_is_the_value_of_the_groups_asked_for(kind: type[KafkaShareError]) -> None:
    """A malformed answer, or an API that the coordinator does not offer, is not retried."""
    cluster = Cluster({"a": 1, "b": 2})
    found = describe("a", "b", answer=by_node(n1=kind("no"), n2=described), cluster=cluster)
    assert type(found["a"]) is kind
    assert found["b"].group_epoch == 4


@pytest.mark.parametrize("where", [FindCoordinatorRequest, ShareGroupDescribeRequest])
def test_refused_credentials_are_raised(where: Any) -> None:
    """Wrong credentials concern the whole call; no retry would mend them."""
    answers: dict[Any, Any] = {ShareGroupDescribeRequest: described, where: AuthenticationError("wrong password")}
    table = [(kind, (lambda *_, a=a: a) if isinstance(a, Exception) else a) for kind, a in answers.items()]
    with pytest.raises(AuthenticationError):
        run(groups.describe_share_groups(["g"], False), script(*table))


# ---- delete


@pytest.mark.behaviour("administration")
def test_each_deletion_has_its_own_result() -> None:
    """When several groups are deleted each has its own result: deleted, refused for its members, or unknown."""
    cluster = Cluster({"good": 1, "busy": 1, "none": 2})
    errors = {"busy": 68, "none": 69}
    answers = script((DeleteGroupsRequest, lambda r, n: deleted(r, n, errors)))
    found = run(groups.delete_share_groups(["good", "busy", "none"]), answers, cluster)
    assert found["good"] is None
    assert (type(found["busy"]), type(found["none"])) == (NonEmptyGroupError, GroupIdNotFoundError)
    asked = [(node, request.groups_names) for request, node in cluster.requests(DeleteGroupsRequest)]
    assert asked == [(1, ["good", "busy"]), (2, ["none"])]


# ---- arguments


@pytest.mark.parametrize(
    "make",
    [
        lambda: groups.describe_share_groups("g", False),
        lambda: groups.describe_share_groups([""], False),
        lambda: groups.describe_share_groups([None], False),  # type: ignore[list-item]
        lambda: groups.delete_share_groups(b"g"),  # type: ignore[arg-type]
        lambda: groups.list_groups("Stable", None),
        lambda: groups.list_groups(None, GroupType.SHARE),  # type: ignore[arg-type]
        lambda: groups.list_groups([3], None),  # type: ignore[list-item]
    ],
)
def test_arguments_that_cannot_work_are_refused_at_once(make: Callable[[], Any]) -> None:
    """A group id that is empty or no text, or one text instead of a collection, is refused before anything is sent."""
    with pytest.raises(InvalidArgumentError):
        make()
