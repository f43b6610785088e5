/* recurrent.c: see recurrent.h. Formulas as torch.nn.LSTM and torch.nn.GRU have them. */
#include "engine/backends/cpu/kernels/kernels.h"
#include "engine/backends/cpu/kernels/recurrent_bfloat16.h"
#include "engine/backends/cpu/kernels/recurrent_evaluate.h"
#include "engine/backends/cpu/kernels/recurrent_product.h"
#include "engine/backends/cpu/kernels/vector.h"
#include "engine/backends/cpu/kernels/vector_math.h"

#include <string.h>

/* All functions that take a register are inlined. */
#pragma GCC diagnostic ignored "-Wpsabi"

enum { LINE = 64 / sizeof(float) }; /* numbers of a line of the caches */

static int64_t gates_of(enum recurrent_cell cell)
{
    return cell == RECURRENT_LSTM ? 4 : 3;
}

static bool is_past_end(const struct recurrent_time *time, int64_t row)
{
    return time->lengths && time->step >= time->lengths[row];
}

/* Whether it is the first step of the row that the layer reads. */
static bool is_first(const struct recurrent_time *time, int64_t row)
{
    int64_t length = time->lengths ? minimum(time->lengths[row], time->steps) : time->steps;

    return time->reverse ? time->step == length - 1 : time->step == 0;
}

/* ---- weights --------------------------------------------------------------------------------- */

/* Units of the panel of the backward kernel, filled up to vectors. */
static int64_t backward_width(int64_t hidden, int64_t unit)
{
    int64_t vectors = (minimum(VECTORS * VECTOR, hidden - unit) + VECTOR - 1) / VECTOR;

    return vectors * VECTOR;
}

/* [panel][gate and k][unit] */
static void pack_backward(const float *weights, int64_t gates, int64_t hidden, int64_t panel,
                          float *packed)
{
    int64_t unit = panel * VECTORS * VECTOR, width = backward_width(hidden, unit);
    int64_t units = minimum(width, hidden - unit);

    packed += unit * gates * hidden;
    for (int64_t k = 0; k < gates * hidden; k++, packed += width) {
        for (int64_t u = 0; u < units; u++)
            packed[u] = weights[k * hidden + unit + u];
        for (int64_t u = units; u < width; u++)
            packed[u] = 0.0f;
    }
}

void KERNEL_NAME(recurrent_pack)(const float *weights, int64_t gates, int64_t hidden, bool backward,
                                 int64_t first, int64_t end, float *packed)
{
    for (int64_t panel = first; panel < end; panel++)
        if (backward)
            pack_backward(weights, gates, hidden, panel, packed);
        else
            pack_panel(weights, gates, hidden, hidden, panel, packed);
}

void KERNEL_NAME(rows_multiply)(const float *a, int64_t a_row, const float *b, int64_t b_row,
                                int64_t rows, int64_t columns, float *to, int64_t to_row)
{
    for (int64_t r = 0; r < rows; r++, a += a_row, b += b_row, to += to_row)
        for (int64_t c = 0; c < columns; c++)
            to[c] = a[c] * b[c];
}

/* memcpy: the compiler need not fear that arrays overlap. */
static ALWAYS_INLINE void store(float *to, const float *values, const int64_t units)
{
    memcpy(to, values, (size_t)units * sizeof(*to));
}

static ALWAYS_INLINE void store_gates(float *to, float values[][VECTOR], const int gates,
                                      int64_t hidden, const int64_t units)
{
    for (int gate = 0; gate < gates; gate++)
        store(to + gate * hidden, values[gate], units);
}

/* Calls the lines of `gates` times `units` numbers of each row into the first cache, which the
 * product before their use leaves time for: rows of a batch are far apart, so that the processor
 * does not guess them. */
static void prefetch(const struct recurrent_array *array, int64_t row, int64_t rows, int64_t unit,
                     int64_t units, int64_t gates, int64_t hidden)
{
    if (!array->start)
        return;
    for (int64_t r = row; r < row + rows; r++)
        for (int64_t gate = 0; gate < gates; gate++)
            for (int64_t u = 0; u < units; u += LINE)
                __builtin_prefetch(array->start + r * array->row + gate * hidden + unit + u);
}

/* ---- forward --------------------------------------------------------------------------------- */

