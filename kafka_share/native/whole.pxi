# Answers that the application holds as a whole. Part of `_compiled.pyx`; where nothing was compiled there are none.

@cython.final
cdef class WholePartition:
    """What one partition has in it. `number` and `runs` are those of its acknowledgements, once they leave."""

    cdef readonly object where, locks, data, lock, records, number
    cdef readonly tuple acquired, runs
    cdef readonly Ledger ledger
    cdef public object delivery  # its entry in the books, once there is one


@cython.final
cdef class WholeAnswer:
    """One answer to a ShareFetch, of one node, and how far it has come.

    `is_returned`: it has reached the application. `is_sent`: its acknowledgements have left. `is_filed`: the books know
    it. Each method is one step for the interpreter, but for what it calls: nobody finds it half done who can tell.
    """

    cdef readonly tuple partitions
    cdef readonly object count, node_id, session_id, lock_ms
    cdef public object delivered_at_ms
    cdef public bint is_returned, is_sent, is_filed
    cdef readonly dict by_partition  # topic and number -> its records, for whoever collects them
    cdef WholeMaker maker

    def collect(self):
        """The records stand in their ledgers from now on."""
        for one in self.partitions:
            (<WholePartition>one).ledger.add((<WholePartition>one).records)

    cpdef bint has_runs(self, bint accepts, now_ms) except -1:
        """Whether all that it has can be sent: the `runs` of its partitions then are what. `accepts`: what has no
        acknowledgement is accepted."""
        cdef WholePartition one
        for one in self.partitions:
            runs = None
            if not (<LockFacts>one.lock).may_be_lost_at(now_ms):
                runs = one.ledger.runs_of_all(self.maker.run_type, accepts=accepts)
            if runs is None:
                return False
            one.runs = runs
        return True

    cdef bint may_be_lost_at(self, now_ms) except -1:
        """Whether the lock of one has ended by then, or may have."""
        for one in self.partitions:
            if (<LockFacts>(<WholePartition>one).lock).may_be_lost_at(now_ms):
                return True
        return False

    cpdef bytes request(self, template, correlation_id, epoch):
        """What sends its runs; None: too much for a short message."""
        cdef WholePartition one
        for one in self.partitions:
            if len(one.runs) > 1:
                return template.frame(correlation_id, epoch, self.pieces())
        found = plain_request(template, correlation_id, epoch, self.partitions)
        return template.frame(correlation_id, epoch, self.pieces()) if found is None else found

    cdef list pieces(self):
        """Topic id, number and runs, as a request has them."""
        cdef WholePartition one
        return [(one.where[0], one.where[2], self.maker.encode(one.runs)) for one in self.partitions]

    def runs(self):
        """The records, in the order of the partitions."""
        return [(<WholePartition>one).records for one in self.partitions]

    def gathered(self):
        """What is sent of it, or has been."""
        cdef WholePartition one
        made = self.maker.gathered_type
        return tuple([
            made(one.where, self.node_id, self.session_id, one.runs, number=one.number) for one in self.partitions
        ])

    def leave(self, numbers):
        """Its acknowledgements are about to be sent, and get their numbers."""
        for one in self.partitions:
            (<WholePartition>one).number = next(numbers)

    def drop_records(self):
        """What awaits its outcome needs none."""
        cdef WholePartition one
        self.by_partition = {}
        for one in self.partitions:
            one.data, one.records, one.ledger = NO_RECORDS, [], Ledger()


cdef object NO_RECORDS = memoryview(b"")

cdef enum:
    MOST_SHORT = 126  # elements of a list whose length takes one byte
    ONE_RUN_BYTES = 25  # a partition with one run of one type


cdef inline uint8_t *put_number(uint8_t *to, int64_t value, int size) noexcept:
    """Big-endian. Returns what is behind it."""
    cdef int i
    for i in range(size):
        to[i] = <uint8_t>((<uint64_t>value >> (8 * (size - 1 - i))) & 0xFF)
    return to + size


cdef inline uint8_t *put_bytes(uint8_t *to, bytes value) noexcept:
    memcpy(to, PyBytes_AS_STRING(value), PyBytes_GET_SIZE(value))
    return to + PyBytes_GET_SIZE(value)


