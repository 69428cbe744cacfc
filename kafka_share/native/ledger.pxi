# What has been acknowledged, and the short way to acknowledge. Part of `_compiled.pyx`; the twin is `pure_ledger`.

cdef enum:  # the state of a record in a ledger; those in the middle are AcknowledgeType
    GONE = 0
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4
    OPEN = 5
    HELD = 6
    STATES = 7


@cython.final
cdef class Ledger:
    """The delivered records of one delivery, and how each has been acknowledged. See `pure_ledger.Ledger`.

    Each method is one step for the interpreter: no interrupt finds it half done.
    """

    cdef int64_t *offsets
    cdef uint8_t *states
    cdef Py_ssize_t count, room
    cdef Py_ssize_t[7] tallies
    # The records: either neighbours in one block, from `first` on, which is what most deliveries are, or one by one.
    cdef RecordBlock block
    cdef Py_ssize_t first
    cdef list records

    def __cinit__(self):
        self.records = []

    def __dealloc__(self):
        PyMem_Free(self.offsets)
        PyMem_Free(self.states)

    # ---- places

    cdef inline Py_ssize_t find(self, int64_t offset) noexcept:
        """Where an offset stands, gone or not; -1 if it was never here."""
        cdef Py_ssize_t low = 0, high = self.count, middle
        if self.count == 0 or offset < self.offsets[0]:
            return -1
        if offset - self.offsets[0] < self.count and self.offsets[offset - self.offsets[0]] == offset:
            return offset - self.offsets[0]  # no hole before it
        while low < high:
            middle = (low + high) // 2
            if self.offsets[middle] < offset:
                low = middle + 1
            else:
                high = middle
        return low if low < self.count and self.offsets[low] == offset else -1

    cdef inline Py_ssize_t find_present(self, int64_t offset) noexcept:
        cdef Py_ssize_t at = self.find(offset)
        return at if at >= 0 and self.states[at] != GONE else -1

    cdef inline Py_ssize_t place_of(self, ShareRecord record) noexcept:
        """The same for a record."""
        cdef Py_ssize_t at = record.index - self.first
        if self.block is not record.block:
            return self.find_present(record.block.records[record.index].offset)
        return at if 0 <= at < self.count and self.states[at] != GONE else -1

    cdef inline int put(self, Py_ssize_t at, uint8_t state) except -1:
        self.tallies[self.states[at]] -= 1
        self.tallies[state] += 1
        self.states[at] = state
        if state == GONE and self.block is None:
            self.records[at] = None
        return 0

    cdef inline ShareRecord record_at(self, Py_ssize_t at):
        return self.records[at] if self.block is None else new_record(self.block, self.first + at)

    cdef int list_records(self) except -1:
        """From now on they stand one by one."""
        if self.block is not None:
            self.records = [
                None if self.states[at] == GONE else new_record(self.block, self.first + at) for at in range(self.count)
            ]
            self.block = None
        return 0

    cdef int make_room(self, Py_ssize_t more) except -1:
        cdef Py_ssize_t room = max(self.count + more, 2 * self.room)
        cdef void *grown
        if self.count + more <= self.room:
            return 0
        grown = PyMem_Realloc(self.offsets, room * sizeof(int64_t))
        if grown == NULL:
            raise MemoryError()
        self.offsets = <int64_t *>grown
        grown = PyMem_Realloc(self.states, room)
        if grown == NULL:
            raise MemoryError()
        self.states = <uint8_t *>grown
        self.room = room
        return 0

    # ---- delivery

    def add(self, records):
        cdef Py_ssize_t at
        cdef ShareRecord record
        cdef int64_t offset
        if len(self) == 0:
            self.count, self.tallies[GONE], self.records, self.block = 0, 0, [], None
        self.make_room(len(records))
        if isinstance(records, RecordRun) and self.add_run(records):
            return
        self.list_records()
        for item in records:
            record = item
            offset = record.block.records[record.index].offset
            if self.count == 0 or offset > self.offsets[self.count - 1]:
                at = self.count
                self.offsets[at], self.states[at] = offset, OPEN
                self.records.append(record)
                self.count += 1
                self.tallies[OPEN] += 1
                continue
            at = self.find(offset)
            if at < 0:
                self.insert(offset, record)
            elif self.states[at] == GONE:
                self.records[at] = record
                self.put(at, OPEN)

    cdef bint add_run(self, RecordRun run) except -1:
        """Neighbours of what is here, or what is here already; False, and nothing is changed, if it is neither."""
        cdef Py_ssize_t at, known
        if self.count == 0:
            self.block, self.first = run.block, run.start
        if self.block is not run.block or not self.first <= run.start <= self.first + self.count:
            return False
        known = self.first + self.count - run.start
        for at in range(run.start + (known if self.count else 1), run.stop):
            if run.block.records[at].offset <= run.block.records[at - 1].offset:
                return False
        for at in range(run.start - self.first, min(self.count, run.stop - self.first)):
            if self.states[at] == GONE:
                self.put(at, OPEN)
        for at in range(run.start + known, run.stop):
            self.offsets[self.count], self.states[self.count] = run.block.records[at].offset, OPEN
            self.count += 1
            self.tallies[OPEN] += 1
        return True

    cdef int insert(self, int64_t offset, ShareRecord record) except -1:
        """Between those that are here, which happens seldom."""
        cdef Py_ssize_t at = self.count
        self.make_room(1)
        while at > 0 and self.offsets[at - 1] > offset:
            self.offsets[at], self.states[at] = self.offsets[at - 1], self.states[at - 1]
            at -= 1
        self.offsets[at], self.states[at] = offset, OPEN
        self.records.insert(at, record)
        self.count += 1
        self.tallies[OPEN] += 1
        return 0

    def remove(self, offsets):
        cdef Py_ssize_t at
        for offset in offsets:
            at = self.find_present(offset)
            if at >= 0:
                self.put(at, GONE)

    # ---- what is here

    def __len__(self):
        return self.count - self.tallies[GONE]

    @property
    def open(self):
        return self.tallies[OPEN]

    @property
    def held(self):
        return self.tallies[HELD]

    @property
    def acknowledged(self):
        return self.tallies[ACCEPT] + self.tallies[RELEASE] + self.tallies[REJECT] + self.tallies[RENEW]

    @property
    def renewing(self):
        return self.tallies[RENEW]

    def is_held(self, int64_t offset):
        cdef Py_ssize_t at = self.find(offset)
        return at >= 0 and self.states[at] == HELD

    def records_at(self, offsets):
        cdef Py_ssize_t at
        found = []
        for offset in offsets:
            at = self.find_present(offset)
            if at >= 0:
                found.append(self.record_at(at))
        return found

    def unacknowledged(self, *, bint with_held):
        cdef Py_ssize_t at
        return [
            self.offsets[at] for at in range(self.count)
            if self.states[at] == OPEN or (with_held and self.states[at] == HELD)
        ]

    def renewals(self):
        cdef Py_ssize_t at
        if self.tallies[RENEW] == 0:
            return []
        return [self.offsets[at] for at in range(self.count) if self.states[at] == RENEW]

    def first_open(self):
        cdef Py_ssize_t at
        for at in range(self.count):
            if self.states[at] == OPEN or self.states[at] == RENEW:
                return self.offsets[at]
        return None

    # ---- acknowledging

    def acknowledge(self, int64_t offset, uint8_t kind):
        return self.acknowledge_at(self.find_present(offset), kind)

    cdef bint acknowledge_at(self, Py_ssize_t at, uint8_t kind) except -1:
        if at < 0:
            return False
        self.put(at, kind)
        return True

    def acknowledge_once(self, int64_t offset, uint8_t kind):
        return self.acknowledge_once_at(self.find_present(offset), kind)

    cdef bint acknowledge_once_at(self, Py_ssize_t at, uint8_t kind) except -1:
        if at < 0 or not (self.states[at] == OPEN or self.states[at] == RENEW):
            return False
        self.put(at, kind)
        return True

    def acknowledge_each(self, offsets, uint8_t kind, *, bint once):
        cdef Py_buffer view
        cdef const int64_t *offset
        cdef Py_ssize_t number, at
        left = array("q")
        PyObject_GetBuffer(offsets, &view, PyBUF_SIMPLE)
        try:
            offset = <const int64_t *>view.buf
            for number in range(view.len // <Py_ssize_t>sizeof(int64_t)):
                if not self.can_be_acknowledged(self.find_present(offset[number]), once):
                    left.append(offset[number])
            for number in range(view.len // <Py_ssize_t>sizeof(int64_t)):
                at = self.find_present(offset[number])
                if self.can_be_acknowledged(at, once):
                    self.put(at, kind)
        finally:
            PyBuffer_Release(&view)
        return left

    cdef inline bint can_be_acknowledged(self, Py_ssize_t at, bint once) noexcept:
        return at >= 0 and (not once or self.states[at] == OPEN or self.states[at] == RENEW)

    def accept(self, offsets):
        cdef Py_ssize_t at
        for offset in offsets:
            at = self.find_present(offset)
            if at >= 0:
                self.put(at, ACCEPT)

    def accept_open(self):
        cdef Py_ssize_t at
        if self.tallies[OPEN]:
            for at in range(self.count):
                if self.states[at] == OPEN:
                    self.states[at] = ACCEPT
            self.tallies[ACCEPT] += self.tallies[OPEN]
            self.tallies[OPEN] = 0

    def hold(self, int64_t offset):
        return self.acknowledge_at(self.find_present(offset), HELD)

    # ---- leaving

    def runs_of_all(self, type run_type, *, bint accepts):
        if accepts:
            self.accept_open()
        if len(self) == 0 or self.acknowledged < len(self) or self.tallies[RENEW]:
            return None
        return tuple([tuple.__new__(run_type, run) for run in self.runs(self.snapshot(with_renewals=True))])

    def snapshot(self, *, bint with_renewals):
        cdef bytes taken
        cdef uint8_t *out
        cdef Py_ssize_t at
        cdef uint8_t last = RENEW if with_renewals else REJECT
        if self.acknowledged - (0 if with_renewals else self.tallies[RENEW]) == 0:
            return b""
        taken = PyBytes_FromStringAndSize(NULL, self.count)
        out = <uint8_t *>PyBytes_AS_STRING(taken)
        for at in range(self.count):
            out[at] = self.states[at] if self.states[at] <= last else <uint8_t>GONE
        return taken

    def runs(self, bytes snapshot):
        cdef const uint8_t *types = <const uint8_t *>PyBytes_AS_STRING(snapshot)
        cdef Py_ssize_t at, start = -1
        found = []
        for at in range(PyBytes_GET_SIZE(snapshot)):
            if start >= 0 and types[at] == types[start] and self.offsets[at] == self.offsets[at - 1] + 1:
                continue
            if start >= 0:
                found.append((self.offsets[start], self.offsets[at - 1], types[start]))
            start = at if types[at] else -1
        if start >= 0:
            found.append((self.offsets[start], self.offsets[PyBytes_GET_SIZE(snapshot) - 1], types[start]))
        return found

    def kind_in(self, bytes snapshot, int64_t offset):
        cdef Py_ssize_t at = self.find(offset)
        return snapshot[at] if 0 <= at < PyBytes_GET_SIZE(snapshot) else 0

    def offsets_in(self, bytes snapshot):
        cdef const uint8_t *types = <const uint8_t *>PyBytes_AS_STRING(snapshot)
        cdef Py_ssize_t at
        return [self.offsets[at] for at in range(PyBytes_GET_SIZE(snapshot)) if types[at]]

    def renewing_in(self, bytes snapshot):
        cdef const uint8_t *types = <const uint8_t *>PyBytes_AS_STRING(snapshot)
        cdef Py_ssize_t at
        if memchr(types, RENEW, PyBytes_GET_SIZE(snapshot)) == NULL:
            return {}
        return {
            self.offsets[at]: self.record_at(at)
            for at in range(PyBytes_GET_SIZE(snapshot)) if types[at] == RENEW and self.states[at] != GONE
        }

    def split(self, bytes snapshot, offsets):
        cdef bytearray inside = bytearray(len(snapshot)), outside = bytearray(snapshot)
        cdef Py_ssize_t at
        for offset in offsets:
            at = self.find(offset)
            if 0 <= at < PyBytes_GET_SIZE(snapshot):
                inside[at], outside[at] = outside[at], 0
        return bytes(inside), bytes(outside)

    def leave(self, bytes snapshot, *, bint keeps_renewals):
        cdef const uint8_t *types = <const uint8_t *>PyBytes_AS_STRING(snapshot)
        cdef Py_ssize_t at
        assert PyBytes_GET_SIZE(snapshot) <= self.count, "what leaves was never here"
        for at in range(PyBytes_GET_SIZE(snapshot)):
            if types[at] == RENEW and keeps_renewals:
                if self.states[at] == RENEW:
                    self.put(at, OPEN)
            elif types[at] and self.states[at] != GONE:
                self.put(at, GONE)

    def check(self):
        cdef Py_ssize_t at
        assert len(self.records) == (self.count if self.block is None else 0), "records are here twice, or not at all"
        counted = [0] * STATES
        for at in range(self.count):
            counted[self.states[at]] += 1
            assert at == 0 or self.offsets[at - 1] < self.offsets[at], "records were delivered out of order"
            assert self.block is not None or (self.records[at] is None) == (self.states[at] == GONE), "a gone one is kept"
            assert self.states[at] == GONE or self.record_at(at).offset == self.offsets[at], "a record is at another's"
        assert counted == [self.tallies[at] for at in range(STATES)], "the tallies are wrong"


@cython.final
cdef class LedgersByLock:
    """In which ledger the records with a lock stand."""

    cdef dict known
    cdef object latest_lock  # that was looked for last: records come in the order of their locks
    cdef Ledger latest

    def __cinit__(self):
        self.known = {}

    cpdef add(self, lock, Ledger ledger):
        self.latest_lock, self.latest = None, None
        self.known[lock] = ledger

    cpdef drop(self, lock):
        self.latest_lock, self.latest = None, None
        self.known.pop(lock, None)

    def listed(self):
        """Lock -> ledger."""
        return dict(self.known)

    cdef inline Ledger find(self, lock):
        """None: the records are not here."""
        cdef PyObject *found
        if lock is not self.latest_lock:
            found = PyDict_GetItem(self.known, lock)
            if found == NULL:
                return None
            self.latest_lock, self.latest = lock, <Ledger>found
        return self.latest


cdef long gates_generation = 0
cdef object NOT_GIVEN = object()


def shut_all_gates():
    """In a forked child, and when the process ends: nothing is acknowledged by the short way any more."""
    global gates_generation
    gates_generation += 1


@cython.final
cdef class Gate:
    """The short way of `acknowledge`, for what most calls are: a record of this consumer, open, and nobody else inside.

    `ledgers` is kept by its owner, `kind_type` is `AcknowledgeType`. `is_busy` returns whether a call
    of the consumer is under way; without it, any thread may come in, and acknowledgements are final. False from
    `acknowledge` says nothing but that the long way has to be gone, which `acknowledge_anyway` goes then: `long_way` is
    to be set before, and takes a record and a type.
    """

    cdef public bint is_open
    cdef public object long_way
    cdef LedgersByLock ledgers
    cdef object kind_type, is_busy, accept
    cdef c_function is_busy_in_c
    cdef long generation

    def __cinit__(self, LedgersByLock ledgers not None, kind_type, is_busy):
        self.ledgers, self.kind_type, self.is_busy = ledgers, kind_type, is_busy
        self.is_busy_in_c = in_c(is_busy)
        self.accept = kind_type(ACCEPT)
        self.generation = gates_generation

    def acknowledge(self, record, kind):
        return self.goes(record, kind)

    def acknowledge_anyway(self, record, type=NOT_GIVEN):
        """Tell what became of a record: see `KafkaShareConsumer.acknowledge`, in whose place this stands."""
        kind = self.accept if type is NOT_GIVEN else type
        if not self.goes(record, kind):
            self.long_way(record, kind)

    cdef bint goes(self, record, kind) except -1:
        cdef ShareRecord known
        cdef Ledger ledger
        cdef Py_ssize_t at
        if not self.is_open or self.generation != gates_generation or type(kind) is not self.kind_type:
            return False
        if not isinstance(record, ShareRecord):
            return False
        if self.is_busy is not None and result_of(self.is_busy, self.is_busy_in_c):
            return False
        known = record
        if known.block.lock is None:
            return False
        ledger = self.ledgers.find(known.block.lock)
        if ledger is None:
            return False
        at = ledger.place_of(known)
        if self.is_busy is None:
            return ledger.acknowledge_once_at(at, kind)
        return at >= 0 and ledger.states[at] != HELD and ledger.acknowledge_at(at, kind)
