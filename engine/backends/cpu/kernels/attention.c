/* attention.c: attention of one head by blocks of queries and keys (Dao et al. 2022,
 * arXiv:2205.14135). A block of products, and what it is made from, stay in the cache; the backward
 * part makes the probabilities again from log_sum_exp. Copies of blocks are filled up with zeros to
 * whole vectors, so that all products are of one kind. */
#include "engine/backends/cpu/kernels/kernels.h"
#include "engine/backends/cpu/kernels/vector.h"
#include "engine/backends/cpu/kernels/vector_math.h"

#include <math.h>
#include <string.h>

/* Of blocks at most; longer sequences are divided evenly. */
enum { QUERIES_MAX = 96, KEYS_MAX = 128 };
/* Rows and vectors of sums in registers: with them stand the vectors that they are multiplied
 * with. */
enum { GROUP = REGISTERS == 32 ? 12 : 6, PANELS = 2 };

static inline int64_t round_up(int64_t count)
{
    return (count + VECTOR - 1) / VECTOR * VECTOR;
}

static inline int64_t block_extent(int64_t steps, int64_t most)
{
    int64_t blocks = (steps + most - 1) / most;

    return (steps + blocks - 1) / blocks;
}

static inline int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* ---- products -------------------------------------------------------------------------------- */

/* c (+)= a b: element (r, k) of a lies at a[r * row + k * depth]. */
struct factor {
    const float *start;
    int64_t row, depth;
};

static ALWAYS_INLINE void multiply_group(const int rows, const int panels, struct factor a,
                                         const float *b, int64_t b_row, int64_t depth, float *c,
                                         int64_t c_row, bool add)
{
    vector sum[GROUP][PANELS];

#pragma GCC unroll 12
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 2
        for (int n = 0; n < panels; n++)
            sum[r][n] = add ? *(const vector *)(c + r * c_row + n * VECTOR) : (vector){0};
    for (int64_t k = 0; k < depth; k++, b += b_row, a.start += a.depth) {
        vector f[PANELS];

#pragma GCC unroll 2
        for (int n = 0; n < panels; n++)
            f[n] = *(const vector *)(b + n * VECTOR);
#pragma GCC unroll 12
        for (int r = 0; r < rows; r++)
#pragma GCC unroll 2
            for (int n = 0; n < panels; n++)
                sum[r][n] += a.start[r * a.row] * f[n];
    }
#pragma GCC unroll 12
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 2
        for (int n = 0; n < panels; n++)
            *(vector *)(c + r * c_row + n * VECTOR) = sum[r][n];
}

#define GROUP_CASE(n)                                                 \
    case n:                                                           \
        multiply_group(n, panels, a, b, b_row, depth, c, c_row, add); \
        break;

static ALWAYS_INLINE void multiply_rows(int64_t rows, const int panels, struct factor a,
                                        const float *b, int64_t b_row, int64_t depth, float *c,
                                        int64_t c_row, bool add)
{
    switch (rows) {
        GROUP_CASE(1)
        GROUP_CASE(2)
        GROUP_CASE(3)
        GROUP_CASE(4)
        GROUP_CASE(5)
        GROUP_CASE(6)
#if defined(__AVX512F__)
        GROUP_CASE(7)
        GROUP_CASE(8)
        GROUP_CASE(9)
        GROUP_CASE(10)
        GROUP_CASE(11)
        GROUP_CASE(12)
#endif
    }
}

/* `rows` (at most GROUP) rows of c, whole vectors of `columns`. */
static void multiply(int64_t rows, int64_t columns, struct factor a, const float *b, int64_t b_row,
                     int64_t depth, float *c, int64_t c_row, bool add)
{
    int64_t n = 0;

    for (; n + PANELS * VECTOR <= columns; n += PANELS * VECTOR)
        multiply_rows(rows, PANELS, a, b + n, b_row, depth, c + n, c_row, add);
    if (n < columns)
        multiply_rows(rows, 1, a, b + n, b_row, depth, c + n, c_row, add);
}

/* ---- blocks ---------------------------------------------------------------------------------- */

/* A block of queries against one of keys. */
struct block {
    int64_t first_query, queries, first_key, keys;
    int64_t padded; /* keys in whole vectors */
    bool causal;
};

/* The keys of the block that its query `r` attends to; below 0: none. */
static inline int64_t keys_of(const struct block *block, int64_t r)
{
    return block->causal ? smaller(block->keys, block->first_query + r + 1 - block->first_key)
                         : block->keys;
}

