/* CRC-32C (Castagnoli) of some bytes: the checksum of Kafka's record batches.
 *
 * By the processor's instruction where it has one (x86-64 with SSE4.2 and PCLMULQDQ, 64-bit ARM with CRC32), found out
 * when the module is imported; by tables of 8 kB anywhere else. _compiled.pyx calls `ks_crc32c_begin` once, before all
 * else. Nothing here allocates, keeps state between calls, or knows Python.
 *
 * The instruction has a latency of three cycles and a throughput of one, so three lanes are computed side by side. What
 * joins them: a checksum is a polynomial over GF(2) modulo P, and n more bytes multiply it by x^(8n). The constants are
 * x^(8n-33) mod P, bits reflected: a carry-less product has one bit too few, and the instruction adds 32.
 */

#ifndef KAFKA_SHARE_CRC32C_H
#define KAFKA_SHARE_CRC32C_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__) || (defined(_M_X64) && !defined(_M_ARM64EC))
#define KS_X86 1
#if defined(_MSC_VER)
#include <intrin.h>
#endif
#include <wmmintrin.h>
#elif defined(__aarch64__) && !defined(__AARCH64EB__) && (defined(__linux__) || defined(__ARM_FEATURE_CRC32))
#define KS_ARM 1
#if !defined(__ARM_FEATURE_CRC32)
#include <sys/auxv.h>
#endif
#endif

#define KS_POLYNOMIAL 0x82F63B78u /* bits reflected */

/* ---- by tables: slicing by eight */

static uint32_t ks_tables[8][256];

static void ks_fill_tables(void)
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t crc = byte;
        for (int bit = 0; bit < 8; bit++)
            crc = (crc >> 1) ^ (KS_POLYNOMIAL & (0u - (crc & 1)));
        ks_tables[0][byte] = crc;
    }
    for (uint32_t byte = 0; byte < 256; byte++)
        for (int slice = 1; slice < 8; slice++) {
            uint32_t before = ks_tables[slice - 1][byte];
            ks_tables[slice][byte] = (before >> 8) ^ ks_tables[0][before & 255];
        }
}

static uint32_t ks_crc32c_by_table(const unsigned char *data, size_t length)
{
    uint32_t crc = 0xFFFFFFFFu;
    for (; length >= 8; data += 8, length -= 8) {
        crc ^= (uint32_t)data[0] | (uint32_t)data[1] << 8 | (uint32_t)data[2] << 16 | (uint32_t)data[3] << 24;
        crc = ks_tables[7][crc & 255] ^ ks_tables[6][(crc >> 8) & 255] ^ ks_tables[5][(crc >> 16) & 255] ^
              ks_tables[4][crc >> 24] ^ ks_tables[3][data[4]] ^ ks_tables[2][data[5]] ^ ks_tables[1][data[6]] ^
              ks_tables[0][data[7]];
    }
    for (; length > 0; data++, length--)
        crc = (crc >> 8) ^ ks_tables[0][(crc ^ *data) & 255];
    return ~crc;
}

/* ---- by the instruction */

#if defined(KS_X86)

#define KS_INSTRUCTION "sse4.2"
#define KS_SHORT_LANE 128
#if defined(__GNUC__) || defined(__clang__)
#define KS_TARGET __attribute__((target("pclmul")))
#else
#define KS_TARGET /* MSVC compiles every instruction anywhere */
#endif

static int ks_has_instruction(void)
{
#if defined(_MSC_VER)
    int registers[4];
    __cpuid(registers, 1);
    return (registers[2] >> 20 & 1) && (registers[2] >> 1 & 1);
#else
    __builtin_cpu_init();
    return __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul");
#endif
}

#if defined(__GNUC__) || defined(__clang__)

/* Assembly: under which name the intrinsics may be used differs from one version of a compiler to the next. */
static inline uint32_t ks_add_8(uint64_t crc, uint64_t word)
{
    __asm__("crc32q %1, %0" : "+r"(crc) : "r"(word));
    return (uint32_t)crc;
}

static inline uint32_t ks_add_1(uint32_t crc, unsigned char byte)
{
    __asm__("crc32b %1, %0" : "+r"(crc) : "r"(byte));
    return crc;
}

#else

static inline uint32_t ks_add_8(uint64_t crc, uint64_t word)
{
    return (uint32_t)_mm_crc32_u64(crc, word);
}

