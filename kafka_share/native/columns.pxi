# Many records at once: their columns, and where they stand. Part of `_compiled.pyx`; the twins are in `_pure`.

ctypedef struct place_in_block:
    PyObject *block
    Py_ssize_t index


@cython.final
cdef class Places:
    """Where each of many records stands, without an object for any of them. `runs`: lists of records, and `RecordRun`s."""

    cdef list runs  # keeps the blocks alive
    cdef place_in_block *places
    cdef Py_ssize_t count
    cdef bint has_own

    def __cinit__(self, list runs):
        cdef Py_ssize_t at, filled = 0
        cdef RecordRun run
        cdef ShareRecord record
        self.runs = runs
        self.count = sum(map(len, runs))
        self.places = <place_in_block *>PyMem_Malloc(max(self.count, 1) * sizeof(place_in_block))
        if self.places == NULL:
            raise MemoryError()
        for one in runs:
            if isinstance(one, RecordRun):
                run = one
                for at in range(run.start, run.stop):
                    self.places[filled].block, self.places[filled].index = <PyObject *>run.block, at
                    filled += 1
                continue
            for item in <list?>one:
                record = item
                assert filled < self.count, "a list has grown"
                self.has_own = self.has_own or isinstance(record, OwnRecord)
                self.places[filled].block, self.places[filled].index = <PyObject *>record.block, record.index
                filled += 1
        self.count = filled

    def __dealloc__(self):
        PyMem_Free(self.places)

    cdef inline RecordBlock block(self, Py_ssize_t at):
        return <RecordBlock>self.places[at].block

    cdef inline ks_record *record(self, Py_ssize_t at) noexcept:
        return &(<RecordBlock>self.places[at].block).records[self.places[at].index]


def listed(list runs):
    """All records of these, as one list."""
    if len(runs) == 1:
        return (<RecordRun>runs[0]).listed() if isinstance(runs[0], RecordRun) else runs[0]
    return list(chain.from_iterable(runs))


def columns(list runs, bint views):
    """What Arrow wants to know of records, as buffers in its layout; None if a key or value was deserialized.

    The topics, and which of them each record has (int32), offset, timestamp (int64), partition, delivery_count (int32),
    then for key and value each: validity (bits; None: there is no null), ends (int32, one more than there are records),
    bytes. With `views` instead: validity, views (16 bytes each), and the objects whose bytes they refer to (list), which
    are not copied. None for a column of nulls. At last whether any record has headers.
    """
    cdef Filling filling = Filling(sum(map(len, runs)), views)
    cdef RecordRun run
    cdef ShareRecord record
    if not views and not filling.measure(runs):
        return None
    for one in runs:
        if isinstance(one, RecordRun):
            run = one
            if not filling.add(run.block, run.start, run.stop):
                return None
            continue
        for item in <list?>one:
            record = item
            if isinstance(record, OwnRecord) or not filling.add(record.block, record.index, record.index + 1):
                return None
    assert filling.filled == filling.count, "a list has changed"
    return filling.finished()


ctypedef struct payload_cells:
    # Where the next key or value goes. `valid` is NULL as long as there is no null, the others until one is no null.
    uint8_t *valid
    uint8_t *views
    int32_t *ends
    uint8_t *data
    int32_t bytes_filled