cdef bytes plain_request(template, int64_t correlation_id, int64_t epoch, tuple partitions):
    """A request, of a `direct_fetch.Template`, that sends one run for each of these; the bytes are those of `frame`.

    None for what `frame` has to do: much, or the partitions of a topic apart from each other.
    """
    cdef WholePartition one
    cdef bytes head = template.head, before = template.before, after = template.after, end = template.end, made
    cdef list topics = []  # id and partitions
    cdef Py_ssize_t size
    cdef uint8_t *to
    cdef object last = None
    for one in partitions:
        if one.where[0] is not last:
            last = one.where[0]
            topic_id = last.int.to_bytes(16, "big")
            for known in topics:
                if known[0] == topic_id:
                    return None
            topics.append((topic_id, []))
        topics[-1][1].append(one)
    if len(topics) > MOST_SHORT or len(partitions) > MOST_SHORT:
        return None
    size = len(head) + 4 + len(before) + 4 + len(after) + 1 + len(topics) * 18 + len(partitions) * ONE_RUN_BYTES + len(end)
    made = PyBytes_FromStringAndSize(NULL, FRAME_LENGTH_BYTES + size)
    to = put_number(<uint8_t *>PyBytes_AS_STRING(made), size, FRAME_LENGTH_BYTES)
    to = put_number(put_bytes(to, head), correlation_id, 4)
    to = put_bytes(put_number(put_bytes(to, before), epoch, 4), after)
    to = put_number(to, len(topics) + 1, 1)
    for topic_id, of_topic in topics:
        to = put_number(put_bytes(to, topic_id), len(of_topic) + 1, 1)
        for one in of_topic:
            first, last, kind = one.runs[0]
            to = put_number(put_number(to, one.where[2], 4), 2, 1)
            to = put_number(put_number(to, first, 8), last, 8)
            to = put_number(put_number(put_number(to, 2, 1), kind, 1), 0, 2)
        to = put_number(to, 0, 1)
    put_bytes(to, end)
    return made


@cython.final
cdef class WholeMaker:
    """Makes the answers of one consumer; what they are made of is that of `RecordBlock` and `Ledger`.

    `lock_type(deadline, locks, now_ms)` makes a lock, `place_type` is made of topic and number, `run_type` of first
    offset, last offset and type, `gathered_type` of what leaves, and `encode` makes of runs what a request has.
    """

    cdef object now_ms, lock_type, gathered_type, headers_type, decompress, encode
    cdef type place_type, run_type
    cdef tuple timestamp_types
    cdef bint check_crcs
    cdef Py_ssize_t max_batch_bytes

    def __cinit__(self, *, now_ms, lock_type, type place_type, type run_type, gathered_type, encode,
                  tuple timestamp_types, headers_type, decompress, bint check_crcs, Py_ssize_t max_batch_bytes):
        self.gathered_type = gathered_type
        self.now_ms, self.lock_type, self.place_type, self.run_type = now_ms, lock_type, place_type, run_type
        self.encode, self.timestamp_types, self.headers_type = encode, timestamp_types, headers_type
        self.decompress, self.check_crcs, self.max_batch_bytes = decompress, check_crcs, max_batch_bytes

    def make(self, parts, deadline_at_ms, *, count, node_id, session_id, lock_ms, now_ms):
        """Of (where, locks, data, ranges) each. None if a lock is lost, or something stands between the records."""
        cdef WholeAnswer answer = WholeAnswer.__new__(WholeAnswer)
        cdef WholePartition one
        cdef RecordBlock block
        cdef list partitions = []
        if now_ms >= deadline_at_ms:
            return None
        answer.by_partition = {}
        for part in parts:
            one = WholePartition.__new__(WholePartition)
            one.where, one.locks, one.data, one.acquired = part
            if one.locks.has_ended:
                return None
            one.lock = self.lock_type(deadline_at_ms, one.locks, self.now_ms)
            block = RecordBlock(
                one.where[1], one.where[2], one.data, one.lock, self.timestamp_types, self.headers_type
            )
            _, one.records, gaps, reached = block.scan(
                0, one.acquired, self.check_crcs, self.max_batch_bytes, self.decompress, PY_SSIZE_T_MAX
            )
            if gaps or reached <= one.acquired[-1][1]:
                return None
            one.ledger, one.number, one.runs = Ledger(), 0, ()
            partitions.append(one)
            answer.by_partition[tuple.__new__(self.place_type, one.where[1:])] = [one.records]
        answer.partitions, answer.maker = tuple(partitions), self
        answer.count, answer.node_id, answer.session_id, answer.lock_ms = count, node_id, session_id, lock_ms
        answer.delivered_at_ms = 0
        return answer


cdef object no_answer_from_python(type kind, object arguments, PyObject *named):
    raise TypeError("a WholeMaker makes these")


redirect(<PyTypeObject *>WholeAnswer, no_answer_from_python)
redirect(<PyTypeObject *>WholePartition, no_answer_from_python)
PyType_Modified(WholeAnswer)
PyType_Modified(WholePartition)
