# What an acquisition lock knows. Part of `_compiled.pyx`; the twin is in `pure_lock`.

cdef class LockFacts:
    """See `pure_lock.LockFacts`."""

    cdef public object deadline_at_ms, generation, now_ms, lost_spans
    cdef public dict renewed
    cdef public set lost

    def __cinit__(self, deadline_at_ms, generation, now_ms):
        self.deadline_at_ms, self.generation, self.now_ms = deadline_at_ms, generation, now_ms
        self.lost_spans = ()

    def renewals(self):
        if self.renewed is None:
            self.renewed = {}
        return self.renewed

    def losses(self):
        if self.lost is None:
            self.lost = set()
        return self.lost

    def lose_span(self, span):
        self.lost_spans += (span,)

    @property
    def is_whole(self):
        return not (self.renewed or self.lost or self.lost_spans)

    @property
    def may_be_lost(self):
        return self.may_be_lost_at(self.now_ms())

    cdef bint may_be_lost_at(self, now_ms) except -1:
        if self.renewed or self.lost or self.lost_spans or self.generation.has_ended:
            return True
        return now_ms >= self.deadline_at_ms