@cython.final
cdef class Filling:
    """Columns that are filled, one record after the other."""

    cdef Py_ssize_t count, filled
    cdef bint views, has_headers
    cdef bytes offsets, timestamps, partitions, deliveries, chosen
    cdef dict topics
    cdef list sources
    cdef RecordBlock block  # of the last record, the payload that it stands in, and where that begins
    cdef Py_ssize_t payload
    cdef const uint8_t *base
    cdef int32_t topic
    cdef int64_t key_bytes, value_bytes
    cdef list key_buffers, value_buffers  # validity; ends or views; bytes
    cdef payload_cells key, value

    def __cinit__(self, Py_ssize_t count, bint views):
        self.count, self.views = count, views
        self.offsets = PyBytes_FromStringAndSize(NULL, count * 8)
        self.timestamps = PyBytes_FromStringAndSize(NULL, count * 8)
        self.partitions = PyBytes_FromStringAndSize(NULL, count * 4)
        self.deliveries = PyBytes_FromStringAndSize(NULL, count * 4)
        self.chosen = PyBytes_FromStringAndSize(NULL, count * 4)
        self.topics, self.sources = {}, []
        self.key_buffers, self.value_buffers = [None, None, None], [None, None, None]

    cdef bint measure(self, list runs) except -1:
        """Before payloads are copied: how much that will be. Returns whether Arrow can take it."""
        cdef Places places = Places(runs)
        cdef Py_ssize_t at
        cdef ks_record *record
        if places.has_own:
            return False
        for at in range(places.count):
            record = places.record(at)
            self.key_bytes += max(0, record.key_bytes)
            self.value_bytes += max(0, record.value_bytes)
        return max(self.key_bytes, self.value_bytes) <= MAX_SOURCE_BYTES

    cdef bint add(self, RecordBlock block, Py_ssize_t start, Py_ssize_t stop) except -1:
        """Add records of a block. Returns whether Arrow can refer to its bytes."""
        cdef int64_t *offset = <int64_t *>PyBytes_AS_STRING(self.offsets)
        cdef int64_t *timestamp = <int64_t *>PyBytes_AS_STRING(self.timestamps)
        cdef int32_t *partition = <int32_t *>PyBytes_AS_STRING(self.partitions)
        cdef int32_t *delivery = <int32_t *>PyBytes_AS_STRING(self.deliveries)
        cdef int32_t *topic = <int32_t *>PyBytes_AS_STRING(self.chosen)
        cdef int32_t number = block.partition
        cdef Py_ssize_t at, row = self.filled
        cdef ks_record *record
        cdef batch_facts *batch
        assert stop - start <= self.count - row, "a list has grown"
        if block is not self.block:
            if block.buffer.len > MAX_SOURCE_BYTES:
                return False
            self.topic = self.topics.setdefault(block.topic, len(self.topics))
        for at in range(start, stop):
            record = &block.records[at]
            batch = &block.batches[record.batch]
            if block is not self.block or batch.payload != self.payload:
                self.refer_to(block, batch)
            offset[row], timestamp[row], delivery[row] = record.offset, record.timestamp, record.delivery_count
            partition[row], topic[row] = number, self.topic
            self.has_headers |= record.end - record.headers_at != 1  # one byte says that there are none
            if record.key_bytes >= 0 or self.key_buffers[1] is not None:
                self.put(&self.key, self.key_buffers, row, batch.data + record.key_at, record.key_bytes, self.key_bytes)
            if record.value_bytes >= 0 or self.value_buffers[1] is not None:
                self.put(
                    &self.value, self.value_buffers, row, batch.data + record.value_at, record.value_bytes,
                    self.value_bytes,
                )
            row += 1
        self.filled = row
        return True

    cdef int refer_to(self, RecordBlock block, const batch_facts *batch) except -1:
        self.block, self.payload = block, batch.payload
        self.base = <const uint8_t *>block.buffer.buf if batch.payload < 0 else batch.data
        if self.views:
            self.sources.append(block.data if batch.payload < 0 else block.payloads[batch.payload])
        return 0

    cdef inline int put(
        self, payload_cells *cells, list buffers, Py_ssize_t row, const uint8_t *content, int32_t size, int64_t all_bytes
    ) except -1:
        """A key or value, the first of which that is no null makes the column.

        A view has the length, then either the bytes, up to 12, or four of them, the number of what it refers to, and a
        position in there (Arrow's Variable-size Binary View).
        """
        cdef uint8_t *view
        cdef int32_t place[3]
        if cells.views == NULL and cells.ends == NULL:
            self.begin(cells, buffers, row, all_bytes)
        if size < 0:
            self.note_null(cells, buffers, row)
            size = 0
        if not self.views:
            memcpy(cells.data + cells.bytes_filled, content, size)
            cells.bytes_filled += size
            cells.ends[row + 1] = cells.bytes_filled
            return 0
        view = cells.views + row * VIEW_BYTES
        place[0] = size
        if size > SHORT_VIEW_BYTES:
            place[1], place[2] = <int32_t>(len(self.sources) - 1), <int32_t>(content - self.base)
            memcpy(view, place, 4)
            memcpy(view + 4, content, 4)
            memcpy(view + 8, &place[1], 8)
        else:
            memset(view, 0, VIEW_BYTES)
            memcpy(view, place, 4)
            memcpy(view + 4, content, size)
        return 0

    cdef int begin(self, payload_cells *cells, list buffers, Py_ssize_t nulls, int64_t all_bytes) except -1:
        """The buffers of a column that begins with this many nulls."""
        cdef Py_ssize_t row
        if self.views:
            views = PyBytes_FromStringAndSize(NULL, self.count * VIEW_BYTES)
            buffers[1], cells.views = views, <uint8_t *>PyBytes_AS_STRING(views)
            memset(cells.views, 0, nulls * VIEW_BYTES)
        else:
            ends, data = PyBytes_FromStringAndSize(NULL, (self.count + 1) * 4), PyBytes_FromStringAndSize(NULL, all_bytes)
            buffers[1], cells.ends = ends, <int32_t *>PyBytes_AS_STRING(ends)
            buffers[2], cells.data = data, <uint8_t *>PyBytes_AS_STRING(data)
            memset(cells.ends, 0, (nulls + 1) * 4)
        for row in range(nulls):
            self.note_null(cells, buffers, row)
        return 0

    cdef int note_null(self, payload_cells *cells, list buffers, Py_ssize_t row) except -1:
        cdef Py_ssize_t size = (self.count + 7) // 8
        if cells.valid == NULL:
            validity = PyBytes_FromStringAndSize(NULL, size)
            buffers[0], cells.valid = validity, <uint8_t *>PyBytes_AS_STRING(validity)
            memset(cells.valid, 0xFF, size)
        cells.valid[row >> 3] &= <uint8_t>~(1 << (row & 7))
        return 0

    cdef object payloads(self, list buffers):
        validity, places, data = buffers
        return None if places is None else (validity, places, self.sources if self.views else data)

    cdef tuple finished(self):
        return (
            list(self.topics), self.chosen, self.offsets, self.timestamps, self.partitions, self.deliveries,
            self.payloads(self.key_buffers), self.payloads(self.value_buffers), self.has_headers,
        )


