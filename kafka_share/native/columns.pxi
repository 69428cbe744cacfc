# Many records at once: their columns, and where they stand. Part of `_compiled.pyx`; the twins are in `_pure`.

def columns(list records, bint views):
    """What Arrow wants to know of records, as buffers in its layout; None if a key or value was deserialized.

    The topics, and which of them each record has (int32), offset, timestamp (int64), partition, delivery_count (int32),
    then for key and value each: validity (bits), ends (int32, one more than there are records), bytes. With `views`
    instead: validity, views (16 bytes each), and the objects whose bytes they refer to (list), which are not copied. At
    last whether any record has headers.
    """
    cdef Py_ssize_t count = PyList_GET_SIZE(records), at
    cdef bytes offsets = PyBytes_FromStringAndSize(NULL, count * 8)
    cdef bytes timestamps = PyBytes_FromStringAndSize(NULL, count * 8)
    cdef bytes partitions = PyBytes_FromStringAndSize(NULL, count * 4)
    cdef bytes deliveries = PyBytes_FromStringAndSize(NULL, count * 4)
    cdef int64_t *offset = <int64_t *>PyBytes_AS_STRING(offsets)
    cdef int64_t *timestamp = <int64_t *>PyBytes_AS_STRING(timestamps)
    cdef int32_t *partition = <int32_t *>PyBytes_AS_STRING(partitions)
    cdef int32_t *delivery = <int32_t *>PyBytes_AS_STRING(deliveries)
    cdef bytes chosen = PyBytes_FromStringAndSize(NULL, count * 4)
    cdef int32_t *topic = <int32_t *>PyBytes_AS_STRING(chosen)
    cdef dict topics = {}
    cdef RecordBlock block = None
    cdef int32_t number = 0, place = 0
    cdef bint has_headers = False
    cdef ShareRecord one
    cdef ks_record *record
    cdef int64_t key_bytes = 0, value_bytes = 0
    for at in range(count):
        if isinstance(<object>PyList_GET_ITEM(records, at), OwnRecord):
            return None
        one = <object>PyList_GET_ITEM(records, at)
        record = &one.block.records[one.index]
        offset[at], timestamp[at], delivery[at] = record.offset, record.timestamp, record.delivery_count
        if one.block is not block:
            block = one.block
            if block.buffer.len > MAX_SOURCE_BYTES:
                return None
            number, place = block.partition, topics.setdefault(block.topic, len(topics))
        partition[at], topic[at] = number, place
        has_headers = has_headers or block.batches[record.batch].data[record.headers_at] != 0
        key_bytes += max(0, record.key_bytes)
        value_bytes += max(0, record.value_bytes)
    if not views and max(key_bytes, value_bytes) > MAX_SOURCE_BYTES:
        return None
    keys = view_column(records, True) if views else column(records, key_bytes, True)
    values = view_column(records, False) if views else column(records, value_bytes, False)
    return list(topics), chosen, offsets, timestamps, partitions, deliveries, keys, values, has_headers