/* The first query of the block that attends to its key `c`. */
static inline int64_t first_query_of(const struct block *block, int64_t c)
{
    return block->causal ? larger(0, block->first_key + c - block->first_query) : 0;
}

/* Rows of `width` numbers become rows of `padded`, the rest zeros; so do rows up to `all`. */
static void copy_rows(const float *from, int64_t from_row, int64_t rows, int64_t width, float *to,
                      int64_t padded, int64_t all)
{
    for (int64_t r = 0; r < rows; r++) {
        memcpy(to + r * padded, from + r * from_row, (size_t)width * sizeof *to);
        for (int64_t i = width; i < padded; i++)
            to[r * padded + i] = 0;
    }
    memset(to + rows * padded, 0, (size_t)((all - rows) * padded) * sizeof *to);
}

/* products[r] = query r times each key that it attends to, and some more up to whole vectors. */
static void query_products(const struct block *block, const float *query, int64_t query_row,
                           int64_t depth, const float *transposed, float *products)
{
    for (int64_t r = 0; r < block->queries; r += GROUP) {
        int64_t rows = smaller(GROUP, block->queries - r);
        int64_t keys = keys_of(block, r + rows - 1);

        if (keys > 0)
            multiply(rows, round_up(keys), (struct factor){query + r * query_row, query_row, 1},
                     transposed, block->padded, depth, products + r * block->padded, block->padded,
                     false);
    }
}

/* result[r] (+)= the row's weights times the keys' rows. */
static void weighted_rows(const struct block *block, const float *weights, const float *rows,
                          int64_t width, float *result, bool add)
{
    for (int64_t r = 0; r < block->queries; r += GROUP) {
        int64_t count = smaller(GROUP, block->queries - r);

        multiply(count, width, (struct factor){weights + r * block->padded, block->padded, 1}, rows,
                 width, larger(0, keys_of(block, r + count - 1)), result + r * width, width, add);
    }
}

/* result[c] += the key's weights times the queries' rows. */
static void weighted_queries(const struct block *block, const float *weights, const float *rows,
                             int64_t width, float *result)
{
    for (int64_t c = 0; c < block->keys; c += GROUP) {
        int64_t first = first_query_of(block, c);

        if (first < block->queries)
            multiply(smaller(GROUP, block->keys - c), width,
                     (struct factor){weights + first * block->padded + c, 1, block->padded},
                     rows + first * width, width, block->queries - first, result + c * width, width,
                     true);
    }
}

/* ---- forward --------------------------------------------------------------------------------- */

/* Products of a row become weights exp(scale product - maximum), 0 where there is no attention. The
 * maximum and the sum of the row go on; returns what earlier sums are to be multiplied with. */
static float soften_row(float *row, int64_t keys, int64_t padded, float scale, float *maximum,
                        float *sum)
{
    float most = *maximum, total = 0, factor;

    if (keys <= 0) {
        memset(row, 0, (size_t)padded * sizeof *row);
        return 1;
    }
#pragma omp simd reduction(max : most)
    for (int64_t c = 0; c < keys; c++)
        most = row[c] * scale > most ? row[c] * scale : most;
#pragma omp simd reduction(+ : total)
    for (int64_t c = 0; c < keys; c++) {
        row[c] = vector_exp(row[c] * scale - most);
        total += row[c];
    }
    memset(row + keys, 0, (size_t)(padded - keys) * sizeof *row);
    factor = vector_exp(*maximum - most);
    *maximum = most;
    *sum = *sum * factor + total;
    return factor;
}

/* The parts of the scratch. */
struct scratch {
    float *keys, *values, *transposed, *transposed_values; /* of a block of keys */
    float *queries, *gradients;                            /* of a block of queries */
    float *products, *slopes;                              /* [queries][keys] */
    float *result;                                         /* [queries][width] */
    float *dkeys, *dvalues;
    float *maximum, *sum; /* [queries] */
};

static int64_t lay_out(struct scratch *scratch, float *start, int64_t steps, int64_t width)
{
    int64_t queries = block_extent(steps, QUERIES_MAX), padded = round_up(width);
    int64_t keys = round_up(block_extent(steps, KEYS_MAX));
    float **by_keys[] = {&scratch->keys,       &scratch->values,
                         &scratch->transposed, &scratch->transposed_values,
                         &scratch->dkeys,      &scratch->dvalues};
    float **by_queries[] = {&scratch->queries, &scratch->gradients, &scratch->result};
    float **products[] = {&scratch->products, &scratch->slopes};
    float **numbers[] = {&scratch->maximum, &scratch->sum};
    int64_t used = 0;

    for (int i = 0; i < 6; i++, used += keys * padded)
        *by_keys[i] = start + used;
    for (int i = 0; i < 3; i++, used += queries * padded)
        *by_queries[i] = start + used;
    for (int i = 0; i < 2; i++, used += queries * keys)
        *products[i] = start + used;
    for (int i = 0; i < 2; i++, used += round_up(queries))
        *numbers[i] = start + used;
    return used;
}

