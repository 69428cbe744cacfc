# The application's thread on a connection of its own for a while: one request, its answer, and nothing in Python between.

cdef extern from "direct_line.h" nogil:
    enum:
        KS_HAS_DIRECT_LINE
        KS_MOST_WAITED
    struct ks_waited:
        int fd
        int wants_to_write
    long ks_send(int fd, const char *data, size_t count)
    long ks_receive(int fd, char *data, size_t count)
    long ks_receive_framed(int fd, char *head, size_t head_count, char *data, size_t count)
    int ks_wait(ks_waited *waited, int count, int timeout_ms)
    void ks_close(int fd)
    void ks_shut(int fd)
    void ks_drain(int fd)
    long long ks_now_ms()

cdef extern from "Python.h":
    int PyErr_CheckSignals() except -1

cdef enum:
    FRAME_LENGTH_BYTES = 4
    DIRECT_STAGING_BYTES = 65536
    MOST_DIRECT_BYTES = 0x4000000
    LARGE_FRAME_BYTES = 65536
    MOST_DELIVERIES = 0x10000

cdef class DirectLine:
    """A socket, and at most one request on it. Takes `fd` over and closes it in the end.

    Each method does what it does as a whole: no signal handler runs inside, so that an interrupt finds either all of it
    or nothing. A line that is broken, by its peer or by an answer longer than 64 MiB, says so, and no more: whoever
    goes on with `leftover` and the socket finds out why.
    """

    cdef int fd
    cdef readonly bint awaits, is_broken
    cdef readonly object request, answer
    cdef readonly long answered
    cdef bytes sending
    cdef size_t sent
    cdef char *staging
    cdef size_t staged
    cdef object frame  # bytes, or a `Slab` for a large one
    cdef char *frame_at
    cdef size_t frame_bytes, filled
    cdef size_t expected  # how long the last answer was: the next one may be, too

    def __cinit__(self, int fd):
        self.fd, self.sending = -1, b""
        self.staging = <char *>PyMem_Malloc(DIRECT_STAGING_BYTES)
        if self.staging == NULL:
            raise MemoryError
        self.fd = fd

    def __dealloc__(self):
        if self.fd >= 0:
            ks_close(self.fd)
        PyMem_Free(self.staging)

    def send(self, bytes frame, request):
        """Send a frame; `request` is kept beside it until the answer is `done` with."""
        assert not self.awaits, "one request at a time"
        self.sending, self.sent, self.request, self.awaits = frame, 0, request, True
        self.push()

    @property
    def has_come(self):
        """Whether there is an answer, or will be none."""
        return self.answer is not None or self.is_broken

    def receive(self):
        """Read what is there. Whether there is an answer now, or will be none."""
        if self.sent < <size_t>PyBytes_GET_SIZE(self.sending):
            self.push()
        while not self.has_come and self.read_some():
            pass
        return self.has_come

    def fileno(self):
        """The socket, for event loops; -1 once it is closed."""
        return self.fd

    def close(self):
        """Give the socket up. What was read stays to be looked at."""
        if self.fd >= 0:
            ks_close(self.fd)
        self.fd = -1

    def shut(self):
        """End the connection for everybody who has its socket; any thread may call it."""
        if self.fd >= 0:
            ks_shut(self.fd)

    def receive_all(self):
        """The same, but False if the line is broken, which the core has to see."""
        self.receive()
        return self.answer is not None

    def done(self):
        """The answer has been dealt with."""
        self.awaits, self.request, self.answer = False, None, None
        self.answered += 1

    @property
    def unsent(self):
        """What the peer has not taken of the request."""
        return self.sending[self.sent:] if self.awaits else b""

    @property
    def leftover(self):
        """What has been read, from the length of the answer on."""
        if self.answer is not None:
            return len(self.answer).to_bytes(FRAME_LENGTH_BYTES, "big") + bytes(self.answer)
        if self.frame is not None:
            length = self.frame_bytes.to_bytes(FRAME_LENGTH_BYTES, "big")
            return length + PyBytes_FromStringAndSize(self.frame_at, <Py_ssize_t>self.filled)
        return PyBytes_FromStringAndSize(self.staging, <Py_ssize_t>self.staged)

    cdef void push(self) noexcept:
        cdef size_t total = <size_t>PyBytes_GET_SIZE(self.sending)
        cdef long count
        while self.sent < total:
            count = ks_send(self.fd, PyBytes_AS_STRING(self.sending) + self.sent, total - self.sent)
            if count <= 0:
                self.is_broken = self.is_broken or count < 0
                return
            self.sent += <size_t>count

    cdef bint read_some(self) except -1:
        """Whether something came."""
        cdef long count
        if self.frame is not None:
            count = ks_receive(self.fd, self.frame_at + self.filled, self.frame_bytes - self.filled)
            if count > 0:
                self.came(<size_t>count)
        elif self.staged == 0 and self.expected > 0:
            count = self.read_expected()
        else:
            count = ks_receive(self.fd, self.staging + self.staged, DIRECT_STAGING_BYTES - self.staged)
            if count > 0:
                self.staged += <size_t>count
                self.begin_frame()
        if count < 0:
            self.is_broken = True
        return count > 0

    cdef long read_expected(self) except -2:
        """Read an answer to where it stays, if it is as long as the last one; else it is moved."""
        cdef size_t length, come
        cdef long count
        self.make_frame(self.expected)
        count = ks_receive_framed(self.fd, self.staging, FRAME_LENGTH_BYTES, self.frame_at, self.frame_bytes)
        come = <size_t>count - FRAME_LENGTH_BYTES if count >= FRAME_LENGTH_BYTES else 0
        length = length_in(<unsigned char *>self.staging) if come or count == FRAME_LENGTH_BYTES else 0
        if count < FRAME_LENGTH_BYTES:
            self.frame, self.staged = None, <size_t>max(count, 0)
        elif not self.is_sound(length, come):
            # What came has to be seen by whoever finds out why; of more than is staged the beginning is enough.
            self.staged = min(<size_t>count, <size_t>DIRECT_STAGING_BYTES)
            memcpy(self.staging + FRAME_LENGTH_BYTES, self.frame_at, self.staged - FRAME_LENGTH_BYTES)
            self.frame, self.is_broken = None, True
        elif length == self.expected:
            self.came(come)
        else:
            before, at = self.frame, self.frame_at
            self.make_frame(length)
            memcpy(self.frame_at, at, come)
            self.came(come)
        return count

    cdef int begin_frame(self) except -1:
        """Once the length is there: move what there is to where the answer will be as a whole."""
        cdef size_t length, come
        if self.staged < FRAME_LENGTH_BYTES:
            return 0
        length, come = length_in(<unsigned char *>self.staging), self.staged - FRAME_LENGTH_BYTES
        if not self.is_sound(length, come):
            self.is_broken = True
            return 0
        self.make_frame(length)
        memcpy(self.frame_at, self.staging + FRAME_LENGTH_BYTES, come)
        self.staged = 0
        self.came(come)
        return 0

    cdef inline bint is_sound(self, size_t length, size_t come) noexcept:
        return 0 < length <= MOST_DIRECT_BYTES and come <= length and self.awaits

    cdef int make_frame(self, size_t length) except -1:
        """Where an answer is to stand. Large ones are in memory that is used again: fresh pages cost more than to fill them."""
        if length < LARGE_FRAME_BYTES:
            self.frame = PyBytes_FromStringAndSize(NULL, <Py_ssize_t>length)
            self.frame_at = PyBytes_AS_STRING(self.frame)
        else:
            self.frame = Slab(<Py_ssize_t>length)
            self.frame_at = (<Slab>self.frame).memory
        self.frame_bytes, self.filled = length, 0
        return 0

    cdef int came(self, size_t count) except -1:
        self.filled += count
        if self.filled == self.frame_bytes:
            self.answer, self.frame, self.expected = self.frame, None, self.frame_bytes
        return 0