cdef tuple column(list records, int64_t size, bint is_key):
    """The validity, ends and bytes of the keys or values."""
    cdef Py_ssize_t count = PyList_GET_SIZE(records), at
    cdef bytes validity = bytes((count + 7) // 8)
    cdef bytes ends = PyBytes_FromStringAndSize(NULL, (count + 1) * 4)
    cdef bytes data = PyBytes_FromStringAndSize(NULL, size)
    cdef uint8_t *valid = <uint8_t *>PyBytes_AS_STRING(validity)
    cdef int32_t *end = <int32_t *>PyBytes_AS_STRING(ends)
    cdef uint8_t *out = <uint8_t *>PyBytes_AS_STRING(data)
    cdef ShareRecord one
    cdef ks_record *record
    cdef int32_t length, filled = 0
    end[0] = 0
    for at in range(count):
        one = <object>PyList_GET_ITEM(records, at)
        record = &one.block.records[one.index]
        length = record.key_bytes if is_key else record.value_bytes
        if length >= 0:
            valid[at >> 3] |= <uint8_t>(1 << (at & 7))
            memcpy(out + filled, one.block.batches[record.batch].data + (record.key_at if is_key else record.value_at),
                   length)
            filled += length
        end[at + 1] = filled
    return validity, ends, data


cdef tuple view_column(list records, bint is_key):
    """The validity and views of the keys or values, and what they refer to (Arrow's Variable-size Binary View).

    A view has the length, then either the bytes, up to 12, or four of them, the number of what it refers to, and a
    position in there.
    """
    cdef Py_ssize_t count = PyList_GET_SIZE(records), at
    cdef bytes validity = bytes((count + 7) // 8)
    cdef bytes views = bytes(count * VIEW_BYTES)
    cdef uint8_t *valid = <uint8_t *>PyBytes_AS_STRING(validity)
    cdef uint8_t *view = <uint8_t *>PyBytes_AS_STRING(views)
    cdef list sources = []
    cdef RecordBlock block = None
    cdef const uint8_t *base = NULL
    cdef const uint8_t *bytes_at
    cdef ShareRecord one
    cdef ks_record *record
    cdef batch_facts *batch
    cdef Py_ssize_t payload = 0
    cdef int32_t place[3]
    for at in range(count):
        one = <object>PyList_GET_ITEM(records, at)
        record = &one.block.records[one.index]
        batch = &one.block.batches[record.batch]
        if one.block is not block or batch.payload != payload:
            block, payload = one.block, batch.payload
            sources.append(block.data if payload < 0 else block.payloads[payload])
            base = <const uint8_t *>block.buffer.buf if payload < 0 else batch.data
        place[0] = record.key_bytes if is_key else record.value_bytes
        if place[0] >= 0:
            valid[at >> 3] |= <uint8_t>(1 << (at & 7))
            bytes_at = batch.data + (record.key_at if is_key else record.value_at)
            memcpy(view, place, 4)
            memcpy(view + 4, bytes_at, place[0] if place[0] <= SHORT_VIEW_BYTES else 4)
            if place[0] > SHORT_VIEW_BYTES:
                place[1], place[2] = <int32_t>(len(sources) - 1), <int32_t>(bytes_at - base)
                memcpy(view + 8, &place[1], 8)
        view += VIEW_BYTES
    return validity, views, sources


def places(list records, mask):
    """Where records stand, for `Ledger.acknowledge_each`: (lock, topic, partition, offsets) of neighbours in one block.

    `mask`: bytes, one for each record, not 0 for those that are meant; None: all.
    """
    cdef Py_ssize_t count = PyList_GET_SIZE(records), start = 0, stop
    cdef const uint8_t *chosen = NULL
    cdef RecordBlock block
    cdef list found = []
    if mask is not None:
        assert len(<bytes>mask) == count, "a mask has one byte for each record"
        chosen = <const uint8_t *>PyBytes_AS_STRING(mask)
    while start < count:
        block, stop = (<ShareRecord?><object>PyList_GET_ITEM(records, start)).block, start + 1
        while stop < count and (<ShareRecord?><object>PyList_GET_ITEM(records, stop)).block is block:
            stop += 1
        offsets = offsets_between(records, start, stop, chosen)
        if offsets:
            found.append((block.lock, block.topic, block.partition, offsets))
        start = stop
    return found


cdef object offsets_between(list records, Py_ssize_t start, Py_ssize_t stop, const uint8_t *chosen):
    """An array of those that are meant, of records that are in one block."""
    cdef Py_ssize_t at, count = 0
    cdef int64_t *offset
    cdef ShareRecord one
    cdef bytes packed = PyBytes_FromStringAndSize(NULL, (stop - start) * 8)
    offset = <int64_t *>PyBytes_AS_STRING(packed)
    for at in range(start, stop):
        if chosen == NULL or chosen[at]:
            one = <object>PyList_GET_ITEM(records, at)
            offset[count] = one.block.records[one.index].offset
            count += 1
    return array("q", packed[:count * 8])
