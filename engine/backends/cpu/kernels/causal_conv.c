/* causal_conv.c: a convolution of each channel over the steps before it. A strip of channels, one
 * register wide, goes through all steps. */
#include "engine/backends/cpu/kernels/kernels.h"
#include "engine/backends/cpu/kernels/vector.h"
#include "engine/backends/cpu/kernels/vector_lanes.h"
#include "engine/graph/forward.h"

enum { BLOCK = 64 };

struct strip {
    const struct causal_conv_task *task;
    int64_t first; /* channel */
    int width;     /* channels, at most VECTOR */
    vector weight[CAUSAL_KERNEL_MAX], bias;
};

static struct strip strip_begin(const struct causal_conv_task *task, int64_t first)
{
    struct strip strip = {
        .task = task,
        .first = first,
        .width = (int)(task->channels - first < VECTOR ? task->channels - first : VECTOR)};
    float lanes[VECTOR] = {0};

    for (int k = 0; k < task->kernel; k++) {
        for (int i = 0; i < strip.width; i++)
            lanes[i] = task->weight[(first + i) * task->kernel + k];
        strip.weight[k] = lanes_load(lanes, VECTOR);
    }
    strip.bias = lanes_load(task->bias + first, strip.width);
    return strip;
}

/* Where step `t` in the order of the walk begins. */
static ALWAYS_INLINE int64_t place(const struct strip *strip, int64_t t)
{
    const struct causal_conv_task *task = strip->task;

    return (task->reverse ? task->length - 1 - t : t) * task->row + strip->first;
}

/* The result of step t without its activation. */
static ALWAYS_INLINE vector convolve(const struct strip *strip, int64_t t, int kernel, int width)
{
    vector sum = strip->bias;

    for (int k = 0; k < kernel; k++) {
        int64_t from = t - (kernel - 1) + k;

        if (from >= 0)
            sum += strip->weight[k] * lanes_load(strip->task->x + place(strip, from), width);
    }
    return sum;
}

static ALWAYS_INLINE void forward(const struct strip *strip, int kernel, int width)
{
    const struct causal_conv_task *task = strip->task;

    for (int64_t t = 0; t < task->length; t++) {
        vector y = convolve(strip, t, kernel, width);

        if (task->silu)
            y *= lanes_sigmoid(y);
        lanes_store(task->y + place(strip, t), y, width);
    }
}

void KERNEL_NAME(causal_conv)(const struct causal_conv_task *task)
{
    for (int64_t first = 0; first < task->channels; first += VECTOR) {
        struct strip strip = strip_begin(task, first);

        if (task->kernel == 4 && strip.width == VECTOR)
            forward(&strip, 4, VECTOR);
        else
            forward(&strip, task->kernel, strip.width);
    }
}

/* The gradient by the result of step t without its activation. */
static ALWAYS_INLINE vector gradient(const struct strip *strip, int64_t t, int kernel, int width)
{
    const struct causal_conv_task *task = strip->task;
    vector dy = lanes_load(task->dy + place(strip, t), width);

    if (!task->silu)
        return dy;

    vector y = convolve(strip, t, kernel, width), s = lanes_sigmoid(y);
    return dy * s * (1.0f + y * (1.0f - s));
}

/* In blocks of steps: their gradients behind the last kernel - 1 ones of the block before, from
 * which dx of the step kernel - 1 earlier follows. */
static ALWAYS_INLINE void backward(const struct strip *strip, int kernel, int width)
{
    const struct causal_conv_task *task = strip->task;
    vector d[CAUSAL_KERNEL_MAX - 1 + BLOCK], dweight[CAUSAL_KERNEL_MAX] = {0}, dbias = {0};
    const int before = kernel - 1;
    float lanes[VECTOR];

    for (int i = 0; i < before; i++)
        d[i] = (vector){0};
    for (int64_t start = 0; start < task->length + before; start += BLOCK) {
        int64_t left = task->length + before - start;
        int count = (int)(left < BLOCK ? left : BLOCK);

        for (int i = 0; i < count; i++) {
            const int64_t t = start + i;

            d[before + i] = (vector){0};
            if (t < task->length) {
                d[before + i] = gradient(strip, t, kernel, width);
                dbias += d[before + i];
                for (int k = 0; k < kernel; k++)
                    if (t - before + k >= 0)
                        dweight[k] += d[before + i] *
                                      lanes_load(task->x + place(strip, t - before + k), width);
            }
            if (t >= before) {
                vector dx = {0};

                for (int k = 0; k < kernel; k++)
                    dx += strip->weight[k] * d[i + before - k];
                lanes_store(task->dx + place(strip, t - before), dx, width);
            }
        }
        for (int i = 0; i < before; i++)
            d[i] = d[count + i];
    }
    for (int k = 0; k < kernel; k++) {
        lanes_store(lanes, dweight[k], VECTOR);
        for (int i = 0; i < width; i++)
            task->dweight[(strip->first + i) * kernel + k] += lanes[i];
    }
    lanes_store(lanes, dbias, VECTOR);
    for (int i = 0; i < width; i++)
        task->dbias[strip->first + i] += lanes[i];
}

void KERNEL_NAME(causal_conv_backward)(const struct causal_conv_task *task)
{
    for (int64_t first = 0; first < task->channels; first += VECTOR) {
        struct strip strip = strip_begin(task, first);

        if (task->kernel == 4 && strip.width == VECTOR)
            backward(&strip, 4, VECTOR);
        else
            backward(&strip, task->kernel, strip.width);
    }
}
