# cython: language_level=3, freethreading_compatible=True, binding=False, embedsignature=True
"""The compiled half of `kafka_share.native`: the same names as `kafka_share.native._pure`, at a fraction of the time.

`kafka_share.native` imports it where it was built. C that needs no Python is in the headers beside it. Bounds are
checked, except in functions that say why they need not be.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport uint32_t


cdef extern from "crc32c.h" nogil:
    const char *ks_crc32c_begin()
    uint32_t ks_crc32c(const unsigned char *data, size_t length)
    uint32_t ks_crc32c_by_table(const unsigned char *data, size_t length)


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
