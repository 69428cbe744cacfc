# Polls and commits in which all is plain. Part of `_compiled.pyx`; where nothing was compiled they go the long way.

cdef enum:
    LOG_DEBUG = 10
    KEPT_BACK_MS = 50
    MAX_EPOCH = 0x7FFFFFFF


@cython.final
cdef class PlainCalls:
    """The short way of a poll and of a commit that waits: two steps, one that sends and one that takes the answer.

    For an application that holds nothing but one answer as a whole, or nothing at all, on sessions that were lent; see
    `application.plain_calls`, which says what the arguments are. What a step changes of the books, between the comments
    that say so, is changed while no Python runs, so that an interrupt finds all of it or nothing. A step that finds
    something that is not plain has changed nothing and returns None: then the call has to go the long way from its
    beginning, which gives the sessions back that are held.
    """

    cdef object side, calls, wholes, deliveries, reports, mailbox, mail, post, now_ms, log, guard
    cdef object in_order, is_open, is_returned  # how far a call has come
    cdef object flight_type, carrying_type, range_type, part_type, records_type, ended_well, numbers
    cdef LedgersByLock ledgers
    cdef WholeMaker maker
    cdef int64_t most_offsets, default_lock_ms
    cdef bint sends_ahead  # the fetch for the next poll leaves when an answer has been taken
    cdef dict awaited, unreported  # of `AwaitedOutcomes`
    cdef int64_t window_poll  # of an open window: how many records a poll may bring; 0: there is none
    cdef object window_wait_of, window_wait_ms, window_timeout_ms, window_lock_ms
    cdef list held
    cdef Py_ssize_t turn
    cdef long generation
    cdef object latest  # the session that was looked at last
    cdef bint is_silent  # nobody wants to read in a log what it does
    cdef PollTally tally
    cdef object spent_ms, began_at_ms

    def __cinit__(self, *, side, calls, wholes, deliveries, reports, numbers, measurements, mailbox, post, now_ms, log,
                  WholeMaker maker, in_order, is_open, is_returned, flight_type, carrying_type, range_type, part_type,
                  records_type, ended_well, LedgersByLock ledgers, int64_t most_offsets, int64_t default_lock_ms,
                  int64_t window_poll, window_wait_of, bint sends_ahead, dict awaited, dict unreported):
        self.side, self.calls, self.wholes, self.deliveries, self.reports = side, calls, wholes, deliveries, reports
        self.mailbox, self.mail, self.post, self.now_ms, self.log = mailbox, mailbox.pending, post, now_ms, log
        self.maker, self.in_order, self.is_open, self.is_returned = maker, in_order, is_open, is_returned
        self.flight_type, self.carrying_type, self.range_type = flight_type, carrying_type, range_type
        self.part_type, self.records_type, self.ended_well = part_type, records_type, ended_well
        self.ledgers, self.most_offsets, self.default_lock_ms = ledgers, most_offsets, default_lock_ms
        self.window_poll, self.window_wait_of = window_poll, window_wait_of
        self.sends_ahead, self.awaited, self.unreported = sends_ahead, awaited, unreported
        self.numbers, self.guard, self.held, self.generation = numbers, side.guard, [], gates_generation
        self.tally, self.spent_ms = PollTally(measurements), 0

    # ---- the whole of it, where the caller's thread may block

    def poll(self, lock, timeout_ms, bint makes_objects):
        """A poll for which nobody else has to be let in; `lock` lets one caller in at a time.

        None: the poll has to go the long way, with so much less time as `take_spent_ms` says.
        """
        self.spent_ms = 0
        if type(timeout_ms) is not int or timeout_ms < 0 or not lock.acquire(False):
            return None
        try:
            if self.begin_whole_poll(timeout_ms) is None:
                return None
            self.wait(timeout_ms)
            return self.end_whole_poll(makes_objects)
        finally:
            give_back(lock)

    def begin_whole_poll(self, timeout_ms):
        """`begin_poll` for who ends it with `end_whole_poll`."""
        self.spent_ms = 0
        if self.reports.is_wanted:
            return None
        self.began_at_ms = self.now_ms()
        return self.begin(self.began_at_ms, timeout_ms)

    def end_whole_poll(self, bint makes_objects):
        """The records, which are returned now; or None, as `poll`."""
        now_ms = self.now_ms()
        records = self.take(now_ms, makes_objects)
        if records is None:
            self.spent_ms = now_ms - self.began_at_ms
        else:
            self.tally.add(records._count, self.began_at_ms, now_ms)
            self.side.call = self.is_returned
        return records

    def commit(self, lock, timeout_ms):
        """A commit in the same way; partition -> None for each."""
        self.spent_ms = 0
        if not lock.acquire(False):
            return None
        try:
            if self.begin_whole_commit(timeout_ms) is None:
                return None
            self.wait(timeout_ms)
            return self.end_whole_commit()
        finally:
            give_back(lock)

    def begin_whole_commit(self, timeout_ms):
        """`begin_commit` for who ends it with `end_whole_commit`."""
        self.spent_ms = 0
        if timeout_ms <= 0 or self.reports.is_wanted:
            return None
        self.began_at_ms = self.now_ms()
        return self.begin_commit(self.began_at_ms + timeout_ms)

    def end_whole_commit(self):
        """The outcomes, which are returned now; or None, as `commit`."""
        results = self.take_outcomes()
        if results is None:
            self.spent_ms = self.now_ms() - self.began_at_ms
        else:
            self.side.call = self.in_order
        return results

    def take_spent_ms(self):
        """How long the call has taken that has to go the long way now."""
        spent_ms, self.spent_ms = self.spent_ms, 0
        return spent_ms

    def settle(self, now_ms):
        """Give the measurements what was counted and kept back; any thread may call it."""
        self.tally.settle(now_ms)

    cdef int wait(self, timeout_ms) except -1:
        """For one of the answers, or news."""
        self.mailbox.hear([session.line for session in self.held if session.line.awaits], timeout_ms, self)

    cpdef bint has_news(self) except -1:
        """Whether a wait for an answer has to end."""
        mailbox = self.mailbox
        if self.mail or mailbox.is_interrupted or mailbox.is_stopped or mailbox.failure is not None:
            return True
        for session in self.held:
            if session.is_recalled:
                return True
        return False

    # ---- sending

    def begin_poll(self, timeout_ms):
        """Send the acknowledgements of what the application has got, and a fetch to each broker that has none.

        With `sends_ahead` a fetch is in flight, and they leave with the one that `take` sends. Returns the sessions to
        wait for; None: nothing was done.
        """
        return self.begin(self.now_ms(), timeout_ms)

    cdef list begin(self, now_ms, timeout_ms):
        cdef WholeAnswer answer
        if not self.is_quiet():
            return None
        with self.guard:
            if self.window_poll and not self.window_has_room(timeout_ms):
                return None
            answer = self.returned_answer()
            if answer is None and (self.sends_ahead or not self.side.holds_nothing):
                return None
            owner = self.enter(answer, now_ms)
            if owner is None:
                return None
            if self.sends_ahead:
                if owner.is_late or not answer.has_runs(not self.side.explicit, now_ms):
                    self.leave()
                    return None
                self.begin_call()
                return self.held
            if self.window_poll:
                self.cut_waits()
            if answer is not None:
                flight = self.carrying_type(answer, now_ms, owner.longest_wait_ms)
                if not self.send(answer, owner, owner.fetches, flight):
                    return None
            for session in self.held:
                if not session.line.awaits:
                    flight = self.flight_type((), now_ms, session.longest_wait_ms)
                    correlation_id = next_id(session)
                    frame = plain_request(session.fetches, correlation_id, epoch_of(session), ())
                    session.correlation_id = correlation_id
                    session.line.send(frame, flight)
                    count_request(session.tally, len(frame), 0)
            self.begin_call()
            return self.held

    def begin_commit(self, retry_until_ms):
        """Send the acknowledgements by themselves, if nothing else awaits its outcome. Returns as `begin_poll`."""
        cdef WholeAnswer answer
        if self.sends_ahead or not self.is_quiet():
            return None
        with self.guard:
            answer, now_ms = self.returned_answer(), self.now_ms()
            if answer is None or len(self.wholes.all) > 1 or self.deliveries.awaits_outcomes:
                return None
            owner = self.enter(answer, now_ms)
            if owner is None:
                return None
            flight = self.carrying_type(answer, now_ms, 0, False, retry_until_ms)
            if not self.send(answer, owner, owner.commits, flight):
                return None
            self.begin_call()
            return [owner]

    cdef bint is_quiet(self) except -1:
        """Whether a call has nothing to do before it sends."""
        side, calls, mailbox = self.side, self.calls, self.mailbox
        if not mailbox.direct or side.call is self.is_open or side.reading is not None or calls.is_closing:
            return False
        if calls.has_open_poll or not side.topics or side.topics != calls.posted_topics:
            return False
        self.held = []
        if mailbox.is_woken or self.has_news() or self.reports.errors or self.reports.outcomes:
            return False
        return self.generation == gates_generation

    cdef bint window_has_room(self, timeout_ms) except -1:
        """Whether an open window that holds nothing has room for a poll, which is long enough to bring something."""
        if self.deliveries.behind():
            return False
        lock_ms = self.deliveries.known_lock_ms
        if timeout_ms != self.window_timeout_ms or lock_ms != self.window_lock_ms:
            self.window_wait_ms = self.window_wait_of(timeout_ms, lock_ms)
            self.window_timeout_ms, self.window_lock_ms = timeout_ms, lock_ms
        return self.window_wait_ms is not None

    cdef int cut_waits(self) except -1:
        for session in self.held:
            if session.longest_wait_ms != min(self.window_wait_ms, session.lent_wait_ms):
                session.wait_at_most(self.window_wait_ms)
        return 0

    cdef WholeAnswer returned_answer(self):
        """What the application has got, if that is one thing; None if there is none."""
        cdef WholeAnswer answer
        known = self.wholes.all
        if not known:
            return None
        answer = known[-1]
        if answer.is_sent or answer.is_filed or self.deliveries.unposted:
            return None
        return answer if answer.is_returned or self.side.call is not self.in_order else None

    cdef object enter(self, WholeAnswer answer, now_ms):
        """Hold all that was lent. Returns the one that the answer came from (any one without an answer), or None."""
        cdef object owner = None
        cdef bint is_plain = True
        topics = self.side.topics
        for session in list(self.mailbox.direct.values()):
            if session is not self.latest:
                self.latest, self.is_silent = session, not self.log.isEnabledFor(LOG_DEBUG)
            if session.owner or not self.is_silent or not session.hold():
                is_plain = False
                break
            self.held.append(session)
            if session.is_recalled or session.topics != topics or (session.own and session.has_own):
                is_plain = False
                break
            if not session.line.awaits and now_ms >= session.ends_at_ms:
                is_plain = False
                break
            if answer is None:
                owner = session
            elif session.node_id == answer.node_id and session.session_id == answer.session_id:
                owner = session
                is_plain = session.line.awaits == self.sends_ahead
        if is_plain and owner is not None:
            return owner
        self.leave()
        return None

    cdef bint send(self, WholeAnswer answer, session, template, flight) except -1:
        """False, and nothing was done and nothing is held, if that is not plain."""
        frame = None
        if answer.has_runs(not self.side.explicit, flight.sent_at_ms):
            frame = answer.request(template, next_id(session), epoch_of(session))
        if frame is None:
            self.leave()
            return False
        # From here to the request that has left no Python runs.
        self.put_off(answer)
        self.transmit(answer, session, frame, flight)
        return True

    cdef int put_off(self, WholeAnswer answer) except -1:
        """Its acknowledgements are about to leave: nobody acknowledges any of it any more."""
        answer.leave(self.numbers)
        for one in answer.partitions if self.ledgers is not None else ():
            self.ledgers.drop((<WholePartition>one).lock)
        return 0

    cdef int transmit(self, WholeAnswer answer, session, bytes frame, flight) except -1:
        session.correlation_id = next_id(session)
        answer.is_sent = True
        session.line.send(frame, flight)
        answer.drop_records()
        count_request(session.tally, len(frame), answer.count)
        return 0

    cdef int begin_call(self) except -1:
        """What was returned before has reached the application."""
        if self.wholes.all:
            (<WholeAnswer>self.wholes.all[-1]).is_returned = True
        self.side.begun_calls += 1
        self.side.call = self.in_order
        return 0

    # ---- what comes

    def take_records(self, *, bint makes_objects):
        """The records of the first answer that is there, of each broker in turn; the caller ends the call."""
        return self.take(self.now_ms(), makes_objects)

    cdef object take(self, now_ms, bint makes_objects):
        cdef WholeAnswer ended = None, fresh, leaving
        cdef list held = self.held
        cdef tuple booked = ()
        if self.mailbox.is_woken:
            return None
        self.turn += 1
        for number in range(len(held)):
            session = held[(self.turn + number) % len(held)]
            if session.line.receive_all():
                break
        else:
            return None
        answer, flight = session.line.answer, session.line.request
        read = read_plain_fetch(
            answer, session.correlation_id, session.places, self.most_offsets, self.range_type, self.part_type
        )
        if read is None or not read[1]:
            return None
        lock_ms, parts, named, count, size_bytes = read
        if self.window_poll and <int64_t>count > self.window_poll:
            return None
        if type(flight) is self.carrying_type:
            ended = flight.carried
            for one in ended.partitions:
                if (<WholePartition>one).where[1:] not in named:
                    return None
        else:
            booked = flight.acknowledgements
            if booked and not (self.sends_ahead and self.awaits_just(booked, named)):
                return None
        with self.guard:
            if self.deliveries.has_any or (ended is not None and ended.is_filed):
                return None
            onward, frame, leaving = None, None, None
            if self.sends_ahead:
                leaving = self.wholes.all[-1] if self.wholes.all else None
                if leaving is None or leaving.is_sent or leaving.is_filed or leaving.may_be_lost_at(now_ms):
                    return None
                frame = leaving.request(session.fetches, next_id(session), epoch_after(session))
                onward = self.carrying_type(leaving, now_ms, session.longest_wait_ms)
                if frame is None:
                    return None
            lock_ends_at_ms = flight.sent_at_ms + (lock_ms if lock_ms > 0 else self.default_lock_ms)
            fresh = self.maker.make(
                parts, lock_ends_at_ms, count=count, node_id=session.node_id, session_id=session.session_id,
                lock_ms=lock_ms, now_ms=now_ms,
            )
            if fresh is None:
                return None
            outcomes, fresh.delivered_at_ms = self.outcomes_of(ended, booked), now_ms
            # From here to the answer that is done with, and the request that has left, no Python runs.
            self.side.call = self.is_open
            self.reports.outcomes.extend(outcomes)
            self.deliveries.lock_ms = lock_ms
            for gathered in booked:
                self.awaited.pop(gathered.number, None)
                self.unreported.pop(gathered.number, None)
            if leaving is not None:
                self.put_off(leaving)
            fresh.collect()
            for one in fresh.partitions if self.ledgers is not None else ():
                self.ledgers.add((<WholePartition>one).lock, (<WholePartition>one).ledger)
            self.wholes.all = (*[one for one in self.wholes.all if one is not ended], fresh)
            session.line.done()
            session.fetched_at_ms = now_ms
            count_fetch(session.tally, now_ms - flight.sent_at_ms, len(answer), count, size_bytes)
            if leaving is not None:
                self.transmit(leaving, session, frame, onward)
            if self.ledgers is not None:
                self.deliveries.open_short_way()
            self.leave()
        runs = fresh.runs()
        records = self.records_type.__new__(self.records_type)
        records._by_partition, records._runs, records._count, records._spans = fresh.by_partition, runs, count, None
        records._are_made, records._records = makes_objects, listed(runs) if makes_objects else []
        return records

    def take_outcomes(self):
        """Of a commit: partition -> None for each. The caller ends the call."""
        cdef WholeAnswer ended
        if self.mailbox.is_woken:
            return None
        for session in self.held:
            if session.line.awaits and type(session.line.request) is self.carrying_type:
                break
        else:
            return None
        if not session.line.receive_all():
            return None
        answer, flight = session.line.answer, session.line.request
        read = read_plain_acknowledge(answer, session.correlation_id, session.acknowledge_version)
        ended = flight.carried
        if read is None or len(read[1]) != len(ended.partitions):
            return None
        results = {}
        for place in read[1]:
            known = session.places.get(place)
            if known is not None:
                results[known[0]] = None
        for one in ended.partitions:
            if (<WholePartition>one).where not in results:
                return None
        with self.guard:
            if ended.is_filed:
                return None
            outcomes, now_ms = self.outcomes_of(ended, ()), self.now_ms()
            # From here to the answer that is done with no Python runs.
            self.side.call = self.is_open
            self.reports.outcomes.extend(outcomes)
            if read[0] > 0:
                self.deliveries.lock_ms = read[0]
            self.wholes.all = ()
            session.line.done()
            count_commit(session.tally, now_ms - flight.sent_at_ms, len(answer))
            self.leave()
        return results

    cdef bint awaits_just(self, tuple booked, set named) except -1:
        """Whether the books await nothing else of these than what a request has carried, and its answer names them."""
        for gathered in booked:
            known = self.awaited.get(gathered.number)
            if gathered.partition[1:] not in named or known is None or known.open_runs != gathered.runs:
                return False
            if self.unreported.get(gathered.number) != gathered.runs:
                return False
        return True

    cdef object outcomes_of(self, WholeAnswer ended, tuple booked):
        """What is to be told of acknowledgements that were taken."""
        if not self.reports.is_wanted:
            return ()
        return [self.ended_well(gathered) for gathered in (booked if ended is None else ended.gathered())]

    cdef int leave(self) except -1:
        held, self.held = self.held, []
        for session in held:
            if session.is_recalled or session.fetched_at_ms is None or session.fetched_at_ms >= session.tells_at_ms:
                session.leave(self.post)
            else:
                del session.owner[None]
        return 0