cdef extern from "arrow_export.h":
    struct ArrowArray:
        int64_t null_count
        ArrowArray **children
        ArrowArray *dictionary
        void (*release)(ArrowArray *)
    ctypedef struct ks_export:
        pass
    enum:
        KS_ZEROED_BYTES
    int64_t *ks_zeroed
    ks_export *ks_begin_export(PyObject *owner, int views)
    ArrowArray *ks_add_node(ks_export *made, int64_t length, int64_t nulls, int children)
    void ks_add_buffer(ks_export *made, ArrowArray *array, const void *bytes)
    void ks_end_export(ks_export *made, ArrowArray *columns, ArrowArray *root)

cdef enum:
    EXPORTED_COLUMNS = 8
    MOST_EXPORTED_VIEWS = 1000


@cython.final
cdef class Export:
    """Columns for a reader of Arrow's C data interface, which takes them from `address`, once.

    The columns are those of `ShareRecords.to_arrow`, without headers in any record. Made by `exported`.
    """

    cdef ArrowArray root

    @property
    def address(self):
        return <size_t>&self.root

    def __dealloc__(self):
        if self.root.release != NULL:
            self.root.release(&self.root)


@cython.final
cdef class Bytes:
    """Bytes that stay where they are as long as this."""

    cdef list kept
    cdef Py_buffer *views
    cdef Py_ssize_t count

    def __cinit__(self, Py_ssize_t room):
        self.kept = []
        self.views = <Py_buffer *>PyMem_Malloc(max(room, 1) * sizeof(Py_buffer))
        if self.views == NULL:
            raise MemoryError()

    def __dealloc__(self):
        for at in range(self.count):
            PyBuffer_Release(&self.views[at])
        PyMem_Free(self.views)

    cdef const void *of(self, bytes one):
        """Of what is no view."""
        self.kept.append(one)
        return PyBytes_AS_STRING(one)

    cdef const void *of_view(self, one) except NULL:
        PyObject_GetBuffer(one, &self.views[self.count], PyBUF_SIMPLE)
        self.count += 1
        return self.views[self.count - 1].buf

    cdef int64_t length(self, Py_ssize_t at) noexcept:
        return self.views[at].len


