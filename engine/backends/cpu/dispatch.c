/* dispatch.c: finds the best of the kernels' tables that this processor can run
 * (kernels/kernels.h). */
#include "engine/backends/cpu/kernels/kernels.h"

#include <pthread.h>

extern const struct kernels kernels_baseline;
#if defined(__x86_64__)
extern const struct kernels kernels_v3, kernels_v4;
#endif

enum { LEVELS_MAX = 3 };
static const struct kernels *available[LEVELS_MAX + 1];

static void detect(void)
{
    int count = 0;

#if defined(__x86_64__)
    if (__builtin_cpu_supports("x86-64-v4"))
        available[count++] = &kernels_v4;
    if (__builtin_cpu_supports("x86-64-v3"))
        available[count++] = &kernels_v3;
#endif
    available[count] = &kernels_baseline;
}

const struct kernels *const *kernels_available(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, detect);
    return available;
}