/* What the units of a row read and write: one pointer for each array, at the first of the units. */
struct forward_row {
    const float *sums;  /* [gate][VECTOR] */
    const float *input; /* of the first gate */
    int64_t next_input;
    const float *bias, *before;
    float *after, *content, *gates, *cells, *output;
};

static ALWAYS_INLINE void lstm_forward(const struct forward_row *row, int64_t hidden,
                                       const int64_t units)
{
    float gate[4][VECTOR], c[VECTOR], h[VECTOR]; /* i f g o */
    int64_t next = row->next_input;

    for (int64_t u = 0; u < units; u++) {
        const float *sums = row->sums + u, *bias = row->bias + u, *input = row->input + u;
        float i = vector_sigmoid(sums[0] + input[0] + bias[0]);
        float f = vector_sigmoid(sums[VECTOR] + input[next] + bias[hidden]);
        float g = vector_tanh(sums[2 * VECTOR] + input[2 * next] + bias[2 * hidden]);
        float o = vector_sigmoid(sums[3 * VECTOR] + input[3 * next] + bias[3 * hidden]);

        c[u] = f * row->content[u] + i * g;
        h[u] = o * vector_tanh(c[u]);
        gate[0][u] = i;
        gate[1][u] = f;
        gate[2][u] = g;
        gate[3][u] = o;
    }
    store(row->content, c, units);
    store(row->after, h, units);
    store(row->output, h, units);
    store_gates(row->gates, gate, 4, hidden, units);
    store(row->cells, c, units);
}

/* The gates kept are r, z, n and the state's part of n, which r multiplies. */
static ALWAYS_INLINE void gru_forward(const struct forward_row *row, int64_t hidden,
                                      const int64_t units)
{
    float gate[4][VECTOR], h[VECTOR]; /* r z n s */
    int64_t next = row->next_input;

    for (int64_t u = 0; u < units; u++) {
        const float *sums = row->sums + u, *bias = row->bias + u, *input = row->input + u;
        float before = row->before ? row->before[u] : 0.0f;
        float r = vector_sigmoid(sums[0] + input[0] + bias[0]);
        float z = vector_sigmoid(sums[VECTOR] + input[next] + bias[hidden]);
        float s = sums[2 * VECTOR] + bias[2 * hidden];
        float n = vector_tanh(input[2 * next] + r * s);

        h[u] = n + z * (before - n);
        gate[0][u] = r;
        gate[1][u] = z;
        gate[2][u] = n;
        gate[3][u] = s;
    }
    store(row->after, h, units);
    store(row->output, h, units);
    store_gates(row->gates, gate, 4, hidden, units);
}

/* The units of a row that is past its end: the state stays, the output is 0. */
static void forward_padding(const float *before, float *after, float *output, int64_t units)
{
    for (int64_t u = 0; u < units; u++) {
        after[u] = before ? before[u] : 0.0f;
        output[u] = 0.0f;
    }
}

static float *at(const struct recurrent_array *array, int64_t row, int64_t unit)
{
    return array->start ? array->start + row * array->row + unit : NULL;
}

/* Calculates so many units; of a full vector the compiler knows how many. */
#define RUN_UNITS(function, arrays, hidden, units) \
    do {                                           \
        if ((units) == VECTOR)                     \
            function(arrays, hidden, VECTOR);      \
        else                                       \
            function(arrays, hidden, units);       \
    } while (0)

/* `input` is that of the row's units. */
static void forward_units(const struct recurrent_forward *step, int64_t row, int64_t unit,
                          const float *sums, const float *input)
{
    int64_t hidden = step->hidden, units = minimum(VECTOR, hidden - unit);
    int64_t place = row * hidden + unit;
    const struct forward_row arrays = {.sums = sums,
                                       .input = input,
                                       .next_input = step->input.gate,
                                       .bias = step->bias + unit,
                                       .before = step->before ? step->before + place : NULL,
                                       .after = step->after + place,
                                       .content = step->content ? step->content + place : NULL,
                                       .gates = at(&step->gates, row, unit),
                                       .cells = at(&step->cells, row, unit),
                                       .output = at(&step->output, row, unit)};

    if (is_past_end(&step->time, row))
        forward_padding(arrays.before, arrays.after, arrays.output, units);
    else if (step->cell == RECURRENT_LSTM)
        RUN_UNITS(lstm_forward, &arrays, hidden, units);
    else
        RUN_UNITS(gru_forward, &arrays, hidden, units);
}