cdef int give_back(lock) except -1:
    try:
        lock.release()
    except RuntimeError:
        pass  # an interrupt struck, and somebody has seen that nobody is inside any more
    return 0


cdef inline object next_id(session):
    return (session.correlation_id + 1) & 0x7FFFFFFF


cdef inline int64_t epoch_of(session) except -1:
    """As `DirectSession.epoch`."""
    return (<int64_t>session.first_epoch - 1 + <int64_t>session.line.answered) % MAX_EPOCH + 1


cdef inline int64_t epoch_after(session) except -1:
    """Once the answer that has come is done with."""
    return (<int64_t>session.first_epoch + <int64_t>session.line.answered) % MAX_EPOCH + 1


# What `network.direct` counts as well, where a call goes the long way.

cdef int count_request(tally, size_bytes, acknowledged) except -1:
    tally.requests += 1
    tally.request_bytes += size_bytes
    if acknowledged:
        tally.acknowledging += 1
        tally.acknowledged += acknowledged
    return 0


cdef int count_fetch(tally, took_ms, answer_bytes, records, record_bytes) except -1:
    tally.response_bytes += answer_bytes + FRAME_LENGTH_BYTES
    tally.fetches += 1
    tally.latency_ms += took_ms
    if took_ms > tally.highest_latency_ms:
        tally.highest_latency_ms = took_ms
    tally.records += records
    tally.record_bytes += record_bytes
    return 0