cdef inline size_t length_in(const unsigned char *p) noexcept:
    return (<size_t>p[0] << 24) | (<size_t>p[1] << 16) | (<size_t>p[2] << 8) | <size_t>p[3]


cdef enum:
    LONGEST_WAIT_MS = 10_000  # what poll(2) takes is an int, and no session is lent for so long


@cython.final
cdef class Ear:
    """Waits for sockets, and for a bell that any thread may ring. Takes over the two ends of a pair of sockets."""

    cdef int bell_fd, hearing_fd
    cdef bint is_listening, has_rung

    def __cinit__(self, int bell_fd, int hearing_fd):
        self.bell_fd, self.hearing_fd = bell_fd, hearing_fd

    def __dealloc__(self):
        self.close()

    def ring(self):
        """Any thread may call it."""
        if self.is_listening and not self.has_rung:
            self.has_rung = True
            ks_send(self.bell_fd, b"\0", 1)

    def wait(self, list lines, timeout_ms, has_news):
        """Until one of the `DirectLine`s has its answer, or will have none, the bell rings, or `has_news` says so.

        `has_news` is a callable, or `PlainCalls`. What a signal handler raises passes through.
        """
        cdef int64_t left_ms = min(timeout_ms, LONGEST_WAIT_MS)
        cdef int64_t ends_at_ms = ks_now_ms() + left_ms
        cdef bint is_over = False
        # Listen first, look second: whoever has news after that rings.
        self.is_listening = True
        try:
            for one in lines:
                is_over = is_over or (<DirectLine?>one).has_come  # beside the answer that the last poll has taken
            while not (is_over or self.has_rung):
                if (<PlainCalls>has_news).has_news() if type(has_news) is PlainCalls else has_news():
                    break
                is_over = self.hear(lines, <int>left_ms) or left_ms <= 0
                if not is_over:  # a large answer comes in many pieces
                    left_ms = max(<int64_t>0, ends_at_ms - ks_now_ms())
        finally:
            self.is_listening = False
            if self.has_rung:
                ks_drain(self.hearing_fd)
                self.has_rung = False

    cdef bint hear(self, list lines, int timeout_ms) except -1:
        """Whether one has its answer now, or will have none; may end early."""
        cdef bint has_come = False
        cdef ks_waited waited[KS_MOST_WAITED]
        cdef DirectLine line
        cdef int count = 1, result
        assert len(lines) < KS_MOST_WAITED, "too many lines"
        waited[0].fd, waited[0].wants_to_write = self.hearing_fd, 0
        for one in lines:
            line = one
            waited[count].fd = line.fd
            waited[count].wants_to_write = line.sent < <size_t>PyBytes_GET_SIZE(line.sending)
            count += 1
        with nogil:
            result = ks_wait(waited, count, timeout_ms)
        if result < 0:
            PyErr_CheckSignals()
        for one in lines:
            if (<DirectLine>one).receive():
                has_come = True
        return has_come

    def close(self):
        for fd in (self.bell_fd, self.hearing_fd):
            if fd >= 0:
                ks_close(fd)
        self.bell_fd = self.hearing_fd = -1


