/* selective_scan.c: the selective scan (engine/graph/operators/selective_scan.c has the formulas)
 * and its gradients. A strip of channels, one register wide, goes through a chunk of SCAN_CHUNK
 * steps with SCAN_GROUP states in registers, then with the next states.
 *
 * Backward goes through the chunks from the last one on. Each makes its states anew from those kept
 * at its beginning, then walks back with the gradient by the state. The gradients of B and C are
 * sums over the channels: the strips add them up lane by lane, and each chunk adds the lanes. */
#include "engine/backends/cpu/kernels/kernels.h"
#include "engine/backends/cpu/kernels/vector.h"
#include "engine/backends/cpu/kernels/vector_lanes.h"
#include "engine/graph/forward.h"

_Static_assert((int)VECTOR <= (int)SCAN_STRIP, "scratch has room for a strip");

/* A strip of channels in a chunk of steps, counted in the order of the walk. */
struct chunk {
    const struct scan_task *task;
    int64_t channel; /* the first one */
    int width;       /* channels, at most VECTOR */
    int64_t number, first;
    int count;                                  /* steps */
    vector step[SCAN_CHUNK], input[SCAN_CHUNK]; /* softplus of delta; times u */
    vector y[SCAN_CHUNK];                       /* sum of C h */
};

/* The step of the chunk as it lies in memory. */
static ALWAYS_INLINE int64_t time_of(const struct chunk *chunk, int i)
{
    const struct scan_task *task = chunk->task;
    int64_t t = chunk->first + i;

    return task->reverse ? task->length - 1 - t : t;
}

static ALWAYS_INLINE int64_t place(const struct chunk *chunk, int i)
{
    return time_of(chunk, i) * chunk->task->row + chunk->channel;
}

static ALWAYS_INLINE void chunk_begin(struct chunk *chunk, const struct scan_task *task,
                                      int64_t number, int64_t channel, int width)
{
    int64_t left = task->length - number * SCAN_CHUNK;

    chunk->task = task;
    chunk->channel = channel;
    chunk->width = width;
    chunk->number = number;
    chunk->first = number * SCAN_CHUNK;
    chunk->count = (int)(left < SCAN_CHUNK ? left : SCAN_CHUNK);
    for (int i = 0; i < chunk->count; i++) {
        chunk->step[i] = lanes_softplus(lanes_load(task->delta + place(chunk, i), width));
        chunk->input[i] = chunk->step[i] * lanes_load(task->u + place(chunk, i), width);
        chunk->y[i] = (vector){0};
    }
}

/* Takes `group` states from n on through the chunk, beginning with h, which becomes the state at
 * its end. `decay` and `states` (NULL: not wanted) receive exp(step A) and the states behind each
 * step. */
static ALWAYS_INLINE void walk(struct chunk *chunk, int64_t n, int group, int width, vector *h,
                               vector *decay, vector *states)
{
    const struct scan_task *task = chunk->task;
    vector a[SCAN_GROUP], state[SCAN_GROUP];

    for (int k = 0; k < group; k++) {
        a[k] = lanes_load(task->a + (n + k) * task->row + chunk->channel, width);
        state[k] = h[k];
    }
    for (int i = 0; i < chunk->count; i++) {
        const float *b = task->b + time_of(chunk, i) * task->states + n;
        const float *c = task->c + time_of(chunk, i) * task->states + n;
        vector y = chunk->y[i];

        for (int k = 0; k < group; k++) {
            vector factor = lanes_exp(chunk->step[i] * a[k]);

            state[k] = factor * state[k] + chunk->input[i] * b[k];
            y += state[k] * c[k];
            if (decay) {
                decay[i * group + k] = factor;
                states[i * group + k] = state[k];
            }
        }
        chunk->y[i] = y;
    }
    for (int k = 0; k < group; k++)
        h[k] = state[k];
}

/* Adds D u and applies the gate. */
static ALWAYS_INLINE void write_results(const struct chunk *chunk, int width)
{
    const struct scan_task *task = chunk->task;
    vector d = lanes_load(task->d + chunk->channel, width);

    for (int i = 0; i < chunk->count; i++) {
        vector y = chunk->y[i] + d * lanes_load(task->u + place(chunk, i), width);

        if (task->z) {
            vector z = lanes_load(task->z + place(chunk, i), width);

            y *= z * lanes_sigmoid(z);
        }
        lanes_store(task->y + place(chunk, i), y, width);
    }
}