/* The sums of a tile: those of a row's next gate and of the next row; and the input's product. */
struct sums {
    const float *first;
    int64_t gate, row;
    const float *input;
};

/* The units of some rows, in evaluation. */
static ALWAYS_INLINE void evaluate_units(const struct recurrent_forward *step,
                                         const enum recurrent_cell cell, int64_t row, int64_t rows,
                                         int64_t unit, const int64_t units, struct sums sums)
{
    int64_t hidden = step->hidden, place = row * hidden + unit;

    for (int64_t r = 0; r < rows; r++, place += hidden) {
        const struct evaluated_row arrays = {
            .sums = sums.first + r * sums.row,
            .next_sums = sums.gate,
            .input = sums.input + r * step->input.row,
            .next_input = step->input.gate,
            .bias = step->bias + unit,
            .before = step->before ? step->before + place : NULL,
            .after = step->after + place,
            .content = step->content ? step->content + place : NULL,
            .output = at(&step->output, row + r, unit),
            .quantized =
                step->int8 ? step->int8->after + (row + r) * step->int8->row + unit : NULL};

        if (is_past_end(&step->time, row + r)) {
            forward_padding(arrays.before, arrays.after, arrays.output, units);
            if (arrays.quantized)
                KERNEL_NAME(int8_quantize_state)(arrays.after, units, arrays.quantized);
        } else if (cell == RECURRENT_LSTM) {
            lstm_evaluate(&arrays, hidden, units);
        } else {
            gru_evaluate(&arrays, hidden, units);
        }
    }
}

static void evaluate_rows(const struct recurrent_forward *step, int64_t row, int64_t rows,
                          int64_t unit, struct sums sums)
{
    int64_t units = minimum(VECTOR, step->hidden - unit);

    if (units < VECTOR)
        evaluate_units(step, step->cell, row, rows, unit, units, sums);
    else if (step->cell == RECURRENT_LSTM)
        evaluate_units(step, RECURRENT_LSTM, row, rows, unit, VECTOR, sums);
    else
        evaluate_units(step, RECURRENT_GRU, row, rows, unit, VECTOR, sums);
}

/* The input's product of some rows and a panel. */
static const float *input_at(const struct recurrent_forward *step, int64_t row, int64_t panel)
{
    return step->input.start + panel * step->input.panel + row * step->input.row;
}

static void prefetch_input(const struct recurrent_forward *step, const float *input, int64_t rows,
                           int64_t units)
{
    for (int64_t r = 0; r < rows; r++, input += step->input.row)
        for (int64_t gate = 0; gate < gates_of(step->cell); gate++)
            for (int64_t u = 0; u < units; u += LINE)
                __builtin_prefetch(input + gate * step->input.gate + u);
}

/* The state's product for some rows and a panel. */
static void forward_product(const struct recurrent_forward *step, int64_t row, int64_t rows,
                            int64_t panel, float *sums, struct amx_tiles *tiles)
{
    int64_t hidden = step->hidden, gates = gates_of(step->cell);

    if (step->bfloat16)
        bfloat16_product(step->bfloat16, row, rows, (int)gates, panel * gates * VECTOR, hidden,
                         sums, tiles);
    else
        multiply_rows(rows, (int)gates, step->before ? step->before + row * hidden : NULL, hidden,
                      step->weights + panel * hidden * gates * VECTOR, hidden, sums);
}