cdef class _Answer:
    """A place in an answer that is read; every step beyond its end makes `is_odd` true."""

    cdef const uint8_t *p
    cdef size_t at, end
    cdef bint is_odd
    cdef Py_buffer view

    cdef int look_at(self, frame) except -1:
        """A `bytes`, or a `Slab`; it stays there as long as it is looked at."""
        PyObject_GetBuffer(frame, &self.view, PyBUF_SIMPLE)
        self.p, self.end = <const uint8_t *>self.view.buf, <size_t>self.view.len
        return 0

    def __dealloc__(self):
        if self.p != NULL:
            PyBuffer_Release(&self.view)

    cdef int64_t number(self, int size) noexcept:
        cdef uint64_t value = 0
        cdef int i
        if self.end - self.at < <size_t>size:
            self.is_odd, self.at = True, self.end
            return 0
        for i in range(size):
            value = (value << 8) | self.p[self.at + i]
        self.at += size
        if size < 8 and value >> (8 * size - 1):
            value |= ~<uint64_t>0 << (8 * size)
        return <int64_t>value

    cdef size_t length(self) noexcept:
        """Of a compact array or bytes; null is odd."""
        cdef uint64_t value = 0
        cdef int shift
        for shift in range(0, 35, 7):
            if self.at >= self.end:
                break
            byte = self.p[self.at]
            self.at += 1
            value |= <uint64_t>(byte & 0x7F) << shift
            if not byte & 0x80:
                if value == 0 or value - 1 > <uint64_t>(self.end - self.at):
                    break
                return <size_t>(value - 1)
        self.is_odd, self.at = True, self.end
        return 0

    cdef void nothing(self, int size) noexcept:
        """Bytes that are 0 in an answer in which all is well."""
        cdef int i
        for i in range(size):
            if self.at >= self.end or self.p[self.at]:
                self.is_odd, self.at = True, self.end
                return
            self.at += 1


