/* job_spec_schema_table.h: macros for the rows of the table of keys, and the sections that several
 * files refer to. Only job_spec_schema*.c include it. */
#pragma once

#include "proto/job_spec_schema.h"
#include "proto/metric_kinds.h"

#define SECTION(name, variant)                              \
    static const struct job_spec_section name##_section = { \
        name##_keys, sizeof name##_keys / sizeof *name##_keys, variant, NULL}
/* A section whose variants name the keys that they have. */
#define SECTION_VARIANTS(name, variant)                     \
    static const struct job_spec_section name##_section = { \
        name##_keys, sizeof name##_keys / sizeof *name##_keys, variant, name##_variants}
#define VARIANT(name, traits, ...)                          \
    {                                                       \
        name, traits, (const struct job_spec_variant_key[]) \
        {                                                   \
            __VA_ARGS__,                                    \
            {                                               \
                NULL, NULL                                  \
            }                                               \
        }                                                   \
    }
#define VARIANTS_END  \
    {                 \
        NULL, 0, NULL \
    }
#define CHOICES(...) ((const char *const[]){__VA_ARGS__, NULL})
#define FALLBACKS(...) ((const struct job_spec_fallback[]){__VA_ARGS__, {NULL, NULL}})
#define ACTIVATIONS                                                                         \
    CHOICES("relu", "silu", "gelu", "tanh", "sigmoid", "hardswish", "hardsigmoid", "relu6", \
            "gelu_tanh", "mish", "softplus")
#define VALIDATION_METRIC(upper, lower, ...) "validation_" #lower,
#define METRICS \
    ((const char *const[]){"train_loss", "train_accuracy", METRIC_KINDS(VALIDATION_METRIC) NULL})

enum { WIDTH_MAX = 1000000, PATH_BYTES_MAX = 4095 };

extern const struct job_spec_section job_spec_model_section, job_spec_data_section,
    job_spec_train_section;
