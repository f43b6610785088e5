/* batch_norm.c: the elementwise part of batch normalisation, over images or matrices in any layout
 * (struct image_layout): Ioffe and Szegedy 2015, arXiv:1502.03167. Memory bounds these passes, so
 * the sum and the activation behind the normalisation, and their gradients, are computed in the
 * same passes. */
#include "engine/backends/cpu/kernels/row_walk.h"
#include "engine/backends/cpu/kernels/vector.h"
#include "engine/backends/cpu/kernels/vector_math.h"

enum { NO_ACTIVATION = -1 };

static ALWAYS_INLINE float activate(const int activation, float x)
{
    switch (activation) {
    case ACTIVATION_RELU: /* this form keeps a NaN, as PyTorch does */
        return x < 0.0f ? 0.0f : x;
    case ACTIVATION_SILU:
        return vector_silu(x);
    case ACTIVATION_HARDSWISH:
        return vector_hardswish(x);
    default:
        return x;
    }
}

/* The gradient with respect to the activation's input x, given that with respect to its result. */
static ALWAYS_INLINE float activate_backward(const int activation, float dy, float x)
{
    switch (activation) {
    case ACTIVATION_RELU:
        return x > 0.0f ? dy : 0.0f;
    case ACTIVATION_SILU:
        return dy * vector_silu_slope(x);
    case ACTIVATION_HARDSWISH:
        return dy * vector_hardswish_slope(x);
    default:
        return dy;
    }
}

/* ---- forward --------------------------------------------------------------------------------- */

/* `addend` may be NULL. Whether it is, the width and the activation are constants at each call. */
static ALWAYS_INLINE void apply_strip(const float *x, const struct image_layout *layout,
                                      const int64_t width, const float *factor, const float *offset,
                                      const float *addend, const int activation, float *y)
{
    float a[STRIP], b[STRIP];

    for (int64_t k = 0; k < width; k++) {
        a[k] = factor[k];
        b[k] = offset[k];
    }
#pragma GCC ivdep
    for (int64_t p = 0; p < layout->pixels; p++)
#pragma GCC ivdep
        for (int64_t k = 0; k < width; k++) {
            int64_t i = p * layout->block + k;
            float value = x[i] * a[k] + b[k];

            if (addend)
                value += addend[i];
            y[i] = activate(activation, value);
        }
}

static ALWAYS_INLINE void apply_plane(const float *x, int64_t pixels, float factor, float offset,
                                      const float *addend, const int activation, float *y)
{
#pragma GCC ivdep
    for (int64_t p = 0; p < pixels; p++) {
        float value = x[p] * factor + offset;

        if (addend)
            value += addend[p];
        y[p] = activate(activation, value);
    }
}

static ALWAYS_INLINE void apply_rows(const float *x, const struct row_walk *walk,
                                     const float *factor, const float *offset, const float *addend,
                                     const int activation, float *y)
{
    float a[WALK], b[WALK];

    row_walk_repeat(walk, factor, a);
    row_walk_repeat(walk, offset, b);
    for (int64_t r = 0; r < walk->rows; r += walk->together) {
        int64_t place = r * walk->channels + walk->first, count = row_walk_count(walk, r);
        const float *from = x + place, *more = addend ? addend + place : NULL;
        float *to = y + place;

#pragma GCC ivdep
        for (int64_t k = 0; k < count; k++) {
            float value = from[k] * a[k] + b[k];

            if (more)
                value += more[k];
            to[k] = activate(activation, value);
        }
    }
}

