# The records of a fetched partition. Part of `_compiled.pyx`; the twin is `pure_record`.

ctypedef struct batch_facts:
    const uint8_t *data
    Py_ssize_t payload  # of the block's payloads; -1: the records stand in what the broker sent
    int32_t leader_epoch
    uint8_t timestamp_type


@cython.final
@cython.no_gc  # nothing that it refers to refers to it; and a collector that finds a memoryview in use breaks it
cdef class RecordBlock:
    """The records of one fetched partition: where each of them stands in the bytes, which stay where they were received.

    `data` is what the broker sent; it stays alive as long as a record of the block. `lock` is the records' lock,
    `timestamp_types` are the two values of `TimestampType`, `headers_type` makes the headers of a record of its bytes.
    """

    cdef object topic, partition, data, lock, headers_type
    cdef tuple timestamp_types
    cdef list payloads
    cdef Py_buffer buffer
    cdef bint has_buffer
    cdef ks_record *records
    cdef Py_ssize_t count, room
    cdef batch_facts *batches
    cdef Py_ssize_t batch_count, batch_room

    def __cinit__(self, topic, partition, data, lock, tuple timestamp_types, headers_type):
        self.topic, self.partition, self.lock = topic, partition, lock
        self.timestamp_types, self.headers_type = timestamp_types, headers_type
        self.payloads = []
        self.data = data
        if data is not None:
            PyObject_GetBuffer(data, &self.buffer, PyBUF_SIMPLE)
            self.has_buffer = True

    def __dealloc__(self):
        PyMem_Free(self.records)
        PyMem_Free(self.batches)
        if self.has_buffer:
            PyBuffer_Release(&self.buffer)

    cdef int make_room(self, Py_ssize_t more) except -1:
        cdef Py_ssize_t room
        cdef void *grown
        if self.count + more > self.room:
            room = max(self.count + more, 2 * self.room)
            grown = PyMem_Realloc(self.records, room * sizeof(ks_record))
            if grown == NULL:
                raise MemoryError()
            self.records, self.room = <ks_record *>grown, room
        if self.batch_count + 1 > self.batch_room:
            room = max(4, 2 * self.batch_room)
            grown = PyMem_Realloc(self.batches, room * sizeof(batch_facts))
            if grown == NULL:
                raise MemoryError()
            self.batches, self.batch_room = <batch_facts *>grown, room
        return 0

    def scan(self, Py_ssize_t position, acquired, bint check_crcs, Py_ssize_t max_batch_bytes, decompress,
             Py_ssize_t limit):
        """Walk over sound batches from a byte on, until all acquired ranges are done or `limit` records are found.

        Stops before what is not a whole, sound batch of format 2, and before what `decompress(codec, data, limit)`
        raises for; it returns bytes, or a view of what nobody changes any more. `acquired`: ascending (first, last,
        delivery count). Returns where it stopped, the records that it found (a `RecordRun`), the gaps (list of (first,
        last)), and the offset below which everything acquired is one of them.
        """
        cdef Py_ssize_t count = len(acquired), found = self.count
        cdef ks_range *ranges = <ks_range *>PyMem_Malloc(max(count, 1) * sizeof(ks_range))
        cdef ks_cursor cursor
        cdef ks_batch batch
        cdef list gaps = []
        if ranges == NULL:
            raise MemoryError()
        try:
            for at, (first, last, deliveries) in enumerate(acquired):
                ranges[at].first, ranges[at].last, ranges[at].delivery_count = first, last, deliveries
            cursor.ranges, cursor.count, cursor.at = ranges, count, 0
            cursor.expected = ranges[0].first if count else 0
            while cursor.at < cursor.count and self.count - found < limit:
                if not ks_read_batch(<const uint8_t *>self.buffer.buf + position, self.buffer.len - position, &batch):
                    break
                note_gaps(&cursor, batch.base_offset, gaps)
                if cursor.at < cursor.count and cursor.expected <= batch.last_offset:
                    if not self.add_batch(position, &batch, &cursor, check_crcs, max_batch_bytes, decompress, gaps):
                        break
                position += <Py_ssize_t>batch.bytes
            return position, new_run(self, found, self.count), gaps, cursor.expected
        finally:
            PyMem_Free(ranges)

    cdef bint add_batch(self, Py_ssize_t position, ks_batch *batch, ks_cursor *cursor, bint check_crcs,
                        Py_ssize_t max_batch_bytes, decompress, list gaps) except -1:
        """Index what is acquired of a batch; False, and nothing is changed, if it is not sound."""
        cdef const uint8_t *data = <const uint8_t *>self.buffer.buf + position
        cdef size_t at = KS_HEADER_BYTES, end = batch.bytes
        cdef int codec = batch.attributes & CODEC_MASK
        cdef object payload = None
        cdef Py_buffer view
        if check_crcs and ks_crc32c(data + KS_CHECKED_FROM, end - KS_CHECKED_FROM) != batch.crc:
            return False
        if batch.attributes & CONTROL_BIT:
            note_gaps(cursor, batch.last_offset + 1, gaps)
            return True
        if codec != 0:
            if codec >= CODECS:
                return False
            try:
                payload = decompress(
                    CODEC_NAMES[codec], memoryview(self.data)[position + KS_HEADER_BYTES:position + <Py_ssize_t>end],
                    max_batch_bytes
                )
            except Exception:
                return False  # whoever looks at the batch next meets it again
            PyObject_GetBuffer(payload, &view, PyBUF_SIMPLE)
            data, at, end = <const uint8_t *>view.buf, 0, <size_t>view.len
            PyBuffer_Release(&view)  # the bytes stay where they are as long as the block has what holds them
        if end > MAX_SOURCE_BYTES or batch.record_count < 0:
            return False
        if <size_t>batch.record_count > (end - at) / KS_SMALLEST_RECORD_BYTES:
            return False
        if max_batch_bytes < <Py_ssize_t>batch.record_count * KS_COUNTED_RECORD_BYTES:
            return False
        self.make_room(batch.record_count)
        if not self.index(data, at, end, batch, cursor, gaps):
            return False
        self.batches[self.batch_count].payload = -1
        if codec != 0:
            self.batches[self.batch_count].payload = len(self.payloads)
            self.payloads.append(payload)
        self.batches[self.batch_count].data = data
        self.batches[self.batch_count].leader_epoch = batch.leader_epoch
        self.batches[self.batch_count].timestamp_type = 1 if batch.attributes & LOG_APPEND_TIME_BIT else 0
        self.batch_count += 1
        return True

    cdef bint index(self, const uint8_t *data, size_t at, size_t end, ks_batch *batch, ks_cursor *cursor,
                    list gaps) except -1:
        """Put the acquired records between two bytes behind those that are known, all of them or none."""
        cdef ks_cursor here = cursor[0]
        cdef Py_ssize_t count = self.count
        cdef ks_record *record
        cdef uint64_t delta
        cdef int64_t offset, previous = -1
        cdef int64_t last_delta = batch.last_offset - batch.base_offset
        cdef list holes = []
        for _ in range(batch.record_count):
            record = &self.records[count]
            at = ks_read_record(data, at, end, batch.base_timestamp, &delta, record)
            if at == 0 or <int64_t>delta <= previous or <int64_t>delta > last_delta:
                return False
            previous = <int64_t>delta
            offset = batch.base_offset + previous
            if here.at >= here.count or offset < here.expected:
                continue
            if offset > here.expected:
                note_gaps(&here, offset, holes)
                if here.at >= here.count or offset < here.expected:
                    continue
            record.offset = offset
            record.batch = <uint32_t>self.batch_count
            record.delivery_count = here.ranges[here.at].delivery_count
            if batch.attributes & LOG_APPEND_TIME_BIT:
                record.timestamp = batch.max_timestamp
            count += 1
            if offset == here.ranges[here.at].last:
                here.at += 1
                ks_enter_range(&here)
                if here.at >= here.count:
                    here.expected = offset + 1
            else:
                here.expected = offset + 1
        if at != end:
            return False
        note_gaps(&here, batch.last_offset + 1, holes)
        cursor[0] = here
        self.count = count
        gaps += holes
        return True


