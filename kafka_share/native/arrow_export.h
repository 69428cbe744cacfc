/* Columns for whoever reads Arrow's C data interface: one struct array, whose children are the columns of a record batch.

   https://arrow.apache.org/docs/format/CDataInterface.html. All that an export has is one piece of memory, which goes when
   its reader releases the root. The bytes belong to a Python object, which goes with it. Included by _compiled.pyx alone. */
#ifndef KAFKA_SHARE_ARROW_EXPORT_H
#define KAFKA_SHARE_ARROW_EXPORT_H

#include <Python.h>
#include <stdint.h>
#include <string.h>

#ifndef ARROW_C_DATA_INTERFACE
#define ARROW_C_DATA_INTERFACE
struct ArrowArray {
    int64_t length;
    int64_t null_count;
    int64_t offset;
    int64_t n_buffers;
    int64_t n_children;
    const void **buffers;
    struct ArrowArray **children;
    struct ArrowArray *dictionary;
    void (*release)(struct ArrowArray *);
    void *private_data;
};
#endif

enum {
    KS_COLUMNS = 8,
    KS_NODES = KS_COLUMNS + 5, /* all columns, the names of topics; a header, its name and its value */
    KS_FEWEST_BUFFERS = 40,    /* those of everything but what views refer to */
    KS_ZEROED_BYTES = 1 << 15
};

/* What is 0 in every row, for up to 2,048 records: never written. */
static int64_t ks_zeroed[KS_ZEROED_BYTES / 8];

typedef struct {
    PyObject *owner; /* what all bytes belong to */
    int nodes, buffers, children;
    struct ArrowArray node[KS_NODES];
    struct ArrowArray *child[KS_COLUMNS + 3];
    const void *buffer[]; /* as many as were asked for */
} ks_export;

/* A node goes with the whole. */
static void ks_release_node(struct ArrowArray *array) { array->release = NULL; }

static void ks_release_export(struct ArrowArray *array) {
    ks_export *made = (ks_export *)array->private_data;
    array->release = NULL;
    for (int64_t i = 0; i < array->n_children; i++)
        if (array->children[i] != NULL && array->children[i]->release != NULL)
            array->children[i]->release(array->children[i]);
    if (Py_IsInitialized()) { /* else the process ends, and what belongs to nobody is no loss */
        PyGILState_STATE state = PyGILState_Ensure();
        Py_DECREF(made->owner);
        PyGILState_Release(state);
    }
    PyMem_RawFree(made);
}

/* Begins an export with `rows` rows and room for `views` buffers that views refer to. Takes `owner` over. */
static ks_export *ks_begin_export(PyObject *owner, int views) {
    size_t buffers = KS_FEWEST_BUFFERS + 2 * (size_t)views;
    ks_export *made = (ks_export *)PyMem_RawCalloc(1, sizeof(ks_export) + buffers * sizeof(void *));
    if (made == NULL) return NULL;
    Py_INCREF(owner);
    made->owner = owner;
    return made;
}

/* Adds an array; its buffers are those that are added next, its children those that it is given. */
static struct ArrowArray *ks_add_node(ks_export *made, int64_t length, int64_t nulls, int children) {
    struct ArrowArray *array = &made->node[made->nodes++];
    array->length = length;
    array->null_count = nulls;
    array->n_children = children;
    array->buffers = &made->buffer[made->buffers];
    array->children = children ? &made->child[made->children] : NULL;
    made->children += children;
    array->release = ks_release_node;
    return array;
}

static void ks_add_buffer(ks_export *made, struct ArrowArray *array, const void *bytes) {
    made->buffer[made->buffers++] = bytes;
    array->n_buffers++;
}

/* What goes to the reader: a root that owns the whole. */
static void ks_end_export(ks_export *made, struct ArrowArray *columns, struct ArrowArray *root) {
    *root = *columns;
    root->release = ks_release_export;
    root->private_data = made;
}

#endif
