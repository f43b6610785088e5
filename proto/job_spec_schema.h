/* job_spec_schema.h: the form of the table of keys (job_spec_schema.c); for the files of job_spec.h
 * only. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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
    const char *variants;                        /* separated by spaces; NULL: all */
    const char *fallback;                        /* the default as JSON; NULL: none */
    const struct job_spec_fallback *fallbacks;   /* by variant, ends with NULL */
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
    const char *variant_key; /* whose value decides which other keys apply; NULL: all of them do */
};

/* The keys of a whole specification. Its variants are "native" and "command", told apart by the
 * presence of the key `command`. */
extern const struct job_spec_section job_spec_schema;

const struct job_spec_key *job_spec_key_find(const struct job_spec_section *section,
                                             const char *name);
/* Whether the key applies to the variant; NULL is no variant. */
bool job_spec_key_applies(const struct job_spec_key *key, const char *variant);
/* The default's JSON for the variant, or NULL. */
const char *job_spec_key_fallback(const struct job_spec_key *key, const char *variant);
/* "an integer from 1 to 1000000": what the value must be, cut to `size`. Returns `output`. */
char *job_spec_key_describe(const struct job_spec_key *key, char *output, size_t size);
