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
    """One answer to a ShareFetch, of one node. How far it has come is its owner's to know; see `WholeAnswers`.

    Each method is one step for the interpreter, but for what it calls: nobody finds it half done who can tell.
    """

    cdef readonly tuple partitions
    cdef readonly object count, node_id, session_id, lock_ms
    cdef public object state, delivered_at_ms
    cdef public bint is_taken, is_returned, is_filed
    cdef readonly dict by_partition  # topic and number -> its records, for whoever collects them
    cdef WholeMaker maker

    @property
    def places(self):
        """Topic and number of each partition."""
        return [(<WholePartition>one).where[1:] for one in self.partitions]

    def collect(self):
        """The records stand in their ledgers from now on."""
        for one in self.partitions:
            (<WholePartition>one).ledger.add((<WholePartition>one).records)

    def pieces(self, *, bint accepts):
        """What to send; None if that is not plain. `accepts`: what has no acknowledgement is accepted."""
        cdef WholePartition one
        cdef tuple runs
        cdef list pieces = []
        for one in self.partitions:
            runs = None if one.lock.may_be_lost else one.ledger.runs_of_all(self.maker.run_type, accepts=accepts)
            if runs is None:
                return None
            one.runs = runs
            if len(runs) == 1:  # the rule
                first, last, kind = runs[0]
                pieces.append((one.where[0], one.where[2], ((first, last, (kind,)),)))
            else:
                pieces.append((one.where[0], one.where[2], self.maker.encode(runs)))
        return pieces

    def gathered(self):
        """What is sent of it, or has been."""
        cdef WholePartition one
        made = self.maker.gathered_type
        return tuple([
            made(one.where, self.node_id, self.session_id, one.runs, number=one.number) for one in self.partitions
        ])

    def leave(self, next_number):
        """Its acknowledgements are about to be sent, and get their numbers."""
        for one in self.partitions:
            (<WholePartition>one).number = next_number()

    def drop_records(self):
        """What awaits its outcome needs none."""
        cdef WholePartition one
        self.by_partition = {}
        for one in self.partitions:
            one.data, one.records, one.ledger = NO_RECORDS, [], Ledger()


cdef object NO_RECORDS = memoryview(b"")


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

    def make(self, parts, deadline_at_ms, *, count, node_id, session_id, lock_ms):
        """Of (where, locks, data, ranges) each. None if a lock is lost, or something stands between the records."""
        cdef WholeAnswer answer = WholeAnswer.__new__(WholeAnswer)
        cdef WholePartition one
        cdef RecordBlock block
        cdef list partitions = []
        if self.now_ms() >= deadline_at_ms:
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