static ALWAYS_INLINE void apply_all(const float *x, const struct image_layout *layout,
                                    const float *factor, const float *offset, const float *addend,
                                    const int activation, float *y)
{
    for (int64_t c = 0; walks_rows(layout) && c < layout->channels; c += WALK) {
        struct row_walk walk = row_walk_at(layout, c);

        apply_rows(x, &walk, factor, offset, addend, activation, y);
    }
    for (int64_t n = walks_rows(layout) ? layout->samples : 0; n < layout->samples; n++)
        for (int64_t c = 0; c < layout->channels;) {
            int64_t place = place_of(layout, n, c), width = strip_width(layout, c);
            const float *more = addend ? addend + place : NULL;

            if (layout->block == 1)
                apply_plane(x + place, layout->pixels, factor[c], offset[c], more, activation,
                            y + place);
            else if (width == STRIP)
                apply_strip(x + place, layout, STRIP, factor + c, offset + c, more, activation,
                            y + place);
            else if (width == STRIP / 2)
                apply_strip(x + place, layout, STRIP / 2, factor + c, offset + c, more, activation,
                            y + place);
            else
                apply_strip(x + place, layout, width, factor + c, offset + c, more, activation,
                            y + place);
            c += width;
        }
}

static ALWAYS_INLINE void apply_activation(const float *x, const struct image_layout *layout,
                                           const float *factor, const float *offset,
                                           const float *addend, int activation, float *y)
{
    if (activation == ACTIVATION_RELU)
        apply_all(x, layout, factor, offset, addend, ACTIVATION_RELU, y);
    else if (activation == ACTIVATION_SILU)
        apply_all(x, layout, factor, offset, addend, ACTIVATION_SILU, y);
    else if (activation == ACTIVATION_HARDSWISH)
        apply_all(x, layout, factor, offset, addend, ACTIVATION_HARDSWISH, y);
    else
        apply_all(x, layout, factor, offset, addend, NO_ACTIVATION, y);
}

void KERNEL_NAME(batch_norm_apply)(const float *x, const struct image_layout *layout,
                                   const float *factor, const float *offset, const float *addend,
                                   int activation, float *y)
{
    if (addend)
        apply_activation(x, layout, factor, offset, addend, activation, y);
    else
        apply_activation(x, layout, factor, offset, NULL, activation, y);
}

/* ---- backward -------------------------------------------------------------------------------- */

/* How to compute the gradient with respect to the normalisation's own result. It is constant at
 * each call. */
struct source {
    bool masks, adds; /* masks: 0 where `result` is not above 0; adds: `other` is added first */
    int activation;   /* behind the normalisation: its derivative is applied; or NO_ACTIVATION */
};

static const struct source given = {.activation = NO_ACTIVATION};

/* The gradient at element i, which is also written to `masked` if the source masks. */
static ALWAYS_INLINE float gradient_at(const struct source source,
                                       const struct batch_norm_gradient *g, int64_t i, float x,
                                       float factor, float offset)
{
    float d = g->dy[i];

    if (source.adds)
        d += g->other[i];
    if (source.masks) {
        d = activate_backward(ACTIVATION_RELU, d, g->result[i]);
        g->masked[i] = d;
    }
    return source.activation == NO_ACTIVATION
               ? d
               : activate_backward(source.activation, d, x * factor + offset);
}

static ALWAYS_INLINE void sums_strip(const struct source source, const float *x,
                                     const struct batch_norm_gradient *g,
                                     const struct image_layout *layout, int64_t c,
                                     const int64_t width, const float *mean, float *sum_dy,
                                     float *sum_dy_x)
{
    double total[STRIP] = {0}, total_x[STRIP] = {0};
    float a[STRIP] = {0}, b[STRIP] = {0}, center[STRIP];

    for (int64_t k = 0; k < width; k++) {
        center[k] = mean[c + k];
        if (source.activation != NO_ACTIVATION) {
            a[k] = g->factor[c + k];
            b[k] = g->offset[c + k];
        }
    }
    for (int64_t n = 0; n < layout->samples; n++) {
        const struct batch_norm_gradient local = *g;
        int64_t place = place_of(layout, n, c);
        float partial[STRIP] = {0}, partial_x[STRIP] = {0};

#pragma GCC ivdep
        for (int64_t p = 0; p < layout->pixels; p++)
#pragma GCC ivdep
            for (int64_t k = 0; k < width; k++) {
                int64_t i = place + p * layout->block + k;
                float value = x[i], d = gradient_at(source, &local, i, value, a[k], b[k]);

                partial[k] += d;
                partial_x[k] += d * (value - center[k]);
            }
        for (int64_t k = 0; k < width; k++) {
            total[k] += partial[k];
            total_x[k] += partial_x[k];
        }
    }
    for (int64_t k = 0; k < width; k++) {
        sum_dy[c + k] = (float)total[k];
        sum_dy_x[c + k] = (float)total_x[k];
    }
}

