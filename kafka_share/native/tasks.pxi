# Whether a task is inside of an asyncio consumer. Part of `_compiled.pyx`; the twin is in `pure_tasks`.

ctypedef object (*c_function)(PyObject *, PyObject *)

cdef extern from "Python.h":
    bint PyCFunction_CheckExact(object)
    int PyCFunction_GET_FLAGS(object)
    c_function PyCFunction_GET_FUNCTION(object)
    PyObject *PyCFunction_GET_SELF(object)
    int METH_NOARGS


cdef c_function in_c(function):
    """What a call of this without arguments comes to, if that is a plain function in C, as those of locks are."""
    if PyCFunction_CheckExact(function) and PyCFunction_GET_FLAGS(function) == METH_NOARGS:
        return PyCFunction_GET_FUNCTION(function)
    return NULL


cdef inline object result_of(function, c_function known):
    return function() if known == NULL else known(PyCFunction_GET_SELF(function), NULL)


cdef class OneTask:
    """See `pure_tasks.OneTask`."""

    cdef public object inside
    cdef public bint is_wanted
    cdef object this_thread, thread
    cdef c_function this_thread_in_c

    def __init__(self, this_thread):
        self.this_thread, self.this_thread_in_c = this_thread, in_c(this_thread)

    def belong_to_this_thread(self):
        self.thread = self.this_thread()

    def is_elsewhere(self):
        return self.thread is not None and self.thread != self.this_thread()

    def is_busy_here(self):
        if self.inside is not None or self.is_wanted or self.thread is None:
            return True
        return self.thread != result_of(self.this_thread, self.this_thread_in_c)
