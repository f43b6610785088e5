/* sample_types.c: see sample_types.h. */
#include "daemon/types/sample_types.h"

static const char *const sample_quantity_names[] = {
    [SAMPLE_UTILISATION] = "utilisation",
    [SAMPLE_MEMORY_USED] = "memory_used",
    [SAMPLE_TEMPERATURE] = "temperature",
    [SAMPLE_POWER] = "power_watts",
    [SAMPLE_JOBS] = "jobs",
    [SAMPLE_QUEUED] = "queued",
    [SAMPLE_RUNNING] = "running",
};
DEFINE_STRING_TABLE(sample_quantity, enum sample_quantity, sample_quantity_names)
