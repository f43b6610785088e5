/* string_table.h: one table per enum serves both directions.
 *
 *   static const char *const job_state_names[] = { [JOB_QUEUED] = "queued", … };
 *   DEFINE_STRING_TABLE(job_state, enum job_state, job_state_names)
 *
 * defines job_state_to_string() (NULL: not in the table) and job_state_from_string() (-1: unknown
 * name). DECLARE_STRING_TABLE belongs in the header. */
#pragma once

#include <stddef.h>
#include <string.h>

#define DECLARE_STRING_TABLE(prefix, type)      \
    const char *prefix##_to_string(type value); \
    int prefix##_from_string(const char *name)

#define DEFINE_STRING_TABLE(prefix, type, table)                                 \
    const char *prefix##_to_string(type value)                                   \
    {                                                                            \
        size_t index = (size_t)value;                                            \
        return index < sizeof(table) / sizeof(table)[0] ? (table)[index] : NULL; \
    }                                                                            \
    int prefix##_from_string(const char *name)                                   \
    {                                                                            \
        for (size_t i = 0; i < sizeof(table) / sizeof(table)[0]; i++)            \
            if ((table)[i] && strcmp((table)[i], name) == 0)                     \
                return (int)i;                                                   \
        return -1;                                                               \
    }
