"""The lease book: what happened and the time in, what to do out. No threads, no sockets, no Spark."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kafka_share.records import AcknowledgeType
from kafka_share.spark.lease import LeaseOutput, LeaseTerms, Plan, Renew, Settle, Stop
from kafka_share.spark.lease_book import KEPT_LEASES, LeaseBook

ACCEPT, RELEASE, REJECT = AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT
LOCK_MS = 30_000
DRIVER, LATER_DRIVER = 100, 200


def book_of(**terms: object) -> LeaseBook:
    """A book with one runner."""
    book = LeaseBook(LeaseTerms(**terms), 0)  # type: ignore[arg-type]
    book.attached("run1", DRIVER)
    return book


def lease_of(book: LeaseBook, records: int = 10, now_ms: int = 0, session: str = "run1") -> int:
    return book.acquired(session, records, 0, LOCK_MS, now_ms)


def outputs(book: LeaseBook, now_ms: int) -> list[LeaseOutput]:
    done = book.poll(now_ms)
    book.check()
    return done


# ---- commits


def test_nothing_is_accepted_when_a_batch_was_only_planned() -> None:
    book = book_of()
    lease = lease_of(book)
    assert book.planned(lease, "run1") is Plan.SAME
    assert outputs(book, 1) == []


def test_a_lease_is_accepted_once_when_proof_of_its_commit_comes_several_times() -> None:
    book = book_of()
    lease = lease_of(book)
    book.committed(lease)
    book.committed(lease)
    assert outputs(book, 1) == [Settle(lease, {}, ACCEPT)]
    assert outputs(book, 2) == []


def test_earlier_leases_are_accepted_when_a_later_batch_is_committed_and_later_ones_are_not() -> None:
    book = book_of()
    first, second, third = (lease_of(book) for _ in range(3))
    book.committed(second)
    assert outputs(book, 1) == [Settle(first, {}, ACCEPT), Settle(second, {}, ACCEPT)]
    assert [lease.number for lease in book.open_leases] == [third]


def test_the_lease_of_another_runner_stays_open_when_a_later_batch_is_committed() -> None:
    """Two queries may run from copies of one checkpoint."""
    book = book_of()
    book.attached("run2", DRIVER)
    first = lease_of(book)
    second = lease_of(book, session="run2")
    book.committed(second)
    assert outputs(book, 1) == [Settle(second, {}, ACCEPT)]
    assert [lease.number for lease in book.open_leases] == [first]


def test_decisions_leave_with_the_commit_and_the_latest_one_counts() -> None:
    book = book_of()
    lease = lease_of(book)
    assert book.decided(lease, {("t", 0, 1): REJECT, ("t", 0, 2): RELEASE})
    assert book.decided(lease, {("t", 0, 2): REJECT})
    assert outputs(book, 1) == []
    book.committed(lease)
    assert outputs(book, 2) == [Settle(lease, {("t", 0, 1): REJECT, ("t", 0, 2): REJECT}, ACCEPT)]
    assert not book.decided(lease, {("t", 0, 3): REJECT})


def test_decisions_of_a_batch_that_failed_are_not_sent() -> None:
    """A rejected record would be gone, although the batch that rejected it never was committed."""
    book = book_of(grace_ms=0)
    lease = lease_of(book)
    book.decided(lease, {("t", 0, 1): REJECT})
    book.detached("run1", 1)
    assert outputs(book, 1)[0] == Settle(lease, {}, RELEASE)


# ---- renewals


def test_locks_are_renewed_after_each_third_of_the_lock_time_while_the_lease_is_open() -> None:
    book = book_of()
    lease = lease_of(book)
    assert book.wake_at_ms() == LOCK_MS // 3
    assert outputs(book, LOCK_MS // 3 - 1) == []
    assert outputs(book, LOCK_MS // 3) == [Renew(lease)]
    assert book.wake_at_ms() == 2 * (LOCK_MS // 3)
    book.committed(lease)
    outputs(book, 11_000)
    assert outputs(book, 10 * LOCK_MS) == []
    assert book.counts.renewals == 10


def test_locks_are_not_renewed_when_the_options_say_so_or_the_lease_is_too_old() -> None:
    book = book_of(renews=False)
    lease_of(book)
    assert outputs(book, LOCK_MS) == []
    limited = book_of(max_lease_ms=15_000)
    lease = lease_of(limited)
    assert outputs(limited, 10_000) == [Renew(lease)]
    assert outputs(limited, 20_000) == []
    assert limited.wake_at_ms() is None


def test_locks_are_not_renewed_any_more_when_the_brokers_know_no_renewals() -> None:
    book = book_of()
    lease_of(book)
    book.renewals_ended()
    lease_of(book)
    assert book.wake_at_ms() is None
    assert outputs(book, 10 * LOCK_MS) == []


# ---- runners come and go


def test_leases_are_released_when_no_runner_came_back_within_the_grace() -> None:
    book = book_of(grace_ms=5_000)
    lease = lease_of(book)
    book.detached("run1", 1_000)
    assert outputs(book, 5_999) == []
    assert book.wake_at_ms() == 6_000
    assert outputs(book, 6_000) == [Settle(lease, {}, RELEASE), Stop("no query is attached, and nothing is open")]


def test_leases_are_released_at_once_when_there_is_no_grace() -> None:
    book = book_of(grace_ms=0)
    lease = lease_of(book)
    book.detached("run1", 7)
    assert outputs(book, 7)[0] == Settle(lease, {}, RELEASE)


def test_locks_are_renewed_during_the_grace() -> None:
    book = book_of(grace_ms=60_000)
    lease = lease_of(book)
    book.detached("run1", 0)
    assert outputs(book, 10_000) == [Renew(lease)]


def test_a_later_runner_gets_the_same_lease_when_it_comes_within_the_grace() -> None:
    book = book_of(grace_ms=5_000)
    lease = lease_of(book)
    book.detached("run1", 0)
    book.attached("run2", LATER_DRIVER)
    assert book.planned(lease, "run2") is Plan.ADOPTED
    assert book.planned(lease, "run2") is Plan.SAME
    assert outputs(book, 9_000) == []
    book.committed(lease)
    assert outputs(book, 9_001) == [Settle(lease, {}, ACCEPT)]


def test_a_lease_is_released_when_it_was_replayed_as_often_as_allowed() -> None:
    book = book_of(max_replays=1)
    lease = lease_of(book)
    book.detached("run1", 0)
    book.attached("run2", LATER_DRIVER)
    assert book.planned(lease, "run2") is Plan.ADOPTED
    book.detached("run2", 1)
    book.attached("run3", LATER_DRIVER)
    assert book.planned(lease, "run3") is Plan.GONE
    assert outputs(book, 2) == [Settle(lease, {}, RELEASE)]


def test_a_runner_of_a_driver_that_died_counts_as_gone_although_its_connection_lives() -> None:
    book = book_of(grace_ms=1_000)
    lease_of(book)
    book.driver_died(LATER_DRIVER, 0)
    assert outputs(book, 1_000) == []
    book.driver_died(DRIVER, 1_000)
    book.detached("run1", 1_500)
    assert isinstance(outputs(book, 2_000)[-1], Stop)


def test_a_lease_that_no_checkpoint_names_is_offered_again_instead_of_others() -> None:
    book = book_of()
    first = lease_of(book)
    second = lease_of(book)
    book.detached("run1", 0)
    book.attached("run2", LATER_DRIVER)
    book.committed(first)
    pending = book.pending(first, "run2")
    assert pending is not None
    assert pending.number == second
    assert book.planned(second, "run2") is Plan.SAME
    assert book.pending(second, "run2") is None


def test_the_agent_ends_when_nobody_ever_attaches() -> None:
    book = LeaseBook(LeaseTerms(first_attach_ms=60_000), 0)
    assert book.poll(59_999) == []
    assert book.wake_at_ms() == 60_000
    assert book.poll(60_000) == [Stop("no query has ever attached")]


def test_the_agent_ends_at_once_when_its_runner_goes_and_nothing_is_open() -> None:
    book = book_of(grace_ms=30_000)
    book.committed(lease_of(book))
    book.detached("run1", 5)
    assert isinstance(outputs(book, 5)[-1], Stop)


def test_everything_open_is_released_when_the_agent_is_told_to_end() -> None:
    book = book_of()
    lease = lease_of(book)
    book.stopped("SIGTERM")
    assert outputs(book, 1) == [Settle(lease, {}, RELEASE), Stop("SIGTERM")]


# ---- losses


def test_a_runner_sees_the_same_rows_when_the_locks_were_lost_and_a_later_runner_sees_none() -> None:
    book = book_of()
    lease = lease_of(book, 10)
    assert book.is_held(lease)
    book.lost(lease, 4)
    assert not book.is_held(lease)
    assert [one.number for one in book.open_leases] == [lease]
    book.lost(lease, 10)
    assert book.open_leases == ()
    assert book.planned(lease, "run1") is Plan.SAME
    book.attached("run2", LATER_DRIVER)
    assert book.planned(lease, "run2") is Plan.GONE
    assert (book.counts.records_lost, book.counts.leases_lost) == (10, 1)


def test_the_rest_is_accepted_when_some_records_were_lost() -> None:
    book = book_of()
    lease = lease_of(book, 10)
    book.lost(lease, 4)
    book.committed(lease)
    assert outputs(book, 1) == [Settle(lease, {}, ACCEPT)]


@pytest.mark.parametrize("number", [0, 99])
def test_a_lease_that_never_was_is_gone(number: int) -> None:
    book = book_of()
    assert book.planned(number, "run1") is Plan.GONE
    assert not book.is_held(number)
    assert not book.decided(number, {})
    assert not book.settled(number, ACCEPT)


def test_a_lease_that_was_settled_long_ago_is_gone() -> None:
    book = book_of()
    first = lease_of(book)
    book.committed(first)
    assert book.planned(first, "run1") is Plan.GONE
    for _ in range(KEPT_LEASES + 5):
        book.committed(lease_of(book))
    book.check()
    assert book.planned(first, "run1") is Plan.GONE


# ---- batch reads


def test_the_lease_of_a_batch_read_outlives_the_process_that_planned_it() -> None:
    book = book_of(ttl_ms=600_000, grace_ms=0)
    lease = lease_of(book)
    book.detached("run1", 0)
    assert [type(one) for one in outputs(book, 599_999)] == [Renew]
    assert book.settled(lease, ACCEPT)
    assert outputs(book, 599_999) == [Settle(lease, {}, ACCEPT), Stop("no query is attached, and nothing is open")]


def test_the_lease_of_a_batch_read_is_released_when_its_time_is_over() -> None:
    book = book_of(ttl_ms=4_000)
    lease = lease_of(book)
    book.detached("run1", 0)
    assert book.wake_at_ms() == 4_000
    assert outputs(book, 4_000)[0] == Settle(lease, {}, RELEASE)
    assert not book.settled(lease, ACCEPT)


def test_the_lease_of_a_batch_read_is_released_at_once_when_its_driver_dies() -> None:
    book = book_of(ttl_ms=600_000)
    lease = lease_of(book)
    book.detached("run1", 0)
    book.driver_died(DRIVER, 5)
    assert outputs(book, 5) == [Settle(lease, {}, RELEASE), Stop("the driver has died")]


def test_decisions_of_a_batch_read_are_sent_and_the_rest_is_released() -> None:
    book = book_of(ttl_ms=600_000)
    lease = lease_of(book)
    book.decided(lease, {("t", 0, 1): ACCEPT})
    assert book.settled(lease, RELEASE)
    assert outputs(book, 5)[0] == Settle(lease, {("t", 0, 1): ACCEPT}, RELEASE)


class LeaseStory(RuleBasedStateMachine):
    """Any order of events: each lease is settled at most once, and accepted only with proof of its commit."""

    @initialize(grace_ms=st.sampled_from([0, 500, 30_000]), max_replays=st.integers(0, 2))
    def begin(self, grace_ms: int, max_replays: int) -> None:
        self.now_ms = 0
        self.book = LeaseBook(LeaseTerms(grace_ms=grace_ms, max_replays=max_replays), 0)
        self.runs = 0
        self.is_attached = False
        self.proved = 0
        self.last = 0
        self.settled: dict[int, AcknowledgeType] = {}
        self.rows_of: dict[int, set[str]] = {}
        self.max_replays = max_replays

    @property
    def session(self) -> str:
        return f"run{self.runs}"

    @precondition(lambda self: not self.is_attached)
    @rule()
    def attach(self) -> None:
        self.runs += 1
        self.book.attached(self.session, self.runs)
        self.is_attached = True

    @precondition(lambda self: self.is_attached)
    @rule(by_death=st.booleans())
    def detach(self, by_death: bool) -> None:
        if by_death:
            self.book.driver_died(self.runs, self.now_ms)
        self.book.detached(self.session, self.now_ms)
        self.is_attached = False

    @precondition(lambda self: self.is_attached)
    @rule(records=st.integers(1, 5))
    def acquire(self, records: int) -> None:
        self.last = self.book.acquired(self.session, records, 0, 3_000, self.now_ms)

    @precondition(lambda self: self.is_attached and self.last)
    @rule(back=st.integers(0, 2))
    def plan(self, back: int) -> None:
        number = max(1, self.last - back)
        if self.book.planned(number, self.session) is not Plan.GONE:
            self.rows_of.setdefault(number, set()).add(self.session)

    @precondition(lambda self: self.last)
    @rule(back=st.integers(0, 2))
    def commit(self, back: int) -> None:
        self.proved = max(self.proved, self.last - back)
        self.book.committed(self.last - back)

    @precondition(lambda self: self.last)
    @rule(records=st.integers(1, 5))
    def lose(self, records: int) -> None:
        lease = next((one for one in self.book.open_leases if one.number == self.last), None)
        self.book.lost(self.last, min(records, lease.records if lease else 0))

    @rule(span_ms=st.sampled_from([0, 1, 400, 1_000, 40_000]))
    def let_time_pass(self, span_ms: int) -> None:
        self.now_ms += span_ms
        for output in self.book.poll(self.now_ms):
            if isinstance(output, Settle):
                assert output.lease not in self.settled
                self.settled[output.lease] = output.rest
                assert output.rest is RELEASE or output.lease <= self.proved
            elif isinstance(output, Renew):
                assert output.lease not in self.settled

    @invariant()
    def holds(self) -> None:
        if hasattr(self, "book"):
            self.book.check()
            assert all(len(runs) <= 1 + self.max_replays + 1 for runs in self.rows_of.values())


TestLeaseStory = LeaseStory.TestCase
