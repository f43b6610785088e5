/* job_spec_schema.h: the types of the table of keys (job_spec_schema*.c). Only the files that
 * implement job_spec.h include it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { JOB_SPEC_VARIANTS_MAX = 256 }; /* bytes of a list of variants */

enum job_spec_type {
    JOB_SPEC_OBJECT,        /* keys of `section` */
    JOB_SPEC_OBJECTS,       /* array of such objects */
    JOB_SPEC_OBJECT_LISTS,  /* array of such arrays, each of any length */
    JOB_SPEC_BOOLEAN,       /* true or false */
    JOB_SPEC_INTEGER,       /* minimum … maximum, or one of `choices` if there are any */
    JOB_SPEC_NUMBER,        /* from … to */
    JOB_SPEC_DURATION,      /* "500 ms" or seconds; normalised to seconds; from … to */
    JOB_SPEC_BYTES,         /* "1.5 GiB" or bytes; normalised to bytes; minimum … maximum */
    JOB_SPEC_CHOICE,        /* one of `choices` */
    JOB_SPEC_METRIC,        /* one of `choices`, or validation_NAME_loss of a head */
    JOB_SPEC_SWITCH,        /* one of `choices`; true and false stand for yes and no */
    JOB_SPEC_TEXT,          /* count_minimum … count_maximum bytes */
    JOB_SPEC_NAME,          /* text without control characters */
    JOB_SPEC_ABSOLUTE_PATH, /* begins with "/" */
    JOB_SPEC_COLUMN,        /* text, or a number from 0; normalised to text */
    JOB_SPEC_TEXTS,         /* array of text, or one text; normalised to an array */
    JOB_SPEC_CHOICES,       /* array of members of `choices` */
    JOB_SPEC_INTEGERS,      /* array of count_minimum … count_maximum integers */
    JOB_SPEC_NUMBERS,       /* array of count_minimum … count_maximum numbers */
    JOB_SPEC_PAIR,          /* one integer or two (height, width); normalised to two */
    JOB_SPEC_VARIABLES,     /* object of texts: environment variables */
    JOB_SPEC_WEIGHTS,       /* "balanced", array of numbers, or object of numbers by label */
    JOB_SPEC_OPERATIONS,    /* array of "name" or "name:number", each of `operations` once */
    JOB_SPEC_INTERVAL,      /* "2 epochs", "500 steps" or a duration; normalised to an object */
    JOB_SPEC_DEPENDENCIES   /* jobs' numbers or objects; normalised to objects with "on" */
};

/* The default for one variant. */
struct job_spec_fallback {
    const char *variant, *json;
};

/* A key that a variant has, and its default as JSON; NULL: the default in the key's own row. */
struct job_spec_variant_key {
    const char *name, *fallback;
};

/* One value of a section's variant key (proto/optimizer_kinds.h and the like). */
struct job_spec_variant {
    const char *name;
    unsigned traits;                         /* for example, enum data_format_trait */
    const struct job_spec_variant_key *keys; /* ends with a NULL name */
};

/* An operation that a list of operations may hold. */
struct job_spec_operation {
    const char *name;
    const char *argument; /* name of the number after the operation's name; NULL: it takes none */
    double from, to;      /* inclusive */
    bool whole;           /* the number is an integer */
};

struct job_spec_section;

struct job_spec_key {
    const char *name;
    enum job_spec_type type;
    int64_t minimum, maximum; /* inclusive */
    double from, to;          /* inclusive, unless excluded by the next two members */
    bool above_from, below_to;
    size_t count_minimum, count_maximum;
    const char *const *choices;                  /* ends with NULL */
    const struct job_spec_operation *operations; /* ends with a NULL name */
    const struct job_spec_section *section;      /* of an object */
    /* that have the key, separated by spaces; NULL: the section's variants name their keys, and a
     * key that none of them names belongs to all */
    const char *variants;
    const char *fallback;                      /* the default as JSON; NULL: none */
    const struct job_spec_fallback *fallbacks; /* by variant, ends with NULL */
    bool required;
    bool counts_only;   /* of JOB_SPEC_INTERVAL: a duration is not allowed */
    bool list_only;     /* of JOB_SPEC_TEXTS: a single text is not allowed */
    bool null_is_value; /* null switches the key off instead of selecting the default */
    const char *unit;   /* NULL: none */
    const char *help;
};

struct job_spec_section {
    const struct job_spec_key *keys;
    size_t count;
    const char *variant_key; /* the key whose value decides which others apply; NULL: none */
    const struct job_spec_variant *variants; /* ends with a NULL name; NULL: the keys name theirs */
};

/* The keys of a whole specification. Its variants are "command", if the key `command` is present,
 * and "native". */
extern const struct job_spec_section job_spec_schema;

const struct job_spec_key *job_spec_key_find(const struct job_spec_section *section,
                                             const char *name);
/* The section's row for the variant, or NULL. */
const struct job_spec_variant *job_spec_variant_find(const struct job_spec_section *section,
                                                     const char *name);
/* Writes the variants that name the key, separated by spaces, cut to `size`. Returns `output`;
 * NULL: the key applies to all variants. */
char *job_spec_key_variants(const struct job_spec_section *section, const struct job_spec_key *key,
                            char *output, size_t size);
/* Whether the key applies to the variant; `variant` NULL: no variant is chosen. */
bool job_spec_key_applies(const struct job_spec_section *section, const struct job_spec_key *key,
                          const char *variant);
/* The default's JSON for the variant, or NULL. */
const char *job_spec_key_fallback(const struct job_spec_section *section,
                                  const struct job_spec_key *key, const char *variant);
/* Writes what the value must be, such as "an integer from 1 to 1000000", cut to `size`. Returns
 * `output`. */
char *job_spec_key_describe(const struct job_spec_key *key, char *output, size_t size);
