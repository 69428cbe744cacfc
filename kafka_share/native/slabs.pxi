# Memory to decompress into. Part of `_compiled.pyx`; where nothing is compiled a bytearray does it.

cdef extern from "kept_memory.h":
    char *ks_take(size_t bytes)
    void ks_give(char *memory)


@cython.final
@cython.no_gc
cdef class Slab:
    """A buffer of `size` bytes (1 or more), in which anything may stand. It is used again when nothing refers to it any more.

    Raises ValueError and MemoryError.
    """

    cdef char *memory
    cdef Py_ssize_t size

    def __cinit__(self, Py_ssize_t size):
        if size < 1:
            raise ValueError("a slab has one byte at least")
        self.memory, self.size = ks_take(<size_t>size), size
        if self.memory == NULL:
            raise MemoryError

    def __dealloc__(self):
        ks_give(self.memory)

    def __len__(self):
        return self.size

    def __getbuffer__(self, Py_buffer *buffer, int flags):
        PyBuffer_FillInfo(buffer, self, self.memory, self.size, 0, flags)
