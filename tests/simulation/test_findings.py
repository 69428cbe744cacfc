"""Seeds whose histories once ended in a complaint, each with its story.

A history changes when the simulation draws it in another way, so the defect itself is pinned by a test of the machine
that had it; the seeds stay because what found one defect may find its neighbour.
"""

from __future__ import annotations

import pytest
from simulation import simulate
from simulation.history import run_history


def ends_well(seed: int) -> None:
    outcome = run_history(seed)
    assert outcome.complaint is None, simulate.failure_line(outcome)


@pytest.mark.parametrize("seed", [486, 601, 755])
def test_a_record_that_comes_again_replaces_its_older_delivery(seed: int) -> None:
    """A renewal whose answer is lost leaves no record behind that can never be acknowledged.

    While the renewal was under way no poll returned records, but each poll fetched: the locks of what waited ran out,
    the broker handed the same records out again, and at last one poll returned them three times. `acknowledge` found
    the oldest copy only, and every later poll complained of records without an acknowledgement. Now the latest delivery
    counts, and what waited until its lock had ended is not returned: tests/application/test_superseded_deliveries.py.
    """
    ends_well(seed)


@pytest.mark.parametrize("seed", [1853, 3154])
def test_a_record_that_was_lost_before_a_loop_came_to_it_may_be_in_hand_again(seed: int) -> None:
    """A loop waits with a record whose lock is lost, and gets the next delivery of it before that is told.

    The auditor took the new delivery for the one that was given up, and complained of its acknowledgement.
    """
    ends_well(seed)


@pytest.mark.parametrize("seed", [5962, 7902])
def test_the_record_that_is_meant_is_acknowledged_when_its_topic_was_created_again(seed: int) -> None:
    """A record of the deleted topic waits for its release, and the new topic has one with the same offset.

    The acknowledgement of the new one went to the old one, and the next poll complained that it was missing.
    """
    ends_well(seed)


def test_a_share_partition_may_hand_out_records_and_be_dropped_before_the_answer_leaves() -> None:
    """The auditor forgot that they were handed out, and complained of the poll that returned them."""
    ends_well(4521)


@pytest.mark.parametrize("seed", [233, 381])
def test_an_offset_may_have_ended_before_the_start_offset_has_passed_it(seed: int) -> None:
    """Behind a gap in what a new leader loaded, the start offset waits for new records although all has ended.

    An offset was acquired but not stored when the leader moved; the new leader read it again and it was accepted. The
    start offset then stops at the end of that gap, and moves when records come that are newer than what was loaded.
    The reference broker follows Kafka's rule here; the auditor asks whether each offset has ended instead.
    """
    ends_well(seed)


def test_a_full_window_behind_a_gap_is_freed_by_loading_it_again() -> None:
    """The same rule, with a window that is full of accepted offsets: nothing more is handed out until a reload.

    With the first record of a full window held by a slow consumer, all others accepted, and a new leader, the start
    offset stops one record further on, and the window, though all of it has ended, has no room left. The history goes
    on because the simulation has the share partition loaded anew, and counts that.
    """
    ends_well(290)


@pytest.mark.parametrize("seed", [510, 676])
def test_deleted_records_keep_no_share_partition_from_the_others(seed: int) -> None:
    """Records are deleted below what was handed out, and everything that is left is delivered.

    The reference broker had two rules of Kafka's here that left it reading below the log's start for good: it took a
    record batch from its beginning although the log began in its middle (seed 510), and a new leader looked for deleted
    records that were missing in the stored state (seed 676).
    """
    ends_well(seed)


@pytest.mark.parametrize("seed", [387, 671])
def test_a_consumer_does_not_spin_when_fetches_are_answered_with_nothing_at_once(seed: int) -> None:
    """Such a share partition answered 49,700 fetches in one virtual millisecond: now the consumer pauses between them.

    The pauses themselves are shown in tests/core/fetching/test_empty_answers.py.
    """
    ends_well(seed)


@pytest.mark.parametrize("seed", [78, 187])
def test_a_member_that_knows_no_coordinator_when_it_closes_is_not_waited_for(seed: int) -> None:
    """A leave is sent once, to a coordinator that is known; otherwise the session timeout removes the member."""
    ends_well(seed)


def test_a_session_that_ends_hands_nothing_to_its_own_waiting_fetch() -> None:
    """The reference broker gave back one partition, let a fetch that waited look, and then gave back the other one.

    The fetch was the ended session's own: it took a record of the other partition, which was given back at once and for
    the third time, so that it was archived before the answer had left. Now all is given back before any fetch looks.
    """
    ends_well(8039)


@pytest.mark.parametrize("seed", [1360, 2598, 3826, 4705, 4748, 4790, 5581, 8433])
def test_a_renewed_lock_runs_from_the_request_although_its_answer_is_late(seed: int) -> None:
    """A request renews some records and accepts others, and is answered when that is stored.

    The auditor let the renewed locks begin with the answer, and complained when they ended. That they begin with the
    request is shown in tests/broker/share/test_slow_persister.py.
    """
    ends_well(seed)


@pytest.mark.parametrize("seed", [1074, 1705, 3062])
def test_a_record_may_have_had_its_last_delivery_before_anybody_was_told_of_it(seed: int) -> None:
    """A fetch waits for what it acknowledges to be stored, and the locks of what it has acquired end meanwhile.

    Nothing of such a delivery is stored or answered, but the start offset moves over it, as in Kafka, when it was the
    last one. The auditor took the record for one that has deliveries left. The same in
    tests/broker/share/test_slow_persister.py.
    """
    ends_well(seed)