@cython.final
@cython.no_gc  # it refers to its block alone, and a block to no run
cdef class RecordRun:
    """Records that stand one after the other in a block. A sequence, which makes each record when it is looked at."""

    cdef RecordBlock block
    cdef Py_ssize_t start, stop

    cdef list listed(self):
        return [new_record(self.block, index) for index in range(self.start, self.stop)]

    def __len__(self):
        return self.stop - self.start

    def __getitem__(self, index):
        cdef Py_ssize_t at
        if isinstance(index, slice):
            return self.listed()[index]
        at = index
        at += self.stop if at < 0 else self.start
        if not self.start <= at < self.stop:
            raise IndexError("there is no such record")
        return new_record(self.block, at)

    def __iter__(self):
        return iter(self.listed())


cdef RecordRun new_run(RecordBlock block, Py_ssize_t start, Py_ssize_t stop):
    cdef RecordRun run = RecordRun.__new__(RecordRun)
    run.block, run.start, run.stop = block, start, stop
    return run


cdef int note_gaps(ks_cursor *cursor, int64_t offset, list gaps) except -1:
    cdef int64_t first, last
    while ks_next_gap(cursor, offset, &first, &last):
        gaps.append((first, last))
    if cursor.at >= cursor.count and cursor.count > 0:
        cursor.expected = max(cursor.expected, cursor.ranges[cursor.count - 1].last + 1)
    return 0