static ALWAYS_INLINE void sums_plane(const struct source source, const float *x,
                                     const struct batch_norm_gradient *g,
                                     const struct image_layout *layout, int64_t c, float mean,
                                     float *sum_dy, float *sum_dy_x)
{
    const bool activates = source.activation != NO_ACTIVATION;
    const float a = activates ? g->factor[c] : 0, b = activates ? g->offset[c] : 0;
    const struct batch_norm_gradient local = *g;
    double total = 0, total_x = 0;

    for (int64_t n = 0; n < layout->samples; n++) {
        int64_t place = place_of(layout, n, c);
#pragma omp simd reduction(+ : total, total_x)
        for (int64_t p = 0; p < layout->pixels; p++) {
            float value = x[place + p], d = gradient_at(source, &local, place + p, value, a, b);

            total += d;
            total_x += (double)d * (value - mean);
        }
    }
    *sum_dy = (float)total;
    *sum_dy_x = (float)total_x;
}

static ALWAYS_INLINE void sums_rows(const struct source source, const float *x,
                                    const struct batch_norm_gradient *g,
                                    const struct row_walk *walk, const float *mean, float *sum_dy,
                                    float *sum_dy_x)
{
    const struct batch_norm_gradient local = *g;
    double total[WALK] = {0}, total_x[WALK] = {0};
    float partial[WALK] = {0}, partial_x[WALK] = {0}, center[WALK], a[WALK] = {0}, b[WALK] = {0};

    row_walk_repeat(walk, mean, center);
    if (source.activation != NO_ACTIVATION) {
        row_walk_repeat(walk, g->factor, a);
        row_walk_repeat(walk, g->offset, b);
    }
    for (int64_t r = 0, taken = 1; r < walk->rows; r += walk->together, taken++) {
        int64_t place = r * walk->channels + walk->first, count = row_walk_count(walk, r);
        const float *row = x + place;

#pragma GCC ivdep
        for (int64_t k = 0; k < count; k++) {
            float value = row[k], d = gradient_at(source, &local, place + k, value, a[k], b[k]);

            partial[k] += d;
            partial_x[k] += d * (value - center[k]);
        }
        if (taken % FOLD == 0 || r + walk->together >= walk->rows) {
            row_walk_fold(walk, partial, total);
            row_walk_fold(walk, partial_x, total_x);
        }
    }
    for (int64_t k = 0; k < walk->width; k++) {
        sum_dy[walk->first + k] = (float)total[k];
        sum_dy_x[walk->first + k] = (float)total_x[k];
    }
}

static ALWAYS_INLINE void sums_all(const struct source source, const float *x,
                                   const struct batch_norm_gradient *g,
                                   const struct image_layout *layout, const float *mean,
                                   float *sum_dy, float *sum_dy_x)
{
    for (int64_t c = 0; walks_rows(layout) && c < layout->channels; c += WALK) {
        struct row_walk walk = row_walk_at(layout, c);

        sums_rows(source, x, g, &walk, mean, sum_dy, sum_dy_x);
    }
    for (int64_t c = walks_rows(layout) ? layout->channels : 0; c < layout->channels;) {
        int64_t width = strip_width(layout, c);

        if (layout->block == 1)
            sums_plane(source, x, g, layout, c, mean[c], sum_dy + c, sum_dy_x + c);
        else if (width == STRIP)
            sums_strip(source, x, g, layout, c, STRIP, mean, sum_dy, sum_dy_x);
        else if (width == STRIP / 2)
            sums_strip(source, x, g, layout, c, STRIP / 2, mean, sum_dy, sum_dy_x);
        else
            sums_strip(source, x, g, layout, c, width, mean, sum_dy, sum_dy_x);
        c += width;
    }
}

