/* sobol.h: points of a Sobol sequence, which fill a cube more evenly than random ones. The
 * direction numbers are those of S. Joe and F. Y. Kuo, "Constructing Sobol sequences with better
 * two-dimensional projections" (SIAM J. Sci. Comput. 30, 2008), file new-joe-kuo-6.21201, as
 * SciPy uses them. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { SOBOL_DIMENSIONS_MAX = 32 };

/* One coordinate, in [0, 1), of the point `index` of the sequence, in Gray-code order. `scramble`:
 * Owen's nested uniform scrambling (A. B. Owen, "Randomly permuted (t,m,s)-nets", 1995) by `seed`,
 * which keeps the points as even. Without it the first point is 0. */
double sobol_coordinate(uint32_t index, unsigned dimension, bool scramble, uint64_t seed);