cdef inline ShareRecord new_record(RecordBlock block, Py_ssize_t index):
    cdef ShareRecord record = ShareRecord.__new__(ShareRecord)
    record.block, record.index = block, index
    return record


cdef inline object cut(const uint8_t *data, uint32_t at, int32_t size):
    return None if size < 0 else PyBytes_FromStringAndSize(<const char *>data + at, size)


@cython.no_gc  # it refers to its block alone, and a block to no record
@cython.freelist(512)
cdef class ShareRecord:
    """One delivered record. It cannot be changed; two are equal if everything that Kafka stores of them is equal.

    Attributes: `topic` (str), `partition` (int), `offset` (int), `timestamp` (int, milliseconds since 1970),
    `timestamp_type` (`TimestampType`), `key` and `value` (bytes or None, or what the deserializer made of them),
    `headers` (sequence of (str, bytes or None), in the producer's order, names may repeat), `leader_epoch` (int or
    None), `delivery_count` (int, 1 for the first delivery), `error` (None, or with `deserialization_errors="mark"` why
    key or value could not be deserialized: both are then the raw bytes).

    Bytes of keys, values and headers are made anew by each look at them. A record keeps what the broker sent with it
    alive: of records that are kept for long, keep the value.

    A pickled record, as it goes to a pool of processes, knows when its lock ends and whether it was lost when it was
    pickled; what ends the lock earlier is not seen there. A record that was copied in its process has the same lock.
    """

    __match_args__ = _methods.FIELDS

    cdef RecordBlock block
    cdef Py_ssize_t index

    @property
    def topic(self):
        return self.block.topic

    @property
    def partition(self):
        return self.block.partition

    @property
    def offset(self):
        return self.block.records[self.index].offset

    @property
    def timestamp(self):
        """In milliseconds since 1970."""
        return self.block.records[self.index].timestamp

    @property
    def timestamp_type(self):
        return self.block.timestamp_types[self.block.batches[self.block.records[self.index].batch].timestamp_type]

    @property
    def key(self):
        cdef ks_record *record = &self.block.records[self.index]
        return cut(self.block.batches[record.batch].data, record.key_at, record.key_bytes)

    @property
    def value(self):
        cdef ks_record *record = &self.block.records[self.index]
        return cut(self.block.batches[record.batch].data, record.value_at, record.value_bytes)

    @property
    def headers(self):
        """A sequence of (str, bytes or None), in the producer's order; names may repeat."""
        cdef ks_record *record = &self.block.records[self.index]
        cdef const uint8_t *data = self.block.batches[record.batch].data
        if data[record.headers_at] == 0:
            return ()
        return self.block.headers_type(cut(data, record.headers_at, <int32_t>(record.end - record.headers_at)))

    @property
    def raw_key(self):
        """The key as it was received, bytes or None, whatever the deserializer made of it.

        A record that was made by hand or unpickled has it if its key is bytes or None; else this raises AttributeError.
        """
        return self.key

    @property
    def raw_value(self):
        """The value as it was received; see `raw_key`."""
        return self.value

    @property
    def leader_epoch(self):
        """Of the leader that took the record; None if that is not known."""
        cdef int32_t epoch = self.block.batches[self.block.records[self.index].batch].leader_epoch
        return None if epoch < 0 else epoch

    @property
    def delivery_count(self):
        """1 for the first delivery."""
        return self.block.records[self.index].delivery_count

    @property
    def error(self):
        """Why key or value could not be deserialized, with `deserialization_errors="mark"`."""
        return None

    @property
    def lock(self):
        """What `lock_deadline`, `lock_lost` and `lock_remaining_ms` ask; None for a record that was made by hand."""
        return self.block.lock

    @property
    def lock_deadline(self):
        """When this consumer's lock of the record ends, in seconds of `time.monotonic`; None if it has no lock.

        Counted from the moment when the request that acquired or renewed it was sent, so the broker's lock never ends
        earlier. A renewal moves it, and so does a sleep of the machine: the lock runs on, and that clock does not.
        """
        return _methods.lock_deadline(self)

    def lock_remaining_ms(self):
        """How long this consumer still has the lock: 0 if it is lost or the record has none."""
        return _methods.lock_remaining_ms(self)

    @property
    def lock_lost(self):
        """Whether the client knows of something that ended the lock, before the record's final acknowledgement.

        Its deadline has passed, the share session that acquired it has ended (the connection broke, or the consumer was
        closed), the partition has another leader, or a broker refused an acknowledgement of it. The record may be
        delivered to another member, and acknowledging it will most probably fail. False means that the client knows of
        no loss. After the final acknowledgement the value means nothing.
        """
        return _methods.lock_lost(self)

    @property
    def is_last_delivery(self):
        """Whether the record is archived, and not delivered again, if it is released or its lock is lost.

        The group's delivery count limit is looked up when the consumer joins. None if it is not known: the consumer may
        not read the configs of the group and of its broker, or the record was made by hand or unpickled.
        """
        return _methods.is_last_delivery(self)

    @classmethod
    def __class_getitem__(cls, item):
        return GenericAlias(cls, item)

    def __replace__(self, **changes):
        return _methods.replaced(ShareRecord, self, changes)

    def __reduce__(self):
        return _methods.pickled(self)

    def __dir__(self):
        return _methods.completion(self)

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return _methods.deep_copied(ShareRecord, self, memo)

    def __eq__(self, other):
        return _methods.are_equal(self, other) if isinstance(other, ShareRecord) else NotImplemented

    def __hash__(self):
        # What a deserializer made need not be hashable, and a large value would be slow.
        return hash((self.topic, self.partition, self.offset))

    def __repr__(self):
        return _methods.shown(self)