static struct source source_of(const struct batch_norm_gradient *g)
{
    return (struct source){.masks = g->result,
                           .adds = g->other,
                           .activation = g->factor ? g->activation : NO_ACTIVATION};
}

void KERNEL_NAME(batch_norm_backward_sums)(const float *x, const struct batch_norm_gradient *g,
                                           const struct image_layout *layout, const float *mean,
                                           float *sum_dy, float *sum_dy_x)
{
    static const struct source masked = {.masks = true, .activation = NO_ACTIVATION};
    static const struct source added = {.masks = true, .adds = true, .activation = NO_ACTIVATION};
    static const struct source relu = {.activation = ACTIVATION_RELU};
    static const struct source silu = {.activation = ACTIVATION_SILU};
    static const struct source hardswish = {.activation = ACTIVATION_HARDSWISH};
    const struct source source = source_of(g);

    if (source.masks && source.adds)
        sums_all(added, x, g, layout, mean, sum_dy, sum_dy_x);
    else if (source.masks)
        sums_all(masked, x, g, layout, mean, sum_dy, sum_dy_x);
    else if (source.activation == ACTIVATION_RELU)
        sums_all(relu, x, g, layout, mean, sum_dy, sum_dy_x);
    else if (source.activation == ACTIVATION_SILU)
        sums_all(silu, x, g, layout, mean, sum_dy, sum_dy_x);
    else if (source.activation == ACTIVATION_HARDSWISH)
        sums_all(hardswish, x, g, layout, mean, sum_dy, sum_dy_x);
    else
        sums_all(given, x, g, layout, mean, sum_dy, sum_dy_x);
}

/* Coefficients of the gradient d and of x: dx = d a[c] + (x - mean[c]) b[c] + e[c]. */
struct applied {
    const float *mean, *a, *b, *e;
};

static ALWAYS_INLINE void backward_strip(const struct source source, const float *x,
                                         const struct batch_norm_gradient *g,
                                         const struct image_layout *layout, int64_t place,
                                         int64_t c, const int64_t width,
                                         const struct applied *applied, float *dx)
{
    const struct batch_norm_gradient local = *g;
    float factor[STRIP] = {0}, offset[STRIP] = {0}, mean[STRIP], a[STRIP], b[STRIP], e[STRIP];

    for (int64_t k = 0; k < width; k++) {
        mean[k] = applied->mean[c + k];
        a[k] = applied->a[c + k];
        b[k] = applied->b[c + k];
        e[k] = applied->e[c + k];
        if (source.activation != NO_ACTIVATION) {
            factor[k] = g->factor[c + k];
            offset[k] = g->offset[c + k];
        }
    }
#pragma GCC ivdep
    for (int64_t p = 0; p < layout->pixels; p++)
#pragma GCC ivdep
        for (int64_t k = 0; k < width; k++) {
            int64_t i = place + p * layout->block + k;
            float d = gradient_at(source, &local, i, x[i], factor[k], offset[k]);

            dx[i] = d * a[k] + (x[i] - mean[k]) * b[k] + e[k];
        }
}

static ALWAYS_INLINE void backward_plane(const struct source source, const float *x,
                                         const struct batch_norm_gradient *g, int64_t pixels,
                                         int64_t place, int64_t c, const struct applied *applied,
                                         float *dx)
{
    const bool activates = source.activation != NO_ACTIVATION;
    const float factor = activates ? g->factor[c] : 0, offset = activates ? g->offset[c] : 0;
    const float mean = applied->mean[c], a = applied->a[c], b = applied->b[c], e = applied->e[c];
    const struct batch_norm_gradient local = *g;

#pragma GCC ivdep
    for (int64_t i = place; i < place + pixels; i++) {
        float d = gradient_at(source, &local, i, x[i], factor, offset);

        dx[i] = d * a + (x[i] - mean) * b + e;
    }
}