static int64_t chunk_count(const struct scan_task *task)
{
    return (task->length + SCAN_CHUNK - 1) / SCAN_CHUNK;
}

/* Where the states of the chunk are kept, from state n on. */
static ALWAYS_INLINE float *kept_at(const struct chunk *chunk, int64_t n)
{
    const struct scan_task *task = chunk->task;

    return task->kept + (chunk->number * task->states + n) * task->row + chunk->channel;
}

static ALWAYS_INLINE void scan_strip(const struct scan_task *task, int64_t channel, int width)
{
    vector *h = (vector *)(void *)task->scratch;
    struct chunk chunk;

    for (int64_t n = 0; n < task->states; n++)
        h[n] = (vector){0};
    for (int64_t number = 0; number < chunk_count(task); number++) {
        int64_t n = 0;

        chunk_begin(&chunk, task, number, channel, width);
        for (int64_t k = 0; task->kept && k < task->states; k++)
            lanes_store(kept_at(&chunk, k), h[k], width);
        for (; n + SCAN_GROUP <= task->states; n += SCAN_GROUP)
            walk(&chunk, n, SCAN_GROUP, width, h + n, NULL, NULL);
        for (; n < task->states; n++)
            walk(&chunk, n, 1, width, h + n, NULL, NULL);
        write_results(&chunk, width);
    }
}

void KERNEL_NAME(selective_scan)(const struct scan_task *task)
{
    int64_t channel = 0;

    for (; channel + VECTOR <= task->channels; channel += VECTOR)
        scan_strip(task, channel, VECTOR);
    if (channel < task->channels)
        scan_strip(task, channel, (int)(task->channels - channel));
}

/* ---- backward -------------------------------------------------------------------------------- */

/* The parts of the scratch, in registers. */
struct backward {
    vector *g;                   /* [strip][state]: what the steps behind pass on */
    vector *db, *dc;             /* [step][state]: sums over the strips */
    vector *decay, *states;      /* [step][state of the group] */
    vector *dy, *dstep, *dinput; /* [step] */
};

static struct backward backward_begin(const struct scan_task *task)
{
    int64_t strips = (task->channels + VECTOR - 1) / VECTOR;
    struct backward b;

    b.g = (vector *)(void *)task->scratch;
    b.db = b.g + strips * task->states;
    b.dc = b.db + SCAN_CHUNK * task->states;
    b.decay = b.dc + SCAN_CHUNK * task->states;
    b.states = b.decay + SCAN_CHUNK * SCAN_GROUP;
    b.dy = b.states + SCAN_CHUNK * SCAN_GROUP;
    b.dstep = b.dy + SCAN_CHUNK;
    b.dinput = b.dstep + SCAN_CHUNK;
    for (int64_t i = 0; i < strips * task->states; i++)
        b.g[i] = (vector){0};
    return b;
}

/* Walks `group` states from n on back through the chunk; `g` as struct backward has it. */
static ALWAYS_INLINE void walk_back(const struct chunk *chunk, const struct backward *back,
                                    int64_t n, int group, int width, vector *g)
{
    const struct scan_task *task = chunk->task;
    vector a[SCAN_GROUP], da[SCAN_GROUP], h[SCAN_GROUP], carried[SCAN_GROUP];

    for (int k = 0; k < group; k++) {
        a[k] = lanes_load(task->a + (n + k) * task->row + chunk->channel, width);
        da[k] = (vector){0};
        h[k] = lanes_load(kept_at(chunk, n + k), width);
        carried[k] = g[k];
    }
    for (int i = chunk->count - 1; i >= 0; i--) {
        const float *b = task->b + time_of(chunk, i) * task->states + n;
        const float *c = task->c + time_of(chunk, i) * task->states + n;
        vector *db = back->db + i * task->states + n, *dc = back->dc + i * task->states + n;
        vector dstep = back->dstep[i], dinput = back->dinput[i];

        for (int k = 0; k < group; k++) {
            vector before = i ? back->states[(i - 1) * group + k] : h[k];
            vector dh = carried[k] + back->dy[i] * c[k];

            dc[k] += back->dy[i] * back->states[i * group + k];
            db[k] += dh * chunk->input[i];
            dinput += dh * b[k];
            carried[k] = dh * back->decay[i * group + k];
            dstep += carried[k] * before * a[k];
            da[k] += carried[k] * before * chunk->step[i];
        }
        back->dstep[i] = dstep;
        back->dinput[i] = dinput;
    }
    for (int k = 0; k < group; k++) {
        float *sum = task->da + (n + k) * task->row + chunk->channel;

        g[k] = carried[k];
        lanes_store(sum, lanes_load(sum, width) + da[k], width);
    }
}