void KERNEL_NAME(recurrent_forward)(const struct recurrent_forward *step, int64_t first_row,
                                    int64_t end_row, int64_t first_panel, int64_t end_panel)
{
    _Alignas(64) float sums[SUM_ROWS * VECTORS * VECTOR];
    struct amx_tiles tiles = {0};

    for (int64_t panel = first_panel; panel < end_panel; panel++)
        for (int64_t row = first_row, rows; row < end_row; row += rows) {
            const float *input = input_at(step, row, panel);
            int64_t unit = panel * VECTOR;

            rows = rows_together(step->bfloat16 != NULL, row, end_row);
            prefetch_input(step, input, rows, VECTOR);
            forward_product(step, row, rows, panel, sums, &tiles);
            if (!step->gates.start)
                evaluate_rows(step, row, rows, unit,
                              (struct sums){sums, VECTOR, VECTORS * VECTOR, input});
            for (int64_t r = 0; step->gates.start && r < rows; r++)
                forward_units(step, row + r, unit, sums + r * VECTORS * VECTOR,
                              input + r * step->input.row);
            for (int64_t r = row; step->bfloat16 && r < row + rows; r++)
                round_units(step->bfloat16, r, step->hidden, step->after + r * step->hidden, unit,
                            minimum(VECTOR, step->hidden - unit));
        }
    KERNEL_NAME(amx_end_tiles)(&tiles);
}

void KERNEL_NAME(recurrent_forward_int8)(const struct recurrent_forward *step, int64_t first_row,
                                         int64_t end_row, int64_t first_group, int64_t end_group)
{
    enum { SUMS = 4 * INT8_LANES };
    _Alignas(64) float sums[AMX_ROWS * SUMS] = {0};
    struct amx_tiles tiles = {0};

    for (int64_t group = first_group; group < end_group; group++)
        for (int64_t row = first_row, rows; row < end_row; row += rows) {
            int64_t unit = group * INT8_LANES, units = minimum(INT8_LANES, step->hidden - unit);
            const float *input = input_at(step, row, group);

            rows = minimum(AMX_ROWS, end_row - row);
            prefetch_input(step, input, rows, units);
            if (step->int8->before)
                KERNEL_NAME(int8_multiply_state)(step->int8, row, rows, group, sums, SUMS, &tiles);
            for (int64_t first = 0; first < units; first += VECTOR)
                evaluate_rows(step, row, rows, unit + first,
                              (struct sums){sums + first, INT8_LANES, SUMS, input + first});
        }
    KERNEL_NAME(amx_end_tiles)(&tiles);
}

/* ---- backward -------------------------------------------------------------------------------- */

struct backward_row {
    const float *sums, *dy, *memory;
    const float *memory_before; /* NULL: 0 */
    const float *gates;         /* in place: of an LSTM */
    float *here, *carried, *dinput;
};

static ALWAYS_INLINE void lstm_backward(const struct backward_row *row, int64_t hidden,
                                        const int64_t units)
{
    float gradient[4][VECTOR], carried[VECTOR]; /* by i f g o; by the cell */

    for (int64_t u = 0; u < units; u++) {
        float i = row->gates[u], f = row->gates[hidden + u];
        float g = row->gates[2 * hidden + u], o = row->gates[3 * hidden + u];
        float before = row->memory_before ? row->memory_before[u] : 0.0f;
        float dh = row->dy[u] + row->sums[u], squashed = vector_tanh(row->memory[u]);
        float dc = row->carried[u] + dh * o * (1.0f - squashed * squashed);

        gradient[0][u] = dc * g * i * (1.0f - i);
        gradient[1][u] = dc * before * f * (1.0f - f);
        gradient[2][u] = dc * i * (1.0f - g * g);
        gradient[3][u] = dh * squashed * o * (1.0f - o);
        carried[u] = dc * f;
    }
    store(row->carried, carried, units);
    store_gates(row->dinput, gradient, 4, hidden, units);
    store_gates(row->here, gradient, 4, hidden, units);
}

static ALWAYS_INLINE void gru_backward(const struct backward_row *row, int64_t hidden,
                                       const int64_t units)
{
    float gradient[3][VECTOR], ds[VECTOR], carried[VECTOR]; /* by r z n; by s; by h */

    for (int64_t u = 0; u < units; u++) {
        float r = row->gates[u], z = row->gates[hidden + u];
        float n = row->gates[2 * hidden + u], s = row->gates[3 * hidden + u];
        float before = row->memory_before ? row->memory_before[u] : 0.0f;
        float dh = row->dy[u] + row->sums[u] + row->carried[u];
        float dn = dh * (1.0f - z) * (1.0f - n * n);

        gradient[0][u] = dn * s * r * (1.0f - r);
        gradient[1][u] = dh * (before - n) * z * (1.0f - z);
        gradient[2][u] = dn;
        ds[u] = dn * r;
        carried[u] = dh * z;
    }
    store(row->carried, carried, units);
    store_gates(row->dinput, gradient, 3, hidden, units);
    store_gates(row->here, gradient, 2, hidden, units);
    store(row->here + 2 * hidden, ds, units);
}