def read_plain_fetch(frame, int correlation_id, dict places, int64_t most_offsets, type range_type,
                     type part_type):
    """The answer to a ShareFetch (versions 1 and 2) if all is well in it and it says nothing beside its records.

    Returns the lock time in milliseconds; for each partition with acquired records a `part_type(where, locks, records,
    ranges)`, the ranges `range_type(first, last, delivery count)`; topic and number of every partition that is named;
    how many records were acquired, and the bytes of their partitions. `places` has what was asked for: topic id (bytes)
    and number -> where and locks.

    None for an answer with an error, a throttle time, leaders, tags, or one that makes no sense: the general codec
    reads it. So it does if a partition was not asked for, or named twice, if ranges are out of order, share an offset,
    have more than `most_offsets` in all, or a delivery count below 1 or at the limit of the group.
    """
    cdef _Answer answer = _Answer.__new__(_Answer)
    cdef size_t topics, partitions, ranges, size, start
    cdef int64_t first, last, count, before, left, limit, records = 0, record_bytes = 0
    cdef PyObject *place
    answer.look_at(frame)
    if answer.number(4) != correlation_id:
        return None
    answer.nothing(8)  # tags of the header, throttle time, error, its text
    lock_ms = answer.number(4)
    whole = memoryview(frame).toreadonly()
    parts, named = [], set()
    topics = answer.length()
    while topics and not answer.is_odd:
        topics -= 1
        start = answer.at
        answer.number(8)
        answer.number(8)
        topic_id = PyBytes_FromStringAndSize(<const char *>answer.p + start, <Py_ssize_t>(answer.at - start))
        partitions = answer.length()
        while partitions and not answer.is_odd:
            partitions -= 1
            place = PyDict_GetItem(places, (topic_id, answer.number(4)))
            if place == NULL:
                return None
            where, locks = <object>place
            name = where[1:]
            if name in named:
                return None
            named.add(name)
            answer.nothing(6)  # error, its text, error of the acknowledgements, its text
            answer.number(8)  # leader and epoch, which mean something with an error only
            answer.nothing(1)
            size = answer.length()
            start = answer.at
            if answer.is_odd:
                return None
            answer.at += size
            ranges = answer.length()
            acquired, before, left = [], -1, most_offsets
            if ranges:
                known_limit = locks.delivery_limit.value
                limit = MOST_DELIVERIES if known_limit is None else known_limit
            while ranges and not answer.is_odd:
                ranges -= 1
                first, last, count = answer.number(8), answer.number(8), answer.number(2)
                answer.nothing(1)
                if not (before < first <= last and last - first < left and 1 <= count < limit):
                    return None
                before, left = last, left - (last - first + 1)
                acquired.append(tuple.__new__(range_type, (first, last, count)))
            answer.nothing(1)
            if acquired:
                parts.append(tuple.__new__(part_type, (where, locks, whole[start:start + size], tuple(acquired))))
                records += most_offsets - left
                record_bytes += <int64_t>size
        answer.nothing(1)
    if answer.is_odd or answer.end - answer.at != 2 or answer.number(2) != 0x100:
        return None
    return lock_ms, parts, named, records, record_bytes


def read_plain_acknowledge(frame, int correlation_id, int version):
    """The answer to a ShareAcknowledge of this version (1 or 2) if all is well in it, as `read_plain_fetch` has it.

    Returns the lock time in milliseconds, 0 before version 2, and the topic id and number of each partition.
    """
    cdef _Answer answer = _Answer.__new__(_Answer)
    cdef size_t topics, partitions, start
    answer.look_at(frame)
    if answer.number(4) != correlation_id:
        return None
    answer.nothing(8)  # tags of the header, throttle time, error, its text
    lock_ms = answer.number(4) if version > 1 else 0
    found = []
    topics = answer.length()
    while topics and not answer.is_odd:
        topics -= 1
        start = answer.at
        answer.number(8)
        answer.number(8)
        topic_id = PyBytes_FromStringAndSize(<const char *>answer.p + start, <Py_ssize_t>(answer.at - start))
        partitions = answer.length()
        while partitions and not answer.is_odd:
            partitions -= 1
            found.append((topic_id, answer.number(4)))
            answer.nothing(3)  # error, its text
            answer.number(8)  # leader and epoch, which mean something with an error only
            answer.nothing(2)
        answer.nothing(1)
    if answer.is_odd or answer.end - answer.at != 2 or answer.number(2) != 0x100:
        return None
    return lock_ms, found
