# cython: language_level=3, freethreading_compatible=True, binding=False, embedsignature=True
"""The record path, compiled: what one poll costs per record is spent here.

`RecordBlock` finds the records of a fetched partition in the bytes that the broker sent; a `ShareRecord` is a place in
such a block, and makes its key, value and headers when they are looked at. `Ledger` holds what the application has
acknowledged, one byte per record. The twin in Python, with the same tests, is `pure_record` and `pure_ledger`; where
a method says nothing here, it is described there.
"""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_FillInfo, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.dict cimport PyDict_GetItem
from cpython.list cimport PyList_GET_ITEM, PyList_GET_SIZE
from cpython.mem cimport PyMem_Free, PyMem_Malloc, PyMem_Realloc
from cpython.object cimport PyObject
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memchr, memcpy, memset

from array import array
from itertools import chain
from types import GenericAlias

from kafka_share.native import record_methods as _methods

cdef extern from "record_index.h" nogil:
    enum:
        KS_HEADER_BYTES
        KS_SMALLEST_RECORD_BYTES
        KS_COUNTED_RECORD_BYTES
        KS_CHECKED_FROM
    ctypedef struct ks_batch:
        int64_t base_offset, last_offset, base_timestamp, max_timestamp
        uint32_t crc
        int32_t leader_epoch, record_count
        short attributes
        size_t bytes
    ctypedef struct ks_record:
        int64_t offset, timestamp
        uint32_t key_at, value_at, headers_at, end
        int32_t key_bytes, value_bytes
        uint32_t batch
        int32_t delivery_count
    ctypedef struct ks_range:
        int64_t first, last
        int32_t delivery_count
    ctypedef struct ks_cursor:
        const ks_range *ranges
        size_t count, at
        int64_t expected
    int ks_read_batch(const uint8_t *p, size_t left, ks_batch *batch)
    size_t ks_read_record(const uint8_t *data, size_t at, size_t end, int64_t base_timestamp, uint64_t *offset_delta,
                          ks_record *record)
    void ks_enter_range(ks_cursor *cursor)
    int ks_next_gap(ks_cursor *cursor, int64_t offset, int64_t *first, int64_t *last)

cdef extern from "crc32c.h" nogil:
    const char *ks_crc32c_begin()
    uint32_t ks_crc32c(const unsigned char *data, size_t length)
    uint32_t ks_crc32c_by_table(const unsigned char *data, size_t length)

cdef extern from "Python.h":
    Py_ssize_t PY_SSIZE_T_MAX
    void PyType_Modified(type)
    ctypedef object (*newfunc)(type, object, PyObject *)
    ctypedef struct PyTypeObject:
        newfunc tp_new
        void *tp_vectorcall

cdef enum:
    CODEC_MASK = 0x07
    LOG_APPEND_TIME_BIT = 0x08
    CONTROL_BIT = 0x20
    MAX_SOURCE_BYTES = 0x7FFFFFFF
    VIEW_BYTES = 16
    SHORT_VIEW_BYTES = 12

cdef tuple CODEC_NAMES = ("none", "gzip", "snappy", "lz4", "zstd")
cdef int CODECS = 5



CRC32C_BY = ks_crc32c_begin().decode("ascii")


def crc32c(data, /):
    """The checksum of some bytes, an unsigned 32-bit number. Raises TypeError and BufferError like `bytes(data)`."""
    cdef Py_buffer view
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        return ks_crc32c(<const unsigned char *>view.buf, <size_t>view.len)
    finally:
        PyBuffer_Release(&view)


def crc32c_by_table(data, /):
    """The same on any processor: what `crc32c` does where there is no instruction for it, for tests of that."""
    cdef Py_buffer view
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        return ks_crc32c_by_table(<const unsigned char *>view.buf, <size_t>view.len)
    finally:
        PyBuffer_Release(&view)


include "slabs.pxi"
include "locks.pxi"
include "tasks.pxi"
include "records.pxi"
include "ledger.pxi"
include "whole.pxi"
include "columns.pxi"
include "direct.pxi"
include "plain.pxi"