/* The units of a row that is past its end: no gradient. */
static void backward_padding(const struct backward_row *row, int64_t gates, int64_t hidden,
                             int64_t units)
{
    for (int64_t gate = 0; gate < gates; gate++)
        for (int64_t u = 0; u < units; u++) {
            row->dinput[gate * hidden + u] = 0.0f;
            row->here[gate * hidden + u] = 0.0f;
        }
}

static void backward_units(const struct recurrent_backward *step, int64_t row, int64_t unit,
                           const float *sums)
{
    int64_t hidden = step->hidden, units = minimum(VECTOR, hidden - unit);
    int64_t gates = gates_of(step->cell);
    const struct backward_row arrays = {
        .sums = sums,
        .dy = at(&step->dy, row, unit),
        .memory = at(&step->memory, row, unit),
        .memory_before =
            at(is_first(&step->time, row) ? &step->memory_first : &step->memory_before, row, unit),
        .gates = at(&step->gates, row, unit),
        .here = step->here + row * gates * hidden + unit,
        .carried = step->carried + row * hidden + unit,
        .dinput = at(&step->dinput, row, unit)};

    if (is_past_end(&step->time, row))
        backward_padding(&arrays, gates, hidden, units);
    else if (step->cell == RECURRENT_LSTM)
        RUN_UNITS(lstm_backward, &arrays, hidden, units);
    else
        RUN_UNITS(gru_backward, &arrays, hidden, units);
}

/* The state's product, of the gradients of the step behind, for some rows and vectors of units. */
static void backward_product(const struct recurrent_backward *step, int64_t row, int64_t rows,
                             int64_t unit, int vectors, float *sums, struct amx_tiles *tiles)
{
    int64_t depth = gates_of(step->cell) * step->hidden;

    if (step->bfloat16)
        bfloat16_product(step->bfloat16, row, rows, vectors, unit, depth, sums, tiles);
    else
        multiply_rows(rows, vectors, step->behind ? step->behind + row * depth : NULL, depth,
                      step->weights + unit * depth, depth, sums);
}

static void round_gradients(const struct recurrent_backward *step, int64_t row, int64_t unit,
                            int64_t units)
{
    int64_t gates = gates_of(step->cell), hidden = step->hidden;

    for (int64_t gate = 0; gate < gates; gate++)
        round_units(step->bfloat16, row, gates * hidden, step->here + row * gates * hidden,
                    gate * hidden + unit, units);
}

void KERNEL_NAME(recurrent_backward)(const struct recurrent_backward *step, int64_t first_row,
                                     int64_t end_row, int64_t first_panel, int64_t end_panel)
{
    int64_t hidden = step->hidden;
    _Alignas(64) float sums[SUM_ROWS * VECTORS * VECTOR];
    struct amx_tiles tiles = {0};

    for (int64_t panel = first_panel; panel < end_panel; panel++) {
        int64_t unit = panel * VECTORS * VECTOR;
        int vectors = (int)(backward_width(hidden, unit) / VECTOR);

        for (int64_t row = first_row, rows; row < end_row; row += rows) {
            rows = rows_together(step->bfloat16 != NULL, row, end_row);
            prefetch(&step->gates, row, rows, unit, vectors * VECTOR, 4, hidden);
            prefetch(&step->dy, row, rows, unit, vectors * VECTOR, 1, hidden);
            prefetch(&step->memory, row, rows, unit, vectors * VECTOR, 1, hidden);
            prefetch(&step->memory_before, row, rows, unit, vectors * VECTOR, 1, hidden);
            backward_product(step, row, rows, unit, vectors, sums, &tiles);
            for (int64_t r = 0; r < rows; r++)
                for (int v = 0; v < vectors; v++)
                    backward_units(step, row + r, unit + v * VECTOR,
                                   sums + (r * VECTORS + v) * VECTOR);
            for (int64_t r = row; step->bfloat16 && r < row + rows; r++)
                round_gradients(step, r, unit, minimum(vectors * VECTOR, hidden - unit));
        }
    }
    KERNEL_NAME(amx_end_tiles)(&tiles);
}
