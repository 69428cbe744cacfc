/* Finds the records of format-2 batches in bytes that a broker sent, without making any object.

   Included by _compiled.pyx alone. Nothing is trusted: every read is checked against the end of its batch, and what is
   not exactly as DefaultRecordBatch (KIP-98) has it makes the walk stop, so that protocol/record_batch.py looks at the
   same bytes and says what is wrong with them. Offsets in the bytes of one batch fit 32 bits, which the caller sees to. */

#ifndef KAFKA_SHARE_RECORD_INDEX_H
#define KAFKA_SHARE_RECORD_INDEX_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define KS_LENGTH_END 12
#define KS_MAGIC_AT 16
#define KS_CHECKED_FROM 21
#define KS_HEADER_BYTES 61
#define KS_SMALLEST_RECORD_BYTES 7
#define KS_COUNTED_RECORD_BYTES 128

typedef struct {
    int64_t base_offset, last_offset, base_timestamp, max_timestamp;
    uint32_t crc;
    int32_t leader_epoch, record_count;
    int16_t attributes;
    size_t bytes; /* of the whole batch */
} ks_batch;

typedef struct {
    int64_t offset, timestamp;
    uint32_t key_at, value_at, headers_at, end;
    int32_t key_bytes, value_bytes; /* -1: null */
    uint32_t batch;
    int32_t delivery_count;
} ks_record;

typedef struct {
    int64_t first, last;
    int32_t delivery_count;
} ks_range;

static inline uint32_t ks_u32(const uint8_t *p) {
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | (uint32_t)p[3];
}

static inline uint64_t ks_u64(const uint8_t *p) { return (uint64_t)ks_u32(p) << 32 | ks_u32(p + 4); }

/* Whether a whole, plausible batch of format 2 begins here. */
static inline int ks_read_batch(const uint8_t *p, size_t left, ks_batch *batch) {
    if (left < KS_HEADER_BYTES || p[KS_MAGIC_AT] != 2) return 0;
    int32_t length = (int32_t)ks_u32(p + 8), last_delta = (int32_t)ks_u32(p + 23);
    if (length < KS_HEADER_BYTES - KS_LENGTH_END || (size_t)length > left - KS_LENGTH_END) return 0;
    batch->bytes = (size_t)length + KS_LENGTH_END;
    batch->base_offset = (int64_t)ks_u64(p);
    if (batch->base_offset < 0 || last_delta < 0 || batch->base_offset > INT64_MAX - 1 - last_delta) return 0;
    batch->last_offset = batch->base_offset + last_delta;
    batch->leader_epoch = (int32_t)ks_u32(p + 12);
    batch->crc = ks_u32(p + 17);
    batch->attributes = (int16_t)((uint16_t)p[21] << 8 | p[22]);
    batch->base_timestamp = (int64_t)ks_u64(p + 27);
    batch->max_timestamp = (int64_t)ks_u64(p + 35);
    batch->record_count = (int32_t)ks_u32(p + 57);
    return 1;
}

/* An unsigned number of seven bits a byte, at most `maximum`. Returns the position behind it, or 0. */
static inline size_t ks_varint(const uint8_t *data, size_t at, size_t end, uint64_t maximum, uint64_t *value) {
    uint64_t result = 0;
    for (int shift = 0; shift < 70; shift += 7) {
        if (at >= end) return 0;
        uint8_t byte = data[at++];
        if (shift == 63 && byte > 1) return 0;
        result |= (uint64_t)(byte & 0x7F) << shift;
        if (byte < 0x80) {
            if (result > maximum) return 0;
            *value = result;
            return at;
        }
    }
    return 0;
}

static inline int64_t ks_unzigzag(uint64_t value) { return (int64_t)(value >> 1) ^ -(int64_t)(value & 1); }

/* The record at `at`, of which only the offset's delta is relative still. Returns the position behind it, or 0. */
static inline size_t ks_read_record(const uint8_t *data, size_t at, size_t end, int64_t base_timestamp,
                                    uint64_t *offset_delta, ks_record *record) {
    uint64_t number;
    size_t stop;
    if (!(at = ks_varint(data, at, end, UINT32_MAX, &number))) return 0;
    if (number & 1 || (number >> 1) > end - at) return 0;
    stop = at + (size_t)(number >> 1);
    at += 1; /* the attributes of a record have no meaning yet */
    if (at >= stop || !(at = ks_varint(data, at, stop, UINT64_MAX, &number))) return 0;
    int64_t delta = ks_unzigzag(number);
    if (delta > 0 ? base_timestamp > INT64_MAX - delta : base_timestamp < INT64_MIN - delta) return 0;
    record->timestamp = base_timestamp + delta;
    if (!(at = ks_varint(data, at, stop, UINT32_MAX, &number)) || number & 1) return 0;
    *offset_delta = number >> 1;

    if (!(at = ks_varint(data, at, stop, UINT32_MAX, &number))) return 0;
    record->key_at = (uint32_t)at;
    record->key_bytes = -1;
    if (number != 1) {
        if (number & 1 || (number >> 1) > stop - at) return 0;
        record->key_bytes = (int32_t)(number >> 1);
        at += (size_t)(number >> 1);
    }
    if (!(at = ks_varint(data, at, stop, UINT32_MAX, &number))) return 0;
    record->value_at = (uint32_t)at;
    record->value_bytes = -1;
    if (number != 1) {
        if (number & 1 || (number >> 1) > stop - at) return 0;
        record->value_bytes = (int32_t)(number >> 1);
        at += (size_t)(number >> 1);
    }
    record->headers_at = (uint32_t)at;
    record->end = (uint32_t)stop;
    if (!(at = ks_varint(data, at, stop, UINT32_MAX, &number))) return 0;
    /* A header has two bytes at least, and the number is twice what it stands for. Their bytes are looked at later. */
    if (number == 0 ? at != stop : (number & 1 || number > stop - at)) return 0;
    return stop;
}

/* Which acquired offsets have been accounted for: those below `expected`, and those of ranges before `at`. */
typedef struct {
    const ks_range *ranges;
    size_t count, at;
    int64_t expected;
} ks_cursor;

static inline void ks_enter_range(ks_cursor *cursor) {
    if (cursor->at < cursor->count && cursor->expected < cursor->ranges[cursor->at].first)
        cursor->expected = cursor->ranges[cursor->at].first;
}

/* The next gap below `offset`: acquired offsets without a record. Returns 0 when there is none. */
static inline int ks_next_gap(ks_cursor *cursor, int64_t offset, int64_t *first, int64_t *last) {
    while (cursor->at < cursor->count && cursor->expected < offset) {
        const ks_range *range = &cursor->ranges[cursor->at];
        *first = cursor->expected;
        *last = range->last < offset - 1 ? range->last : offset - 1;
        if (range->last < offset) {
            cursor->at += 1;
            ks_enter_range(cursor);
        } else {
            cursor->expected = offset;
        }
        if (*first <= *last) return 1;
    }
    return 0;
}

#endif