static ALWAYS_INLINE void backward_rows(const struct source source, const float *x,
                                        const struct batch_norm_gradient *g,
                                        const struct row_walk *walk, const struct applied *applied,
                                        float *dx)
{
    const struct batch_norm_gradient local = *g;
    float factor[WALK] = {0}, offset[WALK] = {0}, mean[WALK], a[WALK], b[WALK], e[WALK];

    row_walk_repeat(walk, applied->mean, mean);
    row_walk_repeat(walk, applied->a, a);
    row_walk_repeat(walk, applied->b, b);
    row_walk_repeat(walk, applied->e, e);
    if (source.activation != NO_ACTIVATION) {
        row_walk_repeat(walk, g->factor, factor);
        row_walk_repeat(walk, g->offset, offset);
    }
    for (int64_t r = 0; r < walk->rows; r += walk->together) {
        int64_t place = r * walk->channels + walk->first, count = row_walk_count(walk, r);

#pragma GCC ivdep
        for (int64_t k = 0; k < count; k++) {
            float value = x[place + k];
            float d = gradient_at(source, &local, place + k, value, factor[k], offset[k]);

            dx[place + k] = d * a[k] + (value - mean[k]) * b[k] + e[k];
        }
    }
}

static ALWAYS_INLINE void backward_all(const struct source source, const float *x,
                                       const struct batch_norm_gradient *g,
                                       const struct image_layout *layout,
                                       const struct applied *applied, float *dx)
{
    for (int64_t c = 0; walks_rows(layout) && c < layout->channels; c += WALK) {
        struct row_walk walk = row_walk_at(layout, c);

        backward_rows(source, x, g, &walk, applied, dx);
    }
    for (int64_t n = walks_rows(layout) ? layout->samples : 0; n < layout->samples; n++)
        for (int64_t c = 0; c < layout->channels;) {
            int64_t place = place_of(layout, n, c), width = strip_width(layout, c);

            if (layout->block == 1)
                backward_plane(source, x, g, layout->pixels, place, c, applied, dx);
            else if (width == STRIP)
                backward_strip(source, x, g, layout, place, c, STRIP, applied, dx);
            else if (width == STRIP / 2)
                backward_strip(source, x, g, layout, place, c, STRIP / 2, applied, dx);
            else
                backward_strip(source, x, g, layout, place, c, width, applied, dx);
            c += width;
        }
}

void KERNEL_NAME(batch_norm_backward_apply)(const float *x, const struct batch_norm_gradient *g,
                                            const struct image_layout *layout, const float *mean,
                                            const float *a, const float *b, const float *e,
                                            float *dx)
{
    static const struct source relu = {.activation = ACTIVATION_RELU};
    static const struct source silu = {.activation = ACTIVATION_SILU};
    static const struct source hardswish = {.activation = ACTIVATION_HARDSWISH};
    const struct applied applied = {mean, a, b, e};
    /* the pass of the sums has stored the gradient after masking and adding */
    const struct batch_norm_gradient stored = {.dy = g->masked};
    const int activation = source_of(g).activation;

    if (g->result)
        backward_all(given, x, &stored, layout, &applied, dx);
    else if (activation == ACTIVATION_RELU)
        backward_all(relu, x, g, layout, &applied, dx);
    else if (activation == ACTIVATION_SILU)
        backward_all(silu, x, g, layout, &applied, dx);
    else if (activation == ACTIVATION_HARDSWISH)
        backward_all(hardswish, x, g, layout, &applied, dx);
    else
        backward_all(given, x, g, layout, &applied, dx);
}
