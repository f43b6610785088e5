/* sweep.c: see sweep.h. */
#include "daemon/work/sweep.h"

#include <stdlib.h>

void sweep_release(struct sweep *sweep)
{
    json_object_put(sweep->spec);
    sweep_points_free(sweep->values);
    free(sweep->user);
    *sweep = (struct sweep){0};
}
