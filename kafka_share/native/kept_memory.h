/* Memory for what is large and lives for a poll or two: the last few pieces that were given back are given out again.

   From malloc such memory is fresh each time, or nearly: the system zeroes it, one page fault for every 4 kB, which costs as
   much as to decompress into it. Included by _compiled.pyx alone. Several threads may call it, with or without a common
   lock. At most KS_MOST_KEPT pieces of KS_LARGEST_KEPT_BYTES are kept: 8 MiB. */
#ifndef KAFKA_SHARE_KEPT_MEMORY_H
#define KAFKA_SHARE_KEPT_MEMORY_H

#include <Python.h>
#include <stddef.h>

#define KS_MOST_KEPT 4
#define KS_SMALLEST_KEPT_BYTES ((size_t)64 << 10)

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define KS_KEEPS_NOTHING
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(KS_KEEPS_NOTHING)
#define KS_LARGEST_KEPT_BYTES ((size_t)0) /* so that the sanitizer sees who uses what was given back */
#else
#define KS_LARGEST_KEPT_BYTES ((size_t)2 << 20)
#endif

/* What stands before each piece; its alignment is that of malloc. */
typedef union {
    size_t bytes;
    char alignment[16];
} ks_piece;

static void *ks_kept[KS_MOST_KEPT];
static unsigned ks_oldest; /* where the next one goes, roughly, if two threads give at once */

static ks_piece *ks_swap(unsigned at, ks_piece *piece) {
#ifdef Py_GIL_DISABLED
    return (ks_piece *)_Py_atomic_exchange_ptr(&ks_kept[at], piece);
#else
    ks_piece *before = (ks_piece *)ks_kept[at];
    ks_kept[at] = piece;
    return before;
#endif
}

static unsigned ks_next(void) {
#ifdef Py_GIL_DISABLED
    return (unsigned)_Py_atomic_add_uint(&ks_oldest, 1) % KS_MOST_KEPT;
#else
    return ks_oldest++ % KS_MOST_KEPT;
#endif
}

/* NULL if there is no memory. A kept piece is used if not much of it is left over: who keeps it long keeps all of it. */
static char *ks_take(size_t bytes) {
    if (bytes >= KS_SMALLEST_KEPT_BYTES) {
        for (unsigned at = 0; at < KS_MOST_KEPT; at++) {
            ks_piece *piece = ks_swap(at, NULL);
            if (piece == NULL) continue;
            if (piece->bytes >= bytes && piece->bytes - bytes <= bytes / 4) return (char *)(piece + 1);
            PyMem_RawFree(ks_swap(at, piece));
        }
    }
    if (bytes > (size_t)PY_SSIZE_T_MAX - sizeof(ks_piece)) return NULL;
    ks_piece *fresh = (ks_piece *)PyMem_RawMalloc(sizeof(ks_piece) + bytes);
    if (fresh == NULL) return NULL;
    fresh->bytes = bytes;
    return (char *)(fresh + 1);
}

static void ks_give(char *memory) {
    if (memory == NULL) return;
    ks_piece *piece = (ks_piece *)memory - 1;
    if (piece->bytes >= KS_SMALLEST_KEPT_BYTES && piece->bytes <= KS_LARGEST_KEPT_BYTES) piece = ks_swap(ks_next(), piece);
    PyMem_RawFree(piece);
}

#endif