int64_t KERNEL_NAME(attention_scratch)(int64_t steps, int64_t width)
{
    struct scratch scratch;

    return lay_out(&scratch, NULL, steps, width);
}

static void forward_block(const struct attention_head *head, const struct block *block,
                          const float *query, const float *key, const float *value,
                          const struct scratch *s)
{
    int64_t padded = round_up(head->width);
    bool first = block->first_key == 0;

    copy_rows(key + block->first_key * head->row, head->row, block->keys, head->width, s->keys,
              padded, block->padded);
    copy_rows(value + block->first_key * head->row, head->row, block->keys, head->width, s->values,
              padded, block->keys);
    KERNEL_NAME(matrix_transpose)(s->keys, padded, block->padded, padded, s->transposed);
    query_products(block, query + block->first_query * head->row, head->row, head->width,
                   s->transposed, s->products);
    for (int64_t r = 0; r < block->queries; r++) {
        float factor = soften_row(s->products + r * block->padded, keys_of(block, r), block->padded,
                                  head->scale, &s->maximum[r], &s->sum[r]);

        for (int64_t i = 0; !first && factor != 1.0f && i < padded; i++)
            s->result[r * padded + i] *= factor;
    }
    weighted_rows(block, s->products, s->values, padded, s->result, !first);
}

void KERNEL_NAME(attention_forward)(const struct attention_head *head, const float *query,
                                    const float *key, const float *value, float *scratch, float *y,
                                    float *log_sum_exp)
{
    int64_t queries = block_extent(head->steps, QUERIES_MAX), padded = round_up(head->width);
    int64_t keys = block_extent(head->steps, KEYS_MAX);
    struct scratch s;

    lay_out(&s, scratch, head->steps, head->width);
    for (int64_t q = 0; q < head->steps; q += queries) {
        struct block block = {
            .first_query = q, .queries = smaller(queries, head->steps - q), .causal = head->causal};
        int64_t end = head->causal ? smaller(head->keys, q + block.queries) : head->keys;

        for (int64_t r = 0; r < block.queries; r++) {
            s.maximum[r] = -INFINITY;
            s.sum[r] = 0;
        }
        memset(s.result, 0, (size_t)(block.queries * padded) * sizeof *s.result);
        for (int64_t k = 0; k < end; k += keys) {
            block.first_key = k;
            block.keys = smaller(keys, end - k);
            block.padded = round_up(block.keys);
            forward_block(head, &block, query, key, value, &s);
        }
        for (int64_t r = 0; r < block.queries; r++) {
            float *to = y + (q + r) * head->result_row;
            float factor = s.sum[r] > 0 ? 1.0f / s.sum[r] : s.sum[r];

            for (int64_t i = 0; i < head->width; i++)
                to[i] = s.result[r * padded + i] * factor;
            if (log_sum_exp)
                log_sum_exp[q + r] = s.maximum[r] + logf(s.sum[r]);
        }
    }
}

/* ---- backward -------------------------------------------------------------------------------- */

/* Products of a row become probabilities, and their gradients the slopes: with d = dy . y,
 * slope = probability (gradient - d) scale. */
static void slope_row(float *row, float *slopes, int64_t keys, int64_t padded, float scale,
                      float log_sum_exp, float d)
{
    keys = larger(keys, 0);
#pragma omp simd
    for (int64_t c = 0; c < keys; c++) {
        float probability = vector_exp(row[c] * scale - log_sum_exp);

        row[c] = probability;
        slopes[c] = probability * (slopes[c] - d) * scale;
    }
    memset(row + keys, 0, (size_t)(padded - keys) * sizeof *row);
    memset(slopes + keys, 0, (size_t)(padded - keys) * sizeof *slopes);
}

static float dot(const float *a, const float *b, int64_t count)
{
    float sum = 0;

#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < count; i++)
        sum += a[i] * b[i];
    return sum;
}

