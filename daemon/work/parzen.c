/* parzen.c: see parzen.h. */
#include "daemon/work/parzen.h"

#include "base/memory.h"
#include "base/philox.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

enum { CANDIDATES = 24, GOOD_MAX = 25, RECENT = 25, DRAWS_MAX = 256 };
static const double PRIOR_WEIGHT = 1, KERNELS_TOLD_APART = 100;

/* A mixture of one kernel for each value and a wide one, the prior. Of a number the kernels are
 * normal densities, cut off at the ends of the range. */
struct mixture {
    double low,
        high; /* of the range: of an integer half a step wider, of a logarithm its logarithm */
    size_t count;
    double *weights;          /* sum 1 */
    double *centres, *widths; /* of numbers */
    double *choices;          /* of choices: the index; the prior has -1 */
    size_t choice_count;
};

size_t parzen_good_count(size_t count)
{
    size_t good = (count + 9) / 10;

    return good < GOOD_MAX ? good : GOOD_MAX;
}

/* ---- the densities --------------------------------------------------------------------------- */

static void mixture_release(struct mixture *mixture)
{
    free(mixture->weights);
    free(mixture->centres);
    free(mixture->widths);
    free(mixture->choices);
}

/* The latest 25 values count 1; from the oldest one on, weights rise from 1/n to that. */
static void fill_weights(struct mixture *mixture, size_t values)
{
    size_t ramp = values > RECENT ? values - RECENT : 0;
    double sum = PRIOR_WEIGHT;

    for (size_t i = 0; i < values; i++) {
        double first = 1 / (double)values;

        mixture->weights[i] =
            i >= ramp ? 1 : first + (ramp > 1 ? (1 - first) * (double)i / (double)(ramp - 1) : 0);
        sum += mixture->weights[i];
    }
    mixture->weights[values] = PRIOR_WEIGHT;
    for (size_t i = 0; i <= values; i++)
        mixture->weights[i] /= sum;
}

struct place {
    double centre;
    size_t index;
};

static int compare_places(const void *first, const void *second)
{
    const struct place *a = first, *b = second;

    return a->centre != b->centre ? (a->centre > b->centre) - (a->centre < b->centre)
                                  : (a->index > b->index) - (a->index < b->index);
}

/* A kernel is as wide as the larger distance to its two neighbours, within bounds. The ends of the
 * range are no neighbours. The prior, which is the last kernel, is as wide as the range. */
static void fill_widths(struct mixture *mixture)
{
    double range = fmin(mixture->high - mixture->low, DBL_MAX);
    double least = range / fmin(KERNELS_TOLD_APART, 1 + (double)mixture->count);
    struct place *places = memory_zero(mixture->count * sizeof *places);

    for (size_t i = 0; i < mixture->count; i++)
        places[i] = (struct place){mixture->centres[i], i};
    qsort(places, mixture->count, sizeof *places, compare_places);
    for (size_t i = 0; i < mixture->count; i++) {
        double left = i > 0 ? places[i].centre - places[i - 1].centre : 0;
        double right = i + 1 < mixture->count ? places[i + 1].centre - places[i].centre : 0;

        mixture->widths[places[i].index] = fmin(fmax(fmax(left, right), least), range);
    }
    mixture->widths[mixture->count - 1] = range;
    free(places);
}

static double transform(const struct parzen_axis *axis, double value)
{
    return axis->logarithmic ? log(value) : value;
}

static struct mixture mixture_make(const struct parzen_axis *axis, const double *values,
                                   size_t count)
{
    double margin = axis->integer ? 0.5 : 0;
    struct mixture mixture = {.count = count + 1, .choice_count = axis->choices};

    mixture.weights = memory_zero((count + 1) * sizeof(double));
    fill_weights(&mixture, count);
    if (axis->choices) {
        mixture.choices = memory_zero((count + 1) * sizeof(double));
        for (size_t i = 0; i < count; i++)
            mixture.choices[i] = values[i];
        mixture.choices[count] = -1;
        return mixture;
    }
    mixture.low = transform(axis, axis->from - margin);
    mixture.high = transform(axis, axis->to + margin);
    mixture.centres = memory_zero((count + 1) * sizeof(double));
    mixture.widths = memory_zero((count + 1) * sizeof(double));
    for (size_t i = 0; i < count; i++)
        mixture.centres[i] = transform(axis, values[i]);
    mixture.centres[count] = 0.5 * mixture.low + 0.5 * mixture.high;
    fill_widths(&mixture);
    return mixture;
}