cdef int count_commit(tally, took_ms, answer_bytes) except -1:
    tally.response_bytes += answer_bytes + FRAME_LENGTH_BYTES
    tally.commits += 1
    tally.commit_latency_ms += took_ms
    if took_ms > tally.highest_commit_latency_ms:
        tally.highest_commit_latency_ms = took_ms
    return 0


@cython.final
cdef class PollTally:
    """What polls are counted in until `settle` gives it to the measurements of the client, every 50 ms."""

    cdef object measurements
    cdef int64_t polls, spans, span_ms, longest_span_ms, ratios, with_records, records, most_records
    cdef double ratio, highest_ratio
    cdef int64_t first_at_ms, began_at_ms, ended_at_ms

    def __cinit__(self, measurements):
        self.measurements = measurements

    cdef int add(self, int64_t records, int64_t began_at_ms, int64_t ended_at_ms) except -1:
        cdef int64_t span_ms
        cdef double ratio
        cdef object last_began = self.measurements.last_poll_at_ms, last_ended = self.measurements.poll_ended_at_ms
        if last_began is not None:
            span_ms = began_at_ms - <int64_t>last_began
            self.spans += 1
            self.span_ms += span_ms
            self.longest_span_ms = max(self.longest_span_ms, span_ms)
        span_ms = ended_at_ms - (began_at_ms if last_ended is None else <int64_t>last_ended)
        if span_ms > 0:
            ratio = <double>(ended_at_ms - began_at_ms) / <double>span_ms
            self.ratios += 1
            self.ratio += ratio
            self.highest_ratio = max(self.highest_ratio, ratio)
        if self.polls == 0:
            self.first_at_ms = began_at_ms
        self.polls += 1
        self.records += records
        self.most_records = max(self.most_records, records)
        self.measurements.last_poll_at_ms, self.measurements.poll_ended_at_ms = began_at_ms, ended_at_ms
        if ended_at_ms - self.first_at_ms >= KEPT_BACK_MS:
            self.settle(ended_at_ms)
        return 0

    cdef int settle(self, now_ms) except -1:
        if self.polls == 0:
            return 0
        totals = (
            (self.span_ms, self.longest_span_ms, self.spans), (self.ratio, self.highest_ratio, self.ratios),
            (self.records, self.most_records, self.polls),
        )
        self.polls = self.spans = self.span_ms = self.longest_span_ms = self.ratios = 0
        self.records = self.most_records = 0
        self.ratio = self.highest_ratio = 0
        self.measurements.polled(*totals, now_ms)
