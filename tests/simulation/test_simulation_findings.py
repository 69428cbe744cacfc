"""Seeds whose histories once ended in a complaint, each with its story.

A history changes when the simulation draws it in another way, so the defect itself is pinned by a test of the machine
that had it; the seeds stay because what found one defect may find its neighbour.
"""

from __future__ import annotations

import pytest
import simulate
from sim_history import run_history


def ends_well(seed: int) -> None:
    outcome = run_history(seed)
    assert outcome.complaint is None, simulate.failure_line(outcome)


@pytest.mark.parametrize("seed", [486, 601, 755])
def test_a_record_that_comes_again_replaces_its_older_delivery(seed: int) -> None:
    """A renewal whose answer is lost leaves no record behind that can never be acknowledged.

    While the renewal was under way no poll returned records, but each poll fetched: the locks of what waited ran out,
    the broker handed the same records out again, and at last one poll returned them three times. `acknowledge` found
    the oldest copy only, and every later poll complained of records without an acknowledgement. Now the latest delivery
    counts, and what waited until its lock had ended is not returned: tests/core/test_superseded_deliveries.py.
    """
    ends_well(seed)


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


def test_offsets_below_the_start_of_the_log_may_keep_a_share_partition_from_its_records() -> None:
    """Records deleted up to the middle of a batch, a finished batch left before them, and a strict record limit.

    The leader then takes the batch into its window from its beginning, hands out a part below the log's start, and has
    the rest of it AVAILABLE: each fetch reads there, is told that the offset is out of range, and gets nothing, for the
    start offset is not raised to where it is already. The auditor counts such a share partition and asks no more of it.
    """
    ends_well(510)


@pytest.mark.parametrize("seed", [78, 187])
def test_a_member_that_knows_no_coordinator_when_it_closes_is_not_waited_for(seed: int) -> None:
    """A leave is sent once, to a coordinator that is known; otherwise the session timeout removes the member."""
    ends_well(seed)