static inline uint32_t ks_add_1(uint32_t crc, unsigned char byte)
{
    return _mm_crc32_u8(crc, byte);
}

#endif

static inline KS_TARGET uint64_t ks_carry_less_product(uint32_t one, uint32_t other)
{
    __m128i product = _mm_clmulepi64_si128(_mm_cvtsi32_si128((int)one), _mm_cvtsi32_si128((int)other), 0);
    return (uint64_t)_mm_cvtsi128_si64(product);
}

#elif defined(KS_ARM)

#define KS_INSTRUCTION "armv8"
#define KS_TARGET

static int ks_has_instruction(void)
{
#if defined(__ARM_FEATURE_CRC32)
    return 1;
#else
    return getauxval(AT_HWCAP) >> 7 & 1; /* HWCAP_CRC32 */
#endif
}

/* Assembly, since the names of the intrinsics are hidden where not every processor of the target has them. */
static inline uint32_t ks_add_8(uint32_t crc, uint64_t word)
{
    __asm__(".arch_extension crc\n\tcrc32cx %w0, %w0, %x1" : "+r"(crc) : "r"(word));
    return crc;
}

static inline uint32_t ks_add_1(uint32_t crc, unsigned char byte)
{
    __asm__(".arch_extension crc\n\tcrc32cb %w0, %w0, %w1" : "+r"(crc) : "r"((uint32_t)byte));
    return crc;
}

static inline uint64_t ks_carry_less_product(uint32_t one, uint32_t other)
{
    uint64_t product = 0;
    for (int bit = 0; bit < 32; bit++)
        product ^= ((uint64_t)one << bit) & (0 - (uint64_t)(other >> bit & 1));
    return product;
}

#endif

#if defined(KS_INSTRUCTION)

#define KS_LONG_LANE 2048

static inline uint64_t ks_word_at(const unsigned char *data)
{
    uint64_t word;
    memcpy(&word, data, sizeof word);
    return word;
}

/* Three lanes of `lane` bytes each, which follow one another; the constants are those of one lane and of two. */
static inline KS_TARGET uint32_t ks_three_lanes(uint32_t crc, const unsigned char *data, size_t lane, uint32_t by_one,
                                                uint32_t by_two)
{
    uint32_t first = crc, second = 0, third = 0;
    for (const unsigned char *end = data + lane; data < end; data += 8) {
        first = ks_add_8(first, ks_word_at(data));
        second = ks_add_8(second, ks_word_at(data + lane));
        third = ks_add_8(third, ks_word_at(data + 2 * lane));
    }
    first = ks_add_8(0, ks_carry_less_product(first, by_two));
    second = ks_add_8(0, ks_carry_less_product(second, by_one));
    return first ^ second ^ third;
}

static KS_TARGET uint32_t ks_crc32c_by_instruction(const unsigned char *data, size_t length)
{
    uint32_t crc = 0xFFFFFFFFu;
    for (; length >= 3 * KS_LONG_LANE; data += 3 * KS_LONG_LANE, length -= 3 * KS_LONG_LANE)
        crc = ks_three_lanes(crc, data, KS_LONG_LANE, 0xA51B6135u, 0x82F89C77u);
#if defined(KS_SHORT_LANE)
    for (; length >= 3 * KS_SHORT_LANE; data += 3 * KS_SHORT_LANE, length -= 3 * KS_SHORT_LANE)
        crc = ks_three_lanes(crc, data, KS_SHORT_LANE, 0x0D3B6092u, 0xB9E02B86u);
#endif
    for (; length >= 8; data += 8, length -= 8)
        crc = ks_add_8(crc, ks_word_at(data));
    for (; length > 0; data++, length--)
        crc = ks_add_1(crc, *data);
    return ~crc;
}

#endif

/* ---- what the module calls */

static uint32_t (*ks_crc32c_chosen)(const unsigned char *data, size_t length) = ks_crc32c_by_table;

/* Choose for this processor; returns the name of the instruction, or "table". */
static const char *ks_crc32c_begin(void)
{
    ks_fill_tables();
#if defined(KS_INSTRUCTION)
    if (ks_has_instruction()) {
        ks_crc32c_chosen = ks_crc32c_by_instruction;
        return KS_INSTRUCTION;
    }
#endif
    return "table";
}

static inline uint32_t ks_crc32c(const unsigned char *data, size_t length)
{
    return ks_crc32c_chosen(data, length);
}

#endif
