/* sample_types.h: the quantities that traind samples of devices and of the queue, with their string
 * table. */
#pragma once

#include "base/string_table.h"

/* The names are those of `quantity` in io.traind, and stand in the database. */
enum sample_quantity {
    SAMPLE_UTILISATION, /* part of the time that the device is busy */
    SAMPLE_MEMORY_USED, /* bytes */
    SAMPLE_TEMPERATURE, /* degrees Celsius */
    SAMPLE_POWER,       /* watts */
    SAMPLE_JOBS,        /* jobs that run or start on the device */
    SAMPLE_QUEUED,      /* of the queue: jobs in state queued */
    SAMPLE_RUNNING,     /* of the queue: jobs that have a device */
    SAMPLE_QUANTITIES
};
DECLARE_STRING_TABLE(sample_quantity, enum sample_quantity);

/* Whose quantities those of the queue are: no device has this id. */
#define SAMPLE_QUEUE ""
