/* sobol.c: see sobol.h. */
#include "daemon/work/sobol.h"

#include "base/philox.h"

#include <string.h>

enum { BITS = 32, DEGREE_MAX = 7 };

/* Of dimension 1 and above; dimension 0 is van der Corput's sequence. */
static const struct {
    uint8_t degree;                 /* of the primitive polynomial over GF(2) */
    uint8_t coefficients;           /* of its inner terms, the highest first */
    uint8_t directions[DEGREE_MAX]; /* the first direction numbers m */
} polynomials[SOBOL_DIMENSIONS_MAX - 1] = {
    {1, 0, {1}},
    {2, 1, {1, 3}},
    {3, 1, {1, 3, 1}},
    {3, 2, {1, 1, 1}},
    {4, 1, {1, 1, 3, 3}},
    {4, 4, {1, 3, 5, 13}},
    {5, 2, {1, 1, 5, 5, 17}},
    {5, 4, {1, 1, 5, 5, 5}},
    {5, 7, {1, 1, 7, 11, 19}},
    {5, 11, {1, 1, 5, 1, 1}},
    {5, 13, {1, 1, 1, 3, 11}},
    {5, 14, {1, 3, 5, 5, 31}},
    {6, 1, {1, 3, 3, 9, 7, 49}},
    {6, 13, {1, 1, 1, 15, 21, 21}},
    {6, 16, {1, 3, 1, 13, 27, 49}},
    {6, 19, {1, 1, 1, 15, 7, 5}},
    {6, 22, {1, 3, 1, 15, 13, 25}},
    {6, 25, {1, 1, 5, 5, 19, 61}},
    {7, 1, {1, 3, 7, 11, 23, 15, 103}},
    {7, 4, {1, 3, 7, 13, 13, 15, 69}},
    {7, 7, {1, 1, 3, 13, 7, 35, 63}},
    {7, 8, {1, 3, 5, 9, 1, 25, 53}},
    {7, 14, {1, 3, 1, 13, 9, 35, 107}},
    {7, 19, {1, 3, 1, 5, 27, 61, 31}},
    {7, 21, {1, 1, 5, 11, 19, 41, 61}},
    {7, 28, {1, 3, 5, 3, 3, 13, 69}},
    {7, 31, {1, 1, 7, 13, 1, 19, 1}},
    {7, 32, {1, 3, 7, 5, 13, 19, 59}},
    {7, 37, {1, 1, 3, 9, 25, 29, 41}},
    {7, 41, {1, 3, 5, 13, 23, 1, 55}},
    {7, 42, {1, 3, 7, 3, 13, 59, 17}},
};

/* Fills in the direction numbers as binary fractions: bit 31 is 1/2. */
static void find_directions(unsigned dimension, uint32_t directions[BITS])
{
    unsigned degree, coefficients;

    memset(directions, 0, BITS * sizeof *directions);
    if (dimension == 0) {
        for (unsigned bit = 0; bit < BITS; bit++)
            directions[bit] = 1u << (BITS - 1 - bit);
        return;
    }
    degree = polynomials[dimension - 1].degree;
    coefficients = polynomials[dimension - 1].coefficients;
    for (unsigned bit = 0; bit < degree && bit < DEGREE_MAX; bit++)
        directions[bit] = (uint32_t)polynomials[dimension - 1].directions[bit] << (BITS - 1 - bit);
    for (unsigned bit = degree; bit < BITS; bit++) { /* the recurrence (2) of Joe and Kuo */
        uint32_t direction = directions[bit - degree] ^ (directions[bit - degree] >> degree);

        for (unsigned term = 1; term < degree; term++)
            if (coefficients >> (degree - 1 - term) & 1)
                direction ^= directions[bit - term];
        directions[bit] = direction;
    }
}

/* Flips each bit or not, as a random function of the bits above it says. */
static uint32_t owen_scramble(uint32_t point, unsigned dimension, uint64_t seed)
{
    uint64_t stream = philox_stream(PHILOX_SOBOL, dimension);
    uint32_t scrambled = 0;

    for (unsigned bit = 0; bit < BITS; bit++) {
        uint64_t above = bit == 0 ? 0 : point >> (BITS - bit);
        uint32_t flip = philox_draw(seed, stream, (uint64_t)bit << 32 | above).word[0] & 1;

        scrambled |= ((point >> (BITS - 1 - bit) & 1) ^ flip) << (BITS - 1 - bit);
    }
    return scrambled;
}

double sobol_coordinate(uint32_t index, unsigned dimension, bool scramble, uint64_t seed)
{
    uint32_t directions[BITS], gray = index ^ (index >> 1), point = 0;

    find_directions(dimension, directions);
    for (unsigned bit = 0; bit < BITS; bit++)
        if (gray >> bit & 1)
            point ^= directions[bit];
    if (scramble)
        point = owen_scramble(point, dimension, seed);
    return (double)point * 0x1p-32;
}