def exported(list runs, bint views):
    """The columns of records as an `Export`; None if there are headers, or a key or value was deserialized."""
    cdef tuple found = columns(runs, views)
    cdef Export export
    cdef Bytes owner
    cdef ks_export *made
    cdef ArrowArray *all_of_them
    cdef int64_t count
    cdef Py_ssize_t sources = 0
    if found is None:
        return None
    topics, chosen, offsets, timestamps, partitions, deliveries, keys, values, has_headers = found
    if views:
        sources = sum([len(column[2]) for column in (keys, values) if column is not None])
    if has_headers or sources > MOST_EXPORTED_VIEWS:
        return None
    count = len(offsets) // 8
    owner, export = Bytes(sources), Export.__new__(Export)
    made = ks_begin_export(<PyObject *>owner, <int>sources)
    if made == NULL:
        raise MemoryError()
    all_of_them = ks_add_node(made, count, 0, EXPORTED_COLUMNS)
    ks_add_buffer(made, all_of_them, NULL)
    ks_end_export(made, all_of_them, &export.root)  # from here on it goes with the export, whatever happens
    all_of_them.children[0] = fixed_column(made, owner, count, chosen)
    all_of_them.children[0].dictionary = names_column(made, owner, topics)
    all_of_them.children[1] = fixed_column(made, owner, count, partitions)
    all_of_them.children[2] = fixed_column(made, owner, count, offsets)
    all_of_them.children[3] = fixed_column(made, owner, count, timestamps)
    all_of_them.children[4] = payload_column(made, owner, count, keys, views)
    all_of_them.children[5] = payload_column(made, owner, count, values, views)
    all_of_them.children[6] = no_headers(made, owner, count)
    all_of_them.children[7] = fixed_column(made, owner, count, deliveries)
    return export


cdef ArrowArray *fixed_column(ks_export *made, Bytes owner, int64_t count, bytes numbers) except NULL:
    cdef ArrowArray *column = ks_add_node(made, count, 0, 0)
    ks_add_buffer(made, column, NULL)
    ks_add_buffer(made, column, owner.of(numbers))
    return column


cdef ArrowArray *names_column(ks_export *made, Bytes owner, list names) except NULL:
    cdef ArrowArray *column = ks_add_node(made, len(names), 0, 0)
    cdef list encoded = [(<str>name).encode() for name in names]
    cdef bytes ends = PyBytes_FromStringAndSize(NULL, (len(encoded) + 1) * 4)
    cdef int32_t *end = <int32_t *>PyBytes_AS_STRING(ends)
    cdef Py_ssize_t at
    end[0] = 0
    for at in range(len(encoded)):
        end[at + 1] = end[at] + <int32_t>len(<bytes>encoded[at])
    ks_add_buffer(made, column, NULL)
    ks_add_buffer(made, column, owner.of(ends))
    ks_add_buffer(made, column, owner.of(encoded[0] if len(encoded) == 1 else b"".join(encoded)))
    return column


cdef const void *zeros(Bytes owner, int64_t size) except NULL:
    """Bytes that are 0: the same for all columns, if they are few enough."""
    return <const void *>ks_zeroed if size <= KS_ZEROED_BYTES else owner.of(bytes(size))


