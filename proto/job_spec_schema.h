/* job_spec_schema.h: the form of the table of keys (job_spec_schema.c); for the files of job_spec.h
 * only. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { JOB_SPEC_VARIANTS_MAX = 256 }; /* bytes of a list of variants */

enum job_spec_type {
    JOB_SPEC_OBJECT,        /* keys of `section` */
    JOB_SPEC_OBJECTS,       /* array of such objects */
    JOB_SPEC_BOOLEAN,       /* true or false */
    JOB_SPEC_INTEGER,       /* minimum … maximum, or one of `choices` where there are any */
    JOB_SPEC_NUMBER,        /* from … to */
    JOB_SPEC_DURATION,      /* "500 ms" or seconds; normalised to seconds; from … to */
    JOB_SPEC_BYTES,         /* "1.5 GiB" or bytes; normalised to bytes; minimum … maximum */
    JOB_SPEC_CHOICE,        /* one of `choices` */
    JOB_SPEC_SWITCH,        /* one of `choices`, true and false standing for yes and no */
    JOB_SPEC_TEXT,          /* count_minimum … count_maximum bytes */
    JOB_SPEC_NAME,          /* text without control characters */
    JOB_SPEC_ABSOLUTE_PATH, /* begins with "/" */
    JOB_SPEC_COLUMN,        /* text, or a number from 0; normalised to text */
    JOB_SPEC_TEXTS,         /* array of text, or one text; normalised to an array */
    JOB_SPEC_CHOICES,       /* array of some of `choices` */
    JOB_SPEC_INTEGERS,      /* array of count_minimum … count_maximum integers */
    JOB_SPEC_NUMBERS,       /* array of count_minimum … count_maximum numbers */
    JOB_SPEC_PAIR,          /* one integer or two (height, width); normalised to two */
    JOB_SPEC_VARIABLES,     /* object of texts: environment variables */
    JOB_SPEC_OPERATIONS,    /* array of "name" or "name:number", each of `operations` once */
    JOB_SPEC_INTERVAL,      /* "2 epochs", "500 steps" or a duration; normalised to an object */
    JOB_SPEC_DEPENDENCIES   /* jobs' numbers or objects; normalised to objects with "on" */
};

/* The default for one variant. */
struct job_spec_fallback {
    const char *variant, *json;
};

/* A key that a variant has; its default as JSON, NULL: the key's own. */
struct job_spec_variant_key {
    const char *name, *fallback;
};

/* One value of a section's variant key (proto/optimizer_kinds.h and the like). */
struct job_spec_variant {
    const char *name;
    unsigned traits;                         /* such as enum data_format_trait */
    const struct job_spec_variant_key *keys; /* ends with a NULL name */
};

/* One of what a list of operations may hold. */
struct job_spec_operation {
    const char *name;
    const char *argument; /* what the number behind the name is called; NULL: there is none */
    double from, to;      /* inclusive */
    bool whole;           /* the number is an integer */
};

struct job_spec_section;

struct job_spec_key {
    const char *name;
    enum job_spec_type type;
    int64_t minimum, maximum; /* inclusive */
    double from, to;          /* inclusive, unless the next ones say otherwise */
    bool above_from, below_to;
    size_t count_minimum, count_maximum;
    const char *const *choices;                  /* ends with NULL */
    const struct job_spec_operation *operations; /* ends with a NULL name */
    const struct job_spec_section *section;      /* of an object */
    const char *variants; /* that have the key, separated by spaces; NULL: as the section's rows
                             of variants say, and all where none of them names it */
    const char *fallback; /* the default as JSON; NULL: none */
    const struct job_spec_fallback *fallbacks; /* by variant, ends with NULL */
    bool required;
    bool counts_only;   /* of JOB_SPEC_INTERVAL: no time */
    bool list_only;     /* of JOB_SPEC_TEXTS: one text alone will not do */
    bool null_is_value; /* null switches it off instead of asking for the default */
    const char *unit;   /* NULL: none */
    const char *help;
};

struct job_spec_section {
    const struct job_spec_key *keys;
    size_t count;
    const char *variant_key; /* whose value decides which other keys apply; NULL: none */
    const struct job_spec_variant *variants; /* end with a NULL name; NULL: the keys name theirs */
};

/* The keys of a whole specification. Its variants are "native" and "command", told apart by the
 * presence of the key `command`. */
extern const struct job_spec_section job_spec_schema;

const struct job_spec_key *job_spec_key_find(const struct job_spec_section *section,
                                             const char *name);
/* The section's row of the variant; NULL: there is none. */
const struct job_spec_variant *job_spec_variant_find(const struct job_spec_section *section,
                                                     const char *name);
/* The variants that name the key, separated by spaces, cut to `size`. Returns `output`; NULL: the
 * key applies to all, whether they name it or not. */
char *job_spec_key_variants(const struct job_spec_section *section, const struct job_spec_key *key,
                            char *output, size_t size);
/* Whether the key applies to the variant; NULL is no variant. */
bool job_spec_key_applies(const struct job_spec_section *section, const struct job_spec_key *key,
                          const char *variant);
/* The default's JSON for the variant, or NULL. */
const char *job_spec_key_fallback(const struct job_spec_section *section,
                                  const struct job_spec_key *key, const char *variant);
/* "an integer from 1 to 1000000": what the value must be, cut to `size`. Returns `output`. */
char *job_spec_key_describe(const struct job_spec_key *key, char *output, size_t size);
