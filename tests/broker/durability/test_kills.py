"""A few of the runs of `kills`, and its account: it has to complain of whatever may go wrong."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from broker.durability.kill_account import KillAccount
from broker.durability.killing import Killing
from broker.durability.nursery import Nursery


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    with Nursery() as nursery:
        yield nursery


@pytest.mark.timeout(180)  # several processes, on a machine that may be busy
@pytest.mark.parametrize("seed", range(6))
def test_what_was_answered_is_there_when_the_broker_was_killed(seed: int, nursery: Nursery, tmp_path: Path) -> None:
    """Records are there, acknowledged ones do not come again, acquired ones do with their count."""
    account = Killing(seed, tmp_path, nursery).run()
    assert account.complaints == []
    assert account.numbers["kills"] >= 2
    assert account.numbers["produced"] > 0
    assert account.numbers["delivered"] > 0


def delivered_once() -> KillAccount:
    account = KillAccount()
    account.produced(0, 0, [b"v"])
    account.delivered((0, 0), b"v", 1)
    return account


def test_the_account_takes_an_acquired_record_again_with_the_same_count_after_a_kill() -> None:
    account = delivered_once()
    account.killed()
    account.delivered((0, 0), b"v", 1)
    account.sent((0, 0), "RELEASE", 1)
    account.answered((0, 0), "RELEASE", 1)
    account.delivered((0, 0), b"v", 2)
    account.killed()
    account.delivered((0, 0), b"v", 2)
    assert account.complaints == []
    assert account.outstanding() == {(0, 0)}


def test_the_account_takes_either_count_when_a_release_was_not_answered() -> None:
    for count in (1, 2):
        account = delivered_once()
        account.sent((0, 0), "RELEASE", 1)
        account.killed()
        account.delivered((0, 0), b"v", count)
        assert account.complaints == []


def test_the_account_hears_of_a_release_after_another_consumer_has_got_the_record() -> None:
    for count in (2, 3):
        account = delivered_once()
        account.sent((0, 0), "RELEASE", 1)
        account.delivered((0, 0), b"v", 2)
        account.sent((0, 0), "RELEASE", 2)
        account.answered((0, 0), "RELEASE", 1)
        account.killed()
        account.delivered((0, 0), b"v", count)
        assert account.complaints == []


def test_the_account_complains_of_a_record_that_comes_again_after_its_acknowledgement_was_answered() -> None:
    account = delivered_once()
    account.sent((0, 0), "ACCEPT", 1)
    account.answered((0, 0), "ACCEPT", 1)
    assert account.complaints == []
    account.killed()
    account.delivered((0, 0), b"v", 1)
    assert account.complaints == ["(0, 0) came again, after its acknowledgement was answered"]


@pytest.mark.parametrize("count", [1, 3])
def test_the_account_complains_of_a_count_that_was_not_stored(count: int) -> None:
    account = delivered_once()
    account.sent((0, 0), "RELEASE", 1)
    account.answered((0, 0), "RELEASE", 1)
    account.killed()
    account.delivered((0, 0), b"v", count)
    assert account.complaints == [f"(0, 0) came with the count {count}, not [2]"]


def test_the_account_complains_of_what_is_lost() -> None:
    account = delivered_once()
    account.compare_log({})
    account.compare_log({(0, 0): b"other"})
    account.topics |= {"kept": True, "deleted": False}
    account.compare_topics(["deleted"])
    assert account.complaints == [
        "(0, 0) is lost: b'v' was answered, None is there",
        "(0, 0) is lost: b'v' was answered, b'other' is there",
        "topic kept is lost",
        "topic deleted was deleted, and is there",
    ]


def test_the_account_complains_of_transactions_that_are_not_as_they_were_answered() -> None:
    account = KillAccount()
    account.transactions |= {1: True, 2: False, 3: None, 4: None, 5: True, 6: None}
    account.compare_transactions([[1, 3, 5], [1, 3, 5]])
    assert account.complaints == []
    account.compare_transactions([[1, 2, 3, 7], [2, 7]])
    assert account.complaints == [
        "transaction 1 (committed=True) is there [0, 1] times",
        "transaction 2 (committed=False) is there [1] times",
        "transaction 3 (committed=None) is there [0, 1] times",
        "transaction 5 (committed=True) is there [0] times",
        "transactions [7] were not ended",
    ]


def test_the_account_complains_of_an_older_offset_than_the_one_that_was_committed() -> None:
    account = KillAccount()
    account.compare_offset(-1)
    account.committed_offset, account.sent_offset = 4, 5
    account.compare_offset(5)
    assert account.complaints == []
    account.compare_offset(3)
    assert account.complaints == ["offset 4 was committed, and 3 is there"]


def test_the_account_complains_of_an_offset_that_two_records_got() -> None:
    account = delivered_once()
    account.produced(0, 0, [b"w"])
    assert account.complaints == ["0@0 was given to two records"]
