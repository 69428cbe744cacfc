"""Access control lists: what an ACL says, which a filter chooses, and what follows from all of them."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from kafka_share.admin_values import AclOperation
from kafka_share.broker.security.acls import CLUSTER_NAME, Acl, AclFilter, AclPattern, AclPermission, AclResource, Acls
from kafka_share.broker.security.authorizer import Authorizer
from kafka_share.errors import InvalidArgumentError

ALICE = "User:alice"
HOST = "10.0.0.1"


def allow(operation: str, name: str = "orders", resource: str = "topic", **rest: Any) -> Acl:
    return Acl(rest.pop("principal", ALICE), operation, resource, name, **rest)


def deny(operation: str, name: str = "orders", **rest: Any) -> Acl:
    return allow(operation, name, permission="deny", **rest)


def authorizer(*acls: Acl, super_users: tuple[str, ...] = (), allow_without_acls: bool = False) -> Authorizer:
    known = Acls()
    for acl in acls:
        known.add(acl)
    return Authorizer(known, super_users, allow_without_acls=allow_without_acls)


def may(judge: Authorizer, operation: str, name: str = "orders", resource: str = "topic", host: str = HOST) -> bool:
    return judge.allows(ALICE, host, AclOperation[operation.upper()], AclResource[resource.upper()], name)


def test_enumerations_are_written_as_names_or_members() -> None:
    written = Acl(ALICE, "describe_configs", "Topic", "orders", pattern="prefixed", permission="DENY", host=HOST)
    assert written == Acl(
        ALICE,
        AclOperation.DESCRIBE_CONFIGS,
        AclResource.TOPIC,
        "orders",
        pattern=AclPattern.PREFIXED,
        permission=AclPermission.DENY,
        host=HOST,
    )
    assert Acl(ALICE, "DescribeConfigs", "cluster").name == CLUSTER_NAME


@pytest.mark.parametrize(
    "wrong",
    [
        {"principal": "alice"},
        {"operation": "any"},
        {"operation": "look"},
        {"resource": "any"},
        {"resource": "cluster"},
        {"name": ""},
        {"pattern": "match"},
        {"permission": "any"},
    ],
)
def test_an_acl_is_refused_when_it_says_nothing(wrong: dict[str, str]) -> None:
    right = {"principal": ALICE, "operation": "read", "resource": "topic", "name": "orders"}
    with pytest.raises(InvalidArgumentError):
        Acl(**{**right, **wrong})


def test_nothing_is_allowed_without_an_acl_unless_that_is_wanted() -> None:
    assert not may(authorizer(), "read")
    assert may(authorizer(allow_without_acls=True), "read")
    assert not may(authorizer(allow("write"), allow_without_acls=True), "read"), "an ACL covers the topic"
    assert may(authorizer(allow("write"), allow_without_acls=True), "read", "others")


def test_a_pattern_is_the_name_a_prefix_or_all() -> None:
    names = ["or", "ord", "orders", "orders2", "x"]
    for acl, covered in (
        (allow("read"), ["orders"]),
        (allow("read", "ord", pattern="prefixed"), ["ord", "orders", "orders2"]),
        (allow("read", "*"), names),
    ):
        judge = authorizer(acl)
        assert [name for name in names if may(judge, "read", name)] == covered
        assert not may(judge, "read", resource="group")


def test_a_denial_is_stronger_in_every_order() -> None:
    acls = [allow("all", "*"), allow("read"), deny("read", "ord", pattern="prefixed")]
    for order in itertools.permutations(acls):
        judge = authorizer(*order)
        assert not may(judge, "read")
        assert may(judge, "write")
        assert may(judge, "read", "payments")


def test_describe_is_part_of_what_needs_it_and_a_denial_of_more_does_not_deny_it() -> None:
    for operation in ("read", "write", "delete", "alter", "all"):
        assert may(authorizer(allow(operation)), "describe")
    assert may(authorizer(allow("alter_configs")), "describe_configs")
    assert not may(authorizer(allow("create")), "describe")
    assert may(authorizer(allow("describe"), deny("read")), "describe")
    assert not may(authorizer(allow("describe"), deny("all")), "describe")


def test_hosts_and_principals_are_compared_as_they_are_written() -> None:
    judge = authorizer(
        allow("read", host=HOST), allow("write", principal="User:*"), allow("delete", principal="User:bob")
    )
    assert may(judge, "read")
    assert not may(judge, "read", host="10.0.0.2")
    assert may(judge, "write")
    assert not may(judge, "delete")


def test_a_super_user_may_do_what_is_denied() -> None:
    assert may(authorizer(deny("all", "*"), super_users=(ALICE,)), "read")


@pytest.mark.parametrize(
    ("acls", "expected"),
    [
        ([], False),
        ([allow("write")], True),
        ([allow("read")], False),
        ([allow("write", "g", "group")], False),
        ([allow("write"), deny("write")], False),
        ([allow("write", "ord", pattern="prefixed"), deny("write")], True),
        ([allow("write"), deny("write", "ord", pattern="prefixed")], False),
        ([allow("write", "ord", pattern="prefixed"), deny("write", "or", pattern="prefixed")], False),
        ([allow("write"), deny("write", "*")], False),
        ([allow("write", "*"), deny("write")], True),
    ],
)
def test_something_may_be_written_if_no_denial_covers_all_that_is_allowed(acls: list[Acl], expected: bool) -> None:
    judge = authorizer(*acls)
    assert judge.allows_any(ALICE, HOST, AclOperation.WRITE, AclResource.TOPIC) is expected


def test_filters_choose_by_every_field_and_match_finds_the_patterns_that_cover_a_name() -> None:
    acls = Acls()
    literal, prefixed = allow("read"), allow("write", "ord", pattern="prefixed", principal="User:bob", host=HOST)
    wildcard, group = deny("read", "*"), allow("read", "g", "group")
    for acl in (literal, prefixed, wildcard, group):
        acls.add(acl)
    assert acls.chosen(AclFilter()) == [literal, prefixed, wildcard, group]
    assert acls.chosen(AclFilter(name="orders")) == [literal]
    assert acls.chosen(AclFilter(name="orders", pattern=AclPattern.MATCH)) == [literal, prefixed, wildcard]
    assert acls.chosen(AclFilter(pattern=AclPattern.PREFIXED)) == [prefixed]
    assert acls.chosen(AclFilter(principal="User:bob")) == [prefixed]
    assert acls.chosen(AclFilter(host=HOST)) == [prefixed]
    assert acls.chosen(AclFilter(resource=AclResource.GROUP)) == [group]
    assert acls.chosen(AclFilter(operation=AclOperation.WRITE)) == [prefixed]
    assert acls.chosen(AclFilter(permission=AclPermission.DENY)) == [wildcard]


def test_an_acl_is_there_once_and_gone_when_it_is_removed() -> None:
    acls = Acls()
    for acl in (allow("read"), allow("read"), allow("read", "ord", pattern="prefixed"), allow("write")):
        acls.add(acl)
    assert len(acls) == 3
    for acl in list(acls):
        acls.remove(acl)
        assert acl not in acls
    assert list(acls.covering(AclResource.TOPIC, "orders")) == []
