"""What `kafka-share doctor` reads in the share coordinator's log, from records that Kafka 4.3.1 wrote."""

from __future__ import annotations

from typing import Final
from uuid import UUID

import pytest

from kafka_share.cli.doctor.history import Deliveries, StateChange, StateKey, parse_key, parse_value, replay
from kafka_share.cli.doctor.state_log import log_partition

TOPIC_ID: Final = UUID("9d529a67-d4ba-4bd9-8384-069d05175c4a")
KEY: Final = StateKey("gt1795346680", TOPIC_ID, 0)
_KEY_TEXT: Final = "000c6774313739353334363638309d529a67d4ba4bd98384069d05175c4a00000000"

LOG: Final = [
    # a group of ten records: 2 and 3 rejected, 7 rejected on its third delivery, 5 and 9 released five times
    ("0000", "0000000000000000000200000000ffffffffffffffff000001a203005f6a000001a203005f6a0100"),
    (
        "0001",
        "000000000000000000000000000000000000090000000000000000000000000000000102000100000000000000000200000000000000030400"
        "01000000000000000004000000000000000402000100000000000000000500000000000000050000010000000000000000060000000000000006"
        "02000100000000000000000700000000000000070000010000000000000000080000000000000008020001000000000000000009000000000000"
        "00090000010001000400000007",
    ),
    (
        "0001",
        "0000000000000000000000000000000000050400000000000000050000000000000005000002000000000000000007000000000000000700000200"
        "000000000000000900000000000000090000020001000400000002",
    ),
    (
        "0001",
        "0000000000000000000000000000000000050400000000000000050000000000000005000003000000000000000007000000000000000704000300"
        "000000000000000900000000000000090000030001000400000003",
    ),
    (
        "0001",
        "0000000000000000000000000000000000050300000000000000050000000000000005000004000000000000000009000000000000000900000400"
        "01000400000003",
    ),
    (
        "0001",
        "00000000000000000000000000000000000502000000000000000500000000000000050400050001000400000004",
    ),
    ("0001", "00000000000000000000000000000000000902000000000000000900000000000000090400050001000400000001"),
]
"""Kind of the key and value of each record, as Kafka wrote them."""


def changes() -> list[StateChange]:
    found = []
    for number, (kind, value) in enumerate(LOG):
        parsed = parse_key(bytes.fromhex(kind + _KEY_TEXT))
        assert parsed == (KEY, kind == "0000")
        change = parse_value(bytes.fromhex(value), 1_000 + number, is_snapshot=parsed[1])
        assert change is not None
        found.append(change)
    return found


def test_the_log_of_a_real_kafka_tells_what_was_archived() -> None:
    """Rejected records and those whose deliveries are used up are found with their offsets and counts."""
    history = replay(changes())
    assert history is not None
    assert history.archived == (Deliveries(2, 3, 1), Deliveries(5, 5, 5), Deliveries(7, 7, 3), Deliveries(9, 9, 5))
    assert history.released == ()
    assert (history.since_ms, history.last_ms) == (1_000, 1_006)


def test_what_was_given_back_waits_until_it_is_finished() -> None:
    """In the middle of that log three records wait for their next delivery, with the deliveries that they have had."""
    history = replay(changes()[:3])
    assert history is not None
    assert history.released == (Deliveries(5, 5, 2), Deliveries(7, 7, 2), Deliveries(9, 9, 2))
    assert history.archived == (Deliveries(2, 3, 1),)


def test_a_group_that_has_only_begun_has_finished_nothing() -> None:
    """The snapshot of a new share partition tells no time of a last word."""
    history = replay(changes()[:1])
    assert history is not None
    assert (history.last_ms, history.archived, history.released) == (None, (), ())
    assert replay([]) is None


def test_a_reset_forgets_what_was_before() -> None:
    """After an operator has set the offsets, records that were archived before may come again."""
    reset = StateChange(2_000, True, 7, 0, ())
    history = replay([*changes(), reset])
    assert history is not None
    assert history.archived == ()


def test_a_snapshot_repeats_and_changes_nothing() -> None:
    """Kafka writes the whole state anew from time to time; what it repeats counts once."""
    first = StateChange(1, True, 2, 0, ((4, Deliveries(1, 3, 5)), (0, Deliveries(4, 4, 1))))
    update = StateChange(2, False, None, 0, ((4, Deliveries(4, 6, 2)),))
    again = StateChange(3, True, 2, 0, ((4, Deliveries(1, 3, 5)), (4, Deliveries(4, 6, 2)), (0, Deliveries(7, 8, 1))))
    history = replay([first, update, again])
    assert history is not None
    assert history.archived == (Deliveries(1, 3, 5), Deliveries(4, 6, 2))
    assert history.released == (Deliveries(7, 8, 1),)


def test_a_part_of_a_released_range_may_be_finished() -> None:
    """What is left of a range that was given back stays waiting, on both sides."""
    released = StateChange(1, False, None, 0, ((0, Deliveries(0, 9, 1)),))
    accepted = StateChange(2, False, None, 0, ((2, Deliveries(3, 5, 2)),))
    moved_on = StateChange(3, False, None, 2, ((2, Deliveries(0, 1, 2)),))
    history = replay([released, accepted, moved_on])
    assert history is not None
    assert history.released == (Deliveries(2, 2, 1), Deliveries(6, 9, 1))


@pytest.mark.parametrize(
    "key",
    [b"", b"\0\7\0\1g", b"\0\0\xff\xffgggg", b"\0\0\0\1\xff" + bytes(20), bytes.fromhex("0000" + _KEY_TEXT) + b"x"],
)
def test_keys_that_are_not_known_are_passed_over(key: bytes) -> None:
    assert parse_key(key) is None


@pytest.mark.parametrize("cut", [0, 1, 10, 18, 25, 40])
def test_values_that_are_not_known_or_cut_off_are_passed_over(cut: int) -> None:
    """A later version of Kafka, or a damaged record, does not end the examination."""
    whole = bytes.fromhex(LOG[3][1])
    assert parse_value(b"\0\1" + whole[2:], 0, is_snapshot=False) is None
    assert parse_value(whole[:cut], 0, is_snapshot=False) is None


@pytest.mark.parametrize(("count", "expected"), [(50, 30), (3, 2)])
def test_the_log_is_read_where_kafka_writes(count: int, expected: int) -> None:
    """The partition of the log is what Kafka 4.3.1's own `SharePartitionKey` and hash give for this key."""
    assert log_partition(KEY, count) == expected