cdef ArrowArray *payload_column(ks_export *made, Bytes owner, int64_t count, tuple parts, bint views) except NULL:
    """Keys or values; of those that are null here and there, Arrow counts them when somebody asks."""
    cdef ArrowArray *column
    cdef bytes lengths
    cdef Py_ssize_t at
    if parts is None:
        column = ks_add_node(made, count, count, 0)
        ks_add_buffer(made, column, zeros(owner, (count + 7) // 8))
        ks_add_buffer(made, column, zeros(owner, count * VIEW_BYTES if views else (count + 1) * 4))
        ks_add_buffer(made, column, ks_zeroed)  # the bytes, or the sizes of what views refer to: none
        return column
    column = ks_add_node(made, count, 0 if parts[0] is None else -1, 0)
    ks_add_buffer(made, column, NULL if parts[0] is None else owner.of(parts[0]))
    ks_add_buffer(made, column, owner.of(parts[1]))
    if not views:
        ks_add_buffer(made, column, owner.of(parts[2]))
        return column
    lengths = PyBytes_FromStringAndSize(NULL, len(parts[2]) * 8)
    for at in range(len(parts[2])):
        ks_add_buffer(made, column, owner.of_view(parts[2][at]))
        (<int64_t *>PyBytes_AS_STRING(lengths))[at] = owner.length(owner.count - 1)
    ks_add_buffer(made, column, owner.of(lengths))
    return column


cdef ArrowArray *no_headers(ks_export *made, Bytes owner, int64_t count) except NULL:
    """An empty list for each record."""
    cdef ArrowArray *lists = ks_add_node(made, count, 0, 1)
    cdef ArrowArray *headers
    ks_add_buffer(made, lists, NULL)
    ks_add_buffer(made, lists, zeros(owner, (count + 1) * 4))
    headers = lists.children[0] = ks_add_node(made, 0, 0, 2)
    ks_add_buffer(made, headers, NULL)
    for at in range(2):  # name and value
        headers.children[at] = ks_add_node(made, 0, 0, 0)
        ks_add_buffer(made, headers.children[at], NULL)
        ks_add_buffer(made, headers.children[at], ks_zeroed)
        ks_add_buffer(made, headers.children[at], ks_zeroed)
    return lists


def unpacked(bits, Py_ssize_t start, Py_ssize_t count):
    """A byte, 0 or 1, for each of `count` bits from one on, as Arrow packs masks. Raises ValueError beyond the last."""
    cdef Py_buffer view
    cdef Py_ssize_t at
    cdef bytes found
    cdef uint8_t *out
    PyObject_GetBuffer(bits, &view, PyBUF_SIMPLE)
    try:
        if start < 0 or count < 0 or start > view.len * 8 - count:
            raise ValueError("there are fewer bits")
        found = PyBytes_FromStringAndSize(NULL, count)
        out = <uint8_t *>PyBytes_AS_STRING(found)
        for at in range(count):
            out[at] = (<const uint8_t *>view.buf)[(start + at) >> 3] >> ((start + at) & 7) & 1
        return found
    finally:
        PyBuffer_Release(&view)


def places(list runs, mask):
    """Where records stand, for `Ledger.acknowledge_each`: (lock, topic, partition, offsets) of neighbours in one block.

    `mask`: bytes, one for each record, not 0 for those that are meant; None: all.
    """
    cdef Places records = Places(runs)
    cdef Py_ssize_t start = 0, stop
    cdef const uint8_t *chosen = NULL
    cdef RecordBlock block
    cdef list found = []
    if mask is not None:
        assert len(<bytes>mask) == records.count, "a mask has one byte for each record"
        chosen = <const uint8_t *>PyBytes_AS_STRING(mask)
    while start < records.count:
        stop = start + 1
        while stop < records.count and records.places[stop].block == records.places[start].block:
            stop += 1
        offsets = offsets_between(records, start, stop, chosen)
        if offsets:
            block = records.block(start)
            found.append((block.lock, block.topic, block.partition, offsets))
        start = stop
    return found


cdef object offsets_between(Places records, Py_ssize_t start, Py_ssize_t stop, const uint8_t *chosen):
    """An array of those that are meant, of records that are in one block."""
    cdef Py_ssize_t at, count = 0
    cdef bytes packed = PyBytes_FromStringAndSize(NULL, (stop - start) * 8)
    cdef int64_t *offset = <int64_t *>PyBytes_AS_STRING(packed)
    for at in range(start, stop):
        if chosen == NULL or chosen[at]:
            offset[count] = records.record(at).offset
            count += 1
    return array("q", packed[:count * 8])
