/* int8_product.h: within this folder: multiplies rows of unsigned integers of 8 bits by packed
 * weights (int8.h) in vector registers. All functions are inlined, so that the sums stay there. */
#pragma once

#include "engine/backends/cpu/kernels/int8.h"
#include "engine/backends/cpu/kernels/vector.h"

#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

/* All functions are inlined, so that no register is passed to one. */
#pragma GCC diagnostic ignored "-Wpsabi"

/* Rows that are multiplied together, with up to four vectors of columns. */
enum { INT8_ROWS = REGISTERS == 32 ? 6 : 2 };

typedef int32_t sums __attribute__((vector_size(INT8_LANES * 4), may_alias));
typedef int16_t words __attribute__((vector_size(INT8_LANES * 4), may_alias));
typedef uint8_t bytes __attribute__((vector_size(INT8_LANES), may_alias));
typedef float floats __attribute__((vector_size(INT8_LANES * 4), may_alias));

/* Four numbers of a row, in each lane. */
static ALWAYS_INLINE sums load_four(const uint8_t *from)
{
    int32_t four;

    memcpy(&four, from, sizeof four);
    return (sums){0} + four;
}

#if defined(__AVX512F__)
static ALWAYS_INLINE sums add_products_vnni(sums sum, sums a, sums b)
{
    __asm__("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));
    return sum;
}
#endif

/* The sums of each two products. */
static ALWAYS_INLINE sums multiply_words(sums a, sums b)
{
#if defined(__AVX512BW__)
    return (sums)_mm512_madd_epi16((__m512i)a, (__m512i)b);
#elif defined(__AVX2__)
    __m256i left[2], right[2], result[2];
    sums product;

    memcpy(left, &a, sizeof left);
    memcpy(right, &b, sizeof right);
    for (int i = 0; i < 2; i++)
        result[i] = _mm256_madd_epi16(left[i], right[i]);
    memcpy(&product, result, sizeof product);
    return product;
#else
    /* a product of an unsigned and a signed number of 8 bits fits 16 bits */
    sums product = (sums)((words)a * (words)b);

    return (product << 16 >> 16) + (product >> 16);
#endif
}

/* Adds in each lane the products of four unsigned numbers of a and four signed ones of b. */
static ALWAYS_INLINE sums add_products(sums sum, sums a, sums b)
{
    sums even = (sums)((words)b << 8 >> 8), odd = (sums)((words)b >> 8);
    sums a_odd = (sums)((words)((words)a >> 8) & 0xff);

    return sum + multiply_words(a & 0x00ff00ff, even) + multiply_words(a_odd, odd);
}

static ALWAYS_INLINE void multiply_rows(const int rows, const int vectors, const bool vnni,
                                        const uint8_t *a, int64_t a_row, const int8_t *b,
                                        int64_t steps, sums sum[INT8_ROWS][INT8_VECTORS_MAX])
{
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++)
            sum[r][v] = (sums){0};
    for (int64_t k = 0; k < steps; k++, a += 4, b += vectors * INT8_LANES * 4) {
        sums factor[INT8_VECTORS_MAX];

#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++)
            factor[v] = *(const sums *)(const void *)(b + v * INT8_LANES * 4);
#pragma GCC unroll 8
        for (int r = 0; r < rows; r++) {
            sums four = load_four(a + r * a_row);

#pragma GCC unroll 4
            for (int v = 0; v < vectors; v++)
#if defined(__AVX512F__)
                sum[r][v] = vnni ? add_products_vnni(sum[r][v], four, factor[v])
                                 : add_products(sum[r][v], four, factor[v]);
#else
                sum[r][v] = add_products(sum[r][v], four, factor[v]);
#endif
        }
    }
    (void)vnni;
}