/* The probability of a standard normal number between a and b. */
static double normal_mass(double a, double b)
{
    return a > 0 ? normal_mass(-b, -a) : 0.5 * (erfc(-b * M_SQRT1_2) - erfc(-a * M_SQRT1_2));
}

static double kernel_density(const struct mixture *mixture, size_t kernel, double value,
                             bool integer)
{
    double centre, width, all;

    if (mixture->choices) { /* the prior's part of every kernel is spread over all choices */
        double spread = PRIOR_WEIGHT / (double)mixture->count;
        double own = mixture->choices[kernel] == value;

        return mixture->choices[kernel] < 0
                   ? 1 / (double)mixture->choice_count
                   : (spread + own) / (1 + spread * (double)mixture->choice_count);
    }
    centre = mixture->centres[kernel];
    width = mixture->widths[kernel];
    all = normal_mass((mixture->low - centre) / width, (mixture->high - centre) / width);
    if (integer)
        return normal_mass((value - 0.5 - centre) / width, (value + 0.5 - centre) / width) / all;
    value = (value - centre) / width; /* a square of the difference may be beyond a double */
    return exp(-0.5 * value * value) / width / all;
}

static double density(const struct mixture *mixture, double value, bool integer)
{
    double sum = 0;

    for (size_t i = 0; i < mixture->count; i++)
        sum += mixture->weights[i] * kernel_density(mixture, i, value, integer);
    return sum;
}

/* ---- candidates ------------------------------------------------------------------------------ */

static double uniform(uint32_t word)
{
    return ((double)word + 0.5) * 0x1p-32; /* in (0, 1) */
}

static size_t draw_kernel(const struct mixture *mixture, double u)
{
    size_t kernel = 0;

    for (; kernel + 1 < mixture->count && u >= mixture->weights[kernel]; kernel++)
        u -= mixture->weights[kernel];
    return kernel;
}

static double draw_choice(const struct mixture *mixture, size_t kernel, double u)
{
    size_t choice = 0;

    for (; choice + 1 < mixture->choice_count; choice++) {
        double part = kernel_density(mixture, kernel, (double)choice, false);

        if (u < part)
            break;
        u -= part;
    }
    return (double)choice;
}

/* Draws from a normal density until a number lies within the range. A centre lies there, too, so at
 * least a third of the draws do. */
static double draw_number(const struct mixture *mixture, size_t kernel, uint64_t seed,
                          uint64_t stream, uint64_t index)
{
    for (uint64_t draw = 0; draw < DRAWS_MAX; draw++) {
        struct philox bits = philox_draw(seed, stream, index + draw);
        double normal =
            sqrt(-2 * log(uniform(bits.word[2]))) * cos(2 * M_PI * uniform(bits.word[3]));
        double value = mixture->centres[kernel] + mixture->widths[kernel] * normal;

        if (value >= mixture->low && value <= mixture->high)
            return value;
    }
    return mixture->centres[kernel];
}

static double draw_candidate(const struct mixture *mixture, const struct parzen_axis *axis,
                             uint64_t seed, uint64_t stream, uint64_t index)
{
    struct philox bits = philox_draw(seed, stream, index);
    size_t kernel = draw_kernel(mixture, uniform(bits.word[0]));
    double value;

    if (axis->choices)
        return draw_choice(mixture, kernel, uniform(bits.word[1]));
    value = draw_number(mixture, kernel, seed, stream, index);
    return axis->integer ? fmin(fmax(round(value), axis->from), axis->to) : value;
}

double parzen_suggest(const struct parzen_axis *axis, const double *good, size_t good_count,
                      const double *bad, size_t bad_count, uint64_t seed, uint32_t axis_number,
                      uint32_t draw)
{
    uint64_t stream = philox_stream(PHILOX_PARZEN, axis_number);
    struct mixture better, worse;
    double chosen = 0, highest = -1;

    if (!axis->choices && axis->from == axis->to)
        return axis->from;
    better = mixture_make(axis, good, good_count);
    worse = mixture_make(axis, bad, bad_count);
    for (uint64_t i = 0; i < CANDIDATES; i++) {
        uint64_t index = ((uint64_t)draw * CANDIDATES + i) * DRAWS_MAX;
        double candidate = draw_candidate(&better, axis, seed, stream, index);
        double ratio = density(&better, candidate, axis->integer) /
                       fmax(density(&worse, candidate, axis->integer), 1e-300);

        if (ratio > highest) {
            highest = ratio;
            chosen = candidate;
        }
    }
    mixture_release(&better);
    mixture_release(&worse);
    if (axis->choices || axis->integer)
        return chosen;
    return fmin(fmax(axis->logarithmic ? exp(chosen) : chosen, axis->from), axis->to);
}