static ALWAYS_INLINE void group_back(struct chunk *chunk, const struct backward *back, int64_t n,
                                     int group, int width, vector *g)
{
    vector h[SCAN_GROUP];

    for (int k = 0; k < group; k++)
        h[k] = lanes_load(kept_at(chunk, n + k), width);
    walk(chunk, n, group, width, h, back->decay, back->states);
    walk_back(chunk, back, n, group, width, g);
}

/* The gradient by the sum of C h and D u: behind the gate. */
static ALWAYS_INLINE void begin_back(const struct chunk *chunk, const struct backward *back,
                                     int width)
{
    const struct scan_task *task = chunk->task;

    for (int i = 0; i < chunk->count; i++) {
        vector dy = lanes_load(task->dy + place(chunk, i), width);

        if (task->z) {
            vector z = lanes_load(task->z + place(chunk, i), width);

            dy *= z * lanes_sigmoid(z);
        }
        back->dy[i] = dy;
        back->dstep[i] = back->dinput[i] = (vector){0};
    }
}

/* du, ddelta, dz, and the sum dd. */
static ALWAYS_INLINE void end_back(const struct chunk *chunk, const struct backward *back,
                                   int width)
{
    const struct scan_task *task = chunk->task;
    float *sum = task->dd + chunk->channel;
    vector d = lanes_load(task->d + chunk->channel, width), dd = lanes_load(sum, width);

    for (int i = 0; i < chunk->count; i++) {
        const int64_t at = place(chunk, i);
        vector u = lanes_load(task->u + at, width);
        vector dstep = back->dstep[i] + back->dinput[i] * u;

        dd += back->dy[i] * u;
        lanes_store(task->du + at, back->dinput[i] * chunk->step[i] + back->dy[i] * d, width);
        lanes_store(task->ddelta + at, dstep * lanes_sigmoid(lanes_load(task->delta + at, width)),
                    width);
        if (task->z) {
            vector z = lanes_load(task->z + at, width), s = lanes_sigmoid(z);
            vector y = chunk->y[i] + d * u;

            lanes_store(task->dz + at,
                        lanes_load(task->dy + at, width) * y * s * (1.0f + z * (1.0f - s)), width);
        }
    }
    lanes_store(sum, dd, width);
}

static ALWAYS_INLINE void strip_back(const struct scan_task *task, const struct backward *back,
                                     int64_t number, int64_t channel, int width)
{
    vector *g = back->g + channel / VECTOR * task->states;
    struct chunk chunk;
    int64_t n = 0;

    chunk_begin(&chunk, task, number, channel, width);
    begin_back(&chunk, back, width);
    for (; n + SCAN_GROUP <= task->states; n += SCAN_GROUP)
        group_back(&chunk, back, n, SCAN_GROUP, width, g + n);
    for (; n < task->states; n++)
        group_back(&chunk, back, n, 1, width, g + n);
    end_back(&chunk, back, width);
}

/* Adds the lanes of the chunk's sums to db and dc. */
static void add_lanes(const struct scan_task *task, const struct backward *back, int64_t number)
{
    int64_t first = number * SCAN_CHUNK, left = task->length - first;
    int64_t count = left < SCAN_CHUNK ? left : SCAN_CHUNK;

    for (int64_t i = 0; i < count; i++) {
        int64_t t = task->reverse ? task->length - 1 - first - i : first + i;

        for (int64_t n = 0; n < task->states; n++) {
            task->db[t * task->states + n] += lanes_sum(back->db[i * task->states + n]);
            task->dc[t * task->states + n] += lanes_sum(back->dc[i * task->states + n]);
        }
    }
}

void KERNEL_NAME(selective_scan_backward)(const struct scan_task *task)
{
    struct backward back = backward_begin(task);

    for (int64_t number = chunk_count(task); number-- > 0;) {
        int64_t channel = 0;

        for (int64_t i = 0; i < SCAN_CHUNK * task->states; i++)
            back.db[i] = back.dc[i] = (vector){0};
        for (; channel + VECTOR <= task->channels; channel += VECTOR)
            strip_back(task, &back, number, channel, VECTOR);
        if (channel < task->channels)
            strip_back(task, &back, number, channel, (int)(task->channels - channel));
        add_lanes(task, &back, number);
    }
}