@cython.final
cdef class OwnRecord(ShareRecord):
    """A record with objects of its own: what a deserializer made, or a record that was made by hand.

    Such objects may refer to the record, so the garbage collector has to know of it.
    """

    cdef object own_key, own_value, own_headers, own_error
    cdef tuple own_raw  # of a record without bytes in its block: key and value as they were given
    cdef bint has_headers

    @property
    def key(self):
        return self.own_key

    @property
    def value(self):
        return self.own_value

    @property
    def headers(self):
        return self.own_headers if self.has_headers else ShareRecord.headers.__get__(self)

    @property
    def raw_key(self):
        return ShareRecord.key.__get__(self) if self.own_raw is None else _methods.raw(self.own_raw[0])

    @property
    def raw_value(self):
        return ShareRecord.value.__get__(self) if self.own_raw is None else _methods.raw(self.own_raw[1])

    @property
    def error(self):
        return self.own_error


def with_values(ShareRecord record, key, value, error):
    """The same record with the key and value that deserializers made, or with the error that one of them raised."""
    cdef OwnRecord own = OwnRecord.__new__(OwnRecord)
    own.block, own.index = record.block, record.index
    own.own_key, own.own_value, own.own_error = key, value, error
    if isinstance(record, OwnRecord):
        own.own_headers, own.has_headers = (<OwnRecord>record).own_headers, (<OwnRecord>record).has_headers
        own.own_raw = (<OwnRecord>record).own_raw
    return own


def _made_by_hand(topic, partition, int64_t offset, int64_t timestamp, timestamp_type, key, value, headers, leader_epoch,
                  int32_t delivery_count, error=None, lock=None):
    cdef RecordBlock block = RecordBlock(topic, partition, None, lock, (timestamp_type, timestamp_type), None)
    block.make_room(1)
    block.records[0].offset, block.records[0].timestamp = offset, timestamp
    block.records[0].batch, block.records[0].delivery_count = 0, delivery_count
    block.batches[0].data, block.batches[0].payload, block.batches[0].timestamp_type = NULL, -1, 0
    block.batches[0].leader_epoch = -1 if leader_epoch is None else leader_epoch
    block.count = block.batch_count = 1
    cdef OwnRecord own = OwnRecord.__new__(OwnRecord)
    own.block, own.index = block, 0
    own.own_key, own.own_value, own.own_error = key, value, error
    own.own_headers, own.has_headers = headers, True
    own.own_raw = (key, value)
    return own


cdef object no_run_from_python(type kind, object arguments, PyObject *named):
    raise TypeError("a RecordRun comes of a block")


cdef object new_from_python(type kind, object arguments, PyObject *named):
    """What a call of `ShareRecord` does; the compiled code makes records otherwise."""
    if kind is not ShareRecord:
        raise TypeError(f"{kind.__name__} cannot be made: ShareRecord has no subclasses")
    return _made_by_hand(*arguments, **(<dict>named if named != NULL else {}))


cdef int redirect(PyTypeObject *kind, newfunc made_by) except -1:
    """No record and no run is ever without a block."""
    kind.tp_new = made_by
    kind.tp_vectorcall = NULL
    return 0


redirect(<PyTypeObject *>ShareRecord, new_from_python)
redirect(<PyTypeObject *>OwnRecord, new_from_python)
redirect(<PyTypeObject *>RecordRun, no_run_from_python)
PyType_Modified(RecordRun)
PyType_Modified(ShareRecord)
PyType_Modified(OwnRecord)
