/* initial_weights.c: see initial_weights.h. Uniform: 24 random bits onto [-bound, bound). Normal:
 * Box and Muller 1958, "A note on the generation of random normal deviates", both deviates used. */
#include "engine/train/initial_weights.h"

#include "base/philox.h"

#include <math.h>

static float uniform_value(const struct philox *draw, int lane, float bound)
{
    return bound * (2.0f * philox_uniform(draw->word[lane]) - 1.0f);
}

static float normal_value(const struct philox *draw, int lane, float deviation)
{
    double u = 1.0 - (double)philox_uniform(draw->word[lane & 2]); /* (0, 1] */
    double angle = 2 * M_PI * (double)philox_uniform(draw->word[(lane & 2) + 1]);
    double radius = sqrt(-2 * log(u));

    return deviation * (float)(radius * (lane & 1 ? sin(angle) : cos(angle)));
}

void initial_weights_draw(const struct initializer *initializer, uint64_t seed, uint32_t number,
                          float *values, int64_t count)
{
    uint64_t stream = philox_stream(PHILOX_INITIAL_WEIGHTS, number);
    struct philox draw = {{0}};

    for (int64_t i = 0; i < count; i++) {
        int lane = (int)(i & 3);

        if (lane == 0 && initializer->kind >= INITIALIZER_UNIFORM)
            draw = philox_draw(seed, stream, (uint64_t)i / 4);
        switch (initializer->kind) {
        case INITIALIZER_ZEROS:
            values[i] = 0;
            break;
        case INITIALIZER_ONES:
            values[i] = 1;
            break;
        case INITIALIZER_UNIFORM:
            values[i] = uniform_value(&draw, lane, initializer->bound);
            break;
        case INITIALIZER_NORMAL:
            values[i] = normal_value(&draw, lane, initializer->bound);
            break;
        }
    }
}