static void backward_block(const struct attention_head *head, const struct block *block,
                           const float *query, const float *y, const float *log_sum_exp,
                           const float *dy, const struct scratch *s, float *dquery)
{
    int64_t padded = round_up(head->width), q = block->first_query;

    copy_rows(query + q * head->row, head->row, block->queries, head->width, s->queries, padded,
              block->queries);
    copy_rows(dy + q * head->result_row, head->result_row, block->queries, head->width,
              s->gradients, padded, block->queries);
    query_products(block, s->queries, padded, head->width, s->transposed, s->products);
    query_products(block, s->gradients, padded, head->width, s->transposed_values, s->slopes);
    for (int64_t r = 0; r < block->queries; r++)
        slope_row(s->products + r * block->padded, s->slopes + r * block->padded, keys_of(block, r),
                  block->padded, head->scale, log_sum_exp[q + r],
                  dot(s->gradients + r * padded, y + (q + r) * head->result_row, head->width));
    weighted_queries(block, s->products, s->gradients, padded, s->dvalues);
    weighted_queries(block, s->slopes, s->queries, padded, s->dkeys);
    weighted_rows(block, s->slopes, s->keys, padded, s->result, false);
    for (int64_t r = 0; r < block->queries; r++) {
        float *to = dquery + (q + r) * head->row;
        const float *from = s->result + r * padded;

        if (block->first_key == 0)
            memcpy(to, from, (size_t)head->width * sizeof *to);
        else
            for (int64_t i = 0; i < head->width; i++)
                to[i] += from[i];
    }
}

void KERNEL_NAME(attention_backward)(const struct attention_head *head, const float *query,
                                     const float *key, const float *value, const float *y,
                                     const float *log_sum_exp, const float *dy, float *scratch,
                                     float *dquery, float *dkey, float *dvalue)
{
    int64_t queries = block_extent(head->steps, QUERIES_MAX), padded = round_up(head->width);
    int64_t keys = block_extent(head->steps, KEYS_MAX);
    struct scratch s;

    lay_out(&s, scratch, head->steps, head->width);
    for (int64_t k = 0; k < head->steps; k += keys) {
        int64_t all = smaller(keys, head->steps - k);
        struct block block = {.first_key = k,
                              .keys = larger(0, smaller(all, head->keys - k)),
                              .causal = head->causal};

        block.padded = round_up(block.keys);
        copy_rows(key + k * head->row, head->row, block.keys, head->width, s.keys, padded,
                  block.padded);
        copy_rows(value + k * head->row, head->row, block.keys, head->width, s.values, padded,
                  block.padded);
        KERNEL_NAME(matrix_transpose)(s.keys, padded, block.padded, padded, s.transposed);
        KERNEL_NAME(matrix_transpose)(s.values, padded, block.padded, padded, s.transposed_values);
        memset(s.dkeys, 0, (size_t)(all * padded) * sizeof *s.dkeys);
        memset(s.dvalues, 0, (size_t)(all * padded) * sizeof *s.dvalues);
        for (int64_t q = 0; q < head->steps; q += queries) {
            block.first_query = q;
            block.queries = smaller(queries, head->steps - q);
            if (k == 0 || (block.keys > 0 && keys_of(&block, block.queries - 1) > 0))
                backward_block(head, &block, query, y, log_sum_exp, dy, &s, dquery);
        }
        for (int64_t c = 0; c < all; c++) {
            memcpy(dkey + (k + c) * head->row, s.dkeys + c * padded,
                   (size_t)head->width * sizeof *dkey);
            memcpy(dvalue + (k + c) * head->row, s.dvalues + c * padded,
                   (size_t)head->width * sizeof *dvalue);
        }
    }
}

/* ---- rotary positions ------------------------------------------------------------------------ */

static inline void turn(const float *x, const float *cosine, const float *sine, float sign,
                        int64_t half, float *y)
{
#pragma omp simd
    for (int64_t i = 0; i < half; i++) {
        float first = x[i], second = x[half + i];

        y[i] = first * cosine[i] - second * sine[i] * sign;
        y[half + i] = second * cosine[i] + first * sine[i] * sign;
    }
}

void KERNEL_NAME(rotary)(const struct rotary_shape *shape, const float *x, float *y,
                         int64_t samples)
{
    const int64_t width = shape->heads * shape->width, half = shape->width / 2;
    const float sign = shape->inverse ? -1.0f : 1.0f;

    for (int64_t i = 0; i < samples * shape->steps; i++, x += 3 * width, y += 3 * width) {
        const float *cosine = shape->factor + i % shape->steps * half;
        const float *sine = cosine + shape->steps * half;

        for (int64_t h = 0; h < 2 * shape->heads; h++)
            turn(x + h * shape->width, cosine, sine, sign, half, y + h * shape->width);
        memcpy(y + 2 * width, x + 2 * width, (size_t)width * sizeof *y);
    }
}
